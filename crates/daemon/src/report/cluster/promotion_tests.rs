//! Harvester's promotion together with Windrow: with Windrow's condition on the Nodes, in every state, Harvester
//! promotes the same node as without it.
//!
//! The stand-in for Harvester's decision follows v1.4.0 to v1.9.0-rc6 (`promote_controller.go`); `tests/kubernetes`
//! uses Harvester's own controller.

use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_decide::{NodeRole, Pace, Readiness, Status, StatusReason};
use windrow_model::reasons::Code;
use windrow_plan::rules::Platform;

use super::content::NodeCondition;
use crate::report::publish::sample;

const ENOUGH: usize = 3;
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
const ETCD: &str = "node-role.kubernetes.io/etcd";
const WITNESS: &str = "node-role.harvesterhci.io/witness";
const MANAGEMENT: &str = "node-role.harvesterhci.io/management";
const WORKER: &str = "node-role.harvesterhci.io/worker";
const ZONE: &str = "topology.kubernetes.io/zone";
const MANAGED: &str = "harvesterhci.io/managed";
const PROMOTION: &str = "harvesterhci.io/promote-status";

fn label<'n>(node: &'n Value, name: &str) -> Option<&'n str> {
    node["metadata"]["labels"].get(name)?.as_str()
}

fn promotion(node: &Value) -> &str {
    let status = node["metadata"]["annotations"].get(PROMOTION);
    status.and_then(Value::as_str).unwrap_or_default()
}

fn is_management(node: &Value) -> bool {
    [CONTROL_PLANE, ETCD]
        .iter()
        .any(|role| label(node, role) == Some("true"))
}

/// `Ready` is True, and no other condition is.
fn is_healthy(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions.into_iter().flatten().all(|condition| {
        let is_true = condition["status"] == "True";
        is_true == (condition["type"] == "Ready")
    })
}

fn promoted(nodes: &[Value]) -> Option<&str> {
    let (servers, others): (Vec<&Value>, Vec<&Value>) =
        nodes.iter().partition(|node| is_management(node));
    let is_under_way = nodes
        .iter()
        .any(|node| matches!(promotion(node), "running" | "failed" | "unknown"));
    let is_joining = others.iter().any(|node| promotion(node) == "complete");
    if nodes.len() < ENOUGH || servers.len() >= ENOUGH || is_under_way || is_joining {
        return None;
    }
    let has_witness = servers.iter().any(|node| label(node, WITNESS).is_some());
    let mut witnesses = usize::from(has_witness);
    let mut candidates = others;
    candidates.retain(|node| {
        let fits =
            is_healthy(node) && label(node, MANAGED).is_some() && label(node, WORKER).is_none();
        let is_witness = label(node, WITNESS).is_some();
        let is_chosen = fits && !(is_witness && witnesses > 0);
        witnesses += usize::from(is_chosen && is_witness);
        is_chosen
    });
    if servers.len() + candidates.len() < ENOUGH {
        return None;
    }
    let zones = |nodes: &[&Value]| -> std::collections::BTreeSet<String> {
        nodes
            .iter()
            .filter_map(|node| label(node, ZONE))
            .map(str::to_owned)
            .collect()
    };
    let taken = zones(&servers);
    let both = zones(&[servers, candidates.clone()].concat());
    if !taken.is_empty() && both.len() < ENOUGH {
        return None;
    }
    for preferred in [MANAGEMENT, WITNESS] {
        if candidates
            .iter()
            .any(|node| label(node, preferred).is_some())
        {
            candidates.retain(|node| label(node, preferred).is_some());
            break;
        }
    }
    candidates.retain(|node| {
        taken.is_empty() || label(node, ZONE).is_some_and(|zone| !taken.contains(zone))
    });
    let oldest = |node: &&Value| {
        node["metadata"]["creationTimestamp"]
            .as_str()
            .map(str::to_owned)
    };
    let first = candidates.into_iter().min_by_key(oldest)?;
    first["metadata"]["name"].as_str()
}

/// The nodes that v1.9.0-rc6 counts for the addresses of a storage network.
fn counted_for_storage(nodes: &[Value]) -> usize {
    let is_witness = |node: &Value| label(node, WITNESS) == Some("true");
    nodes
        .iter()
        .filter(|node| !is_witness(node) && is_healthy(node))
        .count()
}

fn node(number: usize, labels: &[(&str, &str)], promotion: Option<&str>, ready: &str) -> Value {
    let mut conditions = vec![
        json!({"type": "MemoryPressure", "status": "False"}),
        json!({"type": "Ready", "status": ready}),
    ];
    let mut all = serde_json::Map::from_iter([(MANAGED.to_owned(), json!("true"))]);
    all.extend(
        labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value))),
    );
    let mut node = json!({"metadata": {"name": format!("n{number}"), "labels": all,
        "creationTimestamp": format!("2026-11-21T20:0{number}:00Z"), "annotations": {}}});
    if is_management(&node) {
        // RKE2 sets it on each member of etcd.
        conditions.push(json!({"type": "EtcdIsVoter", "status": "True"}));
    }
    if let Some(promotion) = promotion {
        node["metadata"]["annotations"][PROMOTION] = json!(promotion);
    }
    node["status"] = json!({"conditions": conditions});
    node
}

#[derive(Debug, Clone, Copy)]
enum Entry {
    Absent,
    Stopped,
    State(Readiness, Option<Pace>, Option<Platform>, bool),
}

