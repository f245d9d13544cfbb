//! Level 4: the probes of an agent against the real kube-apiserver, with a node's own identity and KEP-4601 on.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually, refused};
use support::objects::{DEFINITION, Gvk, KUBEVIRT, api, make, namespace, serve_published, status};
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
pub(crate) fn server(root: &Path, kubeconfig: &Path) {
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

/// Probes a node until the receiver is dropped.
fn probe_node(root: &Path, probes: &[CustomProbe]) -> mpsc::Receiver<ClusterEvent> {
    let endpoints = Endpoints {
        // Only the cluster is probed here.
        bus: Some("unix:path=/nonexistent/bus".to_owned()),
        journalctl: "/nonexistent/journalctl".to_owned(),
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
    let (keep, interests) = watch::channel(interests);
    let (events, received) = mpsc::channel(64);
    tokio::spawn(async move {
        let ended = events.clone();
        tokio::select! {
            () = probe(Arc::new(context), interests, events) => {}
            () = ended.closed() => {}
        }
        drop(keep);
    });
    received
}

/// Probes a node until these probes have answered.
pub(crate) async fn answers(
    root: &Path,
    expected: NodeRole,
    probes: &[CustomProbe],
    wanted: &[&str],
) -> BTreeMap<String, ProbeOutcome> {
    let mut events = probe_node(root, probes);
    let mut answers = BTreeMap::new();
    let collected = tokio::time::timeout(DEADLINE, async {
        while !wanted.iter().all(|probe| answers.contains_key(*probe)) {
            match events.recv().await.unwrap() {
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
    answers
}

/// Waits until a probe has such an answer.
async fn until(
    events: &mut mpsc::Receiver<ClusterEvent>,
    wanted: &str,
    is_expected: impl Fn(&ProbeOutcome) -> bool,
) {
    let mut last = None;
    let found = tokio::time::timeout(DEADLINE, async {
        while !last.as_ref().is_some_and(&is_expected) {
            if let ClusterEvent::Node(NodeEvent::Probed(id, outcome)) = events.recv().await.unwrap()
                && id.to_string() == wanted
            {
                last = Some(outcome);
            }
        }
    });
    let found = found.await;
    assert!(found.is_ok(), "{wanted}: {last:?}");
}

#[tokio::test]
async fn a_serving_certificate_of_another_authority_is_noticed_although_the_server_goes_on() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    server(root.path(), &cluster.kubeconfig(Who::Admin));
    let mut events = probe_node(root.path(), &[]);
    let passes = |outcome: &ProbeOutcome| *outcome == ProbeOutcome::Passed;
    until(&mut events, "apiserver", passes).await;

    let own = cluster.serve_a_foreign_certificate();
    until(&mut events, "apiserver", |outcome| match outcome {
        ProbeOutcome::Failed { why, .. } | ProbeOutcome::Unknown { why, .. } => {
            why.contains("certificate")
        }
        ProbeOutcome::Passed => false,
    })
    .await;
    own.serve_again();
    until(&mut events, "apiserver", passes).await;
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
    let Some(cluster) = Cluster::start_audited().await else {
        return;
    };
    let log = cluster.audit_log();
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

    // A configured name counts only until the kubelet has a certificate of another one.
    let renamed = tempfile::tempdir().unwrap();
    agent(renamed.path(), "node2", &cluster.kubeconfig(Who::Node));
    let said = answers(renamed.path(), NodeRole::Agent, &[], &["node"]).await;
    assert_eq!(said["node"], ProbeOutcome::Passed);
    assert_eq!(refused(&log), []);

    // Provoked: a credential without any right.
    let other = tempfile::tempdir().unwrap();
    agent(other.path(), "node2", &cluster.kubeconfig(Who::Viewer));
    match &answers(other.path(), NodeRole::Agent, &[], &["node"]).await["node"] {
        ProbeOutcome::Unknown { asked, .. } => {
            assert!(asked.contains("/api/v1/nodes/node2"), "{asked}");
        }
        outcome => panic!("a refusal is {outcome:?}"),
    }
    let mut paths = refused(&log).into_iter().map(|(_, path)| path);
    assert!(paths.any(|path| path == "/api/v1/nodes/node2"));
}

const MANAGED_CHART: Gvk = ("management.cattle.io", "v3", "ManagedChart");
const BUNDLE: Gvk = ("fleet.cattle.io", "v1alpha1", "Bundle");
const LONGHORN_NODE: Gvk = ("longhorn.io", "v1beta2", "Node");
const LOCAL_CLUSTER: Gvk = ("provisioning.cattle.io", "v1", "Cluster");
const PLAN: Gvk = ("upgrade.cattle.io", "v1", "Plan");
/// The probes of Harvester's platform that need its kinds.
const PLATFORM: [&str; 6] = [
    "charts",
    "cluster-provisioned",
    "kubevirt",
    "longhorn-node",
    "longhorn-disks",
    "system-upgrade-controller",
];

/// The columns of Fleet's own definition.
async fn with_fleets_columns(client: &Client) {
    let definitions = api(client, DEFINITION, "");
    let columns = json!([
        {"name": "BundleDeployments-Ready", "type": "string", "jsonPath": ".status.display.readyClusters"},
        {"name": "Status", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message"},
    ]);
    let patch = json!([{"op": "add", "path": "/spec/versions/0/additionalPrinterColumns", "value": columns}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    let name = "bundles.fleet.cattle.io";
    definitions
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

fn ready(status: &str, message: &str) -> Value {
    json!({"conditions": [{"type": "Ready", "status": status, "message": message}]})
}

#[tokio::test]
async fn the_platform_is_judged_by_its_own_kinds_and_not_before_they_are_served() {
    let Some((cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    server(root.path(), &cluster.kubeconfig(Who::Admin));
    let said = async || answers(root.path(), NodeRole::FirstServer, &[], &PLATFORM).await;

    let before = said().await;
    for probe in PLATFORM {
        match (probe, &before[probe]) {
            ("system-upgrade-controller", ProbeOutcome::Failed { why, .. }) => {
                assert!(why.contains("not installed yet"), "{why}");
            }
            (_, ProbeOutcome::Unknown { why, .. }) => assert_eq!(why, "the kind is not served"),
            (_, outcome) => panic!("{probe}: {outcome:?}"),
        }
    }

    for name in [
        "fleet-local",
        "harvester-system",
        "longhorn-system",
        "cattle-system",
    ] {
        namespace(&client, name).await;
    }
    for gvk in [
        MANAGED_CHART,
        BUNDLE,
        LONGHORN_NODE,
        LOCAL_CLUSTER,
        PLAN,
        KUBEVIRT,
    ] {
        serve_published(&client, gvk, "Namespaced").await;
    }
    with_fleets_columns(&client).await;
    let make_with = async |gvk: Gvk, place: &'static str, name: &str, value: Value| {
        let object = json!({"metadata": {"name": name}, "spec": {}});
        make(&client, gvk, place, object).await;
        status(&api(&client, gvk, place), name, value).await;
    };
    make_with(MANAGED_CHART, "fleet-local", "harvester", ready("True", "")).await;
    make_with(BUNDLE, "fleet-local", "mcc-harvester", ready("True", "")).await;
    let applied = "ErrApplied(1) [Cluster fleet-local/local: no such host]";
    make_with(
        BUNDLE,
        "fleet-local",
        "fleet-agent-local",
        ready("False", applied),
    )
    .await;
    let provisioned = json!({"ready": true, "conditions": [
        {"type": "Provisioned", "status": "Unknown", "message": "waiting for probes: etcd"}]});
    make_with(LOCAL_CLUSTER, "fleet-local", "local", provisioned).await;
    // Another node's disks are another node's matter.
    let gone = json!({"conditions": [{"type": "Ready", "status": "False"}], "diskStatus": {}});
    make_with(LONGHORN_NODE, "longhorn-system", "node2", gone).await;
    let full = json!({
        "conditions": [{"type": "Ready", "status": "True"}],
        "diskStatus": {"default-disk": {"conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Schedulable", "status": "False", "reason": "DiskPressure"}]}}});
    make_with(LONGHORN_NODE, "longhorn-system", "node1", full).await;
    let works = json!({"phase": "Deployed", "observedKubeVirtVersion": "1.7.0", "targetKubeVirtVersion": "1.7.0",
        "conditions": [{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "False"},
            {"type": "Degraded", "status": "False"}]});
    make_with(KUBEVIRT, "harvester-system", "kubevirt", works).await;

    // kube-apiserver takes a moment to show columns that were added.
    let expected = ProbeOutcome::failed(format!("fleet-agent-local: {applied}"));
    let after = eventually("the columns of Bundles are shown", DEADLINE, async || {
        let after = said().await;
        (after["charts"] == expected).then_some(after)
    })
    .await;
    assert_eq!(
        after["cluster-provisioned"],
        ProbeOutcome::failed("waiting for probes: etcd")
    );
    assert_eq!(after["kubevirt"], ProbeOutcome::Passed);
    assert_eq!(after["longhorn-node"], ProbeOutcome::Passed);
    assert_eq!(
        after["longhorn-disks"],
        ProbeOutcome::failed("default-disk: DiskPressure")
    );
}
