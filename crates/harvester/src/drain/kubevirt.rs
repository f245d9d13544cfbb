//! A machine of KubeVirt on a node that is drained.
//!
//! Its pod's eviction is refused by KubeVirt's own webhook, which marks the machine for evacuation
//! instead; the machine is then migrated, which needs a node that takes its pod while the old one still
//! runs. What follows from `evictionStrategy` is KubeVirt's (`pkg/virt-api/webhooks/pod-eviction`).

use crate::objects::{Condition, ObjectKind, Objects, is_true, text};

/// What an eviction does to a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Evacuation {
    /// It is migrated.
    Migrates,
    /// It is shut down.
    ShutDown,
    /// It is never let go: why.
    Refused(String),
    /// It cannot be said.
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
        other => Evacuation::Unknown(format!("its evictionStrategy {other} is not known")),
    }
}

/// What holds for machines that do not say.
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
