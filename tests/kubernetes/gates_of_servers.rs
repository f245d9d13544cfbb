//! Level 4: what servers tell each other about trials of feature gates, and what they read of each other before a restart, on the real
//! kube-apiserver. The other servers' kubelets, Harvester and the system-upgrade-controller are played.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use support::cluster::{Cluster, Spec, Who};
use support::objects::{
    NODE, PLAN, POD, UPGRADE, api, make, namespace, node, patch, serve, status,
};
use windrow::act::{ClusterLease, LeaseHolder};
use windrow::observe::servers::servers_not_ready;
use windrow::observe::upgrade::upgrade_in_progress;
use windrow_gates::{TrialEnd, TrialNote, TriedDropIn};

use crate::support;

fn lease(holder: &str) -> ClusterLease {
    let counts = Duration::from_secs(600);
    ClusterLease::new(ClusterLease::GATES, holder.to_owned(), counts)
}

fn tried(by: &str, request: &str) -> TriedDropIn {
    TriedDropIn {
        by: by.to_owned(),
        request: request.to_owned(),
        version: "1.36.3".to_owned(),
        content: Some("kube-apiserver-arg+:\n- \"feature-gates+=NotAGate=true\"\n".to_owned()),
        at: Timestamp::UNIX_EPOCH,
        why: None,
    }
}

/// Changes the note as a trial does, as the holder of the lease.
async fn write(
    lease: &ClusterLease,
    client: &Client,
    change: impl FnOnce(TrialNote) -> TrialNote,
) -> Result<(), String> {
    let before = lease.note(client).await?;
    let note = TrialNote::parse(before.as_deref()).expect("a note of a server");
    let note = change(note);
    let written = lease.write_note(client, before.as_deref(), note.text());
    written.await
}

async fn against(lease: &ClusterLease, client: &Client, trial: &TriedDropIn) -> Option<String> {
    let found = lease.holder_and_note(client).await;
    let (holder, note) = found.expect("the lease");
    let note = TrialNote::parse(note.as_deref()).expect("a note of a server");
    note.against(trial, true, holder.as_deref())
}

#[tokio::test]
async fn a_drop_in_that_one_server_has_begun_to_try_costs_the_cluster_one_trial() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = &cluster.client(Who::Admin).await;
    let (mut first, mut second) = (lease("node1"), lease("node2"));
    let (ours, theirs) = (tried("node1", "r1"), tried("node2", "r2"));
    let now = Timestamp::now;
    assert_eq!(first.take(client, now()).await, Ok(LeaseHolder::Us));
    let written = write(&first, client, |note| {
        note.begun(ours.clone()).expect("readable")
    })
    .await;
    assert_eq!(written, Ok(()));
    let refused = write(&second, client, |note| {
        note.begun(theirs.clone()).expect("readable")
    })
    .await;
    assert!(refused.is_err(), "it is not the turn of node2");

    let turn = against(&second, client, &theirs).await;
    assert_eq!(turn, None, "it is in progress");

    // node1 does not come back with a result, and its lease is free.
    first.release(client).await.expect("given back");
    assert_eq!(second.take(client, now()).await, Ok(LeaseHolder::Us));
    let why = against(&second, client, &theirs).await.expect("an entry");
    assert!(why.contains("its result is unknown"), "{why}");

    // It comes back, and reports.
    second.release(client).await.expect("given back");
    assert_eq!(first.take(client, now()).await, Ok(LeaseHolder::Us));
    let mut end = TrialEnd {
        tried: ours,
        why: Some("unrecognized feature gate: NotAGate".to_owned()),
    };
    let written = write(&first, client, |note| note.ended(&end)).await;
    assert_eq!(written, Ok(()));
    let why = against(&second, client, &theirs).await.expect("an entry");
    assert!(
        why.ends_with("(unrecognized feature gate: NotAGate)"),
        "{why}"
    );
    end.why = None;
    let written = write(&first, client, |note| note.ended(&end)).await;
    assert_eq!(written, Ok(()));
    assert_eq!(against(&second, client, &theirs).await, None);
}

/// A static pod of RKE2, as the kubelet of its node shows it.
async fn static_pod(client: &Client, node: &str, component: &str) {
    let name = format!("{component}-{node}");
    let pod = json!({
        "metadata": {"name": name, "labels": {"component": component, "tier": "control-plane"},
            "annotations": {"kubernetes.io/config.mirror": "1", "kubernetes.io/config.source": "file"}},
        "spec": {"nodeName": node, "hostNetwork": true, "containers": [{"name": component, "image": "none"}]}
    });
    make(client, POD, "kube-system", pod).await;
    condition(client, node, component, "True").await;
}

