//! Judges an Addon in the order of Harvester's controller: by the desired state, its status, and its two conditions.
//!
//! ```text
//!                    InProgress  OperationFailed
//!   on   Enabling    True        -                the Job of the HelmChart decides
//!        or Updating False       True             failed
//!                    True        True             deadlock
//!   on   Disabling   any         any              deadlock
//!        Deploy-     True                         deadlock, where its HelmChart is as it asks for
//!        Successful
//!   on   other       any         any              Harvester begins, once no HelmChart is in its way
//!   off  Disabling   False       True             failed
//!                    else                         the deletion of the HelmChart decides
//!   off  other       True        any              deadlock
//!                    False       any              Harvester begins
//! ```

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::job::{JobEnd, ended, working};
use super::{
    AddonParts, AddonState, Controller, DELETES, Deadlock, is_enabled, is_settled, job_of, status,
    time,
};
use crate::objects::{Condition, is_true, items, text};

/// Within this time Harvester's controller has created the HelmChart and helm-controller has answered: both check every few
/// seconds.
const PROMPT: SignedDuration = SignedDuration::from_mins(2);
/// Within this time Harvester's controller, which checks every 5 s, has noticed that a Job ended.
const SEEN: SignedDuration = SignedDuration::from_secs(30);
/// Within this time helm-controller has replaced a Job, or never will. Longer than a restart of RKE2's server, which contains
/// helm-controller.
const REPLACED: SignedDuration = SignedDuration::from_mins(5);
/// The finalizer with which helm-controller keeps a HelmChart until its Job helm-delete-NAME is done.
const FINALIZER: &str = "wrangler.cattle.io/on-helm-chart-remove";

pub fn judge(parts: &AddonParts<'_>, now: Timestamp) -> AddonState {
    let addon = parts.addon;
    if is_settled(addon) {
        return match is_deployed_in_progress(parts, now) {
            true => AddonState::Stuck(Deadlock::DeployedInProgress),
            false => AddonState::Settled,
        };
    }
    let in_progress = is_true(addon, "InProgress");
    let failed = is_true(addon, "OperationFailed");
    match (is_enabled(addon), status(addon)) {
        (true, "AddonEnabling" | "AddonUpdating") => match (failed, in_progress) {
            (true, true) => AddonState::Stuck(Deadlock::FailedInProgress),
            (true, false) => failed_operation(addon),
            (false, _) => installing(parts, now),
        },
        (true, "AddonDisabling") => AddonState::Stuck(Deadlock::EnabledWhileDisabling),
        (true, _) => beginning(parts, now),
        (false, "AddonDisabling") if failed && !in_progress => match is_foreign(parts, now) {
            true => AddonState::Stuck(Deadlock::ForeignChart),
            false => failed_operation(addon),
        },
        // A failure of an earlier operation stays in the status until this operation has completed.
        (false, "AddonDisabling") => disabling(parts, now),
        (false, _) if in_progress => AddonState::Stuck(Deadlock::DisabledInProgress),
        // Requested, and not begun: the times in its status are those of the previous operation.
        (false, _) => AddonState::NotStarted,
    }
}

/// `processAddonUpgrades` writes `InProgress`, the HelmChart and the status one after the other. If the last write is missing and
/// the HelmChart needs no change, Harvester never returns to it. Values that the Addon keeps in its annotation are not compared:
/// Harvester would have acted on a difference within the patience.
fn is_deployed_in_progress(parts: &AddonParts<'_>, now: Timestamp) -> bool {
    let (addon, Some(chart)) = (parts.addon, parts.chart) else {
        return false;
    };
    let is_as_asked = |field: &str| {
        let pointer = format!("/spec/{field}");
        text(addon, &pointer) == text(chart, &pointer)
    };
    let values = text(addon, "/spec/valuesContent");
    let names_a_chart = !text(addon, "/spec/chart").is_empty();
    is_true(addon, "InProgress")
        && is_enabled(addon)
        && names_a_chart
        && ["chart", "repo", "version"].into_iter().all(is_as_asked)
        && (values.is_empty() || is_as_asked("valuesContent"))
        && is_overdue(in_progress_since(addon), REPLACED, now)
}

