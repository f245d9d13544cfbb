//! Reasons that block an upgrade in any state: Harvester itself is down, one of Rancher's charts is not ready, or RKE2 does not
//! start on the current node.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};
use windrow_model::text::shell_word;

use super::super::finding::IncidentFinding;
use super::machine::{jobs_that_hold, rancher_conditions};
use super::{failing, seen_condition, seen_of};
use crate::etcd_member::{self, Vote};
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, is_true, named, text};
use crate::upgrade::{HarvesterUpgrade, NodeStage, has_ended, minutes_since, time};

/// Harvester's pods are replaced one by one. All of them are missing at once only if there is just one.
const HARVESTER: i64 = 5;
/// Time for the boot of a machine.
const BOOT: i64 = 30;
/// RKE2 starts within minutes, or within a quarter of an hour with a large etcd.
const START: i64 = 20;
/// Rancher continues within minutes after a start of RKE2.
const GOES_ON: i64 = 60;
/// Number of failures of a Job's pods, and their duration, before they are reported.
const RETRIES: i64 = 3;
const RETRIES_FOR: i64 = 30;
const HARVESTER_NAMESPACE: &str = "harvester-system";
/// Harvester's pull request 9297.
const TAKES_NO_NOTE: &str = "Look for `already exists, requeuing` in the log of Deployment harvester-system/harvester: before v1.7.0 it \
    ignored an existing Job. Make a support bundle before you change the Upgrade.";
const ASKS_NOTHING: &str = "Read the quoted messages and Rancher's log (`kubectl -n cattle-system logs deployment/rancher`). Jobs that \
    have not succeeded hold Harvester back.";
const PROBES: &str = "Look at RKE2 on the node of this Machine: the component does not answer its probe. The \
    certificates of kube-controller-manager and kube-scheduler there may have expired.";
/// The states that wait for Rancher's charts, and their usual duration.
const CHARTS: [(&str, i64); 2] = [
    ("PreparingLoggingInfra", 30),
    ("UpgradingSystemServices", 60),
];

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let Some(upgrade) = HarvesterUpgrade::under_way(objects)? else {
        return Ok(Vec::new());
    };
    if upgrade.waits_for_rancher() {
        // Rancher's messages are reported for such an upgrade, regardless of how long it waits.
        objects.want(&[
            ObjectKind::RKE_CONTROL_PLANE,
            ObjectKind::PROVISIONING_CLUSTER,
        ])?;
    }
    let mut findings = harvester_down(objects, &upgrade, now)?;
    findings.extend(charts(objects, &upgrade, now)?);
    findings.extend(not_started(objects, &upgrade, now)?);
    findings.extend(failing_jobs(objects, &upgrade, now)?);
    findings.extend(not_taken_note_of(objects, &upgrade, now)?);
    findings.extend(waits_for_a_probe(objects, &upgrade, now)?);
    Ok(findings)
}

/// Jobs of the upgrade whose pods fail repeatedly (harvester#7085). The script of a hook retries within its pod (harvester#3073),
/// which is not visible. A failed pod was ended from outside, or could not run at all.
fn failing_jobs(
    objects: &Objects,
    upgrade: &HarvesterUpgrade<'_>,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    for job in objects.all(ObjectKind::JOB)? {
        let failed = job
            .pointer("/status/failed")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let is_its = upgrade.owns(job) && text(job, "/metadata/namespace") == HARVESTER_NAMESPACE;
        let made = time(job, "/metadata/creationTimestamp");
        let is_late = made.is_some_and(|made| minutes_since(made, now) >= RETRIES_FOR);
        if !is_its || failed < RETRIES || !is_late || has_ended(job) {
            continue;
        }
        let subject = format!("Job {}", named(job));
        let why = format!("{failed} of its pods have failed, and it is tried again");
        let mut finding = IncidentFinding::new(Code::UpgradeStalled, &subject, &why);
        finding.severity = Severity::Warning;
        finding.advice = format!(
            "`kubectl -n {HARVESTER_NAMESPACE} logs job/{}` shows the cause. Fix it before the Job fails permanently: \
             Harvester then gives up the whole upgrade.",
            shell_word(text(job, "/metadata/name"))
        );
        findings.push(finding.seen([
            Evidence::new(&subject, "status.failed", failed.to_string()),
            Evidence::new(
                &subject,
                "metadata.creationTimestamp",
                text(job, "/metadata/creationTimestamp"),
            ),
        ]));
    }
    Ok(findings)
}

