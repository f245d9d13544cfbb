//! Whether the cluster's other servers are ready. Their Nodes and static pods show it; every server may list them with
//! RKE2's admin credential.

use std::time::Duration;

use kube::Client;
use serde_json::Value;
use windrow_harvester::objects::{ObjectKind, items, named};
use windrow_harvester::restart;

use crate::apiserver::{self, LONGEST, Reply};

const ANSWER: Duration = Duration::from_secs(10);
/// Only servers: a cluster may have a thousand agents.
const NODES: [&str; 2] = [
    "node-role.kubernetes.io%2Fcontrol-plane%3Dtrue",
    "node-role.kubernetes.io%2Fetcd%3Dtrue",
];
/// The label that RKE2 gives its static pods.
const PODS: &str = "tier%3Dcontrol-plane";

/// The other servers' missing components, each in a line. Empty if all of them have a ready kube-apiserver and etcd
/// member.
///
/// # Errors
///
/// In a line, when kube-apiserver does not answer or refuses.
pub async fn servers_not_ready(client: &Client, own: &str) -> Result<Vec<String>, String> {
    let mut nodes: Vec<Value> = Vec::new();
    for selector in NODES {
        let found = list(client, &ObjectKind::NODE.path(), selector).await?;
        for node in items(&found, "/items") {
            let is_same = |known: &Value| named(known) == named(node);
            if !nodes.iter().any(is_same) {
                nodes.push(node.clone());
            }
        }
    }
    let pods = list(client, &ObjectKind::POD.path_in("kube-system"), PODS).await?;
    Ok(restart::servers_not_ready(
        own,
        &nodes,
        items(&pods, "/items"),
    ))
}

async fn list(client: &Client, path: &str, selector: &str) -> Result<Value, String> {
    let path = format!("{path}?labelSelector={selector}");
    let reply = apiserver::get(client, &path, ANSWER, LONGEST).await;
    let found = reply.and_then(Reply::value);
    found.map_err(|failure| failure.to_string())
}
