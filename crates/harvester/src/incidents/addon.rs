//! E: an Addon of Harvester that never settles (harvester#7376).

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::reasons::Code;

use self::evidence::evidence;
use super::finding::IncidentFinding;
use super::relied_on::{ReliedOn, unconfirmed};
use crate::addons::{AddonParts, AddonState, Deadlock, is_at_rest, job_of, judge};
use crate::objects::{ObjectKind, Objects, Unlisted, named, text};
use crate::versions::{Fact, Holds, the_clusters_version};

mod cure;
mod evidence;
mod job_kept;

/// The label with the name of the Job on its pods.
const JOB_NAME: &str = "/metadata/labels/batch.kubernetes.io~1job-name";

/// Components whose versions must be confirmed for the proof and the fix of a stuck Addon.
pub(super) const RELIES_ON: &[ReliedOn] = &[ReliedOn::Harvester, ReliedOn::HelmController];

/// The advice if the proof does not hold.
const NOT_PROVED: &str = "Windrow offers no fix: it cannot tell whether the controllers continue on their own. Check the HelmChart, its Job, \
                          and the log of the Job first. See docs/incidents/addon.md.";

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    for addon in objects.all(ObjectKind::ADDON)? {
        if is_at_rest(addon) {
            continue;
        }
        let namespace = text(addon, "/metadata/namespace");
        let chart = objects.get(
            ObjectKind::HELM_CHART,
            namespace,
            text(addon, "/metadata/name"),
        )?;
        let job = match chart.and_then(job_of) {
            Some(name) => objects.get(ObjectKind::JOB, namespace, &name)?,
            None => None,
        };
        let pods = pods_of(objects, job)?;
        let parts = AddonParts {
            addon,
            chart,
            job,
            pods: &pods,
        };
        let finding = match judge(&parts, now) {
            AddonState::Stuck(deadlock) => Some(stuck(objects, &parts, &deadlock)?),
            state => unsettled(&parts, &state),
        };
        findings.extend(finding);
    }
    Ok(findings)
}

fn pods_of(objects: &Objects, job: Option<&Value>) -> Result<Vec<Value>, Unlisted> {
    let Some(job) = job else {
        return Ok(Vec::new());
    };
    let (namespace, name) = (
        text(job, "/metadata/namespace"),
        text(job, "/metadata/name"),
    );
    let pods = objects.all(ObjectKind::POD)?.iter();
    Ok(pods
        .filter(|pod| text(pod, "/metadata/namespace") == namespace && text(pod, JOB_NAME) == name)
        .cloned()
        .collect())
}

fn unsettled(parts: &AddonParts<'_>, state: &AddonState) -> Option<IncidentFinding> {
    let code = match state {
        AddonState::Failed { .. } => Code::AddonFailed,
        AddonState::ImageMissing { .. } => Code::AddonImageMissing,
        AddonState::ControllerDown { .. } => Code::AddonControllerDown,
        _ => return None,
    };
    let mut finding = finding(code, parts, &state.say());
    if code == Code::AddonFailed && text(parts.addon, "/status/status") == "AddonDisabling" {
        // Harvester does nothing for an enabled Addon in this state.
        "Fix the cause in the Job's log, then delete the Job: helm-controller creates it again. Leave the Addon off until then."
            .clone_into(&mut finding.advice);
    }
    Some(finding)
}

fn finding(code: Code, parts: &AddonParts<'_>, why: &str) -> IncidentFinding {
    let subject = format!("Addon {}", named(parts.addon));
    let seen = evidence(&subject, parts);
    IncidentFinding::new(code, subject, why).seen(seen)
}

