//! Level 4: what Harvester's own nodedrain controller does with each node that is to go into maintenance mode, and what
//! `windrow drain-check` says of the same nodes.
//!
//! KubeVirt is played: its pods are evicted as all others are.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::process::Command;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, HarvesterControllers, Spec, Who, eventually};
use support::objects::{
    BUDGET, Gvk, INSTANCE_MANAGER, NODE, POD, VM, VMI, VOLUME, api, field, make, namespace, patch,
    play_kubelets, start, status,
};

use crate::support;

const REPLICA: Gvk = ("longhorn.io", "v1beta2", "Replica");
const LONGHORN: &str = "longhorn-system";
const REQUESTED: &str = "harvesterhci.io/drain-requested";
const FORCED: &str = "harvesterhci.io/drain-forced";
const STATUS: &str = "harvesterhci.io/maintain-status";
const STRATEGY: &str = "harvesterhci.io/maintain-mode-strategy";
const SERVER: &str = "node-role.kubernetes.io/control-plane";

/// What Harvester does with a node that is to go into maintenance mode.
enum Does {
    /// It drains the node.
    Accepts,
    /// The same, if it is forced to.
    AcceptsForced,
    /// It takes the request away, with these words.
    Refuses(&'static str),
    /// It keeps the request and tries again, with these words.
    Waits(&'static str),
}

use Does::{Accepts, AcceptsForced, Refuses, Waits};

/// Agents, each in a state of its own: what Harvester does, and what Windrow says of a drain and of maintenance mode.
const AGENTS: &[(&str, Does, &str, &str)] = &[
    (
        "device",
        Refuses("default/device cannot be migrated due to HostDevice"),
        "blocked",
        "refused",
    ),
    // A drain shuts this VM down; Harvester does not without force.
    (
        "mortal",
        Refuses("default/mortal cannot be migrated due to HostDevice"),
        "finishes",
        "refused",
    ),
    (
        "pinned",
        Refuses("default/pinned cannot be migrated due to NodeSchedulingRequirementsNotMet"),
        "blocked",
        "refused",
    ),
    (
        "replica",
        Refuses("default/pinned cannot be migrated due to LastHealthyReplica"),
        "blocked",
        "refused",
    ),
    // Longhorn lists a VM that does not run any more.
    (
        "former",
        Waits("error getting non-migratable VMs"),
        "finishes",
        "unknown",
    ),
    ("empty", Accepts, "finishes", "accepted"),
    ("migrates", Accepts, "finishes", "accepted"),
    // Harvester stops this VM itself: its label asks for that.
    ("stopped", Accepts, "finishes", "accepted"),
    ("restarts", Accepts, "finishes", "accepted"),
    // Its label has a value that Harvester does not know, which is as good as none.
    ("odd", Accepts, "finishes", "accepted"),
    // By force Harvester stops only VMs that it cannot migrate, and still does not evict this one.
    ("kept", AcceptsForced, "finishes", "accepted"),
    // No other node has room for this VM; Harvester does not look at that.
    ("large", Accepts, "blocked", "accepted"),
    ("forced", AcceptsForced, "blocked", "refused"),
    // The last one, because Harvester looks at no other node for four minutes.
    (
        "budget",
        Waits("Cannot evict pod as it would violate the pod's disruption budget"),
        "blocked",
        "accepted",
    ),
];

async fn make_node(client: &Client, name: &str, mut labels: Value) {
    labels["harvesterhci.io/managed"] = json!("true");
    support::objects::node(client, name, labels, json!([])).await;
}

/// A VM that runs on the node of its name.
async fn make_vm(client: &Client, name: &str, strategy: &str, migratable: &str, pinned: bool) {
    let selector = if pinned {
        json!({"kubernetes.io/hostname": name})
    } else {
        json!({})
    };
    let label = match name {
        "stopped" | "kept" => json!({STRATEGY: "Shutdown"}),
        "restarts" => json!({STRATEGY: "ShutdownAndRestartAfterEnable"}),
        "odd" => json!({STRATEGY: "Later"}),
        _ => json!({}),
    };
    let cpu = if name == "large" { "5" } else { "1" };
    // KubeVirt gives each VM an annotation.
    let annotations = json!({"kubevirt.io/latest-observed-api-version": "v1"});
    let vm = json!({"metadata": {"name": name, "labels": label, "annotations": annotations}, "spec": {"runStrategy": "RerunOnFailure",
        "template": {"spec": {"domain": {"devices": {}}}}}});
    make(client, VM, "default", vm).await;
    let owner = |version: &str, kind: &str| json!([{"apiVersion": version, "kind": kind, "name": name, "uid": "1", "controller": true}]);
    let with = |more: Value| {
        let mut labels = label.clone();
        labels
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        labels
    };
    let instance = json!({
        "metadata": {"name": name, "labels": with(json!({"kubevirt.io/nodeName": name})),
            "ownerReferences": owner("kubevirt.io/v1", "VirtualMachine")},
        "spec": {"domain": {"devices": {}}, "evictionStrategy": strategy, "nodeSelector": selector},
        "status": {"phase": "Running", "nodeName": name, "conditions": [
            {"type": "LiveMigratable", "status": migratable, "reason": if migratable == "True" { "" } else { "HostDevice" }}]}});
    make(client, VMI, "default", instance).await;
    let pod = json!({
        "metadata": {"name": format!("virt-launcher-{name}"), "labels": with(json!({"harvesterhci.io/vmName": name})),
            "ownerReferences": owner("kubevirt.io/v1", "VirtualMachineInstance")},
        "spec": {"nodeName": name, "nodeSelector": selector, "containers": [
            {"name": "compute", "image": "none", "resources": {"requests": {"cpu": cpu}}}]}});
    make(client, POD, "default", pod).await;
}

/// A volume whose only running replica is on a node, and that a VM uses.
async fn make_volume(client: &Client, name: &str, node: &str, user: &str) {
    let volumes = api(client, VOLUME, LONGHORN);
    make(
        client,
        VOLUME,
        LONGHORN,
        json!({"metadata": {"name": name}}),
    )
    .await;
    let users = json!([{"workloadName": user, "workloadType": "VirtualMachineInstance"}]);
    let attached = json!({"state": "attached", "kubernetesStatus": {"namespace": "default", "workloadsStatus": users}});
    status(&volumes, name, attached).await;
    let replica = json!({"metadata": {"name": format!("{name}-r")}, "spec": {"volumeName": name, "nodeID": node,
        "healthyAt": "2026-11-21T20:00:00Z", "desireState": "running"}});
    make(client, REPLICA, LONGHORN, replica).await;
    let started = json!({"started": true, "currentState": "running"});
    status(
        &api(client, REPLICA, LONGHORN),
        &format!("{name}-r"),
        started,
    )
    .await;
}

/// A pod that no controller owns, on the node of its name, with a budget that lets it go never.
async fn make_guarded_pod(client: &Client, namespace: &str, pod: &str, node: &str, owners: Value) {
    let labels = json!({"app": pod});
    let object = json!({"metadata": {"name": pod, "labels": labels, "ownerReferences": owners},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "none"}]}});
    make(client, POD, namespace, object).await;
    let budget = json!({"metadata": {"name": pod},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}});
    make(client, BUDGET, namespace, budget).await;
    let counted = json!({"observedGeneration": 1, "expectedPods": 1, "desiredHealthy": 1, "currentHealthy": 1,
        "disruptionsAllowed": 0});
    status(&api(client, BUDGET, namespace), pod, counted).await;
}

