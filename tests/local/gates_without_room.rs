//! `windrow gates settle` where nothing can be written, as on a full disk: what could stop kube-apiserver goes all the same.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::Command;

const DROP_IN: &str = "etc/rancher/rke2/config.yaml.d/99-zz9-windrow-gates.yaml";

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Installs an RKE2 of this version.
fn install(root: &Path, version: &str) {
    write(root, "usr/local/bin/rke2", &format!("\0{version}\0"));
}

/// What runs before a start of RKE2; returns what it says.
fn settle(root: &Path, has_room: bool) -> String {
    // No file may get longer than this, in blocks: a write fails, as on a disk that is full.
    let limit = if has_room { "unlimited" } else { "0" };
    let output = Command::new("sh")
        .arg("-c")
        .arg(r#"trap "" XFSZ; ulimit -f "$1"; exec "$0" gates settle --root "$2""#)
        .args([env!("CARGO_BIN_EXE_windrow"), limit])
        .arg(root)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn node(gates: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    install(root.path(), "v1.33.3+rke2r1");
    let text = format!("featureGates:\n  kubeApiserver:\n{gates}");
    write(root.path(), "etc/windrow/windrow.yaml", &text);
    settle(root.path(), true);
    assert!(root.path().join(DROP_IN).exists());
    root
}

#[test]
fn a_gate_that_the_new_version_refuses_goes_with_the_whole_drop_in_where_nothing_can_be_written() {
    let gates = "    AuthorizeNodeWithSelectors: false\n    APIResponseCompression: false\n";
    for has_room in [true, false] {
        let root = node(gates);
        let drop_in = root.path().join(DROP_IN);
        install(root.path(), "v1.34.2+rke2r1");
        let said = settle(root.path(), has_room);
        let left = fs::read_to_string(&drop_in).unwrap_or_default();
        assert!(!left.contains("AuthorizeNodeWithSelectors"), "{left}");
        assert_eq!(left.contains("APIResponseCompression"), has_room, "{said}");
        assert!(
            said.contains("`AuthorizeNodeWithSelectors=false` for kube-apiserver was removed from")
        );
        let whole =
            said.contains("`APIResponseCompression=false` for kube-apiserver was removed from");
        assert_eq!(whole, !has_room, "{said}");
    }
}

#[test]
fn what_the_version_takes_stays_where_nothing_can_be_written() {
    let root = node("    APIResponseCompression: false\n");
    write(
        root.path(),
        "etc/windrow/windrow.yaml",
        "featureGates:\n  kubeApiserver:\n    APIServerTracing: false\n",
    );
    fs::remove_dir_all(root.path().join("run")).unwrap();
    let said = settle(root.path(), false);
    assert!(said.contains("could not write"), "{said}");
    let left = fs::read_to_string(root.path().join(DROP_IN)).unwrap();
    assert!(left.contains("APIResponseCompression"), "{left}");
    assert!(!said.contains("was removed from"), "{said}");
}

#[test]
fn a_trial_whose_starts_cannot_be_counted_is_put_back_before_the_first() {
    let root = node("    APIResponseCompression: false\n");
    let drop_in = root.path().join(DROP_IN);
    let content = fs::read_to_string(&drop_in).unwrap();
    let trial = serde_json::json!({
        "request": "r1", "change": "apply", "by": "ann", "at": "2026-11-26T05:00:00Z", "forced": false,
        "version": "1.33.3+rke2r1", "asked": {"content": content}, "saved": {"content": null},
        "state": "verifying", "since": "2026-11-26T05:00:00Z", "baseline": null, "started": true,
        "written": "2026-11-26T05:00:00Z",
    });
    let path = "var/lib/rancher/windrow/gates/trial.json";
    write(root.path(), path, &trial.to_string());
    settle(root.path(), true);
    assert!(
        drop_in.exists(),
        "a first start is counted, and let through"
    );
    let said = settle(root.path(), false);
    assert!(!drop_in.exists(), "{said}");
    assert!(
        said.contains("could not count the starts of a trial"),
        "{said}"
    );
    let refused = root
        .path()
        .join("var/lib/rancher/windrow/gates/refused.json");
    assert!(!refused.exists(), "it says nothing about the gates");
}
