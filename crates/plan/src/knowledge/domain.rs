//! The API groups of the platform. An unexamined release may have more kinds in them than the data contain.

use super::{Bringer, Brings, Knowledge, NodeFacts, is_kubernetes_group};

/// Domains in which unrelated projects have groups, so that a known group proves nothing about others.
const SHARED_DOMAINS: [&str; 5] = [
    "banzaicloud.io",
    "cncf.io",
    "coreos.com",
    "k8s.io",
    "x-k8s.io",
];

impl Knowledge {
    /// Whether a group belongs to kube-apiserver, RKE2 or Harvester on this node. `backup.kubevirt.io` belongs to KubeVirt,
    /// because `kubevirt.io` does.
    pub(super) fn platform_owns(&self, group: &str, node: &NodeFacts) -> bool {
        if is_kubernetes_group(group) || group.ends_with(".k8s.io") {
            return true;
        }
        let mut entries = self.entries.iter().filter(|entry| match &entry.bringer {
            Bringer::Rke2 { .. } => true,
            Bringer::Harvester { .. } => node.is_harvester() || node.may_be_another(),
            _ => false,
        });
        entries
            .any(|entry| groups_of(&entry.brings).any(|known| is_within(group, domain_of(known))))
    }
}

fn groups_of(brings: &Brings) -> impl Iterator<Item = &str> {
    let of_kinds = brings.kinds.iter().map(|known| known.kind.group.as_str());
    of_kinds.chain(brings.groups.iter().map(|group| group.as_str()))
}

/// The domain of a group's project: its last two labels, or the whole group if other projects share these.
fn domain_of(group: &str) -> &str {
    let Some((rest, _)) = group.rsplit_once('.') else {
        return group;
    };
    let domain = rest
        .rfind('.')
        .map_or(group, |dot| group.get(dot + 1..).unwrap_or(group));
    if SHARED_DOMAINS.contains(&domain) {
        group
    } else {
        domain
    }
}

fn is_within(group: &str, domain: &str) -> bool {
    let rest = group.strip_suffix(domain);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Platform;

    #[test]
    fn a_group_belongs_to_the_platform_if_a_part_of_it_owns_the_domain() {
        let owns = |group: &str, platform| {
            Knowledge::shipped().platform_owns(group, &NodeFacts::from(Some(platform)))
        };
        for group in [
            "backup.kubevirt.io",
            "harvesterhci.io",
            "any.harvesterhci.io",
            "any.cattle.io",
            "longhorn.io",
            "any.cluster.x-k8s.io",
        ] {
            assert!(owns(group, Platform::Harvester), "{group}");
        }
        for group in ["traefik.io", "any.cattle.io", "batch", "any.k8s.io"] {
            assert!(owns(group, Platform::Rke2), "{group}");
        }
        for group in ["", "backup.kubevirt.io", "longhorn.io", "example.com"] {
            assert_eq!(owns(group, Platform::Rke2), group.is_empty(), "{group:?}");
        }
        for group in [
            "notkubevirt.io",
            "kueue.x-k8s.io",
            "postgresql.cnpg.io",
            "etcd.database.coreos.com",
        ] {
            assert!(!owns(group, Platform::Harvester), "{group}");
        }
    }
}
