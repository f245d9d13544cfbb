//! Claims of storage: which objects mount them, and whether they are bound.

use serde_json::{Value, json};
use smol_str::SmolStr;
use windrow_model::manifest::ObjectRef;
use windrow_model::object::pods::pod_template_path;

use super::cluster::{SimulatedCluster, Stored};
use super::literals::{self, named};

/// The spec of the pods that an object creates, if it creates any.
pub(super) fn pod_spec<'o>(id: &ObjectRef, object: &'o Stored) -> &'o Value {
    // Other kinds have it in the same place as a Deployment.
    match pod_template_path(&id.group, &id.kind).unwrap_or(&["spec", "template"]) {
        [_, path @ ..] => &path.iter().fold(object.spec(), |at, key| &at[*key])["spec"],
        [] => object.spec(),
    }
}

/// Claims that a pod of this spec mounts. CDI gives the claim of a DataVolume the name of the DataVolume.
pub(super) fn claims(spec: &Value) -> impl Iterator<Item = &str> {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| {
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
        claim.or_else(|| volume["dataVolume"]["name"].as_str())
    })
}

/// Creates a claim, unless one with this name exists.
pub(super) fn make_claim(
    cluster: &mut SimulatedCluster,
    namespace: &str,
    name: &str,
    class: Option<&str>,
) {
    let id = named("", "PersistentVolumeClaim", Some(namespace), name);
    if cluster.has(&id) {
        return;
    }
    let spec = class.map_or_else(|| json!({}), |class| json!({"storageClassName": class}));
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec});
    cluster.put(id, claim);
}

/// CDI creates the claim of a DataVolume (containerized-data-importer v1.60.0 to v1.64.0,
/// `pkg/controller/datavolume/controller-base.go`).
pub(super) fn make_claim_of_data_volume(cluster: &mut SimulatedCluster, id: &ObjectRef) {
    let class = cluster.stored(id).and_then(|volume| {
        let spec = volume.spec();
        let of = |part: &str| spec[part]["storageClassName"].as_str();
        of("storage").or_else(|| of("pvc")).map(SmolStr::from)
    });
    let namespace = id.namespace_or_default();
    make_claim(cluster, namespace, &id.name, class.as_deref());
}

pub(super) fn claims_are_bound(
    cluster: &SimulatedCluster,
    id: &ObjectRef,
    object: &Stored,
) -> bool {
    let namespace = id.namespace_or_default();
    // A class that binds at the first use waits for this pod.
    claims(pod_spec(id, object)).all(|name| is_bound(cluster, namespace, name))
}

pub(super) fn is_bound(cluster: &SimulatedCluster, namespace: &str, claim: &str) -> bool {
    cluster
        .stored(&named("", "PersistentVolumeClaim", Some(namespace), claim))
        .is_some_and(|claim| claim.status()["phase"] == "Bound")
}

pub(super) const MOUNTING_KINDS: [(&str, &str); 6] = [
    ("", "Pod"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("batch", "Job"),
    ("kubevirt.io", "VirtualMachine"),
];

pub(super) fn is_used(cluster: &SimulatedCluster, claim: &ObjectRef) -> bool {
    MOUNTING_KINDS.iter().any(|(group, kind)| {
        cluster
            .of_kind(&literals::kind(group, kind))
            .any(|(id, object)| {
                id.namespace == claim.namespace
                    && claims(pod_spec(id, object)).any(|name| name == claim.name)
            })
    })
}
