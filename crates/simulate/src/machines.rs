//! Virtual machines: the requirements of their start, and the status by virt-controller.

use serde_json::{Value, json};
use smol_str::SmolStr;
use windrow_model::manifest::{GroupKind, ObjectRef};

use super::claims::make_claim;
use super::cluster::{SimulatedCluster, Stored};
use super::controllers::harvester_runs;
use super::lacking::lacking_parts;
use super::literals::{self, named, static_json};
use super::log::HappeningKind;

pub(super) static MACHINES: GroupKind = literals::kind("kubevirt.io", "VirtualMachine");

/// The status of a VM by virt-controller.
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

/// Has virt-controller reported that the VM has its pod, or gets it?
pub(super) fn has_its_pod(machine: &Stored) -> bool {
    let state = &machine.status()["printableStatus"];
    [MachineState::Starting, MachineState::Running]
        .iter()
        .any(|known| *state == known.as_str())
}

/// Writes the VM's status, unless it is in this state already.
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

/// Does the run strategy in its `spec` start the VM?
pub(super) fn starts(spec: &Value) -> bool {
    match spec["runStrategy"].as_str() {
        Some(strategy) => matches!(strategy, "Always" | "RerunOnFailure" | "Once"),
        None => spec["running"] == true,
    }
}

/// The annotation of a VM from which Harvester creates its claims.
const CLAIM_TEMPLATES: &str = "harvesterhci.io/volumeClaimTemplates";

/// Creates the claims of a VM, as far as that is possible now. Harvester's controller creates those of its annotation (harvester
/// v1.4.0 to v1.8.2, `createPVCsFromAnnotation` in `pkg/controller/master/virtualmachine/vm_controller.go`), and virt-controller
/// the DataVolumes of `dataVolumeTemplates` (kubevirt v1.2.2 to v1.7.4, `handleDataVolumes` in `pkg/virt-controller/watch/vm`).
/// Both do so for a stopped VM, too.
pub(super) fn make_claims(cluster: &mut SimulatedCluster, id: &ObjectRef) {
    let Some(machine) = cluster.stored(id) else {
        return;
    };
    let namespace = id.namespace_or_default();
    let mut claims: Vec<(SmolStr, Option<SmolStr>)> = Vec::new();
    if harvester_runs(cluster) {
        let templates = claim_templates(machine);
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

fn claim_templates(machine: &Stored) -> Vec<Value> {
    let text = machine.body()["metadata"]["annotations"][CLAIM_TEMPLATES].as_str();
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

fn image_of(template: &Value) -> Option<ObjectRef> {
    let image = template["metadata"]["annotations"]["harvesterhci.io/imageId"].as_str()?;
    let (namespace, name) = image.split_once('/')?;
    let kind = "VirtualMachineImage";
    Some(named("harvesterhci.io", kind, Some(namespace), name))
}

pub(super) fn image_of_claim(machine: &Stored, claim: &str) -> Option<ObjectRef> {
    let templates = claim_templates(machine);
    let mut templates = templates.iter();
    let template = templates.find(|template| template["metadata"]["name"] == claim)?;
    image_of(template)
}

/// Does the image in a claim's template exist? Since v1.5.0, the first with CDI, Harvester creates no claim before.
fn has_its_image(cluster: &SimulatedCluster, template: &Value) -> bool {
    image_of(template)
        .filter(|_| cluster.serves(&DATA_VOLUME).is_some())
        .is_none_or(|image| cluster.has(&image))
}

/// Are the VM's claims bound, and do its networks and Secrets exist?
pub(super) fn has_its_parts(cluster: &SimulatedCluster, id: &ObjectRef, machine: &Stored) -> bool {
    lacking_parts(cluster, id, machine).next().is_none()
}
