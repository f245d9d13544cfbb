//! Level 3: the words that docs/dev/words.md has retired stand nowhere any more.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::{Path, PathBuf};

/// Every text of these folders and files is looked at.
const TEXTS: [&str; 11] = [
    "src",
    "crates",
    "tests",
    "benches",
    "docs",
    "config",
    "systemd",
    "packaging",
    "README.md",
    "CONTRIBUTING.md",
    "justfile",
];
/// Bytes that older releases have written: the drop-in's head decides whether it is Windrow's own.
const KEPT: [&str; 1] = ["written anew whenever that changes"];

fn files(path: PathBuf, found: &mut Vec<PathBuf>) {
    match fs::read_dir(&path) {
        Ok(entries) => entries.for_each(|entry| files(entry.unwrap().path(), found)),
        Err(_) => found.push(path),
    }
}

/// The first column of the table of retired words.
fn retired(page: &str) -> Vec<&str> {
    let table = page.split("## Retired words").nth(1).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    let words = rows.filter_map(|row| row.split(" | ").next());
    words.filter(|word| *word != "word").collect()
}

/// Does it stand in a line, also at the beginning of a sentence?
fn stands_in(line: &str, word: &str) -> bool {
    let (first, rest) = word.split_at(1);
    let begins = first.to_uppercase() + rest;
    // A single word with a capital may be a name in the code.
    has_word(line, word) || word.contains(' ') && has_word(line, &begins)
}

/// The last word of a line and the first one of the next line: a line break may part two words.
fn over_the_break(before: &str, line: &str) -> String {
    let last = before.trim_end_matches('\\').split_whitespace().next_back();
    let text = line.trim_start_matches(|letter: char| !letter.is_alphanumeric());
    let first = text.split_whitespace().next();
    format!("{} {}", last.unwrap_or_default(), first.unwrap_or_default())
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |text: Option<char>| text.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        !is_part(line[..at].chars().next_back()) && !is_part(line[at + word.len()..].chars().next())
    })
}

#[test]
fn a_retired_word_stands_nowhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/dev/words.md")).unwrap();
    let words = retired(&page);
    assert!(words.contains(&"anew"), "{words:?}");
    let mut all = Vec::new();
    TEXTS
        .iter()
        .for_each(|text| files(root.join(text), &mut all));
    let mut found = Vec::new();
    for path in all {
        // Names in a schema are promises to who reads the file.
        let schema = path.to_string_lossy().ends_with(".schema.json");
        if schema
            || path.ends_with("docs/dev/words.md")
            || path.ends_with("tests/support/plain-english")
            || path.ends_with(file!())
        {
            continue;
        }
        // What is no text has no words.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let mut before = "";
        for (number, line) in text.lines().enumerate() {
            let kept = KEPT.iter().any(|kept| line.contains(kept));
            let broken = over_the_break(before, line);
            let stands = |word: &&&str| stands_in(line, word) || stands_in(&broken, word);
            let here = words.iter().filter(|word| !kept && stands(word));
            before = line;
            found.extend(here.map(|word| {
                let path = path.strip_prefix(root).unwrap().display();
                format!("{path}:{}: {word}", number + 1)
            }));
        }
    }
    assert!(found.is_empty(), "retired words:\n{}", found.join("\n"));
}

#[test]
fn a_retired_word_is_found_over_a_line_break() {
    let broken = over_the_break("    /// what a node has by", "    /// itself, and no more");
    assert!(stands_in(&broken, "by itself"), "{broken}");
    let apart = over_the_break("a word by", "");
    assert!(!stands_in(&apart, "by itself"), "{apart}");
}
