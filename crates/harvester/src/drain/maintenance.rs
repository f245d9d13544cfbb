//! Does Harvester accept maintenance mode for a node? Its nodedrain controller checks this before it drains, and its checks
//! differ from those of a drain (harvester v1.8.2 `pkg/util/drainhelper` DrainPossible, `pkg/controller/master/nodedrain`
//! FindNonMigratableVMS; `tests/kubernetes/maintenance_in_cluster.rs` compares the answers with Harvester's own).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::report::{MaintenanceAnswer, MaintenanceMode};
use super::strategy;
use crate::objects::{Condition, ObjectKind, Objects, is_true, items, named, text, texts};
use crate::schedule::NodeSelector;

const MANAGED: &str = "harvesterhci.io/managed";
/// Annotation of a node that is in maintenance mode, or about to be.
const STATUS: &str = "harvesterhci.io/maintain-status";
const ROLES: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/etcd",
];
/// How many servers have to be outside maintenance mode, including the node itself.
const SERVERS: usize = 3;

/// Harvester's answer; `None` if Harvester does not manage the node.
pub(super) fn maintenance_mode(objects: &Objects, node: &str) -> Option<MaintenanceMode> {
    let own = objects.get(ObjectKind::NODE, "", node).ok()??;
    texts(own, "/metadata/labels").get(MANAGED)?;
    let (answer, because) = match refusals(objects, own) {
        Ok(because) if because.is_empty() => (MaintenanceAnswer::Accepted, because),
        Ok(because) => (MaintenanceAnswer::Refused, because),
        Err(why) => (MaintenanceAnswer::Unknown, vec![why]),
    };
    let labelled = strategy::treated(objects, node, &because);
    Some(MaintenanceMode {
        labelled: labelled.unwrap_or_else(|why| vec![why.to_string()]),
        ..MaintenanceMode::new(answer, because)
    })
}

/// Has Harvester drained the node for maintenance? The status is from `pkg/controller/master/node/maintain_controller.go`.
pub(crate) fn is_in_maintenance(node: &Value) -> bool {
    let annotations = texts(node, "/metadata/annotations");
    annotations
        .get(STATUS)
        .is_some_and(|status| status == "completed")
}

/// Is the node in maintenance mode, or about to be?
pub(crate) fn is_put_in_maintenance(node: &Value) -> bool {
    texts(node, "/metadata/annotations").contains_key(STATUS)
}

fn refusals(objects: &Objects, node: &Value) -> Result<Vec<String>, String> {
    let list = |kind| objects.all(kind).map_err(|why| why.to_string());
    let nodes = list(ObjectKind::NODE)?;
    if let Some(why) = too_few_servers(node, nodes) {
        // Force does not help, and Harvester checks nothing else.
        return Ok(vec![why]);
    }
    let name = text(node, "/metadata/name");
    let vms = list(ObjectKind::VMI)?;
    let volumes = list(ObjectKind::LONGHORN_VOLUME)?;
    let mut because = Vec::new();
    for volume in last_copies(list(ObjectKind::LONGHORN_REPLICA)?, name) {
        let Some(volume) = volumes
            .iter()
            .find(|one| text(one, "/metadata/name") == volume)
        else {
            return Err(format!("there is no Longhorn volume {volume}"));
        };
        for vm in users(volume) {
            if !vms.iter().any(|one| named(one) == vm) {
                return Err(format!(
                    "volume {} says that VM {vm} uses it, which does not run: Harvester tries again forever",
                    text(volume, "/metadata/name")
                ));
            }
            because.push(format!(
                "VM {vm}: the only running replica of its volume {} is on this node",
                text(volume, "/metadata/name")
            ));
        }
    }
    let here = |vm: &&Value| {
        texts(vm, "/metadata/labels")
            .get("kubevirt.io/nodeName")
            .map(String::as_str)
            == Some(name)
    };
    for vm in vms.iter().filter(here) {
        if let Some(no) = Condition::of(vm, "LiveMigratable").filter(|one| one.is_false()) {
            because.push(format!(
                "VM {}: it cannot be migrated live ({})",
                named(vm),
                no.reason
            ));
        }
        if !fits_elsewhere(vm, name, nodes)? {
            because.push(format!(
                "VM {}: no other node is Ready, not cordoned, and matches its node selector and affinity",
                named(vm)
            ));
        }
    }
    Ok(because)
}

/// Harvester counts servers, not quorum: it also rejects more than three.
fn too_few_servers(node: &Value, nodes: &[Value]) -> Option<String> {
    let is_server = |node: &&Value| {
        let labels = texts(node, "/metadata/labels");
        ROLES.iter().any(|role| labels.contains_key(*role))
    };
    if !is_server(&node) {
        return None;
    }
    let servers: Vec<&Value> = nodes.iter().filter(is_server).collect();
    if servers.len() == 1 {
        return Some("it is the only server".to_owned());
    }
    let is_outside = |node: &&&Value| !is_put_in_maintenance(node);
    let outside = servers.iter().filter(is_outside).count();
    (outside != SERVERS).then(|| {
        format!(
            "it is a server, and Harvester wants exactly {SERVERS} servers outside maintenance mode; there are {outside}"
        )
    })
}

/// The volumes with at most one running replica, if that replica is on this node.
fn last_copies<'o>(replicas: &'o [Value], node: &str) -> BTreeSet<&'o str> {
    let mut started: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for replica in replicas {
        if replica.pointer("/status/started").and_then(Value::as_bool) == Some(true) {
            let volume = started.entry(text(replica, "/spec/volumeName"));
            volume.or_default().push(text(replica, "/spec/nodeID"));
        }
    }
    let last = started.into_iter().filter(|(_, nodes)| *nodes == [node]);
    last.map(|(volume, _)| volume).collect()
}

/// The VMs that Longhorn lists as users of a volume.
fn users(volume: &Value) -> impl Iterator<Item = String> + '_ {
    let namespace = text(volume, "/status/kubernetesStatus/namespace");
    items(volume, "/status/kubernetesStatus/workloadsStatus")
        .iter()
        .filter(|one| text(one, "/workloadType") == "VirtualMachineInstance")
        .map(move |one| format!("{namespace}/{}", text(one, "/workloadName")))
}

/// Free resources, taints and pods do not count here.
fn fits_elsewhere(vm: &Value, node: &str, nodes: &[Value]) -> Result<bool, String> {
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let affinity = NodeSelector::parse(vm.pointer(required))?;
    let selector = texts(vm, "/spec/nodeSelector");
    Ok(nodes.iter().any(|other| {
        let (name, labels) = (
            text(other, "/metadata/name"),
            texts(other, "/metadata/labels"),
        );
        let cordoned = other
            .pointer("/spec/unschedulable")
            .and_then(Value::as_bool)
            == Some(true);
        name != node
            && !cordoned
            && is_true(other, "Ready")
            && affinity
                .as_ref()
                .is_none_or(|one| one.matches(&labels, name))
            && selector
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
    }))
}
