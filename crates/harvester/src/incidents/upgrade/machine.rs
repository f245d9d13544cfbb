//! Rancher upgrades nodes by their Machines: it never upgrades a node without a Machine, and it upgrades none while a Machine is
//! not Running (harvester#8236, harvester#9388, harvester#9841). This module also finds an upgrade whose nodes all wait, although
//! none of them is in progress.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::plan::{AGENT_PLAN, nodes_left};
use super::seen_condition;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, items, named, text};
use crate::upgrade::{HarvesterUpgrade, NodeStage, is_managed, label, minutes_since, time};

/// By then a joining node has its Machine, and Rancher has begun the next node.
const PATIENCE: i64 = 30;
/// Rancher's namespace for the cluster in which it runs.
const LOCAL: &str = "fleet-local";
pub(super) const MACHINE_OF: &str = "/metadata/annotations/cluster.x-k8s.io~1machine";

/// The advice for a node that is past the drain that Harvester waits for.
const ANSWERED: &str = "Look at the annotations pre-hook and pre-drain of Secret CUSTOM-machine-plan in fleet-local: an answer of \
    an earlier upgrade makes Rancher go on without Harvester. Make a support bundle before you change it.";

/// Nodes and Machines that do not match, also before an upgrade.
pub(super) fn find_missing(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let machines = objects.all(ObjectKind::CAPI_MACHINE)?.iter();
    let machines: Vec<&Value> = machines
        .filter(|machine| text(machine, "/metadata/namespace") == LOCAL)
        .collect();
    if machines.is_empty() {
        return Ok(Vec::new());
    }
    let is_old =
        |made: Option<Timestamp>| made.is_some_and(|at| minutes_since(at, now) >= PATIENCE);
    let not_running = machines
        .iter()
        .filter(|machine| is_old(last_phase(machine)))
        .filter_map(|machine| machine_not_running(machine));
    let mut findings: Vec<IncidentFinding> = not_running.collect();
    let nodes = objects.all(ObjectKind::NODE)?;
    let old = nodes
        .iter()
        .filter(|node| is_managed(node) && is_old(time(node, "/metadata/creationTimestamp")));
    for node in old {
        if let Some(finding) = node_without_machine(node, &machines)
            && !waits_for_its_agent(objects, node)?
        {
            findings.push(finding);
        }
    }
    Ok(findings)
}

/// Whether the Plan that gives the node its agent, and thereby its Machine, has not run there yet. A Plan that does not advance
/// has its own finding (harvester#9880).
fn waits_for_its_agent(objects: &Objects, node: &Value) -> Result<bool, Unlisted> {
    let mut plans = objects.all(ObjectKind::PLAN)?.iter();
    let plan = plans.find(|plan| named(plan) == AGENT_PLAN);
    let is_left = |plan| !nodes_left(plan, std::slice::from_ref(node)).is_empty();
    Ok(text(node, MACHINE_OF).is_empty() && plan.is_some_and(is_left))
}

fn last_phase(machine: &Value) -> Option<Timestamp> {
    time(machine, "/status/lastUpdated").max(time(machine, "/metadata/creationTimestamp"))
}

fn machine_not_running(machine: &Value) -> Option<IncidentFinding> {
    let (phase, node) = (
        text(machine, "/status/phase"),
        text(machine, "/status/nodeRef/name"),
    );
    let why = match (phase, node) {
        ("Running", "") => "it has no node (status.nodeRef)".to_owned(),
        ("Running", _) => return None,
        (phase, _) => format!("its phase is `{phase}`, not Running"),
    };
    let subject = format!("Machine {}", named(machine));
    let failing = Condition::all(machine);
    let failing = failing.filter(|condition| !condition.is_true());
    let seen = failing.map(|condition| seen_condition(&subject, condition));
    let seen: Vec<Evidence> = [
        Evidence::new(&subject, "status.phase", phase),
        Evidence::new(&subject, "status.nodeRef.name", node),
    ]
    .into_iter()
    .chain(seen)
    .collect();
    let mut finding = IncidentFinding::new(Code::MachineMissing, &subject, &why).seen(seen);
    let deleted = text(machine, "/metadata/deletionTimestamp");
    if !deleted.is_empty() {
        describe_deletion(&mut finding, machine, deleted);
    }
    Some(finding)
}

