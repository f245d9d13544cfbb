//! What the manual page of each verb says beside its options: the exit status, and examples. A test tries the examples on the
//! command line's grammar.

use std::fmt::Write as _;

use super::manual::inline;

/// The end of a verb's manual page.
pub(crate) struct VerbPage {
    pub(crate) verb: &'static str,
    /// What the numbers mean here, beside those that mean the same everywhere.
    exits: &'static [(u8, &'static str)],
    /// What is typed, and what for.
    pub(crate) examples: &'static [(&'static str, &'static str)],
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
pub(crate) const VERB_PAGES: &[VerbPage] = &[
    VerbPage {
        verb: "check",
        exits: &[
            (0, "It works: fine, or slower or noisier without a change."),
            (
                4,
                "It cannot work; with --fail-on warning also what is slower or noisier without a change.",
            ),
            (
                5,
                "Unknown: part of it could not be judged. 0 with --fail-on error.",
            ),
            (
                78,
                "Only Windrow's own configuration, or the accepted findings, are wrong.",
            ),
        ],
        examples: &[
            (
                "windrow check harvester-config.yaml",
                "One verdict over one node's configuration.",
            ),
            (
                "windrow check --fail-on=warning --write=sarif=check.sarif manifests/",
                "In a pipeline, with a report for the code host.",
            ),
            (
                "windrow check --node n1=first.yaml --node n2=second.yaml",
                "Two nodes of one cluster.",
            ),
        ],
    },
    VerbPage {
        verb: "plan",
        exits: &[
            (0, "No error was found."),
            (4, "It cannot work: at least one error."),
            (5, "Not everything was looked at."),
            (78, "Bad settings or rules."),
        ],
        examples: &[
            (
                "windrow plan",
                "What the node's own manifests directory will do.",
            ),
            (
                "windrow plan -o svg harvester-config.yaml",
                "The plan as a picture.",
            ),
        ],
    },
    VerbPage {
        verb: "rehearse",
        exits: &[
            (0, "Every node comes up with Windrow in every seed."),
            (
                4,
                "One does not, or something is proved to keep it from working.",
            ),
            (
                5,
                "Whether it comes up is not known, or the time was up before all seeds were played.",
            ),
            (78, "Bad settings or rules."),
        ],
        examples: &[
            (
                "windrow rehearse harvester-config.yaml --harvester v1.6.0",
                "A boot with a version of Harvester.",
            ),
            (
                "windrow rehearse -o html harvester-config.yaml",
                "The same as a page.",
            ),
        ],
    },
    VerbPage {
        verb: "run",
        exits: &[
            (0, "It was asked to stop; in the sandbox, the node came up."),
            (4, "In the sandbox, the node did not come up."),
            (75, "Another daemon runs on this node already."),
        ],
        examples: &[(
            "windrow run --sandbox",
            "The same daemon over a simulated node in a directory.",
        )],
    },
    VerbPage {
        verb: "status",
        exits: STATE,
        examples: &[
            ("windrow status", "What the node is, and why."),
            ("windrow status --json", "The status document."),
            (
                "windrow status --watch",
                "A line for each change, with time and host.",
            ),
        ],
    },
    VerbPage {
        verb: "why",
        exits: STATE,
        examples: &[
            (
                "windrow why 00-registry.yaml",
                "What a file waits for, down to what blocks everything.",
            ),
            (
                "windrow why VirtualMachine orchard/registry",
                "The same of an object.",
            ),
            (
                "windrow why addon-collision",
                "What a code means, and where this node shows it.",
            ),
        ],
    },
    VerbPage {
        verb: "wait",
        exits: STATE,
        examples: &[
            (
                "windrow wait --for ready --timeout 30m",
                "In a script, until the node is Ready or Degraded.",
            ),
            (
                "windrow wait --for applied=web-vm.yaml",
                "Until RKE2 has applied a file. One that is not there is refused.",
            ),
        ],
    },
    VerbPage {
        verb: "console",
        exits: &[
            (0, "It was left; the unit is printed."),
            (4, "Harvester's console has no terminal."),
            (5, "The kernel's consoles are not known."),
        ],
        examples: &[
            ("windrow console", "The full-screen view."),
            ("windrow console --once", "One line for another console."),
            (
                "windrow console --unit",
                "The unit whose terminal has Harvester's own console.",
            ),
        ],
    },
    VerbPage {
        verb: "stage",
        exits: &[
            (0, "The files lie in the manifests directory."),
            (4, "A file has an error: nothing was written."),
        ],
        examples: &[(
            "windrow stage app.yaml",
            "Adds a manifest to a running node; it is held before RKE2 can read it.",
        )],
    },
    VerbPage {
        verb: "hold",
        exits: &[(0, "It is held, or will be when the daemon starts.")],
        examples: &[(
            "windrow hold app.yaml --reason maintenance",
            "Keeps a file from RKE2, with who and why.",
        )],
    },
    VerbPage {
        verb: "release",
        exits: &[(0, "It is released."), (4, "Something is still held.")],
        examples: &[
            (
                "windrow release app.yaml",
                "Lets RKE2 apply a file, whatever it waits for.",
            ),
            (
                "windrow release --all",
                "Lets RKE2 apply everything that Windrow holds.",
            ),
        ],
    },
    VerbPage {
        verb: "gates",
        exits: &[
            (0, "Every component would start; the change is in effect."),
            (4, "One would not start; the change was rolled back."),
            (
                5,
                "The version that will start is not known, or not everything was looked at.",
            ),
            (78, "Bad configuration."),
        ],
        examples: &[
            (
                "windrow gates check --target v1.35",
                "Before an upgrade: would everything start with the gates that are set?",
            ),
            (
                "windrow gates check harvester-config.yaml",
                "Before the image is burned.",
            ),
        ],
    },
    VerbPage {
        verb: "drain-check",
        exits: &[
            (0, "The drain would finish."),
            (4, "It would not, and it says why."),
            (5, "That is not known."),
        ],
        examples: &[
            (
                "windrow drain-check n1",
                "Would a drain of this node finish?",
            ),
            (
                "windrow drain-check --all",
                "Of which nodes would it not? The worst decides the exit status.",
            ),
        ],
    },
    VerbPage {
        verb: "preflight",
        exits: &[
            (0, "Nothing is known that is against this machine."),
            (4, "It cannot become what is wanted."),
            (5, "Something that counts is not known."),
            (78, "The configuration cannot be read."),
        ],
        examples: &[
            (
                "windrow preflight harvester-config.yaml",
                "Can this machine become that node?",
            ),
            (
                "windrow preflight --platform harvester --version v1.8.1 --role witness",
                "Without a configuration.",
            ),
            (
                "windrow preflight --platform rke2 --production --disk-test /mnt",
                "Against what is recommended, and with writes to a disk of your choice.",
            ),
            (
                "windrow preflight -o json harvester-config.yaml",
                "For an inventory; saved, --host judges it again elsewhere.",
            ),
        ],
    },
    VerbPage {
        verb: "rack",
        exits: &[
            (0, "All nodes are ready; or the service was ended."),
            (3, "Some are on their way, or never came."),
            (4, "At least one has failed."),
            (
                5,
                "None has failed, and at least one is unknown or silent; or nothing is known of any.",
            ),
            (75, "Another rack has its state."),
            (78, "The list of nodes or a token cannot be used."),
        ],
        examples: &[
            (
                "windrow rack --nodes rack1.csv",
                "Take events on loopback, serve the page, show the table.",
            ),
            (
                "windrow rack --listen 10.0.0.5:9347 --token-file token --state /var/lib/rack",
                "For nodes that report to this machine, with a memory.",
            ),
            ("windrow rack --once -o json", "What the running one knows."),
            (
                "windrow rack --wait ready --timeout 45m --nodes rack1.csv",
                "For scripts.",
            ),
        ],
    },
    VerbPage {
        verb: "vip-check",
        exits: &[
            (0, "Nobody else uses the address."),
            (4, "Another machine does, or is about to."),
            (
                5,
                "It could not be looked for: no right to, no link, an IPv6 address.",
            ),
        ],
        examples: &[
            (
                "windrow vip-check --config harvester-config.yaml",
                "Before the installation: is the VIP free?",
            ),
            (
                "windrow vip-check 10.0.0.10 --interface eth0",
                "Any address, on a link of your choice.",
            ),
        ],
    },
    VerbPage {
        verb: "upgrade-check",
        exits: &[
            (0, "Nothing known is against the upgrade."),
            (
                4,
                "Harvester would refuse it, or it would begin and not end.",
            ),
            (5, "That is not known."),
        ],
        examples: &[(
            "windrow upgrade-check --to v1.8.2",
            "Would Harvester let the upgrade begin, and would it end?",
        )],
    },
    VerbPage {
        verb: "diagnose",
        exits: &[
            (0, "No known incident."),
            (4, "At least one."),
            (5, "None among what could be judged."),
        ],
        examples: &[(
            "windrow diagnose",
            "Known incidents, with what was seen and what to do.",
        )],
    },
    VerbPage {
        verb: "repair",
        exits: &[
            (0, "It is repaired or undone, or nothing was to be done."),
            (
                4,
                "The repair failed or did not help, or part of an undo was left because it was changed since.",
            ),
            (5, "The cluster cannot be asked."),
            (
                6,
                "kube-apiserver or a webhook would refuse it: nothing was changed.",
            ),
        ],
        examples: &[
            (
                "windrow repair addon-stuck --dry-run",
                "Shows the requests that the cure would make, and whether they would be taken.",
            ),
            (
                "windrow repair --undo",
                "Undoes the newest repair, where nobody has changed anything since.",
            ),
        ],
    },
    VerbPage {
        verb: "config",
        exits: &[
            (0, "No error."),
            (5, "Not everything was looked at."),
            (78, "Bad settings or rules."),
        ],
        examples: &[
            (
                "windrow config show --origin",
                "What is in force, and which file says so.",
            ),
            (
                "windrow config check conf.d rules.d",
                "Every mistake, with file and line.",
            ),
        ],
    },
    VerbPage {
        verb: "replay",
        exits: &[
            (0, "Every decision comes out as it was recorded."),
            (4, "One differs."),
            (5, "Played with another version, its end is not known."),
            (78, "Bad rules."),
        ],
        examples: &[(
            "windrow replay flight.jsonl",
            "Makes the recorded decisions again.",
        )],
    },
    VerbPage {
        verb: "blame",
        exits: &[
            (0, "The boot came to its end."),
            (3, "It is not at its end, as far as the flight goes."),
            (4, "It failed."),
            (5, "There is no flight, or nothing was decided in it."),
        ],
        examples: &[
            (
                "windrow blame",
                "What decided when this node's last boot ended.",
            ),
            ("windrow blame --boot -1", "The same of the boot before it."),
            (
                "windrow blame report.tar.gz",
                "Of a node from which there is only a report.",
            ),
        ],
    },
    VerbPage {
        verb: "learn",
        exits: &[
            (0, "Everything that was named was read and merged."),
            (
                5,
                "Some of it could not be read, each with its reason on standard error; the rest is merged. Or no boot is in it.",
            ),
        ],
        examples: &[
            (
                "windrow learn reports/ -o learned.yaml",
                "Learns from every flight and report below a directory.",
            ),
            (
                "windrow learn learned.yaml report.tar.gz -o learned.yaml",
                "Adds a boot to what is known.",
            ),
            (
                "windrow learn --backtest reports/",
                "How true is it? Each boot predicted from the others.",
            ),
        ],
    },
    VerbPage {
        verb: "knowledge",
        exits: &[
            (0, "It is shown."),
            (5, "Nothing is known of what was to be explained."),
            (78, "A rule pack or a knowledge file is wrong."),
        ],
        examples: &[
            ("windrow knowledge show", "Everything that is known here."),
            (
                "windrow knowledge explain Widget.example.com",
                "Who brings a kind, after how long, and from where that is known.",
            ),
            (
                "windrow knowledge diff old.yaml new.yaml",
                "What two knowledge files say differently.",
            ),
        ],
    },
    VerbPage {
        verb: "cleanup",
        exits: &[(0, "What Windrow made is taken away.")],
        examples: &[("windrow cleanup", "Before the package is removed.")],
    },
    VerbPage {
        verb: "report",
        exits: &[(0, "The archive is written.")],
        examples: &[(
            "windrow report -o report.tar.gz",
            "One redacted archive for who cannot log in.",
        )],
    },
];

/// What a node or a file is.
const STATE: &[(u8, &str)] = &[
    (0, "Ready; released; as it should be."),
    (3, "Not yet."),
    (4, "Failed."),
    (5, "Not known, for example because the daemon does not run."),
];

/// What follows the options on the page of a verb.
pub(crate) fn rest_of_page(verb: &str) -> String {
    let page = VERB_PAGES.iter().find(|page| page.verb == verb);
    let page =
        page.unwrap_or_else(|| panic!("windrow-{verb}(1) has no exit status and no examples"));
    let mut exits = [page.exits, &EVERYWHERE].concat();
    exits.sort_unstable();
    let mut out = String::from(".SH \"EXIT STATUS\"\n");
    for (number, means) in exits {
        let _ = write!(out, ".TP\n\\fB{number}\\fR\n{}\n", inline(means));
    }
    out.push_str(".SH EXAMPLES\n");
    for (command, what) in page.examples {
        let _ = write!(out, ".TP\n\\fB{}\\fR\n{}\n", inline(command), inline(what));
    }
    out.push_str(".SH \"SEE ALSO\"\n\\fBwindrow\\fR(1)\n");
    out
}
