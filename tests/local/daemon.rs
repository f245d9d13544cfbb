//! Level 3: the real program on a real file system, with real inotify and a real notify socket.
//!
//! There is no cluster, so a file that waits for one keeps waiting.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use serde_json::Value;
use support::{Daemon, Node, can_mount};

use crate::support::daemon as support;

/// Waits for a kind that nothing brings.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";
/// After this long without a write a file counts as complete.
const QUIET: Duration = Duration::from_secs(5);
/// Waits for nothing.
const FREE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n";

#[test]
fn markers_are_on_disk_before_ready_and_no_cluster_is_needed_for_it() {
    let names: Vec<String> = (0..50).map(|number| format!("{number:02}.yaml")).collect();
    let node = Node::with(
        &names
            .iter()
            .map(|name| (name.as_str(), WIDGET))
            .collect::<Vec<_>>(),
    );
    fs::write(node.manifest("free.yaml"), FREE).unwrap();
    let daemon = node.start();
    daemon.hear("READY=1");
    for name in &names {
        assert!(node.mark(name).is_some(), "{name} has no marker");
    }
    assert!(!node.is_marked("free.yaml"));
    let line = daemon.hear("STATUS=");
    assert!(
        line.starts_with("STATUS=Unknown") && line.contains(", 50 files held: "),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1);
    assert_eq!(
        node.status()["staging"]["held"].as_array().unwrap().len(),
        50
    );
    let leftovers = fs::read_dir(node.manifests())
        .unwrap()
        .filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.as_bytes().starts_with(b".windrow")
        })
        .count();
    assert_eq!(leftovers, 0);
}

#[test]
fn the_watchdog_is_fed_when_it_is_asked_for_and_only_then() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let daemon = node.ready();
    daemon.ticks(3);
    drop(daemon);

    let daemon = node.start_with(Command::new(env!("CARGO_BIN_EXE_windrowd")), false);
    daemon.hear("READY=1");
    daemon.signal(Signal::SIGTERM);
    loop {
        let said = daemon.next();
        assert!(!said.contains("WATCHDOG"), "{said}");
        if said.contains("STOPPING=1") {
            break;
        }
    }
}

#[test]
fn a_file_that_appears_is_marked_and_one_that_goes_takes_its_marker_along() {
    let node = Node::with(&[]);
    let daemon = node.ready();
    fs::write(node.manifest("late.yaml"), WIDGET).unwrap();
    daemon.until("the marker", || {
        node.mark("late.yaml")
            .is_some_and(|mark| mark["code"] != "being-read")
    });
    fs::create_dir(node.manifest("sub")).unwrap();
    fs::write(node.manifest("sub/deep.yaml"), WIDGET).unwrap();
    daemon.until("the marker below", || node.is_marked("sub/deep.yaml"));
    fs::remove_file(node.manifest("late.yaml")).unwrap();
    daemon.until("no marker", || !node.is_marked("late.yaml"));
    assert!(node.is_marked("sub/deep.yaml"));
}

#[test]
fn a_file_is_kept_from_rke2_for_as_long_as_it_is_being_written() {
    let node = Node::with(&[]);
    let daemon = node.ready();
    let mut file = File::create(node.manifest("slow.yaml")).unwrap();
    file.write_all(FREE.as_bytes()).unwrap();
    daemon.until("the marker", || node.is_marked("slow.yaml"));
    for _ in 0..5 {
        let written = Instant::now();
        file.write_all(b"# more\n").unwrap();
        daemon.ticks(1);
        // A slow machine has left the file alone for this long, which may be long enough to count as complete.
        let marked = node.is_marked("slow.yaml");
        assert!(
            marked || written.elapsed() > QUIET,
            "lifted while it was open"
        );
    }
    drop(file);
    daemon.until("no marker", || !node.is_marked("slow.yaml"));
}

