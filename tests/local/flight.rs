//! Level 3: the flight that the real daemon writes, and its replay by `windrow replay`. Level 2: flights that were kept
//! (`tests/flights`) must be decided the same way forever.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use support::Node;
use windrow_decide::flight::FlightLine;
use windrow_replay::{Flights, Replay};

use crate::support::daemon as support;

/// Waits for a kind that nothing brings.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";
const FREE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n";
const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\nstringData: {word: hunter2}\n";
const FLIGHT: &str = "/var/lib/rancher/windrow/flight.jsonl";

fn flights(path: &Path) -> Flights {
    Flights::read(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Replays everything and returns the number of decisions. Each has to be the same.
fn replayed(flights: &Flights) -> usize {
    let mut decisions = 0;
    for segment in &flights.segments {
        let mut replay = Replay::new(segment);
        while let Some(moment) = replay.step().unwrap() {
            assert_eq!(moment.differences, [], "line {}", moment.line);
            decisions += 1;
        }
    }
    decisions
}

fn replay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("replay")
        .args(arguments)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_flight_that_was_kept_is_decided_as_it_was() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flights");
    let kept: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|one| one == "jsonl"))
        .collect();
    assert!(!kept.is_empty());
    for path in kept {
        assert!(replayed(&flights(&path)) > 0, "{}", path.display());
    }
}

#[test]
fn a_replay_takes_packs_that_change_shipped_rules_and_says_where_nothing_was_compared() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flights/first-vm.jsonl");
    let made = tempfile::tempdir().unwrap();
    let pack = made.path().join("off.yaml");
    let text = "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {name: harvester-vm}\nrules: [{name: vm-waits-for-harvester, enabled: false}]\n";
    fs::write(&pack, text).unwrap();
    let ran = replay(&[kept.to_str().unwrap(), "--rules", pack.to_str().unwrap()]);
    assert_ne!(ran.status.code(), Some(78), "{ran:?}");
    assert!(said(&ran).contains("With these rules"), "{ran:?}");

    let empty = made.path().join("empty.jsonl");
    let head = fs::read_to_string(&kept).unwrap();
    fs::write(&empty, format!("{}\n", head.lines().next().unwrap())).unwrap();
    let ran = replay(&[empty.to_str().unwrap()]);
    assert_eq!(ran.status.code(), Some(5), "{ran:?}");
    let words = String::from_utf8_lossy(&ran.stderr);
    assert!(words.contains("nothing was compared"), "{words}");
}

