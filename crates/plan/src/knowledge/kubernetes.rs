//! The kinds that are served before any manifest is applied: those of kube-apiserver, from `crate::kubernetes` with
//! their versions, and those of RKE2 itself.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::kubernetes::{BuiltInKind, Minors, built_in_kinds};
use smol_str::SmolStr;

use super::{Bringer, Knowledge, NodeFacts, Presence};

/// The server of a kind that exists from the start.
#[derive(Debug, Clone, Copy)]
enum ServedKind {
    /// kube-apiserver, in some versions.
    Kubernetes(BuiltInKind),
    /// RKE2 itself, before it reads manifests.
    Rke2 { namespaced: bool },
}

/// Kinds by group and name.
type ServedKinds = HashMap<SmolStr, HashMap<SmolStr, ServedKind>>;

static KINDS: LazyLock<ServedKinds> = LazyLock::new(|| {
    let mut kinds = ServedKinds::new();
    let mut add = |group: SmolStr, kind: SmolStr, served| {
        kinds.entry(group).or_default().insert(kind, served);
    };
    for known in built_in_kinds() {
        let served = ServedKind::Kubernetes(known);
        add(known.group.into(), known.kind.into(), served);
    }
    let itself = |bringer: &Bringer| matches!(bringer, Bringer::Rke2 { component, .. } if component.is_none());
    let entries = Knowledge::shipped().entries().iter();
    for entry in entries.filter(|entry| itself(&entry.bringer)) {
        for known in &entry.brings.kinds {
            let namespaced = known.namespaced;
            let served = ServedKind::Rke2 { namespaced };
            add(known.kind.group.clone(), known.kind.kind.clone(), served);
        }
    }
    kinds
});

fn served_kind(group: &str, kind: &str) -> Option<ServedKind> {
    KINDS.get(group)?.get(kind).copied()
}

/// The minor version of a node. As everywhere, an unknown version counts as the newest.
fn minors(node: &NodeFacts) -> Minors {
    let minor = node.kubernetes().map(|[_, minor, _]| minor);
    Minors::nearest(minor.map(|minor| u16::try_from(minor).unwrap_or(u16::MAX)))
}

/// The scope of this kind, if the Kubernetes of this node serves it from the start. `None` for a kind that requires a
/// CustomResourceDefinition. An unknown version counts as the newest.
pub fn kubernetes_scope(group: &str, kind: &str, node: &NodeFacts) -> Option<bool> {
    match served_kind(group, kind)? {
        ServedKind::Kubernetes(known) => {
            known.is_served_by(minors(node)).then_some(known.namespaced)
        }
        ServedKind::Rke2 { namespaced } => Some(namespaced),
    }
}

/// Whether kube-apiserver of this node serves one of its kinds. `None` for any other kind.
pub(super) fn kubernetes_presence(group: &str, kind: &str, node: &NodeFacts) -> Option<Presence> {
    let ServedKind::Kubernetes(known) = served_kind(group, kind)? else {
        return None;
    };
    let minors = minors(node);
    Some(if known.is_served_by(minors) {
        Presence::There
    } else if known.is_offered_by(minors) {
        Presence::Where("its `runtime-config` switches it on".into())
    } else {
        Presence::Absent
    })
}

/// Whether every known version of Kubernetes serves this kind from the start.
pub(crate) fn serves_every_version(group: &str, kind: &str) -> bool {
    match served_kind(group, kind) {
        Some(ServedKind::Kubernetes(known)) => known.is_served_by_all(),
        Some(ServedKind::Rke2 { .. }) => true,
        None => false,
    }
}

/// Whether some version serves a kind of this group from the start.
pub fn is_kubernetes_group(group: &str) -> bool {
    KINDS.get(group).is_some_and(|kinds| {
        kinds.values().any(|served| match served {
            ServedKind::Kubernetes(known) => known.is_served_by(Minors::ALL),
            ServedKind::Rke2 { .. } => true,
        })
    })
}
