//! The decisions and the status: [`decide`] is a pure function of the observation. It keeps no state.
//!
//! ```text
//!   plan, observation ──> needs ──> outcome of every file ──> ledger and events ──> markers ──> status
//! ```
//!
//! The daemon, the sandbox, the simulation, `check`, `why` and `replay` all call it. [`StagingState`] keeps the
//! values that it reads.
//!
//! - [`settings`]: the configuration as types, and how its files are merged. The program finds the files.
//! - [`sentence`]: the state of the node in one line.
//! - [`why`]: explains the state of a file, a probe or a word of an outlet.
//! - [`transitions`]: the changes from one status to the next, for the journal.
//! - [`flight`]: the lines of the flight recorder, and the replay that repeats decisions.
//!
//! May know: the crates `model`, `plan`, `gates` and `harvester`. It does no I/O, reads no clock and takes no lock.
//!
//! Invariants: a file with an unmet requirement is not released, unless RKE2 applies the required object before it in
//! the same pass; every file whose requirements can be met is released in the end; the same input gives the same
//! output; acting twice has the same effect as acting once. Actions are in the order in which a crash between any two
//! does no harm: markers, then the ledger, then removals.
#![forbid(unsafe_code)]

pub mod flight;
pub mod sentence;
pub mod settings;
pub mod transitions;
pub mod why;

mod action;
mod decision;
mod document;
mod interests;
mod late;
mod ledger;
mod ledger_update;
mod mark;
mod marker_changes;
mod node;
mod observation;
mod outcome;
mod reported_findings;
mod staging_state;
mod status;
#[cfg(test)]
mod tests;
mod text;
mod unknown;
mod waiting;

pub use action::{Action, Event};
pub use decision::{Decision, decide};
pub use interests::interests;
pub use ledger::{
    AlreadyReported, BootTimes, Cause, ClusterIdentity, FileStage, Ledger, LedgerEntry, Manual,
};
pub use mark::{Mark, OnFailure};
pub use observation::{
    Addon, Api, ApplyFailure, ClusterEvent, Detail, Directory, FileChange, Interests, Marker,
    MarkerTrouble, Observation, ProbeInterest,
};
pub use outcome::on_purpose;
pub use staging_state::{OrderError, StagingState};
pub use status::{
    Blocker, CertificateSource, DeliveryState, ExpectationSource, FailedFile, FileStatus, HeldFile,
    Holder, NodeRole, NotHeldFile, Pace, Phase, PhaseExpectation, PhaseState, PhaseStatus,
    ProbeStatus, ProgramVersions, Readiness, ServerStatus, StagingStatus, Status, StatusReason,
    StatusWriter, Transition, TransitionSeen, UsualTime, Vip, VipMode, WebhookStatus,
};
pub use unknown::UnknownKind;