async fn condition(client: &Client, node: &str, component: &str, is_ready: &str) {
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": is_ready}]});
    let pods = api(client, POD, "kube-system");
    status(&pods, &format!("{component}-{node}"), ready).await;
}

async fn node_conditions(client: &Client, name: &str, ready: &str, votes: &str) {
    let condition = |name: &str, status: &str, reason: &str| {
        json!({"type": name, "status": status, "reason": reason, "message": "",
        "lastHeartbeatTime": null, "lastTransitionTime": null})
    };
    let conditions = json!({"conditions": [
        condition("Ready", ready, "KubeletReady"), condition("EtcdIsVoter", votes, "Unhealthy")]});
    status(&api(client, NODE, ""), name, conditions).await;
}

#[tokio::test]
async fn a_server_reads_of_the_others_whether_each_has_a_ready_kube_apiserver_and_etcd_member() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = &cluster.client(Who::Admin).await;
    let lacks = async || servers_not_ready(client, "n1").await.expect("an answer");
    assert_eq!(lacks().await, Vec::<String>::new(), "no Node is known");
    let server = json!({"node-role.kubernetes.io/control-plane": "true", "node-role.kubernetes.io/etcd": "true"});
    for name in ["n1", "n2"] {
        node(client, name, server.clone(), json!([])).await;
    }
    node(client, "agent", json!({}), json!([])).await;
    assert_eq!(
        lacks().await,
        [
            "kube-apiserver of n2 is not ready",
            "etcd of n2 is not ready"
        ]
    );
    static_pod(client, "n2", "kube-apiserver").await;
    static_pod(client, "n2", "etcd").await;
    assert_eq!(lacks().await, Vec::<String>::new());

    condition(client, "n2", "kube-apiserver", "False").await;
    assert_eq!(lacks().await, ["kube-apiserver of n2 is not ready"]);
    condition(client, "n2", "kube-apiserver", "True").await;
    node_conditions(client, "n2", "True", "False").await;
    assert_eq!(lacks().await, ["etcd of n2 does not vote"]);
    node_conditions(client, "n2", "Unknown", "True").await;
    assert_eq!(lacks().await, ["node n2 is not Ready"]);
}

#[tokio::test]
async fn an_upgrade_of_harvester_or_a_plan_that_is_in_progress_is_named() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = &cluster.client(Who::Admin).await;
    let found = async || upgrade_in_progress(client).await.expect("an answer");
    assert_eq!(found().await, None, "none of the kinds is served");
    serve(client, UPGRADE, "Namespaced").await;
    serve(client, PLAN, "Namespaced").await;
    assert_eq!(found().await, None);
    for name in ["harvester-system", "cattle-system"] {
        namespace(client, name).await;
    }

    make(
        client,
        UPGRADE,
        "harvester-system",
        json!({"metadata": {"name": "up"}, "spec": {}}),
    )
    .await;
    assert_eq!(
        found().await.as_deref(),
        Some("Upgrade harvester-system/up: not begun")
    );
    let state = async |state: &str| {
        let labels =
            json!({"harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": state});
        let labels = json!({"metadata": {"labels": labels}});
        patch(client, UPGRADE, "harvester-system", "up", labels).await;
    };
    state("UpgradingNodes").await;
    assert_eq!(
        found().await.as_deref(),
        Some("Upgrade harvester-system/up: UpgradingNodes")
    );
    state("Succeeded").await;
    assert_eq!(found().await, None);

    let plan = json!({"metadata": {"name": "rke2"}, "spec": {"upgrade": {"image": "rancher/rke2-upgrade"}}});
    make(client, PLAN, "cattle-system", plan).await;
    let plans = api(client, PLAN, "cattle-system");
    let complete = |status: &str, nodes: Value| {
        let complete = json!([{"type": "Complete", "status": status, "reason": "SyncJob"}]);
        json!({"conditions": complete, "applying": nodes})
    };
    status(&plans, "rke2", complete("False", json!(["n2"]))).await;
    assert_eq!(
        found().await.as_deref(),
        Some("Plan cattle-system/rke2: applying to n2")
    );
    status(&plans, "rke2", complete("False", json!([]))).await;
    assert_eq!(
        found().await.as_deref(),
        Some("Plan cattle-system/rke2: not complete")
    );
    status(&plans, "rke2", complete("True", json!([]))).await;
    assert_eq!(found().await, None);
}