async fn furnish(client: &Client) {
    make_node(client, "s1", json!({SERVER: "true"})).await;
    for (name, ..) in AGENTS {
        make_node(client, name, json!({})).await;
    }
    namespace(client, LONGHORN).await;
    for (name, strategy, migratable, pinned) in [
        ("device", "LiveMigrate", "False", false),
        ("mortal", "LiveMigrateIfPossible", "False", false),
        ("pinned", "LiveMigrate", "True", true),
        ("migrates", "LiveMigrate", "True", false),
        ("stopped", "LiveMigrate", "True", false),
        ("restarts", "LiveMigrate", "True", false),
        ("odd", "LiveMigrate", "True", false),
        ("kept", "LiveMigrate", "True", false),
        ("large", "LiveMigrate", "True", false),
        ("forced", "LiveMigrate", "False", false),
    ] {
        make_vm(client, name, strategy, migratable, pinned).await;
    }
    make_volume(client, "disk", "replica", "pinned").await;
    make_volume(client, "old-disk", "former", "gone").await;
    let manager = "instance-manager-replica";
    let owner = json!([{"apiVersion": "longhorn.io/v1beta2", "kind": "InstanceManager", "name": manager, "uid": "1",
        "controller": true}]);
    make_guarded_pod(client, LONGHORN, manager, "replica", owner).await;
    let object =
        json!({"metadata": {"name": manager}, "spec": {"nodeID": "replica", "type": "aio"}});
    make(client, INSTANCE_MANAGER, LONGHORN, object).await;
    let running = json!({"currentState": "running"});
    status(&api(client, INSTANCE_MANAGER, LONGHORN), manager, running).await;
    make_guarded_pod(client, "default", "single", "budget", json!([])).await;
    play_kubelets(client, "default").await;
    play_kubelets(client, LONGHORN).await;
}

