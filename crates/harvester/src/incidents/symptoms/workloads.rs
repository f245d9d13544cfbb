//! Pods of the platform that do not work, by their Deployment, DaemonSet, StatefulSet or Job; and such objects without a working pod.
//!
//! ```text
//!   pod not Ready, or in a loop, for long ──> by owner ──> Error; Warning if its Deployment is available all the same
//!   owner that is judged not ready        ──> without such a pod: it does not get its pods
//! ```

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::readiness::{KindSeen, ObjectSeen, ObservedCluster, Verdict, judge};
use windrow_plan::rules::RuleSet;

use super::pods::{PodFault, fault, owner_of};
use super::{
    Clock, JOB_FAILED, JOB_RUNS, POD_NOT_READY, UPDATE_WAITS, WORKLOAD_NOT_AVAILABLE, known, nodes,
    subject, taints,
};
use crate::health::DRAIN_TAINT;
use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::pending::owner;
use crate::incidents::platform::{MOST, is_platforms, quoted};
use crate::objects::{
    Condition, ObjectKind, Objects, Unlisted, is_true, items, last_ends, named, newest_warning,
    restarts, text,
};
use crate::upgrade::{has_ended, label, time};

/// How the scheduler names a cordon and the taints of a drain (kubernetes
/// `pkg/scheduler/framework/plugins/{nodeunschedulable,tainttoleration}`).
const OF_CORDON: [&str; 3] = [
    "node(s) were unschedulable",
    "node.kubernetes.io/unschedulable",
    DRAIN_TAINT,
];
/// DaemonSets that do their work as long as one of their pods works: they serve one address for the whole cluster (harvester v1.8.2
/// `deploy/charts/harvester/dependency_charts/kube-vip`; rke2 charts `rke2-ingress-nginx`, `rke2-traefik`).
const ONE_IS_ENOUGH: [&str; 3] = [
    "DaemonSet harvester-system/kube-vip",
    "DaemonSet kube-system/rke2-ingress-nginx-controller",
    "DaemonSet kube-system/rke2-traefik",
];
const DELETE_ITS_PODS: &str = "With `updateStrategy: OnDelete`, its controller replaces a pod only after you delete it. Delete its old \
    pods one by one, each after the one before is Ready.";
/// Parts of the platform that you can do without.
const OPTIONAL: [&str; 2] = ["cattle-monitoring-system", "cattle-logging-system"];

pub(super) fn find_pods(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    objects.all(ObjectKind::POD)?;
    let platform = PlatformPods::read(objects, Clock::read(objects, now)?)?;
    let mut found = Vec::new();
    for (owner, faults) in &platform.by_owner {
        found.extend(platform.finding(objects, owner, faults)?);
    }
    Ok(found)
}

pub(super) fn find_deployments(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    without_a_pod(objects, ObjectKind::DEPLOYMENT, now, not_available)
}

pub(super) fn find_jobs(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let jobs = objects.all(ObjectKind::JOB)?;
    without_a_pod(objects, ObjectKind::JOB, now, |job, clock| {
        let is_followed = || jobs.iter().any(|other| follows(other, job, clock));
        job_not_done(job, clock).filter(|_| !is_followed())
    })
}

/// Is this a later Job of the same CronJob, and has it succeeded, or failed too?
fn follows(later: &Value, job: &Value, clock: Clock) -> bool {
    let cron_job = |job: &Value| {
        let mut owners = items(job, "/metadata/ownerReferences").iter();
        let owner = owners.find(|owner| text(owner, "/kind") == "CronJob")?;
        Some((
            text(job, "/metadata/namespace").to_owned(),
            text(owner, "/name").to_owned(),
        ))
    };
    let made = |job: &Value| time(job, "/metadata/creationTimestamp");
    let failed = Condition::of(later, "Failed").filter(Condition::is_true);
    cron_job(job).is_some()
        && cron_job(job) == cron_job(later)
        && made(later) > made(job)
        && (is_true(later, "Complete")
            || failed.is_some_and(|failed| clock.is_late(failed.since(), &JOB_FAILED)))
}

