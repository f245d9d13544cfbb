//! A manifest appears to its marker on disk while `windrow gates apply` tries a gate on a running server: systemd as PID 1 in a
//! container, a real kube-apiserver, as in tests/systemd. Each sample is a file.
//!
//! `tests/machine/build-root` and `tests/cluster/build` once, then as root `cargo bench --bench trial`. Nothing here fails when an
//! aim is missed; without the parts it says so and measures nothing.

#[path = "../tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use notify::{RecursiveMode, Watcher};
use support::cluster::assets::Minor;
use support::gate_node::{SERVER, WISHES, gates, node, wishes};
use support::machine::Machine;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";
/// A marker that has not come by then is a fault, not a figure.
const DEADLINE: Duration = Duration::from_secs(60);

/// Puts a manifest into the machine every 50 ms until `done`; how long each waited for its marker.
fn marker_latencies(directory: &Path, run: &str, done: &AtomicBool) -> Vec<Duration> {
    let (events, seen) = mpsc::channel::<(PathBuf, Instant)>();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let at = Instant::now();
        if let Ok(event) = event
            && event.kind.is_create()
            && let Some(path) = event.paths.first()
        {
            // The receiver is gone once the last sample is taken.
            let _ = events.send((path.clone(), at));
        }
    })
    .expect("inotify");
    watcher
        .watch(directory, RecursiveMode::NonRecursive)
        .expect("the machine's manifests directory");
    let mut samples = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let name = format!("{run}-{:04}.yaml", samples.len());
        let marker = directory.join(format!("{name}.skip"));
        let temporary = directory.join(".new.tmp");
        fs::write(&temporary, WIDGET).expect("a file in the machine");
        let begun = Instant::now();
        fs::rename(&temporary, directory.join(name)).expect("a rename in the machine");
        loop {
            match seen.recv_timeout(DEADLINE) {
                Ok((path, at)) if path == marker => {
                    samples.push(at.duration_since(begun));
                    break;
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no marker for {}", marker.display())
                }
            }
        }
        rest(Duration::from_millis(50));
    }
    samples
}

/// Lets time pass in which nothing is waited for.
fn rest(time: Duration) {
    let (_keep, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(time);
}

fn show(what: &str, mut samples: Vec<Duration>) {
    samples.sort();
    let at = |percent: usize| samples[(samples.len() - 1) * percent / 100];
    println!(
        "{what}: p50 {:.2?}, p99 {:.2?}, worst {:.2?} ({} samples)",
        at(50),
        at(99),
        at(100),
        samples.len()
    );
}

/// The latencies while `work` goes on.
fn during(machine: &Machine, run: &str, work: impl FnOnce()) -> Vec<Duration> {
    let done = AtomicBool::new(false);
    let directory = machine.inside(MANIFESTS);
    thread::scope(|scope| {
        let samples = scope.spawn(|| marker_latencies(&directory, run, &done));
        work();
        done.store(true, Ordering::Relaxed);
        samples.join().expect("the samples")
    })
}

fn main() {
    let Some(node) = node(Minor::V1_36) else {
        return;
    };
    let machine = node
        .file(
            "/etc/rancher/rke2/config.yaml.d/50-site.yaml",
            "debug: false\n",
        )
        .boot();
    machine.wait_unit(SERVER, "active");
    let quiet = during(&machine, "quiet", || rest(Duration::from_secs(30)));
    show("kube-apiserver runs, no trial", quiet);

    machine.write(WISHES, &wishes("    APIResponseCompression: false\n"));
    machine.sh("systemctl reload windrow");
    let begun = Instant::now();
    let trial = during(&machine, "trial", || {
        let applied = gates(&machine, &["apply", "--yes"]);
        assert!(applied.status.success(), "{applied:?}");
    });
    show(
        &format!(
            "during a gate trial of {:.0?}, the restart included",
            begun.elapsed()
        ),
        trial,
    );
}