fn drain_check(cluster: &Cluster, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("drain-check")
        .args(arguments)
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig(Who::Admin))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// What Windrow says of each node: of a drain, and of maintenance mode.
fn judged(cluster: &Cluster) -> BTreeMap<String, (String, String)> {
    let document = drain_check(cluster, &["--all", "-o", "json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes = document["nodes"].as_array().unwrap().iter();
    nodes
        .map(|node| {
            let answers = (
                text(&node["drain"]),
                text(&node["maintenanceMode"]["answer"]),
            );
            (text(&node["node"]), answers)
        })
        .collect()
}

struct Site<'s> {
    client: &'s Client,
    nodes: Api<DynamicObject>,
    harvester: HarvesterControllers,
}

impl Site<'_> {
    async fn annotation(&self, node: &str, name: &str) -> Value {
        let annotations = field(&self.nodes, node, "/metadata/annotations").await;
        annotations[name].clone()
    }

    /// Asks for maintenance mode as Harvester's dashboard does, and waits until Harvester has done what it is to do.
    async fn ask(&self, node: &str, does: &Does) {
        let mut annotations = json!({REQUESTED: "true"});
        if matches!(does, AcceptsForced) {
            annotations[FORCED] = json!("true");
        }
        let asked = json!({"metadata": {"annotations": annotations}});
        patch(self.client, NODE, "", node, asked).await;
        eventually(
            &format!("Harvester does with {node} as it should"),
            DEADLINE,
            async || {
                let requested = !self.annotation(node, REQUESTED).await.is_null();
                let log = self.harvester.log();
                let says = |words: &str| {
                    let failed = format!("error syncing '{node}': handler node-drain-controller: ");
                    log.lines()
                        .any(|line| line.contains(&failed) && line.contains(words))
                };
                match does {
                    Accepts | AcceptsForced => {
                        play_kubelets(self.client, "default").await;
                        (!requested && self.annotation(node, STATUS).await.is_string())
                            .then_some(())
                    }
                    Refuses(words) => (!requested && says(words)).then_some(()),
                    Waits(words) => {
                        (requested && (says(words) || log.contains(words))).then_some(())
                    }
                }
            },
        )
        .await;
        let cordoned = field(&self.nodes, node, "/spec/unschedulable").await == true;
        let drains = !matches!(does, Refuses(_)) && node != "former";
        assert_eq!(cordoned, drains, "{node}");
    }

    async fn run_strategy(&self, vm: &str) -> Value {
        field(&api(self.client, VM, "default"), vm, "/spec/runStrategy").await
    }

    /// Is the node in maintenance mode? Harvester looks whenever the Node changes.
    async fn is_in_maintenance_mode(&self, node: &str) {
        let mut changes = 0;
        eventually(
            &format!("{node} is in maintenance mode"),
            DEADLINE,
            async || {
                changes += 1;
                let change =
                    json!({"metadata": {"labels": {"example.com/changed": changes.to_string()}}});
                patch(self.client, NODE, "", node, change).await;
                (self.annotation(node, STATUS).await == "completed").then_some(())
            },
        )
        .await;
    }
}

