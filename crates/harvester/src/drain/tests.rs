use serde_json::{Value, json};

use super::*;
use crate::objects::KindListing;

struct Build(Objects);

impl Build {
    fn new(nodes: &[(&str, Value)]) -> Self {
        let mut objects = Objects::default();
        for kind in KINDS {
            objects.insert(kind.group_kind(), KindListing::Objects(Vec::new()));
        }
        for (name, labels) in nodes {
            let mut labels = labels.clone();
            labels["kubernetes.io/hostname"] = json!(name);
            objects.add(json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
            }));
        }
        Self(objects)
    }

    fn plain(nodes: &[&str]) -> Self {
        let nodes: Vec<(&str, Value)> = nodes.iter().map(|name| (*name, json!({}))).collect();
        Self::new(&nodes)
    }

    /// A pod of a controller, ready if it has a node.
    fn pod(&mut self, name: &str, on: &str, owner: &str, spec: Value) -> &mut Self {
        let mut spec = spec;
        let ready = if on.is_empty() { "False" } else { "True" };
        if !on.is_empty() {
            spec["nodeName"] = json!(on);
        }
        let app = name.rsplit_once('-').map_or(name, |(app, _)| app);
        let owners = match owner {
            "" => json!([]),
            kind => json!([{"kind": kind, "name": app, "controller": true}]),
        };
        self.0.add(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "ns", "labels": {"app": app}, "ownerReferences": owners},
            "spec": spec,
            "status": {
                "phase": if on.is_empty() { "Pending" } else { "Running" },
                "conditions": [{"type": "Ready", "status": ready}]
            }
        }));
        self
    }

    fn budget(&mut self, app: &str, least: i64, expected: i64) -> &mut Self {
        self.0.add(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("{app}-pdb"), "namespace": "ns", "generation": 1},
            "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": app}}},
            "status": {"observedGeneration": 1, "expectedPods": expected, "desiredHealthy": least}
        }));
        self
    }

    fn check(&self, node: &str) -> DrainCheck {
        check(&self.0, node, Timestamp::UNIX_EPOCH)
    }
}

fn on_control_plane() -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
        ]}]
    }}}})
}

#[test]
fn kubevirt_pinned_to_the_only_control_plane_node_blocks_with_the_proof() {
    let server = json!({"node-role.kubernetes.io/control-plane": "true"});
    let mut build = Build::new(&[("n1", server), ("n2", json!({}))]);
    build
        .pod("virt-api-1", "n1", "ReplicaSet", on_control_plane())
        .pod("virt-api-2", "n1", "ReplicaSet", on_control_plane())
        .budget("virt-api", 1, 2);
    let checked = build.check("n1");
    assert_eq!(checked.drain, Drain::Blocked);
    // One of them may be evicted; its replacement has no node, and so the other stays.
    let blocked: Vec<&PodDrain> = checked.blocked().collect();
    assert_eq!(blocked.len(), 1);
    let proof = blocked[0].because.join("\n");
    assert!(
        proof.contains(
            "ns/virt-api-pdb (minAvailable 1): 1 of 2 pods must be healthy, and 1 are in the end"
        ),
        "{proof}"
    );
    assert!(
        proof.contains("n2: node affinity asks for node-role.kubernetes.io/control-plane"),
        "{proof}"
    );
    // The worker's drain does not affect it.
    assert_eq!(build.check("n2").drain, Drain::Finishes);
}

#[test]
fn the_same_without_the_pin_or_with_a_second_control_plane_node_finishes() {
    let server = json!({"node-role.kubernetes.io/control-plane": "true"});
    for (spec, other) in [(json!({}), json!({})), (on_control_plane(), server.clone())] {
        let mut build = Build::new(&[("n1", server.clone()), ("n2", other)]);
        build
            .pod("virt-api-1", "n1", "ReplicaSet", spec.clone())
            .pod("virt-api-2", "n1", "ReplicaSet", spec)
            .budget("virt-api", 1, 2);
        let checked = build.check("n1");
        assert_eq!(checked.drain, Drain::Finishes, "{checked:?}");
        assert!(
            checked
                .pods
                .iter()
                .all(|pod| pod.place.as_deref() == Some("n2"))
        );
    }
}

