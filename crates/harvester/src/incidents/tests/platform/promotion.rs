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
        vec![
            server(),
            promoting(agent("n2"), "running"),
            agent("n3"),
            job(JUST_NOW, None),
        ],
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

/// The Job of the promotion of n2.
fn job(created: &str, ended: Option<&str>) -> Value {
    let conditions: Vec<Value> = ended
        .iter()
        .map(|ended| json!({"type": ended, "status": "True", "message": "it had its tries", "lastTransitionTime": created}))
        .collect();
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "harvester-promote-n2", "namespace": "harvester-system", "creationTimestamp": created,
            "labels": {"harvesterhci.io/promote-node": "n2"}},
        "status": {"conditions": conditions}})
}

fn cordoned(mut node: Value, since: &str) -> Value {
    node["spec"] = json!({"unschedulable": true, "taints": [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": since}]});
    node
}

#[test]
fn a_promotion_whose_job_does_not_end_is_found_with_its_job_and_what_it_waits_for() {
    let mut running = cordoned(promoting(agent("n2"), "running"), LONG_AGO);
    let look = |node: &Value, more: Vec<Value>| {
        let nodes = vec![server(), node.clone(), agent("n3")];
        cluster([nodes, more].concat())
    };
    let without_machine = look(&running, vec![job(LONG_AGO, None)]);
    let finding = found(&without_machine).remove(0);
    assert_eq!(finding.code, Code::NotPromoted);
    assert_eq!(finding.severity, Severity::Error);
    let since = format!("the promotion of n2 has been running since {LONG_AGO}");
    assert!(finding.message.contains(&since), "{}", finding.message);
    let advice = "`kubectl logs -n harvester-system job/harvester-promote-n2`";
    assert!(finding.advice.contains(advice), "{}", finding.advice);
    let all = told(&finding);
    for expected in [
        "Node n2: annotation harvesterhci.io/promote-status: running",
        "Node n2: spec.unschedulable: true",
        "Node n2: annotation cluster.x-k8s.io/machine: none",
        "Job harvester-system/harvester-promote-n2",
    ] {
        assert!(all.contains(expected), "{expected}: {all}");
    }

    running["metadata"]["annotations"]["cluster.x-k8s.io/machine"] = json!("custom-2");
    let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": {"name": "custom-2",
        "namespace": "fleet-local", "labels": {"rke.cattle.io/etcd-role": "true"}}});
    let waits = json!({"apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane",
        "metadata": {"name": "local", "namespace": "fleet-local"}, "status": {"conditions": [
            {"type": "Reconciled", "status": "Unknown", "message": "configuring etcd node(s) custom-2"}]}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "harvester-promote-n2-x", "namespace": "harvester-system",
        "labels": {"harvesterhci.io/promote-node": "n2"}}, "status": {"phase": "Pending", "startTime": JUST_NOW,
            "containerStatuses": [{"name": "promote", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}});
    let at_rancher = look(&running, vec![job(LONG_AGO, None), machine, waits, pod]);
    // The Node of the server has no Machine here, which is a finding as well.
    let mut findings = found(&at_rancher).into_iter();
    let all = findings.find(|finding| finding.code == Code::NotPromoted);
    let all = told(&all.unwrap());
    for expected in [
        "Machine fleet-local/custom-2: label rke.cattle.io/etcd-role: true",
        "configuring etcd node(s) custom-2",
        "Pod harvester-system/harvester-promote-n2-x: container promote: waiting: ImagePullBackOff",
    ] {
        assert!(all.contains(expected), "{expected}: {all}");
    }
}

#[test]
fn a_promotion_without_a_job_that_runs_is_found_with_the_way_to_begin_again() {
    let annotate = "`kubectl annotate node n2 harvesterhci.io/promote-status-`";
    let running = |since: &str| cordoned(promoting(agent("n2"), "running"), since);
    for (more, expected) in [
        (
            vec![],
            "the promotion of n2 runs, and there is no Job for it",
        ),
        (
            vec![job(LONG_AGO, Some("Failed"))],
            "its Job harvester-system/harvester-promote-n2 has failed",
        ),
    ] {
        let objects = cluster([vec![server(), running(LONG_AGO), agent("n3")], more].concat());
        let finding = found(&objects).remove(0);
        assert!(finding.message.contains(expected), "{}", finding.message);
        assert!(finding.advice.contains(annotate), "{}", finding.advice);
    }
    for nodes in [
        vec![server(), running(JUST_NOW), agent("n3")],
        vec![
            server(),
            running(LONG_AGO),
            agent("n3"),
            job(JUST_NOW, Some("Failed")),
        ],
        vec![
            server(),
            running(LONG_AGO),
            agent("n3"),
            job(LONG_AGO, Some("Complete")),
        ],
        vec![
            server(),
            running(LONG_AGO),
            agent("n3"),
            job(LONG_AGO, None),
            upgrade("UpgradingNodes"),
        ],
    ] {
        assert_eq!(codes(&cluster(nodes.clone())), [""; 0], "{nodes:?}");
    }
}
