//! The exit status on each verb's manual page, and its examples, which are those of its help.

use std::fmt::Write as _;

use windrow::cli::help::GROUPS;

use super::manual::inline;

/// The end of a verb's manual page.
pub(crate) struct VerbPage {
    verb: &'static str,
    /// The exit codes with a special meaning for this verb.
    exits: &'static [(u8, &'static str)],
}

/// They mean the same for every verb.
const EVERYWHERE: [(u8, &str); 2] = [
    (
        1,
        "An error of the system, such as a file that cannot be written.",
    ),
    (
        64,
        "Wrong use of the command line, or a file that cannot be read.",
    ),
];

/// Every verb that has a page.
const VERB_PAGES: &[VerbPage] = &[
    VerbPage {
        verb: "check",
        exits: &[
            (0, "The verdict is pass or warn."),
            (4, "The verdict is fail; with --fail-on warning also warn."),
            (
                5,
                "The verdict is unknown, because Windrow could not judge a part. 0 with --fail-on error.",
            ),
            (
                78,
                "The only errors are in Windrow's own configuration or in the accepted findings.",
            ),
        ],
    },
    VerbPage {
        verb: "plan",
        exits: &[
            (0, "Windrow found no error."),
            (4, "There is at least one error."),
            (5, "Windrow could not check everything."),
            (78, "Bad settings or rules."),
        ],
    },
    VerbPage {
        verb: "sandbox",
        exits: &[
            (0, "The node came up, or you stopped it."),
            (4, "The node did not come up."),
        ],
    },
    VerbPage {
        verb: "status",
        exits: STATE,
    },
    VerbPage {
        verb: "why",
        exits: STATE,
    },
    VerbPage {
        verb: "wait",
        exits: STATE,
    },
    VerbPage {
        verb: "console",
        exits: &[
            (0, "You left the console; Windrow printed the unit."),
            (4, "Harvester's console has no terminal."),
            (5, "Windrow cannot read the kernel's consoles."),
        ],
    },
    VerbPage {
        verb: "add",
        exits: &[
            (0, "The files are in the manifests directory."),
            (4, "A file has an error; Windrow wrote nothing."),
        ],
    },
    VerbPage {
        verb: "hold",
        exits: &[(0, "The file is held, or will be when the daemon starts.")],
    },
    VerbPage {
        verb: "release",
        exits: &[(0, "The files are released."), (4, "A file is still held.")],
    },
    VerbPage {
        verb: "gates",
        exits: &[
            (
                0,
                "Nothing that was checked keeps a component from starting, or the change is in effect.",
            ),
            (
                4,
                "A component would not start, or the change was rolled back.",
            ),
            (
                5,
                "Windrow cannot tell which version will start, or could not check everything.",
            ),
            (78, "Bad configuration."),
        ],
    },
    VerbPage {
        verb: "drain-check",
        exits: &[
            (0, "The drain would finish."),
            (
                4,
                "The drain would not finish; the output gives the reason.",
            ),
            (5, "Windrow cannot tell."),
        ],
    },
    VerbPage {
        verb: "preflight",
        exits: &[
            (0, "No check failed."),
            (4, "This host does not meet the requirements."),
            (
                5,
                "Windrow cannot tell, because an important value is unknown.",
            ),
            (78, "Windrow cannot read the configuration."),
        ],
    },
    VerbPage {
        verb: "rack",
        exits: &[
            (0, "All nodes are ready, or you stopped the service."),
            (3, "Some nodes are setting up, or never reported."),
            (4, "At least one node has failed."),
            (
                5,
                "No node has failed, but at least one is unknown or silent, or there are no nodes.",
            ),
            (75, "Another rack uses this state directory."),
            (78, "The list of nodes or a token is not valid."),
        ],
    },
    VerbPage {
        verb: "upgrade-check",
        exits: &[
            (0, "Windrow found no reason against the upgrade."),
            (
                4,
                "Harvester would refuse the upgrade, or it would start and not finish.",
            ),
            (5, "Windrow cannot tell."),
        ],
    },
    VerbPage {
        verb: "diagnose",
        exits: &[
            (0, "There is no known incident."),
            (4, "There is at least one known incident."),
            (
                5,
                "There is no known incident, but Windrow could not check all of them.",
            ),
        ],
    },
    VerbPage {
        verb: "repair",
        exits: &[
            (
                0,
                "The repair or the undo succeeded, or nothing had to be done.",
            ),
            (
                4,
                "The repair failed or did not help, or the undo skipped a value that has changed since.",
            ),
            (5, "Windrow cannot reach the cluster."),
            (
                6,
                "kube-apiserver or a webhook would refuse the repair. Windrow changed nothing.",
            ),
        ],
    },
    VerbPage {
        verb: "config",
        exits: &[
            (0, "There is no error."),
            (5, "Windrow could not check everything."),
            (78, "Bad settings or rules."),
        ],
    },
    VerbPage {
        verb: "replay",
        exits: &[
            (0, "All decisions are as recorded."),
            (4, "At least one decision differs."),
            (5, "Windrow cannot tell the result with the other version."),
            (78, "Bad rules."),
        ],
    },
    VerbPage {
        verb: "timeline",
        exits: &[
            (0, "The boot is complete."),
            (3, "The boot was not complete at the end of the boot log."),
            (4, "The boot failed."),
            (5, "There is no boot log, or it has no decisions."),
        ],
    },
    VerbPage {
        verb: "knowledge",
        exits: &[
            (0, "It is shown. Or every named input was read and merged."),
            (
                5,
                "`learn` could not read an input; the reason is on standard error, and the rest is merged. Or no input has a boot.",
            ),
            (78, "A rule pack or a knowledge file is wrong."),
        ],
    },
    VerbPage {
        verb: "cleanup",
        exits: &[(0, "Windrow removed its changes.")],
    },
    VerbPage {
        verb: "completion",
        exits: &[(0, "Windrow printed the completions.")],
    },
    VerbPage {
        verb: "version",
        exits: &[(0, "Windrow printed its version.")],
    },
    VerbPage {
        verb: "report",
        exits: &[(0, "Windrow wrote the archive.")],
    },
];

/// The state of a node or a file.
const STATE: &[(u8, &str)] = &[
    (0, "The node or file has reached its state."),
    (3, "Not yet."),
    (4, "Failed."),
    (5, "Unknown, for example because the daemon does not run."),
];

fn examples_of(verb: &str) -> &'static [(&'static str, &'static str)] {
    let mut verbs = GROUPS.iter().flat_map(|group| group.verbs);
    verbs
        .find(|help| help.verb == verb)
        .map_or(&[], |help| help.examples)
}

/// What follows the options on the page of a verb.
pub(crate) fn rest_of_page(verb: &str) -> String {
    let page = VERB_PAGES.iter().find(|page| page.verb == verb);
    let page = page.unwrap_or_else(|| panic!("windrow-{verb}(1) has no exit status"));
    let mut exits = [page.exits, &EVERYWHERE].concat();
    exits.sort_unstable();
    let mut out = String::from(".SH \"EXIT STATUS\"\n");
    for (number, means) in exits {
        let _ = write!(out, ".TP\n\\fB{number}\\fR\n{}\n", inline(means));
    }
    out.push_str(".SH EXAMPLES\n");
    for (command, what) in examples_of(verb) {
        let _ = write!(out, ".TP\n\\fB{}\\fR\n{}\n", inline(command), inline(what));
    }
    out.push_str(".SH \"SEE ALSO\"\n\\fBwindrow\\fR(1)\n");
    out
}