/// Adds the proof and the cure if both rest on confirmed versions.
fn stuck(
    objects: &Objects,
    parts: &AddonParts<'_>,
    deadlock: &Deadlock,
) -> Result<IncidentFinding, Unlisted> {
    let why = deadlock.say();
    let mut finding = match why_unproved(objects, parts, deadlock)? {
        None => {
            let mut finding = finding(Code::AddonStuck, parts, &why);
            finding.proof = proof(deadlock);
            finding.cure = cure::cure(parts, deadlock);
            finding.by_person = *deadlock == Deadlock::EnabledWhileDisabling;
            finding
        }
        Some(unproved) => {
            let why = format!("{why} (not proved: {unproved})");
            let mut finding = finding(Code::AddonStuck, parts, &why);
            NOT_PROVED.clone_into(&mut finding.advice);
            finding.unconfirmed = true;
            finding
        }
    };
    if *deadlock == Deadlock::ForeignChart {
        "Find the owner of the HelmChart. Harvester continues automatically once the HelmChart is gone."
            .clone_into(&mut finding.advice);
    }
    Ok(finding)
}

/// The reason why the deadlock is not proved; `None` if it is.
fn why_unproved(
    objects: &Objects,
    parts: &AddonParts<'_>,
    deadlock: &Deadlock,
) -> Result<Option<String>, Unlisted> {
    if let Some(why) = unconfirmed(objects, RELIES_ON)? {
        return Ok(Some(why));
    }
    let version = the_clusters_version(objects)?;
    let is_known = |fact: Fact, holds| version.is_some_and(|version| fact.holds(version) == holds);
    if !is_known(Fact::AddonEndsByJob, Holds::Yes) {
        return Ok(Some(
            "how an operation ends in this version is unknown".to_owned(),
        ));
    }
    let waits_for_job = matches!(
        deadlock,
        Deadlock::JobIsOlder { .. } | Deadlock::JobNotCounted { .. }
    );
    if !waits_for_job || is_known(Fact::ChartJobsSuspended, Holds::No) {
        return Ok(None);
    }
    if !is_known(Fact::ChartJobsSuspended, Holds::Yes) {
        return Ok(Some(
            "when helm-controller replaces a Job in this version is unknown".to_owned(),
        ));
    }
    job_kept::why_not(objects, parts)
}

fn proof(deadlock: &Deadlock) -> Vec<String> {
    const REFUSED: &str =
        "Harvester's webhook refuses every change of the Addon while InProgress is True";
    const NO_OTHER: &str = "helm-controller makes no new Job while nothing changes";
    match deadlock {
        Deadlock::JobIsOlder { job, made, since } => vec![
            format!("Job {job} was made at {made} and has ended"),
            format!("Harvester accepts only a Job that is not older than {since}"),
            NO_OTHER.to_owned(),
            REFUSED.to_owned(),
        ],
        Deadlock::JobNotCounted { job, why } => vec![
            format!("Job {job} failed: {why}"),
            "Harvester takes note of a Job that its HelmChart names, of BackoffLimitExceeded, and of status.failed above 0".to_owned(),
            NO_OTHER.to_owned(),
        ],
        Deadlock::FailedInProgress => vec![
            "Harvester does nothing with an enabled Addon while OperationFailed is True".to_owned(),
            REFUSED.to_owned(),
        ],
        Deadlock::DisabledInProgress => vec![
            "Harvester disables an Addon only once InProgress is False".to_owned(),
            "only the processing of an enabled Addon sets it False".to_owned(),
            REFUSED.to_owned(),
        ],
        Deadlock::EnabledWhileDisabling => {
            vec![
                "Harvester has no step from AddonDisabling for an Addon that is enabled".to_owned(),
            ]
        }
        Deadlock::DeployedInProgress => vec![
            "its HelmChart already matches the Addon: Harvester sees nothing to update".to_owned(),
            "only the end of an operation sets InProgress False".to_owned(),
            REFUSED.to_owned(),
        ],
        Deadlock::ForeignChart => vec![
            "none of the HelmChart's owners is this Addon".to_owned(),
            "Harvester neither changes nor deletes such a HelmChart, and waits until it is gone"
                .to_owned(),
        ],
    }
}
