//! Level 3: README's first command, a simulated node under the real daemon with real files.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// At full speed; `temporary` is where a directory is made when none is named.
fn sandbox(temporary: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["run", "--speed", "600", "--sandbox"])
        .args(arguments)
        .env("TMPDIR", temporary)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_sandbox_shows_what_was_held_what_was_released_and_what_would_have_been_without() {
    let temporary = tempfile::tempdir().unwrap();
    let output = sandbox(temporary.path(), &[]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    for words in [
        "registry-image.yaml",
        "held 00:00, released",
        "With Windrow\n  the node comes up, and everything is applied",
        "Without Windrow\n  it comes up, but the storage network you preset is never configured",
    ] {
        assert!(said.contains(words), "{words:?} is not in\n{said}");
    }
    // The last line names a new directory, which holds what the node had on its disk.
    let made = said.trim_end().rsplit(": ").next().unwrap();
    assert!(Path::new(made).starts_with(temporary.path()), "{said}");
    let manifests = Path::new(made).join("var/lib/rancher/rke2/server/manifests");
    assert!(manifests.join("registry-image.yaml").exists());
    assert!(!manifests.join("registry-image.yaml.skip").exists());
}

#[test]
fn a_sandbox_writes_to_no_directory_in_which_something_lies() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("mine"), "text").unwrap();
    let output = sandbox(directory.path(), &[directory.path().to_str().unwrap()]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("is not empty"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}
