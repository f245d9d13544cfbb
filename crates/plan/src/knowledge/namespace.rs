//! The platform's own namespaces, which contain more than the knowledge lists.

/// Whether Kubernetes, RKE2, Rancher, Longhorn or Harvester creates this namespace for itself.
pub fn is_platforms_namespace(name: &str) -> bool {
    const NAMES: [&str; 11] = [
        "calico-system",
        "fleet-default",
        "fleet-local",
        "harvester-public",
        "harvester-system",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "local",
        "longhorn-system",
        "tigera-operator",
    ];
    // Rancher's namespaces differ between its releases.
    NAMES.contains(&name) || name.starts_with("cattle-")
}

#[cfg(test)]
mod tests {
    use super::super::{Bringer, Knowledge};
    use super::*;

    #[test]
    fn every_namespace_that_the_data_gives_the_platform_is_its_own_but_for_default() {
        let others =
            |one: &Bringer| matches!(one, Bringer::Chart { .. } | Bringer::Operator { .. });
        let entries = Knowledge::shipped().entries().iter();
        let objects = entries
            .filter(|entry| !others(&entry.bringer))
            .flat_map(|entry| &entry.brings.objects);
        let names: Vec<&str> = objects
            .filter(|object| object.kind == "Namespace")
            .map(|object| object.name.as_str())
            .collect();
        assert!(names.contains(&"fleet-default") && names.contains(&"harvester-public"));
        for name in names {
            assert_eq!(is_platforms_namespace(name), name != "default", "{name}");
        }
        for name in [
            "harvester-demo",
            "kube-prometheus",
            "fleet-apps",
            "longhorn-backup",
        ] {
            assert!(!is_platforms_namespace(name), "a user's: {name}");
        }
    }
}
