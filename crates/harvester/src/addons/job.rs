//! A Job of helm-controller: how it ended in Harvester's view, or how far it is.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::object::pods::container_statuses;
use windrow_model::text::one_line;

use super::{AddonState, time};
use crate::objects::{Condition, is_true, restarts, text};

pub(super) enum JobEnd {
    Complete {
        at: Option<Timestamp>,
    },
    Failed {
        why: String,
        at: Option<Timestamp>,
        /// Does Harvester count this as an end?
        counted: bool,
    },
}

pub(super) fn ended(job: &Value) -> Option<JobEnd> {
    let completed = time(job, "/status/completionTime");
    let since = |name| completed.or_else(|| Condition::of(job, name)?.time("lastTransitionTime"));
    if is_true(job, "Failed") {
        let failed = Condition::of(job, "Failed")?;
        return Some(JobEnd::Failed {
            why: words(failed),
            at: since("Failed"),
            counted: is_counted(job, failed),
        });
    }
    let complete = is_true(job, "Complete") || !text(job, "/status/completionTime").is_empty();
    complete.then(|| JobEnd::Complete {
        at: since("Complete"),
    })
}

/// Harvester recognizes one failure reason of a Job (`isJobComplete`), and counts its failures in that case
/// (`reconcileCurrentInstallationJob`, `waitForAddonDisable`).
fn is_counted(job: &Value, failed: Condition<'_>) -> bool {
    let failures = job["status"]["failed"].as_u64().unwrap_or_default();
    failed.reason == "BackoffLimitExceeded" && failures > 0
}

pub(super) fn working(job: &Value, pods: &[Value]) -> AddonState {
    if let Some(image) = pods.iter().find_map(missing_image) {
        return AddonState::ImageMissing { image };
    }
    let failed = job["status"]["failed"].as_u64().unwrap_or_default();
    match failed + pods.iter().map(restarts).sum::<u64>() {
        0 => AddonState::Progressing,
        failed => AddonState::Retrying { failed },
    }
}

/// Reasons of a waiting container whose image cannot be pulled (kubelet `pkg/kubelet/images/types.go`).
pub(crate) const NOT_PULLED: &[&str] = &[
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
];

fn missing_image(pod: &Value) -> Option<String> {
    container_statuses(pod)
        .find(|container| NOT_PULLED.contains(&text(container, "/state/waiting/reason")))
        .map(|container| text(container, "/image").to_owned())
}

pub(super) fn words(condition: Condition<'_>) -> String {
    one_line(&condition.words())
}
