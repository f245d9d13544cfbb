//! Level 3: how distributions and others bring Windrow (`packaging/`), as far as it can be seen without their tools.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap()
}

#[test]
fn every_recipe_is_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    for (path, line) in [
        (
            "packaging/rpm/windrow.spec",
            format!("Version:        {version}\n"),
        ),
        (
            "packaging/krew/windrow.yaml",
            format!("  version: v{version}\n"),
        ),
        (
            "packaging/harvester/day2/plan.yaml",
            format!("/windrow:{version}-installer\n"),
        ),
        (
            "packaging/harvester/day2/remove.yaml",
            format!("/windrow:{version}-installer\n"),
        ),
    ] {
        assert!(
            text(path).contains(&line),
            "{path} has no line with {line:?}"
        );
    }
}

#[test]
fn debians_source_package_has_what_the_deb_of_a_release_has() {
    let tree = tempfile::tempdir().unwrap();
    let debian = tree.path().join("packaging/debian");
    fs::create_dir_all(debian.parent().unwrap()).unwrap();
    let copied = Command::new("cp")
        .arg("-R")
        .arg(repository("packaging/debian"))
        .arg(&debian)
        .status();
    assert!(copied.unwrap().success());
    for name in ["packaging/version", "packaging/commit", "Cargo.toml"] {
        fs::copy(repository(name), tree.path().join(name)).unwrap();
    }
    let crates = tree.path().join("vendor/some-crate-1.0.0");
    fs::create_dir_all(&crates).unwrap();
    fs::write(
        crates.join("Cargo.toml"),
        "[package]\nname = \"some-crate\"\nlicense = \"(MIT OR Apache-2.0) AND Unicode-3.0\"\n",
    )
    .unwrap();
    let laid = Command::new(debian.join("lay-out"))
        .args(["--releases", "https://example.com/windrow/"])
        .env("SOURCE_DATE_EPOCH", "0")
        .output()
        .unwrap();
    assert!(laid.status.success(), "{laid:?}");
    let made = |name: &str| fs::read_to_string(tree.path().join("debian").join(name)).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(made("changelog").starts_with(&format!("windrow ({version}-1) ")));
    assert!(made("changelog").ends_with("  Thu, 01 Jan 1970 00:00:00 +0000\n"));
    let control = made("control");
    for line in [
        "Source: windrow",
        "Package: windrow",
        "Description: bootstrap agent for",
    ] {
        assert!(control.contains(line), "{control}");
    }
    assert!(
        !control.contains("@\n"),
        "a place is not filled in: {control}"
    );
    let copyright = made("copyright");
    assert!(
        copyright.contains("Files: vendor/some-crate-1.0.0/*\n"),
        "{copyright}"
    );
    assert!(
        copyright.contains("License: Expat or Apache-2.0, and Unicode-3.0\n"),
        "{copyright}"
    );
    let looked_for =
        "https://example.com/windrow/ (?:.*/)?windrow-@ANY_VERSION@-source@ARCHIVE_EXT@\n";
    assert!(made("watch").ends_with(looked_for), "{}", made("watch"));
    for script in ["postinst", "prerm", "postrm"] {
        assert_eq!(made(script), text(&format!("packaging/debian/{script}")));
    }
}
