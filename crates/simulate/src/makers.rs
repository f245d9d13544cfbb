//! Programs that may create an object that no manifest has: a chart, an object of an unknown operator, pods with additional
//! rights.

use serde_json::Value;
use windrow_model::manifest::ObjectRef;
use windrow_plan::knowledge::{is_kubernetes_group, is_platforms_namespace};
use windrow_plan::rules::Platform;

use super::claims;
use super::cluster::{SimulatedCluster, Stored};
use super::lacking::target_namespace;
use super::literals;

/// The programs that may create an object that no manifest has and that `needing` needs, judging by the existing objects.
pub(super) fn who_may_bring(
    cluster: &SimulatedCluster,
    object: &ObjectRef,
    needing: &ObjectRef,
) -> Option<String> {
    let namespace = match (object.group.as_str(), object.kind.as_str()) {
        ("", "Namespace") => object.name.as_str(),
        _ => object.namespace.as_deref().unwrap_or_default(),
    };
    // Harvester's charts create more of these than this model knows.
    let is_class = ["PriorityClass", "RuntimeClass"].contains(&object.kind.as_str());
    let on_harvester = cluster.node.platform == Some(Platform::Harvester);
    if is_platforms_namespace(namespace) || (is_class && on_harvester) {
        return Some("the platform".to_owned());
    }
    let gives_rights = BINDINGS.iter().any(|kind| {
        let kind = literals::kind("rbac.authorization.k8s.io", kind);
        cluster.of_kind(&kind).next().is_some()
    });
    let mut objects = cluster.stored_objects();
    objects
        .find(|(id, stored)| {
            *id != needing
                && stored.is_of_a_manifest()
                && may_make_others(id, stored, gives_rights)
                && target_namespace(cluster, id).is_none()
        })
        .map(|(id, _)| id.to_string())
}

const BINDINGS: [&str; 2] = ["ClusterRoleBinding", "RoleBinding"];

/// Can an object lead to other objects that are not simulated?
fn may_make_others(id: &ObjectRef, object: &Stored, gives_rights: bool) -> bool {
    match (id.group.as_str(), id.kind.as_str()) {
        ("harvesterhci.io", "Addon") => object.spec()["enabled"] == true,
        ("harvesterhci.io", kind) => !HARVESTERS_OWN.contains(&kind),
        ("helm.cattle.io", kind) => kind == "HelmChart",
        ("management.cattle.io", "Feature" | "NodeDriver" | "Setting") => false,
        ("cdi.kubevirt.io", "DataVolume") | ("kubevirt.io", "VirtualMachine") => false,
        (group, _) if SIMULATED_GROUPS.contains(&group) => false,
        (group, _) if is_kubernetes_group(group) => {
            let pods = claims::pod_spec(id, object);
            let accounts = [&pods["serviceAccountName"], &pods["serviceAccount"]];
            let mut accounts = accounts.into_iter().filter_map(Value::as_str);
            pods["containers"].is_array()
                && (gives_rights || accounts.any(|account| account != "default"))
        }
        _ => true,
    }
}

/// Kinds of Harvester that create nothing that a VM can need, except for the simulated parts.
const HARVESTERS_OWN: [&str; 8] = [
    "BlockDevice",
    "KeyPair",
    "Preference",
    "ResourceQuota",
    "Setting",
    "VirtualMachineImage",
    "VirtualMachineTemplate",
    "VirtualMachineTemplateVersion",
];

/// Groups for which the same is true.
const SIMULATED_GROUPS: [&str; 9] = [
    "k8s.cni.cncf.io",
    "loadbalancer.harvesterhci.io",
    "logging.banzaicloud.io",
    "longhorn.io",
    "monitoring.coreos.com",
    "network.harvesterhci.io",
    "node.harvesterhci.io",
    "snapshot.storage.k8s.io",
    "whereabouts.cni.cncf.io",
];
