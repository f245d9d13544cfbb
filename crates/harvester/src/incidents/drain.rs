//! C: an upgrade whose node stays `Pre-drained`, because Rancher's drain can never finish (harvester#7647).

mod kubevirt;

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::reasons::Code;

use super::finding::IncidentFinding;
use super::upgrade::seen_of;
use crate::drain::{Drain, DrainCheck, KINDS, PodDrain, check};
use crate::objects::{ObjectKind, Objects, Unlisted, items, named, text};
use crate::upgrade::{HarvesterUpgrade, NodeStage};

/// KubeVirt's own deployments, whose budgets block drains.
const KUBEVIRT_BUDGETS: [&str; 2] = [
    "harvester-system/virt-api-pdb",
    "harvester-system/virt-controller-pdb",
];

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    let Some(upgrade) = HarvesterUpgrade::under_way(objects)? else {
        return Ok(findings);
    };
    for node in upgrade.in_stage(NodeStage::PreDrained) {
        objects.want(KINDS)?;
        let checked = check(objects, node.name, now);
        if checked.drain == Drain::Blocked {
            let seen = seen_of(&upgrade, node);
            findings.push(blocked_drain(objects, &checked)?.seen(seen));
        }
    }
    Ok(findings)
}

fn blocked_drain(objects: &Objects, checked: &DrainCheck) -> Result<IncidentFinding, Unlisted> {
    let first = checked.blocked().next();
    let why = first.map_or(String::new(), |pod| format!("{}: {}", pod.pod, pod.why));
    let subject = format!("Node {}", checked.node);
    let mut finding = IncidentFinding::new(Code::DrainBlocked, subject, &why);
    for pod in checked.blocked() {
        finding
            .proof
            .push(format!("Pod {} never goes: {}", pod.pod, pod.why));
        let lines = pod.because.iter().map(|line| format!("  {line}"));
        finding.proof.extend(lines);
        let advice = advice(objects, pod);
        if !finding.advice.contains(&advice) {
            finding.advice += &format!(" {advice}");
        }
    }
    let stuck: Vec<&str> = KUBEVIRT_BUDGETS
        .into_iter()
        .filter(|budget| {
            checked
                .blocked()
                .any(|pod| pod.budget.as_deref() == Some(*budget))
        })
        .collect();
    if !stuck.is_empty() {
        match kubevirt::cure(objects, &stuck) {
            Ok(Ok(cure)) => finding.cure = Some(cure),
            Ok(Err(why)) => no_cure(&mut finding, &why),
            Err(unlisted) if unlisted.wanted => return Err(unlisted),
            // The blocker is proved even without this kind.
            Err(unlisted) => no_cure(&mut finding, &unlisted.to_string()),
        }
    }
    Ok(finding)
}

/// The advice for a pod, by its type and its budget. The documentation allows deleting a budget only for KubeVirt's own pods, and
/// for the budget of an instance manager that selects the pod of another one (Harvester's documentation, upgrade from v1.1.2 to
/// v1.2.0, 5.1 and 5.2). The budget of a last copy protects it.
fn advice(objects: &Objects, blocked: &PodDrain) -> String {
    let budget = blocked.budget.as_deref().unwrap_or_default();
    if KUBEVIRT_BUDGETS.contains(&budget) {
        return "KubeVirt's own pods: `windrow repair drain-blocked --dry-run` shows the fix; deleting the budgets \
                virt-api-pdb and virt-controller-pdb is the documented stop-gap."
            .to_owned();
    }
    let named_so = |kind, name: &str| {
        let all = objects.all(kind).unwrap_or_default().iter();
        all.into_iter().find(|one| named(one) == name)
    };
    let pod = named_so(ObjectKind::POD, &blocked.pod).unwrap_or(&Value::Null);
    let owner = items(pod, "/metadata/ownerReferences").first();
    let owner = owner.map_or("", |owner| text(owner, "/kind"));
    let node = text(pod, "/spec/nodeName");
    let keeper = named_so(ObjectKind::INSTANCE_MANAGER, budget);
    let is_another = keeper.is_some_and(|keeper| text(keeper, "/spec/nodeID") != node);
    let is_own = budget.is_empty() || keeper.is_some() || budget == blocked.pod;
    let pod = &blocked.pod;
    match owner {
        "InstanceManager" if is_another => format!(
            "PodDisruptionBudget {budget} belongs to another node's instance manager and selects the wrong pod: once every \
             attached volume is healthy, delete only this budget."
        ),
        "InstanceManager" if is_own => format!(
            "Pod {pod}: never delete its budget, which protects the last healthy copy of a volume. Shut down \
             the VM that uses the volume, or raise its number of replicas."
        ),
        "VirtualMachineInstance" => format!(
            "Pod {pod}: shut its VM down, or give another node the resources that it requires."
        ),
        _ => format!(
            "Pod {pod}: scale its workload up, make its pods ready, or ask the owner of PodDisruptionBudget {budget}."
        ),
    }
}

fn no_cure(finding: &mut IncidentFinding, why: &str) {
    finding.advice += &format!(" Windrow offers no fix for KubeVirt here: {why}.");
}
