//! Drains of VMs that the upgrade itself stops before, and starts again afterwards.

use super::*;

/// A VM that may run on n1 only, and its pod.
fn pinned_machine(release: &str) -> Build {
    let mut build = Build::new(release);
    let spec = json!({"nodeSelector": {"kubernetes.io/hostname": "n1"}});
    build.add(
        "v1",
        "Pod",
        "default/virt-launcher-vm",
        json!({"spec": {"nodeName": "n1", "nodeSelector": spec["nodeSelector"]}, "status": {"phase": "Running"},
            "ownerReferences": [{"kind": "VirtualMachineInstance", "name": "vm", "controller": true}]}),
    );
    build.add(
        "kubevirt.io/v1",
        "VirtualMachineInstance",
        "default/vm",
        json!({"spec": {"nodeSelector": spec["nodeSelector"], "evictionStrategy": "LiveMigrateIfPossible"},
            "status": {"phase": "Running", "nodeName": "n1", "conditions": [{"type": "LiveMigratable", "status": "True"}]}}),
    );
    build
}

fn restore_machines(build: &mut Build) {
    build.setting(json!({"value": "{\"restoreVM\": true}"}));
}

#[test]
fn a_machine_that_the_upgrade_stops_and_starts_again_stops_no_drain() {
    let mut build = pinned_machine("v1.7.0");
    build.is("drains-finish", Fail, "no other node takes the VM");
    restore_machines(&mut build);
    build.is("drains-finish", Pass, "");
    // Before v1.6.0 no upgrade did that.
    let mut build = pinned_machine("v1.5.2");
    restore_machines(&mut build);
    build.is("drains-finish", Fail, "no other node takes the VM");
    // This is unknown for an unread release.
    let mut build = pinned_machine("v1.9.0");
    restore_machines(&mut build);
    build.is("drains-finish", Unknown, "no other node takes the VM");
}

#[test]
fn what_is_no_machine_stops_a_drain_also_where_machines_are_stopped() {
    let mut build = pinned_machine("v1.7.0");
    restore_machines(&mut build);
    build.add("v1", "Pod", "default/web", json!({"labels": {"app": "web"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}));
    build.add(
        "policy/v1",
        "PodDisruptionBudget",
        "default/web",
        json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"expectedPods": 1, "desiredHealthy": 1}}),
    );
    build.is("drains-finish", Fail, "default/web");
}

#[test]
fn with_one_node_beside_witnesses_every_machine_is_stopped_before_its_drain() {
    let mut build = pinned_machine("v1.7.0");
    for witness in ["n2", "n3"] {
        let labels =
            json!({"harvesterhci.io/managed": "true", "node-role.harvesterhci.io/witness": "true"});
        build.node(witness, json!({}), json!({"/labels": labels}));
    }
    build.is("drains-finish", Pass, "");
}
