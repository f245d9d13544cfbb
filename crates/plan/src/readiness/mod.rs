//! Judges whether an object is ready, with four possible verdicts and a reason.
//!
//! The rules are those of kstatus (sigs.k8s.io/cli-utils), with corrections for the boot of a node. An object is `Unknown` until
//! its controller has written a status. A Job is ready when it completes and not when it starts, a failed Pod is failed, a
//! HelmChart is judged by its Job, and a rule for the kind takes precedence. Pure: observed objects are the input, verdicts are
//! the output.

mod fields;
mod judge;
mod kinds;
mod need;
pub mod node;
pub mod platform;
#[cfg(test)]
mod tests;
mod workloads;

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use judge::{Related, completes, has_related, judge, observable, related};
pub use need::{NeedState, holds};

use windrow_model::manifest::{GroupKind, ObjectRef};

/// State of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// It works.
    Ready,
    /// It is starting.
    Progressing,
    /// It cannot recover without a repair.
    Failed,
    /// No controller has written a status yet, or the status is unreadable.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Ready => "Ready",
            Verdict::Progressing => "Progressing",
            Verdict::Failed => "Failed",
            Verdict::Unknown => "Unknown",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: Verdict,
    /// A CamelCase reason as in conditions (`LessReplicas`).
    pub reason: &'static str,
    /// One line for users.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub enum ObjectSeen {
    #[default]
    NotAsked,
    /// Requested without a usable answer: refused, timed out, invalid.
    Unknown {
        /// The request, and the reason why there is no answer.
        why: String,
    },
    Absent,
    /// It existed, was Ready, and is gone (a completed Job that was collected), so it counts as done.
    Done,
    /// It exists, with its last observed state.
    Present(Arc<serde_json::Value>),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KindSeen {
    #[default]
    NotAsked,
    /// Requested without a usable answer.
    Unknown {
        /// The request, and the reason why there is no answer.
        why: String,
    },
    /// Discovery does not list it.
    NotServed,
    /// Discovery lists it.
    Served { namespaced: bool },
}

impl KindSeen {
    /// A served kind whose objects have a namespace.
    pub const SERVED: Self = Self::Served { namespaced: true };

    /// Whether its objects are known to have no namespace.
    pub fn is_cluster_scoped(&self) -> bool {
        matches!(self, Self::Served { namespaced: false })
    }
}

/// Read access to all observations: a verdict may depend on several objects.
pub trait ObservedCluster {
    fn object(&self, object: &ObjectRef) -> &ObjectSeen;
    fn kind(&self, kind: &GroupKind) -> &KindSeen;
}