#[test]
fn half_drained_already_the_proof_is_the_same() {
    let server = json!({"node-role.kubernetes.io/control-plane": "true"});
    let mut build = Build::new(&[("n1", server), ("n2", json!({}))]);
    build
        .pod("virt-api-2", "n1", "ReplicaSet", on_control_plane())
        .pod("virt-api-3", "", "ReplicaSet", on_control_plane())
        .budget("virt-api", 1, 2);
    let checked = build.check("n1");
    assert_eq!(checked.drain, Drain::Blocked);
    let proof = checked.pods[0].because.join("\n");
    assert!(
        proof.contains("no other node takes ns/virt-api-3"),
        "{proof}"
    );
}

#[test]
fn one_replica_that_must_always_be_there_blocks_wherever_it_could_run() {
    let mut build = Build::plain(&["n1", "n2"]);
    build
        .pod("web-1", "n1", "ReplicaSet", json!({}))
        .budget("web", 1, 1);
    let checked = build.check("n1");
    assert_eq!(checked.drain, Drain::Blocked);
    assert!(
        checked.pods[0]
            .why
            .contains("even with every pod healthy: 1 of 1"),
        "{checked:?}"
    );
    // Two replicas, one of them elsewhere: it is evicted.
    let mut build = Build::plain(&["n1", "n2"]);
    build
        .pod("web-1", "n1", "ReplicaSet", json!({}))
        .pod("web-2", "n2", "ReplicaSet", json!({}))
        .budget("web", 1, 2);
    assert_eq!(build.check("n1").drain, Drain::Finishes);
}

#[test]
fn what_waits_for_a_pod_to_become_ready_is_unknown_not_blocked() {
    let mut build = Build::plain(&["n1", "n2"]);
    build
        .pod("web-1", "n1", "ReplicaSet", json!({}))
        .budget("web", 1, 2);
    // Bound, and not ready yet.
    build.0.add(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-2", "namespace": "ns", "labels": {"app": "web"}},
        "spec": {"nodeName": "n2"}, "status": {"phase": "Running"}
    }));
    let checked = build.check("n1");
    assert_eq!(checked.drain, Drain::Unknown);
    assert!(
        checked.pods[0].why.contains("waits for ns/web-2 on n2"),
        "{checked:?}"
    );
}

#[test]
fn a_node_that_is_not_ready_now_is_no_proof_and_one_that_is_kept_for_others_is() {
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    let passing = "node.kubernetes.io/not-ready";
    for (taints, drain) in [
        (vec![taint(passing)], Drain::Unknown),
        (vec![taint("dedicated")], Drain::Blocked),
        (vec![taint(passing), taint("dedicated")], Drain::Blocked),
    ] {
        let mut build = Build::plain(&["n1"]);
        build.0.add(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}, "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
        }));
        build
            .pod("web-1", "n1", "ReplicaSet", json!({}))
            .pod("web-2", "n1", "ReplicaSet", json!({}))
            .budget("web", 1, 2);
        let checked = build.check("n1");
        assert_eq!(checked.drain, drain, "{checked:?}");
        let is_named = checked
            .pods
            .iter()
            .any(|pod| pod.why.contains("n2 would take it"));
        assert_eq!(is_named, drain == Drain::Unknown, "{checked:?}");
    }
}

#[test]
fn what_fits_alone_but_not_beside_the_others_is_unknown() {
    let big = json!({"containers": [{"resources": {"requests": {"cpu": "3"}}}]});
    let mut build = Build::plain(&["n1", "n2"]);
    build
        .pod("a-1", "n1", "StatefulSet", big.clone())
        .pod("a-2", "n1", "StatefulSet", big)
        .budget("a", 1, 2);
    // The first pod to be evicted takes the place; then the other may be evicted, and has none.
    let checked = build.check("n1");
    assert_eq!(checked.drain, Drain::Finishes, "{checked:?}");
    let homeless: Vec<&PodDrain> = checked
        .pods
        .iter()
        .filter(|pod| pod.place.is_none())
        .collect();
    assert_eq!(homeless.len(), 1);
    assert!(homeless[0].because[0].contains("no other node takes its replacement"));
    assert!(homeless[0].because[1].contains("n2: too little cpu"));
}

