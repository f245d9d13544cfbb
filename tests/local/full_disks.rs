//! A file system without space: what the status says of it, and what is written all the same.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Daemon, Node};

use crate::support::daemon as support;

/// Waits for a kind that nothing brings.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";
/// Far more than a status document or a ledger takes.
const SIZE: &str = "4m";

/// The daemon in a mount namespace of its own, with a small file system at this place; `None`, after a line that says so, where
/// mounting is not allowed.
fn on_a_small_file_system(node: &Node, place: &Path) -> Option<Daemon> {
    fs::create_dir_all(place).unwrap();
    let can_mount = Command::new("unshare")
        .args(["--mount", "sh", "-c", "mount -t tmpfs none /proc"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !can_mount {
        eprintln!("skipped: a small file system needs the right to mount");
        return None;
    }
    let script = format!("mount -t tmpfs -o size={SIZE} small \"$0\" && exec \"$@\"");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &script])
        .arg(place)
        .arg(env!("CARGO_BIN_EXE_windrowd"));
    let daemon = node.start_with(command, true);
    daemon.hear("READY=1");
    Some(daemon)
}

/// Runs a script beside the daemon, on the small file system.
fn beside(daemon: &Daemon, place: &Path, script: &str) {
    let done = Command::new("nsenter")
        .arg(format!("--target={}", daemon.child.id()))
        .args(["--mount", "sh", "-c", script])
        .arg(place)
        .stderr(Stdio::null())
        .status();
    assert!(done.unwrap().success(), "{script}");
}

fn fill(daemon: &Daemon, place: &Path) {
    beside(
        daemon,
        place,
        "cat /dev/zero >\"$0/fill\"; test -s \"$0/fill\"",
    );
}

/// The status as the daemon sees it.
fn status(node: &Node, daemon: &Daemon) -> Value {
    let place = node.path("/run/windrow/status.json");
    let inside = format!("/proc/{}/root{}", daemon.child.id(), place.display());
    let text = fs::read_to_string(inside).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn is_found_full(node: &Node, daemon: &Daemon) -> bool {
    let status = status(node, daemon);
    let findings = status["findings"].as_array().into_iter().flatten();
    let mut full = findings.filter(|finding| finding["code"] == "disk-full");
    full.any(|finding| finding["severity"] == "error")
}

#[test]
fn a_write_that_finds_no_space_is_a_finding_until_there_is_space_again() {
    let node = Node::with(&[]);
    let state = node.path("/var/lib/rancher/windrow");
    let Some(daemon) = on_a_small_file_system(&node, &state) else {
        return;
    };
    assert!(!is_found_full(&node, &daemon));
    fill(&daemon, &state);
    fs::write(node.manifest("a.yaml"), WIDGET).unwrap();
    daemon.until("the finding", || is_found_full(&node, &daemon));
    daemon.until("its line", || daemon.said().contains("no space left in "));
    beside(&daemon, &state, "rm \"$0/fill\"");
    daemon.until("its end", || !is_found_full(&node, &daemon));
    daemon.until("the line of its end", || {
        daemon.said().contains("resolved: no space left in ")
    });
    let said = daemon.said();
    assert_eq!(said.matches("error    no space left").count(), 1, "{said}");
}

#[test]
fn a_status_document_that_finds_no_space_replaces_the_old_one_all_the_same() {
    let node = Node::with(&[]);
    let run = node.path("/run/windrow");
    let Some(daemon) = on_a_small_file_system(&node, &run) else {
        return;
    };
    daemon.until("the first document", || !status(&node, &daemon).is_null());
    fill(&daemon, &run);
    // The new document is longer, and may need one more page. A second document does not fit into that.
    beside(&daemon, &run, "truncate --size=-4096 \"$0/fill\"");
    fs::write(node.manifest("a.yaml"), WIDGET).unwrap();
    daemon.until("the new document", || {
        status(&node, &daemon)["staging"]["held"][0]["file"] == "a.yaml"
    });
}
