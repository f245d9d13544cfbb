//! The built-in table with the rules for the kinds of Kubernetes and RKE2.

use serde_json::Value;
use windrow_model::manifest::{GroupKind, ObjectRef};

use super::fields::{
    FieldResult, condition, failed, has_status, progressing, ready, says, text, unknown,
};
use super::need::BEING_ASKED;
use super::{Judgement, KindSeen, ObjectSeen, ObservedCluster, Related, Verdict, workloads};

/// Kinds whose objects work as soon as they exist, because no status says more.
const READY_WHEN_PRESENT: &[(&str, &str)] = &[
    ("", "ConfigMap"),
    ("", "Endpoints"),
    ("", "LimitRange"),
    ("", "PodTemplate"),
    ("", "ResourceQuota"),
    ("", "Secret"),
    ("", "ServiceAccount"),
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
    ("apps", "ControllerRevision"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("batch", "CronJob"),
    ("coordination.k8s.io", "Lease"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("helm.cattle.io", "HelmChartConfig"),
    ("k3s.cattle.io", "Addon"),
    ("networking.k8s.io", "Ingress"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("snapshot.storage.k8s.io", "VolumeSnapshotClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "VolumeAttributesClass"),
];

/// Kinds that are requests: they are answered but never stored, so they cannot be observed.
const NEVER_STORED: &[(&str, &str)] = &[
    ("", "Binding"),
    ("", "ComponentStatus"),
    ("authentication.k8s.io", "SelfSubjectReview"),
    ("authentication.k8s.io", "TokenRequest"),
    ("authentication.k8s.io", "TokenReview"),
    ("authorization.k8s.io", "LocalSubjectAccessReview"),
    ("authorization.k8s.io", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "SubjectAccessReview"),
    ("policy", "Eviction"),
];

fn listed(table: &[(&str, &str)], kind: &GroupKind) -> bool {
    table
        .iter()
        .any(|(group, name)| *group == kind.group && *name == kind.kind)
}

/// Whether this kind has no stored objects.
pub(super) fn never_stored(kind: &GroupKind) -> bool {
    listed(NEVER_STORED, kind)
}

/// The verdict of the table, if it contains the kind.
pub(super) fn judge(
    object: &Value,
    id: &ObjectRef,
    seen: &dyn ObservedCluster,
) -> FieldResult<Option<Judgement>> {
    let verdict = match (id.group.as_str(), id.kind.as_str()) {
        ("apps" | "extensions", "Deployment") => workloads::deployment(object)?,
        ("apps", "StatefulSet") => workloads::stateful_set(object)?,
        ("apps" | "extensions", "DaemonSet") => workloads::daemon_set(object)?,
        ("apps" | "extensions", "ReplicaSet") | ("", "ReplicationController") => {
            workloads::replica_set(object)?
        }
        ("", "Pod") => workloads::pod(object)?,
        ("batch", "Job") => workloads::job(object)?,
        ("", "Namespace") => namespace(object),
        ("", "Service") => service(object),
        ("", "PersistentVolumeClaim") => claim(object, seen),
        ("", "PersistentVolume") => volume(object),
        ("policy", "PodDisruptionBudget") => disruption_budget(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object, seen)?,
        ("apiregistration.k8s.io", "APIService") => api_service(object)?,
        ("helm.cattle.io", "HelmChart") => helm_chart(object, id, seen)?,
        _ if listed(READY_WHEN_PRESENT, &id.group_kind()) => ready("Exists", "exists"),
        _ => return Ok(None),
    };
    Ok(Some(verdict))
}

/// See [`super::has_related`].
pub(super) fn has_related(id: &ObjectRef) -> bool {
    matches!(
        (id.group.as_str(), id.kind.as_str()),
        ("helm.cattle.io", "HelmChart")
            | ("", "PersistentVolumeClaim")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
    )
}

/// See [`super::related`].
pub(super) fn related(id: &ObjectRef, object: &Value) -> Related {
    let mut related = Related::default();
    match (id.group.as_str(), id.kind.as_str()) {
        ("helm.cattle.io", "HelmChart") => related.objects.extend(chart_job(id, object)),
        ("", "PersistentVolumeClaim") => related.objects.extend(claim_class(object)),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            related.kinds.push(defined_kind(object));
        }
        _ => {}
    }
    related
}

fn namespace(object: &Value) -> Judgement {
    match text(object, &["status", "phase"]) {
        "Active" => ready("NamespaceActive", "active"),
        "" => unknown("NoStatus", "the namespace has no phase yet"),
        phase => progressing("NamespaceNotActive", format!("its phase is {phase}")),
    }
}

/// Follows kstatus: a load balancer needs a cluster address, while its external address comes from others.
fn service(object: &Value) -> Judgement {
    if text(object, &["spec", "type"]) == "LoadBalancer"
        && text(object, &["spec", "clusterIP"]).is_empty()
    {
        return progressing("NoClusterIP", "it has no cluster address yet");
    }
    ready("Exists", "exists")
}

fn claim_class(object: &Value) -> Option<ObjectRef> {
    match text(object, &["spec", "storageClassName"]) {
        "" => None,
        name => Some(ObjectRef::cluster("storage.k8s.io", "StorageClass", name)),
    }
}

/// A lost claim does not recover automatically. A pending claim whose class waits for a consumer binds only when a pod uses it.
/// Holding this pod until the claim is bound would be a deadlock, so the reason says so.
fn claim(object: &Value, seen: &dyn ObservedCluster) -> Judgement {
    match text(object, &["status", "phase"]) {
        "Bound" => ready("ClaimBound", "bound"),
        "Lost" => failed("ClaimLost", "its volume is gone"),
        "" => unknown("NoStatus", "the claim has no phase yet"),
        phase => {
            let class = claim_class(object);
            let waits = class.as_ref().is_some_and(|class| {
                matches!(seen.object(class), ObjectSeen::Present(class)
                    if text(class, &["volumeBindingMode"]) == "WaitForFirstConsumer")
            });
            match class {
                Some(class) if waits => progressing(
                    "WaitForFirstConsumer",
                    format!(
                        "not bound: {class} binds it when a pod uses it, so ask for `exists` instead of `ready`"
                    ),
                ),
                _ => progressing("ClaimNotBound", format!("not bound, its phase is {phase}")),
            }
        }
    }
}

fn volume(object: &Value) -> Judgement {
    match text(object, &["status", "phase"]) {
        phase @ ("Available" | "Bound" | "Released") => {
            ready("VolumeUsable", format!("its phase is {phase}"))
        }
        "Failed" => failed("VolumeFailed", text(object, &["status", "message"])),
        "" => unknown("NoStatus", "the volume has no phase yet"),
        phase => progressing("VolumePending", format!("its phase is {phase}")),
    }
}

fn disruption_budget(object: &Value) -> Judgement {
    if has_status(object) {
        ready("Observed", "in force")
    } else {
        unknown("NoStatus", "its controller has reported no status yet")
    }
}

fn defined_kind(object: &Value) -> GroupKind {
    GroupKind::new(
        text(object, &["spec", "group"]),
        text(object, &["spec", "names", "kind"]),
    )
}

/// Established is not enough: kube-apiserver serves the kind a moment later.
fn definition(object: &Value, seen: &dyn ObservedCluster) -> FieldResult<Judgement> {
    if let Some(names) = condition(object, "NamesAccepted")?
        && names.is_false()
    {
        return Ok(failed("NamesNotAccepted", says(&names)));
    }
    let Some(established) = condition(object, "Established")? else {
        return Ok(if has_status(object) {
            progressing("Installing", "not established yet")
        } else {
            unknown("NoStatus", "its controller has reported no status yet")
        });
    };
    if !established.is_true() {
        return Ok(
            if established.is_false() && established.reason != "Installing" {
                failed("NotEstablished", says(&established))
            } else {
                progressing("Installing", "not established yet")
            },
        );
    }
    let kind = defined_kind(object);
    Ok(match seen.kind(&kind) {
        KindSeen::Served { .. } => ready("Established", format!("{kind} is served")),
        KindSeen::NotServed => progressing(
            "EstablishedNotServed",
            format!("established, and {kind} is not served yet"),
        ),
        KindSeen::NotAsked => unknown(
            "EstablishedNotAsked",
            format!("established; {BEING_ASKED} whether {kind} is served"),
        ),
        KindSeen::Unknown { why } => unknown(
            "EstablishedNotAsked",
            format!("established; whether {kind} is served is not known: {why}"),
        ),
    })
}

fn api_service(object: &Value) -> FieldResult<Judgement> {
    Ok(match condition(object, "Available")? {
        Some(available) if available.is_true() => ready("Available", "available"),
        Some(available) => progressing("NotAvailable", says(&available)),
        None => unknown("NoStatus", "kube-apiserver has reported no status yet"),
    })
}

fn chart_job(id: &ObjectRef, object: &Value) -> Option<ObjectRef> {
    match text(object, &["status", "jobName"]) {
        "" => None,
        name => Some(ObjectRef::namespaced(
            "batch",
            "Job",
            id.namespace_or_default(),
            name,
        )),
    }
}

/// helm-controller writes no Ready condition, so the chart counts as installed when its Job is complete. A missing Job is being
/// created again and proves nothing.
fn helm_chart(
    object: &Value,
    id: &ObjectRef,
    seen: &dyn ObservedCluster,
) -> FieldResult<Judgement> {
    if let Some(failure) = condition(object, "Failed")?
        && failure.is_true()
    {
        return Ok(failed("ChartFailed", says(&failure)));
    }
    let Some(job) = chart_job(id, object) else {
        return Ok(if has_status(object) {
            progressing("NoJob", "helm-controller has not made its Job yet")
        } else {
            unknown("NoStatus", "helm-controller has reported no status yet")
        });
    };
    Ok(match seen.object(&job) {
        ObjectSeen::NotAsked => unknown("JobNotAsked", format!("{job}: {BEING_ASKED}")),
        ObjectSeen::Unknown { why } => unknown("JobNotAsked", format!("{job}: {why}")),
        ObjectSeen::Absent => progressing(
            "JobMissing",
            format!("{job} is not there; helm-controller creates it again"),
        ),
        ObjectSeen::Done => ready("ChartInstalled", format!("{job} completed")),
        ObjectSeen::Present(found) => {
            let verdict = workloads::job(found)?;
            let message = format!("{job}: {}", verdict.message);
            match verdict.verdict {
                Verdict::Ready => ready("ChartInstalled", message),
                Verdict::Failed => failed("ChartJobFailed", message),
                Verdict::Progressing => progressing("ChartJobRunning", message),
                Verdict::Unknown => unknown("ChartJobUnknown", message),
            }
        }
    })
}
