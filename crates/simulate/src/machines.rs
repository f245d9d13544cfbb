//! Virtual machines: what one needs before it starts, and what virt-controller says of it.

use serde_json::{Value, json};
use smol_str::SmolStr;
use windrow_model::manifest::{GroupKind, ObjectRef};

use super::claims::{claims, is_bound, make_claim};
use super::cluster::{SimulatedCluster, Stored};
use super::controllers::harvester_runs;
use super::literals::{self, named, static_json};
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

/// What the annotation of a machine is called from which Harvester makes its claims.
const CLAIM_TEMPLATES: &str = "harvesterhci.io/volumeClaimTemplates";

/// Makes the claims that a machine brings along, as far as they can be made by now: Harvester's controller those of its
/// annotation (harvester v1.4.0 to v1.8.2, `createPVCsFromAnnotation` in
/// `pkg/controller/master/virtualmachine/vm_controller.go`), virt-controller the DataVolumes of `dataVolumeTemplates` (kubevirt
/// v1.2.2 to v1.7.4, `handleDataVolumes` in `pkg/virt-controller/watch/vm`). Both do so for a machine that stands still, too.
pub(super) fn make_claims(cluster: &mut SimulatedCluster, id: &ObjectRef) {
    let Some(machine) = cluster.stored(id) else {
        return;
    };
    let namespace = id.namespace.as_deref().unwrap_or("default");
    let mut claims: Vec<(SmolStr, Option<SmolStr>)> = Vec::new();
    let annotation = machine.body()["metadata"]["annotations"][CLAIM_TEMPLATES].as_str();
    if let Some(text) = annotation.filter(|_| harvester_runs(cluster))
        && let Ok(Value::Array(templates)) = serde_json::from_str(text)
    {
        let able = templates.iter().filter(|one| has_its_image(cluster, one));
        claims.extend(able.filter_map(|template| {
            let class = template["spec"]["storageClassName"].as_str();
            let name = template["metadata"]["name"].as_str()?;
            Some((name.into(), class.map(SmolStr::from)))
        }));
    }
    let mut volumes: Vec<(ObjectRef, Value)> = Vec::new();
    if cluster.serves(&DATA_VOLUME).is_some() {
        let templates = machine.spec()["dataVolumeTemplates"].as_array();
        volumes.extend(templates.into_iter().flatten().filter_map(|template| {
            let name = template["metadata"]["name"].as_str()?;
            let id = named("cdi.kubevirt.io", "DataVolume", Some(namespace), name);
            let json = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
                "spec": template["spec"]});
            Some((id, json))
        }));
    }
    for (name, class) in claims {
        make_claim(cluster, namespace, &name, class.as_deref());
    }
    for (id, json) in volumes {
        if !cluster.has(&id) {
            cluster.put(id, json);
        }
    }
}

static DATA_VOLUME: GroupKind = literals::kind("cdi.kubevirt.io", "DataVolume");

/// Is the image there that a claim's template names? Since v1.5.0, the first with CDI, Harvester makes no claim before.
fn has_its_image(cluster: &SimulatedCluster, template: &Value) -> bool {
    let image = template["metadata"]["annotations"]["harvesterhci.io/imageId"].as_str();
    image
        .and_then(|image| image.split_once('/'))
        .filter(|_| cluster.serves(&DATA_VOLUME).is_some())
        .is_none_or(|(namespace, name)| {
            let kind = "VirtualMachineImage";
            cluster.has(&named("harvesterhci.io", kind, Some(namespace), name))
        })
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
        let init = &volume["cloudInitNoCloud"];
        let secrets = [
            &init["secretRef"]["name"],
            &init["networkDataSecretRef"]["name"],
        ];
        secrets
            .iter()
            .filter_map(|name| name.as_str())
            .all(|name| exists("", "Secret", name))
    });
    let claims_bound = claims(spec).all(|name| is_bound(cluster, namespace, name));
    let networks = spec["networks"].as_array().into_iter().flatten();
    let networks_there = networks
        .filter_map(|network| network["multus"]["networkName"].as_str())
        .all(|name| exists("k8s.cni.cncf.io", "NetworkAttachmentDefinition", name));
    claims_bound && volumes_there && networks_there
}
