//! Level 3: system calls of the daemon fail or take long. A failed look is not an answer, so no hold ends by it.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::Signal;

use crate::support::daemon::Node;
use crate::support::faults::Faults;

/// Waits for a kind that nothing brings.
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n";
/// Harmful if it comes too early: only an order releases it.
const VM: &str = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\n\
    metadata: {name: web, namespace: default}\nspec: {runStrategy: Always}\n";
/// Waits for nothing.
const FREE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n";

/// Counts how often the marker of a file was removed.
struct Removals {
    events: Inotify,
    marker: String,
}

impl Removals {
    fn of(directory: &Path, file: &str) -> Self {
        let events = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
        events
            .add_watch(directory, AddWatchFlags::IN_DELETE)
            .unwrap();
        Self {
            events,
            marker: format!("{file}.skip"),
        }
    }

    fn count(&self) -> usize {
        let mut count = 0;
        loop {
            match self.events.read_events() {
                Ok(events) => {
                    let names = events.iter().filter_map(|event| event.name.as_ref());
                    count += names.filter(|name| **name == *self.marker).count();
                }
                Err(Errno::EAGAIN) => return count,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_hold_stays_while_its_file_or_the_directory_cannot_be_read() {
    let node = Node::with(&[("vm.yaml", VM)]);
    node.write(
        "/etc/windrow/conf.d/10-platform.yaml",
        "platform: harvester\n",
    );
    let faults = Faults::none();
    let daemon = node.start_with(faults.command(), true);
    daemon.hear("READY=1");
    daemon.until("the marker", || {
        node.mark("vm.yaml")
            .is_some_and(|mark| mark["code"] != "provisional")
    });
    let removals = Removals::of(&node.manifests(), "vm.yaml");
    let errors = [
        Errno::EIO,
        Errno::ESTALE,
        Errno::EACCES,
        Errno::ENOMEM,
        Errno::EMFILE,
    ];
    let calls = [
        ("read", "vm.yaml"),
        ("open", "vm.yaml"),
        ("stat", "vm.yaml"),
        ("open", "manifests"),
        ("stat", "manifests"),
        ("readdir", "manifests"),
    ];
    for (number, (error, (call, path))) in errors
        .into_iter()
        .flat_map(|error| calls.map(|call| (error, call)))
        .enumerate()
    {
        let fault = format!("{call} of {path}: {error:?}");
        faults.begin(&format!("{call} {} {path}\n", error as i32));
        // Every file is read again.
        daemon.signal(Signal::SIGHUP);
        daemon.hear("RELOADING=1");
        daemon.hear("READY=1");
        daemon.ticks(2);
        assert_eq!(removals.count(), 0, "{fault}");
        faults.end();
        // A scan without the fault.
        let poke = format!("{number}.yaml");
        fs::write(node.manifest(&poke), WIDGET).unwrap();
        daemon.until("a new marker", || node.is_marked(&poke));
        daemon.ticks(2);
        assert_eq!(removals.count(), 0, "after {fault}");
        assert!(node.is_marked("vm.yaml"), "after {fault}");
    }
}

#[test]
fn a_state_file_that_cannot_be_read_for_a_moment_is_kept() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    drop(node.ready());
    let ledger = node.path("/var/lib/rancher/windrow/ledger.json");
    let before = fs::read(&ledger).unwrap();
    let faults = Faults::none();
    faults.begin("read 5 ledger.json\n");
    let daemon = node.start_with(faults.command(), true);
    daemon.hear("READY=1");
    daemon.ticks(2);
    assert!(node.is_marked("a.yaml"));
    assert_eq!(fs::read(&ledger).unwrap(), before);
    assert!(!ledger.with_file_name("ledger.json.corrupt-1").exists());
}

#[test]
fn files_are_held_before_a_slow_disk_has_given_rke2s_binary() {
    let node = Node::with(&[("a.yaml", WIDGET)]);
    node.write("/usr/local/bin/rke2", "v1.35.6+rke2r1");
    node.write(
        "/etc/windrow/conf.d/10-gates.yaml",
        "featureGates: {kubeApiserver: {ImageVolume: true}}\n",
    );
    let faults = Faults::none();
    faults.begin("open 0 bin/rke2\n");
    let daemon = node.start_with(faults.command(), false);
    daemon.hear("EXTEND_TIMEOUT_USEC=20000000");
    daemon.eventually("the look at the binary", || faults.is_reached());
    assert!(node.is_marked("a.yaml"));
    faults.end();
    daemon.hear("READY=1");
}

#[test]
fn a_marker_stays_if_new_content_arrives_while_the_state_file_is_saved() {
    let node = Node::with(&[]);
    let faults = Faults::none();
    let daemon = node.start_with(faults.command(), true);
    daemon.hear("READY=1");
    // What the start has to save is saved.
    daemon.ticks(2);
    let removals = Removals::of(&node.manifests(), "a.yaml");
    let rename_into_place = |text: &str| {
        let new = node.write("/new", text);
        fs::rename(new, node.manifest("a.yaml")).unwrap();
    };
    faults.begin("fsync 0 rancher/windrow/\n");
    rename_into_place(FREE);
    // It is decided that the file is released, and the decision is on its way to the disk.
    daemon.eventually("the save", || faults.is_reached());
    daemon.eventually("the marker", || node.is_marked("a.yaml"));
    rename_into_place(WIDGET);
    // The watch has reported that, too, once a later file is marked.
    fs::write(node.manifest("b.yaml"), WIDGET).unwrap();
    daemon.eventually("the marker of a later file", || node.is_marked("b.yaml"));
    faults.end();
    daemon.eventually("the new content to be read", || {
        node.mark("a.yaml")
            .is_some_and(|mark| mark["code"] != "provisional")
    });
    assert_eq!(removals.count(), 0);
}