fn failed_operation(addon: &Value) -> AddonState {
    let why = Condition::of(addon, "OperationFailed").map_or_else(String::new, super::job::words);
    AddonState::Failed { why }
}

/// Harvester waits for the Job of the HelmChart.
fn installing(parts: &AddonParts<'_>, now: Timestamp) -> AddonState {
    if let Some(since) = deleted(parts) {
        // Harvester creates it again after it is gone.
        return chart_going(parts, since, now);
    }
    let since = in_progress_since(parts.addon);
    let waits = |who, why| down_after(since, PROMPT, now, AddonState::NotStarted, who, why);
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
    let Some(end) = ended(job) else {
        return unended(&name, job, parts.pods, now);
    };
    let made = time(job, "/metadata/creationTimestamp");
    match (end, made, since) {
        (_, Some(made), Some(since)) if made < since => {
            let (job, waited) = (name.into_owned(), Some(since));
            stuck_after(waited, now, Deadlock::JobIsOlder { job, made, since })
        }
        (JobEnd::Complete { at }, ..) => not_noticed(&name, at, now),
        (JobEnd::Failed { why, at, counted }, ..) => failed_job(&name, why, at, counted, now),
    }
}

/// An enabled Addon that Harvester has not started: the HelmChart of its name has to disappear first.
fn beginning(parts: &AddonParts<'_>, now: Timestamp) -> AddonState {
    match deleted(parts) {
        Some(since) => chart_going(parts, since, now),
        None if is_foreign(parts, now) => AddonState::Stuck(Deadlock::ForeignChart),
        None => AddonState::NotStarted,
    }
}

/// Harvester deletes the HelmChart and waits for the Job with which helm-controller does that.
fn disabling(parts: &AddonParts<'_>, now: Timestamp) -> AddonState {
    if parts.chart.is_none() {
        // Only an operation in progress has a time.
        let since = in_progress_since(parts.addon).filter(|_| is_true(parts.addon, "InProgress"));
        let why = "its HelmChart is gone and Harvester has not noticed".to_owned();
        let soon = AddonState::Progressing;
        return down_after(since, PROMPT, now, soon, Controller::Harvester, why);
    }
    let Some(since) = deleted(parts) else {
        return match is_foreign(parts, now) {
            true => AddonState::Stuck(Deadlock::ForeignChart),
            false => AddonState::NotStarted,
        };
    };
    let name = parts
        .chart
        .map_or("", |chart| text(chart, "/status/jobName"));
    let counts = |job: &&Value| {
        is_owned(parts)
            && name.contains(DELETES)
            && time(job, "/metadata/creationTimestamp").is_some_and(|made| made >= since)
    };
    match parts.job.filter(counts).and_then(ended) {
        Some(JobEnd::Complete { at }) => not_noticed(name, at, now),
        Some(JobEnd::Failed { why, at, counted }) => failed_job(name, why, at, counted, now),
        None => chart_going(parts, since, now),
    }
}

/// A HelmChart that is being deleted: helm-controller runs a Job and removes its finalizer when the Job has succeeded, at
/// any age of the Job. If that Job fails, it creates no other.
fn chart_going(parts: &AddonParts<'_>, since: Timestamp, now: Timestamp) -> AddonState {
    let is_kept = |chart: &Value| {
        let finalizers = items(chart, "/metadata/finalizers");
        finalizers.iter().any(|finalizer| finalizer == FINALIZER)
    };
    let Some(name) = parts.chart.filter(|chart| is_kept(chart)).and_then(job_of) else {
        // It disappears without helm-controller.
        return AddonState::Progressing;
    };
    let waits = |since, patience, why| {
        let soon = AddonState::Progressing;
        down_after(since, patience, now, soon, Controller::Helm, why)
    };
    let Some(job) = parts.job else {
        let why = format!("its HelmChart is deleted and there is no Job {name}");
        return waits(Some(since), REPLACED, why);
    };
    match (ended(job), time(job, "/metadata/creationTimestamp")) {
        (None, _) => unended(&name, job, parts.pods, now),
        (Some(JobEnd::Complete { at }), _) => {
            let why = format!("Job {name} is complete and its HelmChart is still there");
            waits(at, PROMPT, why)
        }
        (Some(JobEnd::Failed { .. }), Some(made)) if made < since => {
            let job = name.into_owned();
            stuck_after(Some(since), now, Deadlock::JobIsOlder { job, made, since })
        }
        (Some(JobEnd::Failed { why, at, .. }), _) => failed_job(&name, why, at, false, now),
    }
}

