//! Tests agents that Harvester does not promote.

use super::*;

const SERVER: &str = "node-role.kubernetes.io/control-plane";

fn node(name: &str, labels: &[&str], conditions: &[(&str, &str)]) -> Value {
    let mut all = json!({"harvesterhci.io/managed": "true"});
    for label in labels {
        let (key, value) = label.split_once('=').unwrap_or((label, "true"));
        all[key] = json!(value);
    }
    let conditions: Vec<Value> = [("Ready", "True"), ("DiskPressure", "False")]
        .iter()
        .chain(conditions)
        .map(|(name, status)| json!({"type": name, "status": status, "reason": "X", "lastTransitionTime": LONG_AGO}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": all, "creationTimestamp": LONG_AGO},
        "status": {"conditions": conditions}})
}

fn promoting(mut node: Value, status: &str) -> Value {
    node["metadata"]["annotations"] = json!({"harvesterhci.io/promote-status": status});
    node
}

fn server() -> Value {
    node("n1", &[SERVER], &[("EtcdIsVoter", "True")])
}

fn agent(name: &str) -> Value {
    node(name, &[], &[])
}

#[test]
fn what_keeps_harvester_from_promoting_is_named_for_each_node() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    let zone = |name: &str, zone: &str| node(name, &[&format!("{ZONE}={zone}")], &[]);
    let zoned_server = node("n1", &[SERVER, &format!("{ZONE}=a")], &[]);
    for (nodes, expected) in [
        (vec![agent("n2"), agent("n3")], "n2, n3 could be promoted"),
        (
            vec![
                agent("n2"),
                node("n3", &[], &[("WindrowBootstrap", "True")]),
            ],
            "Node n3: condition WindrowBootstrap: True (X)",
        ),
        (
            vec![agent("n2"), node("n3", &[], &[("Ready", "Unknown")])],
            "Node n3: condition Ready: Unknown (X)",
        ),
        (
            vec![
                node("n2", &["node-role.harvesterhci.io/witness"], &[]),
                node("n3", &["node-role.harvesterhci.io/witness"], &[]),
            ],
            "Node n3: label node-role.harvesterhci.io/witness: Harvester takes one witness",
        ),
        (
            vec![agent("n2"), promoting(agent("n3"), "failed")],
            "Node n3: annotation harvesterhci.io/promote-status: failed",
        ),
    ] {
        let objects = cluster([vec![server()], nodes].concat());
        assert_eq!(codes(&objects), ["not-promoted"], "{expected}");
        let finding = found(&objects).remove(0);
        let all = format!("{}\n{}", finding.message, told(&finding));
        assert!(all.contains(expected), "{expected}: {all}");
    }
    let zones = cluster([zoned_server.clone(), zone("n2", "a"), agent("n3")]);
    assert!(told(&found(&zones)[0]).contains("Node n3: label topology.kubernetes.io/zone: none"));
}

#[test]
fn nothing_is_found_of_clusters_that_cannot_have_three_servers_or_are_on_their_way() {
    let mut joined = agent("n3");
    joined["metadata"]["creationTimestamp"] = json!(JUST_NOW);
    let worker = node("n3", &["node-role.harvesterhci.io/worker"], &[]);
    let other = |name: &str| {
        let mut node = node(name, &[], &[]);
        node["metadata"]["labels"] = json!({});
        node
    };
    let second = node("n2", &[SERVER], &[]);
    let third = node("n3", &[SERVER], &[]);
    for nodes in [
        vec![server()],
        vec![server(), agent("n2")],
        vec![server(), second, third, agent("n4")],
        vec![server(), agent("n2"), worker],
        vec![server(), agent("n2"), joined],
        vec![server(), promoting(agent("n2"), "running"), agent("n3")],
        vec![server(), promoting(agent("n2"), "complete"), agent("n3")],
        vec![other("n1"), other("n2"), other("n3")],
        vec![
            server(),
            agent("n2"),
            agent("n3"),
            upgrade("UpgradingNodes"),
        ],
    ] {
        assert_eq!(codes(&cluster(nodes.clone())), [""; 0], "{nodes:?}");
    }
}