#[test]
fn two_budgets_on_one_pod_block_it() {
    let mut build = Build::plain(&["n1", "n2"]);
    build
        .pod("web-1", "n1", "ReplicaSet", json!({}))
        .pod("web-2", "n2", "ReplicaSet", json!({}))
        .budget("web", 1, 2)
        .budget("web", 1, 2);
    let checked = build.check("n1");
    assert_eq!(checked.drain, Drain::Blocked);
    assert!(checked.pods[0].why.contains("more than one budget"));
}

#[test]
fn daemons_static_and_ended_pods_are_left_alone_and_bare_pods_are_named() {
    let mut build = Build::plain(&["n1"]);
    build
        .pod("agent-1", "n1", "DaemonSet", json!({}))
        .pod("bare", "n1", "", json!({}));
    build.0.add(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "etcd-n1", "namespace": "kube-system", "annotations": {"kubernetes.io/config.mirror": "x"}},
        "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}
    }));
    build.0.add(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "done", "namespace": "ns"},
        "spec": {"nodeName": "n1"}, "status": {"phase": "Succeeded"}
    }));
    let checked = build.check("n1");
    assert_eq!((checked.drain, checked.ignored), (Drain::Finishes, 3));
    assert!(checked.pods[0].because[0].contains("--force"));
}

#[test]
fn a_list_that_was_refused_or_a_budget_without_a_status_makes_the_answer_unknown() {
    let mut build = Build::plain(&["n1", "n2"]);
    build
        .pod("web-1", "n1", "ReplicaSet", json!({}))
        .budget("web", 1, 1);
    let mut fresh = build.0.all(ObjectKind::BUDGET).unwrap()[0].clone();
    fresh["metadata"]["generation"] = json!(2);
    build.0.insert(
        ObjectKind::BUDGET.group_kind(),
        KindListing::Objects(vec![fresh]),
    );
    assert_eq!(build.check("n1").drain, Drain::Unknown);
    build.0.insert(
        ObjectKind::BUDGET.group_kind(),
        KindListing::Unknown("403".into()),
    );
    let checked = build.check("n1");
    assert_eq!(checked.drain, Drain::Unknown);
    assert!(checked.why.contains("403"));
    assert!(Build::plain(&["n1"]).check("n9").why.contains("no node n9"));
}

fn machine(build: &mut Build, strategy: &str, migratable: &str) {
    build.pod(
        "virt-launcher-vm1",
        "n1",
        "",
        json!({"nodeSelector": {"kubevirt.io/schedulable": "true"}}),
    );
    let mut pods = build.0.all(ObjectKind::POD).unwrap().to_vec();
    let last = pods.len() - 1;
    pods[last]["metadata"]["ownerReferences"] =
        json!([{"kind": "VirtualMachineInstance", "name": "vm1", "controller": true}]);
    build
        .0
        .insert(ObjectKind::POD.group_kind(), KindListing::Objects(pods));
    build.0.add(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm1", "namespace": "ns"}, "spec": {"evictionStrategy": strategy},
        "status": {"conditions": [{"type": "LiveMigratable", "status": migratable, "message": "host devices"}]}
    }));
}

#[test]
fn a_machine_migrates_is_shut_down_or_blocks_as_its_eviction_strategy_says() {
    let able = json!({"kubevirt.io/schedulable": "true"});
    let cases = [
        ("LiveMigrate", "True", able.clone(), Drain::Finishes),
        ("LiveMigrate", "True", json!({}), Drain::Blocked),
        ("LiveMigrate", "False", able.clone(), Drain::Blocked),
        (
            "LiveMigrateIfPossible",
            "False",
            able.clone(),
            Drain::Finishes,
        ),
        ("", "False", able.clone(), Drain::Finishes),
        ("External", "True", able.clone(), Drain::Unknown),
    ];
    for (strategy, migratable, other, expected) in cases {
        let mut build = Build::new(&[("n1", able.clone()), ("n2", other)]);
        machine(&mut build, strategy, migratable);
        // The budget of the VM is not enough to decide.
        build.budget("virt-launcher", 1, 1);
        assert_eq!(build.check("n1").drain, expected, "{strategy} {migratable}");
    }
}

