//! Kubernetes' own kinds, and RKE2's: which are served before any manifest is applied, which have no namespace, and
//! which namespaces are always there.

use windrow_model::manifest::GroupKind;

use crate::knowledge::{NodeFacts, is_kubernetes_group, kubernetes_scope, serves_every_version};

/// Namespaces that kube-apiserver creates by itself.
const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// Is this kind served whenever RKE2 looks at its manifests, whatever its version? Waiting for it would only cost a pass.
pub(super) fn serves_before_manifests(kind: &GroupKind) -> bool {
    serves_every_version(&kind.group, &kind.kind)
}

/// Is this a group that only kube-apiserver or RKE2 itself serves? What it lacks never comes.
pub(super) fn serves(group: &str) -> bool {
    is_kubernetes_group(group)
}

/// Is a kind of Kubernetes' own groups namespaced? `None` for kinds of other groups.
pub(super) fn namespaced(kind: &GroupKind) -> Option<bool> {
    let scope = || kubernetes_scope(&kind.group, &kind.kind, &NodeFacts::default());
    serves(&kind.group).then(|| scope().unwrap_or(true))
}

/// Is this namespace always there?
pub(super) fn has_namespace(name: &str) -> bool {
    NAMESPACES.contains(&name)
}
