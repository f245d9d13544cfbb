//! The driver: one owner of the [`StagingState`](windrow_decide::StagingState), one loop.
//!
//! ```text
//!   file events ─┐                          ┌─> markers, ledger
//!   cluster ─────┤                          ├─> journal
//!   requests ────┼─> tick: mark ─> scan ────┼─> status, STATUS=
//!   signals ─────┤         ─> decide ─> act ├─> interests (what to watch in the cluster)
//!   deadlines ───┘                          └─> READY=1 (the first), WATCHDOG=1
//! ```
//!
//! A tick never waits for RKE2 or the cluster. What a tick could not do is tried again.

pub mod background;
mod clock;
mod configuration_events;
mod data_dir;
mod flight;
pub mod gates;
mod incident_look;
pub mod incidents;
mod manifest_scanner;
pub mod manual_holds;
pub mod node_findings;
pub mod outlets;
mod reloading;
mod remote;
pub mod repairs;
pub mod request_spool;
mod requests;
pub mod sandbox;
mod tick;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

pub use clock::Clock;
pub use tick::{Daemon, Link};

use windrow_decide::{ClusterEvent, Interests};

/// Why the loop woke up.
enum Wake {
    File(crate::observe::files::FileEvent),
    Cluster(ClusterEvent),
    Time,
    Reload,
    Loaded(Box<reloading::Reloaded>),
    Stop,
}

/// The two ends of a cluster link: for the daemon, and for whoever plays or asks the cluster.
pub fn link() -> (Link, mpsc::Sender<ClusterEvent>, watch::Receiver<Interests>) {
    // Bounded: a cluster that talks faster than ticks are done has to wait.
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

/// The signals that the daemon obeys.
pub struct DaemonSignals {
    terminate: Signal,
    interrupt: Signal,
    reload: Signal,
}

impl DaemonSignals {
    /// Takes the signals over.
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
    /// Runs until it is told to stop, by a signal or by `stop` becoming true.
    pub async fn run(mut self, mut signals: DaemonSignals, mut stop: watch::Receiver<bool>) {
        self.start();
        loop {
            let time = self.next_wake();
            let wake = tokio::select! {
                // DaemonSignals first: a flood of events must not keep the daemon from stopping.
                biased;
                _ = signals.terminate.recv() => Wake::Stop,
                _ = signals.interrupt.recv() => Wake::Stop,
                _ = signals.reload.recv() => Wake::Reload,
                Ok(()) = stop.changed() => Wake::Stop,
                Some(event) = self.files.recv() => Wake::File(event),
                Some(event) = self.link.events.recv() => Wake::Cluster(event),
                loaded = self.reloading.done() => Wake::Loaded(Box::new(loaded)),
                Ok(()) = self.gates.changed() => Wake::Time,
                Ok(()) = self.incidents.changed() => Wake::Time,
                Ok(()) = self.webhooks.changed() => Wake::Time,
                () = sleep_until(time) => Wake::Time,
            };
            match wake {
                Wake::Stop => break,
                Wake::Reload => self.reload(),
                Wake::Loaded(loaded) => self.loaded(*loaded),
                Wake::File(event) => self.note(event),
                Wake::Cluster(event) => self.observe(event),
                Wake::Time => {}
            }
            // What else has come meanwhile belongs to the same tick.
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
}
