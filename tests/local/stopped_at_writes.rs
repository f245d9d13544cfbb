//! Level 3: the daemon dies (SIGKILL) or stands still (SIGSTOP) right before any system call that writes, and what starts after
//! that, or goes on, comes to the same. `WINDROW_WRITES=all` tries every call; otherwise a few of them, drawn by `WINDROW_SEED`.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::Value;
use windrow_decide::{Ledger, Mark};

use crate::support::daemon::Node;
use crate::support::stepwise;
use crate::support::widgets::WIDGET;

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
const REQUESTS: &str = "/var/lib/rancher/windrow/requests";

/// Which of the calls that write are tried: each, or some twelve of the first hundred.
pub(super) fn is_tried(number: usize) -> bool {
    let all = std::env::var("WINDROW_WRITES").is_ok_and(|which| which == "all");
    let seed: usize = std::env::var("WINDROW_SEED").map_or(1, |seed| seed.parse().unwrap());
    all || (number * 7919 + seed * 104_729) % 97 < 12
}

/// Starts a program that waits to be traced.
pub(super) fn started(command: &mut Command) -> (Child, Pid) {
    let child = command.spawn().unwrap();
    let process = Pid::from_raw(i32::try_from(child.id()).unwrap());
    waitpid(process, Some(WaitPidFlag::WUNTRACED)).unwrap();
    (child, process)
}

/// A node on which much is to be done at the start: files to be held, a hold of a file that is gone, one that a person
/// asked for and one that a person ended.
fn busy_node() -> Node {
    let node = Node::with(&[
        ("a.yaml", WIDGET),
        ("gone.yaml", WIDGET),
        ("ended.yaml", WIDGET),
        ("map.yaml", CONFIG_MAP),
    ]);
    let daemon = node.ready();
    daemon.until("the first holds", || {
        node.is_marked("a.yaml") && node.is_marked("ended.yaml")
    });
    daemon.end(Signal::SIGTERM);
    fs::remove_file(node.manifest("gone.yaml")).unwrap();
    fs::write(node.manifest("new.yaml"), WIDGET).unwrap();
    fs::write(
        node.manifest("a.yaml"),
        WIDGET.replace("name: ", "name: other-"),
    )
    .unwrap();
    node.request("1", "hold", "map.yaml");
    node.request("2", "release", "ended.yaml");
    node
}

/// Every manifest that there ever is. To list their directory would be an event for the daemon's watch, at each of its stops.
const FILES: [&str; 6] = [
    "a.yaml",
    "ended.yaml",
    "gone.yaml",
    "late.yaml",
    "map.yaml",
    "new.yaml",
];

/// What has to come of it: whatever happens on the way, these are held and no other, on the disk, in the ledger and by what is said.
fn are_held(node: &Node, held: &[&str]) -> bool {
    let marked = FILES.iter().filter(|name| node.is_marked(name));
    if !marked.eq(held.iter()) || ["1", "2"].iter().any(|name| is_asked(node, name)) {
        return false;
    }
    let status = fs::read(node.path("/run/windrow/status.json")).unwrap_or_default();
    let status: Value = serde_json::from_slice(&status).unwrap_or_default();
    let said = status["staging"]["held"].as_array().into_iter().flatten();
    let said: BTreeSet<&str> = said.filter_map(|one| one["file"].as_str()).collect();
    let ledger = fs::read(node.path("/var/lib/rancher/windrow/ledger.json")).unwrap_or_default();
    let ledger: Option<Ledger> = serde_json::from_slice(&ledger).ok();
    let known: BTreeSet<String> = ledger
        .into_iter()
        .flat_map(|ledger| ledger.files.into_keys())
        .map(|path| path.to_string())
        .collect();
    let kept = held.iter().all(|&name| known.contains(name)) && !known.contains("gone.yaml");
    said == held.iter().copied().collect() && kept
}

