//! Kubernetes' own kinds, and RKE2's: those that are served before any manifest is applied, those without a namespace,
//! and the namespaces that always exist.

use windrow_model::manifest::GroupKind;

use crate::knowledge::{NodeFacts, is_kubernetes_group, kubernetes_scope, serves_every_version};

/// Namespaces that kube-apiserver creates automatically.
const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// Whether this kind is served whenever RKE2 reads its manifests, in every version. Waiting for it would only cost a
/// pass.
pub(super) fn serves_before_manifests(kind: &GroupKind) -> bool {
    serves_every_version(&kind.group, &kind.kind)
}

/// Whether only kube-apiserver or RKE2 itself serves this group. A kind that the group does not have will never exist.
pub(super) fn serves(group: &str) -> bool {
    is_kubernetes_group(group)
}

/// Whether a kind of Kubernetes' own groups is namespaced; `None` for kinds of other groups.
pub(super) fn namespaced(kind: &GroupKind) -> Option<bool> {
    let scope = || kubernetes_scope(&kind.group, &kind.kind, &NodeFacts::default());
    serves(&kind.group).then(|| scope().unwrap_or(true))
}

pub(super) fn has_namespace(name: &str) -> bool {
    NAMESPACES.contains(&name)
}