#[test]
fn a_directory_may_come_later_and_be_replaced() {
    let node = Node::empty();
    let daemon = node.ready();
    assert!(daemon.said().contains("does not exist yet"));
    fs::create_dir_all(node.manifests()).unwrap();
    fs::write(node.manifest("a.yaml"), WIDGET).unwrap();
    daemon.until("the first marker", || node.is_marked("a.yaml"));
    fs::rename(node.manifests(), node.path("/old")).unwrap();
    fs::create_dir_all(node.manifests()).unwrap();
    fs::write(node.manifest("b.yaml"), WIDGET).unwrap();
    daemon.until("the marker in the new directory", || {
        node.is_marked("b.yaml")
    });
    assert!(!node.is_marked("a.yaml"));
}

#[test]
fn what_others_hold_stays_theirs() {
    let node = Node::with(&[("a.yaml", WIDGET), ("b.yaml", FREE)]);
    for name in ["a.yaml.skip", "b.yaml.skip"] {
        fs::write(node.manifest(name), "harvester").unwrap();
    }
    let daemon = node.ready();
    daemon.ticks(2);
    let held = node.status()["staging"]["held"].clone();
    for entry in held.as_array().unwrap() {
        assert_eq!(entry["by"], "other");
    }
    assert!(daemon.end(Signal::SIGTERM).success());
    for name in ["a.yaml.skip", "b.yaml.skip"] {
        assert_eq!(
            fs::read_to_string(node.manifest(name)).unwrap(),
            "harvester"
        );
    }
}

#[test]
fn a_kill_and_a_restart_change_nothing_that_was_decided() {
    let node = Node::with(&[("a.yaml", WIDGET), ("free.yaml", FREE)]);
    let daemon = node.ready();
    let before = node.mark("a.yaml").unwrap();
    assert!(!daemon.end(Signal::SIGKILL).success());
    assert_eq!(node.mark("a.yaml").unwrap(), before);
    let daemon = node.ready();
    assert_eq!(node.mark("a.yaml").unwrap()["since"], before["since"]);
    assert!(!node.is_marked("free.yaml"));
    assert!(
        !daemon.said().contains("held: "),
        "reported once only:\n{}",
        daemon.said()
    );
}

#[test]
fn a_directory_that_is_read_in_parts_is_decided_as_a_whole() {
    let node = Node::with(&[("a.yaml", FREE), ("b.yaml", FREE), ("z.yaml", WIDGET)]);
    node.write(
        "/etc/windrow/conf.d/10-small.yaml",
        "staging: {limits: {directoryBytes: 100}}\n",
    );
    let marker = || fs::metadata(node.manifest("z.yaml.skip")).map(|found| found.ino());
    let daemon = node.ready();
    let held = marker().unwrap();
    // A start and a reload forget what was read: the hold stays meanwhile.
    assert!(!daemon.end(Signal::SIGKILL).success());
    let daemon = node.ready();
    daemon.ticks(2);
    daemon.signal(Signal::SIGHUP);
    daemon.hear("RELOADING=1");
    daemon.hear("READY=1");
    daemon.ticks(2);
    assert_eq!(marker().unwrap(), held);
    let said = daemon.said();
    let changes = [
        "z.yaml held",
        "z.yaml released",
        "z.yaml is gone",
        "z.yaml applied",
    ];
    assert!(!changes.iter().any(|one| said.contains(one)), "{said}");
    assert_eq!(node.status()["staging"]["total"], 3);
}

#[test]
fn sigterm_ends_it_well_and_leaves_every_hold_in_place() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let mut daemon = node.ready();
    daemon.signal(Signal::SIGTERM);
    daemon.hear("STOPPING=1");
    assert!(daemon.child.wait().unwrap().success());
    assert!(node.is_marked("a.yaml"));
}

#[test]
fn sighup_reads_the_configuration_anew_and_a_bad_one_is_told_with_its_line() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let daemon = node.ready();
    node.write(
        "/etc/windrow/conf.d/10-bad.yaml",
        "staging:\n  enabled: perhaps\n",
    );
    node.write(
        "/etc/windrow/conf.d/20-off.yaml",
        "staging: {enabled: false}\n",
    );
    daemon.signal(Signal::SIGHUP);
    let said = daemon.hear("RELOADING=1");
    assert!(said.contains("MONOTONIC_USEC="), "{said}");
    daemon.hear("READY=1");
    assert!(!node.is_marked("a.yaml"), "staging is off");
    assert!(daemon.said().contains("10-bad.yaml:2: staging.enabled"));
    fs::remove_file(node.path("/etc/windrow/conf.d/20-off.yaml")).unwrap();
    daemon.signal(Signal::SIGHUP);
    daemon.hear("READY=1");
    fs::write(node.manifest("b.yaml"), WIDGET).unwrap();
    daemon.until("staging to be on again", || node.is_marked("b.yaml"));
}

