//! A cluster of Harvester that has fewer than three servers although it has enough nodes.
//!
//! Harvester joins each later node as an agent and promotes agents until there are three servers. The requirements for a Node are
//! from `pkg/controller/master/node/promote_controller.go` of v1.4.0, v1.6.1 and v1.8.2, and of v1.9.0-rc6. A cordon has no
//! effect.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::{MOST, is_upgrading, promoting};
use crate::incidents::finding::IncidentFinding;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, named, text};
use crate::upgrade::{is_managed, label, time};

/// Harvester's target for the number of servers.
const ENOUGH: usize = 3;
/// Longer than Harvester takes to start a promotion: it reacts to each change of a Node, and the kubelet changes the Node every
/// five minutes.
const PATIENCE: SignedDuration = SignedDuration::from_mins(15);
const ROLES: [&str; 3] = ["master", "control-plane", "etcd"];
const WITNESS: &str = "node-role.harvesterhci.io~1witness";
const WORKER: &str = "node-role.harvesterhci.io~1worker";
const ZONE: &str = "topology.kubernetes.io~1zone";
const PROMOTION: &str = "/metadata/annotations/harvesterhci.io~1promote-status";
pub(super) const STATUS: &str = "annotation harvesterhci.io/promote-status";

pub(in crate::incidents) fn find(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let nodes = objects.all(ObjectKind::NODE)?;
    let (servers, agents): (Vec<&Value>, Vec<&Value>) =
        nodes.iter().partition(|node| is_server(node));
    // The label of a worker requests that it is never promoted.
    let wanted = |node: &&&Value| is_managed(node) && !has_label(node, WORKER);
    let enough = servers.len() + agents.iter().filter(wanted).count() >= ENOUGH;
    if !enough || servers.is_empty() || servers.len() >= ENOUGH {
        return Ok(Vec::new());
    }
    let newest = nodes.iter().flat_map(changes).max();
    let is_settled = newest.is_some_and(|newest| now.duration_since(newest) > PATIENCE);
    let is_promoting = |node: &&Value| text(node, PROMOTION) == "running";
    if let Some(node) = nodes.iter().find(is_promoting) {
        if is_upgrading(objects)? {
            return Ok(Vec::new());
        }
        let found = promoting::find(objects, node, is_settled, now)?;
        return Ok(found.into_iter().collect());
    }
    let is_promoted = |node: &Value| text(node, PROMOTION) == "complete" && !is_server(node);
    if nodes.iter().any(is_promoted) || !is_settled || is_upgrading(objects)? {
        return Ok(Vec::new());
    }
    Ok(vec![finding(nodes, &servers, &agents)])
}

