//! Virtual machines: what one needs before it starts, and what virt-controller says of it.

use serde_json::Value;
use windrow_model::manifest::ObjectRef;

use super::claims::is_bound;
use super::cluster::{SimulatedCluster, Stored};
use super::literals::{named, static_json};
use super::log::HappeningKind;

/// What virt-controller says of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MachineState {
    Starting,
    Stopped,
    Running,
}

impl MachineState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Stopped => "Stopped",
            Self::Running => "Running",
        }
    }
}

/// Has virt-controller said that the machine has its pod, or gets it?
pub(super) fn has_its_pod(machine: &Stored) -> bool {
    let state = &machine.status()["printableStatus"];
    [MachineState::Starting, MachineState::Running]
        .iter()
        .any(|known| *state == known.as_str())
}

/// Writes the machine's status, unless it is in this state already.
pub(super) fn become_state(cluster: &mut SimulatedCluster, id: &ObjectRef, state: MachineState) {
    let before = cluster.stored(id);
    if before.is_some_and(|vm| vm.status()["printableStatus"] == state.as_str()) {
        return;
    }
    let status = match state {
        MachineState::Starting => {
            static_json!({"created": true, "ready": false, "printableStatus": "Starting"})
        }
        MachineState::Running => {
            static_json!({"created": true, "ready": true, "printableStatus": "Running"})
        }
        MachineState::Stopped => {
            static_json!({"created": true, "ready": false, "printableStatus": "Stopped"})
        }
    };
    cluster.set_status(id, status);
    cluster.record(HappeningKind::Became {
        object: id.clone(),
        state: state.as_str().into(),
    });
}

/// Does the run strategy in its `spec` start the machine?
pub(super) fn starts(spec: &Value) -> bool {
    match spec["runStrategy"].as_str() {
        Some(strategy) => matches!(strategy, "Always" | "RerunOnFailure" | "Once"),
        None => spec["running"] == true,
    }
}

/// Are the machine's claims bound, and its networks and secrets there?
pub(super) fn has_its_parts(cluster: &SimulatedCluster, id: &ObjectRef, spec: &Value) -> bool {
    let namespace = id.namespace.as_deref().unwrap_or("default");
    let spec = &spec["template"]["spec"];
    let exists = |group, kind, name: &str| {
        let (namespace, name) = name.split_once('/').unwrap_or((namespace, name));
        cluster.has(&named(group, kind, Some(namespace), name))
    };
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let volumes_there = volumes.into_iter().all(|volume| {
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
        let bound = claim.is_none_or(|name| is_bound(cluster, namespace, name));
        let init = &volume["cloudInitNoCloud"];
        let secrets = [
            &init["secretRef"]["name"],
            &init["networkDataSecretRef"]["name"],
        ];
        bound
            && secrets
                .iter()
                .filter_map(|name| name.as_str())
                .all(|name| exists("", "Secret", name))
    });
    let networks = spec["networks"].as_array().into_iter().flatten();
    let networks_there = networks
        .filter_map(|network| network["multus"]["networkName"].as_str())
        .all(|name| exists("k8s.cni.cncf.io", "NetworkAttachmentDefinition", name));
    volumes_there && networks_there
}
