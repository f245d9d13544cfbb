//! Longhorn's instance manager on a node that is being drained.
//!
//! Its budget has its name and allows nothing. Longhorn removes the budget when three conditions are met: the node is cordoned,
//! the manager lists no engine any more, and the setting `node-drain-policy` allows it for the present location of the replicas.
//! While the manager is not `running`, Longhorn does not check the budget at all (longhorn-manager
//! `controller/instance_manager_controller.go`, syncInstanceManagerPDB and canDeleteInstanceManagerPDB, v1.7.2, v1.9.1, v1.11.1).
//!
//! A budget can select the wrong pod: Longhorn v1.3 could give the budget of one node's manager the labels of another's
//! (generateInstanceManagerPDBManifest, v1.3.2; harvester#3730). So the budgets of other managers that select the pod are checked
//! first ([`keeper`]).
//!
//! ```text
//!   the manager does not run, and has its budget ──> Unknown
//!   a replica on the node   unused, or (allow-if-replica-is-stopped) stopped ──> it does not matter
//!                           a healthy one is kept by a budget on another node ─> it does not matter
//!                           a healthy one elsewhere, not kept now; or a rebuild ─> Unknown
//!                           none ──> its budget stays
//!   all this is so, the node is cordoned for long, and the budget is still there ──> Unknown
//! ```

use jiff::Timestamp;
use serde_json::Value;

use super::stale_engines;
use crate::objects::{ObjectKind, Objects, items, named, text};
use crate::upgrade::{minutes_since, time};

/// Longhorn removes a budget within seconds after the last obstacle is gone; by then an engine that is being detached is gone
/// too.
const PATIENCE: i64 = 10;
/// The taint of a cordoned node; kube-controller-manager records when it added the taint.
pub(crate) const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Since when a node has been cordoned; `None` if it is not, or if the time is missing.
pub(crate) fn cordoned_since(node: &Value) -> Option<Timestamp> {
    let mut taints = items(node, "/spec/taints").iter();
    let cordon = taints.find(|taint| text(taint, "/key") == CORDON)?;
    time(cordon, "/timeAdded")
}

/// Has the node been cordoned for long enough that Longhorn has checked it since?
pub(crate) fn is_cordoned_for_long(node: &Value, now: Timestamp) -> bool {
    cordoned_since(node).is_some_and(|since| minutes_since(since, now) >= PATIENCE)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Release {
    /// Longhorn removes it; when, in words.
    Released(String),
    /// Longhorn never removes it, with the reasons.
    Kept(Vec<String>),
    Unknown(String),
}

/// The release of the instance manager whose pod has this name.
pub(super) fn release(objects: &Objects, node: &str, manager: &str, now: Timestamp) -> Release {
    Longhorn::read(objects).map_or_else(Release::Unknown, |seen| seen.release(node, manager, now))
}

/// The node of the instance manager with the name of a budget; `None` if there is none, or if the managers could not be listed.
pub(super) fn keeper<'o>(objects: &'o Objects, budget: &str) -> Option<&'o str> {
    let managers = objects
        .all(ObjectKind::INSTANCE_MANAGER)
        .unwrap_or_default();
    let manager = managers.iter().find(|manager| named(manager) == budget)?;
    Some(text(manager, "/spec/nodeID"))
}

/// The objects on which Longhorn bases its decision.
struct Longhorn<'o> {
    engines: &'o [Value],
    replicas: &'o [Value],
    managers: &'o [Value],
    budgets: &'o [Value],
    nodes: &'o [Value],
    policy: &'o str,
}

/// Does another healthy copy of a replica's data exist?
enum OtherCopy {
    /// A budget protects it.
    Kept,
    /// Not now, with the reason.
    NotYet(String),
    None,
}

