//! Drains that do not come to an end outside an upgrade: Harvester's maintenance mode, and VMs whose evacuation fails again and again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::{Clock, MAINTENANCE, subject};
use crate::drain::{cordoned_since, is_in_maintenance};
use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::{MOST, quoted};
use crate::objects::{ObjectKind, Objects, Unlisted, named, text, texts};
use crate::upgrade::time;

/// How Harvester's API asks for maintenance mode (harvester v1.8.2 `pkg/util/drainhelper`).
const REQUESTED: &str = "harvesterhci.io/drain-requested";
/// The node that an evacuation leaves (kubevirt d923fdb `staging/src/kubevirt.io/api/core/v1/types.go`, `EvacuationMigrationAnnotation`).
const EVACUATES: &str = "kubevirt.io/evacuationMigration";
/// KubeVirt tries again without a limit.
const OFTEN: usize = 3;

/// Nodes for which maintenance mode was requested and is not reached.
pub(super) fn find_maintenance(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let all = objects.all(ObjectKind::NODE)?.iter();
    let is_asked = |node: &&Value| {
        texts(node, "/metadata/annotations").contains_key(REQUESTED) && !is_in_maintenance(node)
    };
    let asked: Vec<&Value> = all.filter(is_asked).collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    // The annotation has no time: Harvester cordons the node at once.
    let late = asked
        .into_iter()
        .filter(|node| clock.is_late(cordoned_since(node), &MAINTENANCE));
    Ok(late
        .map(|node| {
            let about = subject(node, "Node");
            let since =
                cordoned_since(node).map_or(String::new(), |since| format!(" since {since}"));
            let why =
                format!("maintenance mode was requested, and its drain has not finished{since}");
            let seen = Evidence::new(&about, format!("annotation {REQUESTED}"), "present");
            let mut finding = IncidentFinding::new(Code::ProblemStays, &about, &why).seen([seen]);
            "`windrow drain-check NODE` shows which pods stay on this node, and why."
                .clone_into(&mut finding.advice);
            finding
        })
        .collect())
}

/// VMs whose evacuation failed several times, and which are still on their node.
pub(super) fn find_evacuations(
    objects: &Objects,
    _: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let machines = objects.all(ObjectKind::VMI)?;
    let evacuated = |vmi: &&Value| !text(vmi, "/status/evacuationNodeName").is_empty();
    let mut evacuated = machines.iter().filter(evacuated).peekable();
    if evacuated.peek().is_none() {
        return Ok(Vec::new());
    }
    let mut failed: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for migration in objects.all(ObjectKind::MIGRATION)? {
        let namespace = text(migration, "/metadata/namespace");
        let vmi = format!("{namespace}/{}", text(migration, "/spec/vmiName"));
        let is_evacuation = texts(migration, "/metadata/annotations").contains_key(EVACUATES);
        if is_evacuation && text(migration, "/status/phase") == "Failed" {
            failed.entry(vmi).or_default().push(migration);
        }
    }
    let mut found = Vec::new();
    for vmi in evacuated {
        let node = text(vmi, "/status/evacuationNodeName");
        let Some(failed) = failed.get_mut(&named(vmi)) else {
            continue;
        };
        // An earlier evacuation, of another node or of this one before it was cordoned again, has ended.
        let nodes = objects.all(ObjectKind::NODE).unwrap_or_default();
        let own = nodes.iter().find(|one| text(one, "/metadata/name") == node);
        let cordoned = own.and_then(cordoned_since);
        failed.retain(|one| {
            let made = time(one, "/metadata/creationTimestamp");
            let is_of_now = cordoned.is_none_or(|since| made.is_none_or(|made| made >= since));
            let is_of_node = texts(one, "/metadata/annotations")
                .get(EVACUATES)
                .is_some_and(|from| from == node);
            is_of_now && is_of_node
        });
        if failed.len() < OFTEN || text(vmi, "/status/nodeName") != node {
            continue;
        }
        failed.sort_by_key(|one| time(one, "/metadata/creationTimestamp"));
        let about = subject(vmi, "VirtualMachineInstance");
        let first = text(failed[0], "/metadata/creationTimestamp");
        let reason = text(vmi, "/status/migrationState/failureReason");
        let words = match reason {
            "" => String::new(),
            reason => format!(": {}", quoted(reason)),
        };
        let why = format!(
            "it stays on {node}: {} evacuations have failed since {first}{words}",
            failed.len()
        );
        let seen = failed.iter().rev().take(MOST.min(OFTEN)).map(|one| {
            let about = subject(one, "VirtualMachineInstanceMigration");
            let at = text(one, "/metadata/creationTimestamp");
            Evidence::new(about, "status.phase", format!("Failed, created {at}"))
        });
        let mut finding = IncidentFinding::new(Code::ProblemStays, &about, &why).seen(seen);
        "`windrow drain-check NODE` shows whether another node takes the VM. The target pod of the newest migration shows why it does not start."
            .clone_into(&mut finding.advice);
        found.push(finding);
    }
    Ok(found)
}
