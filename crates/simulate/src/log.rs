//! The events of a simulation and their times: the timeline that a rehearsal prints, and the counts.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use windrow_model::manifest::{GroupKind, ManifestPath, MarkerPath, ObjectRef};

/// Something that happened at some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Happening {
    /// When, in simulated time.
    pub at: Timestamp,
    /// On which server; 0 is the first one, and what happens to all of them happens there.
    pub server: usize,
    /// What.
    #[serde(flatten)]
    pub what: HappeningKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "is")]
pub enum HappeningKind {
    /// kube-apiserver answers.
    ApiReady,
    /// The node joins as an agent, which has no deploy controller.
    JoinedAsAgent,
    /// The node restarts.
    Reboot,
    /// RKE2's deploy controller looked at the directory.
    PassBegan {
        /// How many files it will look at.
        files: usize,
        /// How many are hidden by markers.
        hidden: usize,
    },
    /// RKE2's deploy controller could not look at the directory, and applied nothing.
    PassAborted {
        /// Why.
        why: String,
    },
    /// Somebody else than Windrow wrote a file.
    Written {
        /// The file.
        file: String,
        /// Who, and what for.
        by: String,
    },
    /// A pass is over.
    PassEnded {
        /// Without any error: from the first such pass on, only what changes is applied.
        clean: bool,
    },
    /// A file was applied.
    Applied {
        /// The file.
        file: ManifestPath,
    },
    /// A file could not be applied, or not all of it.
    ApplyFailed {
        /// The file.
        file: ManifestPath,
        /// The event's reason; empty when RKE2 could not even make the event.
        reason: String,
        /// The error.
        message: String,
    },
    /// RKE2 deleted an object that is no longer in its file.
    Pruned {
        /// The object.
        object: ObjectRef,
    },
    /// RKE2's deploy controller hangs for good.
    Hung {
        /// On which file.
        file: ManifestPath,
    },
    /// Discovery lists a kind that it did not list before.
    Served {
        /// The kind.
        kind: GroupKind,
    },
    /// A step of the platform's own bootstrap.
    Platform {
        /// In words.
        step: SmolStr,
    },
    /// rancherd has done something, or failed to. Modelled.
    Rancherd {
        /// In words.
        step: SmolStr,
        /// It is not done, and tried once more.
        failed: bool,
    },
    /// An admission webhook refused something.
    Denied {
        /// What it said.
        message: String,
    },
    /// Harvester's controller does not configure the storage network now.
    NotConfigured {
        /// What the Setting's condition says.
        message: String,
    },
    /// An object came into a state that matters.
    Became {
        /// The object.
        object: ObjectRef,
        /// The state, in its kind's own word.
        state: SmolStr,
    },
    /// Windrow put a marker in place.
    Held {
        /// The marker's path.
        marker: MarkerPath,
        /// Why.
        why: String,
    },
    /// Windrow removed its marker.
    Lifted {
        /// The marker's path.
        marker: MarkerPath,
    },
    /// A fault that the simulation put in.
    Fault {
        /// Which.
        fault: String,
    },
}

impl fmt::Display for HappeningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HappeningKind::ApiReady => f.write_str("kube-apiserver answers"),
            HappeningKind::JoinedAsAgent => {
                f.write_str("the node joins as an agent: as long as it is one, nothing reads its manifests directory")
            }
            HappeningKind::Reboot => f.write_str("the node restarts"),
            HappeningKind::PassBegan { files, hidden } => {
                write!(f, "RKE2 looks at {files} files, {hidden} are held")
            }
            HappeningKind::PassAborted { why } => write!(f, "RKE2 applies nothing: {why}"),
            HappeningKind::PassEnded { clean: true } => f.write_str("RKE2's pass ended without an error"),
            HappeningKind::PassEnded { clean: false } => f.write_str("RKE2's pass ended with errors"),
            HappeningKind::Written { file, by } => write!(f, "{by} writes {file}"),
            HappeningKind::Applied { file } => write!(f, "RKE2 applied {file}"),
            HappeningKind::ApplyFailed { file, message, .. } => {
                write!(f, "RKE2 could not apply {file}: {message}")
            }
            HappeningKind::Pruned { object } => write!(f, "RKE2 deleted {object}"),
            HappeningKind::Hung { file } => write!(f, "RKE2's deploy controller hangs on {file}"),
            HappeningKind::Served { kind } => write!(f, "{kind} is served"),
            HappeningKind::Platform { step } => f.write_str(step),
            HappeningKind::Rancherd { step, .. } => write!(f, "rancherd (modelled): {step}"),
            HappeningKind::Denied { message } => write!(f, "refused: {message}"),
            HappeningKind::NotConfigured { message } => {
                write!(f, "the storage network is not configured: {message}")
            }
            HappeningKind::Became { object, state } => write!(f, "{object} is {state}"),
            HappeningKind::Held { marker, why } => write!(f, "Windrow holds with {marker}: {why}"),
            HappeningKind::Lifted { marker } => write!(f, "Windrow removes {marker}"),
            HappeningKind::Fault { fault } => write!(f, "fault: {fault}"),
        }
    }
}

/// How much RKE2's deploy controller did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployCounts {
    /// Passes that looked at the directory.
    pub passes: u64,
    /// Files applied or tried.
    pub applies: u64,
    /// Of these, those that failed.
    pub failed: u64,
    /// Of these, those that repeated what had already been applied.
    pub repeated: u64,
    /// Events.
    pub events: u64,
    /// Writes to the API: objects and Addons, without events.
    pub writes: u64,
}
