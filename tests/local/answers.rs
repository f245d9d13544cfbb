//! Level 3: what `why`, `wait`, `status --watch` and their like answer about a status document.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::cli::{CONFIG_MAP, Node, STATUS, kept_by_this_test};

#[test]
fn why_answers_for_every_word_that_an_outlet_shows() {
    let node = Node::new();
    let mut status: Value = serde_json::from_str(STATUS).unwrap();
    status["findings"] = serde_json::json!([
        {"code": "addon-collision", "severity": "error", "message": "these files share the Addon disk",
         "at": [{"file": "disk.yaml"}, {"file": "sub/disk.yaml"}]},
    ]);
    status["phases"] = serde_json::json!([
        {"name": "network", "state": "done", "done": 1, "total": 1},
        {"name": "api", "state": "current", "done": 0, "total": 3},
    ]);
    status["probes"] = serde_json::json!([
        {"id": "supervisor", "state": "unknown", "severity": "required", "since": "2026-01-01T00:00:00Z",
         "message": "HTTP 403", "code": "probe-refused"},
    ]);
    let status = node.write("elsewhere/status.json", &status.to_string());
    let status = status.to_str().unwrap();
    let why = |asked: &str| node.run(&["why", "--from", status, asked]);
    for (asked, code, expected) in [
        // A finding, by its code and by either file.
        ("addon-collision", 4, "sub/disk.yaml"),
        ("addon-collision", 4, "Rename all but one"),
        (
            "disk.yaml",
            4,
            "error   disk.yaml: addon-collision: these files",
        ),
        // A probe, its code, its step.
        ("supervisor", 5, "HTTP 403"),
        ("probe-refused", 0, "the probe supervisor: HTTP 403"),
        ("probe-refused", 0, "rights"),
        ("api", 5, "supervisor is unknown: HTTP 403"),
        (
            "kube-apiserver",
            5,
            "The node is at the step kube-apiserver",
        ),
        ("network", 0, "is done"),
        ("rancher", 0, "no step"),
        // A code that nothing shows.
        ("drain-blocked", 0, "Nothing on this node shows it now"),
        ("waits-for-namespace", 0, "disk.yaml is held"),
        // States.
        ("SettingUp", 0, "disk.yaml: Namespace shop"),
        ("Failed", 0, "Ready in this boot"),
        ("Unknown", 0, "five reasons"),
        ("held", 0, "disk.yaml: Namespace shop"),
        ("applied", 0, "ns.yaml"),
        // Nothing.
        ("dsik.yaml", 5, "did you mean disk.yaml?"),
        ("addon-colision", 5, "did you mean addon-collision?"),
    ] {
        let ran = why(asked);
        let said = format!("{}{}", ran.out, ran.err).to_lowercase();
        assert_eq!(ran.code, code, "{asked}: {ran:?}");
        assert!(said.contains(&expected.to_lowercase()), "{asked}: {ran:?}");
    }
}

