//! The driver: one owner of the [`StagingState`](windrow_decide::StagingState), one loop.
//!
//! ```text
//!   file events ─┐ marked in parallel       ┌─> markers, ledger
//!   cluster ─────┤                          ├─> journal
//!   requests ────┼─> tick: scan ─> decide ──┼─> status, STATUS=
//!   signals ─────┤         ─> act           ├─> interests (what to watch in the cluster)
//!   deadlines ───┘                          └─> READY=1 (the first), WATCHDOG=1
//! ```
//!
//! A tick never waits for RKE2 or the cluster. Failed actions are retried.

mod appearances;
mod clock;
mod configuration_events;
mod data_dir;
mod event_journal;
mod flight;
mod full_disks;
pub mod gates;
mod hardware;
mod incident_look;
pub mod incidents;
mod look_turn;
mod manifest_scanner;
mod marking_thread;
pub mod node_findings;
pub mod outlets;
mod reloading;
pub mod remote;
mod repair_task;
pub mod repairs;
mod requests;
mod sightings;
mod tick;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

pub use appearances::AppearanceEnds;
pub use clock::Clock;
pub use tick::{Daemon, Link};

use windrow_decide::{ClusterEvent, Interests};

enum Wake {
    File(crate::observe::files::FileEvent),
    Cluster(ClusterEvent),
    Seen(Vec<crate::observe::appearances::Sighting>),
    Time,
    Reload,
    Loaded(Box<reloading::Reloaded>),
    Stop,
}

/// The two ends of a cluster link: one for the daemon, one for the task that asks or simulates the cluster.
pub fn link() -> (Link, mpsc::Sender<ClusterEvent>, watch::Receiver<Interests>) {
    // Bounded: a cluster that sends events faster than ticks handle them has to wait.
    let (events, from_cluster) = mpsc::channel(256);
    let (to_cluster, interests) = watch::channel(Interests::default());
    (
        Link {
            events: from_cluster,
            interests: to_cluster,
        },
        events,
        interests,
    )
}

pub struct DaemonSignals {
    terminate: Signal,
    interrupt: Signal,
    reload: Signal,
}

impl DaemonSignals {
    /// Installs the handlers.
    ///
    /// # Errors
    ///
    /// When the system refuses a handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reload: signal(SignalKind::hangup())?,
        })
    }
}

impl Daemon {
    /// Runs until a signal arrives or `stop` becomes true.
    pub async fn run(mut self, mut signals: DaemonSignals, mut stop: watch::Receiver<bool>) {
        self.start();
        loop {
            let wake = self.wake(&mut signals, &mut stop).await;
            self.counters.woke(self.files.len(), self.link.events.len());
            match wake {
                Wake::Stop => break,
                Wake::Reload => self.reload(),
                Wake::Loaded(loaded) => self.loaded(*loaded),
                Wake::File(event) => self.note(event),
                Wake::Cluster(event) => self.observe(event),
                Wake::Seen(seen) => {
                    self.saw(seen);
                    // No decision depends on it.
                    if self.next_wake() > Instant::now() {
                        continue;
                    }
                }
                Wake::Time => {}
            }
            // Other events that have arrived meanwhile belong to the same tick.
            let enough = Instant::now() + tick::BURST;
            while Instant::now() < enough
                && let Ok(event) = self.files.try_recv()
            {
                self.note(event);
            }
            let enough = Instant::now() + tick::BURST;
            while Instant::now() < enough
                && let Ok(event) = self.link.events.try_recv()
            {
                self.observe(event);
            }
            self.tick();
        }
        self.stopped();
    }

