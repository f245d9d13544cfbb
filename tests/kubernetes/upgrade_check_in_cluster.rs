//! Level 4: an upgrade check over a real API server. Harvester's kinds are served without a schema; there is no kubelet, so what a
//! kubelet would say is not known.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::process::Command;

use kube::Client;
use serde_json::{Value, json};
use support::cluster::{Cluster, Spec, Who};
use support::objects::{ADDON, Gvk, NODE, SETTING, UPGRADE, VOLUME};
use support::objects::{api, make, namespace, node, patch, serve};
use windrow::apiserver::earliest_end;

use crate::support;

const CLUSTER: Gvk = ("cluster.x-k8s.io", "v1beta1", "Cluster");
const MACHINE: Gvk = ("cluster.x-k8s.io", "v1beta1", "Machine");

fn upgrade_check(cluster: &Cluster, arguments: &[&str]) -> (i32, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["upgrade-check", "-o", "json", "--kubeconfig"])
        .arg(cluster.kubeconfig(Who::Admin))
        .args(arguments)
        .output()
        .unwrap();
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code().unwrap(), document)
}

/// The rows of one outcome.
fn rows<'d>(document: &'d Value, outcome: &str) -> Vec<&'d str> {
    let rows = document["checks"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["outcome"] == outcome);
    rows.map(|row| row["check"].as_str().unwrap()).collect()
}

async fn a_server(client: &Client, name: &str) {
    let labels = json!({"harvesterhci.io/managed": "true", "node-role.kubernetes.io/etcd": "true"});
    node(client, name, labels, json!([])).await;
    let conditions = ["Ready", "EtcdIsVoter"].map(|name| json!({"type": name, "status": "True"}));
    let status = json!({"conditions": conditions});
    support::objects::status(&api(client, NODE, ""), name, status).await;
    let annotations = json!({
        "cluster.x-k8s.io/machine": format!("m-{name}"), "rke2.io/internal-ip": "10.0.0.1",
        "rke2.io/node-args": "[\"server\",\"--kube-apiserver-arg\",\"feature-gates=AuthorizeNodeWithSelectors=false\"]"
    });
    let annotated = json!({"metadata": {"annotations": annotations}});
    patch(client, NODE, "", name, annotated).await;
    let machine = json!({"metadata": {"name": format!("m-{name}")},
        "status": {"phase": "Running", "nodeRef": {"name": name}}});
    with_status(client, MACHINE, "fleet-local", machine).await;
}

/// Makes an object with its status.
async fn with_status(client: &Client, gvk: Gvk, namespace: &str, object: Value) {
    let status = object["status"].clone();
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    make(client, gvk, namespace, object).await;
    support::objects::status(&api(client, gvk, namespace), &name, status).await;
}

#[tokio::test]
async fn an_upgrade_is_refused_for_every_reason_at_once_and_what_no_kubelet_says_is_unknown() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client_that_asks_once(Who::Admin).await;
    for (kind, scope) in [
        (SETTING, "Cluster"),
        (ADDON, "Namespaced"),
        (UPGRADE, "Namespaced"),
        (VOLUME, "Namespaced"),
        (CLUSTER, "Namespaced"),
        (MACHINE, "Namespaced"),
    ] {
        serve(&client, kind, scope).await;
    }
    for name in ["fleet-local", "harvester-system", "longhorn-system"] {
        namespace(&client, name).await;
    }
    let version = json!({"metadata": {"name": "server-version"}, "value": "v1.6.1"});
    make(&client, SETTING, "", version).await;
    let local = json!({"metadata": {"name": "local"}, "status": {"phase": "Provisioned"}});
    with_status(&client, CLUSTER, "fleet-local", local).await;
    for name in ["n1", "n2", "n3"] {
        a_server(&client, name).await;
    }

    let (code, said) = upgrade_check(&cluster, &[]);
    assert_eq!((code, &said["from"]), (5, &json!("v1.6.1")), "{said:#}");
    assert_eq!(rows(&said, "unknown"), ["space-for-images", "certificates"]);
    assert!(rows(&said, "refused").is_empty(), "{said:#}");

    // Two reasons of Harvester's, and one that it does not look at: Kubernetes 1.34 has the gate locked.
    let degraded = json!({"metadata": {"name": "pvc-1"}, "spec": {"numberOfReplicas": 3},
        "status": {"robustness": "degraded"}});
    with_status(&client, VOLUME, "longhorn-system", degraded).await;
    // Not the newest one: it counts all the same.
    let older = json!({"metadata": {"name": "hvst-upgrade-a", "labels": {"harvesterhci.io/upgradeState": "UpgradingNodes"}}});
    make(&client, UPGRADE, "harvester-system", older).await;
    let (code, said) = upgrade_check(&cluster, &["--to", "v1.7.1"]);
    assert_eq!((code, &said["upgrade"]), (4, &json!("refused")), "{said:#}");
    assert_eq!(
        rows(&said, "refused"),
        ["version-exists", "no-upgrade-under-way", "volumes-whole"]
    );
    assert_eq!(rows(&said, "stops"), ["gates"], "{said:#}");
}

#[tokio::test]
async fn the_end_of_kube_apiservers_certificate_is_read_from_its_handshake() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let url = cluster.url();
    let address = url.trim_start_matches("https://").parse().unwrap();
    let end = earliest_end(address).await.unwrap();
    // What rcgen gives where nothing is asked for.
    assert!(end.to_string().starts_with("4096-01-01"), "{end}");
    let closed = "127.0.0.1:1".parse().unwrap();
    assert!(earliest_end(closed).await.is_err());
}