#[test]
fn why_explains_a_code_without_a_document_of_a_node() {
    let node = Node::new();
    let ran = node.run(&["why", "drain-blocked"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("drain-blocked\n"), "{ran:?}");
    assert!(!ran.out.contains("Nothing on this node"), "{ran:?}");
    assert_eq!(ran.err, "");
    assert_eq!(node.run(&["why", "Degraded"]).code, 5);
}

#[test]
fn why_gives_a_released_file_no_time_while_kube_apiserver_does_not_answer() {
    let node = Node::new();
    let mut status: Value = serde_json::from_str(STATUS).unwrap();
    let released = serde_json::json!([
        {"file": "app.yaml", "since": "2026-01-01T00:00:00Z", "cause": "byHand"}
    ]);
    status["staging"]["released"] = released;
    let mut said = |answers: Option<bool>| {
        status["staging"]["apiAnswers"] = answers.into();
        let status = node.write("elsewhere/status.json", &status.to_string());
        node.run(&["why", "--from", status.to_str().unwrap(), "app.yaml"])
            .out
    };
    assert!(said(Some(true)).contains("within 15 s"));
    // It was not asked yet: it may well answer.
    let unknown = said(None);
    assert!(
        unknown.contains("RKE2 applies it at its next pass"),
        "{unknown}"
    );
    assert!(!unknown.contains("kube-apiserver"), "{unknown}");
    let away = said(Some(false));
    assert!(away.contains("once kube-apiserver answers"), "{away}");
    assert!(!away.contains("15 s"), "{away}");
}

#[test]
fn wait_says_what_it_waited_for_and_refuses_a_file_that_is_not_there() {
    let node = Node::new();
    node.write("run/windrow/status.json", &kept_by_this_test(STATUS));
    let wait = |what: &str| node.run(&["wait", "--for", what, "--timeout", "0s"]);
    let ran = wait("applied=ns.yaml");
    assert_eq!((ran.code, ran.out.trim()), (0, "ns.yaml is applied"));
    let ran = wait("released=vm.yaml");
    assert_eq!(ran.code, 3, "{ran:?}");
    let expected = "gave up, vm.yaml is not released: PersistentVolumeClaim shop/root";
    assert!(ran.out.starts_with(expected), "{ran:?}");
    // Whoever kept the document is gone.
    let gone = kept_by_this_test(STATUS).replace("\"startTicks\":", "\"startTicks\":1");
    node.write("run/windrow/status.json", &gone);
    for (what, expected) in [
        (
            "applied=ns.yaml",
            "gave up, Windrow cannot tell whether ns.yaml is applied: state unknown",
        ),
        (
            "ready",
            "gave up, Windrow cannot tell whether the node is ready: state unknown",
        ),
    ] {
        let ran = wait(what);
        assert!(ran.code == 5 && ran.out.starts_with(expected), "{ran:?}");
    }
    node.write("run/windrow/status.json", &kept_by_this_test(STATUS));
    let ran = wait("applied=vn.yaml");
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(ran.err.contains("did you mean vm.yaml?"), "{ran:?}");
    node.manifest("rke2-coredns.yaml", CONFIG_MAP);
    let ran = wait("applied=rke2-coredns.yaml");
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(ran.err.contains("belongs to RKE2"), "{ran:?}");
    // What was laid down a moment ago is waited for.
    node.manifest("new.yaml", CONFIG_MAP);
    assert_eq!(wait("applied=new.yaml").code, 3);
}

#[test]
fn wait_for_ready_ends_for_a_degraded_node_and_goes_on_for_one_that_may_come_back() {
    let node = Node::new();
    let mut status: Value = serde_json::from_str(&kept_by_this_test(STATUS)).unwrap();
    let mut ran = |readiness: &str, pace: Value| {
        status["readiness"] = readiness.into();
        status["pace"] = pace;
        node.write("run/windrow/status.json", &status.to_string());
        node.run(&["wait", "--timeout", "0s"])
    };
    let degraded = ran("Degraded", Value::Null);
    assert_eq!(degraded.code, 0, "{degraded:?}");
    assert!(degraded.out.contains("ready, but degraded"), "{degraded:?}");
    let lost = ran("Failed", "moving".into());
    assert_eq!(lost.code, 4, "{lost:?}");
    assert!(!lost.out.contains("stuck"), "it may come back: {lost:?}");
    let stuck = ran("Failed", "stuck".into());
    assert!(stuck.out.contains("the node is stuck"), "{stuck:?}");
}

#[test]
fn a_verb_does_its_work_to_the_end_though_nobody_reads_what_it_says() {
    let node = Node::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(node.root.path())
        .args(["report", "--output-file", "report.tar.gz"])
        .current_dir(node.root.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(node.path("report.tar.gz").exists());
}

#[test]
fn a_watched_status_is_a_line_for_each_change_with_time_and_host() {
    let node = Node::new();
    let mut status: Value = serde_json::from_str(&kept_by_this_test(STATUS)).unwrap();
    node.write("run/windrow/status.json", &status.to_string());
    let mut child = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(node.root.path())
        .args(["status", "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let first = next();
    let (time, rest) = first.split_once(' ').unwrap();
    assert!(time.ends_with('Z') && time.contains('T'), "{first}");
    let expected = format!("{host} Setting up, step: manifests are being applied: disk.yaml: ");
    assert!(rest.starts_with(&expected), "{first}");
    // Another document of the same content is no change; the file that is applied is one.
    status["generation"] = 8.into();
    let held = status["staging"]["held"].as_array_mut().unwrap().remove(1);
    status["staging"]["applied"]
        .as_array_mut()
        .unwrap()
        .push(serde_json::json!({"file": held["file"], "since": held["since"], "cause": "met"}));
    node.write("run/windrow/.status.json", &status.to_string());
    fs::rename(
        node.path("run/windrow/.status.json"),
        node.path("run/windrow/status.json"),
    )
    .unwrap();
    let second = next();
    assert!(
        second.ends_with(&format!("{host} vm.yaml applied (was held)")),
        "{second}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn completion_offers_the_files_and_words_of_the_nodes_state() {
    let node = Node::new();
    node.write("run/windrow/status.json", &kept_by_this_test(STATUS));
    let lines = |kind: &str| {
        let ran = node.run(&["completion", kind]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let files = lines("files");
    assert!(files.contains(&"ns.yaml".to_owned()), "{files:?}");
    let words = lines("words");
    assert!(files.iter().all(|file| words.contains(file)), "{words:?}");
    assert!(words.len() > files.len(), "{words:?}");
    let empty = Node::new().run(&["completion", "files"]);
    assert_eq!((empty.code, empty.out.as_str()), (0, ""));
}

#[test]
fn a_code_is_explained_without_a_node_and_with_the_names_of_its_fields() {
    let ran = Node::new().run(&["why", "brought-on-condition"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(ran.out.contains("<by> provides <what>"), "{ran:?}");
}
