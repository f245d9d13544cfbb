use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::objects::KindListing;

mod addon;
mod bootstrap;
mod commands;
mod drain;
mod others;
mod own;
mod platform;
mod release;
mod site;
mod storage;
mod storm;
mod symptoms;
mod upgrade;
mod vip;

const NOW: &str = "2026-05-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// A cluster in which all kinds could be listed.
fn cluster(objects: impl IntoIterator<Item = Value>) -> Objects {
    let mut all = Objects::default();
    for kind in ObjectKind::ALL {
        all.insert(kind.group_kind(), KindListing::Objects(Vec::new()));
    }
    for object in objects {
        all.add(object);
    }
    all
}

/// The setting with Harvester's version.
fn version(version: &str) -> Value {
    json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting",
        "metadata": {"name": "server-version"}, "value": version
    })
}

fn codes(objects: &Objects) -> Vec<&'static str> {
    assert_eq!(diagnose(objects, now()).unknown, [""; 0]);
    let known = known(objects).into_iter();
    known.map(|one| one.code.as_str()).collect()
}

/// The known incidents. The tests of symptoms are in `symptoms.rs`.
fn known(objects: &Objects) -> Vec<IncidentFinding> {
    let all = diagnose(objects, now()).findings.into_iter();
    all.filter(|finding| !finding.unexplained).collect()
}

#[test]
fn an_empty_cluster_has_no_incident_and_one_that_cannot_be_asked_is_not_judged() {
    assert_eq!(codes(&cluster([])), [""; 0]);
    let unknown = diagnose(&Objects::default(), now()).unknown;
    assert!(!unknown.is_empty());
    let is_one =
        |line: &String| line.contains("skipped: ") && line.ends_with("is not in the input");
    assert!(unknown.iter().all(is_one), "{unknown:?}");
    let closed = diagnose(&Objects::closed("away"), now()).unknown;
    let all = detectors().chain(detectors_of_commands());
    let of_cluster = all.filter(|one| matches!(one.find, Find::Cluster(_)));
    assert_eq!(closed.len(), of_cluster.count());
}

#[test]
fn values_of_a_wrong_type_are_no_incident_and_no_panic() {
    let mut odd = Vec::new();
    for kind in ObjectKind::ALL {
        for value in [
            json!(null),
            json!(7),
            json!([1]),
            json!("x"),
            json!({"a": []}),
        ] {
            odd.push(json!({
                "apiVersion": kind.api_version(), "kind": kind.kind,
                "metadata": {"name": "odd", "namespace": "x", "labels": value},
                "spec": value, "status": value
            }));
        }
    }
    diagnose(&cluster(odd), now());
}

#[test]
fn of_each_code_with_a_cure_it_is_known_who_finds_it() {
    let cured: BTreeSet<Code> = detectors().filter_map(|one| one.cures).collect();
    assert_eq!(cured, Code::curable().collect());
    let looked = look(&cluster([]), now());
    let asked = look(&Objects::closed("away"), now());
    for code in Code::curable() {
        assert_eq!(found_of(&looked, code), Ok(Vec::new()));
        assert!(
            found_of(&asked, code).unwrap_err().contains("away"),
            "{code}"
        );
    }
    assert!(found_of(&looked, Code::ChartRetries).is_err());
}

#[test]
fn no_two_detectors_have_one_id_and_none_has_that_of_a_rule() {
    let mut ids = BTreeSet::new();
    for detector in detectors().chain(detectors_of_commands()) {
        let id = DetectorId::new(detector.id);
        assert_eq!(id.rule(), None, "{id:?}");
        let is_of_node = !matches!(detector.find, Find::Cluster(_));
        assert_eq!(id.is_of_node(), is_of_node, "{id:?}");
        assert!(ids.insert(id), "{}", detector.id);
    }
    let rule = DetectorId::new("site/kernel");
    assert_eq!(rule.rule(), Some("site/kernel"));
}

#[test]
fn every_incident_has_a_page_that_exists() {
    for reason in windrow_model::reasons::REASONS {
        // Reasons that the plan and the probes find too are in their own sections of the table.
        let is_incident = reason.section == "Known incidents";
        assert!(reason.page.is_some() || !is_incident, "{}", reason.id);
        if let Some(page) = reason.page {
            let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
                .join("docs")
                .join(page);
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                text.contains(&format!("`{}`", reason.id)),
                "{page}: {}",
                reason.id
            );
        }
    }
}
