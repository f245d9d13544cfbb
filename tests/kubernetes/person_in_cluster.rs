//! Level 4: a person at a workstation, whose kubeconfig names a command for the credential, against the real kube-apiserver.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, Who};
use support::objects::node;

use crate::support;

/// The command: it says that it ran, and prints the credential that lies beside it.
const LOGIN: &str = "echo ran >> \"$1/runs\"\ncat \"$1/printed\"\n";
const V1: &str = "client.authentication.k8s.io/v1";

fn windrow(kubeconfig: &str, home: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", home)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_whose_credential_a_command_prints_asks_the_cluster_as_with_kubectl() {
    let Some((cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    node(&client, "n1", json!({}), json!([])).await;
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
    write("login.sh", LOGIN);
    let admin = fs::read(cluster.kubeconfig(Who::Admin)).unwrap();
    let admin: Value = serde_json::from_slice(&admin).unwrap();
    let pem = |field: &str| {
        let data = admin["users"][0]["user"][field].as_str().unwrap();
        String::from_utf8(BASE64_STANDARD.decode(data).unwrap()).unwrap()
    };
    let put = |status: Value| {
        let credential = json!({"kind": "ExecCredential", "apiVersion": V1, "status": status});
        write("printed", &credential.to_string());
    };
    // The cluster stands in one file, the user in another: kubectl merges them.
    let directory = place.path().display().to_string();
    let clusters = json!({"clusters": admin["clusters"], "contexts": [
        {"name": "admin", "context": {"cluster": "default", "user": "login"}},
    ]});
    let users = json!({"users": [{"name": "login", "user": {"exec": {
        "apiVersion": V1, "command": "sh", "args": [format!("{directory}/login.sh"), directory],
        "interactiveMode": "IfAvailable", "provideClusterInfo": true,
    }}}]});
    write("clusters", &clusters.to_string());
    write("users", &users.to_string());
    let files = format!("{directory}/clusters:{directory}/users");
    let runs = || {
        let said = fs::read_to_string(place.path().join("runs")).unwrap_or_default();
        said.lines().count()
    };

    put(
        json!({"clientCertificateData": pem("client-certificate-data"), "clientKeyData": pem("client-key-data")}),
    );
    for (at, verb) in [
        &["drain-check", "n1", "-o", "json"][..],
        &["upgrade-check", "-o", "json"],
        &["repair", "addon-stuck", "--dry-run"],
    ]
    .into_iter()
    .enumerate()
    {
        let args = [verb, &["--context", "admin"]].concat();
        let asked = windrow(&files, place.path(), &args);
        let said = String::from_utf8_lossy(&asked.stderr);
        assert!(!said.contains("cannot query the cluster"), "{said}");
        // Once for the whole verb, however often it asks.
        assert_eq!(runs(), at + 1, "{verb:?}");
    }
    let checked = windrow(
        &files,
        place.path(),
        &["drain-check", "n1", "-o", "json", "--context", "admin"],
    );
    let document: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(document["drain"], "finishes", "{document:#}");

    // A rack shows the nodes on which Windrow reports. Its one file has all of it.
    let condition = json!({"status": {"conditions": [{"type": windrow_harvester::node_condition::CONDITION, "status": "False", "reason": "NodeReady", "message": "m",
        "lastHeartbeatTime": Timestamp::now(), "lastTransitionTime": Timestamp::now()}]}});
    let nodes: Api<Node> = Api::all(client.clone());
    nodes
        .patch_status("n1", &PatchParams::default(), &Patch::Strategic(&condition))
        .await
        .unwrap();
    let whole = json!({"current-context": "admin", "clusters": admin["clusters"], "contexts": clusters["contexts"], "users": users["users"]});
    write("whole", &whole.to_string());
    let before = runs();
    let listen = ["rack", "--once", "--listen", "127.0.0.1:1", "-o", "json"];
    let file = format!("--kubeconfig={directory}/whole");
    let rack = windrow("", place.path(), &[&listen[..], &[&file]].concat());
    let shown: Value = serde_json::from_slice(&rack.stdout).unwrap();
    assert_eq!(shown["nodes"][0]["host"], "n1", "{rack:?}");
    assert_eq!(runs(), before + 1);

    // The real server refuses this one.
    put(json!({"token": "nobodys"}));
    let refused = windrow(
        &files,
        place.path(),
        &["drain-check", "n1", "--context", "admin"],
    );
    assert_eq!(refused.status.code(), Some(5));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains("cannot query the cluster") && !said.contains("nobodys"),
        "{said}"
    );
}