#[test]
fn a_ledger_that_cannot_be_read_is_set_aside_and_the_markers_rebuild_it() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let daemon = node.ready();
    let before = node.mark("a.yaml").unwrap();
    drop(daemon);
    let ledger = node.write(
        "/var/lib/rancher/windrow/ledger.json",
        "{\"version\":1,\"fi",
    );
    let daemon = node.ready();
    assert!(daemon.said().contains("rebuilt"), "{}", daemon.said());
    assert!(ledger.with_file_name("ledger.json.corrupt-1").exists());
    let rebuilt: Value = serde_json::from_slice(&fs::read(&ledger).unwrap()).unwrap();
    assert_eq!(rebuilt["files"]["a.yaml"]["since"], before["since"]);
}

#[test]
fn a_disk_that_takes_nothing_keeps_nobody_from_being_ready() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    // Files where directories should be: root cannot write there either.
    let state = node.write("/var/lib/rancher/windrow", "");
    let run = node.write("/run/windrow", "");
    let daemon = node.ready();
    assert!(node.is_marked("a.yaml"));
    let said = daemon.said();
    assert!(said.contains("could not write the ledger"), "{said}");
    assert!(said.contains("status.json"), "{said}");
    fs::remove_file(&state).unwrap();
    fs::remove_file(&run).unwrap();
    daemon.until("the ledger and the status", || {
        state.join("ledger.json").exists() && run.join("status.json").exists()
    });
    let failures = daemon.said().matches("could not write the ledger").count();
    assert_eq!(failures, 1, "reported once:\n{}", daemon.said());
}

/// The daemon in its own mount namespace, in which the manifests directory is read-only; `None`, after a line that says
/// so, where mounting is not allowed.
fn on_a_read_only_directory(node: &Node) -> Option<Daemon> {
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    command
        .args(["--mount", "sh", "-c", script])
        .arg(node.manifests())
        .arg(env!("CARGO_BIN_EXE_windrowd"));
    if !can_mount() {
        return None;
    }
    let daemon = node.start_with(command, true);
    daemon.hear("READY=1");
    Some(daemon)
}

/// The directory can be written again.
fn make_writable(node: &Node, daemon: &Daemon) {
    let done = Command::new("nsenter")
        .arg(format!("--target={}", daemon.child.id()))
        .args(["--mount", "mount", "-o", "remount,bind,rw"])
        .arg(node.manifests())
        .status();
    assert!(done.unwrap().success());
}

/// The file in a list of the status, if it is there.
fn listed(node: &Node, list: &str, file: &str) -> Option<Value> {
    let status = node.status();
    let files = status["staging"][list].as_array()?;
    files.iter().find(|one| one["file"] == file).cloned()
}

fn finding(node: &Node, code: &str) -> Option<Value> {
    let status = node.status();
    let findings = status["findings"].as_array()?;
    findings.iter().find(|one| one["code"] == code).cloned()
}

#[test]
fn a_file_whose_marker_cannot_be_written_is_not_held_until_it_can() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let Some(daemon) = on_a_read_only_directory(&node) else {
        return;
    };
    assert!(!node.is_marked("a.yaml"));
    // From the first document on.
    assert_eq!(listed(&node, "held", "a.yaml"), None);
    let not_held = listed(&node, "notHeld", "a.yaml").unwrap();
    let error = not_held["error"].as_str().unwrap();
    assert!(error.contains("Read-only file system"), "{not_held}");
    let found = finding(&node, "not-held").unwrap();
    assert_eq!(found["severity"], "warning");
    assert_eq!(found["at"][0]["file"], "a.yaml");
    let said = daemon.said();
    assert!(said.contains("a.yaml cannot be held"), "{said}");
    assert!(said.contains("could not create the marker"), "{said}");
    // It keeps running, and reports it once.
    daemon.ticks(15);
    let said = daemon.said();
    let failures = said.matches("could not create the marker").count();
    assert_eq!(failures, 1, "{said}");
    assert!(!said.contains("a.yaml held: "), "{said}");
    assert!(!said.contains("removed by someone else"), "{said}");

    make_writable(&node, &daemon);
    daemon.until("the hold", || node.is_marked("a.yaml"));
    daemon.until("the news", || daemon.said().contains("a.yaml held: "));
    daemon.until("the status", || {
        listed(&node, "held", "a.yaml").is_some() && finding(&node, "not-held").is_none()
    });
    assert_eq!(listed(&node, "notHeld", "a.yaml"), None);
}

