//! The webhooks of KubeVirt, which reject its kinds until KubeVirt is deployed.

use windrow_model::manifest::ObjectRef;

use super::super::literals;
use super::SimulatedCluster;

impl SimulatedCluster {
    /// Before virt-operator creates the kinds of the group kubevirt.io, it registers a webhook for each of them that never answers. It removes
    /// these webhooks when virt-api runs (`createDummyWebhookValidator`, kubevirt v1.7.0), some seconds before KubeVirt is deployed. Here both
    /// happen at the same time.
    pub(super) fn admit_kubevirts_kinds(&self, id: &ObjectRef) -> Result<(), String> {
        let mut kubevirts = self.of_kind(&literals::kind("kubevirt.io", "KubeVirt"));
        let Some((first, kubevirt)) = kubevirts.next() else {
            return Ok(());
        };
        // In this simulation, a KubeVirt from a manifest never has this phase.
        if kubevirt.status()["phase"] != "Deploying" {
            return Ok(());
        }
        let Some(asked) = asked(&id.group, &id.kind) else {
            return Ok(());
        };
        Err(format!(
            "Internal error occurred: failed calling webhook \"{}\": failed to call webhook: Post \
             \"https://{}.{}.svc:443{}?timeout=10s\": {}",
            asked.webhook,
            asked.service,
            first.namespace_or_default(),
            asked.path,
            asked.why
        ))
    }
}

/// A webhook that is called and does not answer.
struct AskedWebhook {
    webhook: String,
    service: &'static str,
    path: String,
    why: &'static str,
}

/// The first webhook that is called when an object of this kind is created: mutators come before validators (kubevirt v1.7.0
/// `pkg/virt-operator/resource/generate/components/webhooks.go`).
fn asked(group: &str, kind: &str) -> Option<AskedWebhook> {
    let lower = kind.to_lowercase();
    let (webhook, path) = match (group, kind) {
        ("kubevirt.io", "KubeVirt") => return None,
        ("kubevirt.io", _) => {
            return Some(AskedWebhook {
                webhook: format!("{lower}s.kubevirt.io-tmp-validator"),
                service: "fake-validation-service",
                path: format!("/fake-path/{lower}s.kubevirt.io"),
                why: "service \"fake-validation-service\" not found",
            });
        }
        ("instancetype.kubevirt.io", _) => (
            format!("{lower}-validator.instancetype.kubevirt.io"),
            format!("/{lower}s-validate"),
        ),
        ("migrations.kubevirt.io", _) => (
            "migration-policy-validator.kubevirt.io".to_owned(),
            "/migration-policy-validate-create".to_owned(),
        ),
        ("pool.kubevirt.io", _) => (
            "virtualmachinepool-validator.kubevirt.io".to_owned(),
            "/virtualmachinepool-validate".to_owned(),
        ),
        ("clone.kubevirt.io", _) => (
            "virtualmachineclones-mutator.kubevirt.io".to_owned(),
            "/vm-clone-mutate-create".to_owned(),
        ),
        ("export.kubevirt.io", _) => (
            "virtualmachineexport-validator.export.kubevirt.io".to_owned(),
            "/virtualmachineexports-validate".to_owned(),
        ),
        ("snapshot.kubevirt.io", "VirtualMachineSnapshot" | "VirtualMachineRestore") => (
            format!("{lower}-validator.snapshot.kubevirt.io"),
            format!("/{lower}s-validate"),
        ),
        _ => return None,
    };
    Some(AskedWebhook {
        webhook,
        service: "virt-api",
        path,
        why: "no endpoints available for service \"virt-api\"",
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A kind, the webhook that rejects it, its Service and its path.
    const GUARDED: &[(&str, &str, &str, &str)] = &[
        (
            "kubevirt.io",
            "VirtualMachine",
            "virtualmachines.kubevirt.io-tmp-validator",
            "fake-validation-service.harvester-system.svc:443/fake-path/virtualmachines.kubevirt.io",
        ),
        (
            "instancetype.kubevirt.io",
            "VirtualMachineClusterInstancetype",
            "virtualmachineclusterinstancetype-validator.instancetype.kubevirt.io",
            "virt-api.harvester-system.svc:443/virtualmachineclusterinstancetypes-validate",
        ),
        (
            "migrations.kubevirt.io",
            "MigrationPolicy",
            "migration-policy-validator.kubevirt.io",
            "virt-api.harvester-system.svc:443/migration-policy-validate-create",
        ),
        (
            "pool.kubevirt.io",
            "VirtualMachinePool",
            "virtualmachinepool-validator.kubevirt.io",
            "virt-api.harvester-system.svc:443/virtualmachinepool-validate",
        ),
        (
            "clone.kubevirt.io",
            "VirtualMachineClone",
            "virtualmachineclones-mutator.kubevirt.io",
            "virt-api.harvester-system.svc:443/vm-clone-mutate-create",
        ),
        (
            "export.kubevirt.io",
            "VirtualMachineExport",
            "virtualmachineexport-validator.export.kubevirt.io",
            "virt-api.harvester-system.svc:443/virtualmachineexports-validate",
        ),
        (
            "snapshot.kubevirt.io",
            "VirtualMachineSnapshot",
            "virtualmachinesnapshot-validator.snapshot.kubevirt.io",
            "virt-api.harvester-system.svc:443/virtualmachinesnapshots-validate",
        ),
        (
            "snapshot.kubevirt.io",
            "VirtualMachineRestore",
            "virtualmachinerestore-validator.snapshot.kubevirt.io",
            "virt-api.harvester-system.svc:443/virtualmachinerestores-validate",
        ),
    ];

    /// The messages of v1.7.0, which `tests/kubernetes/kubevirt_in_cluster.rs` gets from kube-apiserver.
    #[test]
    fn what_kubevirts_webhooks_are_asked_about_is_refused_until_it_is_deployed() {
        let start = jiff::Timestamp::UNIX_EPOCH;
        let chance = super::super::super::chance::Chance::new(1);
        let mut cluster = SimulatedCluster::new(start, chance);
        let own = literals::object(
            "kubevirt.io",
            "KubeVirt",
            Some("harvester-system"),
            "kubevirt",
        );
        cluster.put(own.clone(), json!({"status": {"phase": "Deploying"}}));
        let refused = |cluster: &SimulatedCluster, group: &'static str, kind: &'static str| {
            let object = literals::object(group, kind, Some("default"), "new");
            cluster.admit(&object, &json!({})).err()
        };
        for (group, kind, webhook, url) in GUARDED {
            let why = match *group {
                "kubevirt.io" => "service \"fake-validation-service\" not found",
                _ => "no endpoints available for service \"virt-api\"",
            };
            let words = format!(
                "Internal error occurred: failed calling webhook \"{webhook}\": failed to call webhook: Post \
                 \"https://{url}?timeout=10s\": {why}"
            );
            assert_eq!(refused(&cluster, group, kind), Some(words));
        }
        // No webhook guards the content of a snapshot. CDI has a separate operator.
        for (group, kind) in [
            ("snapshot.kubevirt.io", "VirtualMachineSnapshotContent"),
            ("cdi.kubevirt.io", "DataVolume"),
            ("kubevirt.io", "KubeVirt"),
        ] {
            assert_eq!(refused(&cluster, group, kind), None);
        }
        cluster.put(own, json!({"status": {"phase": "Deployed"}}));
        for (group, kind, ..) in GUARDED {
            assert_eq!(refused(&cluster, group, kind), None);
        }
    }
}
