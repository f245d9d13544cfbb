//! A Plan of system-upgrade-controller that does not advance: nodes remain, but nothing runs for them (harvester#9880,
//! rancher#53498, system-upgrade-controller#134).
//!
//! The controller creates the Job of a node with `parallelism: 0` and sets it to 1 once the node is in `status.applying`. So a
//! Plan hangs in one of five ways: the controller never read the Plan, it starts no Job, it lists a node without a Job, it lists
//! only finished nodes, or it leaves a Job at 0 (system-upgrade-controller `pkg/upgrade/job/job.go`).
//!
//! A failed Job leaves the condition Complete of the Plan at False, `JobFailed`. When the TTL deletes the Job, the controller is
//! not notified, and it skips a Plan whose resourceVersion is unchanged until it is restarted (v0.15.0 and later,
//! `pkg/upgrade/handle_batch.go`, `handle_upgrade.go`; harvester/docs#1070). A restarted Plan fails again, so only a user starts
//! it.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::object::LabelSelector;
use windrow_model::reasons::{Code, Severity};

use super::super::finding::IncidentFinding;
use super::super::platform::{is_platforms, quoted};
use super::machine::MACHINE_OF;
use super::{cures, seen_condition};
use crate::objects::{
    Condition, ObjectKind, Objects, Unlisted, is_true, items, named, text, texts,
};
use crate::upgrade::{has_ended, is_of_plan, label, minutes_since, time};

/// Rancher's Plan that installs an agent on each node, through which the node gets its Machine.
pub(super) const AGENT_PLAN: &str = "cattle-system/system-agent-upgrader";
/// The controller reacts within seconds.
const PATIENCE: i64 = 5;
/// As long as a failed Job of the platform is no symptom, in minutes.
const FAILED: i64 = 15;

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    for plan in objects.all(ObjectKind::PLAN)? {
        if !may_hang(plan, now) {
            continue;
        }
        let left = nodes_left(plan, objects.all(ObjectKind::NODE)?);
        if left.is_empty() {
            continue;
        }
        let jobs = jobs_of(plan, objects.all(ObjectKind::JOB)?);
        if let Some((job, failed)) = failed_job(plan, &jobs) {
            findings.extend(held(plan, (&left, job), failed, now));
            continue;
        }
        if let Some(hang) = hang(plan, &left, &jobs, now) {
            findings.push(stuck(objects, plan, (&left, &jobs), &hang)?);
        }
    }
    Ok(findings)
}

/// Whether the Plan is old enough, unfinished, and not held for a reason in its own status.
fn may_hang(plan: &Value, now: Timestamp) -> bool {
    let made = time(plan, "/metadata/creationTimestamp");
    let is_new = made.is_none_or(|made| minutes_since(made, now) < PATIENCE);
    let complete = Condition::of(plan, "Complete").map_or("", |complete| complete.reason);
    let is_held = matches!(complete, "Waiting" | "NotReady")
        || plan
            .pointer("/spec/window")
            .is_some_and(|window| !window.is_null());
    let is_refused = ["Validated", "LatestResolved"]
        .iter()
        .any(|name| Condition::of(plan, name).is_some_and(|one| one.is_false()));
    !(is_new || is_true(plan, "Complete") || is_held || is_refused)
}

/// The failed Job because of which the controller starts no other one, and its condition. The controller keeps it until its TTL expires.
fn failed_job<'o>(plan: &Value, jobs: &[&'o Value]) -> Option<(&'o Value, Condition<'o>)> {
    let complete = Condition::of(plan, "Complete").map_or("", |complete| complete.reason);
    let mut failed = jobs.iter().filter_map(|job| {
        let failed = Condition::of(job, "Failed").filter(Condition::is_true)?;
        Some((*job, failed))
    });
    failed.next().filter(|_| complete == "JobFailed")
}

