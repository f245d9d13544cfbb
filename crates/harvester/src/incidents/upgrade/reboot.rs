//! A node was rebooted into the new system image, but does not come back with it (harvester#7457, harvester#11096).
//!
//! The image in the Node is the last one that its kubelet reported. If the kubelet has been silent since the reboot, the node may
//! run the new image without its address or its network card (harvester#9260, harvester#9815, harvester#10397), or be off
//! (harvester#10048).

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::super::own::OwnNode;
use super::seen_of;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, is_true, text};
use crate::system_image::mebibytes;
use crate::upgrade::{HarvesterUpgrade, NodeStage, UpgradingNode};

/// A server with much memory takes a quarter of an hour to boot.
const PATIENCE: i64 = 30;

/// The advice for a node with a silent kubelet. The addresses and the names of network cards changed with Harvester v1.7
/// (Harvester's documentation, upgrade from v1.6.x to v1.7.x, known issues 1 and 3).
const SILENT: &str = "Look at the node's console: is it on, and does it have its network? Compare its address with the one before (DHCP), \
    and its network cards with /oem/harvester.config: an upgrade to v1.7 can change both.";

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
        let why = why(boot(object, node), object);
        let mut finding = IncidentFinding::new(Code::RebootWaits, &subject, &why);
        let mut reported = running.to_owned();
        if let Some(silent) = silent_since(object) {
            finding.advice = SILENT.to_owned();
            reported = format!("{running} (reported before {silent})");
        }
        findings.push(
            finding
                .seen([
                    Evidence::new(&subject, "status.nodeInfo.osImage", reported),
                    Evidence::new(
                        &subject,
                        "annotation harvesterhci.io/pendingOSImage",
                        pending,
                    ),
                ])
                .seen(
                    Condition::of(object, "Ready")
                        .map(|ready| super::seen_condition(&subject, ready)),
                )
                .seen(seen_of(&upgrade, node)),
        );
    }
    Ok(findings)
}

fn why(boot: &str, object: &Value) -> String {
    let (running, pending) = (text(object, RUNNING), text(object, PENDING));
    match silent_since(object) {
        Some(silent) => format!(
            "{boot}; its kubelet has not reported since {silent}, so Windrow cannot tell whether it has {pending}"
        ),
        None => format!("{boot}; it has {running}, not {pending}"),
    }
}

/// Since when the kubelet does not report: its last heartbeat, or when the failure was noticed.
fn silent_since(object: &Value) -> Option<Timestamp> {
    let ready = Condition::of(object, "Ready")?;
    let is_silent = ready.status == "Unknown";
    let known = [ready.time("lastHeartbeatTime"), ready.since()];
    known.into_iter().flatten().min().filter(|_| is_silent)
}

/// Adds facts that only the node has: whether it has booted since, the image, and the use of the partition with the images.
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
    let why = why(&boot, node);
    finding.message = Code::RebootWaits.say(&[("subject", &subject), ("why", &why)]);
}

/// Evidence of a reboot in the readiness of the Node. A change to NotReady and back does not prove a reboot: a kubelet that was
/// down for a minute looks the same.
fn boot(object: &Value, node: &UpgradingNode<'_>) -> &'static str {
    let turned = Condition::of(object, "Ready").and_then(|condition| condition.since());
    match (is_true(object, "Ready"), turned > node.since) {
        (false, _) => "it is not ready",
        (true, true) => "it came back after its Job ended",
        (true, false) => "it has not left since its Job ended",
    }
}
