//! Fields that the second of two files cannot change of an object that both declare.
//!
//! kube-apiserver refuses some changes for good. Others RKE2's deploy controller makes by deleting the object: it fails with the file in
//! each pass, as the other file brings the object again. Of two declarations in one file RKE2 takes the last only.
//!
//! Sources: `Validate…Update` in `pkg/apis/*/validation` of k8s.io/kubernetes v1.31 to v1.36; `pkg/apply/reconcilers.go` of
//! rancher/wrangler v3.7.0.

mod comparable;

use serde_json::{Value, json};
use windrow_model::manifest::GroupKind;

pub(crate) use comparable::{NAMES_OF_ITEMS, REMEMBERED};
use comparable::{claim_templates, containers, remembered, resources, volumes, without_empty};

/// When two values of a field differ.
#[derive(Clone, Copy)]
enum Differs {
    /// In anything; what is not written has this value (null: nothing).
    FromDefault(&'static str),
    /// Where both are written.
    WhereBoth,
    /// Where the first is written, also as what the second does not have.
    WhereFirst,
    /// Where the second is written, also as what kube-apiserver makes of the first that is not.
    WhereSecond,
    /// Where an item of the first is not in the second: more may be added.
    WhereLost,
    /// In anything of what the deploy controller remembers: texts are cut off there.
    Remembered,
    /// Where the object, or the other one, says that it never changes.
    WhereFrozen,
}

use Differs::{
    FromDefault, Remembered, WhereBoth, WhereFirst, WhereFrozen, WhereLost, WhereSecond,
};

const NOTHING: Differs = FromDefault("null");

/// Group, kind, field, when it differs, and whether the deploy controller replaces the object.
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

/// What two declarations of one object may not differ in.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedFields {
    /// Each field's value, in the order of the rules.
    values: Vec<(&'static str, Value)>,
    kind: GroupKind,
}

/// A difference that is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedDifference {
    /// The field.
    pub field: &'static str,
    /// Does RKE2 delete the object for it, rather than kube-apiserver refuse the change?
    pub replaces: bool,
}

impl FixedFields {
    /// Those of an object of this kind; `None` where all may be changed. `value` gives what stands in a field.
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
                    // Those of an indexed Job may grow with its parallelism.
                    (_, "spec.completions") if get("spec.completionMode") == "Indexed" => {
                        Value::Null
                    }
                    // While a gate holds a pod back, they may be narrowed down.
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

    /// What a second declaration cannot change.
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

    /// The fields.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.values.iter().map(|(name, _)| *name)
    }

    fn value(&self, field: &str) -> &Value {
        let found = self.values.iter().find(|(name, _)| *name == field);
        found.map_or(&Value::Null, |(_, value)| value)
    }
}

impl FixedDifference {
    /// What the deploy controller or kube-apiserver says of it.
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

/// Tolerations, of which the seconds may change (`ValidatePodUpdate`).
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
