//! C: an upgrade whose node stays `Pre-drained` because Rancher's drain can never finish
//! (harvester#7647).

use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_model::reasons::Code;

use super::cure::{Cure, CureGoal, CureStep, ObjectChange, SavedObject};
use super::finding::IncidentFinding;
use super::upgrade::seen_of;
use crate::drain::{Drain, DrainCheck, KINDS, check};
use crate::objects::{ObjectKind, Objects, Unlisted};
use crate::upgrade::{HarvesterUpgrade, NodeStage};

/// KubeVirt's own deployments, whose budgets get stuck.
const KUBEVIRT_BUDGETS: [&str; 2] = [
    "harvester-system/virt-api-pdb",
    "harvester-system/virt-controller-pdb",
];

pub(super) fn find(objects: &Objects, _: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    let Some(upgrade) = HarvesterUpgrade::under_way(objects)? else {
        return Ok(findings);
    };
    for node in upgrade.in_stage(NodeStage::PreDrained) {
        objects.want(KINDS)?;
        let checked = check(objects, node.name);
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
        finding.cure = kubevirt(objects, &stuck)?;
    }
    Ok(finding)
}

/// The cure of KubeVirt: its own pods may run on any node (harvester#7725). Where they may already,
/// there is none.
fn kubevirt(objects: &Objects, stuck: &[&str]) -> Result<Option<Cure>, Unlisted> {
    let Some(kubevirt) = objects.get(ObjectKind::KUBEVIRT, "harvester-system", "kubevirt")? else {
        return Ok(None);
    };
    if kubevirt.pointer("/spec/infra/nodePlacement") == Some(&json!({})) {
        return Ok(None);
    }
    let change = ObjectChange::of(ObjectKind::KUBEVIRT, kubevirt);
    let change = match kubevirt.pointer("/spec/infra") {
        Some(Value::Object(_)) => change.set("/spec/infra/nodePlacement", json!({})),
        _ => change.set("/spec/infra", json!({"nodePlacement": {}})),
    };
    let goal = CureGoal::Field {
        path: ObjectKind::KUBEVIRT.path_of(kubevirt),
        before: None,
        field: "/spec/infra/nodePlacement".to_owned(),
        value: json!({}),
    };
    let say = "let KubeVirt's own pods run on any node (spec.infra.nodePlacement: {})";
    let mut steps = vec![change.step(say, goal, 120)];
    for budget in stuck {
        let (namespace, name) = budget.split_once('/').unwrap_or_default();
        steps.push(CureStep::wait(
            format!("wait until PodDisruptionBudget {budget} allows a disruption"),
            CureGoal::AtLeast {
                path: ObjectKind::BUDGET.object_path(namespace, name),
                field: "/status/disruptionsAllowed".to_owned(),
                value: 1,
            },
            900,
        ));
    }
    Ok(Some(Cure {
        summary: "let KubeVirt's own pods run on any node".to_owned(),
        changes: vec![
            "KubeVirt harvester-system/kubevirt: spec.infra.nodePlacement becomes {}".to_owned(),
            "virt-operator rolls virt-api and virt-controller out again; machines go on running"
                .to_owned(),
        ],
        saves: vec![SavedObject::of(ObjectKind::KUBEVIRT, kubevirt)],
        steps,
    }))
}
