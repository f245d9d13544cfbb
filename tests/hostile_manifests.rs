//! Manifests that are hostile, or only unlucky, through the real program on a real file system.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

#[path = "support/daemon.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::Node;

fn windrow(args: &[&str], paths: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(args)
        .args(paths)
        .output()
        .unwrap()
}

/// All that a run of the program printed.
fn printed(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Every file below a directory in which `word` stands, but for the manifests.
fn with_word(dir: &Path, word: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !path.ends_with("server/manifests") {
            found.extend(with_word(&path, word));
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap();
            if bytes.windows(word.len()).any(|piece| piece == word) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_password_that_looks_like_an_alias_stays_in_its_file() {
    const WORD: &str = "Summer2026xyz";
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\nstringData:\n  password: *{WORD}\n"
    );
    let node = Node::with(&[("login.yaml", &text)]);
    let manifests = node.manifests();
    for args in [
        &["plan"][..],
        &["plan", "-o", "json"],
        &["check"],
        &["rehearse"],
    ] {
        let output = windrow(args, &[&manifests]);
        let printed = printed(&output);
        assert!(!printed.contains(WORD), "{args:?}: {printed}");
        assert!(!output.status.success(), "{args:?}: {printed}");
        if args[0] == "plan" {
            assert!(printed.contains("an alias"), "{args:?}: {printed}");
        }
    }
    let daemon = node.ready();
    daemon.until("the file is in the status document", || {
        printable(&node.status()).contains("an alias")
    });
    assert!(printable(&node.status()).contains("\"line\":6"));
    daemon.end(Signal::SIGTERM);
    assert_eq!(
        with_word(node.root.path(), WORD.as_bytes()),
        Vec::<String>::new()
    );
}

fn printable(status: &Value) -> String {
    serde_json::to_string(status).unwrap()
}
