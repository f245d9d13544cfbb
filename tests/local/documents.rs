//! Level 3: the pages. Every link leads somewhere, every command line is one that is taken, every test that is named exists.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use clap::error::ErrorKind;

use crate::support::markdown::{Document, commands, documents};
use crate::support::pages;

/// Where pages lie. The changelog tells of verbs that are gone.
const PAGES: [&str; 6] = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    "packaging",
    "examples",
];

fn pages() -> Vec<Document> {
    documents(&PAGES)
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = documents(&[&PAGES[..], &["CHANGELOG.md"]].concat());
    let anchors: HashMap<&Path, HashSet<String>> = pages
        .iter()
        .map(|page| (page.path.as_path(), page.anchors()))
        .collect();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for page in &pages {
        for link in page.links() {
            if link.text.contains("://") {
                continue;
            }
            checked += 1;
            let (path, anchor) = link.text.split_once('#').unwrap_or((&link.text, ""));
            let target = match path {
                "" => page.path.clone(),
                // Its links are those of the website, where the root of the repository is the root.
                path if page.path.ends_with("site/SUMMARY.md") => PathBuf::from(path),
                path => resolved(&page.path, path),
            };
            let there = root.join(&target).is_file();
            let found = anchor.is_empty()
                || anchors
                    .get(target.as_path())
                    .is_some_and(|of| of.contains(anchor));
            if !there || !found {
                wrong.push(format!(
                    "{}:{}: {}",
                    page.path.display(),
                    link.line,
                    link.text
                ));
            }
        }
    }
    assert!(checked > 300, "{checked}");
    assert!(
        wrong.is_empty(),
        "lead nowhere (a website has no folders either):\n{}",
        wrong.join("\n")
    );
}

/// A relative path beside a page, below the repository.
fn resolved(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap().to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

#[test]
fn no_page_has_a_word_in_angle_brackets_that_vanishes() {
    let mut tags = Vec::new();
    for page in pages() {
        let found = page.tags().into_iter();
        tags.extend(found.map(|tag| format!("{}:{}: {}", page.path.display(), tag.line, tag.text)));
    }
    assert!(tags.is_empty(), "put into backquotes:\n{}", tags.join("\n"));
}

#[test]
fn every_page_is_in_the_index() {
    let listed: BTreeSet<PathBuf> = pages::listed_pages().into_iter().collect();
    let made = ["docs/README.md", "docs/site/SUMMARY.md"].map(PathBuf::from);
    let there = documents(&["docs"]).into_iter().map(|page| page.path);
    let missing: Vec<PathBuf> = there
        .filter(|path| !listed.contains(path) && !made.contains(path))
        .collect();
    assert!(
        missing.is_empty(),
        "put into docs/pages.txt, below its reader: {missing:?}"
    );
}

/// The program's own words of a command, from its name on; without what stands before it in a shell.
fn windrow(command: &[String]) -> Option<&[String]> {
    let assigns = |word: &str| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    let passed_over = |word: &String| {
        [
            "sudo", "exec", "do", "while", "until", "if", "then", "kubectl",
        ]
        .contains(&&**word)
            || assigns(word)
    };
    let start = command.iter().position(|word| !passed_over(word))?;
    let words = &command[start..];
    matches!(&*words[0], "windrow" | "/usr/bin/windrow").then_some(words)
}

#[test]
fn every_command_line_of_windrow_in_a_page_is_one_that_is_taken() {
    let mut wrong = Vec::new();
    let mut taken = 0;
    // What this one quotes is said by the verbs, not typed.
    let is_typed = |page: &Document| !page.path.ends_with("messages.md");
    for page in pages().into_iter().filter(is_typed) {
        let typed = page.typed().into_iter().map(|line| (line, false));
        let named = page.code().into_iter().map(|line| (line, true));
        for (line, in_text) in typed.chain(named) {
            for command in commands(&line.text) {
                let Some(words) = windrow(&command) else {
                    continue;
                };
                if in_text && words.len() == 1 {
                    continue;
                }
                match windrow::cli::command().try_get_matches_from(words) {
                    Ok(_) => taken += 1,
                    Err(error) => match error.kind() {
                        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => taken += 1,
                        // In a sentence a verb may be named without what it needs.
                        ErrorKind::MissingRequiredArgument
                        | ErrorKind::MissingSubcommand
                        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                            if in_text => {}
                        _ => wrong.push(format!(
                            "{}:{}: {}\n{error}",
                            page.path.display(),
                            line.line,
                            line.text
                        )),
                    },
                }
            }
        }
    }
    assert!(taken > 150, "{taken}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_line_of_a_shell_comes_apart_into_its_commands() {
    let words = |line: &str| -> Vec<String> {
        commands(line).iter().map(|words| words.join("·")).collect()
    };
    assert_eq!(
        words("windrow plan -o svg a.yaml > plan.svg # draws it"),
        ["windrow·plan·-o·svg·a.yaml"]
    );
    assert_eq!(
        words("a --reason \"ticket 4711\" && b 2>/dev/null | c; d"),
        ["a·--reason·ticket 4711", "b", "c", "d"]
    );
    assert_eq!(
        words("unit=\"$(windrow console --unit)\""),
        ["unit=", "windrow·console·--unit"]
    );
    assert_eq!(words("echo '#no comment' a#b"), ["echo·#no comment·a#b"]);
}

/// A file of Windrow's own that a page shows, whole; `None` where it is a part of another one, or somebody else's.
fn shown_file(block: &str) -> Option<String> {
    let first = block.lines().next()?;
    let ours = [
        "# /etc/windrow/conf.d/",
        "# /etc/rancher/windrow/conf.d/",
        "# .windrow-accept.yaml",
        "apiVersion: windrow.dev/v1",
        "probes:",
        "os:",
    ];
    if ours.iter().any(|begins| first.starts_with(begins)) {
        return Some(block.to_owned());
    }
    // Lists of a rule pack stand without the pack's head.
    let lists = [
        "rules:",
        "provides:",
        "readiness:",
        "references:",
        "findings:",
    ];
    let head = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: page}\n";
    lists.contains(&first).then(|| format!("{head}{block}"))
}

#[test]
fn every_configuration_and_rule_in_a_page_is_one_that_is_taken() {
    let place = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for page in pages() {
        for block in page.blocks("yaml") {
            let Some(text) = shown_file(&block.text) else {
                continue;
            };
            let file = place.path().join("shown.yaml");
            std::fs::write(&file, text).unwrap();
            let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
                .args(["config", "check"])
                .arg(&file)
                .output()
                .unwrap();
            checked += 1;
            if !output.status.success() {
                wrong.push(format!(
                    "{}:{}: {output:?}",
                    page.path.display(),
                    block.line
                ));
            }
        }
    }
    assert!(checked > 15, "{checked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_package_in_a_page_is_of_this_version() {
    let package = regex::Regex::new(r"(?:windrow[-_:]|oci\.tar[: ])(\d+\.\d+\.\d+)").unwrap();
    let mut others = BTreeSet::new();
    let mut found = 0;
    for page in pages() {
        for named in package.captures_iter(&page.text) {
            found += 1;
            if &named[1] != env!("CARGO_PKG_VERSION") {
                others.insert(format!("{}: {}", page.path.display(), &named[0]));
            }
        }
    }
    assert!(found > 5, "{found}");
    assert!(others.is_empty(), "of another version: {others:?}");
}

/// `FILE::TEST` in the code of a page, as docs/threat-model.md names what holds a row.
#[test]
fn every_test_that_a_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    let mut found = 0;
    for page in pages() {
        for code in page.code() {
            let Some((file, test)) = code.text.split_once(".rs::") else {
                continue;
            };
            let text = std::fs::read_to_string(root.join(format!("{file}.rs"))).unwrap_or_default();
            match is_test(&text, test) {
                true => found += 1,
                false => wrong.push(format!(
                    "{}:{}: {}",
                    page.path.display(),
                    code.line,
                    code.text
                )),
            }
        }
    }
    assert!(found > 40, "{found}");
    assert!(
        wrong.is_empty(),
        "there is no such test:\n{}",
        wrong.join("\n")
    );
}

/// Is it a function of that name, with `#[test]` (or a runtime's) among the three lines above it?
fn is_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let declares = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix("fn ")
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with('('))
    };
    lines.iter().enumerate().any(|(at, line)| {
        let above = &lines[at.saturating_sub(3)..at];
        declares(line)
            && above
                .iter()
                .any(|line| line.contains("test") && line.trim_start().starts_with("#["))
    })
}

