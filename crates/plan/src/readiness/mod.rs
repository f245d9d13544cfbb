//! When is an object ready? Verdicts with a reason, four-valued.
//!
//! The rules are those of kstatus (sigs.k8s.io/cli-utils), corrected where a boot would be led
//! astray: `Unknown` until a controller has spoken, a Job is ready when it completed and not when it
//! started, a failed Pod is failed, a HelmChart is judged by its Job, a kind's own rule comes first.
//! Pure: observed objects come in, verdicts go out.

mod fields;
mod judge;
mod kinds;
mod need;
pub mod node;
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

/// The four answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// It does what it is for.
    Ready,
    /// On its way.
    Progressing,
    /// It will not get there by itself.
    Failed,
    /// No controller has written a status yet, or none could be read.
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

/// A verdict and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// A CamelCase reason, as conditions have it (`LessReplicas`).
    pub reason: &'static str,
    /// One line for people.
    pub message: String,
}

/// What is known of one object in the cluster.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ObjectSeen {
    /// Not asked yet.
    #[default]
    NotAsked,
    /// Asked, and no usable answer: refused, timed out, wrong.
    Unknown {
        /// What was asked and why there is no answer.
        why: String,
    },
    /// It does not exist.
    Absent,
    /// It was there, was Ready, and is gone (a completed Job that was collected): counts as done.
    Done,
    /// It exists; this is how it was last seen.
    Present(Arc<serde_json::Value>),
}

/// What is known of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KindSeen {
    /// Not asked yet.
    #[default]
    NotAsked,
    /// Asked, and no usable answer.
    Unknown {
        /// What was asked and why there is no answer.
        why: String,
    },
    /// Discovery does not list it.
    NotServed,
    /// Discovery lists it.
    Served {
        /// Do its objects live in namespaces?
        namespaced: bool,
    },
}

impl KindSeen {
    /// A kind whose objects live in namespaces is served.
    pub const SERVED: Self = Self::Served { namespaced: true };

    /// Is it known that its objects have no namespace?
    pub fn is_cluster_scoped(&self) -> bool {
        matches!(self, Self::Served { namespaced: false })
    }
}

/// Read access to what was observed: a verdict may rest on more than one object.
pub trait ObservedCluster {
    /// One object.
    fn object(&self, object: &ObjectRef) -> &ObjectSeen;
    /// One kind.
    fn kind(&self, kind: &GroupKind) -> &KindSeen;
}
