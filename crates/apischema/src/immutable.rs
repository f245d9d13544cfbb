//! Fields that the second of two files cannot change of an object that both declare.
//!
//! kube-apiserver refuses some changes for good. Others RKE2's deploy controller makes by deleting the object: it fails with the file in
//! each pass, as the other file brings the object again. Of two declarations in one file RKE2 takes the last only.
//!
//! Sources: `Validate…Update` in `pkg/apis/*/validation` of k8s.io/kubernetes v1.31 to v1.36; `pkg/apply/reconcilers.go` of
//! rancher/wrangler v3.7.0.

mod comparable;

use serde_json::Value;
use windrow_model::manifest::GroupKind;

pub(crate) use comparable::{NAMES_OF_ITEMS, REMEMBERED};
use comparable::{claim_templates, containers, remembered, resources, without_empty};

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
    /// In anything of what the deploy controller remembers: texts are cut off there.
    Remembered,
    /// Where the object, or the other one, says that it never changes.
    WhereFrozen,
}

use Differs::{FromDefault, Remembered, WhereBoth, WhereFirst, WhereFrozen, WhereSecond};

const NOTHING: Differs = FromDefault("null");

/// Group, kind, field, when it differs, and whether the deploy controller replaces the object.
type Rule = (&'static str, &'static str, &'static str, Differs, bool);

const RBAC: &str = "rbac.authorization.k8s.io";

#[rustfmt::skip]
const RULES: [Rule; 49] = [
    ("apps", "DaemonSet", "spec.selector", NOTHING, true),
    ("apps", "Deployment", "spec.selector", NOTHING, true),
    ("", "Secret", "type", WhereSecond, true),
    ("", "Service", "spec.type", WhereSecond, true),
    ("batch", "Job", "spec.template", Remembered, true),
    ("", "Pod", "spec.containers", NOTHING, false),
    ("", "Pod", "spec.restartPolicy", FromDefault("\"Always\""), false),
    ("", "Pod", "spec.hostNetwork", FromDefault("false"), false),
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
        let values: Vec<_> = rules(kind)
            .map(|(_, _, field, differs, _)| {
                let keys: Vec<&str> = field.split('.').collect();
                let value = without_empty(value(&keys).unwrap_or_default());
                let value = match (differs, *field) {
                    (Remembered, _) => remembered(value, false),
                    (_, "spec.containers") => containers(value),
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

fn rules(kind: &GroupKind) -> impl Iterator<Item = &'static Rule> {
    let known = |rule: &&Rule| rule.0 == kind.group && rule.1 == kind.kind;
    RULES.iter().filter(known)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn difference(group: &str, kind: &str, first: Value, second: Value) -> Option<&'static str> {
        let kind = GroupKind::new(group, kind);
        let read = |json: &Value| {
            let get = |keys: &[&str]| {
                keys.iter()
                    .try_fold(json, |node, key| node.get(key))
                    .cloned()
            };
            FixedFields::read(&kind, get)
        };
        let (first, second) = (read(&first)?, read(&second)?);
        first.refuse(&second).map(|found| found.field)
    }

    #[test]
    fn what_cannot_be_changed_is_told_by_its_field() {
        let job = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": image}]}}}});
        let class = |value: Value| json!({"provisioner": "a", "parameters": value});
        let map = |frozen: bool, value: &str| json!({"immutable": frozen, "data": {"a": value}});
        let kind = |text: Value| json!({"type": text, "spec": {"type": text}});
        let claim = |class: Value| json!({"spec": {"storageClassName": class}});
        let asks = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
        let claims = |list: Value| json!({"spec": {"volumeClaimTemplates": list}});
        let pod = |container: Value| json!({"spec": {"containers": [container]}});
        for (group, kind, first, second, field) in [
            ("batch", "Job", job("a"), job("b"), Some("spec.template")),
            ("batch", "Job", job("a"), job("a"), None),
            // Only so much of it is remembered.
            (
                "batch",
                "Job",
                job(&"a".repeat(65)),
                job(&"a".repeat(66)),
                None,
            ),
            (
                "storage.k8s.io",
                "StorageClass",
                class(json!({"a": "b"})),
                class(Value::Null),
                Some("parameters"),
            ),
            (
                "storage.k8s.io",
                "StorageClass",
                class(json!({})),
                class(Value::Null),
                None,
            ),
            (
                "storage.k8s.io",
                "StorageClass",
                json!({"reclaimPolicy": "Delete"}),
                json!({}),
                None,
            ),
            (
                "storage.k8s.io",
                "StorageClass",
                json!({"reclaimPolicy": "Retain"}),
                json!({}),
                Some("reclaimPolicy"),
            ),
            ("", "ConfigMap", map(false, "a"), map(false, "b"), None),
            (
                "",
                "ConfigMap",
                map(true, "a"),
                map(true, "b"),
                Some("data"),
            ),
            ("", "ConfigMap", map(true, "a"), map(true, "a"), None),
            (
                "",
                "ConfigMap",
                map(false, "a"),
                map(true, "a"),
                Some("immutable"),
            ),
            (
                "",
                "Secret",
                kind(json!("a")),
                kind(json!("b")),
                Some("type"),
            ),
            ("", "Secret", kind(json!("a")), kind(Value::Null), None),
            // As the deploy controller was seen to take it (1.36).
            (
                "",
                "Secret",
                kind(Value::Null),
                kind(json!("Opaque")),
                Some("type"),
            ),
            (
                "",
                "Service",
                kind(Value::Null),
                kind(json!("NodePort")),
                Some("spec.type"),
            ),
            (
                "",
                "PersistentVolumeClaim",
                claim(json!("a")),
                claim(json!("b")),
                Some("spec.storageClassName"),
            ),
            // What is not written may become anything, and is not taken away again.
            (
                "",
                "PersistentVolumeClaim",
                claim(Value::Null),
                claim(json!("a")),
                None,
            ),
            (
                "",
                "PersistentVolumeClaim",
                claim(json!("a")),
                claim(Value::Null),
                Some("spec.storageClassName"),
            ),
            (
                "",
                "PersistentVolumeClaim",
                asks("1Gi"),
                asks("2Gi"),
                Some("spec.resources"),
            ),
            (
                "",
                "PersistentVolumeClaim",
                asks("1Gi"),
                asks("1024Mi"),
                None,
            ),
            (
                "apps",
                "StatefulSet",
                claims(json!([asks("1Gi")])),
                claims(json!([asks("2Gi")])),
                Some("spec.volumeClaimTemplates"),
            ),
            (
                "apps",
                "StatefulSet",
                claims(json!([asks("1Gi")])),
                json!({}),
                Some("spec.volumeClaimTemplates"),
            ),
            // As kube-apiserver completes it.
            (
                "apps",
                "StatefulSet",
                claims(json!([asks("1Gi")])),
                claims(json!([{"kind": "PersistentVolumeClaim", "status": {},
                    "spec": {"volumeMode": "Filesystem", "resources": {"requests": {"storage": "1024Mi"}}}}])),
                None,
            ),
            (
                "",
                "Pod",
                pod(json!({"image": "a", "command": ["a"]})),
                pod(json!({"image": "a", "command": ["b"]})),
                Some("spec.containers"),
            ),
            (
                "",
                "Pod",
                pod(json!({"image": "a", "env": [{"name": "A"}, {"name": "B", "value": "b"}]})),
                pod(json!({"image": "b", "imagePullPolicy": "Always",
                    "env": [{"name": "B", "value": "b"}, {"name": "A", "value": ""}]})),
                None,
            ),
            (
                "",
                "Pod",
                json!({"spec": {"restartPolicy": "Always"}}),
                json!({"spec": {"hostNetwork": false}}),
                None,
            ),
            (
                "",
                "Pod",
                json!({"spec": {}}),
                json!({"spec": {"restartPolicy": "Never"}}),
                Some("spec.restartPolicy"),
            ),
            ("example.com", "Job", job("a"), job("b"), None),
        ] {
            let said = difference(group, kind, first.clone(), second.clone());
            assert_eq!(said, field, "{kind}: {first}, {second}");
        }
    }

    #[test]
    fn each_field_stands_in_one_place() {
        for (number, rule) in RULES.iter().enumerate() {
            let again = RULES[..number]
                .iter()
                .any(|other| other.0 == rule.0 && other.1 == rule.1 && other.2 == rule.2);
            assert!(!again, "{} {}", rule.1, rule.2);
            if let FromDefault(text) = rule.3 {
                assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
            }
        }
    }
}