/// A Plan that waits for its failed Job to be deleted. Jobs of the platform's namespaces are a symptom.
fn held(
    plan: &Value,
    (left, job): (&[&Value], &Value),
    failed: Condition<'_>,
    now: Timestamp,
) -> Option<IncidentFinding> {
    let is_late = failed
        .since()
        .is_some_and(|since| minutes_since(since, now) >= FAILED);
    if !is_late || is_platforms(job) {
        return None;
    }
    let subject = format!("Plan {}", named(plan));
    let why = format!(
        "its Job {} failed ({}), and {} nodes are left",
        named(job),
        quoted(&failed.words()),
        left.len()
    );
    let mut finding = IncidentFinding::new(Code::PlanStuck, &subject, &why);
    let complete = Condition::of(plan, "Complete");
    let complete = complete.map(|condition| seen_condition(&subject, condition));
    finding.evidence.extend(complete);
    let job_subject = format!("Job {}", named(job));
    finding.evidence.push(seen_condition(&job_subject, failed));
    finding.severity = Severity::Warning;
    finding.proof = vec![
        "system-upgrade-controller begins no other Job of this Plan while the failed Job exists"
            .to_owned(),
    ];
    "Read the log of the Job's pods, and fix the cause. Then delete the failed Job."
        .clone_into(&mut finding.advice);
    Some(finding)
}

/// The selected nodes that do not have the newest hash of the Plan.
pub(super) fn nodes_left<'o>(plan: &Value, nodes: &'o [Value]) -> Vec<&'o Value> {
    let Ok(Some(selector)) = LabelSelector::parse(plan.pointer("/spec/nodeSelector")) else {
        return Vec::new();
    };
    let key = format!("plan.upgrade.cattle.io/{}", text(plan, "/metadata/name"));
    let is_left = |node: &&Value| {
        let labels = texts(node, "/metadata/labels");
        let done = labels.get(&key).map_or("", String::as_str);
        let hash = text(plan, "/status/latestHash");
        selector.matches(&labels) && done != "disabled" && (hash.is_empty() || done != hash)
    };
    nodes.iter().filter(is_left).collect()
}

fn jobs_of<'o>(plan: &Value, jobs: &'o [Value]) -> Vec<&'o Value> {
    let (name, namespace) = (
        text(plan, "/metadata/name"),
        text(plan, "/metadata/namespace"),
    );
    let is_its = |job: &&Value| {
        label(job, "upgrade.cattle.io~1plan") == name
            && text(job, "/metadata/namespace") == namespace
    };
    jobs.iter().filter(is_its).collect()
}

/// How the Plan hangs, in words; `None` if it does not hang, or not for long enough.
fn hang(plan: &Value, left: &[&Value], jobs: &[&Value], now: Timestamp) -> Option<String> {
    let is_late = last_change(plan, jobs).is_some_and(|last| minutes_since(last, now) >= PATIENCE);
    if !is_late {
        return None;
    }
    if text(plan, "/status/latestHash").is_empty() {
        let is_unseen = Condition::all(plan).next().is_none();
        return is_unseen.then(|| "the controller has never looked at it".to_owned());
    }
    let applying = items(plan, "/status/applying").iter();
    let applying: Vec<&str> = applying.filter_map(Value::as_str).collect();
    let runs = jobs.iter().any(|job| !has_ended(job));
    if applying.is_empty() {
        return (!runs).then(|| format!("{} nodes are left, and no Job starts", left.len()));
    }
    let name = text(plan, "/metadata/name");
    let is_left = |node: &&&str| left.iter().any(|one| text(one, "/metadata/name") == **node);
    if !applying.iter().any(|node| is_left(&node)) {
        let done = applying.join(", ");
        return (!runs).then(|| {
            format!(
                "it lists {done}, already done, and starts no Job for the remaining nodes: {}",
                left.len()
            )
        });
    }
    applying.iter().filter(is_left).find_map(|node| {
        let its: Vec<&&Value> = jobs
            .iter()
            .filter(|job| is_of_plan(job, name, node))
            .collect();
        if its.is_empty() {
            return Some(format!("{node} is its next node, and has no Job"));
        }
        let paused = its.iter().find(|job| is_paused(job))?;
        Some(format!("its Job {} stays at parallelism 0", named(paused)))
    })
}

/// A Job that was created but not started.
fn is_paused(job: &Value) -> bool {
    let number = |pointer: &str| job.pointer(pointer).and_then(Value::as_i64);
    number("/spec/parallelism") == Some(0)
        && number("/status/active").unwrap_or_default() == 0
        && !has_ended(job)
}

