//! Which pods of a node a drain evicts (`k8s.io/kubectl/pkg/drain/filters.go`), and which of them need special handling.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::objects::{items, text, texts};
use crate::upgrade::time;

/// Rancher's limit of one attempt to drain (rancher 59bd052e44 `pkg/controllers/capr/machinedrain/machinedrain.go:226`). Counts from the
/// deletionTimestamp, which includes the grace period.
const PATIENCE: SignedDuration = SignedDuration::from_secs(600);

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
    /// It is being deleted, and should have ended at this time. kubectl waits for such a pod, too: it skips one only with
    /// `--skip-wait-for-delete-timeout` (`skipDeletedFilter`), which Harvester leaves at 0. Rancher passes on the value of its cluster
    /// (`machinedrain.go:238`), which Windrow does not read.
    Overdue(Timestamp),
    /// Its controller is unknown, so Windrow cannot tell whether it creates another.
    Foreign(String),
}

pub(super) fn eviction(pod: &Value, now: Timestamp) -> Eviction {
    if texts(pod, "/metadata/annotations").contains_key("kubernetes.io/config.mirror") {
        return Eviction::Ignored("a static pod");
    }
    if matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
        return Eviction::Ignored("it has ended");
    }
    let controller = items(pod, "/metadata/ownerReferences")
        .iter()
        .find(|owner| owner.pointer("/controller").and_then(Value::as_bool) == Some(true));
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        let is_daemon = controller.is_some_and(|owner| text(owner, "/kind") == "DaemonSet");
        let deleted = time(pod, "/metadata/deletionTimestamp").filter(|_| !is_daemon);
        return match deleted.filter(|deleted| now.duration_since(*deleted) > PATIENCE) {
            Some(deleted) => Eviction::Overdue(deleted),
            None => Eviction::Ignored("it is already being deleted"),
        };
    }
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
