//! The part of an object that is worth sending. It leaves out fields that fill pages without information, and fields
//! that may hold secrets.

use serde_json::{Map, Value, json};
use windrow_harvester::objects::KeptMetadata;
use windrow_model::object::pods::containers_mut;

use crate::observe::objects::leave_out_secrets;

pub(super) fn reduce(kind: &str, mut object: Value) -> Value {
    drop(object.pointer_mut("/metadata"), &["managedFields"]);
    leave_out_secrets(kind, &mut object);
    match kind {
        "Pod" => containers(object.pointer_mut("/spec")),
        "Deployment" | "DaemonSet" | "StatefulSet" | "Job" => {
            containers(object.pointer_mut("/spec/template/spec"));
        }
        // The packed manifests of a whole chart.
        "Bundle" => drop(
            object.pointer_mut("/spec"),
            &["resources", "helm", "targets"],
        ),
        // A chart's values, which the ManagedChart has too.
        "BundleDeployment" => {
            for options in ["/spec/options", "/spec/stagedOptions"] {
                drop(object.pointer_mut(options), &["helm"]);
            }
        }
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
            for webhook in webhooks.into_iter().flatten() {
                drop(webhook.get_mut("clientConfig"), &["caBundle"]);
            }
        }
        "APIService" => drop(object.pointer_mut("/spec"), &["caBundle"]),
        "Node" => drop(object.pointer_mut("/status"), &["images"]),
        "HelmChart" => drop(object.pointer_mut("/spec"), &["chartContent"]),
        _ => {}
    }
    object
}

pub(super) fn reduce_objects(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(reduce_objects),
        Value::Object(map) => {
            map.values_mut().for_each(reduce_objects);
            if map.contains_key("metadata")
                && let Some(Value::String(kind)) = map.get("kind").cloned()
            {
                *value = reduce(&kind, value.take());
            }
        }
        _ => {}
    }
}

/// Environment and arguments can hold anything; mounts and probes do not help here.
fn containers(spec: Option<&mut Value>) {
    const LEFT_OUT: &[&str] = &[
        "env",
        "envFrom",
        "args",
        "command",
        "volumeMounts",
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
    ];
    let Some(spec) = spec else { return };
    for container in containers_mut(spec) {
        drop(Some(container), LEFT_OUT);
    }
}

fn drop(value: Option<&mut Value>, keys: &[&str]) {
    if let Some(map) = value.and_then(Value::as_object_mut) {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

/// A list as the archive has it, under the archive's own name.
pub(super) fn list(api_version: &str, kind: &str, items: Vec<Value>) -> Value {
    let items: Vec<Value> = items
        .into_iter()
        .map(|item| {
            let mut item = reduce(kind, item);
            // In a list of the API the items come without their kind.
            if let Some(map) = item.as_object_mut() {
                let mut whole = Map::new();
                whole.insert("apiVersion".to_owned(), json!(api_version));
                whole.insert("kind".to_owned(), json!(kind));
                whole.append(map);
                *map = whole;
            }
            item
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// A list whose objects are cut down to some metadata.
pub(super) fn metadata_list(kept: KeptMetadata, mut items: Vec<Value>) -> Value {
    items.iter_mut().for_each(|item| kept.reduce(item));
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

#[cfg(test)]
mod tests {
    use windrow_harvester::objects::ObjectKind;

    use super::*;

    #[test]
    fn a_pod_is_sent_without_its_environment_and_says_what_it_is() {
        let pod = json!({
            "metadata": {"name": "p", "managedFields": [{}]},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "b"}], "args": ["x"]}]},
        });
        assert_eq!(
            list("v1", "Pod", vec![pod]),
            json!({"apiVersion": "v1", "kind": "List", "items": [{
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p"},
                "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
            }]})
        );
    }

    #[test]
    fn of_a_helm_release_its_metadata_alone_is_sent() {
        let kept = ObjectKind::HELM_RELEASE.kept_metadata().unwrap();
        let secret = json!({"metadata": {"name": "s", "labels": {"owner": "helm"}}, "data": {"release": "s3cret"}});
        let sent = metadata_list(kept, vec![secret.clone(), secret]);
        assert_eq!(
            (&sent["kind"], &sent["apiVersion"]),
            (&json!("List"), &json!("v1"))
        );
        let items = sent["items"].as_array().unwrap();
        assert_eq!(items.len(), 2);
        for item in items {
            assert_eq!(item["metadata"]["labels"], json!({"owner": "helm"}));
            assert_eq!(item["kind"], "PartialObjectMetadata");
            assert!(item.get("data").is_none(), "{item}");
        }
    }

    #[test]
    fn what_fleet_and_a_backup_hold_of_secrets_is_not_sent() {
        let with_secrets = json!({
            "spec": {"options": {"helm": {"values": {"password": "s3cret"}}}},
            "status": {"modifiedStatus": [{"kind": "Secret", "name": "a", "patch": "s3cret"}]},
        });
        let sent = reduce("BundleDeployment", with_secrets);
        assert_eq!(
            sent,
            json!({
                "spec": {"options": {}},
                "status": {"modifiedStatus": [{"kind": "Secret", "name": "a"}]},
            })
        );
        let backup =
            json!({"status": {"secretBackups": [{"name": "a", "data": {"x": "czNjcmV0"}}]}});
        assert_eq!(
            reduce("VirtualMachineBackup", backup),
            json!({"status": {}})
        );
    }

    #[test]
    fn what_an_object_does_not_have_is_not_made_up() {
        for kind in [
            "Node",
            "Bundle",
            "BundleDeployment",
            "VirtualMachineBackup",
            "APIService",
            "HelmChart",
            "ValidatingWebhookConfiguration",
        ] {
            let object = json!({"metadata": {"name": "x"}});
            assert_eq!(reduce(kind, object.clone()), object, "{kind}");
        }
    }
}
