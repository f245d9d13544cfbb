//! The immutable fields of an object that two files declare with different values.
//!
//! kube-apiserver permanently rejects some of these changes. For others, RKE2's deploy controller deletes the object: it fails
//! with this file in each pass, because the other file creates the object again. If one file declares the object twice, RKE2 uses
//! only the last declaration.
//!
//! Sources: `Validate…Update` in `pkg/apis/*/validation` of k8s.io/kubernetes v1.31 to v1.36; `pkg/apply/reconcilers.go` of
//! rancher/wrangler v3.7.0.

mod comparable;

use serde_json::{Value, json};
use windrow_model::manifest::GroupKind;

pub(crate) use comparable::{NAMES_OF_ITEMS, REMEMBERED};
use comparable::{claim_templates, containers, remembered, resources, volumes, without_empty};

/// The condition under which two values of a field differ.
#[derive(Clone, Copy)]
enum Differs {
    /// If the values are unequal. An absent field has this value (null: none).
    FromDefault(&'static str),
    /// If both are present and unequal.
    WhereBoth,
    /// If the first is present, and the second is unequal or absent.
    WhereFirst,
    /// If the second is present, and unequal to the first or its default in kube-apiserver.
    WhereSecond,
    /// If an item of the first is absent from the second. New items are allowed.
    WhereLost,
    /// If the part that the deploy controller remembers is unequal. It truncates texts.
    Remembered,
    /// If one of the declarations sets `immutable`.
    WhereFrozen,
}

use Differs::{
    FromDefault, Remembered, WhereBoth, WhereFirst, WhereFrozen, WhereLost, WhereSecond,
};

const NOTHING: Differs = FromDefault("null");

/// Group, kind, field, the condition, and whether the deploy controller replaces the object.
type Rule = (&'static str, &'static str, &'static str, Differs, bool);

const RBAC: &str = "rbac.authorization.k8s.io";

#[rustfmt::skip]
const RULES: [Rule; 64] = [
    ("apps", "DaemonSet", "spec.selector", NOTHING, true),
    ("apps", "Deployment", "spec.selector", NOTHING, true),
    ("", "Secret", "type", WhereSecond, true),
    ("", "Service", "spec.type", WhereSecond, true),
    ("batch", "Job", "spec.template", Remembered, true),
    ("batch", "Job", "spec.completionMode", FromDefault("\"NonIndexed\""), false),
    ("batch", "Job", "spec.completions", FromDefault("1"), false),
    ("", "Pod", "spec.containers", NOTHING, false),
    ("", "Pod", "spec.initContainers", NOTHING, false),
    ("", "Pod", "spec.volumes", NOTHING, false),
    ("", "Pod", "spec.nodeSelector", WhereBoth, false),
    ("", "Pod", "spec.affinity", WhereBoth, false),
    ("", "Pod", "spec.tolerations", WhereLost, false),
    ("", "Pod", "spec.serviceAccountName", WhereBoth, false),
    ("", "Pod", "spec.securityContext", NOTHING, false),
    ("", "Pod", "spec.restartPolicy", FromDefault("\"Always\""), false),
    ("", "Pod", "spec.dnsPolicy", FromDefault("\"ClusterFirst\""), false),
    ("", "Pod", "spec.schedulerName", FromDefault("\"default-scheduler\""), false),
    ("", "Pod", "spec.hostname", NOTHING, false),
    ("", "Pod", "spec.hostNetwork", FromDefault("false"), false),
    ("", "Pod", "spec.hostPID", FromDefault("false"), false),
    ("", "Pod", "spec.hostIPC", FromDefault("false"), false),
    ("", "Pod", "spec.shareProcessNamespace", FromDefault("false"), false),
    ("apps", "ReplicaSet", "spec.selector", NOTHING, false),
    ("apps", "StatefulSet", "spec.selector", NOTHING, false),
    ("apps", "StatefulSet", "spec.serviceName", FromDefault("\"\""), false),
    ("apps", "StatefulSet", "spec.podManagementPolicy", FromDefault("\"OrderedReady\""), false),
    ("apps", "StatefulSet", "spec.volumeClaimTemplates", NOTHING, false),
    (RBAC, "ClusterRoleBinding", "roleRef.kind", WhereBoth, false),
    (RBAC, "ClusterRoleBinding", "roleRef.name", WhereBoth, false),
    (RBAC, "RoleBinding", "roleRef.kind", WhereBoth, false),
    (RBAC, "RoleBinding", "roleRef.name", WhereBoth, false),
    ("", "ConfigMap", "data", WhereFrozen, false),
    ("", "ConfigMap", "binaryData", WhereFrozen, false),
    ("", "ConfigMap", "immutable", WhereFrozen, false),
    ("", "Secret", "data", WhereFrozen, false),
    ("", "Secret", "stringData", WhereFrozen, false),
    ("", "Secret", "immutable", WhereFrozen, false),
    ("", "Service", "spec.clusterIP", WhereBoth, false),
    ("", "PersistentVolumeClaim", "spec.accessModes", WhereBoth, false),
    ("", "PersistentVolumeClaim", "spec.resources", NOTHING, false),
    ("", "PersistentVolumeClaim", "spec.storageClassName", WhereFirst, false),
    ("", "PersistentVolumeClaim", "spec.volumeMode", FromDefault("\"Filesystem\""), false),
    ("", "PersistentVolumeClaim", "spec.volumeName", WhereBoth, false),
    ("", "PersistentVolume", "spec.hostPath.path", WhereBoth, false),
    ("", "PersistentVolume", "spec.local.path", WhereBoth, false),
    ("", "PersistentVolume", "spec.nfs.path", WhereBoth, false),
    ("", "PersistentVolume", "spec.nfs.server", WhereBoth, false),
    ("", "PersistentVolume", "spec.csi.driver", WhereBoth, false),
    ("", "PersistentVolume", "spec.csi.volumeHandle", WhereBoth, false),
    ("", "PersistentVolume", "spec.volumeMode", FromDefault("\"Filesystem\""), false),
    ("", "ResourceQuota", "spec.scopes", NOTHING, false),
    ("storage.k8s.io", "StorageClass", "parameters", NOTHING, false),
    ("storage.k8s.io", "StorageClass", "provisioner", NOTHING, false),
    ("storage.k8s.io", "StorageClass", "reclaimPolicy", FromDefault("\"Delete\""), false),
    ("storage.k8s.io", "StorageClass", "volumeBindingMode", FromDefault("\"Immediate\""), false),
    ("storage.k8s.io", "CSIDriver", "spec.attachRequired", FromDefault("true"), false),
    ("scheduling.k8s.io", "PriorityClass", "value", FromDefault("0"), false),
    ("scheduling.k8s.io", "PriorityClass", "preemptionPolicy", FromDefault("\"PreemptLowerPriority\""), false),
    ("node.k8s.io", "RuntimeClass", "handler", NOTHING, false),
    ("networking.k8s.io", "IngressClass", "spec.controller", NOTHING, false),
    ("discovery.k8s.io", "EndpointSlice", "addressType", WhereBoth, false),
    ("apiextensions.k8s.io", "CustomResourceDefinition", "spec.scope", WhereBoth, false),
    ("apiextensions.k8s.io", "CustomResourceDefinition", "spec.names.kind", WhereBoth, false),
];

/// The fields in which two declarations of one object must agree.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedFields {
    /// The values of the fields, in the order of the rules.
    values: Vec<(&'static str, Value)>,
    kind: GroupKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedDifference {
    pub field: &'static str,
    /// Whether RKE2 deletes the object, instead of kube-apiserver rejecting the change.
    pub replaces: bool,
}

impl FixedFields {
    /// The fields for a kind; `None` if all of its fields can be changed. `value` returns the value of a field.
    pub fn read(kind: &GroupKind, value: impl Fn(&[&str]) -> Option<Value>) -> Option<Self> {
        let get = |field: &str| {
            let keys: Vec<&str> = field.split('.').collect();
            without_empty(value(&keys).unwrap_or_default())
        };
        let is_gated = !get("spec.schedulingGates").is_null();
        let values: Vec<_> = rules(kind)
            .map(|(_, _, field, differs, _)| {
                let value = get(field);
                let value = match (differs, *field) {
                    (Remembered, _) => remembered(value, false),
                    (_, "spec.containers" | "spec.initContainers") => containers(value),
                    (_, "spec.volumes") => volumes(value),
                    // In an indexed Job they may grow together with its parallelism.
                    (_, "spec.completions") if get("spec.completionMode") == "Indexed" => {
                        Value::Null
                    }
                    // They may become narrower while a scheduling gate blocks the pod.
                    (_, "spec.nodeSelector" | "spec.affinity") => match (is_gated, value) {
                        (true, _) => Value::Null,
                        (false, Value::Null) if kind.kind == "Pod" => json!({}),
                        (false, value) => value,
                    },
                    (_, "spec.tolerations") => without_seconds(value),
                    (_, "spec.resources") => resources(value),
                    (_, "spec.volumeClaimTemplates") => claim_templates(value),
                    _ => value,
                };
                (*field, value)
            })
            .collect();
        (!values.is_empty()).then(|| Self {
            values,
            kind: kind.clone(),
        })
    }

    /// The first field that the second declaration must not change.
    pub fn refuse(&self, second: &Self) -> Option<FixedDifference> {
        let or = |default: &str, value: &Value| match value {
            Value::Null => serde_json::from_str(default).unwrap_or_default(),
            value => value.clone(),
        };
        let frozen = |fields: &Self| fields.value("immutable") == &Value::Bool(true);
        let frozen = frozen(self) || frozen(second);
        let fields = self.values.iter().zip(&second.values);
        let mut differing = rules(&self.kind)
            .zip(fields)
            .filter(|(rule, (first, second))| {
                let (first, second) = (&first.1, &second.1);
                match rule.3 {
                    FromDefault(default) => or(default, first) != or(default, second),
                    WhereBoth => !first.is_null() && !second.is_null() && first != second,
                    WhereFirst => !first.is_null() && first != second,
                    WhereLost => items(first)
                        .iter()
                        .any(|item| !items(second).contains(item)),
                    WhereSecond => !second.is_null() && first != second,
                    Remembered => first != second,
                    WhereFrozen => frozen && first != second,
                }
            });
        let (rule, _) = differing.next()?;
        Some(FixedDifference {
            field: rule.2,
            replaces: rule.4,
        })
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.values.iter().map(|(name, _)| *name)
    }

    fn value(&self, field: &str) -> &Value {
        let found = self.values.iter().find(|(name, _)| *name == field);
        found.map_or(&Value::Null, |(_, value)| value)
    }
}

impl FixedDifference {
    /// The error message of the deploy controller or of kube-apiserver.
    pub fn refusal(&self, kind: &GroupKind, name: &str) -> String {
        match self.replaces {
            true => "DesiredSet - Replace Wait".to_owned(),
            false => format!(
                "{kind} \"{name}\" is invalid: {}: Forbidden: field is immutable",
                self.field
            ),
        }
    }
}

/// The tolerations without their seconds, which can be changed (`ValidatePodUpdate`).
fn without_seconds(mut tolerations: Value) -> Value {
    for one in tolerations.as_array_mut().into_iter().flatten() {
        if let Some(fields) = one.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
    }
    tolerations
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn rules(kind: &GroupKind) -> impl Iterator<Item = &'static Rule> {
    let known = |rule: &&Rule| rule.0 == kind.group && rule.1 == kind.kind;
    RULES.iter().filter(known)
}

#[cfg(test)]
mod tests;
