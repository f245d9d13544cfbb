//! Validates rules that concern more than one field.
//!
//! Source: `pkg/apis/*/validation` of k8s.io/kubernetes v1.31 to v1.36. `tests/kubernetes/api_schema.rs` compares them with
//! kube-apiserver.

mod access;
mod config;
mod definition;
mod isolation;
mod list_types;
mod metadata;
mod network;
mod pods;
mod policies;
mod scheduling;
mod storage;
mod structural;
#[cfg(test)]
mod tests;
mod webhooks;
mod workloads;

use windrow_model::manifest::{Node, Object};
use windrow_plan::kubernetes::Minors;

use crate::path::Path;
use crate::problem::{Problem, Reason};

/// Adds the validation errors of kube-apiserver for an object that can be decoded.
pub(crate) fn check(object: &Object, minors: Minors, problems: &mut Vec<Problem>) {
    let mut checker = Checker { minors, problems };
    let node = &object.node;
    checker.metadata(node);
    match (object.id.group.as_str(), object.id.kind.as_str()) {
        ("", "Pod") => checker.pod(node),
        ("", "ReplicationController") => checker.replication_controller(node),
        ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet") => {
            checker.workload(node, &object.id.kind);
            checker.claim_templates(node);
        }
        ("", "Namespace") => checker.namespace(node),
        ("", "PodTemplate") => checker.pod_template(node),
        ("batch", "Job") => checker.job(node, &Path::ROOT, true),
        ("batch", "CronJob") => checker.cron_job(node),
        ("", "Service") => checker.service(node),
        ("networking.k8s.io", "Ingress") => checker.ingress(node),
        ("networking.k8s.io", "IngressClass") => checker.ingress_class(node),
        ("", "ConfigMap") => checker.config_map(node),
        ("", "Secret") => checker.secret(node),
        ("", "PersistentVolumeClaim") => checker.claim(node),
        ("", "PersistentVolume") => checker.volume(node),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            checker.binding(node, &object.id.kind);
        }
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            checker.role(node, &object.id.kind);
        }
        ("policy", "PodDisruptionBudget") => checker.budget(node),
        ("autoscaling", "HorizontalPodAutoscaler") => checker.autoscaler(node),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => checker.definition(object),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => checker.webhooks(node),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => checker.policy(node),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            checker.policy_binding(node);
        }
        ("scheduling.k8s.io", "PriorityClass") => checker.priority_class(object),
        ("apiregistration.k8s.io", "APIService") => checker.api_service(object),
        _ => {}
    }
}

/// Whether kube-apiserver validates this field at all. It only decodes and stores some templates, from which a controller creates
/// objects.
pub(crate) fn validates(object: &Object, field: &str, minors: Minors) -> bool {
    let below = |place: &str| {
        field
            .strip_prefix(place)
            .is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    match object.id.kind.as_str() {
        // Before 1.34, only the labels and `restartPolicy` of the template are validated.
        "StatefulSet" => {
            let of_pods = below("spec.template.spec") && !field.ends_with(".restartPolicy");
            // From 1.36 on, the claim templates are validated too.
            let of_claims = below("spec.volumeClaimTemplates");
            (minors.first() >= 36 || !of_claims) && (minors.first() >= 34 || !of_pods)
        }
        "CronJob" => !below("spec.jobTemplate.metadata"),
        "HorizontalPodAutoscaler" => !field.ends_with(".selector.matchLabels"),
        _ => true,
    }
}

struct Checker<'a> {
    minors: Minors,
    problems: &'a mut Vec<Problem>,
}

impl Checker<'_> {
    fn add(&mut self, line: u32, path: &Path<'_>, reason: Reason, why: &str) {
        self.problems
            .push(Problem::invalid(line, path, reason, why));
    }

    /// The field must exist and must not be empty.
    fn require(&mut self, owner: &Node, path: &Path<'_>, field: &str) {
        let empty = owner.get(field).is_none_or(|node| {
            node.is_null()
                || node.as_str() == Some("")
                || (node.entries().is_empty() && node.items().is_empty() && is_collection(node))
        });
        if empty {
            let line = owner.entry(field).map_or(owner.line, |entry| entry.line);
            self.add(line, &path.field(field), Reason::Required, "");
        }
    }

    /// The map under a field, or an empty one.
    fn whole<'n>(&mut self, owner: &'n Node, field: &str) -> Option<&'n Node> {
        owner.get(field).filter(|node| !node.is_null())
    }
}

fn is_collection(node: &Node) -> bool {
    matches!(
        node.value,
        windrow_model::manifest::NodeValue::Mapping(_)
            | windrow_model::manifest::NodeValue::Sequence(_)
    )
}
