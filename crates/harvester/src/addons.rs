//! An Addon of Harvester (`addons.harvesterhci.io`): is it settled, and if not, will it be?
//!
//! Harvester turns an Addon into a HelmChart of the same name and namespace, RKE2's helm-controller
//! turns that into a Job, and Harvester looks every 5 s whether the Job has ended. What the four
//! objects say tells *failed*, *progressing*, *retrying* and *stuck for good* apart; the Addon's own
//! status says `AddonEnabling` in all of these cases (harvester#7376).
//!
//! ```text
//!   Addon (Harvester) ──> HelmChart (helm-controller) ──> Job helm-install-NAME ──> its pods
//!     ^                                                    │ looked for, but only if it is not
//!     └──────────────────── done ──────────────────────────┘ older than InProgress.lastUpdateTime
//! ```
//!
//! Pure: objects and the time come in. Not to be confused with RKE2's own `addons.k3s.cattle.io`.
//! Source of the rules: Harvester's `pkg/controller/master/addon`, `pkg/util/addon`.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use self::installer::named_by_installer;
use super::objects::restarts;

mod installer;

/// By then Harvester's controller has made the HelmChart and helm-controller has answered: both look
/// every few seconds.
const PROMPT: SignedDuration = SignedDuration::from_mins(2);
/// By then Harvester's controller, which looks every 5 s, has seen that a Job ended.
const SEEN: SignedDuration = SignedDuration::from_secs(30);
/// By then helm-controller has replaced a Job of before the last change, or never will. Longer than a
/// restart of RKE2's server, in which helm-controller lives.
const REPLACED: SignedDuration = SignedDuration::from_mins(5);

/// What there is of an Addon. `None` and an empty list mean that it does not exist; a caller that could
/// not ask must not pass that.
#[derive(Debug, Clone, Copy)]
pub struct AddonParts<'a> {
    /// The Addon.
    pub addon: &'a Value,
    /// The HelmChart (`helm.cattle.io/v1`) of the same name and namespace.
    pub chart: Option<&'a Value>,
    /// The Job that the HelmChart's `status.jobName` names, in the same namespace.
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
    /// Proved: the Job has ended and is older than the Addon's `InProgress.lastUpdateTime`, so that
    /// Harvester waits for a newer one forever, and refuses every change meanwhile.
    Stuck {
        /// The Job.
        job: String,
        /// When it was made.
        made: Timestamp,
        /// Since when Harvester waits for a newer one.
        since: Timestamp,
    },
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
            AddonState::Stuck { job, .. } => format!(
                "stuck for good: Job {job} has ended and is older than the last change, and Harvester waits for a newer one"
            ),
            AddonState::ControllerDown { who, why } => match who {
                Controller::Harvester => format!("{why}; is the harvester pod running?"),
                Controller::Helm => format!("{why}; is RKE2's server running?"),
            },
        }
    }
}

/// Is it of use to ask for the HelmChart, the Job and the pods? Not of an Addon that is settled.
pub fn is_settled(addon: &Value) -> bool {
    let enabled = addon["spec"]["enabled"].as_bool().unwrap_or_default();
    match (status(addon), enabled) {
        ("AddonDeploySuccessful", true) | ("AddonDisabled", false) => true,
        // Never switched on: Harvester leaves the status empty.
        ("", false) => true,
        _ => false,
    }
}

/// The name of the Job that a HelmChart names; `None` before helm-controller has made one.
pub fn job_of(chart: &Value) -> Option<&str> {
    chart["status"]["jobName"]
        .as_str()
        .filter(|name| !name.is_empty())
}