/// Objects of the platform of this kind that are at fault, although none of their pods is.
fn without_a_pod(
    objects: &Objects,
    kind: ObjectKind,
    now: Timestamp,
    symptom: impl Fn(&Value, Clock) -> Option<IncidentFinding>,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let all = objects.all(kind)?.iter().filter(|one| is_platforms(one));
    let clock = Clock::read(objects, now)?;
    let found: Vec<IncidentFinding> = all.filter_map(|one| symptom(one, clock)).collect();
    if found.is_empty() {
        return Ok(found);
    }
    let platform = PlatformPods::read(objects, clock)?;
    let is_new = |finding: &IncidentFinding| !platform.by_owner.contains_key(&finding.subject);
    Ok(found.into_iter().filter(is_new).collect())
}

pub(super) fn find_daemon_sets(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    find_of_kind(objects, ObjectKind::DAEMON_SET, now)
}

pub(super) fn find_stateful_sets(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    find_of_kind(objects, ObjectKind::STATEFUL_SET, now)
}

/// Objects of this kind that are not ready, although none of their pods is at fault. They have no times, so the newest of their pods
/// counts.
fn find_of_kind(
    objects: &Objects,
    kind: ObjectKind,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let all = objects.all(kind)?.iter();
    let unready: Vec<_> = all
        .filter(|one| is_platforms(one))
        .filter_map(|one| {
            let waits = waits_for_you(one).map(|why| (one, why, SetFault::WaitsForYou));
            waits.or_else(|| Some((one, unready(one, kind)?, SetFault::NotReady)))
        })
        .collect();
    if unready.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let pods = objects.all(ObjectKind::POD)?;
    let platform = PlatformPods::read(objects, clock)?;
    let mut found = Vec::new();
    for (object, why, fault) in unready {
        let about = subject(object, kind.kind);
        let own = pods.iter().filter(|pod| owner(pod) == about);
        let changes = own.flat_map(|pod| {
            let conditions = Condition::all(pod).filter_map(|condition| condition.since());
            conditions.chain(time(pod, "/metadata/creationTimestamp"))
        });
        let newest = changes
            .chain(time(object, "/metadata/creationTimestamp"))
            .max();
        let is_covered =
            platform.by_owner.contains_key(&about) || platform.on_bad_nodes.contains(&about);
        let patience = match fault {
            SetFault::NotReady => &WORKLOAD_NOT_AVAILABLE,
            SetFault::WaitsForYou => &UPDATE_WAITS,
        };
        if is_covered || !clock.is_late(newest, patience) {
            continue;
        }
        let mut finding = IncidentFinding::new(Code::WorkloadNotAvailable, &about, &why)
            .seen([Evidence::new(&about, "status", why.clone())]);
        finding.severity = Severity::Warning;
        let has_none = number(object, "/status/desiredNumberScheduled") > 0
            && number(object, "/status/numberAvailable") == 0;
        if fault == SetFault::WaitsForYou {
            DELETE_ITS_PODS.clone_into(&mut finding.advice);
        } else if kind == ObjectKind::DAEMON_SET && has_none {
            finding.severity = severity_in(object, Severity::Error);
        }
        found.push(finding);
    }
    Ok(found)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetFault {
    NotReady,
    /// Its update waits until you delete its pods.
    WaitsForYou,
}

/// A DaemonSet or StatefulSet whose pods are all Ready, and of which nothing replaces those of an earlier revision.
fn waits_for_you(object: &Value) -> Option<String> {
    let [wanted, ready, updated] = match text(object, "/kind") {
        "DaemonSet" => [
            "/status/desiredNumberScheduled",
            "/status/numberReady",
            "/status/updatedNumberScheduled",
        ],
        _ => [
            "/status/replicas",
            "/status/readyReplicas",
            "/status/updatedReplicas",
        ],
    }
    .map(|pointer| number(object, pointer));
    let waits = text(object, "/spec/updateStrategy/type") == "OnDelete"
        && updated < wanted
        && ready >= wanted;
    let old = wanted.saturating_sub(updated);
    waits.then(|| format!("its update waits until you delete its old pods: {old} of {wanted}"))
}

fn number(object: &Value, pointer: &str) -> u64 {
    let number = object.pointer(pointer).and_then(Value::as_u64);
    number.unwrap_or_default()
}

/// The verdict of the one judge of such objects, if they are not ready.
fn unready(object: &Value, kind: ObjectKind) -> Option<String> {
    let (namespace, name) = ("/metadata/namespace", "/metadata/name");
    let id = ObjectRef::namespaced(
        kind.group,
        kind.kind,
        text(object, namespace),
        text(object, name),
    );
    let judged = judge(object, &id, &RuleSet::default(), &Nothing);
    matches!(judged.verdict, Verdict::Progressing | Verdict::Failed)
        .then(|| quoted(&judged.message))
}

/// The verdict on a workload depends on no other object.
struct Nothing;

impl ObservedCluster for Nothing {
    fn object(&self, _: &ObjectRef) -> &ObjectSeen {
        &ObjectSeen::NotAsked
    }

    fn kind(&self, _: &GroupKind) -> &KindSeen {
        &KindSeen::NotAsked
    }
}

fn not_available(deployment: &Value, clock: Clock) -> Option<IncidentFinding> {
    let why = unready(deployment, ObjectKind::DEPLOYMENT)?;
    let available = Condition::of(deployment, "Available")?;
    let progressing = Condition::of(deployment, "Progressing").filter(Condition::is_false);
    let severity = match available.is_true() {
        false => Severity::Error,
        true => Severity::Warning,
    };
    let condition = match available.is_true() {
        false => available,
        true => progressing?,
    };
    if !clock.is_late(condition.since(), &WORKLOAD_NOT_AVAILABLE) {
        return None;
    }
    let about = subject(deployment, "Deployment");
    let seen = super::condition_seen(&about, &condition, condition.since());
    let mut finding = IncidentFinding::new(Code::WorkloadNotAvailable, about, &why).seen([seen]);
    finding.severity = severity_in(deployment, severity);
    Some(finding)
}

/// A part that you can do without is never an error.
fn severity_in(object: &Value, severity: Severity) -> Severity {
    match OPTIONAL.contains(&text(object, "/metadata/namespace")) {
        true => severity.min(Severity::Warning),
        false => severity,
    }
}

fn job_not_done(job: &Value, clock: Clock) -> Option<IncidentFinding> {
    let failed = Condition::of(job, "Failed").filter(Condition::is_true);
    if failed.is_some() && !label(job, "harvesterhci.io~1upgrade").is_empty() {
        // The Upgrade has failed with it, or was started again.
        return None;
    }
    let began = time(job, "/status/startTime");
    let (why, field) = if let Some(failed) = failed {
        if !clock.is_late(failed.since(), &JOB_FAILED) {
            return None;
        }
        (
            format!("it failed: {}", quoted(&failed.words())),
            "condition Failed",
        )
    } else {
        let is_suspended = job.pointer("/spec/suspend") == Some(&Value::Bool(true));
        if has_ended(job) || is_suspended || !clock.is_late(began, &JOB_RUNS) {
            return None;
        }
        let began = text(job, "/status/startTime");
        (
            format!("it has been running since {began}"),
            "status.startTime",
        )
    };
    let about = subject(job, "Job");
    let seen = Evidence::new(&about, field, why.clone());
    Some(IncidentFinding::new(Code::JobNotDone, about, &why).seen([seen]))
}

/// The pods of the platform that have not worked for long.
struct PlatformPods<'o> {
    by_owner: BTreeMap<String, Vec<PodFault<'o>>>,
    /// The owners of pods on nodes that are a symptom themselves.
    on_bad_nodes: BTreeSet<String>,
    bad_nodes: BTreeMap<String, IncidentFinding>,
    /// The nodes that are out of service on purpose.
    set_aside: BTreeSet<String>,
    /// The owners with a pod that is Ready.
    working: BTreeSet<String>,
    warnings: Vec<&'o Value>,
    nodes: &'o [Value],
}

