//! Longhorn's volumes, and the objects that keep them attached.

use smol_str::{SmolStr, format_smolstr};
use windrow_model::manifest::ObjectRef;

use super::claims::{MOUNTING_KINDS, claims, claims_are_bound, pod_spec};
use super::cluster::SimulatedCluster;
use super::literals::{self, named};
use super::machines::{has_its_parts, has_its_pod};
use super::operators::is_complete;

/// A Longhorn volume that an object keeps attached.
#[derive(Debug)]
pub(super) struct AttachedVolume {
    pub(super) name: SmolStr,
    pub(super) claim: SmolStr,
    /// The object that mounts it.
    pub(super) user: ObjectRef,
}

/// The attached volumes of Longhorn: those of every object that has its pods, from the moment when all of its mounts exist.
pub(super) fn attached_volumes(cluster: &SimulatedCluster) -> Vec<AttachedVolume> {
    let mut attached = Vec::new();
    for (group, kind) in MOUNTING_KINDS {
        for (id, object) in cluster.of_kind(&literals::kind(group, kind)) {
            let has_pods = match kind {
                "VirtualMachine" => has_its_pod(object) && has_its_parts(cluster, id, object),
                "Job" => !is_complete(object) && claims_are_bound(cluster, id, object),
                _ => claims_are_bound(cluster, id, object),
            };
            if !has_pods {
                continue;
            }
            let namespace = id.namespace_or_default();
            for claim in claims(pod_spec(id, object)) {
                let claim = named("", "PersistentVolumeClaim", Some(namespace), claim);
                if is_longhorn(cluster, &claim) {
                    attached.push(AttachedVolume {
                        name: format_smolstr!("pvc-{namespace}-{}", claim.name),
                        claim: claim.name,
                        user: id.clone(),
                    });
                }
            }
        }
    }
    attached
}

/// Is the claim's volume one of Longhorn's, as it is by default?
fn is_longhorn(cluster: &SimulatedCluster, claim: &ObjectRef) -> bool {
    let Some(claim) = cluster.stored(claim) else {
        return false;
    };
    claim.spec()["storageClassName"]
        .as_str()
        .is_none_or(|class| {
            cluster
                .stored(&named("storage.k8s.io", "StorageClass", None, class))
                .is_some_and(|class| class.body()["provisioner"] == "driver.longhorn.io")
        })
}
