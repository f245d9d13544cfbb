//! A promotion that runs and does not end, during which Harvester promotes no other node.
//!
//! ```text
//!   Node "running" ──> its Job runs for 45 min      ──> what its script waits for (promote.sh has no time limit)
//!                 ├──> its Job has failed           ──> Harvester could not make a new one of this name
//!                 └──> there is no Job for 15 min   ──> Harvester could not make it, and does not try again
//! ```
//!
//! Read in harvester v1.4.0, v1.6.1, v1.8.2 and v1.9.0-rc6 `pkg/controller/master/node/promote_controller.go` (`promote` writes the
//! annotation and the cordon, then makes the Job; `selectPromoteNode` returns nothing while a Node says `running`; `OnJobRemove` makes it
//! `unknown`; the Job has a backoffLimit of 2 and no deadline), and in `deploy/charts/harvester/templates/configmap.yaml` (`promote.sh`).

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};
use windrow_model::text::shell_word;

use super::{is_platforms, quoted};
use crate::incidents::finding::IncidentFinding;
use crate::incidents::upgrade::rancher_waits;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, is_true, items, named, text};
use crate::upgrade::{label, time};

/// As long as the readiness of a node excuses failures with its promotion: images are pulled, and RKE2 is restarted as a server.
const LONG: SignedDuration = SignedDuration::from_mins(45);
/// Harvester makes the Job at once, and reads the end of a Job at once.
const AT_ONCE: SignedDuration = SignedDuration::from_mins(15);
const PROMOTES: &str = "harvesterhci.io~1promote-node";
const MACHINE: &str = "/metadata/annotations/cluster.x-k8s.io~1machine";
const ROLE: &str = "rke.cattle.io~1etcd-role";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The finding about the promotion of this Node, whose annotation says that it runs; `None` while it may still end.
/// `is_settled`: no condition of a Node changed for a while.
pub(super) fn find(
    objects: &Objects,
    node: &Value,
    is_settled: bool,
    now: Timestamp,
) -> Result<Option<IncidentFinding>, Unlisted> {
    let name = named(node);
    let jobs = objects.all(ObjectKind::JOB)?;
    let promotes = |job: &&Value| is_platforms(job) && label(job, PROMOTES) == name;
    let is_over = |since: Option<Timestamp>, patience| {
        since.is_some_and(|since| now.duration_since(since) > patience)
    };
    let Some(job) = jobs.iter().find(promotes) else {
        let is_old = cordoned(node).map_or(is_settled, |since| is_over(Some(since), AT_ONCE));
        return Ok((is_settled && is_old).then(|| without_job(node)));
    };
    if is_true(job, "Complete") {
        return Ok(None);
    }
    if let Some(failed) = Condition::of(job, "Failed").filter(Condition::is_true) {
        let is_old = is_over(failed.since(), AT_ONCE);
        return Ok(is_old.then(|| failed_before(node, job)));
    }
    let created = time(job, "/metadata/creationTimestamp");
    match is_over(created, LONG) {
        true => endless(objects, node, job).map(Some),
        false => Ok(None),
    }
}

/// What ends a promotion of which no Job runs, so that Harvester begins again.
pub(super) fn begin_again(node: &str) -> String {
    format!(
        "Then delete the Job, and run `kubectl annotate node {} harvesterhci.io/promote-status-`.",
        shell_word(node)
    )
}

fn finding(node: &Value, why: &str) -> IncidentFinding {
    let subject = format!("Node {}", named(node));
    let cordon = node.pointer("/spec/unschedulable").map(Value::to_string);
    let mut finding = IncidentFinding::new(Code::NotPromoted, "the cluster", why)
        .seen([Evidence::new(&subject, super::promotion::STATUS, "running")]);
    // The node stays cordoned, and Harvester accepts no upgrade meanwhile.
    finding.severity = Severity::Error;
    finding.seen(cordon.map(|cordon| Evidence::new(&subject, "spec.unschedulable", cordon)))
}

fn without_job(node: &Value) -> IncidentFinding {
    let name = named(node);
    let why = format!("the promotion of {name} runs, and there is no Job for it");
    let mut finding = finding(node, &why);
    finding.proof.push(
        "Harvester writes the annotation before it makes the Job, and makes none for a node that has the annotation"
            .to_owned(),
    );
    finding.advice = format!(
        "Search the log of Deployment harvester-system/harvester for promote-node-controller, and fix the cause (perhaps the image of \
         the Job). Then run `kubectl annotate node {} harvesterhci.io/promote-status-`.",
        shell_word(&name)
    );
    finding
}

