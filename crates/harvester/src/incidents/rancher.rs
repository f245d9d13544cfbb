//! D: Rancher's feature `harvester` is off and its node driver is still active (rancher#48920).
//!
//! Up to Rancher v2.10 nothing switches the driver off with the feature. From v2.11.0 on
//! `pkg/controllers/management/feature/feature_handler.go` does, by the feature's own `spec.value`.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::finding::IncidentFinding;
use crate::objects::{ObjectKind, Objects, Unlisted, condition, text};

const BAREMETAL: &str = "harvester-baremetal-container-workload";

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
    let downloaded = condition(driver, "Downloaded");
    let failed = downloaded.filter(|one| text(one, "/status") != "True");
    if let Some(failed) = failed {
        why = format!("{why}, which fails: {}", text(failed, "/message"));
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
    Ok(vec![finding])
}

/// Locked, or as it is set, or its default.
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
