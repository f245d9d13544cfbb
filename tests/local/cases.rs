//! Level 3: every known way to deadlock, as files that an image builder would have (`tests/cases`), each beside a
//! healthy neighbour that differs in one thing. The program rehearses both, and both verdicts have to be right.
//!
//! `case.yaml` of a case: `what` it is, `options` of `windrow check --details` for both, and for `sick` and `healthy` each:
//! further `options` (`--node` for several nodes; else `sick.yaml` or the directory `sick` is the node), the `exit`
//! code, the findings above a notice, each with its place (`finds`), how it ends `without` and `with` Windrow in every
//! seed, and which known incidents are `recognised` in the state that the bootstrap without Windrow left.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use windrow_model::manifest::yaml;
use windrow_model::reasons::Severity;
use windrow_simulate::rehearse::{Ending, Rehearsal, Side};

const SEEDS: &str = "3";
/// The states of running clusters (`states.rs`).
const STATES: &str = "states";

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// A case's expectations, or its results.
#[derive(Debug, Default, PartialEq)]
struct Verdict {
    exit: i64,
    finds: BTreeMap<String, String>,
    without: String,
    with: String,
    recognised: Vec<String>,
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}

fn asked(side: &Value) -> Verdict {
    let text = |key: &str| side[key].as_str().unwrap().to_owned();
    let finds = side["finds"].as_object().into_iter().flatten();
    Verdict {
        exit: side["exit"].as_i64().unwrap(),
        finds: finds
            .map(|(code, at)| (code.clone(), at.as_str().unwrap().to_owned()))
            .collect(),
        without: text("without"),
        with: text("with"),
        recognised: texts(&side["recognised"]),
    }
}

/// How a side ended, if it ended like this in every seed.
fn end(side: &Side) -> String {
    let ends: Vec<&str> = side
        .ends
        .iter()
        .map(|end| match end.verdict {
            Ending::Complete => "complete",
            Ending::Unknown => "unknown",
            Ending::Unconfigured => "unconfigured",
            Ending::Underway => "underway",
            Ending::Stuck => "stuck",
            Ending::Deadlocked => "deadlocked",
        })
        .collect();
    ends.join(" or ")
}

fn came_out(case: &Path, name: &str, options: &[String]) -> Verdict {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command
        .args(["check", "--details"])
        .args(["--runs", SEEDS, "-o", "json"])
        .current_dir(case);
    if !options.iter().any(|option| option == "--node") {
        let file = format!("{name}.yaml");
        command.arg(if case.join(&file).exists() {
            &file
        } else {
            name
        });
    }
    let output = command.args(options).output().unwrap();
    let rehearsal: Rehearsal = match serde_json::from_slice(&output.stdout) {
        Ok(rehearsal) => rehearsal,
        Err(error) => panic!("{}: {error}: {output:?}", case.display()),
    };
    let node = &rehearsal.nodes[0];
    let findings = rehearsal.nodes.iter().flat_map(|node| &node.findings);
    Verdict {
        exit: output.status.code().unwrap().into(),
        finds: findings
            .chain(&rehearsal.findings)
            .filter(|finding| finding.severity >= Severity::Warning)
            .map(|finding| (finding.code.to_string(), finding.at[0].to_string()))
            .collect(),
        without: end(&node.without),
        with: end(&node.with),
        recognised: node
            .without
            .recognised
            .iter()
            .map(|one| one.code.to_string())
            .collect(),
    }
}

#[test]
fn every_known_way_to_deadlock_is_told_and_its_healthy_neighbour_is_not() {
    let mut cases: Vec<PathBuf> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|case| !case.ends_with(STATES))
        .collect();
    cases.sort();
    assert!(cases.len() > 15);
    let mut wrong = String::new();
    for case in cases {
        let text = fs::read_to_string(case.join("case.yaml")).unwrap();
        let spec = yaml::parse_configuration(&text).unwrap().unwrap().to_json();
        for name in ["sick", "healthy"] {
            let mut options = texts(&spec["options"]);
            options.extend(texts(&spec[name]["options"]));
            let (asked, seen) = (asked(&spec[name]), came_out(&case, name, &options));
            if asked != seen {
                let _ = writeln!(
                    wrong,
                    "{} ({name}): {}\n asked {asked:#?}\n  seen {seen:#?}",
                    case.display(),
                    spec["what"]
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
