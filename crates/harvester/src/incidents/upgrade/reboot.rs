//! A node was sent into a reboot into the new system image and does not come back with it (harvester#7457, harvester#11096).

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::super::own::OwnNode;
use super::seen_of;
use crate::objects::{ObjectKind, Objects, Unlisted, condition, is_true, text};
use crate::system_image::mebibytes;
use crate::upgrade::{HarvesterUpgrade, NodeStage, UpgradingNode, condition_time};

/// A server with much memory takes a quarter of an hour to boot.
const PATIENCE: i64 = 30;

const RUNNING: &str = "/status/nodeInfo/osImage";
const PENDING: &str = "/metadata/annotations/harvesterhci.io~1pendingOSImage";

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
        let (running, pending) = (text(object, RUNNING), text(object, PENDING));
        if pending.is_empty() || pending == running {
            continue;
        }
        let subject = format!("Node {}", node.name);
        let why = why(boot(object, node), running, pending);
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

fn why(boot: &str, running: &str, pending: &str) -> String {
    format!("{boot}; it has {running}, not {pending}")
}

/// What only the node itself knows: whether it booted since, which image, and how full the images' partition is.
pub(in super::super) fn add_own_boot(
    finding: &mut IncidentFinding,
    own: &OwnNode,
    objects: &Objects,
) {
    let Some(images) = own
        .images
        .as_ref()
        .filter(|_| finding.code == Code::RebootWaits)
    else {
        return;
    };
    let subject = finding.subject.clone();
    let mut seen = |field: &str, value: String| {
        finding.evidence.push(Evidence::new(&subject, field, value));
    };
    if let Some(image) = &images.booted {
        seen("booted image", image.clone());
    }
    if let Some(at) = images.booted_at {
        seen("booted at", at.to_string());
    }
    seen(
        "free on COS_STATE",
        format!(
            "{} of {}",
            mebibytes(images.free),
            mebibytes(images.capacity)
        ),
    );
    if let Some(passive) = images.passive {
        let value = format!(
            "{} of {}",
            mebibytes(passive.allocated),
            mebibytes(passive.length)
        );
        seen("passive.img takes", value);
    }
    let upgrade = HarvesterUpgrade::under_way(objects).ok().flatten();
    let since = upgrade.and_then(|upgrade| {
        let mut nodes = upgrade.in_stage(NodeStage::WaitingReboot);
        nodes.find(|node| node.name == own.name)?.since
    });
    let node = objects.get(ObjectKind::NODE, "", &own.name);
    let (Some(since), Some(at), Ok(Some(node))) = (since, images.booted_at, node) else {
        return;
    };
    let boot = match (at > since, images.booted.as_deref()) {
        (true, Some(image)) => format!("it has booted {image} since its Job ended"),
        (true, None) => "it has booted since its Job ended".to_owned(),
        (false, _) => "it has not booted since its Job ended".to_owned(),
    };
    let (running, pending) = (text(node, RUNNING), text(node, PENDING));
    let why = why(&boot, running, pending);
    finding.message = Code::RebootWaits.say(&[("subject", &subject), ("why", &why)]);
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
