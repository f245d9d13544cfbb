//! Level 4: the probes of an agent against the real kube-apiserver, with a node's own identity and KEP-4601 on.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use support::cluster::{Cluster, DEADLINE, Spec, Who, everything, refused};
use tokio::sync::{mpsc, watch};
use windrow::apiserver::ApiServer;
use windrow::layout::Layout;
use windrow::observe::probes::{Endpoints, ProbeContext, probe};
use windrow_decide::{ClusterEvent, Interests, ProbeInterest};
use windrow_plan::readiness::node::{
    CustomProbe, CustomQuestion, NodeEvent, NodeRole, ObjectQuestion, Phase, ProbeOutcome,
    ProbeSeverity,
};
use windrow_plan::rules::{Expression, Platform};

use crate::support;

/// An agent of this name, with node1's credential.
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

/// A server that has the admin's credential.
fn server(root: &Path, kubeconfig: &Path) {
    agent(root, "node1", kubeconfig);
    let write = |path: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    fs::write(write("var/lib/rancher/rke2/server/tls/server-ca.crt"), "").unwrap();
    fs::copy(kubeconfig, write("etc/rancher/rke2/rke2.yaml")).unwrap();
}

/// A configured probe about an object, forevery role.
fn custom(
    name: &str,
    api_version: &str,
    kind: &str,
    object: Option<&str>,
    says: &str,
) -> CustomProbe {
    CustomProbe {
        name: name.to_owned(),
        question: CustomQuestion::Object(ObjectQuestion {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: object.map(str::to_owned),
            expression: Some(Expression::compile(says).unwrap()),
        }),
        period: Duration::from_secs(30),
        timeout: Duration::from_secs(20),
        rise: 1,
        fall: 3,
        severity: ProbeSeverity::Wanted,
        roles: vec![NodeRole::FirstServer, NodeRole::Agent],
        phase: Phase::Node,
        message: None,
    }
}

/// Probes a node until these probes have answered.
async fn answers(
    root: &Path,
    expected: NodeRole,
    probes: &[CustomProbe],
    wanted: &[&str],
) -> BTreeMap<String, ProbeOutcome> {
    let endpoints = Endpoints {
        // Only the cluster is probed here.
        bus: Some("unix:path=/nonexistent/bus".to_owned()),
        ..Endpoints::default()
    };
    let context = ProbeContext::new(
        Layout::new(root),
        endpoints,
        ApiServer::new(),
        Timestamp::now,
    )
    .unwrap();
    let interests = Interests {
        probes: Some(ProbeInterest {
            platform: Some(Platform::Harvester),
            custom: probes.into(),
            ..ProbeInterest::default()
        }),
        ..Interests::default()
    };
    let (_keep, interests) = watch::channel(interests);
    let (events, mut told) = mpsc::channel(64);
    let probing = tokio::spawn(probe(Arc::new(context), interests, events));
    let mut answers = BTreeMap::new();
    let collected = tokio::time::timeout(DEADLINE, async {
        while !wanted.iter().all(|probe| answers.contains_key(*probe)) {
            match told.recv().await.unwrap() {
                ClusterEvent::Node(NodeEvent::Probing { role, .. }) => {
                    assert_eq!(role, expected);
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

#[tokio::test]
async fn an_agent_asks_nothing_that_is_refused_and_calls_a_refusal_unknown() {
    let audit = tempfile::tempdir().unwrap();
    let log = audit.path().join("audit.log");
    let spec = Spec {
        arguments: everything(&log).into(),
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
    let wanted = ["node", "apiserver", "vip", "harvester"];
    let said = answers(root.path(), NodeRole::Agent, &[], &wanted).await;
    assert_eq!(said["apiserver"], ProbeOutcome::Passed);
    assert_eq!(
        said["node"],
        ProbeOutcome::failed("KubeletNotReady: cni plugin not initialized")
    );
    assert_eq!(said["vip"], ProbeOutcome::failed("there is no VIP yet"));
    set_ready(&nodes, "True").await;
    assert_eq!(
        answers(root.path(), NodeRole::Agent, &[], &["node"]).await["node"],
        ProbeOutcome::Passed
    );
    // Configured probes: what the identity may ask, and what is never sent.
    let probes = [
        custom(
            "service",
            "v1",
            "Service",
            Some("kubernetes"),
            "object.spec.ports[0].port == 443",
        ),
        custom("own", "v1", "Node", None, "object.metadata.name == 'node1'"),
        custom("other", "v1", "Node", Some("node2"), "true"),
        custom(
            "roles",
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            Some("admin"),
            "true",
        ),
    ];
    let names = ["user/service", "user/own", "user/other", "user/roles"];
    let said = answers(root.path(), NodeRole::Agent, &probes, &names).await;
    assert_eq!(said["user/service"], ProbeOutcome::Passed);
    assert_eq!(said["user/own"], ProbeOutcome::Passed);
    for name in ["user/other", "user/roles"] {
        assert!(
            matches!(&said[name], ProbeOutcome::Unknown { why, .. } if why.contains("not asked")),
            "{:?}",
            said[name]
        );
    }
    assert_eq!(refused(&log), []);

    // The same on a server: discovery finds the object's path, cluster-wide or not.
    let place = tempfile::tempdir().unwrap();
    server(place.path(), &cluster.kubeconfig(Who::Admin));
    let said = answers(place.path(), NodeRole::FirstServer, &probes, &names).await;
    for name in names {
        assert_eq!(said[name], ProbeOutcome::Passed, "{name}");
    }

    // Provoked: another node's name with this node's credential.
    let other = tempfile::tempdir().unwrap();
    agent(other.path(), "node2", &cluster.kubeconfig(Who::Node));
    match &answers(other.path(), NodeRole::Agent, &[], &["node"]).await["node"] {
        ProbeOutcome::Unknown { asked, why } => {
            assert!(asked.contains("/api/v1/nodes/node2"), "{asked}");
            assert!(why.contains("only its own Node object"), "{why}");
        }
        outcome => panic!("a refusal is {outcome:?}"),
    }
    assert_eq!(
        refused(&log),
        [(
            "system:node:node1".to_owned(),
            "/api/v1/nodes/node2".to_owned()
        )]
    );
}
