//! Every command of the image builder's guide, run as it stands there.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::Command;

/// The lines that are typed: those that begin with `$` in a block of a console.
fn commands(guide: &str) -> Vec<&str> {
    let blocks = guide.split("```console\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap().lines());
    lines.filter_map(|line| line.strip_prefix("$ ")).collect()
}

#[test]
fn every_command_of_the_image_builders_guide_does_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("docs/guides/image-builder.md")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let example = root.join("examples/first-vm/harvester-config.yaml");
    fs::copy(example, place.path().join("harvester-config.yaml")).unwrap();
    let second = "scheme_version: 1\nserver_url: https://10.0.0.2:443\ninstall: {mode: join}\n";
    fs::write(place.path().join("second.yaml"), second).unwrap();
    for (directory, name, text) in [
        ("conf.d", "10.yaml", "staging: {overdueAfter: 10m}\n"),
        (
            "rules.d",
            "site.yaml",
            "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: site}\n",
        ),
    ] {
        fs::create_dir(place.path().join(directory)).unwrap();
        fs::write(place.path().join(directory).join(name), text).unwrap();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_windrow")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let commands = commands(&guide);
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(place.path())
            .env("PATH", &path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
    }
    for (written, begins) in [
        ("plan.svg", "<svg"),
        ("rehearsal.html", "<!doctype html>"),
        ("check.sarif", "{"),
        ("check.xml", "<?xml"),
    ] {
        let text = fs::read_to_string(place.path().join(written)).unwrap();
        assert!(text.starts_with(begins), "{written}: {text}");
    }
}
