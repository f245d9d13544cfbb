//! Level 3: the metrics of the real program, as Prometheus' own tools read them.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::support::daemon::Node;
use crate::support::widgets::WIDGET;

/// Is there a promtool? A line says so where there is none.
fn has_promtool() -> bool {
    let found = Command::new("promtool")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_err() {
        eprintln!("skipped: there is no promtool");
    }
    found.is_ok()
}

/// Runs promtool, which has nothing to complain about.
fn promtool(args: &[&str], input: &str) {
    let mut child = Command::new("promtool")
        .args(args)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/monitoring"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "promtool {args:?}: {said}\n{input}"
    );
}

#[test]
fn node_exporter_gets_a_file_that_promtool_takes_and_that_goes_with_the_daemon() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let directory = node.path("/var/lib/prometheus/node-exporter");
    let file = directory.join("windrow.prom");
    node.write(
        "/etc/windrow/conf.d/50-metrics.yaml",
        "metrics: {textfile: /var/lib/prometheus/node-exporter/windrow.prom}\n",
    );
    let daemon = node.start_with(Command::new(env!("CARGO_BIN_EXE_windrow")), false);
    daemon.hear("READY=1");
    // The directory is node_exporter's: it is not made, and the journal says that it is missing, once.
    daemon.eventually("the directory to be missed", || {
        daemon.said().contains("write the metrics to")
    });
    fs::create_dir_all(&directory).unwrap();
    // A new file changes the status.
    fs::write(node.manifest("b.yaml"), WIDGET.replace("w1", "w2")).unwrap();
    let read = || fs::read_to_string(&file).unwrap_or_default();
    daemon.eventually("both files to be counted", || {
        read().contains("windrow_manifests{state=\"held\"} 2.0\n")
    });
    assert_eq!(daemon.said().matches("write the metrics to").count(), 1);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let text = read();
    for sample in [
        "windrow_build_info{version=",
        "windrow_readiness{state=\"Ready\"} 0.0",
        "windrow_marker_latency_seconds_count 1\n",
        "windrow_process_resident_memory_bytes ",
        "windrow_oldest_hold_start_timestamp_seconds ",
    ] {
        assert!(text.contains(sample), "{sample}: {text}");
    }
    assert!(!text.contains("a.yaml"), "{text}");
    if has_promtool() {
        promtool(&["check", "metrics"], &text);
    }

    // Another place, and the old file is gone.
    let other = directory.join("other.prom");
    node.write(
        "/etc/windrow/conf.d/50-metrics.yaml",
        "metrics: {textfile: /var/lib/prometheus/node-exporter/other.prom}\n",
    );
    daemon.signal(Signal::SIGHUP);
    daemon.eventually("the other file", || other.exists() && !file.exists());
    assert!(daemon.end(Signal::SIGTERM).success());
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn rules_and_their_tests_are_what_promtool_takes() {
    if !has_promtool() {
        return;
    }
    promtool(&["check", "rules", "windrow.rules.yml"], "");
    promtool(&["test", "rules", "windrow.rules.test.yml"], "");
    // The files with token and authority are the site's.
    let config = &["check", "config", "--syntax-only", "prometheus.example.yml"];
    promtool(config, "");
}