/// A Job that has not ended. Since 0.16.26 and 0.17.5 helm-controller creates it suspended, and resumes it within seconds.
fn unended(name: &str, job: &Value, pods: &[Value], now: Timestamp) -> AddonState {
    if job["spec"]["suspend"] != true {
        return working(job, pods);
    }
    let made = time(job, "/metadata/creationTimestamp");
    let soon = AddonState::Progressing;
    let why = format!("Job {name} is suspended");
    down_after(made, REPLACED, now, soon, Controller::Helm, why)
}

/// A Job of the failed operation: Harvester reports that in the Addon, or waits forever.
fn failed_job(
    name: &str,
    why: String,
    at: Option<Timestamp>,
    counted: bool,
    now: Timestamp,
) -> AddonState {
    match counted {
        true => AddonState::Failed { why },
        false => {
            let job = name.to_owned();
            stuck_after(at, now, Deadlock::JobNotCounted { job, why })
        }
    }
}

/// A Job of the completed operation: Harvester notices that at its next check.
fn not_noticed(name: &str, at: Option<Timestamp>, now: Timestamp) -> AddonState {
    let why = format!("Job {name} has ended and Harvester has not noticed");
    let soon = AddonState::Progressing;
    down_after(at, SEEN, now, soon, Controller::Harvester, why)
}

/// helm-controller may be about to replace the Job.
fn stuck_after(since: Option<Timestamp>, now: Timestamp, deadlock: Deadlock) -> AddonState {
    match is_overdue(since, REPLACED, now) {
        true => AddonState::Stuck(deadlock),
        false => AddonState::Progressing,
    }
}

fn down_after(
    since: Option<Timestamp>,
    patience: SignedDuration,
    now: Timestamp,
    soon: AddonState,
    who: Controller,
    why: String,
) -> AddonState {
    match is_overdue(since, patience, now) {
        true => AddonState::ControllerDown { who, why },
        false => soon,
    }
}

/// Without a time nothing is overdue: Windrow cannot tell how long it has waited.
fn is_overdue(since: Option<Timestamp>, patience: SignedDuration, now: Timestamp) -> bool {
    since.is_some_and(|since| now.duration_since(since) > patience)
}

fn in_progress_since(addon: &Value) -> Option<Timestamp> {
    Condition::of(addon, "InProgress")?.time("lastUpdateTime")
}

fn deleted(parts: &AddonParts<'_>) -> Option<Timestamp> {
    time(parts.chart?, "/metadata/deletionTimestamp")
}

/// Does the Addon own the HelmChart, by the rules of Harvester's `getAddonHelmChart`?
fn is_owned(parts: &AddonParts<'_>) -> bool {
    let of = |pointer| text(parts.addon, pointer);
    let owners = parts
        .chart
        .map_or(&[][..], |chart| items(chart, "/metadata/ownerReferences"));
    owners.iter().any(|owner| {
        text(owner, "/kind") == "Addon"
            && text(owner, "/uid") == of("/metadata/uid")
            && text(owner, "/name") == of("/metadata/name")
    })
}

/// Has another owner's HelmChart had the Addon's name for long? The HelmChart of an Addon that was deleted and created again
/// disappears automatically.
fn is_foreign(parts: &AddonParts<'_>, now: Timestamp) -> bool {
    let made = |object| time(object, "/metadata/creationTimestamp");
    let Some(chart) = parts.chart.filter(|_| !is_owned(parts)) else {
        return false;
    };
    match (made(chart), made(parts.addon)) {
        (Some(chart), Some(addon)) => is_overdue(Some(chart.max(addon)), REPLACED, now),
        _ => false,
    }
}
