//! A node was sent into a reboot into the new system image and does not come back with it (harvester#7457, harvester#11096).

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::seen_of;
use crate::objects::{ObjectKind, Objects, Unlisted, condition, is_true, text};
use crate::upgrade::{HarvesterUpgrade, NodeStage, UpgradingNode, condition_time};

/// A server with much memory takes a quarter of an hour to boot.
const PATIENCE: i64 = 30;

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    let Some(upgrade) = HarvesterUpgrade::under_way(objects)? else {
        return Ok(findings);
    };
    for node in upgrade.in_stage(NodeStage::WaitingReboot) {
        if !node.is_there_for(PATIENCE, now) {
            continue;
        }
        let Some(object) = objects.get(ObjectKind::NODE, "", node.name)? else {
            continue;
        };
        let pending = text(
            object,
            "/metadata/annotations/harvesterhci.io~1pendingOSImage",
        );
        let running = text(object, "/status/nodeInfo/osImage");
        if pending.is_empty() || pending == running {
            continue;
        }
        let subject = format!("Node {}", node.name);
        let why = format!("{}; it has {running}, not {pending}", boot(object, node));
        findings.push(
            IncidentFinding::new(Code::RebootWaits, &subject, &why)
                .seen([
                    Evidence::new(&subject, "status.nodeInfo.osImage", running),
                    Evidence::new(
                        &subject,
                        "annotation harvesterhci.io/pendingOSImage",
                        pending,
                    ),
                ])
                .seen(
                    condition(object, "Ready").map(|ready| super::seen_condition(&subject, ready)),
                )
                .seen(seen_of(&upgrade, node)),
        );
    }
    Ok(findings)
}

/// What the Node's readiness tells of the reboot. That it left and came back is not a proof of one: a kubelet that was down
/// for a minute looks the same.
fn boot(object: &Value, node: &UpgradingNode<'_>) -> &'static str {
    let turned = condition(object, "Ready").and_then(condition_time);
    match (is_true(object, "Ready"), turned > node.since) {
        (false, _) => "it is not ready",
        (true, true) => "it came back after its Job ended",
        (true, false) => "it has not left since its Job ended",
    }
}
