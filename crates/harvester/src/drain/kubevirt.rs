//! A VM of KubeVirt on a node that is being drained.
//!
//! KubeVirt's own webhook rejects the eviction of its pod and marks the VM for evacuation instead. The migration then needs a
//! node that accepts a second pod while the old one still runs. The meaning of `evictionStrategy` is from KubeVirt
//! (`pkg/virt-api/webhooks/pod-eviction`).

use crate::objects::{Condition, ObjectKind, Objects, is_true, text};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Evacuation {
    Migrates,
    ShutDown,
    /// The VM is never evicted, with the reason.
    Refused(String),
    Unknown(String),
}

pub(super) fn evacuation(objects: &Objects, namespace: &str, name: &str) -> Evacuation {
    let machine = match objects.get(ObjectKind::VMI, namespace, name) {
        Ok(Some(machine)) => machine,
        Ok(None) => {
            return Evacuation::Unknown(format!(
                "there is no VirtualMachineInstance {namespace}/{name}"
            ));
        }
        Err(unlisted) => return Evacuation::Unknown(unlisted.to_string()),
    };
    let strategy = match text(machine, "/spec/evictionStrategy") {
        "" => match cluster_strategy(objects) {
            Ok(strategy) => strategy,
            Err(why) => return Evacuation::Unknown(why),
        },
        own => own.to_owned(),
    };
    let migratable = is_true(machine, "LiveMigratable");
    let why = || {
        let why = Condition::of(machine, "LiveMigratable").map_or("", |one| one.message);
        match why {
            "" => "it cannot be migrated live".to_owned(),
            why => format!("it cannot be migrated live: {why}"),
        }
    };
    match strategy.as_str() {
        "LiveMigrate" | "LiveMigrateIfPossible" if migratable => Evacuation::Migrates,
        "LiveMigrate" => Evacuation::Refused(why()),
        "LiveMigrateIfPossible" | "None" => Evacuation::ShutDown,
        "External" => Evacuation::Unknown(
            "its evictionStrategy is External: another controller moves it".to_owned(),
        ),
        other => Evacuation::Unknown(format!(
            "Windrow does not know its evictionStrategy {other}"
        )),
    }
}

/// The strategy for VMs that do not set one.
fn cluster_strategy(objects: &Objects) -> Result<String, String> {
    let kubevirts = objects
        .all(ObjectKind::KUBEVIRT)
        .map_err(|why| why.to_string())?;
    let strategy = kubevirts
        .first()
        .map_or("", |one| text(one, "/spec/configuration/evictionStrategy"));
    Ok(match strategy {
        "" => "None".to_owned(),
        strategy => strategy.to_owned(),
    })
}