fn failed_before(node: &Value, job: &Value) -> IncidentFinding {
    let why = format!(
        "the promotion of {} runs, and its Job {} has failed",
        named(node),
        named(job)
    );
    let failed = Condition::of(job, "Failed").map_or("", |failed| failed.message);
    let seen = Evidence::new(
        format!("Job {}", named(job)),
        "condition Failed",
        quoted(failed),
    );
    let mut finding = finding(node, &why).seen([seen]);
    finding.proof.push(
        "Harvester makes no new Job while there is one of this name, and promotes no other node"
            .to_owned(),
    );
    finding.advice = format!(
        "Read the log of Job {}, and fix the cause. {}",
        named(job),
        begin_again(&named(node))
    );
    finding
}

fn endless(objects: &Objects, node: &Value, job: &Value) -> Result<IncidentFinding, Unlisted> {
    let why = format!(
        "the promotion of {} has been running since {}",
        named(node),
        text(job, "/metadata/creationTimestamp")
    );
    let mut finding = finding(node, &why).seen([Evidence::new(
        format!("Job {}", named(job)),
        "metadata.creationTimestamp",
        text(job, "/metadata/creationTimestamp"),
    )]);
    let of_node = |pod: &&&Value| is_platforms(pod) && label(pod, PROMOTES) == named(node);
    let pending = objects.pending_pods()?;
    finding
        .evidence
        .extend(pending.iter().filter(of_node).map(|pod| waiting(pod)));
    let machine = text(node, MACHINE);
    if machine.is_empty() {
        let field = "annotation cluster.x-k8s.io/machine";
        let subject = format!("Node {}", named(node));
        finding.evidence.push(Evidence::new(subject, field, "none"));
    } else {
        finding.evidence.extend(machines_role(objects, machine)?);
    }
    finding.proof.push(
        "the script of the Job has no time limit, and Harvester promotes no other node until the Job ends".to_owned(),
    );
    finding.advice = format!(
        "Run `kubectl logs -n {} job/{}`: its last line shows the cause. Fix it, and the Job continues. Do not delete the \
         Job: Harvester then waits for you.",
        text(job, "/metadata/namespace"),
        shell_word(text(job, "/metadata/name"))
    );
    Ok(finding)
}

/// Has the script asked Rancher for the role? Then the conditions of Rancher's objects have the reason.
fn machines_role(objects: &Objects, machine: &str) -> Result<Vec<Evidence>, Unlisted> {
    objects.want(&[
        ObjectKind::CAPI_MACHINE,
        ObjectKind::RKE_CONTROL_PLANE,
        ObjectKind::PROVISIONING_CLUSTER,
    ])?;
    let Ok(Some(machine)) = objects.get(ObjectKind::CAPI_MACHINE, "fleet-local", machine) else {
        return Ok(Vec::new());
    };
    let role = label(machine, ROLE);
    let subject = format!("Machine {}", named(machine));
    let said = if role.is_empty() { "none" } else { role };
    let mut seen = vec![Evidence::new(
        subject,
        format!("label {}", ROLE.replace("~1", "/")),
        said,
    )];
    if !role.is_empty() {
        seen.extend(rancher_waits(objects).unwrap_or_default());
    }
    Ok(seen)
}

/// Why the pod of the Job does not run.
fn waiting(pod: &Value) -> Evidence {
    let subject = format!("Pod {}", named(pod));
    let containers = items(pod, "/status/containerStatuses").iter();
    let mut reasons = containers.map(|container| text(container, "/state/waiting/reason"));
    let reason = reasons.find(|reason| !reason.is_empty());
    match (Condition::of(pod, "PodScheduled"), reason) {
        (_, Some(reason)) => Evidence::new(subject, "container promote: waiting", reason),
        (Some(scheduled), None) if scheduled.is_false() => {
            let said = quoted(scheduled.message);
            Evidence::new(subject, "condition PodScheduled", said)
        }
        _ => Evidence::new(subject, "status.phase", "Pending"),
    }
}

/// Since when the Node is cordoned, which Harvester does at the start of a promotion.
fn cordoned(node: &Value) -> Option<Timestamp> {
    let mut taints = items(node, "/spec/taints").iter();
    let taint = taints.find(|taint| text(taint, "/key") == UNSCHEDULABLE)?;
    time(taint, "/timeAdded")
}