#[tokio::test]
async fn windrow_says_of_each_node_whether_harvesters_own_controller_accepts_maintenance_mode() {
    let kinds = [VM, VMI, VOLUME, REPLICA, INSTANCE_MANAGER].map(|kind| (kind, "Namespaced"));
    let Some((cluster, client)) = start(Spec::default(), &kinds).await else {
        return;
    };
    furnish(&client).await;
    let said = judged(&cluster);
    for (name, _, drain, mode) in AGENTS {
        let expected = ((*drain).to_owned(), (*mode).to_owned());
        assert_eq!(said[*name], expected, "{name}");
    }
    for (node, expected) in [
        (
            "stopped",
            "Harvester stops it before the drain and does not start it again (label: Shutdown)",
        ),
        (
            "restarts",
            "starts it again when the node is in maintenance mode (label: ShutdownAndRestartAfterEnable)",
        ),
        (
            "odd",
            "the label Later has no known value. From v1.8.0 on Harvester migrates the VM.",
        ),
    ] {
        let document: Value =
            serde_json::from_str(&drain_check(&cluster, &[node, "-o", "json"])).unwrap();
        let labelled = document["maintenanceMode"]["labelled"].to_string();
        assert!(labelled.contains(expected), "{labelled}");
    }
    let refused = |name: &str| judged(&cluster)[name].1 == "refused";
    let Some(harvester) = cluster.harvester_controllers(&["nodedrain", "maintain"]) else {
        return;
    };
    let nodes = api(&client, NODE, "");
    let site = Site {
        client: &client,
        nodes,
        harvester,
    };
    let table = drain_check(&cluster, &["s1"]);
    let end = "Harvester refuses maintenance mode for this node (rules of v1.8.2):\n  it is the only server\n";
    assert!(table.ends_with(end), "{table}");
    site.ask("s1", &Refuses("single controlplane cluster"))
        .await;
    for (name, does, ..) in &AGENTS[..AGENTS.len() - 1] {
        site.ask(name, does).await;
    }
    for (vm, strategy) in [
        ("device", "RerunOnFailure"),
        ("migrates", "RerunOnFailure"),
        ("stopped", "Halted"),
        ("restarts", "Halted"),
        ("odd", "RerunOnFailure"),
        ("kept", "RerunOnFailure"),
        ("forced", "Halted"),
    ] {
        assert_eq!(site.run_strategy(vm).await, strategy, "{vm}");
    }
    let pods: Api<DynamicObject> = api(&client, POD, "default");
    for (vm, is_left) in [
        ("stopped", true),
        ("restarts", true),
        ("kept", true),
        ("odd", false),
        ("forced", false),
    ] {
        let pod = pods.get_opt(&format!("virt-launcher-{vm}")).await.unwrap();
        assert_eq!(pod.is_some(), is_left, "{vm}");
    }

    // The mode is complete once no VM is on the node.
    site.is_in_maintenance_mode("empty").await;
    assert_eq!(site.annotation("migrates", STATUS).await, "running");
    let instances = api(&client, VMI, "default");
    instances
        .delete("migrates", &DeleteParams::default())
        .await
        .unwrap();
    site.is_in_maintenance_mode("migrates").await;
    instances
        .delete("restarts", &DeleteParams::default())
        .await
        .unwrap();
    site.is_in_maintenance_mode("restarts").await;
    assert_eq!(site.run_strategy("restarts").await, "RerunOnFailure");
    assert_eq!(site.annotation("kept", STATUS).await, "running");

    // Harvester counts servers: exactly three outside maintenance mode, a witness included.
    let another = Refuses("another controlplane is already in maintenance mode");
    make_node(&client, "s2", json!({SERVER: "true"})).await;
    assert!(refused("s1"));
    site.ask("s1", &another).await;
    make_node(
        &client,
        "s3",
        json!({"node-role.kubernetes.io/etcd": "true"}),
    )
    .await;
    make_node(&client, "s4", json!({SERVER: "true"})).await;
    assert!(refused("s1"));
    site.ask("s1", &another).await;
    site.nodes
        .delete("s4", &DeleteParams::default())
        .await
        .unwrap();
    assert!(!refused("s1"));
    site.ask("s1", &Accepts).await;
    site.is_in_maintenance_mode("s1").await;
    assert!(refused("s2"));
    site.ask("s2", &another).await;

    let (name, does, ..) = AGENTS.last().unwrap();
    site.ask(name, does).await;
}
