//! The kinds that kube-apiserver of each minor serves, and the ClusterRoles of every cluster.
//!
//! The facts are data (`data/kubernetes.txt`, written by `crates/apischema/data/derive`). `tests/kubernetes/api_schema.rs`
//! compares them with a running kube-apiserver.

mod facts;
mod minors;

pub use facts::{FACTS, Facts, KindFact, RemovedKind};
pub use minors::Minors;

use std::collections::BTreeSet;

use windrow_model::manifest::group_of;

/// Whether kube-apiserver itself serves this group.
pub fn is_built_in_group(group: &str) -> bool {
    FACTS
        .kinds
        .iter()
        .any(|known| group_of(known.api_version) == group)
        || FACTS
            .removed
            .iter()
            .any(|removed| group_of(removed.api_version) == group)
}

/// The reason why a kind without a group does not exist, if Kubernetes has it in a group. Nothing can find such an object.
pub fn lacks_its_group(group: &str, kind: &str) -> Option<String> {
    let of_this_name = FACTS.kinds.iter().filter(|known| known.kind == kind);
    let groups: BTreeSet<&str> = of_this_name
        .map(|known| group_of(known.api_version))
        .collect();
    if !group.is_empty() || groups.is_empty() || groups.contains("") {
        return None;
    }
    let groups: Vec<&str> = groups.into_iter().collect();
    Some(format!(
        "{kind} is a kind of the group {}, which is not written",
        groups.join(" or ")
    ))
}

/// Whether every cluster has this ClusterRole.
pub fn is_default_cluster_role(name: &str) -> bool {
    // There are many roles of controllers and feature gates, and they change between versions.
    name.starts_with("system:") || FACTS.cluster_roles.contains(name)
}

/// The kinds that at least one of the minors serves by default, with their group and version.
pub fn served_kinds(minors: Minors) -> impl Iterator<Item = (&'static str, &'static str)> {
    FACTS
        .kinds
        .iter()
        .filter(move |known| known.definition.is_some() && !known.minors.and(minors).is_empty())
        .map(|known| (known.api_version, known.kind))
}

/// A kind of kube-apiserver, in any version of its group.
#[derive(Debug, Clone, Copy)]
pub struct BuiltInKind {
    pub group: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    by_default: Minors,
    on_request: Minors,
}

impl BuiltInKind {
    /// Whether at least one of these minors serves it by default.
    pub fn is_served_by(&self, minors: Minors) -> bool {
        !self.by_default.and(minors).is_empty()
    }

    /// Whether every known minor serves it by default.
    pub fn is_served_by_all(&self) -> bool {
        self.by_default.covers(Minors::ALL)
    }

    /// Whether at least one of these minors serves it if `runtime-config` enables it.
    pub fn is_offered_by(&self, minors: Minors) -> bool {
        !self.on_request.and(minors).is_empty()
    }
}

/// All kinds of kube-apiserver, each once.
pub fn built_in_kinds() -> Vec<BuiltInKind> {
    let mut all: Vec<BuiltInKind> = Vec::new();
    for known in &FACTS.kinds {
        let group = group_of(known.api_version);
        let same = |one: &BuiltInKind| (one.group, one.kind) == (group, known.kind);
        let place = all.iter().position(same).unwrap_or_else(|| {
            all.push(BuiltInKind {
                group,
                kind: known.kind,
                namespaced: known.namespaced,
                by_default: Minors::NONE,
                on_request: Minors::NONE,
            });
            all.len() - 1
        });
        let minors = match known.definition {
            Some(_) => &mut all[place].by_default,
            None => &mut all[place].on_request,
        };
        *minors = minors.or(known.minors);
    }
    all
}