#[test]
fn a_file_whose_marker_cannot_be_removed_stays_held_until_it_can() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    drop(node.ready());
    assert!(node.is_marked("a.yaml"));
    node.request("1", "release", "a.yaml");
    let Some(daemon) = on_a_read_only_directory(&node) else {
        return;
    };
    let held = listed(&node, "held", "a.yaml").unwrap();
    assert_eq!(held["code"], "marker-stays", "{held}");
    assert!(
        held["why"]
            .as_str()
            .unwrap()
            .contains("Read-only file system"),
        "{held}"
    );
    assert_eq!(listed(&node, "released", "a.yaml"), None);
    assert!(finding(&node, "marker-stays").is_some());
    let said = daemon.said();
    assert!(said.contains("could not remove the marker"), "{said}");
    assert!(!said.contains("a.yaml released"), "{said}");

    make_writable(&node, &daemon);
    daemon.until("the release", || !node.is_marked("a.yaml"));
    daemon.until("the news", || daemon.said().contains("a.yaml released"));
    daemon.until("the status", || {
        listed(&node, "released", "a.yaml").is_some()
    });
}

#[test]
fn a_name_without_room_for_a_marker_is_listed_as_not_held_and_a_shorter_one_is_held() {
    let name = |length: usize| format!("{}.yaml", "a".repeat(length - 5));
    let (longest, too_long) = (name(250), name(251));
    let node = Node::with(&[(&longest, WIDGET), (&too_long, WIDGET)]);
    let daemon = node.ready();
    assert!(node.mark(&longest).is_some());
    assert!(listed(&node, "held", &longest).is_some());
    assert_eq!(listed(&node, "held", &too_long), None);
    let not_held = listed(&node, "notHeld", &too_long).unwrap();
    let error = not_held["error"].as_str().unwrap();
    assert!(error.contains("shorter name"), "{error}");
    let release = node.request("1", "release", &longest);
    daemon.until("the release", || {
        !node.is_marked(&longest) && !release.exists()
    });
}

#[test]
fn files_of_one_name_are_released_together_and_stay_so() {
    let node = Node::with(&[("pair.yaml", WIDGET)]);
    fs::create_dir(node.manifest("sub")).unwrap();
    fs::write(node.manifest("sub/pair.yaml"), WIDGET.replace("w,", "v,")).unwrap();
    let daemon = node.ready();
    let hidden = || node.is_marked("pair.yaml") || node.is_marked("sub/pair.yaml");
    assert!(hidden());
    let request = node.request("1", "release", "sub/pair.yaml");
    daemon.until("the release", || !hidden() && !request.exists());
    daemon.ticks(5);
    assert!(!hidden());
    let said = daemon.said();
    for file in ["pair.yaml", "sub/pair.yaml"] {
        assert!(
            listed(&node, "released", file).is_some(),
            "{:#}",
            node.status()
        );
        assert!(said.contains(&format!("{file} released after")), "{said}");
    }
    assert!(!said.contains("removed by someone else"), "{said}");
}

#[test]
fn what_the_failsafe_lifted_is_told_as_its_work() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    drop(node.ready());
    let lifted = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(node.root.path())
        .args(["release", "--failsafe"])
        .output()
        .unwrap();
    assert!(lifted.status.success(), "{lifted:?}");
    let daemon = node.ready();
    let said = daemon.said();
    assert!(
        said.contains("a.yaml released") && said.contains("the fail-safe lifted"),
        "{said}"
    );
    assert!(!said.contains("by hand"), "{said}");
    assert!(!node.is_marked("a.yaml"));
}

