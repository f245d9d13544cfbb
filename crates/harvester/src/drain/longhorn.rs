//! Longhorn's instance manager on a node that is drained.
//!
//! Its budget selects it alone and allows nothing; Longhorn takes the budget away once the node is
//! cordoned, no engine runs there, and the setting `node-drain-policy` is content with where the
//! replicas are (Longhorn's documentation, *Node Maintenance*).

use serde_json::Value;

use crate::objects::{ObjectKind, Objects, text};

/// What Longhorn does with the budget of an instance manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Release {
    /// It takes it away; when, in words.
    Released(String),
    /// It never does: why.
    Kept(Vec<String>),
    /// It cannot be said.
    Unknown(String),
}

pub(super) fn release(objects: &Objects, node: &str) -> Release {
    let read = || -> Result<Release, String> {
        let list = |kind| objects.all(kind).map_err(|why| why.to_string());
        let (engines, replicas) = (
            list(ObjectKind::LONGHORN_ENGINE)?,
            list(ObjectKind::LONGHORN_REPLICA)?,
        );
        let policy = policy(list(ObjectKind::LONGHORN_SETTING)?);
        let running = |one: &&Value| text(one, "/status/currentState") == "running";
        let attached: Vec<&str> = engines
            .iter()
            .filter(running)
            .filter(|engine| text(engine, "/spec/nodeID") == node)
            .map(|engine| text(engine, "/spec/volumeName"))
            .collect();
        let here = replicas
            .iter()
            .filter(|replica| text(replica, "/spec/nodeID") == node && is_healthy(replica));
        let last = |replica: &Value| {
            let volume = text(replica, "/spec/volumeName");
            !replicas.iter().any(|other| {
                text(other, "/spec/volumeName") == volume
                    && text(other, "/spec/nodeID") != node
                    && is_healthy(other)
            })
        };
        let mut kept = Vec::new();
        for replica in here {
            let volume = text(replica, "/spec/volumeName");
            let runs = text(replica, "/status/currentState") == "running";
            let blocks = match policy {
                "always-allow" => false,
                "allow-if-replica-is-stopped" => last(replica) && runs,
                _ => last(replica),
            };
            if blocks {
                kept.push(format!(
                    "volume {volume}: its only healthy replica is on {node} (node-drain-policy {policy})"
                ));
            }
        }
        Ok(match (kept.is_empty(), attached.is_empty()) {
            (false, _) if policy.starts_with("block-for-eviction") => Release::Unknown(format!(
                "Longhorn first moves replicas away (node-drain-policy {policy}); it takes room on \
                 other nodes' disks"
            )),
            (false, _) => Release::Kept(kept),
            (true, true) => Release::Released("Longhorn takes its budget away".to_owned()),
            (true, false) => Release::Released(format!(
                "Longhorn takes its budget away once the volumes {} are detached here",
                attached.join(", ")
            )),
        })
    };
    read().unwrap_or_else(Release::Unknown)
}

fn is_healthy(replica: &Value) -> bool {
    !text(replica, "/spec/healthyAt").is_empty() && text(replica, "/spec/failedAt").is_empty()
}

fn policy(settings: &[Value]) -> &str {
    settings
        .iter()
        .find(|one| text(one, "/metadata/name") == "node-drain-policy")
        .map(|one| text(one, "/value"))
        .filter(|value| !value.is_empty())
        .unwrap_or("block-if-contains-last-replica")
}
