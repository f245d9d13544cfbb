use windrow_model::reasons::Code;

use super::*;

/// virt-api is pinned to the only control-plane node, during the drain of that node.
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
    let objects = cluster(
        upgrade("Pre-drained")
            .into_iter()
            .chain([version("v1.8.2")]),
    );
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
    // The cure waits for the budgets and never deletes them.
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
    // Not drained yet: `windrow drain-check` covers the time before a drain.
    assert_eq!(codes(&cluster(upgrade("Pre-draining"))), [""; 0]);
    // A second control-plane node exists, so the replacement is only slow.
    let mut slow = upgrade("Pre-drained");
    slow[2]["metadata"]["labels"] = json!({"node-role.kubernetes.io/control-plane": "true"});
    assert_eq!(codes(&cluster(slow)), [""; 0]);
    // An old upgrade.
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

/// An upgrade that is Pre-drained on n1, with a remaining pod of this owner.
fn stays(owner: &str, name: &str, more: impl IntoIterator<Item = Value>) -> String {
    let mut objects = upgrade("Pre-drained");
    objects.retain(|object| object["kind"] != "PodDisruptionBudget");
    objects.push(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "longhorn-system", "labels": {"app": "x"},
            "ownerReferences": [{"kind": owner, "name": name, "controller": true}]},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    }));
    objects.extend(more);
    let finding = diagnose(&cluster(objects), now()).findings.remove(0);
    assert_eq!(finding.code, Code::DrainBlocked);
    finding.advice
}

fn strict_budget(name: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "longhorn-system"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
        "status": {"expectedPods": 1, "desiredHealthy": 1}
    })
}

fn instance_manager(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "longhorn.io/v1beta2", "kind": "InstanceManager",
        "metadata": {"name": name, "namespace": "longhorn-system"},
        "spec": {"nodeID": node, "type": "aio"}, "status": {"currentState": "running"}
    })
}

#[test]
fn what_helps_is_told_by_the_pod_and_only_a_budget_that_protects_nothing_is_ever_deleted() {
    let last = json!({
        "apiVersion": "longhorn.io/v1beta2", "kind": "Replica",
        "metadata": {"name": "v-1", "namespace": "longhorn-system"},
        "spec": {"volumeName": "v", "nodeID": "n1", "healthyAt": "2026-01-01T00:00:00Z"},
        "status": {"currentState": "running"}
    });
    let own = [instance_manager("im-1", "n1"), strict_budget("im-1"), last];
    let advice = stays("InstanceManager", "im-1", own);
    assert!(advice.contains("never delete its budget"), "{advice}");
    assert!(advice.contains("number of replicas"), "{advice}");
    assert!(!advice.contains("stop-gap"), "{advice}");

    let another = [
        instance_manager("im-1", "n1"),
        instance_manager("im-2", "n2"),
        strict_budget("im-2"),
    ];
    let advice = stays("InstanceManager", "im-1", another);
    assert!(
        advice.contains("PodDisruptionBudget longhorn-system/im-2 belongs to another node's"),
        "{advice}"
    );

    let advice = stays("ReplicaSet", "db-1", [strict_budget("db")]);
    assert!(
        advice.contains("ask the owner of PodDisruptionBudget longhorn-system/db"),
        "{advice}"
    );
    assert!(!advice.contains("delet"), "{advice}");

    let finding = diagnose(&cluster(upgrade("Pre-drained")), now());
    let advice = &finding.findings[0].advice;
    assert!(
        advice.contains("virt-api-pdb and virt-controller-pdb is"),
        "{advice}"
    );
}

/// KubeVirt's own pods only on the server, as configured by an admin.
fn pinned() -> Value {
    json!({"nodePlacement": {"nodeSelector": {"node-role.kubernetes.io/control-plane": "true"}}})
}

/// The stuck upgrade of a Harvester whose charts Rancher manages. Null means that a value is not set.
fn managed(version: &str, in_values: Value, in_kubevirt: Value) -> Vec<Value> {
    let mut objects = upgrade("Pre-drained");
    if !in_kubevirt.is_null() {
        objects[7]["spec"] = json!({"infra": in_kubevirt});
    }
    let kubevirt = match in_values {
        Value::Null => json!({}),
        infra => json!({"spec": {"infra": infra, "workloadUpdateStrategy": {}}}),
    };
    objects.push(json!({
        "apiVersion": "management.cattle.io/v3", "kind": "ManagedChart",
        "metadata": {"name": "harvester", "namespace": "fleet-local", "uid": "m1"},
        "spec": {"values": {"kubevirt": kubevirt}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}
    }));
    objects.push(json!({
        "apiVersion": "catalog.cattle.io/v1", "kind": "ClusterRepo",
        "metadata": {"name": "harvester-charts"},
        "status": {"conditions": [{"type": "Downloaded", "status": "True"}]}
    }));
    objects.push(json!({
        "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment",
        "metadata": {"name": "mcc-harvester", "namespace": "cluster-fleet-local-local-1a3d67d0a899"},
        "status": {"modifiedStatus": []}
    }));
    objects.push(self::version(version));
    objects
}

