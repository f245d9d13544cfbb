//! Level 4: the condition and the events on the node's own Node, written to the real kube-apiserver with the node's
//! identity (Node authorizer, NodeRestriction, KEP-4601) and with the admin's.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, NodeCondition};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use support::cluster::{Cluster, DEADLINE, Who, eventually, refused};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windrow::apiserver::ApiServer;
use windrow::report::cluster::{NodeOutletContext, NodeOutletSwitches, NodeWriter, serve};
use windrow::report::publish::PublishedStatus;
use windrow_decide::{NodeRole, Readiness, Status};
use windrow_harvester::node_condition::{CONDITION, FORMER_CONDITION};
use windrow_model::reasons::Code;

use crate::support;
use crate::support::as_node::on_its_node;
use crate::support::daemon::can_mount;

struct Daemon {
    api: ApiServer,
    kubeconfig: PathBuf,
    node: &'static str,
    condition: watch::Receiver<bool>,
}

impl NodeOutletContext for Daemon {
    fn switches(&self) -> NodeOutletSwitches {
        NodeOutletSwitches {
            condition: *self.condition.borrow(),
            events: true,
        }
    }

    fn writer(&self) -> BoxFuture<'_, NodeWriter> {
        let writer = NodeWriter {
            kubeconfig: self.kubeconfig.clone(),
            node: self.node.to_owned(),
        };
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

/// An outlet that is open, and what drives it.
pub(crate) struct Open {
    publish: watch::Sender<Option<PublishedStatus>>,
    reload: watch::Sender<()>,
    condition: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Open {
    pub(crate) fn new(kubeconfig: PathBuf, node: &'static str) -> Self {
        let (publish, published) = watch::channel(None);
        let (reload, reloads) = watch::channel(());
        let (condition, wanted) = watch::channel(true);
        let daemon = Daemon {
            api: ApiServer::new(),
            kubeconfig,
            node,
            condition: wanted,
        };
        Self {
            serving: tokio::spawn(serve(Arc::new(daemon), reloads, published)),
            publish,
            reload,
            condition,
        }
    }

    /// Publishes what a server reports.
    fn publish(&self, readiness: Readiness, code: Code, message: &str) {
        self.publish_as(NodeRole::FirstServer, readiness, code, message);
    }

    /// Publishes what a node of Harvester with this role reports.
    pub(crate) fn publish_as(
        &self,
        role: NodeRole,
        readiness: Readiness,
        code: Code,
        message: &str,
    ) {
        let status = json!({
            "apiVersion": "windrow.dev/v1", "kind": "Status", "generation": 1,
            "readiness": readiness, "phase": "staging", "since": "2026-11-21T20:15:00Z", "role": role, "platform": "harvester",
            "reason": {"code": code, "message": message}, "summary": message,
            "headline": "",
            "staging": {"total": 0, "held": [], "released": [], "applied": [], "failed": []},
            "findings": [], "versions": {"windrow": "0"},
        });
        let mut status: Status = serde_json::from_value(status).unwrap();
        status.headline = windrow_decide::sentence::word(&status).to_owned();
        self.publish
            .send_replace(Some(PublishedStatus::new(status)));
    }

    pub(crate) async fn stop(self) {
        drop(self.publish);
        self.serving.await.unwrap();
    }
}

async fn make_nodes(nodes: &Api<Node>) {
    for name in ["node1", "node2"] {
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
}

fn condition(node: &Node) -> Option<NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|one| one.type_ == CONDITION)
        .cloned()
}

/// Waits until the condition is like this.
async fn is(nodes: &Api<Node>, node: &str, status: &str, reason: &str) -> NodeCondition {
    eventually(
        &format!("the condition is {status}, {reason}"),
        DEADLINE,
        async || {
            condition(&nodes.get(node).await.unwrap())
                .filter(|one| one.status == status && one.reason.as_deref() == Some(reason))
        },
    )
    .await
}

/// Events of this program, each with its count.
async fn events(events: &Api<Event>) -> Vec<(String, i32)> {
    let list = events.list(&ListParams::default()).await.unwrap();
    list.items
        .into_iter()
        .filter(|event| event.reporting_component.as_deref() == Some("windrow"))
        .map(|event| {
            assert_eq!(event.involved_object.kind.as_deref(), Some("Node"));
            (event.reason.unwrap(), event.count.unwrap())
        })
        .collect()
}

#[tokio::test]
async fn a_node_writes_its_own_condition_and_events_and_nothing_of_it_is_refused() {
    let Some(cluster) = Cluster::start_audited().await else {
        return;
    };
    let log = cluster.audit_log();
    let admin = cluster.client(Who::Admin).await;
    let nodes: Api<Node> = Api::all(admin.clone());
    make_nodes(&nodes).await;
    // The kubelet's own condition stays.
    let theirs = json!({"status": {"conditions": [{"type": "Ready", "status": "True",
        "lastHeartbeatTime": "2026-11-21T20:00:00Z", "lastTransitionTime": "2026-11-21T20:00:00Z"}]}});
    let patch = Patch::Strategic(&theirs);
    nodes
        .patch_status("node1", &PatchParams::default(), &patch)
        .await
        .unwrap();

    let open = Open::new(cluster.kubeconfig(Who::Node), "node1");
    open.publish(Readiness::SettingUp, Code::Staging, "1 of 2");
    let first = is(&nodes, "node1", "True", "Staging").await;
    assert_eq!(first.message.as_deref(), Some("Setting up: 1 of 2"));
    open.publish(Readiness::Failed, Code::NodeNotReady, "gone");
    let failed = is(&nodes, "node1", "True", "NodeNotReady").await;
    assert_eq!(
        failed.last_transition_time, first.last_transition_time,
        "it was True before"
    );
    open.publish(Readiness::Ready, Code::NodeReady, "all well");
    is(&nodes, "node1", "False", "NodeReady").await;
    open.publish(Readiness::Failed, Code::NodeNotReady, "gone");
    is(&nodes, "node1", "True", "NodeNotReady").await;
    let all: Api<Event> = Api::namespaced(admin, "default");
    eventually("what came again is counted", DEADLINE, async || {
        let told = events(&all).await;
        (told.contains(&("NodeNotReady".to_owned(), 2)) && told.len() == 2).then_some(())
    })
    .await;
    open.publish(Readiness::Ready, Code::NodeReady, "all well");
    let before = is(&nodes, "node1", "False", "NodeReady").await;
    open.stop().await;
    let stopped = condition(&nodes.get("node1").await.unwrap()).unwrap();
    assert_eq!(
        (stopped.status.as_str(), stopped.reason.as_deref()),
        ("Unknown", Some("Stopping"))
    );
    let node = nodes.get("node1").await.unwrap();
    assert_eq!(node.status.unwrap().conditions.unwrap().len(), 2);

    // The next run of the daemon continues with what is there.
    let ready = json!({"status": {"conditions": [{"type": CONDITION, "status": "False",
        "lastTransitionTime": before.last_transition_time}]}});
    let patch = Patch::Strategic(&ready);
    nodes
        .patch_status("node1", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let open = Open::new(cluster.kubeconfig(Who::Node), "node1");
    open.publish(Readiness::Degraded, Code::DiskLow, "5%");
    let again = is(&nodes, "node1", "False", "DiskLow").await;
    assert_eq!(again.last_transition_time, before.last_transition_time);
    // Switched off, it is removed.
    open.condition.send_replace(false);
    open.reload.send_replace(());
    eventually("the condition is taken away", DEADLINE, async || {
        condition(&nodes.get("node1").await.unwrap())
            .is_none()
            .then_some(())
    })
    .await;
    open.stop().await;
    assert!(condition(&nodes.get("node1").await.unwrap()).is_none());

    // So it is when Windrow is removed.
    let open = Open::new(cluster.kubeconfig(Who::Node), "node1");
    open.publish(Readiness::Ready, Code::NodeReady, "all well");
    is(&nodes, "node1", "False", "NodeReady").await;
    open.stop().await;
    // Below another root, `cleanup` would not contact the cluster.
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let place = root
        .path()
        .join("var/lib/rancher/rke2/agent/kubelet.kubeconfig");
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::copy(cluster.kubeconfig(Who::Node), place).unwrap();
    let ran = tokio::process::Command::from(on_its_node(root.path()))
        .arg("cleanup")
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(said.contains("removed the condition"), "{ran:?}");
    assert!(condition(&nodes.get("node1").await.unwrap()).is_none());
    assert_eq!(refused(&log), []);
}

#[tokio::test]
async fn a_daemon_removes_the_condition_of_an_earlier_version_switched_on_or_off() {
    let Some(cluster) = Cluster::start_audited().await else {
        return;
    };
    let log = cluster.audit_log();
    let nodes: Api<Node> = Api::all(cluster.client(Who::Admin).await);
    make_nodes(&nodes).await;
    let types = async || {
        let node = nodes.get("node1").await.unwrap();
        let conditions = node.status.and_then(|status| status.conditions);
        let types = conditions
            .into_iter()
            .flatten()
            .map(|condition| condition.type_);
        types.collect::<Vec<String>>()
    };
    let entry = |name: &str| {
        json!({"type": name, "status": "True", "lastHeartbeatTime": "2026-11-21T20:00:00Z",
            "lastTransitionTime": "2026-11-21T20:00:00Z"})
    };
    for (is_on, expected) in [(true, vec!["Ready", CONDITION]), (false, vec!["Ready"])] {
        let earlier = json!({"metadata": {"annotations": {"windrow.dev/bootstrap": "{}"}},
            "status": {"conditions": [entry("Ready"), entry(FORMER_CONDITION)]}});
        let patch = Patch::Strategic(&earlier);
        nodes
            .patch_status("node1", &PatchParams::default(), &patch)
            .await
            .unwrap();
        assert!(types().await.contains(&FORMER_CONDITION.to_owned()));
        let open = Open::new(cluster.kubeconfig(Who::Node), "node1");
        open.condition.send_replace(is_on);
        open.reload.send_replace(());
        open.publish(Readiness::Ready, Code::NodeReady, "all well");
        eventually("only these conditions are left", DEADLINE, async || {
            let mut types = types().await;
            types.sort();
            (types == expected).then_some(())
        })
        .await;
        open.stop().await;
    }
    assert_eq!(refused(&log), []);
}

#[tokio::test]
async fn a_server_writes_as_admin_and_another_nodes_name_is_refused_once_and_not_asked_again() {
    let Some(cluster) = Cluster::start_audited().await else {
        return;
    };
    let log = cluster.audit_log();
    let nodes: Api<Node> = Api::all(cluster.client(Who::Admin).await);

    // Before the kubelet has registered the Node it cannot be written; afterwards it is.
    let server = Open::new(cluster.kubeconfig(Who::Admin), "node2");
    server.publish(Readiness::SettingUp, Code::Staging, "1 of 2");
    eventually(
        "the Node was asked for without success",
        DEADLINE,
        async || {
            let log = fs::read_to_string(&log).unwrap();
            let asked =
                |line: &str| line.contains("/api/v1/nodes/node2") && line.contains("\"code\":404");
            log.lines().any(asked).then_some(())
        },
    )
    .await;
    make_nodes(&nodes).await;
    is(&nodes, "node2", "True", "Staging").await;

    let wrong = Open::new(cluster.kubeconfig(Who::Node), "node2");
    wrong.publish(Readiness::Ready, Code::NodeReady, "a lie");
    eventually("it is refused", DEADLINE, async || {
        (!refused(&log).is_empty()).then_some(())
    })
    .await;
    // More changes, and the refusal still counts.
    wrong.publish(Readiness::Failed, Code::NodeNotReady, "another lie");
    server.publish(Readiness::Degraded, Code::DiskLow, "5%");
    is(&nodes, "node2", "False", "DiskLow").await;
    wrong.stop().await;
    let provoked = ("system:node:node1", "/api/v1/nodes/node2");
    assert_eq!(
        refused(&log),
        [(provoked.0.to_owned(), provoked.1.to_owned())]
    );
    server.stop().await;
}