    /// Waits for the next event. Rare events come before those that may come without pause: files and the cluster.
    async fn wake(
        &mut self,
        signals: &mut DaemonSignals,
        stop: &mut watch::Receiver<bool>,
    ) -> Wake {
        let time = self.next_wake();
        tokio::select! {
            biased;
            _ = signals.terminate.recv() => Wake::Stop,
            _ = signals.interrupt.recv() => Wake::Stop,
            Ok(()) = stop.changed() => Wake::Stop,
            _ = signals.reload.recv() => Wake::Reload,
            loaded = self.reloading.done() => Wake::Loaded(Box::new(loaded)),
            Ok(()) = self.gates.changed() => Wake::Time,
            Ok(()) = self.incidents.changed() => Wake::Time,
            Ok(()) = self.webhooks.changed() => Wake::Time,
            Ok(()) = self.server.changed() => Wake::Time,
            Ok(()) = self.full.changed() => Wake::Time,
            Some(event) = self.files.recv() => Wake::File(event),
            Some(event) = self.link.events.recv() => Wake::Cluster(event),
            Some(seen) = self.appearances.seen.recv() => Wake::Seen(seen),
            () = sleep_until(time) => Wake::Time,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use tokio::time::Instant;
    use windrow_decide::{ClusterEvent, NodeRole, Readiness};
    use windrow_plan::readiness::node::{NodeEvent, ProbeId, ProbeOutcome, specs};
    use windrow_plan::rules::Platform;

    use super::*;
    use crate::configuration::Configuration;
    use crate::layout::Layout;
    use crate::observe::files::FileEvent;

    /// The pause between two answers of a probe: minutes of the daemon's clock are shorter.
    const SOON: std::time::Duration = std::time::Duration::from_millis(5);

    #[tokio::test]
    async fn a_new_file_is_marked_though_the_loop_does_not_get_to_it() {
        let place = tempfile::tempdir().unwrap();
        let root = Layout::new(place.path());
        let manifests = root.manifests();
        fs::create_dir_all(&manifests).unwrap();
        let configuration = Arc::new(Configuration::load(&root));
        let mut daemon = Daemon::new(watch::channel(configuration).0, Clock::real(), link().0);
        daemon.start();
        fs::write(manifests.join("a.yaml"), "").unwrap();
        while daemon.files.recv().await.unwrap().file().is_none() {}
        assert!(manifests.join("a.yaml.skip").exists());
    }

    #[tokio::test]
    async fn a_boot_that_hangs_is_published_though_nothing_happens() {
        let place = tempfile::tempdir().unwrap();
        let configuration = Arc::new(Configuration::load(&Layout::new(place.path())));
        // Twenty minutes are four seconds.
        let clock = Clock::sped_up(300);
        let mut daemon = Daemon::new(watch::channel(configuration).0, clock, link().0);
        daemon.start();
        daemon.observe(ClusterEvent::Node(NodeEvent::Probing {
            role: NodeRole::FirstServer,
            boot: "boot".to_owned(),
            specs: specs(NodeRole::FirstServer, Some(Platform::Rke2)),
        }));
        let fails = |daemon: &mut Daemon| {
            let why = ProbeOutcome::failed("no rke2 unit");
            let id = ProbeId::builtin("rke2-installed");
            daemon.observe(ClusterEvent::Node(NodeEvent::Probed(id, why)));
            daemon.tick();
        };
        let status = daemon.status();
        let mut said = Vec::new();
        let limit = Instant::now() + std::time::Duration::from_secs(600);
        loop {
            assert!(Instant::now() < limit, "it never hangs: {said:?}");
            fails(&mut daemon);
            let now = status.borrow().clone().unwrap();
            if said.last() != Some(&now.headline) {
                said.push(now.headline.clone());
            }
            if now.hangs().is_some() {
                // On a slow machine its answers may be too old, which is Unknown: never more than that.
                let word = now.readiness;
                assert!(matches!(word, Readiness::SettingUp | Readiness::Unknown));
                assert!(now.summary.contains(", stalled): "), "{}", now.summary);
                assert!(now.pace_since > now.phase_since, "{now:?}");
                break;
            }
            tokio::time::sleep_until(daemon.next_wake().min(Instant::now() + SOON)).await;
        }
        let timed = |line: &&String| line.contains("+ min");
        assert!(said.iter().filter(timed).count() > 1, "{said:?}");
    }

    #[tokio::test]
    async fn a_configuration_comes_into_force_while_files_change_without_a_pause() {
        let place = tempfile::tempdir().unwrap();
        let root = Layout::new(place.path());
        let configuration = Arc::new(Configuration::load(&root));
        let mut daemon = Daemon::new(watch::channel(configuration).0, Clock::real(), link().0);
        let (changes, files) = mpsc::channel(64);
        daemon.files = files;
        let mut signals = DaemonSignals::listen().unwrap();
        let (_stop, mut stop) = watch::channel(false);
        daemon.reload();
        let loaded = loop {
            // The stream does not wait for the daemon.
            let _ = changes.try_send(FileEvent::Directory);
            let was_loaded = !daemon.reloading.is_running();
            match daemon.wake(&mut signals, &mut stop).await {
                Wake::Loaded(loaded) => break loaded,
                Wake::File(_) => assert!(!was_loaded, "files came first"),
                _ => panic!("only files change and a configuration is loaded"),
            }
        };
        assert!(loaded.was_asked_for);
    }
}
