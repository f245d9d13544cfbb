//! Options that several verbs have with one meaning, and that no verb reads itself: `--root` and `--quiet`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

const ROOT: &str = "root";
const QUIET: &str = "quiet";

/// Verbs that read no node.
const WITHOUT_NODE: &[&str] = &[
    "check",
    "sandbox",
    "rack",
    "knowledge learn",
    "version",
    "installer",
];

/// Verbs that end in a verdict. Scripts may want only its exit code.
const WITH_VERDICT: &[&str] = &[
    "check",
    "plan",
    "preflight",
    "gates check",
    "diagnose",
    "upgrade-check",
    "drain-check",
];

/// Adds the options to the verbs that take them.
pub(super) fn with_options(command: Command) -> Command {
    let root = command.get_arguments().find(|arg| arg.get_id() == ROOT);
    let root = root.cloned();
    with_options_below(command, "", root.as_ref())
}

fn with_options_below(mut command: Command, above: &str, root: Option<&Arg>) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned())
        .collect();
    for name in names {
        let words = format!("{above} {name}").trim().to_owned();
        command = command.mut_subcommand(name, |verb| {
            if verb.has_subcommands() {
                return with_options_below(verb, &words, root);
            }
            let is_among = |verbs: &[&str]| verbs.contains(&words.as_str());
            let verb = match is_among(WITHOUT_NODE) {
                true => verb,
                false => verb.args(root),
            };
            match is_among(WITH_VERDICT) {
                true => verb.arg(quiet()),
                false => verb,
            }
        });
    }
    command
}

fn quiet() -> Arg {
    Arg::new(QUIET)
        .short('q')
        .long(QUIET)
        .action(ArgAction::SetTrue)
        .help("Print only errors: the exit code has the verdict")
}

/// The options of the verb on the command line.
pub(super) struct VerbOptions {
    pub(super) root: Option<PathBuf>,
    pub(super) reads_node: bool,
    pub(super) quiet: bool,
}

impl VerbOptions {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let mut verb = matches;
        while let Some((_, below)) = verb.subcommand() {
            verb = below;
        }
        let root = verb.try_get_one::<PathBuf>(ROOT);
        let quiet = verb.try_get_one::<bool>(QUIET);
        Self {
            reads_node: root.is_ok(),
            root: root.ok().flatten().cloned(),
            quiet: quiet.ok().flatten() == Some(&true),
        }
    }
}
