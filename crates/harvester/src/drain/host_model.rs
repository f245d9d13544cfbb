//! The nodes to which KubeVirt moves a VM with the CPU model `host-model`: those that can imitate the CPU of its node.
//!
//! virt-controller copies labels of the source node into the node selector of the target pod, unless the source pod has them from an
//! earlier migration (kubevirt v1.1 to v1.8 `pkg/virt-controller/watch/migration/migration.go`,
//! `prepareNodeSelectorForHostCpuModel`, `getHostCpuModelFromMap`).

use crate::objects::{ObjectKind, Objects, text};
use crate::schedule::{SchedulerNode, SchedulerPod};

const HOST_MODEL: &str = "host-model";
const MODEL_OF_NODE: &str = "host-model-cpu.node.kubevirt.io/";
const FEATURE_OF_NODE: &str = "host-model-required-features.node.kubevirt.io/";
const MODEL: &str = "cpu-model-migration.node.kubevirt.io/";
const FEATURE: &str = "cpu-feature.node.kubevirt.io/";

/// The pod to which the VM of this pod would move.
///
/// # Errors
///
/// Why KubeVirt makes no such pod.
pub(super) fn target(
    objects: &Objects,
    nodes: &[SchedulerNode],
    pod: &SchedulerPod,
    machine: &str,
) -> Result<SchedulerPod, String> {
    let mut target = pod.clone();
    let vmi = objects.get(ObjectKind::VMI, &pod.namespace, machine);
    let vmi = vmi.map_err(|why| why.to_string())?;
    let is_moved = |key: &String| key.contains(MODEL) || key.contains(FEATURE);
    if vmi.is_none_or(|vmi| text(vmi, "/spec/domain/cpu/model") != HOST_MODEL)
        || pod.node_selector.keys().any(is_moved)
    {
        return Ok(target);
    }
    let node = nodes
        .iter()
        .find(|node| Some(&node.name) == pod.node.as_ref());
    let labels = node.iter().flat_map(|node| &node.labels);
    let mut has_model = false;
    for (key, value) in labels {
        if let Some(model) = key.strip_prefix(MODEL_OF_NODE) {
            has_model = true;
            target
                .node_selector
                .insert(format!("{MODEL}{model}"), value.clone());
        } else if let Some(feature) = key.strip_prefix(FEATURE_OF_NODE) {
            target
                .node_selector
                .insert(format!("{FEATURE}{feature}"), value.clone());
        }
    }
    match has_model {
        true => Ok(target),
        false => Err(format!(
            "its CPU model is {HOST_MODEL}, and its node has no label {MODEL_OF_NODE}MODEL, by which KubeVirt finds a node for it"
        )),
    }
}
