//! Kubernetes' own kinds, by what is known of kube-apiserver and of RKE2 itself.

use std::collections::HashMap;
use std::sync::LazyLock;

use smol_str::SmolStr;

use super::{Bringer, Knowledge, NodeFacts, VersionRange};

/// Kinds by group and name: in which versions they are served, and whether they are namespaced.
type KubernetesKinds = HashMap<SmolStr, HashMap<SmolStr, (VersionRange, bool)>>;

static KINDS: LazyLock<KubernetesKinds> = LazyLock::new(|| {
    let mut kinds = KubernetesKinds::new();
    for entry in Knowledge::shipped().entries() {
        if !matches!(
            entry.bringer,
            Bringer::Kubernetes { optional: false }
                | Bringer::Rke2 {
                    component: None,
                    ..
                }
        ) {
            continue;
        }
        for known in &entry.brings.kinds {
            let group = kinds.entry(known.kind.group.clone()).or_default();
            group.insert(known.kind.kind.clone(), (entry.versions, known.namespaced));
        }
    }
    kinds
});

/// Is this kind served from the start by this node's Kubernetes, and is it namespaced? `None` for a kind that a
/// CustomResourceDefinition has to bring. A version that is not known is taken for the newest.
pub fn kubernetes_scope(group: &str, kind: &str, node: &NodeFacts) -> Option<bool> {
    let (versions, namespaced) = KINDS.get(group)?.get(kind)?;
    versions.includes(node.kubernetes()).then_some(*namespaced)
}

/// Is this kind served from the start by every version of Kubernetes that is known?
pub(crate) fn serves_every_version(group: &str, kind: &str) -> bool {
    let known = KINDS.get(group).and_then(|kinds| kinds.get(kind));
    known.is_some_and(|(versions, _)| *versions == VersionRange::default())
}

/// Is this group served from the start?
pub fn is_kubernetes_group(group: &str) -> bool {
    KINDS.contains_key(group)
}