#[test]
fn a_hostile_directory_neither_blocks_nor_hides_what_is_good() {
    let node = Node::with(&[("good.yaml", WIDGET)]);
    let at = |name: &str| node.manifest(name);
    nix::unistd::mkfifo(&at("fifo.yaml"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(at("socket.yaml")).unwrap();
    fs::create_dir(at("directory.yaml")).unwrap();
    symlink("nowhere", at("dangling.yaml")).unwrap();
    symlink("/etc/passwd", at("outside.yaml")).unwrap();
    symlink("loop.yaml", at("loop.yaml")).unwrap();
    symlink(".", at("cycle")).unwrap();
    File::create(at("huge.yaml"))
        .unwrap()
        .set_len(1 << 31)
        .unwrap();
    fs::write(at("nul.yaml"), b"a: \0\n").unwrap();
    fs::write(at("utf16.yaml"), b"\xff\xfea\0:\0").unwrap();
    let bomb: String = ('a'..='z').fold("x0: &x0 [1,1,1,1,1,1,1,1,1]\n".to_owned(), |text, _| {
        let last = text.matches('&').count() - 1;
        let next = last + 1;
        format!("{text}x{next}: &x{next} [*x{last},*x{last},*x{last},*x{last}]\n")
    });
    fs::write(at("bomb.yaml"), bomb).unwrap();
    fs::write(at("deep.yaml"), "[".repeat(100_000)).unwrap();
    let raw = std::ffi::OsStr::from_bytes(b"\xff\xfe.yaml");
    fs::write(node.manifests().join(raw), WIDGET).unwrap();
    let daemon = node.ready();
    assert!(node.is_marked("good.yaml"));
    assert!(
        node.is_marked("fifo.yaml"),
        "RKE2 would hang on it for good"
    );
    let status = node.status();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for finding in status["findings"].as_array().unwrap() {
        for place in finding["at"].as_array().unwrap() {
            found
                .entry(place["file"].as_str().unwrap().to_owned())
                .or_default()
                .push(finding["code"].as_str().unwrap().to_owned());
        }
    }
    for name in [
        "fifo.yaml",
        "socket.yaml",
        "dangling.yaml",
        "outside.yaml",
        "huge.yaml",
        "nul.yaml",
        "bomb.yaml",
        "deep.yaml",
    ] {
        assert!(
            found.contains_key(name),
            "nothing said of {name}: {found:?}"
        );
    }
    // No marker can hide this name, so there is none, and the file is not reported as held.
    let of_the_name = &found["\\xff\\xfe.yaml"];
    assert!(
        of_the_name.iter().any(|code| code == "file-name-not-text"),
        "{found:?}"
    );
    let held = status["staging"]["held"].to_string();
    assert!(!held.contains("xfe.yaml"), "{held}");
    let names = fs::read_dir(node.manifests()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name());
    let markers: Vec<_> = names
        .filter(|name| name.to_string_lossy().ends_with("xfe.yaml.skip"))
        .collect();
    assert!(markers.is_empty(), "{markers:?}");
    daemon.ticks(2);
}

#[test]
fn a_request_is_carried_out_also_when_it_was_written_while_nobody_listened() {
    let node = Node::with(&[("free.yaml", FREE), ("a.yaml", WIDGET)]);
    let request = node.request("1", "hold", "free.yaml");
    let daemon = node.ready();
    assert_eq!(node.mark("free.yaml").unwrap()["code"], "held-by-hand");
    assert!(!request.exists());
    let release = node.request("2", "release", "a.yaml");
    daemon.until("the release", || !node.is_marked("a.yaml"));
    daemon.until("the request to be done with", || !release.exists());
    assert!(node.is_marked("free.yaml"));
    let nonsense = node.request("3", "explode", "a.yaml");
    daemon.until("the nonsense to be done with", || !nonsense.exists());
    assert!(daemon.said().contains("explode"), "{}", daemon.said());

    drop(daemon);
    let _daemon = node.ready();
    assert!(
        node.is_marked("free.yaml"),
        "what a person said outlives a restart"
    );
    assert!(!node.is_marked("a.yaml"));
}

#[test]
fn a_second_daemon_on_the_same_root_ends_at_once_and_touches_nothing() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let daemon = node.ready();
    let state = || {
        let mut found = Vec::new();
        walk(node.root.path(), node.root.path(), &mut found);
        // A line of the login prompt that is being written again.
        found.retain(|path| !path.contains("/.windrow-"));
        found.sort();
        let ledger = fs::read_to_string(node.path("/var/lib/rancher/windrow/ledger.json"));
        let ledger: Value = serde_json::from_str(&ledger.unwrap()).unwrap();
        let writer = node.status()["writer"].clone();
        (found, ledger["files"].clone(), node.mark("a.yaml"), writer)
    };
    // Nothing waits for this outlet.
    daemon.until("the login prompt's line", || {
        node.root.path().join("run/motd.d/windrow").exists()
    });
    let before = state();
    let mut second = Command::new(env!("CARGO_BIN_EXE_windrowd"))
        .arg("--root")
        .arg(node.root.path())
        .env_remove("NOTIFY_SOCKET")
        .env_remove("JOURNAL_STREAM")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    daemon.until("the end of the second one", || {
        second.try_wait().unwrap().is_some()
    });
    let output = second.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(75), "{said}");
    assert!(
        said.starts_with("windrowd: ")
            && said.contains("another Windrow runs")
            && said.lines().count() == 1,
        "{said}"
    );
    assert_eq!(state(), before);

    // However the first one ends, its lock ends too.
    assert!(!daemon.end(Signal::SIGKILL).success());
    node.ready();
}

