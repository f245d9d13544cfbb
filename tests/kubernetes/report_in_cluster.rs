//! Level 4: `windrow report` against the real kube-apiserver, as a server and with a node's own identity.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, Who, refused};
use windrow::archive::Archive;

use crate::support;

/// The report of a node's tree, with its kubeconfig.
async fn report(root: &Path, kubeconfig: &Path) -> Archive {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .args(["report", "--output-file", "-", "--kubeconfig"])
        .arg(kubeconfig)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Archive::read(&output.stdout[..]).unwrap()
}

fn put(kubeconfig: &Path, place: &Path) {
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::copy(kubeconfig, place).unwrap();
}

#[tokio::test]
async fn a_server_sends_the_objects_that_matter_and_an_agent_asks_for_nothing_that_is_refused() {
    let Some(cluster) = Cluster::start_audited().await else {
        return;
    };
    let log = cluster.audit_log();
    let client = cluster.client(Who::Admin).await;
    for name in ["node1", "node2"] {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        let nodes = Api::all(client.clone());
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"x": "Pl4ntedInTheCluster"}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    let secrets = Api::namespaced(client, "default");
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();

    let server = tempfile::tempdir().unwrap();
    let place = server.path().join("etc/rancher/rke2/rke2.yaml");
    put(&cluster.kubeconfig(Who::Admin), &place);
    let sent = report(server.path(), &place).await;
    let nodes = sent.objects("", "Node").unwrap();
    assert_eq!(nodes.len(), 2);
    assert_eq!(nodes[0]["kind"], "Node");
    assert_eq!(sent.objects("apps", "Deployment"), Some(Vec::new()));
    assert_eq!(
        sent.objects("harvesterhci.io", "Setting"),
        None,
        "not served here"
    );
    assert!(
        sent.index
            .missing
            .iter()
            .any(|one| one.what.starts_with("Setting of harvesterhci.io"))
    );
    assert!(sent.json("cluster/version.json").unwrap()["gitVersion"].is_string());
    assert!(
        !sent
            .files
            .values()
            .any(|file| String::from_utf8_lossy(file).contains("Pl4nted"))
    );

    let agent = tempfile::tempdir().unwrap();
    let place = agent
        .path()
        .join("var/lib/rancher/rke2/agent/kubelet.kubeconfig");
    put(&cluster.kubeconfig(Who::Node), &place);
    let sent = report(agent.path(), &place).await;
    let nodes = sent.objects("", "Node").unwrap();
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0]["metadata"]["name"], "node1");
    assert_eq!(sent.objects("", "Pod"), Some(Vec::new()));
    assert!(sent.objects("", "Service").is_some());

    assert_eq!(refused(&log), []);
    let log = fs::read_to_string(log).unwrap();
    let asked: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    // kube-apiserver itself reads them; the one write is the test's own. Of Helm's and of machines' only metadata is asked for.
    let of_secrets = |event: &&Value| {
        let uri = event["requestURI"].as_str().unwrap_or_default();
        let metadata = ["type%3Dhelm.sh", "type%3Drke.cattle.io"];
        event["objectRef"]["resource"] == "secrets"
            && event["verb"] != "create"
            && event["user"]["username"] != "system:apiserver"
            && !metadata.iter().any(|part| uri.contains(part))
    };
    assert_eq!(asked.iter().filter(of_secrets).count(), 0);
}
