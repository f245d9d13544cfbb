//! An Addon of Harvester (`addons.harvesterhci.io`): is it settled, and if not, will it be?
//!
//! Harvester turns an Addon into a HelmChart of the same name and namespace, RKE2's helm-controller
//! turns that into a Job, and Harvester looks every 5 s whether the Job has ended. What the four
//! objects say tells *failed*, *progressing*, *retrying* and *stuck for good* apart; the Addon's own
//! status says `AddonEnabling` or `AddonDisabling` in all of these cases (harvester#7376).
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
//! Pure: objects and the time come in. Not to be confused with RKE2's own `addons.k3s.cattle.io`.
//! Source of the rules: Harvester's `pkg/controller/master/addon`, alike in v1.4.0 to v1.9.0-rc6, its
//! `pkg/util/addon`, and `OnRemove` in helm-controller's `pkg/controllers/chart/chart.go`.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

pub use self::installer::named_by_installer;
pub(crate) use self::job::NOT_PULLED;
pub use self::judge::judge;
use crate::objects::{is_true, text};
use crate::upgrade::time;

mod installer;
mod job;
mod judge;

/// By this in its name Harvester knows a Job that deletes a HelmChart.
const DELETES: &str = "helm-delete";

/// What there is of an Addon. `None` and an empty list mean that it does not exist; a caller that could
/// not ask must not pass that.
#[derive(Debug, Clone, Copy)]
pub struct AddonParts<'a> {
    /// The Addon.
    pub addon: &'a Value,
    /// The HelmChart (`helm.cattle.io/v1`) of the same name and namespace.
    pub chart: Option<&'a Value>,
    /// The Job that [`job_of`] names, in the same namespace.
    pub job: Option<&'a Value>,
    /// The Job's pods.
    pub pods: &'a [Value],
}

/// Who has to act and does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Harvester's: the `harvester` Deployment in harvester-system.
    Harvester,
    /// The helm-controller in RKE2's server.
    Helm,
}

/// Why no controller acts on an Addon any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deadlock {
    /// The Job has ended and is older than what waits for it: Harvester waits for a newer one, and
    /// helm-controller makes none.
    JobIsOlder {
        /// The Job.
        job: String,
        /// When it was made.
        made: Timestamp,
        /// Since when Harvester waits for a newer one.
        since: Timestamp,
    },
    /// The Job failed, Harvester does not count that as an end, and helm-controller makes no other.
    JobNotCounted {
        /// The Job.
        job: String,
        /// What it says.
        why: String,
    },
    /// Enabled, with `InProgress` and `OperationFailed` both `True`: Harvester does nothing because of the
    /// second, and its webhook refuses every change because of the first (harvester#11045).
    FailedInProgress,
    /// Disabled while `InProgress` is `True`: only the processing of an enabled Addon could end that.
    DisabledInProgress,
    /// Enabled while it is being disabled: Harvester has no case for that.
    EnabledWhileDisabling,
    /// The HelmChart of its name is not owned by it, and Harvester leaves it alone.
    ForeignChart,
    /// Deployed as it is asked for, with `InProgress` still `True`: an update ended before its last write. Harvester has
    /// nothing to do for it, and its webhook refuses every change.
    DeployedInProgress,
}

/// Where an Addon stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddonState {
    /// Deployed, or switched off, as is asked for.
    Settled,
    /// Asked for a moment ago; its controllers have not looked at it yet.
    NotStarted,
    /// On its way.
    Progressing,
    /// An attempt failed, another one is made.
    Retrying {
        /// How many have failed.
        failed: u64,
    },
    /// The Job's pod cannot have its image: on a site without internet it has to be loaded first.
    ImageMissing {
        /// Which, where the pod says so.
        image: String,
    },
    /// Given up: nothing is tried again until the Addon is switched off and on.
    Failed {
        /// What is said of it.
        why: String,
    },
    /// Proved: no controller acts on it any more.
    Stuck(Deadlock),
    /// What is next is not done by whoever has to do it.
    ControllerDown {
        /// Who.
        who: Controller,
        /// What is not done.
        why: String,
    },
}

impl AddonState {
    /// Will it come right by itself, as far as anybody can tell?
    pub fn is_on_its_way(&self) -> bool {
        matches!(
            self,
            AddonState::Settled | AddonState::NotStarted | AddonState::Progressing
        )
    }

    /// In a line.
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
                "its image cannot be had".to_owned()
            }
            AddonState::ImageMissing { image } => format!("the image {image} cannot be had"),
            AddonState::Failed { why } if why.is_empty() => "it failed".to_owned(),
            AddonState::Failed { why } => format!("it failed: {why}"),
            AddonState::Stuck(deadlock) => format!("stuck for good: {}", deadlock.say()),
            AddonState::ControllerDown { who, why } => match who {
                Controller::Harvester => format!("{why}; is the harvester pod running?"),
                Controller::Helm => format!("{why}; is RKE2's server running?"),
            },
        }
    }
}

impl Deadlock {
    /// In a line.
    pub fn say(&self) -> String {
        match self {
            Deadlock::JobIsOlder { job, .. } => {
                format!("Job {job} has ended and is older than what waits for it")
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

/// Is it of use to ask for the HelmChart, the Job and the pods? Not of an Addon that is settled.
pub fn is_settled(addon: &Value) -> bool {
    match (status(addon), is_enabled(addon)) {
        ("AddonDeploySuccessful", true) | ("AddonDisabled", false) => true,
        // Never switched on: Harvester leaves the status empty.
        ("", false) => true,
        _ => false,
    }
}

/// Is it settled, and can it be changed? One that is deployed and still `InProgress` is worth a look at its HelmChart.
pub fn is_at_rest(addon: &Value) -> bool {
    is_settled(addon) && !(is_enabled(addon) && is_true(addon, "InProgress"))
}

/// The name of the Job by which helm-controller installs or deletes a HelmChart; `None` before it has made one.
pub fn job_of(chart: &Value) -> Option<Cow<'_, str>> {
    let named = text(chart, "/status/jobName");
    let is_deleted = !text(chart, "/metadata/deletionTimestamp").is_empty();
    if is_deleted && !named.contains(DELETES) {
        // Up to v0.16 helm-controller writes this name where kube-apiserver drops it.
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