#[test]
fn of_all_nodes_a_blocked_one_is_the_worst_and_an_unknown_one_comes_next() {
    let mut build = Build::plain(&["n1", "n2"]);
    let drains = |build: &Build| {
        let all = check_all(&build.0, Timestamp::UNIX_EPOCH);
        let nodes: Vec<Drain> = all.nodes.iter().map(|node| node.drain).collect();
        (all.drain, nodes)
    };
    let (fine, unknown, blocked) = (Drain::Finishes, Drain::Unknown, Drain::Blocked);
    assert_eq!(drains(&build), (fine, vec![fine, fine]));
    // Its budget counts a pod that does not exist yet.
    build
        .pod("api-1", "n1", "ReplicaSet", json!({}))
        .budget("api", 1, 2);
    assert_eq!(drains(&build), (unknown, vec![unknown, fine]));
    build
        .pod("web-1", "n2", "ReplicaSet", json!({}))
        .budget("web", 1, 1);
    assert_eq!(drains(&build), (blocked, vec![unknown, blocked]));
    let kind = ObjectKind::NODE.group_kind();
    build.0.insert(kind, KindListing::Unknown("403".to_owned()));
    assert_eq!(drains(&build), (unknown, Vec::new()));
}

/// harvester#10284: kubectl waits for a pod that is already being deleted, too.
#[test]
fn a_pod_that_should_have_ended_keeps_the_drain_from_an_answer_with_its_name() {
    let now: Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
    let drain = |deleted: &str, owner: &str| {
        let mut build = Build::plain(&["n1", "n2"]);
        let owners = json!([{"kind": owner, "name": "web", "controller": true}]);
        build.0.add(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-1", "namespace": "ns", "deletionTimestamp": deleted, "ownerReferences": owners},
            "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}));
        check(&build.0, "n1", now)
    };
    let hours_ago = "2026-05-01T04:00:00Z";
    for owner in ["ReplicaSet", "VirtualMachineInstance", "InstanceManager"] {
        let overdue = drain(hours_ago, owner);
        assert_eq!(overdue.drain, Drain::Unknown, "{owner}");
        assert_eq!(overdue.pods[0].pod, "ns/web-1");
        assert!(overdue.pods[0].why.contains(hours_ago), "{overdue:?}");
    }
    // It ends at the moment; and a drain leaves the pods of DaemonSets alone.
    assert_eq!(
        drain("2026-05-01T11:55:00Z", "ReplicaSet").drain,
        Drain::Finishes
    );
    assert_eq!(drain(hours_ago, "DaemonSet").drain, Drain::Finishes);
}

#[test]
fn a_machine_with_the_cpu_model_of_its_host_moves_only_to_a_node_that_can_imitate_it() {
    let here = json!({"kubevirt.io/schedulable": "true", "host-model-cpu.node.kubevirt.io/Icelake": "true",
        "host-model-required-features.node.kubevirt.io/vmx": "true"});
    let able = |labels: &[&str]| {
        let mut node = json!({"kubevirt.io/schedulable": "true"});
        labels.iter().for_each(|label| node[*label] = json!("true"));
        node
    };
    let model = "cpu-model-migration.node.kubevirt.io/Icelake";
    let feature = "cpu-feature.node.kubevirt.io/vmx";
    let cases = [
        (here.clone(), able(&[model, feature]), Drain::Finishes),
        (here.clone(), able(&[model]), Drain::Blocked),
        (here, able(&[feature]), Drain::Blocked),
        (able(&[]), able(&[model, feature]), Drain::Unknown),
    ];
    for (own, other, expected) in cases {
        let mut build = Build::new(&[("n1", own.clone()), ("n2", other.clone())]);
        machine(&mut build, "LiveMigrate", "True");
        let mut machines = build.0.all(ObjectKind::VMI).unwrap().to_vec();
        machines[0]["spec"]["domain"] = json!({"cpu": {"model": "host-model"}});
        let listed = KindListing::Objects(machines);
        build.0.insert(ObjectKind::VMI.group_kind(), listed);
        let checked = build.check("n1");
        assert_eq!(checked.drain, expected, "{other} {:?}", checked.pods);
        // After a migration, the pod has the labels that its first node asked for.
        let mut pods = build.0.all(ObjectKind::POD).unwrap().to_vec();
        pods[0]["spec"]["nodeSelector"] = json!({feature: "true"});
        let listed = KindListing::Objects(pods);
        build.0.insert(ObjectKind::POD.group_kind(), listed);
        let expected = match other.get(feature).is_some() {
            true => Drain::Finishes,
            false => Drain::Blocked,
        };
        assert_eq!(build.check("n1").drain, expected, "{own} {other}");
    }
}
