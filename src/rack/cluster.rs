//! The Nodes of a cluster: the condition and the annotation that Windrow keeps on each. They are watched. The rack goes
//! on if kube-apiserver fails: the failure is a notice, and a node without other news soon becomes silent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use windrow_decide::Detail;
use windrow_harvester::node_condition::{ANNOTATION, own_condition};
use windrow_rack::{Heartbeat, read_node};

use super::Hub;
use crate::apiserver::{ApiServer, Connection, Followed, WatchChange, WatchSink, name_of};
use crate::backoff::Backoff;
use crate::kubeconfig::KubeconfigFiles;

/// Pauses while the kubeconfig cannot be used.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
const ABOUT: &str = "cluster";

pub(crate) async fn follow(hub: Arc<Hub>, api: ApiServer, kubeconfig: KubeconfigFiles) {
    let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
    let mut nodes = Nodes::new(&hub);
    loop {
        match api.connection(kubeconfig.clone()).await {
            Ok(connection) => {
                pauses.reset();
                let followed = all(&connection);
                nodes.connection = Some(connection.clone());
                followed.follow(&connection, &mut nodes).await;
            }
            Err(why) => nodes.unwatched(&why),
        }
        // The credential has changed, or cannot be used.
        pauses.wait().await;
    }
}

/// Lists them once.
///
/// # Errors
///
/// Why not, in a line.
pub(crate) async fn once(
    hub: &Hub,
    api: &ApiServer,
    kubeconfig: &KubeconfigFiles,
) -> Result<(), String> {
    let connection = api.connection(kubeconfig.clone()).await?;
    let mut first = First(Nodes::new(hub), Ok(()));
    all(&connection).follow(&connection, &mut first).await;
    first.1
}

fn all(connection: &Connection) -> Followed {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Node"));
    Followed {
        api: Api::<DynamicObject>::all_with(connection.watching_client(), &kind),
        detail: Detail::Full,
        fields: None,
        wants: None,
    }
}

struct Nodes<'h> {
    hub: &'h Hub,
    connection: Option<Connection>,
    /// The last state of each. The kubelet writes its Node far more often than Windrow does.
    known: BTreeMap<String, Value>,
}

impl<'h> Nodes<'h> {
    fn new(hub: &'h Hub) -> Self {
        Self {
            hub,
            connection: None,
            known: BTreeMap::new(),
        }
    }

    async fn hear(&mut self, node: &Value, is_watched: bool) {
        let now = reported(node);
        let name = name_of(node);
        let before = self.known.get(name);
        if before == Some(&now) {
            return;
        }
        // A Node that changes during the watch is up to date, independent of the node's clock.
        let beats =
            is_watched && before.is_some_and(|before| before["condition"] != now["condition"]);
        let heartbeat = match beats {
            true => Heartbeat::Seen,
            false => Heartbeat::ByItsClock,
        };
        self.known.insert(name.to_owned(), now);
        if let Some(report) = read_node(node, self.hub.now(), heartbeat) {
            // There may be no room for it, which a notice says.
            let _ = self.hub.take(report).await;
        }
    }

    fn unwatched(&self, why: &str) {
        let text = format!(
            "the cluster's Nodes cannot be watched: {why}; facts that only they have are getting old"
        );
        self.hub.note(ABOUT, Some(text));
    }
}

impl WatchSink for Nodes<'_> {
    async fn take(&mut self, change: WatchChange) -> bool {
        match change {
            WatchChange::Listed(nodes) => {
                self.hub.note(ABOUT, None);
                let there: Vec<&str> = nodes.iter().map(name_of).collect();
                self.known.retain(|name, _| there.contains(&name.as_str()));
                for node in &nodes {
                    self.hear(node, false).await;
                }
            }
            WatchChange::Applied(node) => self.hear(&node, true).await,
            WatchChange::Gone(node) => {
                self.known.remove(name_of(&node));
            }
            WatchChange::Failed(failure) => {
                self.unwatched(&failure.to_string());
                let connection = self.connection.as_ref();
                return connection.is_some_and(Connection::is_current);
            }
        }
        true
    }
}

struct First<'h>(Nodes<'h>, Result<(), String>);

impl WatchSink for First<'_> {
    async fn take(&mut self, change: WatchChange) -> bool {
        match change {
            WatchChange::Failed(failure) => self.1 = Err(failure.to_string()),
            listed => {
                self.0.take(listed).await;
            }
        }
        false
    }
}

fn reported(node: &Value) -> Value {
    json!({
        "condition": own_condition(node).map(|condition| condition.json()),
        "annotation": node["metadata"]["annotations"][ANNOTATION],
        "labels": node["metadata"]["labels"],
        "boot": node["status"]["nodeInfo"]["bootID"],
        "version": node["status"]["nodeInfo"]["kubeletVersion"],
        "addresses": node["status"]["addresses"],
    })
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
