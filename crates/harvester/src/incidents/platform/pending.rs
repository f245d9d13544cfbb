//! Platform pods that fit on no node, if neither a drain nor an upgrade is the cause.
//!
//! ```text
//!   Unschedulable for 10 min ──> an upgrade runs, or only a cordon or a fault of a node prevents it ──> wait
//!                            └─> fits on no node: the reason per node ──> Info while its Deployment is available
//! ```

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};

use super::{MOST, is_platforms, is_upgrading, quoted};
use crate::incidents::finding::IncidentFinding;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, is_true, named, text};
use crate::schedule::{Placement, SCHEDULER_KINDS, SchedulerPod, SchedulerView};
use crate::upgrade::label;

/// The scheduler retries at every change of the cluster, and after at most five minutes.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

pub(in crate::incidents) fn find(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let pending = objects.pending_pods()?;
    let is_waiting = |pod: &&Value| is_platforms(pod) && unscheduled(pod, now).is_some();
    let pending: Vec<&Value> = pending.into_iter().filter(is_waiting).collect();
    if pending.is_empty() || is_upgrading(objects)? {
        return Ok(Vec::new());
    }
    objects.want(SCHEDULER_KINDS)?;
    let view = SchedulerView::read(objects).map_err(|why| Unlisted {
        kind: ObjectKind::POD.group_kind(),
        why,
        wanted: false,
    })?;
    let mut by_owner: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for pod in pending {
        if !is_for_a_node_that_is_down(objects, pod)? && !waits_for_a_node(&view, pod) {
            by_owner.entry(owner(pod)).or_default().push(pod);
        }
    }
    let mut findings = Vec::new();
    for (owner, pods) in by_owner {
        let mut finding = unplaced(&owner, &pods, &view, now);
        finding.severity = severity(objects, &owner, &mut finding.evidence)?;
        findings.push(finding);
    }
    Ok(findings)
}

/// The scheduler's condition of a pod that has been unschedulable for this long.
fn unscheduled(pod: &Value, now: Timestamp) -> Option<Condition<'_>> {
    let scheduled = Condition::of(pod, "PodScheduled")?;
    let since = scheduled.time("lastTransitionTime")?;
    let is_late = now.duration_since(since) > PATIENCE;
    (scheduled.reason == "Unschedulable" && is_late).then_some(scheduled)
}

/// A pod of a DaemonSet can only run on its node.
fn is_for_a_node_that_is_down(objects: &Objects, pod: &Value) -> Result<bool, Unlisted> {
    let field = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                 /nodeSelectorTerms/0/matchFields/0/values/0";
    if text(pod, "/metadata/ownerReferences/0/kind") != "DaemonSet" {
        return Ok(false);
    }
    let node = objects.get(ObjectKind::NODE, "", text(pod, field))?;
    Ok(node.is_none_or(|node| !is_true(node, "Ready")))
}

/// Whether a node would accept the pod without a cordon, a drain or a fault of the node, or might accept it as far as Windrow can tell. A
/// full disk is reported as such.
fn waits_for_a_node(view: &SchedulerView, pod: &Value) -> bool {
    let mut later = view.clone();
    for node in &mut later.nodes {
        node.uncordon();
        node.forget_passing_taints();
    }
    later.nodes != view.nodes && !matches!(placement(&later, pod), Some(Placement::Nowhere(_)))
}

fn placement(view: &SchedulerView, pod: &Value) -> Option<Placement> {
    let (namespace, name) = ("/metadata/namespace", "/metadata/name");
    let is_it =
        |one: &&SchedulerPod| one.namespace == text(pod, namespace) && one.name == text(pod, name);
    let pod = view.pods.iter().find(is_it)?;
    Some(view.find(pod, None))
}

/// The owner of the pod. A ReplicaSet of a Deployment has the name of the Deployment and the hash in the labels of its pods.
pub(in crate::incidents) fn owner(pod: &Value) -> String {
    let namespace = text(pod, "/metadata/namespace");
    let kind = text(pod, "/metadata/ownerReferences/0/kind");
    let name = text(pod, "/metadata/ownerReferences/0/name");
    let hash = format!("-{}", label(pod, "pod-template-hash"));
    match (kind, name.strip_suffix(&hash)) {
        ("ReplicaSet", Some(deployment)) => format!("Deployment {namespace}/{deployment}"),
        ("", _) => format!("Pod {}", named(pod)),
        (kind, _) => format!("{kind} {namespace}/{name}"),
    }
}

/// For example three replicas on two nodes that must not share a node: there is no problem while the other replicas work.
fn severity(
    objects: &Objects,
    owner: &str,
    evidence: &mut Vec<Evidence>,
) -> Result<Severity, Unlisted> {
    let deployment = owner.strip_prefix("Deployment ");
    let Some((namespace, name)) = deployment.and_then(|name| name.split_once('/')) else {
        return Ok(Severity::Warning);
    };
    let deployment = objects.get(ObjectKind::DEPLOYMENT, namespace, name)?;
    let Some(available) = deployment.and_then(|one| Condition::of(one, "Available")) else {
        return Ok(Severity::Warning);
    };
    let status = available.status;
    evidence.push(Evidence::new(owner, "condition Available", status));
    Ok(match status {
        "True" => Severity::Info,
        "False" => Severity::Error,
        _ => Severity::Warning,
    })
}

fn unplaced(owner: &str, pods: &[&Value], view: &SchedulerView, now: Timestamp) -> IncidentFinding {
    let first = pods[0];
    let why = match pods.len() {
        1 => format!("{} waits", text(first, "/metadata/name")),
        many => format!("{many} of its pods wait"),
    };
    let mut finding = IncidentFinding::new(Code::PlatformPodPending, owner, &why);
    for pod in pods.iter().take(MOST) {
        let subject = format!("Pod {}", named(pod));
        let said = unscheduled(pod, now).map_or("", |scheduled| scheduled.message);
        let evidence = Evidence::new(subject, "condition PodScheduled", quoted(said));
        finding.evidence.push(evidence);
    }
    let why_not = match placement(view, first) {
        Some(Placement::Nowhere(refusals)) => {
            let all = refusals.len();
            let lines = refusals.into_iter().take(MOST);
            let lines = lines.map(|one| format!("{} does not take it: {}", one.node, one.why));
            finding.proof.extend(lines);
            (all > MOST).then(|| format!("nor do {} more nodes", all - MOST))
        }
        Some(Placement::Unknown(why)) => {
            Some(format!("Windrow cannot tell why no node takes it: {why}"))
        }
        // The cause may be a limit that Windrow does not model, or be gone.
        _ => Some("Windrow cannot tell why no node takes it".to_owned()),
    };
    finding.proof.extend(why_not);
    finding
}
