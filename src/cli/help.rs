//! The help: the verbs in groups, and the examples of each verb. The manual pages print the same examples.
//!
//! clap has no groups of verbs, so the list is part of the template. Each line is made from the verb itself.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::Styles;

/// The verbs for one occasion, as `windrow --help` lists them.
pub struct VerbGroup {
    pub title: &'static str,
    pub verbs: &'static [VerbHelp],
}

/// A verb with its examples.
pub struct VerbHelp {
    pub verb: &'static str,
    /// A command line and its purpose.
    pub examples: &'static [(&'static str, &'static str)],
}

/// Every visible verb, each in one group.
pub const GROUPS: &[VerbGroup] = &[
    VerbGroup {
        title: "Before you build an image",
        verbs: &[
            VerbHelp {
                verb: "check",
                examples: &[
                    (
                        "windrow check harvester-config.yaml",
                        "Check the configuration of one node.",
                    ),
                    (
                        "windrow check --details harvester-config.yaml --harvester v1.6.0",
                        "Show the whole simulated boot with this version of Harvester.",
                    ),
                    (
                        "windrow check -o html harvester-config.yaml",
                        "Print the result as an HTML page.",
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
            VerbHelp {
                verb: "plan",
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
            VerbHelp {
                verb: "preflight",
                examples: &[
                    (
                        "windrow preflight harvester-config.yaml",
                        "Check whether this host can become this node.",
                    ),
                    (
                        "windrow preflight --harvester v1.8.1 --role witness",
                        "Check without a configuration.",
                    ),
                    (
                        "windrow preflight --platform rke2 --production --disk-test /mnt",
                        "Check against the recommended values, and measure writes to a disk of your choice.",
                    ),
                    (
                        "windrow preflight -o json harvester-config.yaml",
                        "Print the result for an inventory. If you save it, --from judges it on another host.",
                    ),
                ],
            },
            VerbHelp {
                verb: "sandbox",
                examples: &[
                    ("windrow sandbox", "Boot the example in a new directory."),
                    (
                        "windrow sandbox node --config harvester-config.yaml --pause-at ready",
                        "Boot your own configuration in node/, and stop at the end to look around.",
                    ),
                ],
            },
        ],
    },
    VerbGroup {
        title: "On a node",
        verbs: &[
            VerbHelp {
                verb: "status",
                examples: &[
                    ("windrow status", "Show the node's state and its reason."),
                    ("windrow status -o json", "Print the status document."),
                    (
                        "windrow status --watch",
                        "Print a line with time and host for each change.",
                    ),
                ],
            },
            VerbHelp {
                verb: "why",
                examples: &[
                    (
                        "windrow why 00-registry.yaml",
                        "Show the dependencies of a file, down to the root cause.",
                    ),
                    (
                        "windrow why VirtualMachine orchard/registry",
                        "Show an object's dependencies.",
                    ),
                    (
                        "windrow why addon-collision",
                        "Explain a code, and list its occurrences on this node.",
                    ),
                ],
            },
            VerbHelp {
                verb: "wait",
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
            VerbHelp {
                verb: "console",
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
            VerbHelp {
                verb: "hold",
                examples: &[(
                    "windrow hold app.yaml --reason maintenance",
                    "Hold a file, and record your name and the reason.",
                )],
            },
            VerbHelp {
                verb: "release",
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
            VerbHelp {
                verb: "add",
                examples: &[(
                    "windrow add app.yaml",
                    "Add a manifest to a running node. Windrow holds it before RKE2 can read it.",
                )],
            },
            VerbHelp {
                verb: "gates",
                examples: &[
                    (
                        "windrow gates check --rke2 v1.35",
                        "Check before an upgrade whether every component would start with the current gates.",
                    ),
                    (
                        "windrow gates check harvester-config.yaml",
                        "Check before you burn the image.",
                    ),
                ],
            },
        ],
    },
    VerbGroup {
        title: "Troubleshooting",
        verbs: &[
            VerbHelp {
                verb: "diagnose",
                examples: &[(
                    "windrow diagnose",
                    "Show known incidents with their evidence and fix.",
                )],
            },
            VerbHelp {
                verb: "repair",
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
            VerbHelp {
                verb: "timeline",
                examples: &[
                    (
                        "windrow timeline",
                        "Show the time of this node's last boot.",
                    ),
                    ("windrow timeline --boot -1", "Show the boot before it."),
                    (
                        "windrow timeline --from report.tar.gz",
                        "Show the boot of a node from its report.",
                    ),
                ],
            },
            VerbHelp {
                verb: "report",
                examples: &[(
                    "windrow report --output-file report.tar.gz",
                    "Write one redacted archive for support.",
                )],
            },
        ],
    },
    VerbGroup {
        title: "Upgrades and clusters",
        verbs: &[
            VerbHelp {
                verb: "upgrade-check",
                examples: &[(
                    "windrow upgrade-check --harvester v1.8.2",
                    "Check whether Harvester would accept the upgrade, and whether it would finish.",
                )],
            },
            VerbHelp {
                verb: "drain-check",
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
            VerbHelp {
                verb: "rack",
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
                        "windrow rack --for ready --timeout 45m --nodes rack1.csv",
                        "Wait in a script until all nodes are ready.",
                    ),
                ],
            },
        ],
    },
    VerbGroup {
        title: "Service",
        verbs: &[
            VerbHelp {
                verb: "config",
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
            VerbHelp {
                verb: "knowledge",
                examples: &[
                    ("windrow knowledge show", "Show all knowledge of this node."),
                    (
                        "windrow knowledge learn reports/ --output-file learned.yaml",
                        "Learn from all boot logs and reports in a directory.",
                    ),
                    (
                        "windrow knowledge learn learned.yaml report.tar.gz --output-file learned.yaml",
                        "Add a boot to the knowledge of a file.",
                    ),
                ],
            },
            VerbHelp {
                verb: "replay",
                examples: &[(
                    "windrow replay flight.jsonl",
                    "Replay the recorded decisions.",
                )],
            },
            VerbHelp {
                verb: "cleanup",
                examples: &[("windrow cleanup", "Clean up before you remove the package.")],
            },
            VerbHelp {
                verb: "completion",
                examples: &[
                    (
                        "windrow completion bash",
                        "Print the completions for bash; save them in a directory that bash reads.",
                    ),
                    ("windrow completion zsh", "Print the completions for zsh."),
                ],
            },
            VerbHelp {
                verb: "version",
                examples: &[
                    ("windrow version", "Print the version."),
                    ("windrow version -o json", "Print it for a program."),
                ],
            },
        ],
    },
];

/// The address of the documentation.
const DOCS: &str = env!("CARGO_PKG_HOMEPAGE");

/// The command with its groups and examples; `program` is its name in command lines.
pub(super) fn with_help(command: Command, program: &str) -> Command {
    let template = template(&command, program);
    let mut command = command.help_template(template);
    for VerbHelp { verb, examples } in GROUPS.iter().flat_map(|group| group.verbs) {
        let examples = examples_of(examples, program);
        command = command.mut_subcommand(verb, |verb| verb.after_long_help(examples));
    }
    command
}

fn template(command: &Command, program: &str) -> String {
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for VerbGroup { title, verbs } in GROUPS {
        let _ = write!(text, "\n{}\n", heading(title));
        for VerbHelp { verb, .. } in *verbs {
            let about = command
                .find_subcommand(verb)
                .and_then(Command::get_about)
                .map(ToString::to_string)
                .unwrap_or_default();
            let _ = writeln!(text, "  {}  {about}", literal(&format!("{verb:<13}")));
        }
    }
    let _ = write!(
        text,
        "\n{}\n{{options}}\n\nStart with: {}\nDocs: {DOCS}\n",
        heading("Options"),
        literal(&format!("{program} check FILE"))
    );
    text
}

fn examples_of(examples: &[(&str, &str)], program: &str) -> String {
    let mut text = heading("Examples");
    for (line, purpose) in examples {
        let line = line.replacen("windrow", program, 1);
        let _ = write!(text, "\n  # {purpose}\n  {}\n", literal(&line));
    }
    text
}

/// As clap prints the heading of the options.
fn heading(title: &str) -> String {
    let style = Styles::styled();
    let style = style.get_header();
    format!("{style}{title}:{style:#}")
}

/// As clap prints commands.
fn literal(text: &str) -> String {
    let style = Styles::styled();
    let style = style.get_literal();
    format!("{style}{text}{style:#}")
}

/// The exit codes, with their meaning for every verb.
pub const EXIT_CODES: &[(u8, &str)] = &[
    (0, "pass, or ready"),
    (
        1,
        "an error of the system, such as a file that cannot be written",
    ),
    (3, "not yet: the node is setting up, or the file is held"),
    (4, "fail"),
    (5, "unknown, for example because the daemon does not run"),
    (
        6,
        "kube-apiserver would refuse a request of `windrow repair`",
    ),
    (
        64,
        "wrong use of the command line, or a file that cannot be read",
    ),
    (75, "another rack or daemon uses this state directory"),
    (78, "bad configuration: settings or rules"),
];