/// The Machine of a removed server: Rancher removes its etcd member before the finalizer, and promotes no other node until then
/// (harvester#2191, harvester#1763).
fn describe_deletion(finding: &mut IncidentFinding, machine: &Value, deleted: &str) {
    let subject = finding.subject.clone();
    let field = "metadata.deletionTimestamp";
    finding
        .evidence
        .push(Evidence::new(&subject, field, deleted));
    let finalizers = items(machine, "/metadata/finalizers").iter();
    let finalizers: Vec<&str> = finalizers.filter_map(Value::as_str).collect();
    if !finalizers.is_empty() {
        let seen = Evidence::new(&subject, "metadata.finalizers", finalizers.join(", "));
        finding.evidence.push(seen);
    }
    finding.proof.push(
        "Rancher's and Cluster API's controllers remove the finalizers after their work, and a promotion waits for that".to_owned(),
    );
    "Search Rancher's log (`kubectl -n cattle-system logs deployment/rancher`) for the name of this Machine. Remove a finalizer only if the      node is gone for good and etcd has no member for it any more."
        .clone_into(&mut finding.advice);
}

fn node_without_machine(node: &Value, machines: &[&Value]) -> Option<IncidentFinding> {
    let (name, wanted) = (text(node, "/metadata/name"), text(node, MACHINE_OF));
    let machine = machines
        .iter()
        .find(|machine| text(machine, "/metadata/name") == wanted);
    let why = match machine.map(|machine| text(machine, "/status/nodeRef/name")) {
        None if wanted.is_empty() => "it names no Machine".to_owned(),
        None => format!("its Machine {LOCAL}/{wanted} does not exist"),
        // The finding about the Machine covers this.
        Some("") => return None,
        Some(other) if other != name => format!("its Machine {LOCAL}/{wanted} is that of {other}"),
        Some(_) => return None,
    };
    let subject = format!("Node {name}");
    let seen = Evidence::new(&subject, "annotation cluster.x-k8s.io/machine", wanted);
    Some(IncidentFinding::new(Code::MachineMissing, subject, &why).seen([seen]))
}

pub(super) fn find_not_begun(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let Some(upgrade) = HarvesterUpgrade::under_way(objects)? else {
        return Ok(Vec::new());
    };
    if upgrade.state() != "UpgradingNodes" || !all_wait(&upgrade) {
        return Ok(Vec::new());
    }
    let nodes = objects.all(ObjectKind::NODE)?;
    let jobs = objects.all(ObjectKind::JOB)?.iter();
    let jobs: Vec<&Value> = jobs.filter(|job| upgrade.owns(job)).collect();
    let quiet = last_move(&upgrade, nodes, &jobs);
    let Some(quiet) = quiet.filter(|quiet| minutes_since(*quiet, now) >= PATIENCE) else {
        return Ok(Vec::new());
    };
    let mut causes = rancher_waits(objects)?;
    causes.extend(jobs_that_hold(&jobs));
    causes.extend(nodes_not_acknowledged(&upgrade, nodes));
    let drained = drained_already(objects, &upgrade, nodes)?;
    let first = causes.first().map(ToString::to_string);
    let why = match (first, drained.first()) {
        (Some(first), None) => first,
        (None, None) => format!("Rancher has begun none since {quiet}"),
        (_, Some((node, _))) => {
            format!("{node} is past its drain already, for which Harvester waits to be asked")
        }
    };
    let is_drained = !drained.is_empty();
    causes.extend(drained.into_iter().map(|(_, seen)| seen));
    let states = upgrade.nodes.iter().map(|node| {
        let field = format!("status.nodeStatuses[{}].state", node.name);
        Evidence::new(upgrade.subject(), field, node.state)
    });
    let mut finding = IncidentFinding::new(Code::NodeNotUpgraded, upgrade.subject(), &why);
    if is_drained {
        finding.advice = ANSWERED.to_owned();
    }
    Ok(vec![finding.seen(causes).seen(states)])
}

/// Nodes that wait for their turn although they are past it, and the evidence: their drain hook is already answered, or their
/// RKE2 is the new one. Harvester creates the Job of a drain only while Rancher's question and its own answer differ (Harvester
/// `pkg/controller/master/upgrade/secret_controller.go` isUnderPreDrain, v1.9.0-rc6; harvester#7514, harvester#8224).
fn drained_already<'n>(
    objects: &Objects,
    upgrade: &HarvesterUpgrade<'_>,
    nodes: &'n [Value],
) -> Result<Vec<(&'n str, Evidence)>, Unlisted> {
    let waits = |node: &&Value| {
        let mut waits = upgrade.in_stage(NodeStage::ImagesPreloaded);
        waits.any(|one| one.name == text(node, "/metadata/name"))
    };
    // This needs only the names of annotations. If they cannot be listed, the finding is reported without them.
    let plans = match objects.all(ObjectKind::MACHINE_PLAN) {
        Err(unlisted) if unlisted.wanted => return Err(unlisted),
        plans => plans.unwrap_or_default(),
    };
    let mut seen = Vec::new();
    for node in nodes.iter().filter(waits) {
        let name = text(node, "/metadata/name");
        let of_node =
            |plan: &&Value| label(plan, "rke.cattle.io~1machine-name") == text(node, MACHINE_OF);
        let answer = "/metadata/annotations/harvesterhci.io~1pre-hook";
        if let Some(plan) = plans.iter().find(of_node).filter(|plan| {
            let asked = text(plan, "/metadata/annotations/rke.cattle.io~1pre-drain");
            !text(plan, answer).is_empty() && (asked.is_empty() || asked == text(plan, answer))
        }) {
            let subject = format!("Secret {}", named(plan));
            let said = format!("answered, and {name} is Images preloaded");
            let field = "annotation harvesterhci.io/pre-hook";
            seen.push((name, Evidence::new(subject, field, said)));
        }
        let (rke2, image) = (
            text(node, "/status/nodeInfo/kubeletVersion"),
            text(node, "/status/nodeInfo/osImage"),
        );
        if upgrade.new_rke2(nodes) == Some(rke2) {
            let said = format!("{rke2}, the new one; its system image is {image}");
            let field = "status.nodeInfo.kubeletVersion";
            seen.push((name, Evidence::new(format!("Node {name}"), field, said)));
        }
    }
    Ok(seen)
}