fn entries() -> Vec<Entry> {
    let mut entries = vec![Entry::Absent, Entry::Stopped];
    for readiness in [
        Readiness::Ready,
        Readiness::Degraded,
        Readiness::SettingUp,
        Readiness::Failed,
        Readiness::Unknown,
    ] {
        // At its start a daemon knows neither the platform nor the role.
        entries.push(Entry::State(readiness, None, None, false));
        entries.push(Entry::State(
            readiness,
            Some(Pace::Stuck),
            Some(Platform::Harvester),
            true,
        ));
    }
    entries
}

fn with_windrow(node: &Value, entry: Entry) -> Value {
    let role = match (is_management(node), label(node, WITNESS)) {
        (true, Some(_)) => NodeRole::Witness,
        (true, None) => NodeRole::JoinedServer,
        (false, _) => NodeRole::Agent,
    };
    let condition = match entry {
        Entry::Absent => return node.clone(),
        Entry::Stopped => NodeCondition::stopped(),
        Entry::State(readiness, pace, platform, knows_role) => {
            let status = Status {
                readiness,
                pace,
                platform,
                role: if knows_role { role } else { NodeRole::Unknown },
                reason: StatusReason {
                    code: Code::ProbeUnknown,
                    message: "x".to_owned(),
                },
                ..sample("x")
            };
            NodeCondition::from_status(&status, None)
        }
    };
    let patch = condition.patch(Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
    let mut node = node.clone();
    let written = patch["status"]["conditions"].as_array().unwrap().iter();
    let written = written.filter(|condition| condition.get("$patch").is_none());
    let conditions = node["status"]["conditions"].as_array_mut().unwrap();
    conditions.extend(written.cloned());
    node
}

/// The clusters, and the node that Harvester promotes without Windrow.
fn clusters() -> Vec<(&'static str, Vec<Value>, Option<&'static str>)> {
    let first = || node(1, &[(CONTROL_PLANE, "true")], None, "True");
    let agent = |number| node(number, &[], None, "True");
    let zoned = |number, zone| node(number, &[(ZONE, zone)], None, "True");
    let server = |number, zone| {
        let labels = [(CONTROL_PLANE, "true"), (ZONE, zone)];
        node(
            number,
            if zone.is_empty() {
                &labels[..1]
            } else {
                &labels
            },
            None,
            "True",
        )
    };
    let labelled = |number, name| node(number, &[(name, "true")], None, "True");
    vec![
        ("one", vec![first()], None),
        ("two", vec![first(), agent(2)], None),
        ("three", vec![first(), agent(2), agent(3)], Some("n2")),
        (
            "two servers",
            vec![first(), server(2, ""), agent(3)],
            Some("n3"),
        ),
        (
            "three servers",
            vec![first(), server(2, ""), server(3, "")],
            None,
        ),
        (
            "not ready",
            vec![first(), agent(2), node(3, &[], None, "False")],
            None,
        ),
        (
            "under way",
            vec![first(), node(2, &[], Some("running"), "True"), agent(3)],
            None,
        ),
        (
            "joining",
            vec![first(), node(2, &[], Some("complete"), "True"), agent(3)],
            None,
        ),
        (
            "six",
            vec![first(), agent(2), agent(3), agent(4), agent(5), agent(6)],
            Some("n2"),
        ),
        (
            "six, three servers",
            vec![
                first(),
                server(2, ""),
                server(3, ""),
                agent(4),
                agent(5),
                agent(6),
            ],
            None,
        ),
        (
            "three zones",
            vec![server(1, "a"), zoned(2, "a"), zoned(3, "b"), zoned(4, "c")],
            Some("n3"),
        ),
        (
            "two zones",
            vec![server(1, "a"), zoned(2, "a"), zoned(3, "b")],
            None,
        ),
        (
            "witness",
            vec![first(), agent(2), labelled(3, WITNESS)],
            Some("n3"),
        ),
        (
            "witness promoted",
            vec![
                first(),
                agent(2),
                node(
                    3,
                    &[(ETCD, "true"), (WITNESS, "true")],
                    Some("complete"),
                    "True",
                ),
            ],
            Some("n2"),
        ),
        (
            "two witnesses",
            vec![first(), labelled(2, WITNESS), labelled(3, WITNESS)],
            None,
        ),
        (
            "management",
            vec![first(), agent(2), labelled(3, MANAGEMENT)],
            Some("n3"),
        ),
        ("worker", vec![first(), labelled(2, WORKER), agent(3)], None),
    ]
}

#[test]
fn harvester_promotes_the_same_node_with_windrow_in_any_state_on_any_node_as_without() {
    let entries = entries();
    for (name, nodes, expected) in clusters() {
        assert_eq!(promoted(&nodes), expected, "{name}");
        let counted = counted_for_storage(&nodes);
        // Each state on one node, with each other state on all the others.
        for (index, _) in nodes.iter().enumerate() {
            for own in &entries {
                for others in &entries {
                    let written = nodes.iter().enumerate().map(|(at, node)| {
                        with_windrow(node, if at == index { *own } else { *others })
                    });
                    let written: Vec<Value> = written.collect();
                    let place = format!("{name}: n{} {own:?}, others {others:?}", index + 1);
                    assert_eq!(promoted(&written), expected, "{place}");
                    assert_eq!(counted_for_storage(&written), counted, "{place}");
                }
            }
        }
    }
}

#[test]
fn the_condition_of_earlier_versions_kept_harvester_from_promoting() {
    let (_, mut nodes, _) = clusters().swap_remove(2);
    let former = json!({"type": "WindrowBootstrap", "status": "True"});
    let conditions = nodes[2]["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(former);
    assert_eq!(promoted(&nodes), None);
}
