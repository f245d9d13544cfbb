//! An Addon of Harvester (`addons.harvesterhci.io`): is it settled, and if not, can it still become so?
//!
//! Harvester turns an Addon into a HelmChart of the same name and namespace, RKE2's helm-controller turns that into a Job, and
//! Harvester looks every 5 s whether the Job has ended. These four objects show whether it has *failed*, is *progressing* or
//! *retrying*, or is *stuck forever*. The Addon's own status says `AddonEnabling` or `AddonDisabling` in all of these cases
//! (harvester#7376).
//!
//! ```text
//!   Addon (Harvester) ──> HelmChart (helm-controller) ──> Job helm-install-NAME ──> its pods
//!     ^                                                    │ looked for, but only if it is not
//!     └──────────────────── done ──────────────────────────┘ older than InProgress.lastUpdateTime
//!
//!   switched off:  HelmChart deleted ──> Job helm-delete-NAME, which counts only if the HelmChart names
//!                  it (helm-controller v0.17 on) and it is not older than the deletionTimestamp
//! ```
//!
//! This module does no I/O: callers pass the objects and the time. Do not confuse these Addons with RKE2's own
//! `addons.k3s.cattle.io`.
//! Source of the rules: Harvester's `pkg/controller/master/addon`, alike in v1.4.0 to v1.9.0-rc6, its `pkg/util/addon`, and
//! `OnRemove` in helm-controller's `pkg/controllers/chart/chart.go`.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use self::job::NOT_PULLED;
pub use self::judge::judge;
use crate::objects::{is_true, text};
use crate::upgrade::time;

mod job;
mod judge;

/// Part of a Job's name by which Harvester recognizes that the Job deletes a HelmChart.
const DELETES: &str = "helm-delete";

/// The objects of an Addon. `None` and an empty list mean that the object does not exist; a caller that could not list a kind
/// must not pass either.
#[derive(Debug, Clone, Copy)]
pub struct AddonParts<'a> {
    pub addon: &'a Value,
    /// The HelmChart (`helm.cattle.io/v1`) of the same name and namespace.
    pub chart: Option<&'a Value>,
    /// The Job that [`job_of`] names, in the same namespace.
    pub job: Option<&'a Value>,
    pub pods: &'a [Value],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// The `harvester` Deployment in harvester-system.
    Harvester,
    /// The helm-controller in RKE2's server.
    Helm,
}

/// Why no controller will ever act on an Addon again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deadlock {
    /// The Job has ended and is older than the operation: Harvester waits for a newer one, and helm-controller creates none.
    JobIsOlder {
        job: String,
        made: Timestamp,
        /// Since when Harvester waits for a newer Job.
        since: Timestamp,
    },
    /// The Job failed, Harvester does not count that as an end, and helm-controller creates no other.
    JobNotCounted { job: String, why: String },
    /// Enabled, with `InProgress` and `OperationFailed` both `True`: Harvester does nothing because of the second, and its
    /// webhook rejects every change because of the first (harvester#11045).
    FailedInProgress,
    /// Disabled while `InProgress` is `True`: only the processing of an enabled Addon could end that.
    DisabledInProgress,
    /// Enabled while it is being disabled: Harvester has no transition for that.
    EnabledWhileDisabling,
    /// The HelmChart of its name has another owner, and Harvester ignores it.
    ForeignChart,
    /// Deployed as requested, with `InProgress` still `True`: an update ended before its last write. Harvester has nothing to do
    /// for it, and its webhook rejects every change.
    DeployedInProgress,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddonState {
    /// Deployed or disabled, as requested.
    Settled,
    /// Requested a moment ago; its controllers have not acted on it yet.
    NotStarted,
    Progressing,
    /// An attempt failed, and another one follows.
    Retrying {
        /// Number of failed attempts.
        failed: u64,
    },
    /// The Job's pod cannot pull its image: on a site without internet access, load it first.
    ImageMissing {
        /// Empty if the pod does not name it.
        image: String,
    },
    /// Given up: nothing is tried again until the Addon is disabled and enabled again.
    Failed {
        why: String,
    },
    /// No controller acts on it any more, with the proof.
    Stuck(Deadlock),
    /// The controller that has to do the next step does not do it.
    ControllerDown {
        who: Controller,
        why: String,
    },
}