/// Whether no node makes progress, at least one waits for its turn, and the user holds none.
fn all_wait(upgrade: &HarvesterUpgrade<'_>) -> bool {
    let rests = |stage: NodeStage| stage.rests() && stage != NodeStage::Paused;
    let mut nodes = upgrade.nodes.iter();
    nodes.all(|node| rests(node.stage) && !node.runs_alone)
        && upgrade
            .in_stage(NodeStage::ImagesPreloaded)
            .next()
            .is_some()
}

/// The last progress: a Job, the upgrade itself, or a node that came back.
fn last_move(
    upgrade: &HarvesterUpgrade<'_>,
    nodes: &[Value],
    jobs: &[&Value],
) -> Option<Timestamp> {
    let ready = nodes.iter().filter_map(|node| Condition::of(node, "Ready"));
    let of_jobs = ["/metadata/creationTimestamp", "/status/completionTime"]
        .into_iter()
        .flat_map(|pointer| jobs.iter().map(move |job| time(job, pointer)));
    let moved = ready.map(|condition| condition.since()).chain(of_jobs);
    moved.chain([upgrade.since()]).flatten().max()
}

pub(in super::super) fn rancher_waits(objects: &Objects) -> Result<Vec<Evidence>, Unlisted> {
    let waits = rancher_conditions(objects)?.into_iter();
    Ok(waits
        .map(|(subject, one)| seen_condition(&subject, one))
        .collect())
}

/// The conditions with Rancher's messages about waiting, and their objects.
pub(super) fn rancher_conditions(
    objects: &Objects,
) -> Result<Vec<(String, Condition<'_>)>, Unlisted> {
    let mut seen = Vec::new();
    for kind in [
        ObjectKind::RKE_CONTROL_PLANE,
        ObjectKind::PROVISIONING_CLUSTER,
    ] {
        let Some(object) = objects.get(kind, LOCAL, "local")? else {
            continue;
        };
        let subject = format!("{} {}", kind.kind, named(object));
        let waits = Condition::all(object).filter(|one| !one.is_true() && !one.message.is_empty());
        seen.extend(waits.map(|one| (subject.clone(), one)));
    }
    Ok(seen)
}

/// Harvester starts no node while a Job of the upgrade has not succeeded (`checkPendingHookJobs`).
pub(super) fn jobs_that_hold(jobs: &[&Value]) -> Vec<Evidence> {
    let holds = jobs.iter().filter(|job| {
        let succeeded = job.pointer("/status/succeeded").and_then(Value::as_i64);
        text(job, "/metadata/namespace") == "harvester-system" && succeeded.unwrap_or_default() == 0
    });
    holds
        .map(|job| Evidence::new(format!("Job {}", named(job)), "status.succeeded", "0"))
        .collect()
}

/// Finished nodes whose last annotation Harvester never removed, so that Rancher waits for the answer (Harvester's documentation
/// of upgrades from v1.8 to v1.9).
fn nodes_not_acknowledged(upgrade: &HarvesterUpgrade<'_>, nodes: &[Value]) -> Vec<Evidence> {
    let done = |node: &&Value| {
        let mut done = upgrade.in_stage(NodeStage::Succeeded);
        done.any(|one| one.name == text(node, "/metadata/name"))
    };
    let pending = |node: &Value| {
        let image = text(
            node,
            "/metadata/annotations/harvesterhci.io~1pendingOSImage",
        );
        let subject = format!("Node {}", named(node));
        let field = "annotation harvesterhci.io/pendingOSImage";
        (!image.is_empty()).then(|| Evidence::new(subject, field, image))
    };
    nodes.iter().filter(done).filter_map(pending).collect()
}
