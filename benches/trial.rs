//! A manifest appears to its marker on disk while `windrow gates apply` tries a gate on a running server: systemd as PID 1 in a
//! container, a real kube-apiserver, as in tests/systemd. Each sample is a file.
//!
//! `tests/machine/build-root` and `tests/cluster/build` once, then as root `cargo bench --bench trial`. Nothing here fails when an
//! aim is missed; without the parts it says so and measures nothing.

#[path = "../tests/support/mod.rs"]
mod support;

mod markers;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use markers::{Markers, show};
use support::cluster::assets::Minor;
use support::gate_node::{WISHES, gates, running_node, wishes};
use support::machine::Machine;

const MANIFESTS: &str = "/var/lib/rancher/rke2/server/manifests";

/// Puts a manifest into the machine every 50 ms until `done`; how long each waited for its marker.
fn marker_latencies(directory: &Path, run: &str, done: &AtomicBool) -> Vec<Duration> {
    let markers = Markers::watch(directory);
    let mut samples = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let name = format!("{run}-{:04}.yaml", samples.len());
        samples.push(markers.after(directory, &name));
        rest(Duration::from_millis(50));
    }
    samples
}

/// Lets time pass without any work.
fn rest(time: Duration) {
    let (_keep, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(time);
}

/// The latencies during `work`.
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
    let Some(machine) = running_node(Minor::V1_36) else {
        return;
    };
    // RKE2 makes it; what stands in for it here does not.
    machine.sh(&format!("mkdir -p {MANIFESTS}"));
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
