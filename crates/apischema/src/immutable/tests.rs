//! Tests which differences are reported, and for which field.

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
    let volumes = |source: Value| {
        let mut volume = source;
        volume["name"] = "a".into();
        json!({"spec": {"volumes": [volume]}})
    };
    let pod = |container: Value| json!({"spec": {"containers": [container]}});
    for (group, kind, first, second, field) in [
        ("batch", "Job", job("a"), job("b"), Some("spec.template")),
        ("batch", "Job", job("a"), job("a"), None),
        // The deploy controller remembers only the start of the text.
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
        // The deploy controller (1.36) behaves like this.
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
        // An absent value may be set to anything, but not removed again.
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
        // As completed by kube-apiserver.
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
        (
            "batch",
            "Job",
            json!({"spec": {"parallelism": 2}}),
            json!({"spec": {"parallelism": 2, "completions": 6}}),
            Some("spec.completions"),
        ),
        // A field that is absent from both stays unchanged.
        (
            "batch",
            "Job",
            json!({"spec": {}}),
            json!({"spec": {"parallelism": 3}}),
            None,
        ),
        (
            "batch",
            "Job",
            json!({"spec": {}}),
            json!({"spec": {"completions": 1}}),
            None,
        ),
        (
            "batch",
            "Job",
            json!({"spec": {"completionMode": "Indexed", "completions": 1, "parallelism": 1}}),
            json!({"spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2}}),
            None,
        ),
        (
            "",
            "Pod",
            json!({"spec": {"nodeSelector": {"a": "b"}}}),
            json!({"spec": {}}),
            Some("spec.nodeSelector"),
        ),
        (
            "",
            "Pod",
            json!({"spec": {"schedulingGates": [{"name": "a"}]}}),
            json!({"spec": {"schedulingGates": [{"name": "a"}], "nodeSelector": {"a": "b"}}}),
            None,
        ),
        (
            "",
            "Pod",
            json!({"spec": {"schedulingGates": [{"name": "a"}], "nodeSelector": {"a": "b"}}}),
            json!({"spec": {"nodeSelector": {"a": "b"}}}),
            None,
        ),
        (
            "",
            "Pod",
            json!({"spec": {"tolerations": [{"key": "a", "tolerationSeconds": 60}]}}),
            json!({"spec": {"tolerations": [{"key": "a", "tolerationSeconds": 120}]}}),
            None,
        ),
        (
            "",
            "Pod",
            json!({"spec": {"tolerations": [{"key": "a"}]}}),
            json!({"spec": {"tolerations": [{"key": "b"}]}}),
            Some("spec.tolerations"),
        ),
        (
            "",
            "Pod",
            json!({"spec": {"tolerations": [{"key": "a"}]}}),
            json!({"spec": {"tolerations": [{"key": "b"}, {"key": "a"}]}}),
            None,
        ),
        (
            "",
            "Pod",
            volumes(json!({"configMap": {"name": "a"}})),
            volumes(json!({"configMap": {"name": "a", "defaultMode": 420}})),
            None,
        ),
        (
            "",
            "Pod",
            volumes(json!({"emptyDir": {}})),
            volumes(json!({"hostPath": {"path": "/a"}})),
            Some("spec.volumes"),
        ),
        (
            "",
            "Pod",
            volumes(json!({"hostPath": {"path": "/a"}})),
            volumes(json!({"hostPath": {"path": "/b"}})),
            Some("spec.volumes"),
        ),
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
