//! Kinds whose objects hold secrets: only some of their metadata is ever read.

use serde_json::{Map, Value, json};

use super::ObjectKind;

/// The metadata of an object that Windrow keeps in addition to name, namespace and creation time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptMetadata {
    labels: &'static [&'static str],
    annotations: &'static [&'static str],
}

/// kube-apiserver's name for an object without spec and status.
const METADATA: (&str, &str) = ("meta.k8s.io/v1", "PartialObjectMetadata");

/// Helm v3 `pkg/storage/driver/secrets.go`; the hash is klipper-helm's, for helm-controller.
const HELM_RELEASE: KeptMetadata = KeptMetadata {
    labels: &[
        "owner",
        "name",
        "status",
        "version",
        "createdAt",
        "modifiedAt",
        "helmcharts.helm.cattle.io/configHash",
    ],
    annotations: &[],
};

/// Rancher `pkg/capr/common.go`, Harvester `pkg/controller/master/upgrade/upgrade_controller.go`.
const MACHINE_PLAN: KeptMetadata = KeptMetadata {
    labels: &["rke.cattle.io/machine-name"],
    annotations: &[
        "rke.cattle.io/drain-options",
        "rke.cattle.io/drain-done",
        "rke.cattle.io/pre-drain",
        "rke.cattle.io/post-drain",
        "rke.cattle.io/uncordon",
        "harvesterhci.io/pre-hook",
        "harvesterhci.io/post-hook",
    ],
};

impl ObjectKind {
    /// The metadata to keep, if that is all that Windrow keeps of its objects. kube-apiserver is then asked for metadata only.
    pub fn kept_metadata(self) -> Option<KeptMetadata> {
        match self {
            ObjectKind::HELM_RELEASE => Some(HELM_RELEASE),
            ObjectKind::MACHINE_PLAN => Some(MACHINE_PLAN),
            _ => None,
        }
    }

    /// The kinds as which Secrets are read at all.
    pub const OF_SECRETS: &'static [ObjectKind] =
        &[ObjectKind::HELM_RELEASE, ObjectKind::MACHINE_PLAN];

    /// The kind as which a Secret, or its metadata, is read; `None` for all other Secrets.
    pub fn of_secret(secret: &Value) -> Option<ObjectKind> {
        let label = |key: &str| secret.pointer("/metadata/labels")?.get(key)?.as_str();
        match (label("owner"), label("rke.cattle.io/machine-name")) {
            (Some("helm"), _) => Some(ObjectKind::HELM_RELEASE),
            (_, Some(_)) => Some(ObjectKind::MACHINE_PLAN),
            _ => None,
        }
    }
}

impl KeptMetadata {
    /// Removes everything from a Secret that is not to be kept.
    pub fn reduce(self, secret: &mut Value) {
        let mut metadata = Map::new();
        for field in ["name", "namespace", "creationTimestamp"] {
            if let Some(value) = secret.pointer(&format!("/metadata/{field}")) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        for (field, kept) in [("labels", self.labels), ("annotations", self.annotations)] {
            let there = secret.pointer(&format!("/metadata/{field}"));
            let there = there.and_then(Value::as_object).into_iter().flatten();
            let some: Map<String, Value> = there
                .filter(|(key, _)| kept.contains(&key.as_str()))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            metadata.insert(field.to_owned(), Value::Object(some));
        }
        // The object names its real type, so that it does not pass for the Secret.
        *secret = json!({"apiVersion": METADATA.0, "kind": METADATA.1, "metadata": metadata});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(labels: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "x",
            "metadata": {"name": "s", "namespace": "a", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": labels, "managedFields": [{}],
                "annotations": {"harvesterhci.io/pre-hook": "{}", "objectset.rio.cattle.io/applied": "H4sI"}},
            "data": {"release": "czNjcmV0"}, "stringData": {"a": "b"}})
    }

    #[test]
    fn of_a_secret_nothing_is_kept_but_named_metadata() {
        let mut release = secret(json!({"owner": "helm", "name": "pci", "password": "x"}));
        let kind = ObjectKind::of_secret(&release).unwrap();
        assert_eq!(kind, ObjectKind::HELM_RELEASE);
        kind.kept_metadata().unwrap().reduce(&mut release);
        assert_eq!(
            release,
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "s", "namespace": "a",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"owner": "helm", "name": "pci"}, "annotations": {}}})
        );
        let mut plan = secret(json!({"rke.cattle.io/machine-name": "m"}));
        let kind = ObjectKind::of_secret(&plan).unwrap();
        assert_eq!(kind, ObjectKind::MACHINE_PLAN);
        kind.kept_metadata().unwrap().reduce(&mut plan);
        let kept = json!({"harvesterhci.io/pre-hook": "{}"});
        assert_eq!(plan["metadata"]["annotations"], kept);
        assert_eq!(ObjectKind::of_secret(&secret(json!({}))), None);
    }
}