fn is_asked(node: &Node, name: &str) -> bool {
    node.path(&format!("{REQUESTS}/{name}.json")).exists()
}

/// Everything that was written is whole.
fn is_whole(node: &Node) {
    for entry in fs::read_dir(node.manifests()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "skip") {
            let content = fs::read(&path).unwrap();
            assert!(
                Mark::parse(&content).is_some(),
                "{}: {content:?}",
                path.display()
            );
        }
    }
    if let Ok(content) = fs::read(node.path("/var/lib/rancher/windrow/ledger.json")) {
        serde_json::from_slice::<Ledger>(&content).unwrap();
    }
    let state = fs::read_dir(node.path("/var/lib/rancher/windrow")).unwrap();
    for name in state.map(|entry| entry.unwrap().file_name()) {
        assert!(!name.to_string_lossy().contains("corrupt"), "{name:?}");
    }
}

/// What is done when the daemon comes to its call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Dies,
    StandsStill,
}

/// Runs the daemon up to its `number`th call that writes, and to its end where it goes on from there; false when all was done before that.
fn run_up_to(node: &Node, number: usize, fate: Fate, meanwhile: &(dyn Fn() + Sync)) -> bool {
    let place = node.path("/notify");
    let _ = fs::remove_file(&place);
    let told = UnixDatagram::bind(&place).unwrap();
    told.set_nonblocking(true).unwrap();
    let mut command = stepwise::stopped(env!("CARGO_BIN_EXE_windrowd"));
    command.arg("--root").arg(node.root.path());
    command.env("NOTIFY_SOCKET", &place);
    command.env("WATCHDOG_USEC", "200000").stderr(Stdio::null());
    let (mut child, process) = started(&mut command);
    let (mut stops, mut calls, mut reached) = (0, 0, false);
    let root = node.root.path().canonicalize().unwrap();
    let ended = std::thread::scope(|scope| {
        let tracer = scope.spawn(|| {
            stepwise::kill_at(process, |stop| {
                // Its pings wait where nobody reads them.
                while told.recv(&mut [0; 1024]).is_ok() {}
                stops += 1;
                let writes = stop.is_about_to_write(&root, false);
                calls += usize::from(writes);
                if writes && calls == number {
                    reached = true;
                    if fate == Fate::Dies {
                        return true;
                    }
                    meanwhile();
                }
                let all = if reached { AFTER } else { BEFORE };
                stops % 16 == 0 && are_held(node, &all)
            })
        });
        tracer.join().unwrap()
    });
    ended.unwrap();
    let _ = child.wait();
    reached
}

/// What is held in the end on a busy node, and where files came and went meanwhile.
const BEFORE: [&str; 3] = ["a.yaml", "map.yaml", "new.yaml"];
const AFTER: [&str; 3] = ["a.yaml", "late.yaml", "map.yaml"];

#[test]
fn a_daemon_that_dies_before_any_write_of_its_start_leaves_nothing_half_and_the_next_one_finishes()
{
    for number in (1..).filter(|number| is_tried(*number)) {
        let node = busy_node();
        let is_reached = run_up_to(&node, number, Fate::Dies, &|| {});
        is_whole(&node);
        let next = node.ready();
        let what = format!("all of it, after a death before write {number}");
        next.until(&what, || are_held(&node, &BEFORE));
        if !is_reached {
            assert!(number > 20, "there are more writes than {number}");
            return;
        }
    }
}

#[test]
fn a_daemon_that_stands_still_before_any_write_comes_to_what_is_there_when_it_goes_on() {
    for number in (1..).filter(|number| is_tried(*number)) {
        let node = busy_node();
        let is_reached = run_up_to(&node, number, Fate::StandsStill, &|| {
            fs::write(node.manifest("late.yaml"), WIDGET).unwrap();
            fs::remove_file(node.manifest("new.yaml")).unwrap();
        });
        is_whole(&node);
        if !is_reached {
            assert!(number > 20, "there are more writes than {number}");
            return;
        }
    }
}
