//! Whole-process figures of the daemon: start to READY=1 with 200 manifests, a manifest appears to
//! its marker on disk (at rest and while the configuration is loaded again and again), resident memory and wake-ups at rest. Not criterion: each sample is a process or a file.
//!
//! `cargo bench --bench daemon`. Nothing here fails when one is missed.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has failed"
)]

mod markers;

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use markers::{Markers, WIDGET, show};

struct Node {
    root: tempfile::TempDir,
    daemon: Child,
    socket: UnixDatagram,
    /// From the start of the process to READY=1.
    ready_after: Duration,
}

impl Node {
    fn start(manifests: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        let directory = manifests_of(root.path());
        fs::create_dir_all(&directory).unwrap();
        for number in 0..manifests {
            fs::write(directory.join(format!("{number:03}.yaml")), WIDGET).unwrap();
        }
        let place = root.path().join("notify");
        let socket = UnixDatagram::bind(&place).unwrap();
        let begun = Instant::now();
        let daemon = Command::new(env!("CARGO_BIN_EXE_windrowd"))
            .arg("--root")
            .arg(root.path())
            .env("NOTIFY_SOCKET", &place)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut buffer = [0; 1024];
        loop {
            let length = socket.recv(&mut buffer).unwrap();
            if buffer[..length].starts_with(b"READY=1") {
                break;
            }
        }
        Self {
            root,
            daemon,
            socket,
            ready_after: begun.elapsed(),
        }
    }

    /// Waits until the daemon reports that this many files are held: then it is at rest.
    fn rests_with(&self, held: usize) {
        let word = match held {
            1 => "1 file held".to_owned(),
            held => format!("{held} files held"),
        };
        let mut buffer = [0; 1024];
        loop {
            let length = self.socket.recv(&mut buffer).unwrap();
            if String::from_utf8_lossy(&buffer[..length]).contains(&word) {
                return;
            }
        }
    }

    fn memory(&self) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.daemon.id())).unwrap();
        ["VmRSS", "RssAnon", "VmHWM"]
            .map(|key| {
                let line = status.lines().find(|line| line.starts_with(key));
                line.unwrap_or_default()
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .join(", ")
    }
}

impl Node {
    /// How often its threads were woken up to now.
    fn wakes(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.daemon.id())).unwrap();
        tasks
            .filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok())
            .filter_map(|status| {
                let line = status
                    .lines()
                    .find(|line| line.starts_with("voluntary_ctxt_switches"))?;
                line.split_whitespace().nth(1)?.parse::<u64>().ok()
            })
            .sum()
    }

    /// Wake-ups in a minute without events.
    fn wakes_a_minute(&self) -> u64 {
        let (_keep, never) = mpsc::channel::<()>();
        let wait = |seconds| never.recv_timeout(Duration::from_secs(seconds));
        // The work of the start is over by then. A minute after it the daemon reads once more what changed just before its first look.
        let _ = wait(90);
        let before = self.wakes();
        let _ = wait(60);
        self.wakes() - before
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn manifests_of(root: &Path) -> PathBuf {
    root.join("var/lib/rancher/rke2/server/manifests")
}

/// Changes a rule and asks for a reload, again as soon as the last one is in force, until `done`. Returns how many there were.
fn reload_until_done(node: &Node, done: &AtomicBool) -> usize {
    let rules = node.root.path().join("etc/windrow/rules.d");
    fs::create_dir_all(&rules).unwrap();
    let mut buffer = [0; 1024];
    let mut reloads = 0;
    while !done.load(Ordering::Relaxed) {
        let rule = format!(
            "apiVersion: windrow.dev/v1\nkind: RulePack\nmetadata: {{name: bench}}\nprovides:\n  - by: reload {reloads}\n    groups: [bench{reloads}.example.org]\n"
        );
        fs::write(rules.join("90-bench.yaml"), rule).unwrap();
        let process = Pid::from_raw(i32::try_from(node.daemon.id()).unwrap());
        kill(process, Signal::SIGHUP).unwrap();
        loop {
            let length = node.socket.recv(&mut buffer).unwrap();
            if String::from_utf8_lossy(&buffer[..length]).contains("READY=1") {
                break;
            }
        }
        reloads += 1;
    }
    reloads
}

/// A manifest appears while the configuration is loaded again and again and this many files are held.
fn markers_during_reloads(held: usize) {
    let node = Node::start(held);
    let directory = manifests_of(node.root.path());
    let markers = Markers::watch(&directory);
    let done = AtomicBool::new(false);
    let (samples, reloads) = thread::scope(|scope| {
        let reloads = scope.spawn(|| reload_until_done(&node, &done));
        let samples = (0..500)
            .map(|number| markers.after(&directory, &format!("new-{number:03}.yaml")))
            .collect();
        done.store(true, Ordering::Relaxed);
        (samples, reloads.join().unwrap())
    });
    show(
        &format!("the same during {reloads} reloads, {held} files held"),
        samples,
    );
}

fn main() {
    let starts = (0..20).map(|_| Node::start(200).ready_after).collect();
    show("start to READY=1, 200 manifests, 200 markers", starts);

    let node = Node::start(0);
    let directory = manifests_of(node.root.path());
    let markers = Markers::watch(&directory);
    let mut samples = Vec::new();
    for number in 0..500 {
        samples.push(markers.after(&directory, &format!("{number:03}.yaml")));
        node.rests_with(number + 1);
    }
    show("manifest appears to marker on disk", samples);
    println!("at rest, 500 files held: {}", node.memory());
    for held in [0, 200, 2_000] {
        markers_during_reloads(held);
    }
    println!("at rest, no manifests: {}", Node::start(0).memory());
    let node = Node::start(200);
    println!(
        "at rest, 200 files held: {} wake-ups a minute, {}",
        node.wakes_a_minute(),
        node.memory()
    );
}
