//! Level 3: states of clusters as saved objects (`tests/cases/states`): sick, slow, healthy, busy and upgrading ones. The program
//! diagnoses each, checks an upgrade and the drains of some, and its answers have to be right.
//!
//! The first document of a state says:
//!
//! ```text
//! what      what it is
//! source    the issue or the file that describes it, if there is one
//! base      another state: its objects are there as well, unless this state has the same ones, or lists them in `without`
//! exit      the exit code of the diagnosis
//! finds     its findings: code, severity and subject of each
//! upgrade   {to, fails, warns, unknown}: the release to upgrade to, if one is named, and the rows of `upgrade-check` with these
//!           outcomes; rows that no saved list can answer are left out
//! drains    what `drain-check --all` says: each node, the outcome, and the pods that do not go
//! ```
//!
//! The other documents are its objects. Kinds without an object have an empty list. The newest time in the objects is the time of
//! the diagnosis.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use windrow_harvester::objects::ObjectKind;
use windrow_model::manifest::yaml;

/// Fewer would mean that a directory was lost.
const FEWEST: usize = 60;
const EMPTY: &str = r#"{"apiVersion": "v1", "kind": "List", "items": []}"#;

/// The rows of `upgrade-check` about readings of nodes, which no saved list has.
const READINGS: [&str; 5] = [
    "space-for-images",
    "space-on-system",
    "certificates",
    "system-partition-size",
    "room-for-system",
];

#[derive(Debug, PartialEq)]
struct Verdict {
    exit: i64,
    finds: Vec<String>,
    upgrade: Option<Vec<String>>,
    drains: Option<Vec<String>>,
}

/// A state: its head, and its objects in YAML.
struct State {
    head: Value,
    objects: Vec<String>,
}

impl State {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let mut documents = text.split("\n---\n").map(str::to_owned);
        let head = json(&documents.next().unwrap());
        let mut state = Self {
            head,
            objects: documents.collect(),
        };
        if let Some(base) = state.head["base"].as_str() {
            let mut left_out: Vec<String> = texts(&state.head["without"]);
            left_out.extend(state.objects.iter().map(|object| name(object)));
            let base = Self::read(&path.with_file_name(base));
            let base = base.objects.into_iter();
            let kept = base.filter(|object| !left_out.contains(&name(object)));
            state.objects.extend(kept);
        }
        state
    }

    fn what(&self) -> &str {
        self.head["what"].as_str().unwrap()
    }

    fn asked(&self) -> Verdict {
        let upgrade = self.head.get("upgrade").map(|upgrade| {
            let outcomes = ["fails", "warns", "unknown"].into_iter();
            let rows = outcomes.flat_map(|outcome| {
                let rows = texts(&upgrade[outcome]).into_iter();
                rows.map(move |row| format!("{outcome} {row}"))
            });
            sorted(rows.collect())
        });
        let drains = self.head.get("drains").map(texts).map(sorted);
        Verdict {
            exit: self.head["exit"].as_i64().unwrap(),
            finds: sorted(texts(&self.head["finds"])),
            upgrade,
            drains,
        }
    }

    /// The answers of the program to what the head asks.
    fn seen(&self) -> Verdict {
        let directory = self.save();
        let (exit, found) = windrow(&directory, &["diagnose"]);
        let finds = items(&found["findings"]).map(|one| {
            let [code, severity, subject] =
                ["code", "severity", "subject"].map(|field| text(one, field));
            format!("{code} {severity} {subject}")
        });
        let upgrade = self.head.get("upgrade").map(|upgrade| {
            let mut arguments = vec!["upgrade-check"];
            arguments.extend(upgrade["to"].as_str().map(|_| "--harvester"));
            arguments.extend(upgrade["to"].as_str());
            let (_, checked) = windrow(&directory, &arguments);
            let rows = items(&checked["checks"]);
            let rows = rows.filter(|row| !READINGS.contains(&text(row, "check")));
            let outcome = |row: &Value| match text(row, "outcome") {
                "fail" => Some("fails"),
                "warn" => Some("warns"),
                "unknown" => Some("unknown"),
                _ => None,
            };
            let rows =
                rows.filter_map(|row| Some(format!("{} {}", outcome(row)?, text(row, "check"))));
            sorted(rows.collect())
        });
        let drains = self.head.get("drains").map(|_| {
            let (_, checked) = windrow(&directory, &["drain-check", "--all"]);
            let nodes = items(&checked["nodes"]).map(|node| {
                let stay = items(&node["pods"]).filter(|pod| text(pod, "fate") != "goes");
                let stay = stay.map(|pod| format!(" {}", text(pod, "pod")));
                let stay: String = stay.collect();
                format!("{} {}{stay}", text(node, "node"), text(node, "drain"))
            });
            sorted(nodes.collect())
        });
        Verdict {
            exit,
            finds: sorted(finds.collect()),
            upgrade,
            drains,
        }
    }

    /// As saved lists, each kind in a file.
    fn save(&self) -> TempDir {
        let directory = TempDir::new().unwrap();
        let objects = self.objects.join("\n---\n");
        fs::write(directory.path().join("state.yaml"), objects).unwrap();
        for kind in ObjectKind::ALL.iter().filter(|kind| kind.part.is_empty()) {
            let group = if kind.group.is_empty() {
                "core"
            } else {
                kind.group
            };
            let name = format!("{group}_{}.json", kind.kind);
            fs::write(directory.path().join(name), EMPTY).unwrap();
        }
        fs::write(directory.path().join("core_Secret.json"), EMPTY).unwrap();
        directory
    }
}

/// The exit code of the program, and its document.
fn windrow(directory: &TempDir, arguments: &[&str]) -> (i64, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(arguments)
        .args(["-o", "json", "--from"])
        .arg(directory.path())
        .output()
        .unwrap();
    let Ok(document) = serde_json::from_slice(&output.stdout) else {
        panic!("{output:?}");
    };
    (output.status.code().unwrap().into(), document)
}

fn json(document: &str) -> Value {
    yaml::parse_configuration(document)
        .unwrap()
        .unwrap()
        .to_json()
}

/// `Kind namespace/name`, or `Kind name`.
fn name(object: &str) -> String {
    let object = json(object);
    let (kind, metadata) = (text(&object, "kind"), &object["metadata"]);
    let name = text(metadata, "name");
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn texts(list: &Value) -> Vec<String> {
    items(list)
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

#[test]
fn every_state_of_a_cluster_is_answered_as_its_head_says() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/states");
    let entries = fs::read_dir(directory).unwrap();
    let mut states: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    states.sort();
    assert!(states.len() >= FEWEST, "{}", states.len());
    let mut wrong = String::new();
    for path in states {
        let state = State::read(&path);
        let (asked, seen) = (state.asked(), state.seen());
        if asked != seen {
            let _ = writeln!(
                wrong,
                "{}: {}\n asked {asked:#?}\n  seen {seen:#?}",
                path.display(),
                state.what()
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
