//! D: Rancher's feature `harvester` is off, but its node driver is still active (rancher#48920). And the reverse: the driver is
//! off, but clusters still use it.
//!
//! Up to Rancher v2.10 the feature does not switch the driver off. From v2.11.0 on
//! `pkg/controllers/management/feature/feature_handler.go` does, according to the feature's own `spec.value`.

use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::cure::{Cure, CureGoal, ObjectChange, SavedObject};
use super::finding::IncidentFinding;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, items, named, text};

const BAREMETAL: &str = "harvester-baremetal-container-workload";
/// Limit of machine pools that are shown one by one.
const MOST_POOLS: usize = 10;

pub(super) fn find(objects: &Objects, _: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let feature = objects.get(ObjectKind::FEATURE, "", "harvester")?;
    let Some(feature) = feature.filter(|feature| effective(feature) == Some(false)) else {
        return Ok(Vec::new());
    };
    let driver = objects.get(ObjectKind::NODE_DRIVER, "", "harvester")?;
    let active = |driver: &&Value| driver.pointer("/spec/active") == Some(&Value::Bool(true));
    let Some(driver) = driver.filter(active) else {
        return Ok(Vec::new());
    };
    let baremetal = objects.get(ObjectKind::FEATURE, "", BAREMETAL)?;
    let url = text(driver, "/spec/url");
    let mut why = format!("NodeDriver harvester stays active and is fetched from {url}");
    let downloaded = Condition::of(driver, "Downloaded");
    let failed = downloaded.filter(|one| !one.is_true());
    if let Some(failed) = failed {
        why = format!("{why}, which fails: {}", failed.message);
    }
    let mut finding = IncidentFinding::new(Code::DriverWithoutFeature, "Feature harvester", &why)
        .seen([
            Evidence::new(
                "Feature harvester",
                "effective value",
                effective_value(feature),
            ),
            Evidence::new("NodeDriver harvester", "spec.active", "true"),
            Evidence::new("NodeDriver harvester", "spec.url", url),
            Evidence::new(
                format!("Feature {BAREMETAL}"),
                "effective value",
                baremetal.map_or("it does not exist".to_owned(), effective_value),
            ),
        ]);
    finding.proof.push(match feature.pointer("/spec/value") {
        Some(Value::Bool(_)) => {
            "Rancher before v2.11.0 (in Harvester up to v1.4) leaves the driver as it is; a later one switches \
             it off once, when spec.value is written"
        }
        _ => {
            "Rancher switches the driver off only when the feature's own spec.value is written, and it has none"
        }
    }.to_owned());
    match use_of_driver(objects) {
        Ok(None) => finding.cure = Some(cure(driver)),
        Ok(Some(users)) => {
            finding.advice += &format!(
                " The driver is in use by {users}: Rancher's webhook refuses to switch it off."
            );
        }
        Err(unlisted) if unlisted.wanted => return Err(unlisted),
        Err(unlisted) => {
            finding.advice +=
                &format!(" Windrow cannot tell whether the driver is in use: {unlisted}.");
        }
    }
    Ok(vec![finding])
}

/// Clusters whose machines the driver creates: it cannot create or delete any while it is off. Rancher's webhook refuses to
/// switch it off then (`driver-in-use-refused`), so this is rare.
pub(super) fn find_users(
    objects: &Objects,
    _: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    // Without this feature, there is no Rancher.
    if objects.get(ObjectKind::FEATURE, "", "harvester")?.is_none() {
        return Ok(Vec::new());
    }
    let driver = objects.get(ObjectKind::NODE_DRIVER, "", "harvester")?;
    let off = |driver: &&Value| driver.pointer("/spec/active") != Some(&Value::Bool(true));
    if driver.filter(off).is_none() {
        return Ok(Vec::new());
    }
    let clusters = objects.all(ObjectKind::PROVISIONING_CLUSTER)?.iter();
    let used: Vec<Evidence> = clusters.flat_map(pools).collect();
    let Some(first) = used.first() else {
        return Ok(Vec::new());
    };
    let why = match used.len() {
        1 => format!("{} uses it", first.object),
        many => format!(
            "{} and {} more machine pools use it",
            first.object,
            many - 1
        ),
    };
    let off = Evidence::new("NodeDriver harvester", "spec.active", "false");
    let evidence = std::iter::once(off).chain(used.into_iter().take(MOST_POOLS));
    let subject = "NodeDriver harvester";
    Ok(vec![
        IncidentFinding::new(Code::DriverInUse, subject, &why).seen(evidence),
    ])
}

fn pools(cluster: &Value) -> impl Iterator<Item = Evidence> {
    let subject = format!("Cluster {}", named(cluster));
    let pools = items(cluster, "/spec/rkeConfig/machinePools").iter();
    let ours = pools.filter(|pool| text(pool, "/machineConfigRef/kind") == "HarvesterConfig");
    ours.map(move |pool| {
        let field = format!("machinePools[{}].machineConfigRef", text(pool, "/name"));
        let config = format!("HarvesterConfig {}", text(pool, "/machineConfigRef/name"));
        Evidence::new(&subject, field, config)
    })
}

/// Uses of the driver: the machines that it created, or else the pools for which it is to create some.
fn use_of_driver(objects: &Objects) -> Result<Option<String>, Unlisted> {
    let machines = objects.all(ObjectKind::CAPI_MACHINE)?.iter();
    let kind = "/spec/infrastructureRef/kind";
    let machines = machines.filter(|machine| text(machine, kind) == "HarvesterMachine");
    let clusters = objects.all(ObjectKind::PROVISIONING_CLUSTER)?.iter();
    Ok(match (machines.count(), clusters.flat_map(pools).count()) {
        (0, 0) => None,
        (0, pools) => Some(format!("{pools} machine pools")),
        (machines, _) => Some(format!("{machines} machines")),
    })
}

/// Switches the driver off. Rancher's webhook checks again whether it is in use.
fn cure(driver: &Value) -> Cure {
    let goal = CureGoal::Field {
        path: ObjectKind::NODE_DRIVER.path_of(driver),
        before: None,
        field: "/spec/active".to_owned(),
        value: json!(false),
    };
    let step = ObjectChange::of(ObjectKind::NODE_DRIVER, driver)
        .set("/spec/active", json!(false))
        .step("switch NodeDriver harvester off", goal, 120)
        .afterwards("Rancher removes the driver and no longer fetches it");
    Cure {
        summary: "switch off Rancher's node driver harvester".to_owned(),
        changes: vec![
            "NodeDriver harvester: spec.active becomes false; no cluster uses it".to_owned(),
        ],
        saves: vec![SavedObject::of(ObjectKind::NODE_DRIVER, driver)],
        purpose: None,
        steps: vec![step],
    }
}

/// The locked value, or else the configured one, or else the default.
fn effective(feature: &Value) -> Option<bool> {
    ["/status/lockedValue", "/spec/value", "/status/default"]
        .iter()
        .find_map(|pointer| feature.pointer(pointer)?.as_bool())
}

fn effective_value(feature: &Value) -> String {
    let one = |pointer: &str| {
        let value = feature.pointer(pointer).and_then(Value::as_bool);
        value.map_or("unset".to_owned(), |value| value.to_string())
    };
    let effective = effective(feature).map_or("unknown".to_owned(), |value| value.to_string());
    format!(
        "{effective} (locked {}, spec {}, default {})",
        one("/status/lockedValue"),
        one("/spec/value"),
        one("/status/default")
    )
}