fn finding(nodes: &[Value], servers: &[&Value], agents: &[&Value]) -> IncidentFinding {
    let ended = nodes
        .iter()
        .find(|node| matches!(text(node, PROMOTION), "failed" | "unknown"));
    let mut obstacles: Vec<Evidence> = Vec::new();
    let mut able: Vec<&Value> = Vec::new();
    let mut has_witness = servers.iter().any(|node| has_label(node, WITNESS));
    for node in agents {
        let mut own: Vec<Evidence> = obstacles_of(node).collect();
        let is_witness = has_label(node, WITNESS);
        if is_witness && has_witness {
            own.push(label_of(node, WITNESS, "Harvester takes one witness"));
        }
        if own.is_empty() {
            has_witness |= is_witness;
            able.push(node);
        }
        obstacles.append(&mut own);
    }
    let zones = |nodes: &[&Value]| -> BTreeSet<String> {
        let zones = nodes.iter().map(|node| label(node, ZONE).to_owned());
        zones.filter(|zone| !zone.is_empty()).collect()
    };
    let all_zones = zones(&[servers, &able].concat());
    let lacks_zones = !zones(servers).is_empty() && all_zones.len() < ENOUGH;

    let possible = servers.len() + able.len();
    let why = if let Some(node) = ended {
        obstacles.insert(
            0,
            Evidence::new(subject(node), STATUS, text(node, PROMOTION)),
        );
        format!(
            "the promotion of {} ended as {}",
            named(node),
            text(node, PROMOTION)
        )
    } else if possible < ENOUGH {
        format!("only {possible} of {} nodes can be servers", nodes.len())
    } else if lacks_zones {
        let nodes = servers.iter().chain(&able);
        obstacles.extend(nodes.map(|node| label_of(node, ZONE, label(node, ZONE))));
        format!(
            "a server has a zone, and {} of {ENOUGH} zones have a possible server",
            all_zones.len()
        )
    } else {
        let names: Vec<String> = able.iter().take(MOST).map(|node| named(node)).collect();
        format!("{} could be promoted", names.join(", "))
    };
    let seen = servers
        .iter()
        .map(|node| Evidence::new(subject(node), "role", "server"));
    let mut finding = IncidentFinding::new(Code::NotPromoted, "the cluster", &why)
        .seen(seen)
        .seen(obstacles.iter().take(MOST).cloned());
    if let Some(node) = ended {
        let node = named(node);
        finding.advice = format!(
            "Read the log of Job harvester-system/harvester-promote-{node}, and fix the cause. {}",
            promoting::begin_again(&node)
        );
        finding
            .proof
            .push("Harvester promotes no node until this annotation is removed".to_owned());
    } else if possible < ENOUGH {
        finding.proof.push(
            "Harvester promotes a managed agent if it is Ready and no other condition of it is True, and \
             none at all if that leaves fewer than three servers"
                .to_owned(),
        );
    } else if lacks_zones {
        finding.proof.push(
            "If a server has a zone, Harvester promotes only agents of other zones, and none if there are fewer than three zones"
                .to_owned(),
        );
    } else {
        finding
            .proof
            .push("no condition, label or annotation of the Nodes is in the way".to_owned());
        "Search the log of Deployment harvester-system/harvester for promote-node-controller. The release of Harvester names \
         the image of the promotion's Job: `helm get values harvester -n harvester-system --all`."
            .clone_into(&mut finding.advice);
    }
    finding
}

fn is_server(node: &Value) -> bool {
    let mut roles = ROLES.iter();
    roles.any(|role| label(node, &format!("node-role.kubernetes.io~1{role}")) == "true")
}

fn has_label(node: &Value, key: &str) -> bool {
    node.pointer(&format!("/metadata/labels/{key}")).is_some()
}

fn subject(node: &Value) -> String {
    format!("Node {}", named(node))
}

fn label_of(node: &Value, key: &str, value: &str) -> Evidence {
    let value = if value.is_empty() { "none" } else { value };
    Evidence::new(
        subject(node),
        format!("label {}", key.replace("~1", "/")),
        value,
    )
}

/// Obstacles to the promotion of an agent, apart from those in other nodes.
fn obstacles_of(node: &Value) -> impl Iterator<Item = Evidence> {
    let conditions = Condition::all(node);
    let bad = conditions.filter(|condition| (condition.name == "Ready") != condition.is_true());
    let bad = bad.map(move |condition| {
        let field = format!("condition {}", condition.name);
        let said = format!("{} ({})", condition.status, condition.reason);
        Evidence::new(subject(node), field, said)
    });
    let worker = has_label(node, WORKER).then(|| label_of(node, WORKER, label(node, WORKER)));
    let unmanaged = (!is_managed(node)).then(|| label_of(node, "harvesterhci.io~1managed", ""));
    bad.chain(worker).chain(unmanaged)
}

/// The last changes of a Node that may lead to a promotion.
fn changes(node: &Value) -> impl Iterator<Item = Timestamp> {
    let conditions = Condition::all(node);
    let joined = time(node, "/metadata/creationTimestamp");
    conditions
        .filter_map(|condition| condition.since())
        .chain(joined)
}
