//! Harvester's platform, asked of a server whose answers are chosen.

use super::*;
use crate::observe::probes::{longhorn, platform};
use crate::testing::replies::{ServerReply, TestServer};

const CHARTS: &str = "/apis/management.cattle.io/v3/namespaces/fleet-local/managedcharts";
const BUNDLES: &str = "/apis/fleet.cattle.io/v1alpha1/namespaces/fleet-local/bundles";

async fn server(
    says: impl Fn(&str) -> ServerReply + Send + Sync + 'static,
) -> (TestNode, TestServer) {
    let place = TestNode::new();
    let server = TestServer::http(move |target| says(target.split('?').next().unwrap())).await;
    place.admin(&server);
    (place, server)
}

async fn all(place: &TestNode) -> Vec<ProbeOutcome> {
    let context = place.context();
    let longhorn = longhorn::node(&context, "n1").await;
    vec![
        platform::kubevirt(&context, "n1").await,
        platform::local_cluster(&context, "n1").await,
        platform::charts(&context, "n1").await,
        platform::upgrade_controller(&context, "n1").await,
        longhorn.outcome_of("longhorn-node", "longhorn-node"),
        longhorn.outcome_of("longhorn-node", "longhorn-disks"),
    ]
}

#[tokio::test]
async fn what_is_refused_or_breaks_is_never_called_not_ready() {
    for status in [401, 403, 500] {
        let (place, _server) = server(move |_| ServerReply::Http(status, "{}".to_owned())).await;
        for outcome in all(&place).await {
            assert!(
                unknown(&outcome).contains(&status.to_string()),
                "{outcome:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_not_known_and_an_empty_list_is_an_answer() {
    let (place, _server) = server(|target| match target.contains("/deployments/") {
        true => ServerReply::ok(
            r#"{"status": {"conditions": [{"type": "Available", "status": "True"}]}}"#,
        ),
        false => ServerReply::Http(404, "404 page not found\n".to_owned()),
    })
    .await;
    for outcome in all(&place).await {
        assert!(
            unknown(&outcome).ends_with("the kind is not served"),
            "{outcome:?}"
        );
    }
    let (place, _server) = server(|target| match target {
        BUNDLES => ServerReply::ok(
            r#"{"columnDefinitions": [{"name": "Name"}, {"name": "Status"}], "rows": []}"#,
        ),
        _ => ServerReply::ok(r#"{"items": []}"#),
    })
    .await;
    let context = place.context();
    let none = platform::kubevirt(&context, "n1").await;
    assert_eq!(
        failed(&none),
        "there is no KubeVirt in harvester-system yet"
    );
    let none = longhorn::node(&context, "n1").await;
    assert_eq!(
        failed(&none.outcome),
        "Longhorn does not know this node yet"
    );
    assert_eq!(platform::charts(&context, "n1").await, ProbeOutcome::Passed);
}

#[tokio::test]
async fn longhorns_node_is_asked_for_once_and_answers_both_probes() {
    let (place, server) = server(|_| {
        ServerReply::ok(
            r#"{"items": [{"status": {
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "ManagerPodDown", "message": "no pod"},
                    {"type": "Schedulable", "status": "False", "reason": "KubernetesNodeCordoned"}],
                "diskStatus": {"d": {"conditions": [{"type": "Ready", "status": "True"}]}}}}]}"#,
        )
    })
    .await;
    let answer = longhorn::node(&place.context(), "n1").await;
    assert_eq!(
        failed(&answer.outcome_of("longhorn-node", "longhorn-node")),
        "ManagerPodDown: no pod"
    );
    assert_eq!(
        answer.outcome_of("longhorn-node", "longhorn-disks"),
        ProbeOutcome::Passed
    );
    let asked = server.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("/longhorn-system/nodes?fieldSelector=metadata.name%3Dn1 "));
}

#[tokio::test]
async fn bundles_are_asked_for_as_a_table_without_their_objects() {
    let (place, server) = server(|target| match target {
        CHARTS => ServerReply::ok(
            r#"{"items": [
                {"metadata": {"name": "harvester"}, "status": {"conditions": [
                    {"type": "Ready", "status": "False", "message": "Modified(1) [Cluster fleet-local/local]"}]}},
                {"metadata": {"name": "harvester-crd"}, "status": {"conditions": [
                    {"type": "Ready", "status": "False", "message": "ErrApplied(1) [Cluster fleet-local/local: x]"}]}}]}"#,
        ),
        _ => ServerReply::ok(
            r#"{"columnDefinitions": [{"name": "Name"}, {"name": "Status"}],
                "rows": [{"cells": ["fleet-agent-local", "NotReady(1) [Cluster fleet-local/local]"]}]}"#,
        ),
    })
    .await;
    let outcome = platform::charts(&place.context(), "n1").await;
    assert_eq!(
        failed(&outcome),
        "harvester-crd: ErrApplied(1) [Cluster fleet-local/local: x]; \
         fleet-agent-local: NotReady(1) [Cluster fleet-local/local]"
    );
    let asked = server.asked();
    let bundles = asked.iter().find(|head| head.contains(BUNDLES)).unwrap();
    assert!(bundles.contains("includeObject=None"), "{bundles}");
    assert!(bundles.to_lowercase().contains("as=table"), "{bundles}");
}