impl<'o> Longhorn<'o> {
    fn read(objects: &'o Objects) -> Result<Self, String> {
        let list = |kind| objects.all(kind).map_err(|why| why.to_string());
        Ok(Self {
            engines: list(ObjectKind::LONGHORN_ENGINE)?,
            replicas: list(ObjectKind::LONGHORN_REPLICA)?,
            managers: list(ObjectKind::INSTANCE_MANAGER)?,
            budgets: list(ObjectKind::BUDGET)?,
            nodes: list(ObjectKind::NODE)?,
            policy: policy(list(ObjectKind::LONGHORN_SETTING)?),
        })
    }

    fn release(&self, node: &str, name: &str, now: Timestamp) -> Release {
        if self.is_cordoned(node) && !self.has_budget(name) {
            return Release::Released("Longhorn has removed its budget".to_owned());
        }
        let mut managers = self.managers.iter();
        let manager = managers.find(|one| text(one, "/metadata/name") == name);
        let state = manager.map(|manager| text(manager, "/status/currentState"));
        if let Some(state) = state.filter(|state| *state != "running" && self.has_budget(name)) {
            return Release::Unknown(format!(
                "its instance manager is `{state}`, and Longhorn removes its budget only while it is `running`"
            ));
        }
        let here = |manager: &&Value| text(manager, "/spec/nodeID") == node;
        let mut listed = Vec::new();
        for manager in self.managers.iter().filter(here) {
            if let Some(stale) = stale_engines(manager, self.engines).first() {
                return Release::Unknown(format!(
                    "{} still lists engine {}, and Longhorn keeps the budget while it does: {}",
                    named(manager),
                    stale.name,
                    stale.because
                ));
            }
            let engines = manager.pointer("/status/instanceEngines");
            let engines = engines.and_then(Value::as_object).into_iter().flatten();
            listed.extend(engines.map(|(name, _)| name.as_str()));
        }
        match self.by_replicas(node) {
            Release::Released(_) if !listed.is_empty() => Release::Released(format!(
                "Longhorn removes its budget once these engines are gone: {}",
                listed.join(", ")
            )),
            Release::Released(_) if self.is_overdue(node, name, now) => Release::Unknown(format!(
                "{node} has been cordoned for more than {PATIENCE} minutes and Windrow sees nothing that keeps \
                 its budget, but Longhorn has not removed it"
            )),
            other => other,
        }
    }

    fn is_overdue(&self, node: &str, manager: &str, now: Timestamp) -> bool {
        let mut nodes = self.nodes.iter();
        let node = nodes.find(|one| text(one, "/metadata/name") == node);
        self.has_budget(manager) && node.is_some_and(|node| is_cordoned_for_long(node, now))
    }

    fn by_replicas(&self, node: &str) -> Release {
        let policy = self.policy;
        let here = || self.replicas.iter().filter(|one| is_on(one, node));
        let released = || Release::Released("Longhorn removes its budget".to_owned());
        if policy == "always-allow" || (policy == "block-for-eviction" && here().next().is_none()) {
            return released();
        }
        let moves_away = || {
            Release::Unknown(format!(
                "Longhorn first moves replicas away (node-drain-policy {policy}); it takes room on other nodes' disks"
            ))
        };
        if policy == "block-for-eviction" {
            return moves_away();
        }
        let (mut kept, mut not_yet) = (Vec::new(), None);
        for replica in here().filter(|replica| self.matters(replica)) {
            let volume = text(replica, "/spec/volumeName");
            match self.other_copy(volume, node) {
                OtherCopy::Kept => {}
                OtherCopy::NotYet(why) => not_yet = Some(format!("volume {volume}: {why}")),
                OtherCopy::None if self.may_stop(volume, node) => {
                    not_yet = Some(format!(
                        "volume {volume}: its only healthy replica is on {node}, and Windrow cannot tell whether \
                         it stops with the drain (node-drain-policy {policy})"
                    ));
                }
                OtherCopy::None => kept.push(format!(
                    "volume {volume}: no healthy replica but on {node} (node-drain-policy {policy})"
                )),
            }
        }
        match not_yet {
            _ if !kept.is_empty() && policy.starts_with("block-for-eviction") => moves_away(),
            _ if !kept.is_empty() => Release::Kept(kept),
            Some(why) => Release::Unknown(why),
            None => released(),
        }
    }

