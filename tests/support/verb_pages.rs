//! The exit status and the examples on each verb's manual page. A test parses the examples as command lines.

use std::fmt::Write as _;

use super::manual::inline;

/// The end of a verb's manual page.
pub(crate) struct VerbPage {
    pub(crate) verb: &'static str,
    /// The exit codes with a special meaning for this verb.
    exits: &'static [(u8, &'static str)],
    /// A command line and its purpose.
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
            (
                0,
                "The verdict is fine, or slower or noisier without a change.",
            ),
            (
                4,
                "The verdict is cannot work; with --fail-on warning also slower or noisier without a change.",
            ),
            (
                5,
                "The verdict is unknown, because Windrow could not judge a part. 0 with --fail-on error.",
            ),
            (
                78,
                "The only errors are in Windrow's own configuration or in the accepted findings.",
            ),
        ],
        examples: &[
            (
                "windrow check harvester-config.yaml",
                "Check the configuration of one node.",
            ),
            (
                "windrow check --fail-on=warning --write=sarif=check.sarif manifests/",
                "Check a directory in a pipeline, and write a report for the code host.",
            ),
            (
                "windrow check --node n1=first.yaml --node n2=second.yaml",
                "Check two nodes of one cluster.",
            ),
        ],
    },
    VerbPage {
        verb: "plan",
        exits: &[
            (0, "Windrow found no error."),
            (4, "There is at least one error: it cannot work."),
            (5, "Windrow could not check everything."),
            (78, "Bad settings or rules."),
        ],
        examples: &[
            (
                "windrow plan",
                "Show the plan for this node's manifests directory.",
            ),
            (
                "windrow plan -o svg harvester-config.yaml",
                "Draw the plan as a picture.",
            ),
        ],
    },
    VerbPage {
        verb: "rehearse",
        exits: &[
            (
                0,
                "With Windrow, every node comes up in every simulated boot.",
            ),
            (
                4,
                "A node does not come up, or an error makes this impossible.",
            ),
            (
                5,
                "Windrow cannot tell whether a node comes up, or the time ended before all boots were simulated.",
            ),
            (78, "Bad settings or rules."),
        ],
        examples: &[
            (
                "windrow rehearse harvester-config.yaml --harvester v1.6.0",
                "Simulate a boot with this version of Harvester.",
            ),
            (
                "windrow rehearse -o html harvester-config.yaml",
                "Write the result as an HTML page.",
            ),
        ],
    },
    VerbPage {
        verb: "sandbox",
        exits: &[
            (0, "The node came up, or you stopped it."),
            (4, "The node did not come up."),
        ],
        examples: &[
            ("windrow sandbox", "Boot the example in a new directory."),
            (
                "windrow sandbox node --config harvester-config.yaml --pause-at ready",
                "Boot your own configuration in node/, and stop at the end to look around.",
            ),
        ],
    },
    VerbPage {
        verb: "status",
        exits: STATE,
        examples: &[
            ("windrow status", "Show the node's state and its reason."),
            ("windrow status --json", "Print the status document."),
            (
                "windrow status --watch",
                "Print a line with time and host for each change.",
            ),
        ],
    },
    VerbPage {
        verb: "why",
        exits: STATE,
        examples: &[
            (
                "windrow why 00-registry.yaml",
                "Show the dependencies of a file, down to the root cause.",
            ),
            (
                "windrow why VirtualMachine orchard/registry",
                "Show the same for an object.",
            ),
            (
                "windrow why addon-collision",
                "Explain a code, and list its occurrences on this node.",
            ),
        ],
    },
    VerbPage {
        verb: "wait",
        exits: STATE,
        examples: &[
            (
                "windrow wait --for ready --timeout 30m",
                "Wait in a script until the node is Ready or Degraded.",
            ),
            (
                "windrow wait --for applied=web-vm.yaml",
                "Wait until RKE2 has applied a file. The file must exist.",
            ),
        ],
    },
    VerbPage {
        verb: "console",
        exits: &[
            (0, "You left the console; Windrow printed the unit."),
            (4, "Harvester's console has no terminal."),
            (5, "Windrow cannot read the kernel's consoles."),
        ],
        examples: &[
            ("windrow console", "Show the full-screen view."),
            (
                "windrow console --once",
                "Print one line for another console.",
            ),
            (
                "windrow console --unit",
                "Print the unit of the terminal with Harvester's own console.",
            ),
        ],
    },
    VerbPage {
        verb: "stage",
        exits: &[
            (0, "The files are in the manifests directory."),
            (4, "A file has an error; Windrow wrote nothing."),
        ],
        examples: &[(
            "windrow stage app.yaml",
            "Add a manifest to a running node. Windrow holds it before RKE2 can read it.",
        )],
    },
    VerbPage {
        verb: "hold",
        exits: &[(0, "The file is held, or will be when the daemon starts.")],
        examples: &[(
            "windrow hold app.yaml --reason maintenance",
            "Hold a file, and record your name and the reason.",
        )],
    },
    VerbPage {
        verb: "release",
        exits: &[(0, "The files are released."), (4, "A file is still held.")],
        examples: &[
            (
                "windrow release app.yaml",
                "Let RKE2 apply a file, even if its dependencies are missing.",
            ),
            (
                "windrow release --all",
                "Let RKE2 apply all files that Windrow holds.",
            ),
        ],
    },
    VerbPage {
        verb: "gates",
        exits: &[
            (
                0,
                "Every component would start, or the change is in effect.",
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
        examples: &[
            (
                "windrow gates check --target v1.35",
                "Check before an upgrade whether every component would start with the current gates.",
            ),
            (
                "windrow gates check harvester-config.yaml",
                "Check before you burn the image.",
            ),
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
        examples: &[
            (
                "windrow drain-check n1",
                "Check whether a drain of this node would finish.",
            ),
            (
                "windrow drain-check --all",
                "Check all nodes. The worst one decides the exit status.",
            ),
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
        examples: &[
            (
                "windrow preflight harvester-config.yaml",
                "Check whether this host can become this node.",
            ),
            (
                "windrow preflight --platform harvester --version v1.8.1 --role witness",
                "Check without a configuration.",
            ),
            (
                "windrow preflight --platform rke2 --production --disk-test /mnt",
                "Check against the recommended values, and measure writes to a disk of your choice.",
            ),
            (
                "windrow preflight -o json harvester-config.yaml",
                "Print the result for an inventory. If you save it, --host judges it on another host.",
            ),
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
        examples: &[
            (
                "windrow rack --nodes rack1.csv",
                "Accept events on loopback, serve the page, and show the table.",
            ),
            (
                "windrow rack --listen 10.0.0.5:9347 --token-file token --state /var/lib/rack",
                "Accept events from nodes on the network, and keep the state.",
            ),
            (
                "windrow rack --once -o json",
                "Print the state of the running rack.",
            ),
            (
                "windrow rack --wait ready --timeout 45m --nodes rack1.csv",
                "Wait in a script until all nodes are ready.",
            ),
        ],
    },
    VerbPage {
        verb: "vip-check",
        exits: &[
            (0, "No other host uses the address."),
            (4, "Another host uses it, or is about to."),
            (
                5,
                "The check was not possible: no CAP_NET_RAW, no interface, or a link-local IPv6 address.",
            ),
        ],
        examples: &[
            (
                "windrow vip-check --config harvester-config.yaml",
                "Check before the installation whether the VIP is free.",
            ),
            (
                "windrow vip-check 10.0.0.10 --interface eth0",
                "Check any address on an interface of your choice.",
            ),
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
        examples: &[(
            "windrow upgrade-check --to v1.8.2",
            "Check whether Harvester would accept the upgrade, and whether it would finish.",
        )],
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
        examples: &[(
            "windrow diagnose",
            "Show known incidents with their evidence and fix.",
        )],
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
        examples: &[
            (
                "windrow repair addon-stuck --dry-run",
                "Show the requests of the repair, and whether kube-apiserver would accept them.",
            ),
            (
                "windrow repair --undo",
                "Undo the newest repair, except for values that have changed since.",
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
        examples: &[
            (
                "windrow config show --origin",
                "Show the effective values, and the file that sets each.",
            ),
            (
                "windrow config check conf.d rules.d",
                "List all mistakes with file and line.",
            ),
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
        examples: &[(
            "windrow replay flight.jsonl",
            "Replay the recorded decisions.",
        )],
    },
    VerbPage {
        verb: "blame",
        exits: &[
            (0, "The boot is complete."),
            (3, "The boot was not complete at the end of the boot log."),
            (4, "The boot failed."),
            (5, "There is no boot log, or it has no decisions."),
        ],
        examples: &[
            ("windrow blame", "Show the time of this node's last boot."),
            ("windrow blame --boot -1", "Show the boot before it."),
            (
                "windrow blame report.tar.gz",
                "Show the boot of a node from its report.",
            ),
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
        examples: &[
            ("windrow knowledge show", "Everything that is known here."),
            (
                "windrow knowledge learn reports/ -o learned.yaml",
                "Learns from all boot logs and reports in a directory.",
            ),
            (
                "windrow knowledge learn learned.yaml report.tar.gz -o learned.yaml",
                "Adds a boot to what is known.",
            ),
        ],
    },
    VerbPage {
        verb: "cleanup",
        exits: &[(0, "Windrow removed its changes.")],
        examples: &[("windrow cleanup", "Clean up before you remove the package.")],
    },
    VerbPage {
        verb: "report",
        exits: &[(0, "Windrow wrote the archive.")],
        examples: &[(
            "windrow report -o report.tar.gz",
            "Write one redacted archive for support.",
        )],
    },
];

/// The state of a node or a file.
const STATE: &[(u8, &str)] = &[
    (0, "The node or file has reached its state."),
    (3, "Not yet."),
    (4, "Failed."),
    (5, "Unknown, for example because the daemon does not run."),
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