/// Judges an Addon.
pub fn judge(parts: &AddonParts<'_>, now: Timestamp) -> AddonState {
    let addon = parts.addon;
    if is_settled(addon) {
        return AddonState::Settled;
    }
    let in_progress = condition(addon, "InProgress");
    let since = in_progress.and_then(|found| time(&found["lastUpdateTime"]));
    if is_true(addon, "OperationFailed") {
        // The status goes on saying AddonEnabling.
        return AddonState::Failed {
            why: condition(addon, "OperationFailed").map_or_else(String::new, words),
        };
    }
    // Without a time nothing is overdue: how long it has been waited for is not known.
    let overdue =
        |patience: SignedDuration| since.is_some_and(|since| now.duration_since(since) > patience);
    let waits = |who: Controller, why: String| match overdue(PROMPT) {
        true => AddonState::ControllerDown { who, why },
        false => AddonState::NotStarted,
    };
    match status(addon) {
        "AddonEnabling" | "AddonUpdating" => {}
        // Done by a Job of another name, which is not known to go wrong for good.
        "AddonDisabling" => return AddonState::Progressing,
        // Asked for, and not begun: the times in its status are those of the operation before.
        _ => return AddonState::NotStarted,
    }
    let Some(chart) = parts.chart else {
        let why = "there is no HelmChart of it".to_owned();
        return waits(Controller::Harvester, why);
    };
    let Some(name) = job_of(chart) else {
        let why = "its HelmChart has no Job".to_owned();
        return waits(Controller::Helm, why);
    };
    let Some(job) = parts.job else {
        let why = format!("Job {name}, which its HelmChart names, does not exist");
        return waits(Controller::Helm, why);
    };
    by_job(name, job, parts.pods, since, now)
}

fn by_job(
    name: &str,
    job: &Value,
    pods: &[Value],
    since: Option<Timestamp>,
    now: Timestamp,
) -> AddonState {
    let made = time(&job["metadata"]["creationTimestamp"]);
    let Some(ended) = ended(job) else {
        return working(job, pods);
    };
    if let (Some(made), Some(since)) = (made, since)
        && made < since
    {
        return match now.duration_since(since) > REPLACED {
            true => AddonState::Stuck {
                job: name.to_owned(),
                made,
                since,
            },
            // helm-controller may be about to replace it.
            false => AddonState::Progressing,
        };
    }
    if let JobEnd::Failed(why) = &ended
        && !why.is_empty()
    {
        return AddonState::Failed { why: why.clone() };
    }
    match ended.at(job) {
        Some(at) if now.duration_since(at) > SEEN => AddonState::ControllerDown {
            who: Controller::Harvester,
            why: format!("Job {name} has ended and Harvester has not taken note"),
        },
        _ => AddonState::Progressing,
    }
}

enum JobEnd {
    Complete,
    Failed(String),
}

impl JobEnd {
    fn at(&self, job: &Value) -> Option<Timestamp> {
        let kind = match self {
            JobEnd::Complete => "Complete",
            JobEnd::Failed(_) => "Failed",
        };
        time(&job["status"]["completionTime"])
            .or_else(|| time(&condition(job, kind)?["lastTransitionTime"]))
    }
}

fn ended(job: &Value) -> Option<JobEnd> {
    if is_true(job, "Failed") {
        let why = condition(job, "Failed").map_or_else(String::new, words);
        return Some(JobEnd::Failed(why));
    }
    let complete = is_true(job, "Complete") || !job["status"]["completionTime"].is_null();
    complete.then_some(JobEnd::Complete)
}

/// A Job that has not ended.
fn working(job: &Value, pods: &[Value]) -> AddonState {
    if let Some(image) = pods.iter().find_map(missing_image) {
        return AddonState::ImageMissing { image };
    }
    let failed = job["status"]["failed"].as_u64().unwrap_or_default();
    match failed + pods.iter().map(restarts).sum::<u64>() {
        0 => AddonState::Progressing,
        failed => AddonState::Retrying { failed },
    }
}

/// The image that a pod cannot get.
fn missing_image(pod: &Value) -> Option<String> {
    const NOT_PULLED: &[&str] = &[
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
    ];
    ["initContainerStatuses", "containerStatuses"]
        .iter()
        .filter_map(|key| pod["status"][key].as_array())
        .flatten()
        .find(|container| {
            container["state"]["waiting"]["reason"]
                .as_str()
                .is_some_and(|reason| NOT_PULLED.contains(&reason))
        })
        .map(|container| container["image"].as_str().unwrap_or_default().to_owned())
}

fn status(addon: &Value) -> &str {
    addon["status"]["status"].as_str().unwrap_or_default()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

/// What a condition says, in a line.
fn words(condition: &Value) -> String {
    let text = |key: &str| {
        let text = condition[key].as_str().unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    match (text("reason"), text("message")) {
        (reason, message) if message.is_empty() => reason,
        (reason, message) if reason.is_empty() => message,
        (reason, message) => format!("{reason}: {message}"),
    }
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests;