    /// Does the policy check this replica? A replica that never ran holds no data.
    fn matters(&self, replica: &Value) -> bool {
        let is = |pointer: &str, value: &str| text(replica, pointer) == value;
        let unused = is("/spec/healthyAt", "") && is("/spec/failedAt", "");
        let stopped = is("/spec/desireState", "stopped") && is("/status/currentState", "stopped");
        !(unused || stopped && self.policy == "allow-if-replica-is-stopped")
    }

    /// Is the volume attached here, so that the drain detaches it, which may stop its replicas?
    fn may_stop(&self, volume: &str, node: &str) -> bool {
        let mut engines = self.engines.iter();
        self.policy == "allow-if-replica-is-stopped"
            && engines.any(|engine| {
                text(engine, "/spec/volumeName") == volume && text(engine, "/spec/nodeID") == node
            })
    }

    fn other_copy(&self, volume: &str, node: &str) -> OtherCopy {
        let others = self
            .replicas
            .iter()
            .filter(|one| text(one, "/spec/volumeName") == volume && !is_on(one, node));
        let mut found = OtherCopy::None;
        for replica in others {
            let place = text(replica, "/spec/nodeID");
            let healthy = !text(replica, "/spec/healthyAt").is_empty();
            let failed = !text(replica, "/spec/failedAt").is_empty();
            let running = text(replica, "/status/currentState") == "running";
            match (healthy, failed) {
                (true, false) if self.is_cordoned(place) => {
                    found = OtherCopy::NotYet(format!(
                        "its other healthy replica is on {place}, which is cordoned"
                    ));
                }
                (true, false) if self.is_kept(replica) => return OtherCopy::Kept,
                (true, false) => {
                    found = OtherCopy::NotYet(format!(
                        "its healthy replica on {place} is not kept by a budget now"
                    ));
                }
                (false, false) if running => {
                    found = OtherCopy::NotYet(format!("its replica on {place} is being rebuilt"));
                }
                _ => {}
            }
        }
        found
    }

    /// Does its instance manager run, and does a budget protect it?
    fn is_kept(&self, replica: &Value) -> bool {
        let place = text(replica, "/spec/nodeID");
        let by = text(replica, "/status/instanceManagerName");
        self.managers.iter().any(|manager| {
            let name = text(manager, "/metadata/name");
            let is_its = match by {
                "" => text(manager, "/spec/nodeID") == place && !is_of_engines(manager),
                by => name == by,
            };
            is_its && text(manager, "/status/currentState") == "running" && self.has_budget(name)
        })
    }

    fn is_cordoned(&self, node: &str) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|one| {
            text(one, "/metadata/name") == node
                && one.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true)
        })
    }

    /// A budget has the name of its instance manager.
    fn has_budget(&self, manager: &str) -> bool {
        let mut budgets = self.budgets.iter();
        budgets.any(|one| {
            text(one, "/metadata/name") == manager
                && text(one, "/metadata/namespace") == "longhorn-system"
        })
    }
}

fn is_on(replica: &Value, node: &str) -> bool {
    text(replica, "/spec/nodeID") == node
}

/// An instance manager for engines only, as in Longhorn before v1.5.
fn is_of_engines(manager: &Value) -> bool {
    text(manager, "/spec/type") == "engine"
}

fn policy(settings: &[Value]) -> &str {
    settings
        .iter()
        .find(|one| text(one, "/metadata/name") == "node-drain-policy")
        .map(|one| text(one, "/value"))
        .filter(|value| !value.is_empty())
        .unwrap_or("block-if-contains-last-replica")
}
