//! Kinds that are served without anybody's CustomResourceDefinition: Kubernetes' own, and RKE2's.

/// Is this kind served from the start, and is it namespaced? `None` for a kind that a
/// CustomResourceDefinition has to bring.
pub(super) fn built_in(group: &str, kind: &str) -> Option<bool> {
    let namespaced = match (group, kind) {
        (
            "",
            "ConfigMap"
            | "Endpoints"
            | "Event"
            | "LimitRange"
            | "PersistentVolumeClaim"
            | "Pod"
            | "PodTemplate"
            | "ReplicationController"
            | "ResourceQuota"
            | "Secret"
            | "Service"
            | "ServiceAccount",
        ) => true,
        ("", "Namespace" | "Node" | "PersistentVolume") => false,
        (
            "apps",
            "ControllerRevision" | "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet",
        ) => true,
        ("batch", "CronJob" | "Job") => true,
        ("autoscaling", "HorizontalPodAutoscaler") => true,
        ("coordination.k8s.io", "Lease") => true,
        ("discovery.k8s.io", "EndpointSlice") => true,
        ("events.k8s.io", "Event") => true,
        ("networking.k8s.io", "Ingress" | "NetworkPolicy") => true,
        ("networking.k8s.io", "IngressClass" | "IPAddress" | "ServiceCIDR") => false,
        ("policy", "PodDisruptionBudget") => true,
        ("rbac.authorization.k8s.io", "Role" | "RoleBinding") => true,
        ("rbac.authorization.k8s.io", "ClusterRole" | "ClusterRoleBinding") => false,
        ("storage.k8s.io", "CSIStorageCapacity") => true,
        (
            "storage.k8s.io",
            "CSIDriver" | "CSINode" | "StorageClass" | "VolumeAttachment" | "VolumeAttributesClass",
        ) => false,
        ("scheduling.k8s.io", "PriorityClass") => false,
        ("node.k8s.io", "RuntimeClass") => false,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema" | "PriorityLevelConfiguration") => false,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => false,
        ("apiregistration.k8s.io", "APIService") => false,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration"
            | "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding"
            | "ValidatingWebhookConfiguration",
        ) => false,
        ("certificates.k8s.io", "CertificateSigningRequest") => false,
        // RKE2 registers these before its deploy controller starts.
        ("helm.cattle.io", "HelmChart" | "HelmChartConfig") => true,
        ("k3s.cattle.io", "Addon" | "ETCDSnapshotFile") => true,
        _ => return None,
    };
    Some(namespaced)
}

/// Is a group served from the start?
pub(super) fn is_built_in_group(group: &str) -> bool {
    matches!(
        group,
        "" | "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "apps"
            | "autoscaling"
            | "batch"
            | "certificates.k8s.io"
            | "coordination.k8s.io"
            | "discovery.k8s.io"
            | "events.k8s.io"
            | "flowcontrol.apiserver.k8s.io"
            | "helm.cattle.io"
            | "k3s.cattle.io"
            | "networking.k8s.io"
            | "node.k8s.io"
            | "policy"
            | "rbac.authorization.k8s.io"
            | "scheduling.k8s.io"
            | "storage.k8s.io"
    )
}

/// Is this the name of something that gives Services of type LoadBalancer their addresses?
pub(crate) fn gives_addresses(name: &str) -> bool {
    const GIVERS: [&str; 5] = [
        "metallb",
        "kube-vip",
        "cloud-provider",
        "purelb",
        "servicelb",
    ];
    GIVERS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_built_in_by_its_group_and_not_by_its_name_alone() {
        assert_eq!(built_in("apps", "Deployment"), Some(true));
        assert_eq!(built_in("", "Namespace"), Some(false));
        assert_eq!(built_in("example.com", "Deployment"), None);
        assert!(is_built_in_group("apps"));
        assert!(!is_built_in_group("example.com"));
    }
}
