//! What to do, and what to say: a pure function of what was observed.
//!
//! [`decide`] takes settings, rules, a plan, an [`Observation`], the [`Ledger`] and the time, and gives actions, events and a [`Status`].
//!
//! - [`settings`]: the configuration as types, and how its files are merged. The program finds the files.
//! - [`flight`]: the lines of the flight recorder, and the replay that decides a second time.
//!
//! May know: the crates `model`, `plan`, `gates` and `harvester`. It does no I/O, reads no clock and takes no lock.
//!
//! Invariants: nothing that lacks something it requires is released; everything that can be satisfied is released at last; the same
//! input gives the same output; acting twice is acting once. Actions come in the order in which a crash between any two does no harm:
//! markers, then the ledger, then removals.
#![forbid(unsafe_code)]

pub mod flight;
pub mod memo;
pub mod settings;

mod engine;
mod files;
mod ids;
mod interests;
mod judge;
mod judged;
mod ledger;
mod library;
mod lookup;
mod mark;
mod needs;
mod node;
mod observation;
mod say;
mod status;
#[cfg(test)]
mod tests;
mod verdicts;

pub use engine::{Directory, Engine, FileChange, provisional};
pub use judge::{decide, hidden_name, marker_path};
pub use ledger::{Cause, Entry, Ledger, Manual, State, Told};
pub use library::Library;
pub use observation::{
    Addon, Api, ApplyFailure, ClusterEvent, Detail, Interests, Mark, Marker, MarkerTrouble,
    Observation, OnFailure, ProbeInterest,
};
pub use status::{
    Blocker, DeliveryState, FailedFile, FileStatus, HeldFile, Holder, NotHeldFile, Pace, Phase,
    PhaseState, PhaseStatus, ProbeStatus, Readiness, Role, StagingStatus, Status, StatusReason,
    Transition, TransitionSeen, Versions, Vip, VipMode, WebhookStatus, Writer,
};

use std::sync::Arc;

use jiff::Timestamp;
use windrow_model::reasons::Code;

/// One change that `act` carries out. Each is idempotent; the list is in the order in which a crash
/// between any two of them does no harm: markers first, then the ledger, then removals.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Create the marker at `path` (below the manifests directory).
    Hold {
        /// The marker's path.
        path: String,
        /// Its content.
        mark: Arc<Mark>,
    },
    /// Write the ledger.
    SaveLedger(Arc<Ledger>),
    /// Remove the marker at `path`, if it is still ours.
    Lift {
        /// The marker's path.
        path: String,
    },
}

/// Something that happened, told once: a journal entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub code: Code,
    /// The file it is about, if any.
    pub file: Option<String>,
    /// The line for people.
    pub message: String,
}

/// What follows from an observation.
#[derive(Debug, Clone)]
pub struct Decision {
    /// What to do.
    pub steps: Steps,
    /// What to say. `generation` is left to whoever publishes it.
    pub status: Status,
}

/// What is to be done, and told once.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// The ledger after it.
    pub ledger: Arc<Ledger>,
    /// What to tell, once.
    pub events: Vec<Event>,
    /// When to look again though nothing happens (the next deadline).
    pub next_wake: Option<Timestamp>,
}
