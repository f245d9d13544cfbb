//! Kubernetes' own kinds, and RKE2's: which groups are always served, which kinds have no namespace, and
//! which namespaces are always there.
//!
//! Source: the API groups registered by kube-apiserver 1.28 to 1.36 (`pkg/controlplane/instance.go`
//! and the aggregated discovery document of a running one).

use windrow_model::manifest::GroupKind;

/// API groups that kube-apiserver itself serves.
const GROUPS: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Kinds of those groups that have no namespace.
const CLUSTER_SCOPED: &[(&str, &str)] = &[
    ("", "ComponentStatus"),
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("authentication.k8s.io", "SelfSubjectReview"),
    ("authentication.k8s.io", "TokenReview"),
    ("authorization.k8s.io", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "SubjectAccessReview"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("certificates.k8s.io", "ClusterTrustBundle"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("internal.apiserver.k8s.io", "StorageVersion"),
    ("networking.k8s.io", "IPAddress"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("resource.k8s.io", "DeviceClass"),
    ("resource.k8s.io", "DeviceTaintRule"),
    ("resource.k8s.io", "ResourceSlice"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("storage.k8s.io", "VolumeAttributesClass"),
    ("storagemigration.k8s.io", "StorageVersionMigration"),
];

/// Namespaces that kube-apiserver creates by itself.
const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// API groups whose kinds RKE2 registers before its deploy controller starts, so that no manifest ever comes too early for them
/// (k3s `pkg/server/context.go`, registerCRDs).
const RKE2_GROUPS: &[&str] = &["helm.cattle.io", "k3s.cattle.io"];

/// Is this group served whenever RKE2 looks at its manifests? Waiting for it would only cost a pass.
pub(super) fn serves_before_manifests(group: &str) -> bool {
    serves(group) || RKE2_GROUPS.contains(&group)
}

/// Does every kube-apiserver serve this group?
pub(super) fn serves(group: &str) -> bool {
    GROUPS.contains(&group)
}

/// Is a kind of Kubernetes' own groups namespaced? `None` for kinds of other groups.
pub(super) fn namespaced(kind: &GroupKind) -> Option<bool> {
    serves(&kind.group).then(|| {
        !CLUSTER_SCOPED
            .iter()
            .any(|(group, name)| *group == kind.group && *name == kind.kind)
    })
}

/// Is this namespace always there?
pub(super) fn has_namespace(name: &str) -> bool {
    NAMESPACES.contains(&name)
}