#[test]
fn its_help_may_be_closed_before_it_is_read() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let help = Command::new(env!("CARGO_BIN_EXE_windrowd"))
        .arg("--help")
        .stdout(writer)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&help.stderr);
    assert_eq!((help.status.code(), &*said), (Some(0), ""));
}

#[test]
fn nothing_but_its_own_directories_is_touched() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    let daemon = node.ready();
    daemon.ticks(2);
    assert!(daemon.end(Signal::SIGTERM).success());
    let mut made = Vec::new();
    walk(node.root.path(), node.root.path(), &mut made);
    made.sort();
    assert_eq!(
        made,
        [
            "etc/windrow/conf.d/00-test.yaml",
            "log",
            "notify",
            // What a login shows then: that the daemon does not run.
            "run/issue.d/windrow.issue",
            "run/motd.d/windrow",
            "run/windrow/lock",
            "run/windrow/status.json",
            "var/lib/rancher/rke2/server/manifests/a.yaml",
            "var/lib/rancher/rke2/server/manifests/a.yaml.skip",
            "var/lib/rancher/windrow/flight.jsonl",
            "var/lib/rancher/windrow/ledger.json",
        ]
    );
}

fn walk(root: &Path, directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(root, &path, found);
        } else {
            let below = path.strip_prefix(root).unwrap();
            found.push(below.display().to_string());
        }
    }
}

#[test]
fn a_data_directory_of_rke2s_that_is_not_windrows_is_found_with_file_and_line() {
    let node = Node::with(&[]);
    let daemon = node.ready();
    let found = || {
        let status = node.status();
        let findings = status["findings"].as_array().cloned().unwrap_or_default();
        findings
            .into_iter()
            .find(|finding| finding["code"] == "data-dir-differs")
    };
    // RKE2's configuration came after the daemon.
    let file = "/etc/rancher/rke2/config.yaml.d/60-site.yaml";
    let path = node.write(file, "token: x\ndata-dir: /data/rke2\n");
    daemon.signal(Signal::SIGHUP);
    daemon.until("the finding", || found().is_some());
    let said = found().unwrap().to_string();
    assert!(
        said.contains("/data/rke2") && said.contains(&path.display().to_string()),
        "{said}"
    );
    assert!(said.contains("\"line\":2"), "{said}");
    assert!(!said.contains("token"), "{said}");
    let line = "its data-dir is /data/rke2, Windrow looks into /var/lib/rancher/rke2";
    daemon.until("the journal's line", || daemon.said().contains(line));
    node.write("/etc/windrow/conf.d/10-data.yaml", "dataDir: /data/rke2/\n");
    daemon.signal(Signal::SIGHUP);
    daemon.until("the end of the finding", || found().is_none());
}
