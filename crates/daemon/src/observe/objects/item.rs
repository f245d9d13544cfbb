//! One object of a list.

use serde_json::Value;
use windrow_harvester::objects::text;
use windrow_model::object::pods::containers_mut;
use windrow_model::redact;

/// An item with its version and kind, which the API sends once for the whole list. Its managed fields, and the values
/// in its messages, are dropped.
pub fn complete(mut item: Value, api_version: &str, kind: &str) -> Value {
    if let Some(object) = item.as_object_mut() {
        let text = |text: &str| Value::String(text.to_owned());
        object.entry("apiVersion").or_insert(text(api_version));
        object.entry("kind").or_insert(text(kind));
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    let kind = text(&item, "/kind").to_owned();
    leave_out_secrets(&kind, &mut item);
    redact::messages(&mut item);
    item
}

/// Removes the parts of Secrets in objects of other kinds: the copies in a VM's backup (Harvester,
/// `pkg/apis/harvesterhci.io/v1beta1/backup.go`, `SecretBackup`), and Fleet's reports of a changed Secret (Fleet,
/// `bundledeployment_types.go`, `ModifiedStatus`), in a separate field and in its messages. A ManagedChart has its
/// Bundle's status (Rancher, `pkg/controllers/provisioningv2/managedchart`).
pub fn leave_out_secrets(kind: &str, object: &mut Value) {
    match kind {
        "VirtualMachineBackup" => {
            let status = object.get_mut("status").and_then(Value::as_object_mut);
            status.and_then(|status| status.remove("secretBackups"));
        }
        "Bundle" | "BundleDeployment" | "ManagedChart" => leave_out_patches(object),
        _ => {}
    }
}

/// Fields of a container that nothing reads. In a large cluster they are the largest part of the pods.
const UNREAD_OF_CONTAINERS: &[&str] = &[
    "args",
    "command",
    "env",
    "envFrom",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "securityContext",
    "startupProbe",
    "volumeDevices",
    "volumeMounts",
];

/// Removes the parts of an object that nothing reads: most of its containers, or of those that it creates.
pub(super) fn leave_out_unread(object: &mut Value) {
    for spec in ["/spec", "/spec/template/spec"] {
        let spec = object.pointer_mut(spec);
        for container in spec.into_iter().flat_map(containers_mut) {
            if let Some(container) = container.as_object_mut() {
                container.retain(|field, _| !UNREAD_OF_CONTAINERS.contains(&field.as_str()));
            }
        }
    }
    let annotations = object.pointer_mut("/metadata/annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

/// The beginning of Fleet's messages about a Secret: `secret.v1 NAMESPACE/NAME modified {PATCH}`.
const OF_SECRET: &str = "secret.v1 ";

/// Removes the patch of every Secret, at any depth.
fn leave_out_patches(value: &mut Value) {
    match value {
        Value::String(said) => {
            // The end of a patch cannot be found: the text after it is removed too.
            let of_secret = said.find(OF_SECRET);
            let patch = of_secret.and_then(|at| Some(at + said[at..].find('{')?));
            if let Some(patch) = patch {
                said.truncate(patch);
                said.push_str(redact::REDACTED);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_patches),
        Value::Object(map) => {
            if map.get("kind").and_then(Value::as_str) == Some("Secret") {
                map.remove("patch");
            }
            map.values_mut().for_each(leave_out_patches);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_backup_and_fleet_hold_of_secrets_is_taken_away() {
        let backup = json!({"metadata": {"name": "b"}, "status": {"readyToUse": true,
            "secretBackups": [{"name": "a", "data": {"userdata": "czNjcmV0"}}]}});
        let read = complete(backup, "harvesterhci.io/v1beta1", "VirtualMachineBackup");
        assert_eq!(read["status"], json!({"readyToUse": true}));

        let changed = |kind: &str| json!({"kind": kind, "name": "a", "patch": "s3cret"});
        let bundle = json!({"metadata": {"name": "b"}, "status": {"summary": {
            "nonReadyResources": [{"modifiedStatus": [changed("Secret"), changed("Deployment")]}]}}});
        let read = complete(bundle, "fleet.cattle.io/v1alpha1", "Bundle");
        assert_eq!(
            read["status"]["summary"]["nonReadyResources"][0]["modifiedStatus"],
            json!([{"kind": "Secret", "name": "a"}, changed("Deployment")])
        );

        // As in harvester#7996.
        let said = "Modified(1) [Cluster fleet-local/local]; deployment.apps x/y modified {\"spec\":{}}; \
                    secret.v1 kube-system/tls modified {\"data\":{\"tls.key\":\"s3cret\"}}; service.v1 x/z missing";
        let chart = json!({"status": {"conditions": [{"type": "Ready", "message": said}]}});
        let read = complete(chart, "management.cattle.io/v3", "ManagedChart");
        assert_eq!(
            read["status"]["conditions"][0]["message"],
            "Modified(1) [Cluster fleet-local/local]; deployment.apps x/y modified {\"spec\":{}}; \
             secret.v1 kube-system/tls modified [redacted]"
        );
    }
}
