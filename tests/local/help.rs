//! `windrow --help` and the help of each verb.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

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
