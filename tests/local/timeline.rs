//! Level 3: `windrow timeline` over flights that were kept, that a daemon wrote, and that lie in a report.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::Node;

use crate::support::daemon as support;

const FREE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n";
/// Waits for a kind that nothing brings.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flights/first-vm.jsonl")
}

fn windrow(root: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    if let Some(root) = root {
        command.arg("--root").arg(root);
    }
    command.args(arguments).output().unwrap()
}

fn timeline(arguments: &[&str]) -> Output {
    windrow(None, &[&["timeline", "--from"], arguments].concat())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complained(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_flight_that_was_kept_says_what_decided_it_and_what_each_file_waited_for() {
    let output = timeline(&[kept().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = said(&output);
    for words in [
        "Every manifest applied after 14m51s; no earlier boots to compare with",
        "Critical path",
        "00-registry.yaml waited: Harvester has not configured the storage network yet",
        "00-registry.yaml: RKE2 took it up and applied it",
        "waiting for kube-apiserver",
        "released at its deadline",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn the_document_is_the_same_in_json_and_yaml_and_as_its_schema_has_it() {
    let kept = kept();
    let json = timeline(&[kept.to_str().unwrap(), "-o", "json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["apiVersion"], "windrow.dev/v1");
    assert_eq!(json["kind"], "BootTimeline");
    assert_eq!(json["end"]["state"], "staged");
    let chain = json["chain"].as_array().unwrap();
    assert_eq!(chain.last().unwrap()["on"], "rke2");
    assert_eq!(chain.last().unwrap()["to"], json["end"]["at"]);
    let yaml = timeline(&[kept.to_str().unwrap(), "-o", "yaml"]);
    assert!(
        said(&yaml).contains("kind: BootTimeline"),
        "{}",
        said(&yaml)
    );
    let schema = fs::read_to_string("docs/boot-timeline.schema.json").unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let named = schema["properties"].as_object().unwrap();
    for field in json.as_object().unwrap().keys() {
        assert!(named.contains_key(field), "{field}");
    }
}

#[test]
fn a_flight_that_was_cut_off_is_not_at_its_end_and_says_what_it_waits_for() {
    let place = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(kept()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let cut = place.path().join("cut.jsonl");
    // Up to a file that RKE2 has, while others are held; the line after it is torn.
    let (whole, torn) = (lines[..13].join("\n"), &lines[13][..100]);
    fs::write(&cut, format!("{whole}\n{torn}")).unwrap();
    let output = timeline(&[cut.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let text = said(&output);
    for words in ["Still booting after", "(still)", "torn, and left out"] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[test]
fn a_boot_is_chosen_as_in_journalctl_and_compared_with_those_before_it() {
    let place = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(kept()).unwrap();
    let boot = |id: &str| {
        let head = format!("\"is\":\"flight\",\"boot\":\"{id}\",");
        text.replacen("\"is\":\"flight\",", &head, 1)
    };
    let both = place.path().join("both.jsonl");
    fs::write(&both, boot("one") + &boot("two")).unwrap();
    let both = both.to_str().unwrap();
    let chosen = |arguments: &[&str]| {
        let output = timeline(&[&[both, "-o", "json"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let boots = json["usual"]["boots"].as_u64();
        (json["boot"].as_str().unwrap().to_owned(), boots)
    };
    assert_eq!(chosen(&[]), ("two".to_owned(), Some(1)));
    assert_eq!(chosen(&["--boot", "-1"]), ("one".to_owned(), None));
    assert_eq!(chosen(&["-b", "1"]), ("one".to_owned(), None));
    let output = timeline(&[both, "--boot", "-2"]);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(complained(&output).contains("it has 2 boots"), "{output:?}");
}

#[test]
fn what_is_no_flight_is_refused_and_a_node_without_one_is_unknown() {
    let place = tempfile::tempdir().unwrap();
    let none = place.path().join("none.jsonl");
    fs::write(&none, "{\"kind\": \"Pod\"}\n").unwrap();
    let output = timeline(&[none.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let packed = place.path().join("packed.tar.gz");
    fs::write(&packed, b"\x1f\x8bnothing").unwrap();
    let output = timeline(&[packed.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(
        complained(&output).contains("not an archive of windrow report"),
        "{output:?}"
    );
    let output = windrow(Some(place.path()), &["timeline"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(complained(&output).contains("flight.jsonl"), "{output:?}");
}

#[test]
fn a_nodes_own_flight_and_the_one_in_its_report_say_the_same() {
    let node = Node::with(&[("10-w.yaml", WIDGET), ("20-c.yaml", FREE)]);
    let daemon = node.ready();
    daemon.ticks(2);
    assert!(daemon.end(Signal::SIGTERM).success());
    let root = node.path("/");
    let own = windrow(Some(&root), &["timeline", "-o", "json"]);
    // kube-apiserver never answered here.
    assert_eq!(own.status.code(), Some(3), "{own:?}");
    let archive = root.join("report.tar.gz");
    let archive = archive.to_str().unwrap();
    let output = windrow(Some(&root), &["report", "--output-file", archive]);
    assert!(output.status.success(), "{output:?}");
    let reported = timeline(&[archive, "-o", "json"]);
    assert_eq!(said(&own), said(&reported));
    let own: Value = serde_json::from_slice(&own.stdout).unwrap();
    let files: Vec<&str> = own["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["file"].as_str().unwrap())
        .collect();
    assert!(files.contains(&"10-w.yaml"), "{own:#}");
}
