//! A running Machine of a deleted node: the node was deleted, but its Machine was not (harvester#8236). Rancher waits for it in
//! every upgrade, and Harvester refuses to start an upgrade from v1.5.1 on.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::super::finding::IncidentFinding;
use super::seen_condition;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, named, text};
use crate::upgrade::{minutes_since, time};

/// A node that registers again is back by then.
const PATIENCE: i64 = 30;
const LOCAL: &str = "fleet-local";

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let machines = objects.all(ObjectKind::CAPI_MACHINE)?.iter();
    let mut findings = Vec::new();
    for machine in machines.filter(|one| text(one, "/metadata/namespace") == LOCAL) {
        let node = text(machine, "/status/nodeRef/name");
        // Without a node, or in another phase, the finding about its phase covers it.
        if node.is_empty() || text(machine, "/status/phase") != "Running" {
            continue;
        }
        if objects.get(ObjectKind::NODE, "", node)?.is_none() && is_late(machine, now) {
            findings.push(left(machine, node));
        }
    }
    Ok(findings)
}

/// Uses the latest change of the Machine.
fn is_late(machine: &Value, now: Timestamp) -> bool {
    let healthy = Condition::of(machine, "NodeHealthy").and_then(|condition| condition.since());
    let changed = ["/status/lastUpdated", "/metadata/creationTimestamp"];
    let changed = changed.iter().filter_map(|pointer| time(machine, pointer));
    let newest = changed.chain(healthy).max();
    newest.is_some_and(|newest| minutes_since(newest, now) >= PATIENCE)
}

fn left(machine: &Value, node: &str) -> IncidentFinding {
    let subject = format!("Machine {}", named(machine));
    let why = format!("its node {node} does not exist");
    let mut seen = vec![
        Evidence::new(&subject, "status.nodeRef.name", node),
        Evidence::new(format!("Node {node}"), "metadata", "it does not exist"),
    ];
    let healthy = Condition::of(machine, "NodeHealthy");
    seen.extend(healthy.map(|healthy| seen_condition(&subject, healthy)));
    let mut finding = IncidentFinding::new(Code::MachineMissing, subject, &why).seen(seen);
    "If the node is gone permanently, delete its Machine in fleet-local. If it should be there, let it join again."
        .clone_into(&mut finding.advice);
    finding
}
