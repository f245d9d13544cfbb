//! Level 3: README's first command, a simulated node under the real daemon with real files. What a person types beside it is in
//! `guide.rs`.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// At full speed; `temporary` is where a directory is made when none is named.
fn sandbox(temporary: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["sandbox", "--speed", "600"])
        .args(arguments)
        .stdin(Stdio::null())
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
        "Windrow's last word: Ready\n",
        "Where the boot spent its time\n  Ready after ",
        "Without Windrow\n  it comes up, but the storage network you preset is never configured",
    ] {
        assert!(said.contains(words), "{words:?} is not in\n{said}");
    }
    // The last line names a new directory, which holds what the node had on its disk.
    let made = said.trim_end().rsplit(' ').next().unwrap();
    assert!(Path::new(made).starts_with(temporary.path()), "{said}");
    let manifests = Path::new(made).join("var/lib/rancher/rke2/server/manifests");
    assert!(manifests.join("registry-image.yaml").exists());
    assert!(!manifests.join("registry-image.yaml.skip").exists());
}

#[test]
fn what_a_sandbox_says_to_type_is_taken_by_the_program_that_it_names() {
    let temporary = tempfile::tempdir().unwrap();
    let output = sandbox(temporary.path(), &[]);
    let said = text(&output.stdout);
    let typed: Vec<&str> = said
        .lines()
        .filter(|line| line.contains(" --root "))
        .collect();
    assert_eq!(typed.len(), 4, "{said}");
    for line in typed {
        let command = line.trim().trim_start_matches("The whole timeline: ");
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let words = std::iter::once("windrow").chain(words);
        let taken = windrow::cli::command().try_get_matches_from(words);
        assert!(taken.is_ok(), "{command}: {taken:?}");
    }
    // It ends with what decided it, which can be asked for again.
    let timeline = said
        .lines()
        .find_map(|line| line.strip_prefix("The whole timeline: "));
    let output = Command::new("sh")
        .args(["-c", timeline.unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).contains("Critical path"), "{output:?}");
}

#[test]
fn a_sandbox_refuses_a_pause_at_what_never_comes_and_says_what_does() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--pause-at", "lunch", "--pause-at", "ready"];
    let output = sandbox(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let complaint = text(&output.stderr);
    for words in [
        "--pause-at lunch",
        "storage-network, manifests, ready",
        "00-registry.yaml",
    ] {
        assert!(complaint.contains(words), "{complaint}");
    }
}

#[test]
fn a_pause_ends_by_itself_where_nothing_can_be_typed() {
    let temporary = tempfile::tempdir().unwrap();
    let output = sandbox(temporary.path(), &["--pause-at", "rancher"]);
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("-- stopped at rancher"), "{said}");
    assert!(
        said.contains("Standard input has ended: the node goes on."),
        "{said}"
    );
}

#[test]
fn how_long_something_has_lasted_on_a_sandboxs_node_is_said_by_its_own_clock() {
    let temporary = tempfile::tempdir().unwrap();
    let node = temporary.path().join("node");
    let mut child = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["sandbox", "--speed", "600", "--pause-at", "rancher"])
        .arg(&node)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    assert!(lines.any(|line| line.contains("-- stopped at rancher")));
    let told = node.join("run/windrow/sandbox-time.json");
    let mut time: Value = serde_json::from_slice(&fs::read(&told).unwrap()).unwrap();
    assert_eq!(time["speed"], 0, "{time}");
    // Whatever this machine's clock shows.
    let status = fs::read(node.join("run/windrow/status.json")).unwrap();
    let status: Value = serde_json::from_slice(&status).unwrap();
    let since: jiff::Timestamp = status["since"].as_str().unwrap().parse().unwrap();
    time["node"] = (since + jiff::SignedDuration::from_hours(2))
        .to_string()
        .into();
    fs::write(&told, time.to_string()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["status", "--root"])
        .arg(&node)
        .output()
        .unwrap();
    assert!(text(&output.stdout).contains("2h00m"), "{output:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_sandbox_writes_to_no_directory_in_which_something_lies() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("mine"), "text").unwrap();
    let output = sandbox(directory.path(), &[directory.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(text(&output.stderr).contains("is not empty"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

/// A Harvester configuration that writes a ConfigMap, with these lines in its metadata, and this configuration of Windrow's.
fn configuration(metadata: &str, own: &str) -> String {
    format!(
        "schemeVersion: 1\ntoken: x\nos:\n  writeFiles:\n  - path: /var/lib/rancher/rke2/server/manifests/map.yaml\n    content: |\n      apiVersion: v1\n      kind: ConfigMap\n      metadata: {{name: a, namespace: default{metadata}}}\n  - path: /etc/rancher/windrow/conf.d/50-site.yaml\n    content: |\n      {own}\ninstall:\n  mode: create\n"
    )
}

#[test]
fn a_sandbox_lays_down_windrows_own_files_and_does_not_call_done_what_stays_held() {
    let waits = ", annotations: {windrow.dev/depends-on: apps/namespaces/default/Deployment/none}";
    for (own, code, words) in [
        ("staging: {}", 4, "and this stays held: map.yaml"),
        (
            "staging: {enabled: false}",
            0,
            "the node comes up, and everything is applied",
        ),
    ] {
        let temporary = tempfile::tempdir().unwrap();
        let config = temporary.path().join("config.yaml");
        fs::write(&config, configuration(waits, own)).unwrap();
        let config = format!("--config={}", config.display());
        let output = sandbox(temporary.path(), &[&config]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{words} is not in\n{said}");
    }
}