impl AddonState {
    /// Will the Addon settle without action, as far as the objects show?
    pub fn is_on_its_way(&self) -> bool {
        matches!(
            self,
            AddonState::Settled | AddonState::NotStarted | AddonState::Progressing
        )
    }

    pub fn say(&self) -> String {
        match self {
            AddonState::Settled => "settled".to_owned(),
            AddonState::NotStarted => "not started yet".to_owned(),
            AddonState::Progressing => "on its way".to_owned(),
            AddonState::Retrying { failed: 1 } => {
                "one attempt failed, it is tried again".to_owned()
            }
            AddonState::Retrying { failed } => {
                format!("{failed} attempts failed, it is tried again")
            }
            AddonState::ImageMissing { image } if image.is_empty() => {
                "its image cannot be pulled".to_owned()
            }
            AddonState::ImageMissing { image } => format!("the image {image} cannot be had"),
            AddonState::Failed { why } if why.is_empty() => "it failed".to_owned(),
            AddonState::Failed { why } => format!("it failed: {why}"),
            AddonState::Stuck(deadlock) => format!("stuck permanently: {}", deadlock.say()),
            AddonState::ControllerDown { who, why } => match who {
                Controller::Harvester => format!("{why}; is the harvester pod running?"),
                Controller::Helm => format!("{why}; is RKE2's server running?"),
            },
        }
    }
}

impl Deadlock {
    pub fn say(&self) -> String {
        match self {
            Deadlock::JobIsOlder { job, .. } => {
                format!("Job {job} has ended and is older than the operation that waits for it")
            }
            Deadlock::JobNotCounted { job, why } => {
                format!("Job {job} failed and nothing acts on that: {why}")
            }
            Deadlock::FailedInProgress => "InProgress and OperationFailed are both True".to_owned(),
            Deadlock::DisabledInProgress => {
                "it was switched off while InProgress is True".to_owned()
            }
            Deadlock::EnabledWhileDisabling => {
                "it was switched on while it is being disabled".to_owned()
            }
            Deadlock::ForeignChart => "the HelmChart of its name is not its own".to_owned(),
            Deadlock::DeployedInProgress => {
                "it is deployed, and InProgress is still True".to_owned()
            }
        }
    }
}

/// A settled Addon needs no look at its HelmChart, Job and pods.
pub fn is_settled(addon: &Value) -> bool {
    match (status(addon), is_enabled(addon)) {
        ("AddonDeploySuccessful", true) | ("AddonDisabled", false) => true,
        // Never enabled: Harvester leaves the status empty.
        ("", false) => true,
        _ => false,
    }
}

/// Is the Addon settled, and can it be changed? If one is deployed and still `InProgress`, check its HelmChart too.
pub fn is_at_rest(addon: &Value) -> bool {
    is_settled(addon) && !(is_enabled(addon) && is_true(addon, "InProgress"))
}

/// The name of the Job with which helm-controller installs or deletes a HelmChart; `None` until the Job exists.
pub fn job_of(chart: &Value) -> Option<Cow<'_, str>> {
    let named = text(chart, "/status/jobName");
    let is_deleted = !text(chart, "/metadata/deletionTimestamp").is_empty();
    if is_deleted && !named.contains(DELETES) {
        // Up to v0.16 helm-controller writes this name into a field that kube-apiserver drops.
        return Some(format!("{DELETES}-{}", text(chart, "/metadata/name")).into());
    }
    (!named.is_empty()).then_some(named.into())
}

fn status(addon: &Value) -> &str {
    text(addon, "/status/status")
}

fn is_enabled(addon: &Value) -> bool {
    addon["spec"]["enabled"].as_bool().unwrap_or_default()
}

#[cfg(test)]
mod tests;
