//! Level 4: the facts about Kubernetes itself that the design relies on, one per test, on the real kube-apiserver.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use support::cluster::{self, Cluster, Minor, Spec, Who, refusal, skipped};

use crate::support;

static CLUSTER: cluster::SharedCluster = cluster::SharedCluster::const_new();

const OFF: &str = "--feature-gates=AuthorizeNodeWithSelectors=false";

#[tokio::test]
async fn a_gate_that_does_not_exist_is_refused() {
    if skipped(Minor::V1_36) {
        return;
    }
    let said = refusal(
        Minor::V1_36,
        &["--feature-gates=NodeAuthorizerEnablePodSelectors=true"],
    )
    .await;
    let said = said.expect("it is refused");
    assert!(
        said.contains("unrecognized feature gate: NodeAuthorizerEnablePodSelectors"),
        "{said}"
    );
}

#[tokio::test]
async fn the_node_authorizers_gate_can_be_switched_off_on_1_33_and_is_locked_on_1_36() {
    if skipped(Minor::V1_36) || skipped(Minor::V1_33) {
        return;
    }
    let said = refusal(Minor::V1_36, &[OFF]).await.expect("it is refused");
    let locked =
        "cannot set feature gate AuthorizeNodeWithSelectors to false, feature is locked to true";
    assert!(said.contains(locked), "{said}");
    assert_eq!(refusal(Minor::V1_33, &[OFF]).await, None);
}

#[tokio::test]
async fn gates_with_and_without_the_kube_prefix_cannot_be_mixed() {
    if skipped(Minor::V1_36) {
        return;
    }
    let mixed = [
        "--feature-gates=kube:ImageVolume=true",
        "--feature-gates=ContextualLogging=true",
    ];
    let said = refusal(Minor::V1_36, &mixed).await.expect("it is refused");
    assert!(said.contains("do not mix use"), "{said}");
    assert_eq!(refusal(Minor::V1_36, &mixed[1..]).await, None);
}

/// Whether the node's identity may list pods: of all nodes, and its own.
async fn node_may_list(cluster: &Cluster) -> [Result<(), u16>; 2] {
    let pods: Api<Pod> = Api::all(cluster.client(Who::Node).await);
    let own = ListParams::default().fields("spec.nodeName=node1");
    let list = async |params: &ListParams| match pods.list(params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(other) => panic!("{other}"),
    };
    [list(&ListParams::default()).await, list(&own).await]
}

#[tokio::test]
async fn a_node_may_list_its_own_pods_and_is_forbidden_to_list_all() {
    let Some(cluster) = cluster::shared(&CLUSTER).await else {
        return;
    };
    let _logs = cluster.logs_on_failure();
    assert_eq!(node_may_list(cluster).await, [Err(403), Ok(())]);
}

#[tokio::test]
async fn a_node_may_list_all_pods_on_1_33_with_the_gate_off() {
    let spec = Spec {
        minor: Minor::V1_33,
        arguments: vec![OFF.to_owned()],
        ..Spec::default()
    };
    let Some(cluster) = Cluster::start(spec).await else {
        return;
    };
    assert_eq!(node_may_list(&cluster).await, [Ok(()), Ok(())]);
}

#[tokio::test]
async fn an_identity_without_rights_is_told_that_it_is_forbidden() {
    let Some(cluster) = cluster::shared(&CLUSTER).await else {
        return;
    };
    let _logs = cluster.logs_on_failure();
    let pods: Api<Pod> = Api::all(cluster.client(Who::Viewer).await);
    let refused = pods.list(&ListParams::default()).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
}