fn offered(objects: Vec<Value>) -> Result<Cure, String> {
    let finding = diagnose(&cluster(objects), now()).findings.remove(0);
    finding.cure.ok_or(finding.advice)
}

#[test]
fn a_pin_in_the_charts_values_is_taken_out_there_and_in_the_order_of_what_follows() {
    let cure = offered(managed("v1.8.2", pinned(), pinned())).unwrap();
    let goals: Vec<&str> = cure
        .steps
        .iter()
        .map(|step| step.goal.path().rsplit('/').next().unwrap())
        .collect();
    assert_eq!(
        goals,
        ["mcc-harvester", "kubevirt", "mcc-harvester", "virt-api-pdb"]
    );
    let request = cure.requests_to_try(0)[0];
    let infra = "/spec/values/kubevirt/spec/infra/nodePlacement";
    assert!(
        request
            .path
            .ends_with("/fleet-local/managedcharts/harvester")
    );
    assert_eq!(
        request.body,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "m1"},
            {"op": "test", "path": "/spec/paused", "value": null},
            {"op": "test", "path": infra, "value": pinned()["nodePlacement"]},
            {"op": "replace", "path": infra, "value": {}}
        ])
    );
    let bundle = |infra: Value, observed: u32| {
        json!({"metadata": {"generation": 2},
            "spec": {"helm": {"values": {"kubevirt": {"spec": {"infra": infra}}}}},
            "status": {"observedGeneration": observed, "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let free = json!({"nodePlacement": {}});
    let reached = |step: usize, seen: Value| cure.steps[step].goal.is_reached(Some(&seen));
    assert!(
        !reached(0, bundle(pinned(), 2)),
        "Rancher has not rebuilt it"
    );
    assert!(reached(0, bundle(free.clone(), 1)));
    assert!(!reached(1, json!({"spec": {"infra": pinned()}})));
    assert!(reached(1, json!({"spec": {"infra": free}})));
    assert!(
        !reached(2, bundle(free.clone(), 1)),
        "Ready is of the values before"
    );
    assert!(reached(2, bundle(free.clone(), 2)));
    assert!(!reached(3, json!({"status": {"disruptionsAllowed": 0}})));
    assert!(reached(3, json!({"status": {"disruptionsAllowed": 1}})));
    let saved = &cure.saves[0].object;
    assert_eq!(
        saved.pointer("/spec/values/kubevirt/spec/infra"),
        Some(&pinned())
    );
    let Some(WayBack::Request(back)) = &cure.steps[0].way_back else {
        panic!("{cure:?}")
    };
    let [.., test, restore] = back.body.as_array().unwrap().as_slice() else {
        panic!("{back:?}")
    };
    assert_eq!(test["value"], json!({}));
    assert_eq!(restore["value"], pinned()["nodePlacement"]);
}

#[test]
fn where_the_values_do_not_pin_kubevirt_gets_what_the_chart_gives_it() {
    let path = |objects| offered(objects).map(|cure| cure.requests_to_try(0)[0].path.clone());
    let free = || json!({"nodePlacement": {}});
    let of_kubevirt = "/apis/kubevirt.io/v1/namespaces/harvester-system/kubevirts/kubevirt";
    for (version, in_values) in [
        ("v1.4.2", json!(null)),
        ("v1.8.2", json!(null)),
        ("v1.8.2", free()),
    ] {
        let found = path(managed(version, in_values, pinned())).unwrap();
        assert_eq!(found, of_kubevirt, "{version}");
    }
    // KubeVirt also gets the other values of the chart in addition to the placement, and the way back restores its previous
    // value.
    let in_values = json!({"nodePlacement": {}, "replicas": 3});
    let cure = offered(managed("v1.8.2", in_values.clone(), pinned())).unwrap();
    let written = &cure.requests_to_try(0)[0].body;
    assert_eq!(
        written[2],
        json!({"op": "replace", "path": "/spec/infra", "value": in_values})
    );
    let Some(WayBack::Request(back)) = &cure.steps[0].way_back else {
        panic!("{cure:?}")
    };
    assert_eq!(back.body[2]["value"], pinned());
    // Before v1.4.2 the chart has no value, so a user pinned the pods; for newer minors the value is unknown.
    for (version, why) in [
        ("v1.4.1", "another client set it"),
        ("v1.9.0", "has no data"),
        ("x", "has no data"),
    ] {
        let advice = path(managed(version, json!(null), pinned())).unwrap_err();
        assert!(advice.contains(why), "{version}: {advice}");
    }
}

#[test]
fn the_drain_of_a_version_that_was_not_read_has_no_fix() {
    for (version, why) in [
        ("v1.8.9", "Harvester v1.8.9 were not read"),
        ("v1.9.0", "Harvester v1.9.0 were not read"),
        ("v1.4.2-rc1", "Harvester v1.4.2-rc1 were not read"),
        ("v1.7.3", "the Rancher of Harvester v1.7.3 is unknown"),
        ("master-head", "the version of Harvester is unknown"),
    ] {
        let advice = offered(managed(version, pinned(), pinned())).unwrap_err();
        assert!(advice.contains(why), "{version}: {advice}");
    }
}

#[test]
fn where_neither_says_anything_the_version_decides() {
    // Its candidate had no infra in the chart, but a KubeVirt that pins its pods.
    let advice = offered(managed("v1.4.2-rc1", json!(null), json!(null))).unwrap_err();
    assert!(advice.contains("has no data"), "{advice}");
    // KubeVirt 1.2 does not pin pods by default.
    let advice = offered(managed("v1.4.0", json!(null), json!(null))).unwrap_err();
    assert!(advice.contains("does not pin"), "{advice}");
}

#[test]
fn a_chart_that_is_paused_or_drifted_or_cannot_be_loaded_is_left_alone() {
    let spoiled = |spoil: fn(&mut Vec<Value>)| {
        let mut objects = managed("v1.7.2", pinned(), pinned());
        spoil(&mut objects);
        offered(objects).unwrap_err()
    };
    let why = spoiled(|objects| objects[8]["spec"]["paused"] = json!(true));
    assert!(why.contains("is paused"), "{why}");
    let why = spoiled(|objects| objects[9]["status"] = json!({}));
    assert!(why.contains("not Downloaded"), "{why}");
    let why = spoiled(|objects| {
        objects[8]["status"]["conditions"][0] = json!({"type": "Ready", "status": "False", "message": "ErrApplied(1) [Cluster fleet-local/local: no]"});
    });
    assert!(why.contains("not Ready: ErrApplied(1)"), "{why}");
    // The advice names other drift, but never the patch of a Secret.
    let why = spoiled(|objects| {
        objects[10]["status"]["modifiedStatus"] = json!([
            {"kind": "KubeVirt", "namespace": "harvester-system", "name": "kubevirt"},
            {"kind": "Secret", "namespace": "x", "name": "s", "patch": "{\"data\":\"hidden\"}"},
            {"kind": "ClusterRole", "name": "c"}
        ]);
        // This cure does not fix the drift of another chart.
        objects.push(json!({
            "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment",
            "metadata": {"name": "mcc-other", "namespace": "cluster-fleet-local-local-1a3d67d0a899"},
            "status": {"modifiedStatus": [{"kind": "ConfigMap", "namespace": "x", "name": "other"}]}
        }));
    });
    assert!(
        why.ends_with("put back Secret x/s, ClusterRole c."),
        "{why}"
    );
    // Only the drift of KubeVirt concerns this cure.
    let mut modified = managed("v1.7.2", pinned(), pinned());
    modified[8]["status"]["conditions"][0] = json!({"type": "Ready", "status": "False", "message": "Modified(1) [Cluster fleet-local/local]; kubevirt"});
    assert!(offered(modified).is_ok());
}

#[test]
fn a_chart_that_cannot_be_listed_costs_the_cure_and_not_the_finding() {
    let mut objects = cluster(managed("v1.7.2", pinned(), pinned()));
    let refused = KindListing::Unknown("forbidden".to_owned());
    objects.insert(ObjectKind::MANAGED_CHART.group_kind(), refused);
    let finding = diagnose(&objects, now()).findings.remove(0);
    assert!(finding.cure.is_none());
    assert!(finding.advice.contains("forbidden"), "{}", finding.advice);
}
