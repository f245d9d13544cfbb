//! Level 4: a name that is reported as refused by the API server is refused by kube-apiserver of the oldest and of the
//! newest minor here, and a name that is not reported is accepted by one of them.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeSet;

use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;
use support::cluster::{Cluster, Minor, Spec, Who};
use support::objects;
use windrow_model::manifest::{GroupKind, object_name_error};

use crate::support;

/// Group, version, kind, and whether it has a namespace.
const KINDS: &[(&str, &str, &str, bool)] = &[
    ("", "v1", "ConfigMap", true),
    ("", "v1", "Endpoints", true),
    ("", "v1", "LimitRange", true),
    ("", "v1", "Namespace", false),
    ("", "v1", "Node", false),
    ("", "v1", "PersistentVolume", false),
    ("", "v1", "PersistentVolumeClaim", true),
    ("", "v1", "Pod", true),
    ("", "v1", "PodTemplate", true),
    ("", "v1", "ReplicationController", true),
    ("", "v1", "ResourceQuota", true),
    ("", "v1", "Secret", true),
    ("", "v1", "Service", true),
    ("", "v1", "ServiceAccount", true),
    ("apps", "v1", "DaemonSet", true),
    ("apps", "v1", "Deployment", true),
    ("apps", "v1", "ReplicaSet", true),
    ("apps", "v1", "StatefulSet", true),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", true),
    ("batch", "v1", "CronJob", true),
    ("batch", "v1", "Job", true),
    ("coordination.k8s.io", "v1", "Lease", true),
    ("discovery.k8s.io", "v1", "EndpointSlice", true),
    ("networking.k8s.io", "v1", "Ingress", true),
    ("networking.k8s.io", "v1", "IngressClass", false),
    ("networking.k8s.io", "v1", "NetworkPolicy", true),
    ("node.k8s.io", "v1", "RuntimeClass", false),
    ("policy", "v1", "PodDisruptionBudget", true),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", false),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        false,
    ),
    ("rbac.authorization.k8s.io", "v1", "Role", true),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", true),
    ("scheduling.k8s.io", "v1", "PriorityClass", false),
    ("storage.k8s.io", "v1", "StorageClass", false),
    (
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        false,
    ),
    ("example.com", "v1", "Widget", true),
];

fn names() -> Vec<String> {
    let mut names: Vec<String> = [
        "good", "1a", "a.b", "a-b.c-1", "A_b", "a_b", "Ab", "a b", "-a", "a-", "a..b", ".a", "a.",
        "a.-b", "a:b", "a/b", "a%b", ".", "..", "ä", "a\n", "{a}",
    ]
    .map(str::to_owned)
    .to_vec();
    for length in [52, 53, 63, 64, 253, 254] {
        names.push("a".repeat(length));
        // Parts of a subdomain have no bound of their own.
        names.push(format!("{}.b", "a".repeat(length - 2)));
    }
    names
}

/// Which of the names are refused as names; `None` when the parts are not here.
async fn refused(minor: Minor) -> Option<BTreeSet<(&'static str, String)>> {
    let spec = Spec {
        minor,
        ..Spec::default()
    };
    let cluster = Cluster::start(spec).await?;
    let client = cluster.client(Who::Admin).await;
    objects::serve(&client, ("example.com", "v1", "Widget"), "Namespaced").await;
    let mut refused = BTreeSet::new();
    for (group, version, kind, namespaced) in KINDS {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        for name in names() {
            if is_refused(&client, &gvk, *namespaced, &name).await {
                refused.insert((*kind, name));
            }
        }
    }
    Some(refused)
}

/// Other errors of such a short object are returned at once, and ignored.
async fn is_refused(client: &Client, gvk: &GroupVersionKind, namespaced: bool, name: &str) -> bool {
    let resource = ApiResource::from_gvk(gvk);
    let api: Api<DynamicObject> = match namespaced {
        true => Api::namespaced_with(client.clone(), "default", &resource),
        false => Api::all_with(client.clone(), &resource),
    };
    let object = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}});
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match api
        .create(&dry, &serde_json::from_value(object).unwrap())
        .await
    {
        Ok(_) => false,
        Err(kube::Error::Api(status)) if status.code == 422 => {
            let details = status.details.clone().unwrap();
            details
                .causes
                .iter()
                .any(|cause| cause.field == "metadata.name")
        }
        Err(error) => panic!("{} {name:?}: {error}", gvk.kind),
    }
}

#[tokio::test]
async fn a_name_is_called_refused_exactly_when_kube_apiserver_refuses_it() {
    let Some(new) = refused(Minor::V1_36).await else {
        return;
    };
    let Some(old) = refused(Minor::V1_31).await else {
        return;
    };
    let mut wrong = Vec::new();
    for (group, _, kind, _) in KINDS {
        for name in names() {
            let told = object_name_error(&GroupKind::new(*group, *kind), &name).is_some();
            let by = [&old, &new].map(|all| all.contains(&(*kind, name.clone())));
            if told != (by == [true, true]) {
                wrong.push(format!(
                    "{kind} {name:?}: told {told}, refused by 1.31, 1.36: {by:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
