//! Which pods of a node a drain evicts (`k8s.io/kubectl/pkg/drain/filters.go`), and what is special
//! about some of them.

use serde_json::Value;

use crate::objects::{items, text, texts};

/// What a drain does with a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Eviction {
    /// Nothing: why.
    Ignored(&'static str),
    /// It evicts it, and its controller makes another.
    Replaced,
    /// It evicts it, and no controller makes another (`--force`).
    Lost,
    /// A machine of KubeVirt: its VirtualMachineInstance.
    Machine(String),
    /// One of Longhorn's instance managers.
    InstanceManager,
    /// Its controller is not known: whether it makes another is not known either.
    Foreign(String),
}

pub(super) fn eviction(pod: &Value) -> Eviction {
    if texts(pod, "/metadata/annotations").contains_key("kubernetes.io/config.mirror") {
        return Eviction::Ignored("a static pod");
    }
    if matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
        return Eviction::Ignored("it has ended");
    }
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return Eviction::Ignored("it is going already");
    }
    let controller = items(pod, "/metadata/ownerReferences")
        .iter()
        .find(|owner| owner.pointer("/controller").and_then(Value::as_bool) == Some(true));
    let Some(controller) = controller else {
        return Eviction::Lost;
    };
    let (kind, name) = (text(controller, "/kind"), text(controller, "/name"));
    match kind {
        "DaemonSet" => Eviction::Ignored("of a DaemonSet"),
        "ReplicaSet" | "StatefulSet" | "ReplicationController" | "Job" => Eviction::Replaced,
        "VirtualMachineInstance" => Eviction::Machine(name.to_owned()),
        "InstanceManager" => Eviction::InstanceManager,
        _ => Eviction::Foreign(format!("{kind} {name}")),
    }
}
