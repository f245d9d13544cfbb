//! Level 4: the probes of an agent against the real kube-apiserver, with a node's own identity and KEP-4601 on.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, Who};
use tokio::sync::{mpsc, watch};
use windrow::decide::{ClusterEvent, Interests, ProbeInterest};
use windrow::layout::Layout;
use windrow::observe::probes::{Endpoints, World, probe};
use windrow::readiness::node::{NodeEvent, ProbeOutcome, Role};
use windrow::rules::Platform;

/// An agent of this name that has node1's credential.
fn agent(root: &Path, name: &str, kubeconfig: &Path) {
    let write = |path: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    fs::write(write("proc/sys/kernel/hostname"), format!("{name}\n")).unwrap();
    let place = write("var/lib/rancher/rke2/agent/kubelet.kubeconfig");
    fs::copy(kubeconfig, place).unwrap();
}

/// Probes a node until these probes have answered.
async fn answers(root: &Path, wanted: &[&str]) -> BTreeMap<String, ProbeOutcome> {
    let endpoints = Endpoints {
        // Nothing here but the cluster is to be asked.
        bus: Some("unix:path=/nonexistent/bus".to_owned()),
        ..Endpoints::default()
    };
    let world = World::new(Layout::new(root), endpoints, Timestamp::now).unwrap();
    let interests = Interests {
        probes: Some(ProbeInterest {
            platform: Some(Platform::Harvester),
            installed: false,
            ..ProbeInterest::default()
        }),
        ..Interests::default()
    };
    let (_keep, interests) = watch::channel(interests);
    let (events, mut told) = mpsc::channel(64);
    let probing = tokio::spawn(probe(Arc::new(world), interests, events));
    let mut answers = BTreeMap::new();
    let collected = tokio::time::timeout(DEADLINE, async {
        while !wanted.iter().all(|probe| answers.contains_key(*probe)) {
            match told.recv().await.unwrap() {
                ClusterEvent::Node(NodeEvent::Probing { role, .. }) => {
                    assert_eq!(role, Role::Agent);
                }
                ClusterEvent::Node(NodeEvent::Probed(id, outcome)) => {
                    answers.insert(id.to_string(), outcome);
                }
                _ => {}
            }
        }
    });
    collected.await.expect("every probe answers");
    probing.abort();
    answers
}

async fn set_ready(nodes: &Api<Node>, status: &str) {
    let now = k8s_openapi::jiff::Timestamp::now();
    let patch = json!({"status": {"conditions": [{
        "type": "Ready", "status": status, "reason": "KubeletNotReady",
        "message": "cni plugin not initialized",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }]}});
    nodes
        .patch_status("node1", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

/// Every request that was refused, from the audit log.
fn refused(log: &Path) -> Vec<String> {
    fs::read_to_string(log)
        .unwrap()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["user"]["username"] == "system:node:node1")
        .filter(|event| event["responseStatus"]["code"] == 403)
        .filter_map(|event| event["requestURI"].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn an_agent_asks_nothing_that_is_refused_and_calls_a_refusal_unknown() {
    let audit = tempfile::tempdir().unwrap();
    let policy = audit.path().join("policy.yaml");
    let log: PathBuf = audit.path().join("audit.log");
    fs::write(
        &policy,
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n",
    )
    .unwrap();
    let spec = Spec {
        arguments: vec![
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", log.display()),
        ],
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let nodes: Api<Node> = Api::all(cluster.client(Who::Admin).await);
    for name in ["node1", "node2"] {
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }

    let root = tempfile::tempdir().unwrap();
    agent(root.path(), "node1", &cluster.kubeconfig(Who::Node));
    set_ready(&nodes, "False").await;
    let said = answers(root.path(), &["node", "apiserver", "vip", "harvester"]).await;
    assert_eq!(said["apiserver"], ProbeOutcome::Passed);
    assert_eq!(
        said["node"],
        ProbeOutcome::failed("KubeletNotReady: cni plugin not initialized")
    );
    assert_eq!(said["vip"], ProbeOutcome::failed("there is no VIP yet"));
    set_ready(&nodes, "True").await;
    assert_eq!(
        answers(root.path(), &["node"]).await["node"],
        ProbeOutcome::Passed
    );
    assert_eq!(refused(&log), Vec::<String>::new());

    // Provoked: another node's name with this node's credential.
    let other = tempfile::tempdir().unwrap();
    agent(other.path(), "node2", &cluster.kubeconfig(Who::Node));
    match &answers(other.path(), &["node"]).await["node"] {
        ProbeOutcome::Unknown { asked, why } => {
            assert!(asked.contains("/api/v1/nodes/node2"), "{asked}");
            assert!(why.contains("only its own Node object"), "{why}");
        }
        outcome => panic!("a refusal is {outcome:?}"),
    }
    assert_eq!(refused(&log), ["/api/v1/nodes/node2"]);
}