fn last_change(plan: &Value, jobs: &[&Value]) -> Option<Timestamp> {
    let conditions = Condition::all(plan);
    let of_jobs = jobs.iter().flat_map(|job| {
        let made = time(job, "/metadata/creationTimestamp");
        let ended = Condition::all(job).map(|condition| condition.since());
        ended.chain([made]).collect::<Vec<_>>()
    });
    let all = conditions.map(|condition| condition.since()).chain(of_jobs);
    let all = all.chain([time(plan, "/metadata/creationTimestamp")]);
    all.flatten().max()
}

fn stuck(
    objects: &Objects,
    plan: &Value,
    (left, jobs): (&[&Value], &[&Value]),
    why: &str,
) -> Result<IncidentFinding, Unlisted> {
    let subject = format!("Plan {}", named(plan));
    let mut finding = IncidentFinding::new(Code::PlanStuck, &subject, why);
    // The text of the code contains the usual namespace of the controller.
    let namespace = text(plan, "/metadata/namespace");
    finding.advice = finding.advice.replace("cattle-system", namespace);
    let hash = text(plan, "/status/latestHash");
    let applying: Vec<&str> = items(plan, "/status/applying")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for (field, value) in [
        ("status.latestHash", hash.to_owned()),
        ("status.applying", applying.join(", ")),
    ] {
        let value = if value.is_empty() {
            "(none)".to_owned()
        } else {
            value
        };
        finding.evidence.push(Evidence::new(&subject, field, value));
    }
    let conditions = Condition::all(plan);
    let conditions = conditions.map(|condition| seen_condition(&subject, condition));
    finding.evidence.extend(conditions);
    let key = format!("plan.upgrade.cattle.io/{}", text(plan, "/metadata/name"));
    for node in left {
        let labels = texts(node, "/metadata/labels");
        let done = labels.get(&key).map_or("(none)", String::as_str);
        let subject = format!("Node {}", named(node));
        let seen = Evidence::new(subject, format!("label {key}"), done);
        finding.evidence.push(seen);
    }
    let pods = controller_pods(objects, plan)?;
    let paused = jobs.iter().copied().find(|job| is_paused(job));
    finding.cure = cures::restart_controller(plan, paused, &pods);
    for pod in pods {
        let subject = format!("Pod {}", named(pod));
        let phase = text(pod, "/status/phase");
        finding
            .evidence
            .push(Evidence::new(subject, "status.phase", phase));
    }
    finding.proof = vec![
        "system-upgrade-controller begins a node's Job within seconds; no Job of this Plan runs, and none is waited for".to_owned(),
    ];
    if Condition::of(plan, "Complete").is_some_and(|one| one.reason == "JobFailed") {
        let line = "its last Job failed and is gone: the controller begins another once it is restarted. First fix \
                    the cause that condition Complete names";
        finding.proof.push(line.to_owned());
        // It would fail again, and drain its node again.
        finding.by_person = true;
    }
    if named(plan) == AGENT_PLAN {
        finding.evidence.extend(nodes_without_a_machine(left));
    }
    Ok(finding)
}

/// The nodes that get their Machine only after the Plan has run there (harvester#9880).
fn nodes_without_a_machine<'n>(left: &'n [&Value]) -> impl Iterator<Item = Evidence> + 'n {
    let without = left.iter().filter(|node| text(node, MACHINE_OF).is_empty());
    without.map(|node| {
        let subject = format!("Node {}", named(node));
        let said = "(none); a node gets its Machine once this Plan has run there";
        Evidence::new(subject, "annotation cluster.x-k8s.io/machine", said)
    })
}

/// The pods of this Plan's system-upgrade-controller, which works only in its own namespace.
fn controller_pods<'o>(objects: &'o Objects, plan: &Value) -> Result<Vec<&'o Value>, Unlisted> {
    let namespace = text(plan, "/metadata/namespace");
    let is_controllers = |pod: &&Value| {
        text(pod, "/metadata/namespace") == namespace
            && label(pod, "upgrade.cattle.io~1controller") == "system-upgrade-controller"
    };
    let pods = objects.all(ObjectKind::POD)?.iter();
    Ok(pods.filter(is_controllers).collect())
}
