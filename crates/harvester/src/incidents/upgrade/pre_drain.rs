//! A node stays in Pre-draining because of a volume, a VM or a remaining budget (harvester#4830, harvester#7067, harvester#7902).
//!
//! Before a drain Harvester waits without a limit until every volume in use is healthy, no VM runs on the node, and no budget of
//! an evacuation remains in the cluster (Harvester `package/upgrade/upgrade_node.sh`). Progress is slow but is not a finding: a
//! replica that is being rebuilt, a VM that is migrating.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::seen_of;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, named, text};
use crate::upgrade::{HarvesterUpgrade, NodeStage, is_managed, label, time};

const PATIENCE: i64 = 60;
/// Name prefix of the budgets whose end Harvester waits for.
const EVACUATION: &str = "kubevirt-migration-pdb-kubevirt-evacuation-";

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    let Some(upgrade) = HarvesterUpgrade::under_way(objects)? else {
        return Ok(findings);
    };
    for node in upgrade.in_stage(NodeStage::PreDraining) {
        if !node.is_there_for(PATIENCE, now) {
            continue;
        }
        let mut causes = sick_volumes(objects)?;
        causes.extend(machines_that_stay(objects, node.name)?);
        causes.extend(left_budgets(objects)?);
        if let Some(first) = causes.first() {
            let subject = format!("Node {}", node.name);
            findings.push(
                IncidentFinding::new(Code::PreDrainWaits, subject, &first.to_string())
                    .seen(causes)
                    .seen(seen_of(&upgrade, node)),
            );
        }
    }
    Ok(findings)
}

/// The unhealthy volumes in use. Empty if one of them is being rebuilt, because Harvester then waits for that.
fn sick_volumes(objects: &Objects) -> Result<Vec<Evidence>, Unlisted> {
    let nodes = objects.all(ObjectKind::NODE)?.iter();
    let is_witness = |node: &Value| {
        node.pointer("/metadata/labels/node-role.harvesterhci.io~1witness")
            .is_some()
    };
    let many = nodes
        .filter(|node| is_managed(node) && !is_witness(node))
        .count()
        > 2;
    let volumes = objects.all(ObjectKind::LONGHORN_VOLUME)?;
    let mut seen = Vec::new();
    for engine in objects.all(ObjectKind::LONGHORN_ENGINE)? {
        let name = text(engine, "/spec/volumeName");
        let volume = volumes
            .iter()
            .find(|one| text(one, "/metadata/name") == name);
        let (Some(volume), "running") = (volume, text(engine, "/status/currentState")) else {
            continue;
        };
        let Some(sick) = sick(volume, engine, many) else {
            continue;
        };
        if is_rebuilding(engine) {
            return Ok(Vec::new());
        }
        seen.push(sick);
        let full = Condition::of(volume, "Scheduled");
        let full = full.filter(|one| one.is_false());
        let subject = format!("Volume {}", named(volume));
        seen.extend(full.map(|condition| super::seen_condition(&subject, condition)));
    }
    Ok(seen)
}

/// With up to two nodes Harvester counts the writable replicas; with more it uses Longhorn's state.
fn sick(volume: &Value, engine: &Value, many: bool) -> Option<Evidence> {
    if many {
        let robustness = text(volume, "/status/robustness");
        let subject = format!("Volume {}", named(volume));
        return (robustness != "healthy")
            .then(|| Evidence::new(subject, "status.robustness", robustness));
    }
    let modes = engine.pointer("/status/replicaModeMap");
    let modes = modes.and_then(Value::as_object).into_iter().flatten();
    let writable = modes
        .filter(|(_, mode)| mode.as_str() == Some("RW"))
        .count() as u64;
    let wanted = volume
        .pointer("/spec/numberOfReplicas")
        .and_then(Value::as_u64);
    let wanted = wanted.unwrap_or_default().min(2);
    (writable < wanted).then(|| {
        let subject = format!("Engine {}", named(engine));
        let value = format!("{writable} replicas are RW, {wanted} are required");
        Evidence::new(subject, "status.replicaModeMap", value)
    })
}

fn is_rebuilding(engine: &Value) -> bool {
    let rebuilds = engine.pointer("/status/rebuildStatus");
    let mut rebuilds = rebuilds.and_then(Value::as_object).into_iter().flatten();
    rebuilds.any(|(_, rebuild)| {
        rebuild.pointer("/isRebuilding").and_then(Value::as_bool) == Some(true)
            && text(rebuild, "/error").is_empty()
    })
}

/// The VMs on the node. Empty if one of them is migrating, because the others wait for it.
fn machines_that_stay(objects: &Objects, node: &str) -> Result<Vec<Evidence>, Unlisted> {
    let machines = objects.all(ObjectKind::VMI)?.iter().filter(|machine| {
        label(machine, "kubevirt.io~1nodeName") == node
            && !matches!(text(machine, "/status/phase"), "Succeeded" | "Failed")
    });
    let machines: Vec<&Value> = machines.collect();
    if machines.is_empty() {
        return Ok(Vec::new());
    }
    let migrations = newest_migrations(objects.all(ObjectKind::MIGRATION)?);
    let mut seen = Vec::new();
    for machine in machines {
        let migration = migrations.get(&named(machine));
        let phase = migration.map_or("", |migration| text(migration, "/status/phase"));
        let why = match (migration, phase) {
            (Some(migration), "Failed" | "Pending" | "Scheduling") => {
                format!("on {node}; its migration {} is {phase}", named(migration))
            }
            (None, _) | (Some(_), "Succeeded") => format!("on {node}, without a migration"),
            (Some(_), _) => return Ok(Vec::new()),
        };
        let subject = format!("VirtualMachineInstance {}", named(machine));
        seen.push(Evidence::new(subject, "label kubevirt.io/nodeName", why));
    }
    Ok(seen)
}

/// The newest migration of each VM, by its `namespace/name`.
fn newest_migrations(migrations: &[Value]) -> BTreeMap<String, &Value> {
    let mut newest: BTreeMap<String, &Value> = BTreeMap::new();
    let made = |migration: &Value| time(migration, "/metadata/creationTimestamp");
    for migration in migrations {
        let namespace = text(migration, "/metadata/namespace");
        let machine = format!("{namespace}/{}", text(migration, "/spec/vmiName"));
        let known = newest.entry(machine).or_insert(migration);
        if made(migration) > made(known) {
            *known = migration;
        }
    }
    newest
}

/// Budgets of finished evacuations, which nothing deletes any more.
fn left_budgets(objects: &Objects) -> Result<Vec<Evidence>, Unlisted> {
    let budgets = objects.all(ObjectKind::BUDGET)?.iter();
    let mut seen = Vec::new();
    for budget in budgets.filter(|one| text(one, "/metadata/name").starts_with(EVACUATION)) {
        let (namespace, migration) = (
            text(budget, "/metadata/namespace"),
            label(budget, "kubevirt.io~1migrationName"),
        );
        let migration = objects.get(ObjectKind::MIGRATION, namespace, migration)?;
        let phase = migration.map_or("gone", |migration| text(migration, "/status/phase"));
        if matches!(phase, "gone" | "Succeeded" | "Failed") {
            let subject = format!("PodDisruptionBudget {}", named(budget));
            let value = format!("it exists; its migration is {phase}");
            seen.push(Evidence::new(subject, "metadata", value));
        }
    }
    Ok(seen)
}