impl<'o> PlatformPods<'o> {
    fn read(objects: &'o Objects, clock: Clock) -> Result<Self, Unlisted> {
        let pods = known(objects.all(ObjectKind::POD))?.unwrap_or_default();
        let all = known(objects.all(ObjectKind::NODE))?.unwrap_or_default();
        let bad_nodes: BTreeMap<String, IncidentFinding> = all
            .iter()
            .filter_map(|node| Some((named(node), nodes::fault_of(node, clock)?)))
            .collect();
        let ready_since: BTreeMap<String, Timestamp> = all
            .iter()
            .filter_map(|node| {
                let ready = Condition::of(node, "Ready").filter(Condition::is_true)?;
                Some((named(node), ready.since()?))
            })
            .collect();
        let mut found = Self {
            by_owner: BTreeMap::new(),
            on_bad_nodes: BTreeSet::new(),
            bad_nodes,
            set_aside: nodes::set_aside(objects)?,
            working: BTreeSet::new(),
            warnings: Vec::new(),
            nodes: all,
        };
        for pod in pods.iter().filter(|pod| is_platforms(pod)) {
            let node = text(pod, "/spec/nodeName");
            if found.bad_nodes.contains_key(node) {
                found.on_bad_nodes.insert(owner_of(pod));
            }
            if is_true(pod, "Ready") {
                found.working.insert(owner_of(pod));
            }
            let Some(mut fault) = fault(pod) else {
                continue;
            };
            // A pod does not fail for longer than its node works again.
            if let Some(since) = ready_since.get(node) {
                fault.since = fault.since.max(*since);
            }
            if clock.is_late(Some(fault.since), &POD_NOT_READY) {
                found.by_owner.entry(owner_of(pod)).or_default().push(fault);
            }
        }
        if !found.by_owner.is_empty() {
            objects.want(&[ObjectKind::POD_WARNING])?;
            // They only add words: without them, the symptom is the same.
            found.warnings = objects.pod_warnings().unwrap_or_default();
        }
        Ok(found)
    }