#[test]
fn what_rke2s_configuration_selects_is_part_of_what_was_decided_from() {
    const NETWORK: &str = "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: net, namespace: default}\nspec: {config: '{}'}\n";
    let node = Node::with(&[("10-n.yaml", NETWORK)]);
    node.write(
        "/etc/rancher/rke2/config.yaml",
        "token: hunter2\ncni: canal\n",
    );
    node.write(
        "/etc/rancher/rke2/config.yaml.d/50.yaml",
        "cni: [multus, canal]\n",
    );
    let daemon = node.ready();
    daemon.ticks(2);
    assert!(daemon.end(Signal::SIGTERM).success());
    let text = fs::read_to_string(node.path(FLIGHT)).unwrap();
    assert!(text.contains("\"cni\":[\"multus\",\"canal\"]"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    assert!(replayed(&flights(&node.path(FLIGHT))) > 0);
}

#[test]
fn what_the_daemon_did_is_replayed_to_the_same_decisions_and_has_no_secret_in_it() {
    let node = Node::with(&[
        ("10-w.yaml", WIDGET),
        ("20-c.yaml", FREE),
        ("30-s.yaml", SECRET),
    ]);
    let daemon = node.ready();
    let request = node.request("1", "hold", "20-c.yaml");
    daemon.until("the hold by hand", || node.is_marked("20-c.yaml"));
    daemon.until("the request to be gone", || !request.exists());
    fs::write(node.manifest("40-w.yaml"), WIDGET.replace("w,", "v,")).unwrap();
    daemon.until("the new file's marker", || {
        node.mark("40-w.yaml")
            .is_some_and(|mark| mark["code"] == "waits-for-cluster")
    });
    fs::remove_file(node.manifest("10-w.yaml")).unwrap();
    daemon.until("the marker to go with its file", || {
        !node.is_marked("10-w.yaml")
    });
    daemon.end(Signal::SIGTERM);

    let path = node.path(FLIGHT);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let flights = flights(&path);
    assert_eq!((flights.segments.len(), flights.damage.len()), (1, 0));
    assert!(replayed(&flights) >= 4, "{text}");

    let path = path.to_str().unwrap();
    let output = replay(&[path, "--why", "20-c.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = said(&output);
    assert!(text.contains("all of them as recorded"), "{text}");
    assert!(text.contains("hold 10-w.yaml.skip"), "{text}");
    assert!(text.contains("held by hand"), "{text}");
    let before = replay(&[path, "--until", "0s"]);
    assert!(!said(&before).contains("40-w.yaml"), "{}", said(&before));
}

#[test]
fn a_flight_goes_on_after_a_kill_and_after_a_line_that_was_torn() {
    let node = Node::with(&[("10-w.yaml", WIDGET)]);
    let daemon = node.ready();
    let path = node.path(FLIGHT);
    daemon.until("the first decision on the disk", || {
        fs::read_to_string(&path).is_ok_and(|text| text.contains("\"is\":\"decision\""))
    });
    daemon.end(Signal::SIGKILL);
    let mut text = fs::read_to_string(&path).unwrap();
    text.truncate(text.trim_end().len() - 10);
    fs::write(&path, &text).unwrap();

    let daemon = node.ready();
    daemon.end(Signal::SIGTERM);
    let flights = flights(&path);
    assert_eq!(flights.segments.len(), 2);
    assert_eq!(flights.damage.len(), 1, "{:?}", flights.damage);
    assert!(replayed(&flights) >= 1);
}

#[test]
fn a_full_file_is_set_aside_and_the_new_one_can_be_replayed_by_itself() {
    let node = Node::with(&[("10-w.yaml", WIDGET)]);
    node.write(
        "/etc/windrow/conf.d/10-f.yaml",
        "flight: {fileBytes: 256KiB}\n",
    );
    let daemon = node.ready();
    let path = node.path(FLIGHT);
    let old = node.path(&format!("{FLIGHT}.1"));
    let mut number = 0;
    daemon.until("the file to be set aside", || {
        number += 1;
        let text = WIDGET.replace("w,", &format!("w{number}-{},", "x".repeat(200)));
        fs::write(node.manifest("20-w.yaml"), text).unwrap();
        old.exists()
    });
    daemon.end(Signal::SIGTERM);
    for path in [&old, &path] {
        let length = fs::metadata(path).unwrap().len();
        assert!(length < 600 << 10, "{} has {length} bytes", path.display());
    }
    let new = flights(&path);
    assert!(new.damage.is_empty(), "{:?}", new.damage);
    replayed(&flights(&old));
    replayed(&new);
    let named = new.segments[0].lines.iter().any(|(_, line)| match line {
        FlightLine::Files(files) => files.files.iter().any(|file| file.path == "10-w.yaml"),
        _ => false,
    });
    assert!(named, "the file that did not change is missing");
}

#[test]
fn a_flight_that_cannot_be_written_keeps_nobody_from_anything() {
    let node = Node::with(&[("10-w.yaml", WIDGET)]);
    fs::create_dir_all(node.path(FLIGHT)).unwrap();
    let daemon = node.ready();
    assert!(node.is_marked("10-w.yaml"));
    daemon.until("the complaint", || {
        daemon.said().contains("the boot log cannot be written")
    });
    let count = daemon.said().matches("the boot log cannot").count();
    assert_eq!(count, 1, "{}", daemon.said());
    // Once it can be written, it has everything that a replay needs.
    fs::remove_dir(node.path(FLIGHT)).unwrap();
    fs::write(node.manifest("20-c.yaml"), FREE).unwrap();
    let path = node.path(FLIGHT);
    daemon.until("the next decision on the disk", || {
        fs::read_to_string(&path).is_ok_and(|text| text.contains("\"is\":\"decision\""))
    });
    daemon.end(Signal::SIGTERM);
    assert!(replayed(&flights(&path)) > 0);
    assert!(fs::read_to_string(&path).unwrap().contains("10-w.yaml"));
}

#[test]
fn what_is_no_flight_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::with(&[("10-w.yaml", WIDGET)]);
    node.ready().end(Signal::SIGTERM);
    let path = node.path(FLIGHT);
    let flight = path.to_str().unwrap();
    let none = directory.path().join("none.jsonl");
    fs::write(&none, "{\"kind\": \"Pod\"}\n").unwrap();
    let output = replay(&[none.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let output = replay(&[flight, "--number", "7"]);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
}

#[test]
fn a_flight_in_a_report_is_replayed_and_nobody_can_guess_a_secret_by_a_digest() {
    // Short enough to be guessed from its file's digest, if that were stored anywhere.
    let secret = SECRET.replace("hunter2", "4711");
    let node = Node::with(&[("10-w.yaml", WIDGET), ("30-s.yaml", &secret)]);
    node.write("/etc/rancher/rke2/config.yaml", "token: Clu5terT0ken\n");
    let daemon = node.ready();
    let request = node.request("1", "hold", "10-w.yaml");
    daemon.until("the request to be gone", || !request.exists());
    daemon.end(Signal::SIGTERM);
    let root = node.path("/");
    let archive = root.join("report.tar.gz");
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(&root)
        .args(["report", "--output-file"])
        .arg(&archive)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let replayed_archive = replay(&[archive.to_str().unwrap()]);
    assert_eq!(
        replayed_archive.status.code(),
        Some(0),
        "{replayed_archive:?}"
    );
    let archive = windrow::archive::Archive::read(fs::File::open(&archive).unwrap()).unwrap();
    let flight = archive.files.get("windrow/state/flight.jsonl").unwrap();
    let text = String::from_utf8_lossy(flight).into_owned();
    assert!(
        !text.contains("4711") && !text.contains("Clu5terT0ken"),
        "{text}"
    );
    for file in [secret.as_str(), WIDGET] {
        let digest = windrow_model::manifest::sha256_hex(file.as_bytes());
        assert!(!text.contains(&digest), "{text}");
    }
    let of_objects = windrow_model::manifest::read(
        "30-s.yaml",
        &windrow_model::manifest::FileContent::Bytes(secret.clone().into_bytes()),
        &windrow_model::manifest::ReadLimits::default(),
    );
    for (name, bytes) in &archive.files {
        let text = String::from_utf8_lossy(bytes);
        for digest in [&*of_objects.sha256, &*of_objects.digest] {
            assert!(!text.contains(digest), "{name} has {digest}");
        }
    }
    let plainly = String::from_utf8_lossy(&archive.files["manifests.json"]).into_owned();
    let plain = windrow_model::manifest::sha256_hex(WIDGET.as_bytes());
    assert!(plainly.contains(&plain), "{plainly}");
    assert!(replayed(&Flights::read(&text).unwrap()) > 0, "{text}");
}

#[test]
fn a_flight_is_rehearsed_with_another_version() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flights/first-vm.jsonl");
    let kept = kept.to_str().unwrap();
    let output = replay(&[kept, "--harvester", "v1.5.0"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = said(&output);
    assert!(text.contains("Harvester v1.5.0"), "{text}");
    // Its storage network is preset: no version deadlocks, and the machine's disk may be first on each.
    let race = "it comes up, but the storage network you preset is never configured, in ";
    assert!(text.contains(race), "{text}");
    assert!(!text.contains("it never comes up"), "{text}");
    // The recorded node has Harvester, and `v1.x` is no version.
    for wrong in [["--harvester", "v1.x"], ["--rke2", "v1.34.2+rke2r1"]] {
        let output = replay(&[&[kept][..], &wrong].concat());
        assert_eq!(output.status.code(), Some(64), "{output:?}");
    }
}

#[test]
fn what_hold_has_done_is_in_the_answer_of_the_next_command() {
    let node = Node::with(&[("10-w.yaml", WIDGET)]);
    let daemon = node.ready();
    let windrow = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .arg("--root")
            .arg(node.path("/"))
            .args(words)
            .output()
            .unwrap();
        said(&output)
    };
    windrow(&["hold", "10-w.yaml", "--reason", "not tonight"]);
    let why = windrow(&["why", "10-w.yaml"]);
    assert!(why.contains("not tonight"), "{why}");
    daemon.end(Signal::SIGTERM);
}
