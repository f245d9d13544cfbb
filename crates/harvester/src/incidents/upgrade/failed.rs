//! The newest Upgrade has failed (harvester#2894, harvester#3520, harvester#4402). The finding shows the phase and the Job, and
//! warns of harmful actions.
//!
//! Harvester gives up an upgrade when one of its Jobs fails permanently, and writes the reason of the Job into the Upgrade
//! (Harvester `pkg/controller/master/upgrade/job_controller.go`, `common.go` setNodeUpgradeStatus, v1.9.0-rc6). Its documentation
//! warns against restarting an upgrade that failed while it upgraded nodes (`upgrade/troubleshooting.md`, phase 4).

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::seen_condition;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, is_true, named, text};
use crate::upgrade::{HarvesterUpgrade, NodeStage, is_managed};

const WHILE_NODES: &str = "It failed while nodes were upgraded (phase 4). Do not restart it or \
    begin another upgrade until the cause is fixed and support agrees. Make a support bundle, and read the log of this Job.";

pub(super) fn find(objects: &Objects, _: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let Some(upgrade) = HarvesterUpgrade::failed(objects)? else {
        return Ok(Vec::new());
    };
    if was_finished_by_hand(&upgrade, objects.all(ObjectKind::NODE)?) {
        return Ok(Vec::new());
    }
    let subject = upgrade.subject();
    let mut seen = Vec::new();
    for node in upgrade.in_stage(NodeStage::Failed) {
        let status = upgrade
            .object
            .pointer("/status/nodeStatuses")
            .and_then(|all| all.get(node.name));
        let said = |pointer| status.map_or("", |status| text(status, pointer));
        let value = [node.state, said("/reason"), said("/message")];
        let value: Vec<&str> = value.into_iter().filter(|part| !part.is_empty()).collect();
        let field = format!("status.nodeStatuses[{}]", node.name);
        seen.push(Evidence::new(&subject, field, value.join(", ")));
    }
    let conditions = Condition::all(upgrade.object);
    let failed = conditions.filter(|one| one.is_false());
    seen.extend(failed.map(|one| seen_condition(&subject, one)));
    seen.extend(
        objects
            .all(ObjectKind::JOB)?
            .iter()
            .filter_map(|job| failed_job(&upgrade, job)),
    );
    let why = seen.first().map_or_else(
        || "label harvesterhci.io/upgradeState is Failed".to_owned(),
        |first| format!("{}: {}", first.field, first.value),
    );
    let mut finding = IncidentFinding::new(Code::UpgradeFailed, &subject, &why).seen(seen);
    if had_begun_its_nodes(&upgrade) {
        finding.advice = WHILE_NODES.to_owned();
    }
    Ok(vec![finding])
}

/// Whether all nodes run the system image of the release, so that a user has finished the upgrade.
fn was_finished_by_hand(upgrade: &HarvesterUpgrade<'_>, nodes: &[Value]) -> bool {
    let image = format!("Harvester {}", text(upgrade.object, "/spec/version"));
    let mut managed = nodes.iter().filter(|node| is_managed(node)).peekable();
    managed.peek().is_some() && managed.all(|node| text(node, "/status/nodeInfo/osImage") == image)
}

/// A permanently failed Job of the upgrade, or of its Plan that loads images.
fn failed_job(upgrade: &HarvesterUpgrade<'_>, job: &Value) -> Option<Evidence> {
    let is_its = upgrade.owns(job) || upgrade.owns_as_prepare(job);
    let failed = Condition::of(job, "Failed").filter(|_| is_its && is_true(job, "Failed"))?;
    Some(seen_condition(&format!("Job {}", named(job)), failed))
}

/// Whether the upgrade of a node had already begun. A node that fails to load its images is `Failed` too.
fn had_begun_its_nodes(upgrade: &HarvesterUpgrade<'_>) -> bool {
    let is_on_its_way = |stage| {
        use NodeStage::{PostDraining, PreDrained, PreDraining, Succeeded, WaitingReboot};
        matches!(
            stage,
            PreDraining | PreDrained | PostDraining | WaitingReboot | Succeeded
        )
    };
    is_true(upgrade.object, "SystemServicesUpgraded")
        || upgrade.nodes.iter().any(|node| is_on_its_way(node.stage))
}
