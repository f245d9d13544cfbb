//! The ServiceAccounts of the platform in kube-system.

/// Whether Kubernetes, RKE2 or Harvester may create this ServiceAccount in kube-system: the accounts of Kubernetes' own
/// controllers end in `-controller`, and RKE2's charts have the names of their programs.
pub(super) fn is_platforms_account(name: &str) -> bool {
    const BEGINNINGS: [&str; 22] = [
        "aws-",
        "calico",
        "canal",
        "cilium",
        "cloud-",
        "cluster-autoscaler",
        "coredns",
        "etcd",
        "flannel",
        "generic-garbage",
        "harvester",
        "helm-",
        "hubble",
        "kube-proxy",
        "metrics-server",
        "multus",
        "rke2-",
        "snapshot-",
        "svclb",
        "traefik",
        "vsphere-",
        "whereabouts",
    ];
    name.ends_with("-controller") || BEGINNINGS.iter().any(|known| name.starts_with(known))
}
