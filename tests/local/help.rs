//! `windrow --help` and the help of each verb.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use clap::Arg;
use windrow::cli::command;
use windrow::cli::help::GROUPS;

fn help_of(words: &[&str]) -> String {
    let parsed = command().try_get_matches_from(words);
    parsed.expect_err("help").to_string()
}

#[test]
fn every_visible_verb_is_in_one_group_and_has_an_example() {
    let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
    for verb in GROUPS.iter().flat_map(|group| group.verbs) {
        *groups.entry(verb.verb).or_default() += 1;
        assert!(!verb.examples.is_empty(), "{}", verb.verb);
    }
    let command = command();
    let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let visible: BTreeMap<&str, usize> = visible.map(|verb| (verb.get_name(), 1)).collect();
    assert_eq!(groups, visible);
}

#[test]
fn the_help_lists_each_verb_with_its_line_below_its_group() {
    let help = help_of(&["windrow", "--help"]);
    let mut rest = help.as_str();
    for group in GROUPS {
        let title = format!("\n{}:\n", group.title);
        rest = rest.split_once(&title).expect(&title).1;
        for verb in group.verbs {
            let line = rest
                .lines()
                .find(|line| line.split(' ').nth(2) == Some(verb.verb));
            let line = line.expect(verb.verb);
            let words = line.split_whitespace().skip(1).count();
            assert!((2..=10).contains(&words), "{line}");
        }
    }
    let (_, end) = help.trim_end().rsplit_once("\n\n").expect("a paragraph");
    assert!(
        end.starts_with("Start with: windrow check FILE\nDocs: https://"),
        "{help}"
    );
}

#[test]
fn completion_prints_the_completions_that_the_packages_install() {
    for (shell, file) in [
        ("bash", "windrow.bash"),
        ("fish", "windrow.fish"),
        ("zsh", "_windrow"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(["completion", shell])
            .output();
        let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/completions");
        let installed = fs::read(installed.join(file)).expect(file);
        assert!(output.expect(shell).stdout == installed, "{shell}");
    }
}

#[test]
fn the_help_of_a_verb_ends_with_its_examples() {
    for verb in GROUPS.iter().flat_map(|group| group.verbs) {
        let help = help_of(&["windrow", verb.verb, "--help"]);
        let (_, examples) = help.split_once("\nExamples:\n").expect(verb.verb);
        for (line, purpose) in verb.examples {
            let example = format!("  # {purpose}\n  {line}\n");
            assert!(examples.contains(&example), "{help}");
        }
    }
}

/// An option of several verbs: its short form, its value and the begin of its text.
type SharedOption = (
    &'static str,
    Option<char>,
    &'static [&'static str],
    &'static str,
);

/// Every option that several verbs have. One spelling has one meaning.
const SHARED: &[SharedOption] = &[
    ("context", None, &["NAME"], "The context of the kubeconfig"),
    ("from", None, &["FILE"], "Read saved data instead of "),
    (
        "hardware",
        None,
        &["CLASS|FILE"],
        "The server's hardware class",
    ),
    ("harvester", None, &["VERSION"], "Harvester's version"),
    ("once", None, &[], "Print "),
    ("output", Some('o'), &["OUTPUT"], "Output format"),
    ("output-file", None, &["FILE"], "The file to write: "),
    ("platform", None, &["PLATFORM"], "The platform"),
    ("quiet", Some('q'), &[], "Print only errors"),
    (
        "reason",
        None,
        &["REASON"],
        "The reason; Windrow records it",
    ),
    ("rke2", None, &["VERSION"], "RKE2's version"),
    ("root", None, &["DIR"], "Use the node rooted at DIR"),
    (
        "rules",
        None,
        &["PATH"],
        "A directory or file with additional rule packs",
    ),
    ("timeout", None, &["DURATION"], ""),
    ("verbose", Some('v'), &[], "Show everything"),
    ("yes", Some('y'), &[], "Do not ask for confirmation"),
];

/// Options whose subject is that of their verb.
const OF_THE_VERB: &[&str] = &["all", "for", "force", "help", "kubeconfig", "version"];

/// Every verb that runs, by its words.
fn verbs_that_run(command: &clap::Command, above: &str, found: &mut Vec<(String, Vec<Arg>)>) {
    for verb in command.get_subcommands() {
        let words = format!("{above} {}", verb.get_name()).trim().to_owned();
        if verb.has_subcommands() {
            verbs_that_run(verb, &words, found);
        } else {
            found.push((words, verb.get_arguments().cloned().collect()));
        }
    }
}

#[test]
fn an_option_of_several_verbs_has_one_spelling_one_value_and_one_meaning() {
    let mut verbs = Vec::new();
    verbs_that_run(&command(), "", &mut verbs);
    let mut options: BTreeMap<String, Vec<(String, Arg)>> = BTreeMap::new();
    for (verb, arguments) in verbs {
        for arg in arguments {
            if let Some(long) = arg.get_long().map(str::to_owned) {
                options.entry(long).or_default().push((verb.clone(), arg));
            }
        }
    }
    options.retain(|long, verbs| verbs.len() > 1 && !OF_THE_VERB.contains(&long.as_str()));
    let shared: Vec<&str> = options.keys().map(String::as_str).collect();
    let known: Vec<&str> = SHARED.iter().map(|(long, ..)| *long).collect();
    assert_eq!(shared, known);
    for (long, short, values, begins) in SHARED {
        for (verb, arg) in &options[*long] {
            let names: Vec<&str> = match arg.get_action().takes_values() {
                true => arg.get_value_names().unwrap_or_default(),
                false => &[],
            }
            .iter()
            .map(|name| name.as_str())
            .collect();
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert_eq!(arg.get_short(), *short, "{verb} --{long}");
            assert_eq!(names, *values, "{verb} --{long}");
            assert!(help.starts_with(begins), "{verb} --{long}: {help}");
        }
    }
}

#[test]
fn an_option_for_a_format_is_never_a_file_and_a_duration_has_one_name() {
    let mut verbs = Vec::new();
    verbs_that_run(&command(), "", &mut verbs);
    for (verb, arg) in verbs
        .iter()
        .flat_map(|(verb, arguments)| arguments.iter().map(move |arg| (verb, arg)))
    {
        if arg.get_short() == Some('o') {
            assert!(!arg.get_possible_values().is_empty(), "{verb} -o");
        }
        let names = arg.get_value_names().unwrap_or_default();
        let is_duration = |name: &str| name == "DURATION" || name.ends_with("]DURATION");
        if matches!(arg.get_long(), Some("timeout" | "reboot")) {
            assert!(names.iter().all(|name| is_duration(name)), "{verb} {arg}");
        }
    }
}

#[test]
fn a_verb_that_reads_no_node_has_no_root() {
    for verb in ["check", "sandbox", "rack", "version"] {
        let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(["--root", "/nonexistent", verb, "x"])
            .output()
            .expect(verb);
        assert_eq!(output.status.code(), Some(64), "{verb}: {output:?}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["--root", "/nonexistent", "version"])
        .output()
        .expect("version");
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--root: this verb reads no node"), "{said}");
}
