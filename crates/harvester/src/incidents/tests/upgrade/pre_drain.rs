//! Tests the reasons for a node in Pre-draining: volumes, VMs and budgets.

use super::*;

fn volume(robustness: &str) -> Value {
    json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
        "metadata": {"name": "pvc-1", "namespace": "longhorn-system"}, "spec": {"numberOfReplicas": 3},
        "status": {"robustness": robustness, "conditions": [{"type": "Scheduled", "status": "False",
            "reason": "ReplicaSchedulingFailure", "message": "insufficient storage", "lastTransitionTime": at("10:00")}]}})
}

fn engine(state: &str, rebuild: Value) -> Value {
    json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Engine",
        "metadata": {"name": "pvc-1-e-0", "namespace": "longhorn-system"}, "spec": {"volumeName": "pvc-1", "nodeID": "n2"},
        "status": {"currentState": state, "rebuildStatus": rebuild, "replicaModeMap": {"r-1": "RW", "r-2": "ERR"}}})
}

/// Pre-draining since 10:30, on three nodes.
pub(super) fn pre_draining(more: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let begun = [
        one("Pre-draining"),
        job("pre-drain", "10:30", None),
        node("n1"),
        node("n2"),
        node("n3"),
    ];
    begun.into_iter().chain(more).collect()
}

#[test]
fn a_volume_that_is_not_healthy_and_not_rebuilt_keeps_a_node_in_pre_draining() {
    let (codes, seen) = told(pre_draining([
        volume("degraded"),
        engine("running", json!({})),
    ]));
    assert_eq!(codes, ["pre-drain-waits"]);
    assert!(
        seen.contains("Volume longhorn-system/pvc-1: status.robustness: degraded"),
        "{seen}"
    );
    assert!(
        seen.contains("condition Scheduled: False, ReplicaSchedulingFailure, insufficient storage"),
        "{seen}"
    );
    // With two nodes the writable replicas count, regardless of the state of the volume.
    let mut two = pre_draining([volume("healthy"), engine("running", json!({}))]);
    two.remove(4);
    let (codes, seen) = told(two);
    assert_eq!(codes, ["pre-drain-waits"]);
    assert!(seen.contains("1 replicas are RW, 2 are required"), "{seen}");
}

#[test]
fn a_volume_that_is_rebuilt_or_not_in_use_is_slow_or_healthy() {
    let rebuilds = json!({"tcp://1": {"isRebuilding": true, "progress": 3, "error": ""}});
    nothing(pre_draining([
        volume("degraded"),
        engine("running", rebuilds),
    ]));
    nothing(pre_draining([
        volume("healthy"),
        engine("running", json!({})),
    ]));
    nothing(pre_draining([
        volume("unknown"),
        engine("stopped", json!({})),
    ]));
    let mut early = pre_draining([volume("degraded"), engine("running", json!({}))]);
    early[1] = job("pre-drain", "11:30", None);
    nothing(early);
    let failed = json!({"tcp://1": {"isRebuilding": true, "error": "no route to host"}});
    assert_eq!(
        told(pre_draining([
            volume("degraded"),
            engine("running", failed)
        ]))
        .0,
        ["pre-drain-waits"]
    );
}

fn vmi(name: &str, on: &str) -> Value {
    json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": name, "namespace": "apps", "labels": {"kubevirt.io/nodeName": on}},
        "status": {"phase": "Running"}})
}

fn migration(name: &str, vmi: &str, phase: &str, made: &str) -> Value {
    json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
        "metadata": {"name": name, "namespace": "apps", "creationTimestamp": at(made)},
        "spec": {"vmiName": vmi}, "status": {"phase": phase}})
}

#[test]
fn a_machine_that_does_not_leave_keeps_a_node_in_pre_draining_and_one_that_moves_does_not() {
    let (codes, seen) = told(pre_draining([
        vmi("db", "n1"),
        migration("evac-1", "db", "Running", "10:40"),
        migration("evac-2", "db", "Failed", "10:50"),
    ]));
    assert_eq!(codes, ["pre-drain-waits"]);
    assert!(seen.contains("VirtualMachineInstance apps/db"), "{seen}");
    assert!(
        seen.contains("its migration apps/evac-2 is Failed"),
        "{seen}"
    );
    let (codes, seen) = told(pre_draining([vmi("db", "n1")]));
    assert_eq!(codes, ["pre-drain-waits"]);
    assert!(seen.contains("on n1, without a migration"), "{seen}");
    // One VM migrates and the other one waits for it; and one VM is on another node.
    nothing(pre_draining([
        vmi("db", "n1"),
        vmi("web", "n1"),
        migration("evac-1", "db", "Running", "10:40"),
        migration("evac-2", "web", "Pending", "10:40"),
    ]));
    nothing(pre_draining([vmi("db", "n2")]));
}

#[test]
fn a_budget_of_a_migration_that_has_ended_is_left() {
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "kubevirt-migration-pdb-kubevirt-evacuation-x", "namespace": "apps",
            "labels": {"kubevirt.io/migrationName": "evac-1"}}, "spec": {"minAvailable": 2}});
    let (codes, seen) = told(pre_draining([budget.clone()]));
    assert_eq!(codes, ["pre-drain-waits"]);
    assert!(
        seen.contains("kubevirt-evacuation-x: metadata: it exists; its migration is gone"),
        "{seen}"
    );
    nothing(pre_draining([
        budget,
        migration("evac-1", "db", "Running", "11:00"),
    ]));
}
