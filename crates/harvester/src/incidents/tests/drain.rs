use super::*;

/// virt-api pinned to the only control-plane node, in the middle of its drain.
fn upgrade(state: &str) -> Vec<Value> {
    let pinned = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
        ]}]
    }}});
    let node = |name: &str, labels: Value| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"unschedulable": name == "n1"}, "status": {"allocatable": {"pods": "110"}}
        })
    };
    let pod = |name: &str, on: Value, phase: &str, ready: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "harvester-system", "labels": {"kubevirt.io": "virt-api"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "virt-api", "controller": true}]},
            "spec": {"nodeName": on, "affinity": pinned},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
        })
    };
    vec![
        json!({
            "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
            "metadata": {"name": "hvst-upgrade-x", "namespace": "harvester-system",
                "labels": {"harvesterhci.io/latestUpgrade": "true"}},
            "status": {"nodeStatuses": {"n1": {"state": state}, "n2": {"state": "Images preloaded"}}}
        }),
        node(
            "n1",
            json!({"node-role.kubernetes.io/control-plane": "true"}),
        ),
        node("n2", json!({})),
        pod("virt-api-1", json!("n1"), "Running", "True"),
        pod("virt-api-2", json!(null), "Pending", "False"),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "virt-api-pdb", "namespace": "harvester-system"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"kubevirt.io": "virt-api"}}},
            "status": {"expectedPods": 2, "desiredHealthy": 1, "currentHealthy": 1, "disruptionsAllowed": 0}
        }),
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "pre-drain-n1", "namespace": "harvester-system", "labels": {
                "harvesterhci.io/upgrade": "hvst-upgrade-x",
                "harvesterhci.io/upgradeJobType": "pre-drain", "harvesterhci.io/node": "n1"}},
            "status": {"completionTime": "2026-05-01T10:00:00Z"}
        }),
        json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
            "metadata": {"name": "kubevirt", "namespace": "harvester-system", "uid": "k1"}, "spec": {}
        }),
    ]
}

#[test]
fn pre_drained_with_a_proof_is_the_incident_and_kubevirts_cure_comes_with_it() {
    let objects = cluster(upgrade("Pre-drained"));
    assert_eq!(codes(&objects), ["drain-blocked"]);
    let finding = diagnose(&objects, now()).findings.remove(0);
    assert!(finding.message.contains("Node n1"), "{}", finding.message);
    assert!(
        finding
            .evidence
            .iter()
            .any(|one| one.value == "2026-05-01T10:00:00Z")
    );
    assert!(
        finding
            .proof
            .iter()
            .any(|line| line.contains("n2: node affinity asks for"))
    );
    let cure = finding.cure.unwrap();
    let patch = cure.steps[0].request.as_ref().unwrap();
    assert_eq!(
        patch.body,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "k1"},
            {"op": "test", "path": "/spec/infra", "value": null},
            {"op": "add", "path": "/spec/infra", "value": {"nodePlacement": {}}}
        ])
    );
    // The budgets are waited for, never deleted.
    assert!(cure.steps[1].request.is_none());
    assert!(
        cure.steps[1]
            .goal
            .path()
            .ends_with("/poddisruptionbudgets/virt-api-pdb")
    );
}

#[test]
fn a_drain_that_may_still_finish_is_no_incident() {
    // Not drained yet: `windrow drain-check` is there for the day before.
    assert_eq!(codes(&cluster(upgrade("Pre-draining"))), [""; 0]);
    // A second control-plane node: the replacement is only waited for.
    let mut slow = upgrade("Pre-drained");
    slow[2]["metadata"]["labels"] = json!({"node-role.kubernetes.io/control-plane": "true"});
    assert_eq!(codes(&cluster(slow)), [""; 0]);
    // An upgrade of long ago.
    let mut old = upgrade("Pre-drained");
    old[0]["metadata"]["labels"] = json!({});
    assert_eq!(codes(&cluster(old)), [""; 0]);
}

#[test]
fn where_kubevirt_is_placed_freely_already_or_something_else_blocks_there_is_no_cure() {
    let mut placed = upgrade("Pre-drained");
    placed[7]["spec"] = json!({"infra": {"nodePlacement": {}}});
    let finding = diagnose(&cluster(placed), now()).findings.remove(0);
    assert!(finding.cure.is_none());
    let mut other = upgrade("Pre-drained");
    other[5]["metadata"]["name"] = json!("site-pdb");
    let finding = diagnose(&cluster(other), now()).findings.remove(0);
    assert!(finding.cure.is_none());
}
