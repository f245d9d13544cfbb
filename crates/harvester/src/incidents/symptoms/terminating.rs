//! Pods of users, for example of VMs, whose deletion does not finish. Those of the platform have an incident (`platform/terminating.rs`).

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};

use super::{Clock, POD_TERMINATING, known, subject};
use crate::health::draining;
use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::is_platforms;
use crate::objects::{ObjectKind, Objects, Unlisted, is_true, text};
use crate::upgrade::{HarvesterUpgrade, NodeStage, time};

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let pods = objects.all(ObjectKind::POD)?.iter();
    let deleted = |pod: &Value| time(pod, "/metadata/deletionTimestamp");
    let users = pods.filter(|pod| !is_platforms(pod));
    let ending: Vec<&Value> = users.filter(|pod| deleted(pod).is_some()).collect();
    if ending.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let mut found = Vec::new();
    for pod in ending {
        let name = text(pod, "/spec/nodeName");
        let node = objects.get(ObjectKind::NODE, "", name)?;
        // The kubelet of a node that is down cannot end it: the node is the symptom.
        let is_up = node.is_some_and(|node| is_true(node, "Ready"));
        if !is_up || !clock.is_late(deleted(pod), &POD_TERMINATING) {
            continue;
        }
        let is_drained = node.is_some_and(|node| draining(node).is_some())
            || known(upgrade_drains(objects, name))?.unwrap_or_default();
        found.push(finding(pod, name, is_drained));
    }
    Ok(found)
}

/// Does an upgrade wait for the drain of this node?
fn upgrade_drains(objects: &Objects, node: &str) -> Result<bool, Unlisted> {
    let upgrade = HarvesterUpgrade::under_way(objects)?;
    Ok(upgrade.is_some_and(|upgrade| {
        let mut drained = upgrade.in_stage(NodeStage::PreDrained);
        drained.any(|one| one.name == node)
    }))
}

fn finding(pod: &Value, node: &str, is_drained: bool) -> IncidentFinding {
    let about = subject(pod, "Pod");
    let deleted = text(pod, "/metadata/deletionTimestamp");
    let why = match is_drained {
        true => format!(
            "it should have ended on {node} at {deleted}, and the drain of the node waits for it"
        ),
        false => format!("it should have ended on {node} at {deleted}"),
    };
    let seen = [
        Evidence::new(&about, "metadata.deletionTimestamp", deleted),
        Evidence::new(&about, "metadata.uid", text(pod, "/metadata/uid")),
    ];
    let mut finding = IncidentFinding::new(Code::PodTerminating, about, &why).seen(seen);
    if is_drained {
        finding.severity = Severity::Error;
    }
    finding
}
