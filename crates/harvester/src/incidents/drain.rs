//! C: an upgrade whose node stays `Pre-drained` because Rancher's drain can never finish
//! (harvester#7647).

mod kubevirt;

use jiff::Timestamp;
use windrow_model::reasons::Code;

use super::finding::IncidentFinding;
use super::upgrade::seen_of;
use crate::drain::{Drain, DrainCheck, KINDS, check};
use crate::objects::{Objects, Unlisted};
use crate::upgrade::{HarvesterUpgrade, NodeStage};

/// KubeVirt's own deployments, whose budgets get stuck.
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
            // What blocks is proved all the same.
            Err(unlisted) => no_cure(&mut finding, &unlisted.to_string()),
        }
    }
    Ok(finding)
}

fn no_cure(finding: &mut IncidentFinding, why: &str) {
    finding.advice += &format!(" Windrow offers no cure of KubeVirt here: {why}.");
}
