//! Level 4: an upgrade check over a real API server. Its kinds are the published ones; there is no kubelet, so what a
//! kubelet would say is not known.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::process::Command;

use kube::Client;
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use support::objects::{ADDON, CAPI_CLUSTER, Gvk, MACHINE, NODE, SETTING, UPGRADE, VOLUME};
use support::objects::{api, make, namespace, node, patch, serve_published};
use windrow::apiserver::earliest_end;
use windrow::archive::Archive;

use crate::support;

const SECRET: Gvk = ("", "v1", "Secret");

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

pub(crate) async fn a_server(client: &Client, name: &str) {
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
        "spec": {"clusterName": "local", "bootstrap": {}, "infrastructureRef": {"kind": "CustomMachine"}},
        "status": {"phase": "Running", "nodeRef": {"name": name}}});
    with_status(client, MACHINE, "fleet-local", machine).await;
}

/// Makes an object with its status.
pub(crate) async fn with_status(client: &Client, gvk: Gvk, namespace: &str, object: Value) {
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
        (CAPI_CLUSTER, "Namespaced"),
        (MACHINE, "Namespaced"),
    ] {
        serve_published(&client, kind, scope).await;
    }
    for name in ["fleet-local", "harvester-system", "longhorn-system"] {
        namespace(&client, name).await;
    }
    for (name, value) in [("server-version", "v1.6.1"), ("upgrade-config", "")] {
        let setting = json!({"metadata": {"name": name}, "value": value});
        make(&client, SETTING, "", setting).await;
    }
    let local = json!({"metadata": {"name": "local"}, "status": {"phase": "Provisioned"}});
    with_status(&client, CAPI_CLUSTER, "fleet-local", local).await;
    for name in ["n1", "n2", "n3"] {
        a_server(&client, name).await;
    }

    let (code, said) = upgrade_check(&cluster, &[]);
    assert_eq!((code, &said["from"]), (5, &json!("v1.6.1")), "{said:#}");
    assert_eq!(rows(&said, "unknown"), ["space-for-images", "certificates"]);
    assert!(rows(&said, "fail").is_empty(), "{said:#}");

    // Two reasons of Harvester's, and one that it does not look at: Kubernetes 1.34 has the gate locked.
    let degraded = json!({"metadata": {"name": "pvc-1"}, "spec": {"numberOfReplicas": 3},
        "status": {"robustness": "degraded"}});
    with_status(&client, VOLUME, "longhorn-system", degraded).await;
    // Not the newest one: it counts all the same.
    let older = json!({"metadata": {"name": "hvst-upgrade-a", "labels": {"harvesterhci.io/upgradeState": "UpgradingNodes"}},
        "spec": {}});
    make(&client, UPGRADE, "harvester-system", older).await;
    let (code, said) = upgrade_check(&cluster, &["--harvester", "v1.7.1"]);
    assert_eq!((code, &said["verdict"]), (4, &json!("fail")), "{said:#}");
    assert_eq!(
        rows(&said, "fail"),
        [
            "version-exists",
            "no-upgrade-under-way",
            "volumes-whole",
            "gates"
        ]
    );
}

/// As Rancher writes the options of the drain that Harvester asks for.
const DRAIN: &str = r#"{"deleteEmptyDirData":true,"disableEviction":false,"enabled":true,"force":true,"gracePeriod":0,"ignoreDaemonSets":true,"postDrainHooks":[{"annotation":"harvesterhci.io/post-hook"}],"preDrainHooks":[{"annotation":"harvesterhci.io/pre-hook"}],"skipWaitForDeleteTimeoutSeconds":0,"timeout":0}"#;

#[tokio::test]
async fn an_answer_to_an_earlier_drain_stops_the_next_upgrade_live_and_in_a_report_without_the_plan_itself()
 {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client_that_asks_once(Who::Admin).await;
    for (kind, scope) in [(SETTING, "Cluster"), (UPGRADE, "Namespaced")] {
        serve_published(&client, kind, scope).await;
    }
    for name in ["fleet-local", "harvester-system"] {
        namespace(&client, name).await;
    }
    for name in ["n1", "n2", "n3"] {
        node(&client, name, json!({}), json!([])).await;
    }
    let plan = json!({"metadata": {"name": "custom-1-machine-plan", "labels": {"rke.cattle.io/machine-name": "custom-1"},
        "annotations": {"harvesterhci.io/pre-hook": DRAIN, "other": "Pl4ntedInAPlan"}},
        "type": "rke.cattle.io/machine-plan", "stringData": {"plan": "Pl4ntedInAPlan"}});
    make(&client, SECRET, "fleet-local", plan).await;
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let kubeconfig = root.join("etc/rancher/rke2/rke2.yaml");
    std::fs::create_dir_all(kubeconfig.parent().unwrap()).unwrap();
    std::fs::copy(cluster.kubeconfig(Who::Admin), &kubeconfig).unwrap();
    let live = ["--kubeconfig".as_ref(), kubeconfig.as_os_str()];
    let check = |from: &[&std::ffi::OsStr]| {
        let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .arg("--root")
            .arg(root)
            .args(["upgrade-check", "-o", "json"])
            .args(from)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(!said.contains("Pl4nted"), "{said}");
        let said: Value = serde_json::from_str(&said).unwrap();
        let mut rows = said["checks"].as_array().unwrap().iter();
        let row = rows.find(|row| row["check"] == "drain-hooks-open").unwrap();
        (row["outcome"].clone(), row["problems"][0]["object"].clone())
    };
    let stops = (
        json!("fail"),
        json!("Secret fleet-local/custom-1-machine-plan"),
    );
    // The list comes from kube-apiserver's memory, which hears of a change a moment later.
    let is_told = async || (check(&live) == stops).then_some(());
    eventually("the answer is seen", DEADLINE, is_told).await;
    let report = root.join("report.tar.gz");
    let made = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .arg("report")
        .args(live)
        .arg("--output-file")
        .arg(&report)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let from_report = ["--from".as_ref(), report.as_os_str()];
    assert_eq!(check(&from_report), stops);
    let archive = Archive::read(std::fs::File::open(&report).unwrap()).unwrap();
    let shown = |file: &Vec<u8>| String::from_utf8_lossy(file).into_owned();
    assert!(
        !archive
            .files
            .values()
            .any(|file| shown(file).contains("Pl4nted"))
    );

    let answered = json!({"metadata": {"annotations": {"harvesterhci.io/pre-hook": null}}});
    patch(
        &client,
        SECRET,
        "fleet-local",
        "custom-1-machine-plan",
        answered,
    )
    .await;
    let is_gone = async || (check(&live).0 == "pass").then_some(());
    eventually("the answer is gone", DEADLINE, is_gone).await;
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