    fn finding(
        &self,
        objects: &Objects,
        owner: &str,
        faults: &[PodFault<'_>],
    ) -> Result<Option<IncidentFinding>, Unlisted> {
        let deployment = match owner
            .strip_prefix("Deployment ")
            .and_then(|name| name.split_once('/'))
        {
            Some((namespace, name)) => {
                known(objects.get(ObjectKind::DEPLOYMENT, namespace, name))?.flatten()
            }
            None => None,
        };
        // With one replica and `maxUnavailable: 1`, as on a single node, the condition is True without any pod (kubernetes
        // `pkg/controller/deployment/sync.go`).
        let has_pods = |one: &Value| {
            number(one, "/status/availableReplicas") > 0
                || one.pointer("/status/replicas").is_none()
        };
        let is_available = match deployment {
            Some(one) => is_true(one, "Available") && has_pods(one),
            None => ONE_IS_ENOUGH.contains(&owner) && self.working.contains(owner),
        };
        // More replicas than nodes are normal on a small cluster. The detector of pending pods informs about it. An update that does
        // not finish is not: it still has pods of the earlier revision.
        let has_old_pods =
            |one: &Value| number(one, "/status/replicas") > number(one, "/status/updatedReplicas");
        if is_available
            && faults.iter().all(|fault| fault.is_unplaced)
            && !deployment.is_some_and(has_old_pods)
        {
            return Ok(None);
        }
        let is_job = owner.starts_with("Job ");
        let starts = faults.iter().any(|fault| restarts(fault.pod) > 0);
        let is_on_purpose = faults.iter().all(|fault| self.is_set_aside(fault));
        let severity = match is_available || is_job && starts || is_on_purpose {
            true => Severity::Warning,
            false => Severity::Error,
        };
        let first = &faults[0];
        let judged = deployment.and_then(|one| unready(one, ObjectKind::DEPLOYMENT));
        let since = faults.iter().map(|fault| fault.since).min();
        let since = since.map_or(String::new(), |since| format!(", since {since}"));
        let pods = match faults.len() {
            1 if owner == subject(first.pod, "Pod") => format!("{}{since}", first.why),
            1 => format!("{} is {}{since}", named(first.pod), first.why),
            many => format!("{many} of its pods do not work{since}: {}", first.why),
        };
        let why = judged.map_or(pods.clone(), |judged| format!("{judged}; {pods}"));
        let code = match is_job {
            true => Code::JobNotDone,
            false => Code::WorkloadNotAvailable,
        };
        let mut finding = IncidentFinding::new(code, owner, &why);
        for fault in faults.iter().take(MOST) {
            finding.evidence.extend(self.evidence(fault));
        }
        let mut nodes = faults.iter().map(|fault| self.bad_node_of(objects, fault));
        if let Some(bad) = nodes.next().flatten()
            && nodes.all(|other| other.is_some_and(|other| other.subject == bad.subject))
        {
            finding.evidence.extend(bad.evidence.iter().cloned());
        }
        finding.severity = severity_in(first.pod, severity);
        Ok(Some(finding))
    }

    /// Is its node out of service on purpose, or does it wait for such a node?
    fn is_set_aside(&self, fault: &PodFault<'_>) -> bool {
        let scheduled = Condition::of(fault.pod, "PodScheduled").filter(Condition::is_false);
        match scheduled {
            Some(scheduled) => {
                !self.set_aside.is_empty()
                    && OF_CORDON
                        .iter()
                        .any(|word| scheduled.message.contains(word))
            }
            None => self.set_aside.contains(text(fault.pod, "/spec/nodeName")),
        }
    }

    /// The node whose state is the reason: that of the pod, or one with a taint that the scheduler names.
    fn bad_node_of(&self, objects: &Objects, fault: &PodFault<'_>) -> Option<&IncidentFinding> {
        let node = text(fault.pod, "/spec/nodeName");
        if !node.is_empty() {
            return self.bad_nodes.get(node);
        }
        let scheduled = Condition::of(fault.pod, "PodScheduled")?;
        let names_taint = |node: &&Value| {
            let mut taints = items(node, "/spec/taints").iter();
            taints.any(|taint| {
                let key = text(taint, "/key");
                key.starts_with("node.kubernetes.io/") && scheduled.message.contains(key)
            })
        };
        let nodes = objects.all(ObjectKind::NODE).unwrap_or_default().iter();
        let mut named_by_it = nodes.filter(names_taint).map(named);
        named_by_it.find_map(|node| self.bad_nodes.get(&node))
    }

    fn evidence(&self, fault: &PodFault<'_>) -> Vec<Evidence> {
        let about = subject(fault.pod, "Pod");
        let on = match text(fault.pod, "/spec/nodeName") {
            "" => String::new(),
            node => format!(" on {node}"),
        };
        let state = format!("{}{on} since {}", fault.why, fault.since);
        let ends: Vec<String> = last_ends(fault.pod).collect();
        let mut seen = vec![Evidence::new(&about, "status", state)];
        let unplaced = fault.is_unplaced.then_some(fault.pod);
        seen.extend(
            unplaced
                .iter()
                .flat_map(|pod| taints::seen(pod, self.nodes)),
        );
        if !ends.is_empty() {
            seen.push(Evidence::new(&about, "lastState", ends.join(", ")));
        }
        if let Some(newest) = newest_warning(fault.pod, &self.warnings) {
            let words = format!("{}: {}", text(newest, "/reason"), text(newest, "/message"));
            seen.push(Evidence::new(&about, "newest warning", quoted(&words)));
        }
        seen
    }
}
