//! `windrow rehearse` as a user has it: configurations in, verdicts, exit codes and documents out.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn windrow(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("rehearse")
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const FIRST_VM: &str = "examples/first-vm/harvester-config.yaml";

/// A file in a directory of its own.
fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    (directory, path)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_first_example_never_comes_up_alone_and_always_with_windrow() {
    let output = windrow(&[FIRST_VM, "--seeds", "3"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = said(&output);
    for line in [
        "Harvester v1.6.0, storage network preset, by 3 seeds",
        "it never comes up, in every seed",
        "the node comes up, and everything is applied, in every seed",
        "VirtualMachine orchard/registry: Running, in every seed",
        "v1.5.0",
        "modelled",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_rehearsal_is_the_same_each_time_and_its_document_is_one_of_its_schema() {
    let arguments = [FIRST_VM, "--seeds", "2", "-o", "json"];
    let (one, other) = (windrow(&arguments), windrow(&arguments));
    assert_eq!(one.stdout, other.stdout);
    let document: windrow::rehearse::Rehearsal = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(document.nodes[0].seeds, 2);
    assert!(document.passes());
}

#[test]
fn a_file_that_stays_held_for_ever_fails_and_names_the_rule() {
    let (_directory, path) = file(
        "waits.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  annotations:\n    windrow.dev/depends-on: /namespaces/default/Secret/never\n",
    );
    let output = windrow(&[text(&path), "--seeds", "2"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let text = said(&output);
    assert!(
        text.contains("it stays unfinished, in every seed"),
        "{text}"
    );
    assert!(text.contains("Stays held for ever"), "{text}");
    assert!(
        text.contains("annotation/windrow.dev/depends-on (waits.yaml:6)"),
        "{text}"
    );
}

#[test]
fn manifests_of_plain_rke2_are_rehearsed_too_and_healthy_ones_pass() {
    let (_directory, path) = file(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default}\n",
    );
    let output = windrow(&[text(&path), "--seeds", "2"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        said(&output).contains("on RKE2, by 2 seeds"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_gate_that_is_fatal_at_the_version_that_will_start_fails_with_its_line() {
    let config = "#cloud-config\nwrite_files:\n- path: /etc/rancher/rke2/config.yaml.d/10-gates.yaml\n  content: |\n    kube-apiserver-arg+:\n    - feature-gates+=AuthorizeNodeWithSelectors=false\n";
    let (_directory, path) = file("user-data", config);
    for (version, expected) in [("v1.33.5+rke2r1", 0), ("v1.35.6+rke2r1", 4)] {
        let output = windrow(&[text(&path), "--seeds", "1", "--rke2", version]);
        assert_eq!(output.status.code(), Some(expected), "{version} {output:?}");
        if expected == 4 {
            assert!(
                said(&output).contains("AuthorizeNodeWithSelectors"),
                "{}",
                said(&output)
            );
            assert!(said(&output).contains("user-data:6"), "{}", said(&output));
        }
    }
}

#[test]
fn servers_with_different_files_of_one_addon_are_told() {
    let map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    let (_one, first) = file("a.yaml", &map("x"));
    let (_other, second) = file("a.yaml", &map("y"));
    let nodes = [
        format!("n1={}", text(&first)),
        format!("n2={}", text(&second)),
    ];
    let arguments = [
        "--seeds", "1", "-o", "json", "--node", &nodes[0], "--node", &nodes[1],
    ];
    let document: Value = serde_json::from_slice(&windrow(&arguments).stdout).unwrap();
    assert_eq!(document["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(document["findings"][0]["code"], "servers-disagree");
    // The same file on both is as it should be.
    let same = format!("n2={}", text(&first));
    let arguments = [
        "--seeds", "1", "-o", "json", "--node", &nodes[0], "--node", &same,
    ];
    let document: Value = serde_json::from_slice(&windrow(&arguments).stdout).unwrap();
    assert_eq!(document["findings"], Value::Null);
}

#[test]
fn the_configurations_own_settings_of_windrow_count() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIRST_VM);
    let example = fs::read_to_string(example).unwrap();
    let config = |staging: bool| {
        let own = format!(
            "  writeFiles:\n    - path: /etc/rancher/windrow/conf.d/10.yaml\n      content: |\n        staging: {{enabled: {staging}}}\n"
        );
        example.replacen("  writeFiles:\n", &own, 1)
    };
    for (staging, expected) in [(true, 0), (false, 4)] {
        let (_directory, path) = file("config.yaml", &config(staging));
        let output = windrow(&[text(&path), "--seeds", "1"]);
        assert_eq!(output.status.code(), Some(expected), "{staging} {output:?}");
    }
}

#[test]
fn wrong_use_and_bad_rules_have_their_own_exit_codes() {
    assert_eq!(windrow(&[]).status.code(), Some(64));
    assert_eq!(windrow(&["/nonexistent.yaml"]).status.code(), Some(64));
    assert_eq!(windrow(&[FIRST_VM, "--seeds", "0"]).status.code(), Some(64));
    assert_eq!(windrow(&["--node", "x"]).status.code(), Some(64));
    let (_directory, path) = file(
        "rules.yaml",
        "apiVersion: windrow.dev/v1\nkind: RulePack\nnonsense: 1\n",
    );
    let output = windrow(&[FIRST_VM, "--rules", text(&path)]);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
}
