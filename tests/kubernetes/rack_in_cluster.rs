//! Level 4: a rack that watches the Nodes of a real kube-apiserver, on which a node's own identity writes its condition and its
//! annotation.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Who, eventually, refused};
use tokio::sync::watch;
use windrow::apiserver::ApiServer;
use windrow::report::cluster::{NodeOutletContext, NodeOutletSwitches, NodeWriter, serve};
use windrow::report::publish::PublishedStatus;

use crate::support;

/// A rack that serves on loopback. It ends with its owner.
struct Rack {
    child: Child,
    url: String,
}

impl Rack {
    fn start(kubeconfig: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(["rack", "--listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let url = line.strip_prefix("windrow rack: events to ").unwrap();
        let url = url.split_once("/events").unwrap().0.to_owned();
        Self { child, url }
    }

    async fn view(&self) -> Value {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = client.get(format!("{}/rack.json", self.url)).send().await;
        serde_json::from_str(&answer.unwrap().text().await.unwrap()).unwrap()
    }

    /// Waits until a node is shown like this.
    async fn shows(&self, what: &str, node: &str, like: impl Fn(&Value) -> bool) -> Value {
        eventually(what, DEADLINE, async || {
            let view = self.view().await;
            let rows = view["nodes"].as_array().unwrap();
            rows.iter()
                .find(|row| row["host"] == node && like(row))
                .cloned()
        })
        .await
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Writer {
    api: ApiServer,
    writer: NodeWriter,
}

impl NodeOutletContext for Writer {
    fn switches(&self) -> NodeOutletSwitches {
        NodeOutletSwitches {
            condition: true,
            events: false,
        }
    }

    fn writer(&self) -> BoxFuture<'_, NodeWriter> {
        let writer = self.writer.clone();
        async { writer }.boxed()
    }

    fn client(&self, kubeconfig: &Path) -> BoxFuture<'_, Result<Client, String>> {
        let kubeconfig = kubeconfig.to_owned();
        async move { self.api.client(&kubeconfig).await }.boxed()
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

fn status(readiness: &str, phase: &str, findings: usize) -> Option<PublishedStatus> {
    let finding = json!({"code": "image-not-bundled", "severity": "warning", "message": "m", "at": [{"file": "x.yaml", "line": 3}]});
    let status = json!({
        "apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 1, "readiness": readiness, "phase": phase,
        "since": "2026-11-21T20:15:00Z", "pace": if readiness == "Ready" { Value::Null } else { json!("stalled") },
        "reason": {"code": "node-ready", "message": "the reason"}, "summary": "x", "headline": readiness.replace("SettingUp", "Setting up"),
        "staging": {"total": 4, "held": [], "released": [], "applied": [], "failed": []},
        "findings": vec![finding; findings], "versions": {"windrow": "0.1.7"},
    });
    Some(PublishedStatus::new(
        serde_json::from_value(status).unwrap(),
    ))
}

#[tokio::test]
async fn what_a_nodes_own_identity_writes_is_on_the_page_and_a_refusal_is_said_until_it_is_over() {
    let Some(cluster) = Cluster::start_audited().await else {
        return;
    };
    let log = cluster.audit_log();
    let admin = cluster.client(Who::Admin).await;
    let nodes: Api<Node> = Api::all(admin.clone());
    for name in ["node1", "node2", "without"] {
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    let writer = NodeWriter {
        kubeconfig: cluster.kubeconfig(Who::Node),
        node: "node1".to_owned(),
    };
    let (publish, published) = watch::channel(status("SettingUp", "manifests", 2));
    let (_reload, reloads) = watch::channel(());
    let api = ApiServer::new();
    let writing = tokio::spawn(serve(Arc::new(Writer { api, writer }), reloads, published));

    let rack = Rack::start(&cluster.kubeconfig(Who::Admin));
    let row = rack
        .shows("node1 is on the page", "node1", |row| {
            row["phase"] == "manifests"
        })
        .await;
    assert_eq!(
        (&row["word"], &row["pace"]),
        (&json!("settingUp"), &json!("stalled"))
    );
    assert_eq!(row["version"], "0.1.7");
    assert_eq!(row["findings"].as_array().unwrap().len(), 2);
    assert_eq!(row["findings"][0]["subject"], "x.yaml:3");
    publish.send_replace(status("Ready", "ready", 0));
    rack.shows("the change is on the page", "node1", |row| {
        row["word"] == "ready"
    })
    .await;
    // One that somebody else writes.
    let beat = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({"status": {"conditions": [{"type": windrow_harvester::node_condition::CONDITION, "status": "True", "reason": "X",
        "message": "Setting up (kube-apiserver): refused", "lastHeartbeatTime": beat, "lastTransitionTime": beat}]}});
    let patch = Patch::Strategic(&condition);
    let parameters = PatchParams::default();
    nodes
        .patch_status("node2", &parameters, &patch)
        .await
        .unwrap();
    rack.shows("node2 is on the page", "node2", |row| row["phase"] == "api")
        .await;
    let view = rack.view().await;
    assert_eq!(view["counts"]["total"], 2, "{view:#}");
    nodes
        .delete("node2", &DeleteParams::default())
        .await
        .unwrap();

    // Stopped, it says so, and what no longer is true is taken away.
    drop(publish);
    writing.await.unwrap();
    rack.shows("node1 is unknown", "node1", |row| row["word"] == "unknown")
        .await;
    let node = nodes.get("node1").await.unwrap();
    assert!(
        !node
            .metadata
            .annotations
            .unwrap_or_default()
            .contains_key("windrow.dev/bootstrap")
    );
    assert_eq!(refused(&log), [], "a node's identity may do all of this");
    drop(rack);

    // A user without the right: said, and over once it is given.
    let rack = Rack::start(&cluster.kubeconfig(Who::Viewer));
    let notice = async || {
        let view = rack.view().await;
        let texts = view["notices"].as_array().cloned().unwrap_or_default();
        texts.iter().any(|one| {
            let text = one["text"].as_str().unwrap_or_default();
            text.contains("403: nodes is forbidden")
                && text.contains("cannot list resource \"nodes\"")
        })
    };
    eventually("the refusal is on the page", DEADLINE, async || {
        notice().await.then_some(())
    })
    .await;
    assert_eq!(rack.view().await["counts"]["total"], 0);
    let once = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["rack", "--once", "--listen", "127.0.0.1:1", "--kubeconfig"])
        .arg(cluster.kubeconfig(Who::Viewer))
        .output()
        .unwrap();
    assert_eq!(once.status.code(), Some(5), "{once:?}");
    assert!(
        String::from_utf8_lossy(&once.stderr).contains("403: nodes is forbidden"),
        "{once:?}"
    );
    let rules = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]);
    let role: ClusterRole =
        serde_json::from_value(json!({"metadata": {"name": "windrow-rack"}, "rules": rules}))
            .unwrap();
    let roles: Api<ClusterRole> = Api::all(admin.clone());
    roles.create(&PostParams::default(), &role).await.unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({"metadata": {"name": "windrow-rack"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "windrow-rack"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}]}))
    .unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(admin);
    bindings
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
    rack.shows("node1 is on the page", "node1", |row| {
        row["word"] == "unknown"
    })
    .await;
    assert!(!notice().await);
}
