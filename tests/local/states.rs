//! Level 3: states of clusters as saved objects (`tests/cases/states`): sick, slow, healthy, busy and upgrading ones. The program
//! diagnoses each, and its findings and exit code have to be right.
//!
//! The first document of a state says `what` it is, the `exit` code, and what the diagnosis `finds`: code, severity and subject of each
//! finding. The other documents are its objects. Kinds without an object have an empty list. The newest time in the objects is the time
//! of the diagnosis.

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
const FEWEST: usize = 36;
const EMPTY: &str = r#"{"apiVersion": "v1", "kind": "List", "items": []}"#;

#[derive(Debug, PartialEq)]
struct Verdict {
    exit: i64,
    finds: Vec<String>,
}

fn asked(state: &Path) -> (String, Verdict) {
    let text = fs::read_to_string(state).unwrap();
    let (head, _) = text.split_once("\n---\n").unwrap();
    let spec = yaml::parse_configuration(head).unwrap().unwrap().to_json();
    let finds = spec["finds"].as_array().into_iter().flatten();
    let mut finds: Vec<String> = finds.map(|one| one.as_str().unwrap().to_owned()).collect();
    finds.sort();
    let exit = spec["exit"].as_i64().unwrap();
    (
        spec["what"].as_str().unwrap().to_owned(),
        Verdict { exit, finds },
    )
}

fn diagnosed(state: &Path) -> Verdict {
    let directory = TempDir::new().unwrap();
    fs::copy(state, directory.path().join("state.yaml")).unwrap();
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
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["diagnose", "-o", "json", "--from"])
        .arg(directory.path())
        .output()
        .unwrap();
    let Ok(found) = serde_json::from_slice::<Value>(&output.stdout) else {
        panic!("{}: {output:?}", state.display());
    };
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let finds = found["findings"].as_array().into_iter().flatten();
    let mut finds: Vec<String> = finds
        .map(|one| {
            let [code, severity, subject] =
                ["code", "severity", "subject"].map(|field| text(one, field));
            format!("{code} {severity} {subject}")
        })
        .collect();
    finds.sort();
    Verdict {
        exit: output.status.code().unwrap().into(),
        finds,
    }
}

#[test]
fn every_state_of_a_cluster_is_diagnosed_as_its_head_says() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/states");
    let entries = fs::read_dir(directory).unwrap();
    let mut states: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    states.sort();
    assert!(states.len() >= FEWEST, "{}", states.len());
    let mut wrong = String::new();
    for state in states {
        let (what, asked) = asked(&state);
        let seen = diagnosed(&state);
        if asked != seen {
            let _ = writeln!(
                wrong,
                "{}: {what}\n asked {asked:#?}\n  seen {seen:#?}",
                state.display()
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
