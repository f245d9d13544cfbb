//! Which pods of a node a drain evicts (`k8s.io/kubectl/pkg/drain/filters.go`), and which of them need special handling.

use serde_json::Value;

use crate::objects::{items, text, texts};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Eviction {
    /// The drain ignores the pod, with the reason.
    Ignored(&'static str),
    /// The drain evicts the pod, and its controller creates another.
    Replaced,
    /// The drain evicts the pod, and no controller creates another (`--force`).
    Lost,
    /// The name of the VM's VirtualMachineInstance.
    Machine(String),
    InstanceManager,
    /// Its controller is unknown, so Windrow cannot tell whether it creates another.
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
        return Eviction::Ignored("it is already being deleted");
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
