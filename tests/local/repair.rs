//! Level 3: `windrow repair` where nothing can be judged, and where there is no cure. Cures are carried out at level 4.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::process::{Command, Output};

use windrow::act::repair::{Record, Records};

use crate::support::apiserver::{Answer, ApiServer};

/// A kubeconfig for the server, and what the program says with it.
fn repair(server: &ApiServer, root: &std::path::Path, args: &[&str]) -> Output {
    let kubeconfig = root.join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig("first")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .arg("repair")
        .args(args)
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .output()
        .unwrap()
}

fn said(output: &Output) -> (Option<i32>, String) {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn what_cannot_be_judged_is_not_called_healthy_and_not_called_over() {
    let root = tempfile::tempdir().unwrap();
    let server = ApiServer::start();
    let (code, text) = said(&repair(&server, root.path(), &["addon-stuck", "--yes"]));
    assert!(
        code == Some(0) && text.contains("Nothing to repair"),
        "{text}"
    );

    // What other incidents need and is refused does not matter here.
    server.fault("/volumes", Answer::Refuse(403, "Forbidden", "not for you"));
    let (code, text) = said(&repair(&server, root.path(), &["addon-stuck", "--yes"]));
    assert!(
        code == Some(0) && text.contains("Nothing to repair"),
        "{text}"
    );

    server.fault("/addons", Answer::Refuse(403, "Forbidden", "not for you"));
    let (code, text) = said(&repair(&server, root.path(), &["addon-stuck", "--yes"]));
    assert!(code == Some(5) && text.contains("not for you"), "{text}");

    // One that was begun, of which nothing is left to do: whether it helped is not known.
    let record = json_record();
    let directory = root.path().join("var/lib/rancher/windrow/repairs");
    std::fs::create_dir_all(&directory).unwrap();
    let records = Records::new(directory.parent().unwrap());
    std::fs::write(
        records.path(&record),
        serde_json::to_string(&record).unwrap(),
    )
    .unwrap();
    let (code, text) = said(&repair(&server, root.path(), &["addon-stuck", "--yes"]));
    assert!(!text.contains("verified"), "{text}");
    assert!(
        code == Some(5) && text.contains("Windrow cannot tell whether the problem is gone"),
        "{text}"
    );
}

fn json_record() -> Record {
    serde_json::from_value(serde_json::json!({
        "apiVersion": "windrow.dev/v1", "kind": "Repair", "code": "addon-stuck",
        "subject": "Addon harvester-system/pci", "started": "2026-11-01T00:00:00Z", "done": 0,
        "cure": {"summary": "nothing is left to do", "changes": [], "saves": [], "steps": []}
    }))
    .unwrap()
}

#[test]
fn what_there_is_no_cure_for_is_not_called_unrecognised() {
    let root = tempfile::tempdir().unwrap();
    let server = ApiServer::start();
    for code in ["write-files-missing", "chart-retries"] {
        let (exit, text) = said(&repair(&server, root.path(), &[code, "--yes"]));
        assert!(
            exit == Some(4) && text.contains(&format!("no fix for {code}: ")),
            "{text}"
        );
    }
}
