//! Facts about RKE2 itself. Pure.

mod chart_selections;
pub mod config;
mod embedded_registry;
mod key_relations;
mod keys;
mod known_keys;
mod kubelet;
mod named_files;
mod networks;
mod node_labels;
mod paths;
mod pod_network;
mod service_ranges;
mod shared_values;
pub mod value_form;
mod written_keys;

pub use chart_selections::{ChartSelections, DeletedNames, chart_selections};
pub use embedded_registry::embedded_registry;
pub(crate) use keys::{CNI, INGRESS};
pub use keys::{Rke2Role, judge_keys, unjudged_keys};
pub use known_keys::is_rke2_config;
pub use kubelet::{KubeletField, KubeletFiles, KubeletHealth};
pub use named_files::{FileFault, NamedFile, named_files};
pub use node_labels::kubelet_flag_fault;
pub use paths::{data_dir, profile, write_kubeconfig};
pub use pod_network::PodNetwork;
pub use service_ranges::{Network, ServiceRanges, service_ranges};
pub use shared_values::SharedValues;

pub use windrow_model::manifest::DATA_DIR;
use windrow_model::manifest::ManifestPath;

/// Manifests that RKE2 writes into its own directory at every start (`charts/chart_versions.yaml`
/// of RKE2 1.35 and 1.36, without the ending). Windrow never touches them.
pub const PACKAGED: &[&str] = &[
    "harvester-cloud-provider",
    "harvester-csi-driver",
    "rancher-vsphere-cpi",
    "rancher-vsphere-csi",
    "rke2-calico",
    "rke2-calico-crd",
    "rke2-canal",
    "rke2-cilium",
    "rke2-coredns",
    "rke2-flannel",
    "rke2-ingress-nginx",
    "rke2-metrics-server",
    "rke2-multus",
    "rke2-ovirt-csi-driver",
    "rke2-runtimeclasses",
    "rke2-security-responder",
    "rke2-snapshot-controller",
    "rke2-snapshot-controller-crd",
    "rke2-snapshot-validation-webhook",
    "rke2-traefik",
    "rke2-traefik-crd",
];

/// Another owner of a file of the manifests directory, or the program that applies a file outside of it.
pub fn owner(path: &ManifestPath) -> Option<&'static str> {
    if let Some(other) = path.applied_by() {
        return Some(other);
    }
    if path.starts_with("rancher/") {
        // Rancher writes cluster-agent.yaml and similar files there.
        return Some("Rancher");
    }
    let stem = path.strip_suffix(".yaml")?;
    PACKAGED.binary_search(&stem).ok().map(|_| "RKE2")
}

/// Whether a file comes with the platform. Windrow then knows its results, independent of its content.
pub fn is_platforms(path: &ManifestPath) -> bool {
    owner(path).is_some() && path.applied_by().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packaged_charts_belong_to_rke2_and_their_configuration_to_the_user() {
        assert!(PACKAGED.is_sorted(), "binary search needs the order");
        assert_eq!(owner(&"rke2-canal.yaml".into()), Some("RKE2"));
        assert_eq!(owner(&"rke2-canal-config.yaml".into()), None);
        assert_eq!(owner(&"sub/rke2-canal.yaml".into()), None);
        assert_eq!(owner(&"rancher/cluster-agent.yaml".into()), Some("Rancher"));
        assert_eq!(owner(&"10-tenant.yaml".into()), None);
        assert!(is_platforms(&"rke2-canal.yaml".into()));
    }

    #[test]
    fn what_something_else_applies_is_not_touched_and_is_no_part_of_the_platform() {
        let path = "/opt/eib-k8s/manifests/rke2-canal.yaml".into();
        assert_eq!(owner(&path), Some("Edge Image Builder"));
        assert!(!is_platforms(&path));
    }
}
