//! Tests which objects the cures of an upgrade accept, and which similar ones they ignore.

use super::drained::{budget, cordoned, manager};
use super::nodes::plan;
use super::*;

/// The request paths of the cure in the only finding; empty without a cure.
fn requests(objects: Vec<Value>) -> Vec<String> {
    let mut found = diagnose(&cluster(objects), now()).findings;
    let cure = found.remove(0).cure;
    assert!(found.is_empty(), "{found:?}");
    let steps = cure.map(|cure| cure.steps).unwrap_or_default();
    let requests = steps.into_iter().filter_map(|step| step.request);
    requests.map(|request| request.say()).collect()
}

#[test]
fn an_engines_process_is_ended_by_its_own_orphan_alone() {
    let orphan = |name: &str, node: &str, kind: &str, of: &str| {
        json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Orphan",
            "metadata": {"name": name, "namespace": "longhorn-system", "uid": name},
            "spec": {"nodeID": node, "orphanType": kind, "parameters": {"InstanceName": of}}})
    };
    let others = || {
        vec![
            cordoned("11:40"),
            manager(),
            budget(),
            version("v1.8.2"),
            orphan("elsewhere", "n2", "engine-instance", "pvc-1-e-0"),
            orphan("replica", "n1", "replica-instance", "pvc-1-e-0"),
            orphan("other", "n1", "engine-instance", "pvc-2-e-0"),
        ]
    };
    assert_eq!(requests(others()), [""; 0]);
    let mut all = others();
    all.push(orphan("mine", "n1", "engine-instance", "pvc-1-e-0"));
    let mine = "DELETE /apis/longhorn.io/v1beta2/namespaces/longhorn-system/orphans/mine";
    assert_eq!(requests(all), [mine]);
}

#[test]
fn the_pod_that_is_made_again_is_system_upgrade_controllers_alone() {
    let pod = |name: &str, namespace: &str, controller: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "uid": name,
            "labels": {"upgrade.cattle.io/controller": controller}}, "status": {"phase": "Running"}})
    };
    let objects = vec![
        plan(json!({})),
        node("n1"),
        pod("rancher-1", "cattle-system", ""),
        pod("suc-1", "elsewhere", "system-upgrade-controller"),
        pod("suc-2", "cattle-system", "system-upgrade-controller"),
    ];
    let suc = "DELETE /api/v1/namespaces/cattle-system/pods/suc-2";
    assert_eq!(requests(objects), [suc]);
}
