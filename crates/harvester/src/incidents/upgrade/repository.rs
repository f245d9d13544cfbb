//! A node in Post-draining waits for the upgrade's own repository, and that is down (harvester#8649, harvester#9597).
//!
//! Up to Harvester v1.6 the repository is a machine, which the node starts again itself; from v1.7 on a Deployment with a
//! volume that several pods share (Harvester `pkg/controller/master/upgrade/upgrade_repo.go`). Both have the same name.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::{failing, seen_condition, seen_of};
use crate::objects::{ObjectKind, Objects, Unlisted, named, text, texts, waiting};
use crate::schedule::LabelSelector;
use crate::upgrade::{HarvesterUpgrade, NodeStage};

/// The Job asks for the repository first.
const PATIENCE: i64 = 15;
/// A repository that moves to another node is back by then.
const DOWN: i64 = 10;
const NAMESPACE: &str = "harvester-system";
const LONGHORN: &str = "longhorn-system";

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let Some(upgrade) = HarvesterUpgrade::under_way(objects)? else {
        return Ok(Vec::new());
    };
    let mut nodes = upgrade.in_stage(NodeStage::PostDraining);
    let Some(node) = nodes.find(|node| node.is_there_for(PATIENCE, now)) else {
        return Ok(Vec::new());
    };
    let found = match down(objects, upgrade.name(), now)? {
        Some(finding) => vec![finding.seen(seen_of(&upgrade, node))],
        None => Vec::new(),
    };
    Ok(found)
}

fn down(
    objects: &Objects,
    upgrade: &str,
    now: Timestamp,
) -> Result<Option<IncidentFinding>, Unlisted> {
    let name = format!("upgrade-repo-{upgrade}");
    if let Some(deployment) = objects.get(ObjectKind::DEPLOYMENT, NAMESPACE, &name)? {
        let Some(available) = failing(deployment, "Available", DOWN, now) else {
            return Ok(None);
        };
        let subject = format!("Deployment {NAMESPACE}/{name}");
        let mut seen = vec![seen_condition(&subject, available)];
        seen.extend(pods(objects, deployment)?);
        seen.extend(volume(objects, upgrade)?);
        let why = seen.last().map(ToString::to_string).unwrap_or_default();
        let finding = IncidentFinding::new(Code::UpgradeRepoDown, subject, &why);
        return Ok(Some(finding.seen(seen)));
    }
    if let Some(machine) = objects.get(ObjectKind::VM, NAMESPACE, &name)? {
        let Some(ready) = failing(machine, "Ready", DOWN, now) else {
            return Ok(None);
        };
        let subject = format!("VirtualMachine {NAMESPACE}/{name}");
        let status = text(machine, "/status/printableStatus");
        let why = format!("its status is {status:?}");
        let finding = IncidentFinding::new(Code::UpgradeRepoDown, &subject, &why);
        return Ok(Some(finding.seen([
            Evidence::new(&subject, "status.printableStatus", status),
            seen_condition(&subject, ready),
        ])));
    }
    let subject = format!("Deployment {NAMESPACE}/{name}");
    let why = "neither this Deployment nor a machine of its name exists";
    Ok(Some(IncidentFinding::new(
        Code::UpgradeRepoDown,
        subject,
        why,
    )))
}

/// What the repository's pods wait for.
fn pods(objects: &Objects, deployment: &Value) -> Result<Vec<Evidence>, Unlisted> {
    let Ok(Some(selector)) = LabelSelector::parse(deployment.pointer("/spec/selector")) else {
        return Ok(Vec::new());
    };
    let pods = objects.all(ObjectKind::POD)?.iter().filter(|pod| {
        text(pod, "/metadata/namespace") == NAMESPACE
            && selector.matches(&texts(pod, "/metadata/labels"))
    });
    let waits = |pod: &Value| {
        let subject = format!("Pod {}", named(pod));
        let phase = text(pod, "/status/phase").to_owned();
        let value = waiting(pod).fold(phase, |said, why| format!("{said}, {why}"));
        Evidence::new(subject, "status", value)
    };
    Ok(pods.map(waits).collect())
}

/// How the volume of the repository is served: who shares it, and its engine.
fn volume(objects: &Objects, claim: &str) -> Result<Vec<Evidence>, Unlisted> {
    let Some(claim) = objects.get(ObjectKind::CLAIM, NAMESPACE, claim)? else {
        return Ok(Vec::new());
    };
    let volume = text(claim, "/spec/volumeName");
    let share = objects.get(ObjectKind::SHARE_MANAGER, LONGHORN, volume)?;
    let share = share.map(|share| {
        let subject = format!("ShareManager {}", named(share));
        Evidence::new(subject, "status.state", text(share, "/status/state"))
    });
    let engines = objects.all(ObjectKind::LONGHORN_ENGINE)?.iter();
    let engines = engines.filter(|engine| text(engine, "/spec/volumeName") == volume);
    let engines = engines.map(|engine| {
        let subject = format!("Engine {}", named(engine));
        Evidence::new(
            subject,
            "status.currentState",
            text(engine, "/status/currentState"),
        )
    });
    Ok(share.into_iter().chain(engines).collect())
}
