//! Level 4: the catalogue of feature gates, and the lease on their change, against the real kube-apiserver.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, PostParams};
use support::cluster::{Cluster, DEADLINE, Minor, Spec, Who, eventually};
use windrow::act::{ClusterLease, LeaseHolder};
use windrow_gates::catalogue::{Catalogue, GateStanding};
use windrow_gates::{TargetVersion, assess, metrics};
use windrow_plan::rke2::config::{ConfigLayer, Rke2ConfigFile, merge};

use crate::support;

/// kube-apiserver's own list, without the two names that stand for whole stages.
async fn reported(client: &Client) -> BTreeMap<String, bool> {
    let request = http::Request::get("/metrics").body(Vec::new());
    let text = client
        .request_text(request.expect("a request"))
        .await
        .expect("the admin may read metrics");
    let mut gates = metrics(&text).gates;
    gates.retain(|name, _| !matches!(name.as_str(), "AllAlpha" | "AllBeta"));
    gates
}

async fn the_catalogue_equals(minor: Minor) {
    let spec = Spec {
        minor,
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    let version = client.apiserver_version().await.expect("a version");
    let version: windrow_plan::version::Version = version.git_version.parse().expect("a version");
    assert_eq!(version.minor.to_string(), minor.text());
    let known: BTreeMap<String, bool> = Catalogue::builtin()
        .gates()
        .filter_map(|gate| match gate.at(version) {
            GateStanding::Known(state) => Some((gate.name().to_owned(), state.default)),
            _ => None,
        })
        .collect();
    assert_eq!(reported(&client).await, known);
}

#[tokio::test]
async fn the_catalogue_equals_what_kube_apiserver_1_33_knows_with_its_defaults() {
    the_catalogue_equals(Minor::V1_33).await;
}

#[tokio::test]
async fn the_catalogue_equals_what_kube_apiserver_1_36_knows_with_its_defaults() {
    the_catalogue_equals(Minor::V1_36).await;
}

/// Whether a gate alone keeps kube-apiserver from being ready, and what `windrow gates check` advises mends it.
async fn a_gate_needs_its_api(minor: Minor, gate: &str, kind: &str) {
    let gates = format!("feature-gates={gate}=true");
    let judged = |arguments: &[String]| {
        let list = serde_json::json!({ "kube-apiserver-arg": arguments }).to_string();
        let file = Rke2ConfigFile::new(ConfigLayer::Main, "config.yaml", list);
        let version = minor.text().parse().expect("a version");
        assess(&merge(&[file]), None, &TargetVersion::Known(version))
    };
    let spec = |arguments: &[String]| Spec {
        minor,
        arguments: arguments.iter().map(|one| format!("--{one}")).collect(),
        ..Spec::default()
    };
    let mut arguments = vec![gates];
    let logged = format!("type=\"{kind}\"");
    let Some(unready) = Cluster::start_unready(spec(&arguments), &logged).await else {
        return;
    };
    let ready = |client: Client| async move {
        let request = http::Request::get("/readyz?verbose").body(Vec::new());
        client.request_text(request.expect("a request")).await
    };
    let client = unready.client(Who::Admin).await;
    assert!(ready(client).await.is_err(), "{gate} on {minor:?}");
    let refused = judged(&arguments);
    assert!(!refused.starts());
    let said = &refused.findings[0].message;
    let (_, rest) = said.split_once("runtime-config=").expect("advice");
    let (api, _) = rest.split_once('`').expect("its end");
    drop(unready);
    arguments.push(format!("runtime-config={api}"));
    assert!(judged(&arguments).starts());
    let cluster = Cluster::start(spec(&arguments)).await.expect("it was here");
    let client = cluster.client(Who::Admin).await;
    assert!(ready(client).await.is_ok(), "{gate} on {minor:?}");
}

#[tokio::test]
async fn kube_apiserver_1_33_is_ready_with_dynamic_resource_allocation_only_where_its_api_is_served()
 {
    let (gate, kind) = ("DynamicResourceAllocation", "*v1beta1.ResourceSlice");
    a_gate_needs_its_api(Minor::V1_33, gate, kind).await;
}

#[tokio::test]
async fn kube_apiserver_1_36_is_ready_with_coordinated_leader_election_only_where_its_api_is_served()
 {
    let (gate, kind) = ("CoordinatedLeaderElection", "*v1beta1.LeaseCandidate");
    a_gate_needs_its_api(Minor::V1_36, gate, kind).await;
}

#[tokio::test]
async fn one_server_at_a_time_has_the_lease_and_one_that_was_left_behind_is_taken_over() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = &cluster.client(Who::Admin).await;
    let node = |name: &str| {
        ClusterLease::new(
            ClusterLease::GATES,
            name.to_owned(),
            Duration::from_secs(600),
        )
    };
    let (mut one, mut two) = (node("node1"), node("node2"));
    let now = Timestamp::now;
    assert_eq!(one.take(client, now()).await, Ok(LeaseHolder::Us));
    assert_eq!(
        one.take(client, now()).await,
        Ok(LeaseHolder::Us),
        "it is ours"
    );
    let other = LeaseHolder::Other("node1".to_owned());
    assert_eq!(two.take(client, now()).await, Ok(other.clone()));
    two.release(client)
        .await
        .expect("another holder's is left alone");
    assert_eq!(two.take(client, now()).await, Ok(other.clone()));
    // After a crash the same node still has it.
    assert_eq!(node("node1").take(client, now()).await, Ok(LeaseHolder::Us));
    one.release(client).await.expect("given back");
    assert_eq!(two.take(client, now()).await, Ok(LeaseHolder::Us));
    one.release(client).await.expect("not ours any more");

    // node2 has died long ago.
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let mut left = leases.get("windrow-gates").await.expect("the lease");
    let long_ago = now() - jiff::SignedDuration::from_hours(1);
    left.spec.as_mut().expect("a spec").renew_time = Some(MicroTime(long_ago));
    let written = leases
        .replace("windrow-gates", &PostParams::default(), &left)
        .await;
    written.expect("written");
    let first = one.take(client, now()).await;
    assert_eq!(
        first,
        Ok(LeaseHolder::Other("node2".to_owned())),
        "clocks differ"
    );
    eventually("it is taken over", DEADLINE, async || {
        (one.take(client, now()).await == Ok(LeaseHolder::Us)).then_some(())
    })
    .await;
    let taken = leases.get("windrow-gates").await.expect("the lease");
    let spec = taken.spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("node1"));
    assert_eq!(spec.lease_transitions, Some(2), "node1, node2, node1");
}

#[tokio::test]
async fn of_two_who_ask_at_once_one_gets_the_lease() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = &cluster.client(Who::Admin).await;
    let mut nodes: Vec<ClusterLease> = (0..8)
        .map(|number| {
            ClusterLease::new(
                ClusterLease::GATES,
                format!("node{number}"),
                Duration::from_secs(600),
            )
        })
        .collect();
    let now = Timestamp::now();
    let asked = nodes.iter_mut().map(|node| node.take(client, now));
    let answers = futures::future::join_all(asked).await;
    let won = answers
        .iter()
        .filter(|answer| **answer == Ok(LeaseHolder::Us));
    assert_eq!(won.count(), 1, "{answers:?}");
}
