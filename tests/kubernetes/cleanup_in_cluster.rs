//! Level 4: what `windrow cleanup` removes from a cluster, and what it leaves for other nodes.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, Spec, Who};
use support::objects::{LEASE, NODE, api, make, status};
use windrow_harvester::node_condition::{ANNOTATION, CONDITION, FORMER_CONDITION};

use crate::support;
use crate::support::as_node::on_its_node;
use crate::support::daemon::can_mount;

const LEASES: [&str; 3] = ["windrow-gates", "windrow-repairs", "windrow-diagnosis"];

/// A server's directory, with both of its credentials and a copy of its boot log.
fn server(cluster: &Cluster) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let put = |place: &str, content: &[u8]| {
        let place = root.path().join(place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    };
    let kubeconfig = |who| fs::read(cluster.kubeconfig(who)).unwrap();
    put(
        "var/lib/rancher/rke2/agent/kubelet.kubeconfig",
        &kubeconfig(Who::Node),
    );
    put("etc/rancher/rke2/rke2.yaml", &kubeconfig(Who::Admin));
    put("oem/windrow-flight.jsonl.gz", b"{}\n");
    put("oem/harvester.config", b"");
    put("var/lib/rancher/windrow/state.json", b"{}");
    root
}

async fn clean_up(root: &Path) -> (String, String) {
    // Below another root, it would not contact the cluster.
    let ran = tokio::process::Command::from(on_its_node(root))
        .arg("cleanup")
        .output()
        .await
        .unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&ran.stdout), text(&ran.stderr))
}

async fn leases_left(client: &Client) -> Vec<&'static str> {
    let leases = api(client, LEASE, "kube-system");
    let mut left = Vec::new();
    for name in LEASES {
        if leases.get_opt(name).await.unwrap().is_some() {
            left.push(name);
        }
    }
    left
}

async fn write_entries(nodes: &Api<DynamicObject>, node: &str, condition: &str) {
    let entry = json!({"type": condition, "status": "Unknown", "lastHeartbeatTime": "2026-11-21T20:00:00Z",
        "lastTransitionTime": "2026-11-21T20:00:00Z"});
    status(nodes, node, json!({"conditions": [entry]})).await;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: "{}"}}}));
    let parameters = PatchParams::default();
    nodes.patch(node, &parameters, &patch).await.unwrap();
}

async fn hold(client: &Client, lease: &str, holder: Option<&str>) {
    let patch = Patch::Merge(json!({"spec": {"holderIdentity": holder}}));
    let leases = api(client, LEASE, "kube-system");
    leases
        .patch(lease, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn cleanup_removes_what_is_of_this_node_and_the_leases_with_the_last_node() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    let nodes = api(&client, NODE, "");
    for name in ["node1", "node2"] {
        make(&client, NODE, "", json!({"metadata": {"name": name}})).await;
    }
    for name in LEASES {
        make(
            &client,
            LEASE,
            "kube-system",
            json!({"metadata": {"name": name}, "spec": {}}),
        )
        .await;
    }
    make(
        &client,
        LEASE,
        "kube-system",
        json!({"metadata": {"name": "theirs"}, "spec": {}}),
    )
    .await;
    let root = server(&cluster);
    let command = "kubectl delete lease -n kube-system --ignore-not-found windrow-gates windrow-repairs windrow-diagnosis";

    // Another node has an old condition only.
    write_entries(&nodes, "node1", CONDITION).await;
    write_entries(&nodes, "node2", FORMER_CONDITION).await;
    let (out, _) = clean_up(root.path()).await;
    assert!(
        out.contains("node2 may still use them") && out.contains(command),
        "{out}"
    );
    assert_eq!(leases_left(&client).await, LEASES);
    let node = nodes.get("node1").await.unwrap();
    let conditions = node.data["status"]["conditions"].as_array().cloned();
    assert_eq!(conditions.unwrap_or_default(), [Value::Null; 0]);
    assert_eq!(
        node.metadata
            .annotations
            .unwrap_or_default()
            .get(ANNOTATION),
        None
    );
    let is_there = |place: &str| root.path().join(place).exists();
    assert!(!is_there("oem/windrow-flight.jsonl.gz") && is_there("oem/harvester.config"));
    assert!(
        out.contains("rm -r") && is_there("var/lib/rancher/windrow"),
        "{out}"
    );

    // It has nothing on its Node, but holds a Lease.
    let nothing = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: null}}}));
    let parameters = PatchParams::default();
    nodes.patch("node2", &parameters, &nothing).await.unwrap();
    status(&nodes, "node2", json!({"conditions": []})).await;
    hold(&client, "windrow-diagnosis", Some("node2-0123")).await;
    let (out, _) = clean_up(root.path()).await;
    assert!(out.contains("node2-0123 may still use them"), "{out}");
    assert_eq!(leases_left(&client).await, LEASES);

    // It has given the Lease back.
    hold(&client, "windrow-diagnosis", None).await;
    let (out, _) = clean_up(root.path()).await;
    assert!(out.contains("removed the Lease windrow-gates"), "{out}");
    assert_eq!(leases_left(&client).await, [""; 0]);
    let theirs = api(&client, LEASE, "kube-system").get_opt("theirs").await;
    assert!(theirs.unwrap().is_some());
}

#[tokio::test]
async fn cleanup_says_how_to_remove_what_a_silent_kube_apiserver_keeps() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let root = server(&cluster);
    drop(cluster);
    let (out, errors) = clean_up(root.path()).await;
    for command in [
        "kubectl patch node node1 --subresource=status",
        "kubectl annotate node node1",
    ] {
        assert!(errors.contains(command), "{errors}");
    }
    assert!(out.contains("kubectl delete lease -n kube-system"), "{out}");
    assert!(!root.path().join("oem/windrow-flight.jsonl.gz").exists());
}
