//! Level 3: the facts on the README's first screen are those of the data and of the program.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::Command;

use windrow_harvester::versions::HarvesterVersions;

use crate::support::markdown::{Document, documents};

const CHECK: &str = "$ windrow check harvester-config.yaml\n";

fn readme() -> Document {
    documents(&["README.md"]).remove(0)
}

#[test]
fn the_readme_names_the_versions_of_the_data() {
    let readme = readme().text;
    let words: Vec<&str> = readme.split_whitespace().collect();
    let text = words.join(" ");
    let read = &HarvesterVersions::shipped().read;
    let harvester = format!("facts about Harvester v{} to v{} (", read.from, read.to);
    assert!(text.contains(&harvester), "README.md lacks: {harvester}");
    // The head of the file says what it covers: "# What kube-apiserver 1.31 to 1.36 serves, …".
    let data = include_str!("../../crates/apischema/data/kubernetes.txt");
    let (_, covered) = data.split_once("kube-apiserver ").unwrap();
    let (minors, _) = covered.split_once(" serves").unwrap();
    let kubernetes = format!("Kubernetes {minors}, ");
    assert!(text.contains(&kubernetes), "README.md lacks: {kubernetes}");
}

#[test]
fn the_readme_shows_what_check_prints_of_its_example() {
    let blocks = readme().blocks("console");
    let shown = blocks
        .iter()
        .filter_map(|block| block.text.strip_prefix(CHECK))
        .find(|shown| shown.contains("simulated boots"))
        .expect("a block with the output of check");
    let place = tempfile::tempdir().unwrap();
    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/first-vm/harvester-config.yaml"),
        place.path().join("harvester-config.yaml"),
    )
    .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["check", "harvester-config.yaml"])
        .env("COLUMNS", "110")
        .current_dir(place.path())
        .output()
        .unwrap();
    assert_eq!(shown, String::from_utf8(output.stdout).unwrap());
}