/// Nodes that are Pre-drained and past it: their post-drain Job is complete, or their new RKE2 runs (harvester#9293,
/// harvester#9371, harvester#3021).
fn not_taken_note_of(
    objects: &Objects,
    upgrade: &HarvesterUpgrade<'_>,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    for node in upgrade.in_stage(NodeStage::PreDrained) {
        let subject = format!("Node {}", node.name);
        if let Some((job, done)) = node.post_drained {
            if minutes_since(done, now) >= START {
                let why =
                    "its post-drain Job is complete, and Harvester still calls it Pre-drained";
                let mut finding = IncidentFinding::new(Code::UpgradeStalled, &subject, why);
                finding.advice = TAKES_NO_NOTE.to_owned();
                let seen = Evidence::new(
                    format!("Job {}", named(job)),
                    "status.completionTime",
                    done.to_string(),
                );
                findings.push(finding.seen([seen]).seen(seen_of(upgrade, node)));
            }
            continue;
        }
        let nodes = objects.all(ObjectKind::NODE)?;
        let Some(object) = objects.get(ObjectKind::NODE, "", node.name)? else {
            continue;
        };
        let rke2 = text(object, "/status/nodeInfo/kubeletVersion");
        let is_new = upgrade.new_rke2(nodes) == Some(rke2) && is_true(object, "Ready");
        if !is_new || !node.is_there_for(GOES_ON, now) {
            continue;
        }
        let conditions = rancher_conditions(objects)?;
        let mut moved = conditions.iter().filter_map(|(_, one)| one.since());
        if moved.any(|at| minutes_since(at, now) < START) {
            continue;
        }
        let why = "its new RKE2 runs, and Rancher does not ask for the step that comes after it";
        let mut finding = IncidentFinding::new(Code::UpgradeStalled, &subject, why);
        finding.severity = Severity::Warning;
        finding.advice = ASKS_NOTHING.to_owned();
        let jobs = objects.all(ObjectKind::JOB)?.iter();
        let jobs: Vec<&Value> = jobs.filter(|job| upgrade.owns(job)).collect();
        findings.push(
            finding
                .seen([Evidence::new(
                    &subject,
                    "status.nodeInfo.kubeletVersion",
                    rke2,
                )])
                .seen(
                    conditions
                        .iter()
                        .map(|(whose, one)| seen_condition(whose, *one)),
                )
                .seen(jobs_that_hold(&jobs))
                .seen(seen_of(upgrade, node)),
        );
    }
    Ok(findings)
}

/// A component of RKE2 does not answer Rancher, which waits for it without a limit. Often its certificate has expired
/// (harvester#3863, harvester#5828; Harvester's documentation, upgrade from v1.1.2 to v1.2.0, known issue 7).
fn waits_for_a_probe(
    objects: &Objects,
    upgrade: &HarvesterUpgrade<'_>,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    if !upgrade.waits_for_rancher() {
        return Ok(Vec::new());
    }
    let late = |one: &Condition<'_>| {
        one.message.contains("waiting for probes")
            && one
                .since()
                .is_some_and(|since| minutes_since(since, now) >= BOOT)
    };
    let conditions = rancher_conditions(objects)?;
    let found = conditions.iter().find(|(_, one)| late(one));
    Ok(found
        .map(|(whose, one)| {
            let why = format!("Rancher waits: {}", one.message);
            let mut finding = found_condition(whose, &why, *one);
            finding.advice = PROBES.to_owned();
            finding
        })
        .into_iter()
        .collect())
}

fn harvester_down(
    objects: &Objects,
    upgrade: &HarvesterUpgrade<'_>,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let boots = upgrade.in_stage(NodeStage::WaitingReboot).next().is_some();
    let patience = if boots { BOOT } else { HARVESTER };
    let harvester = objects.get(ObjectKind::DEPLOYMENT, "harvester-system", "harvester")?;
    let down = harvester.and_then(|object| failing(object, "Available", patience, now));
    let why = "it is not available, and every step of an upgrade is Harvester's";
    Ok(down
        .map(|condition| found_condition("Deployment harvester-system/harvester", why, condition))
        .into_iter()
        .collect())
}

fn charts(
    objects: &Objects,
    upgrade: &HarvesterUpgrade<'_>,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let usual = CHARTS.iter().find(|(state, _)| *state == upgrade.state());
    let since = upgrade.since().map(|since| minutes_since(since, now));
    let Some((state, usual)) = usual.filter(|(_, usual)| since >= Some(*usual)) else {
        return Ok(Vec::new());
    };
    // Harvester pauses charts while it changes them.
    let is_paused = |chart: &&Value| chart.pointer("/spec/paused") == Some(&Value::Bool(true));
    let charts = objects.all(ObjectKind::MANAGED_CHART)?.iter();
    let failed = charts
        .filter(|chart| !is_paused(chart))
        .filter_map(|chart| {
            let ready = failing(chart, "Ready", *usual, now)?;
            let why = format!("{state} waits for it: {}", ready.message);
            Some(found_condition(
                &format!("ManagedChart {}", named(chart)),
                &why,
                ready,
            ))
        });
    Ok(failed.collect())
}

/// RKE2 on a Pre-drained node does not become ready. A learner in etcd has its own finding.
fn not_started(
    objects: &Objects,
    upgrade: &HarvesterUpgrade<'_>,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    let late = upgrade.in_stage(NodeStage::PreDrained);
    for node in late.filter(|node| node.is_there_for(START, now)) {
        let Some(object) = objects.get(ObjectKind::NODE, "", node.name)? else {
            continue;
        };
        let learns = matches!(etcd_member::vote(object), Vote::Learns { .. });
        if let Some(ready) = failing(object, "Ready", START, now).filter(|_| !learns) {
            let why = "its RKE2 was restarted for the upgrade, and it does not become ready";
            let finding = found_condition(&format!("Node {}", node.name), why, ready);
            findings.push(finding.seen(seen_of(upgrade, node)));
        }
    }
    Ok(findings)
}

fn found_condition(subject: &str, why: &str, condition: Condition<'_>) -> IncidentFinding {
    let seen = seen_condition(subject, condition);
    IncidentFinding::new(Code::UpgradeStalled, subject, why).seen([seen])
}
