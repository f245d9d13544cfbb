//! Feature gates: their state in Kubernetes versions, the requests for them, the errors in these, the drop-in that sets
//! them, and the trial of a change as a state machine.
//!
//! May know: the crates `model` and `plan` (from the latter, how RKE2 merges its configuration files, and versions).
//!
//! Invariants: a gate that a component does not know, or that is locked to another value, keeps that component from
//! starting, and for kube-apiserver the whole node. So a gate is written only if the version that will start accepts it
//! for certain. The version that counts is never the running one. A trial that is interrupted anywhere ends with gates
//! that have been observed to work.
#![forbid(unsafe_code)]

mod apis;
mod argument_rules;
mod arguments;
mod assess;
pub mod catalogue;
mod check;
mod dependencies;
mod dropin;
mod findings;
mod gated_fields;
mod known_arguments;
mod kubelet_fields;
mod moment;
mod note;
mod observed;
mod record;
mod refusal;
mod runtime_config;
mod settle;
mod status;
pub mod syntax;
mod target;
#[cfg(test)]
mod testing;
mod together;
pub mod trial;
mod verdicts;
mod verified;

pub use arguments::{JudgedArguments, judge_arguments};
pub use assess::{Assessment, ComponentView, EffectiveGate, assess, set_last_at};
pub use check::{TargetVersion, check, version_text};
pub use dropin::{DROP_IN, DropIn, DropInSnapshot, LeftOut, drop_in, drop_in_trusting, read_gates};
pub use moment::BootMoment;
pub use note::{TrialEnd, TrialNote, TriedDropIn, UnreadableTrialNote};
pub use observed::{ObservedGates, metrics, pod_arguments, pod_flag};
pub use record::{GateChange, RefusedGates, TooManyStarts, Trial, TrialOutcome, TrialStarts};
pub use refusal::{ComponentRefusal, last as last_refusal};
pub use settle::{
    KnownGood, Proven, Rejected, Rke2State, SettleInputs, Settled, TrialHistory, Withheld,
    made_fatal, same, settle,
};
pub use status::{AskedGate, GateSet, GatesStatus, LeftOutGate, RequestAnswer, TrialStatus, list};
pub use target::{ResolvedVersion, SilentBinary, Upgrade, VersionCandidates, resolve};
pub use verdicts::{
    FailedDropIn, FailedDropIns, LastChange, TakenBack, before_last_change, request_text,
};
pub use verified::{ComponentLook, Verdict, is_newer, judge_look};

use std::fmt;

use windrow_model::findings::Location;
use windrow_plan::version::{Minor, Version, When};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    KubeApiserver,
    KubeControllerManager,
    KubeScheduler,
    Kubelet,
    /// Its gates are read from other files, but never set.
    KubeProxy,
}

impl Component {
    pub const ALL: [Component; 5] = [
        Component::KubeApiserver,
        Component::KubeControllerManager,
        Component::KubeScheduler,
        Component::Kubelet,
        Component::KubeProxy,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Component::KubeApiserver => "kube-apiserver",
            Component::KubeControllerManager => "kube-controller-manager",
            Component::KubeScheduler => "kube-scheduler",
            Component::Kubelet => "kubelet",
            Component::KubeProxy => "kube-proxy",
        }
    }

    /// Its key under `featureGates:` in the configuration; kube-proxy has none.
    pub fn setting(self) -> Option<&'static str> {
        match self {
            Component::KubeApiserver => Some("kubeApiserver"),
            Component::KubeControllerManager => Some("kubeControllerManager"),
            Component::KubeScheduler => Some("kubeScheduler"),
            Component::Kubelet => Some("kubelet"),
            Component::KubeProxy => None,
        }
    }

    /// Its list of arguments in RKE2's configuration.
    pub fn argument(self) -> &'static str {
        match self {
            Component::KubeApiserver => "kube-apiserver-arg",
            Component::KubeControllerManager => "kube-controller-manager-arg",
            Component::KubeScheduler => "kube-scheduler-arg",
            Component::Kubelet => "kubelet-arg",
            Component::KubeProxy => "kube-proxy-arg",
        }
    }

    /// Does this component split the flag by prefix (`kube:X=true`)? The kubelet never does, the others do since 1.31.
    pub(crate) fn splits_by_prefix(self, version: Version) -> bool {
        !matches!(self, Component::Kubelet | Component::KubeProxy) && version.minor >= Minor::v1(31)
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One gate that the configuration requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRequest {
    pub component: Component,
    pub gate: String,
    pub value: bool,
    /// The minors for which it is meant; absent for all.
    pub when: Option<When>,
    pub reason: Option<String>,
    pub at: Location,
}