/// A promise of a page, as a row of docs/dev/testing.md quotes it.
struct Promise {
    page: PathBuf,
    text: String,
    line: usize,
}

/// The rows `| [PAGE](LINK) | PROMISE | TESTS |` of docs/dev/testing.md.
fn promises() -> Vec<Promise> {
    let testing = documents(&["docs/dev/testing.md"]).remove(0);
    let rows = testing.text.lines().enumerate();
    let promise = |(at, row): (usize, &str)| {
        let (link, rest) = row
            .strip_prefix("| [")?
            .split_once("](")?
            .1
            .split_once(") | ")?;
        let (text, tests) = rest.rsplit_once(" | ")?;
        assert!(tests.contains(".rs::"), "names no test: {row}");
        Some(Promise {
            page: resolved(&testing.path, link),
            text: in_plain(text),
            line: at + 1,
        })
    };
    rows.filter_map(promise).collect()
}

/// Text without its markup and line breaks.
fn in_plain(text: &str) -> String {
    let plain = text.replace(['*', '`'], "");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_promise_with_a_test_is_on_the_page_that_makes_it() {
    let promises = promises();
    assert!(promises.len() > 30, "{}", promises.len());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for Promise { page, text, line } in promises {
        let page_text = in_plain(&std::fs::read_to_string(root.join(&page)).unwrap());
        assert!(
            page_text.contains(&text),
            "docs/dev/testing.md:{line}: {} does not say: {text}",
            page.display()
        );
    }
}

#[test]
fn every_sentence_of_what_windrow_never_does_has_a_test() {
    let readme = documents(&["README.md"]).remove(0);
    let (_, section) = readme.text.split_once("## What it never does").unwrap();
    let mut untested = in_plain(section.split("\n## ").next().unwrap());
    assert!(untested.len() > 200, "{untested}");
    for promise in promises() {
        if promise.page == Path::new("README.md") {
            untested = untested.replace(&promise.text, "");
        }
    }
    let words: Vec<&str> = untested.split_whitespace().collect();
    assert_eq!(
        words,
        Vec::<&str>::new(),
        "add a row to docs/dev/testing.md"
    );
}
