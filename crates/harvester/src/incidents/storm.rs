//! RKE2 applies every manifest again every 15 s, because one of them fails: the first pass after a start
//! has to be clean before RKE2 looks at what changed only (k3s `pkg/deploy/controller.go`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::finding::IncidentFinding;
use crate::objects::{ObjectKind, Objects, Unlisted, text};

/// What was last seen longer ago is over: a pass takes 15 s and what it applies.
const RECENT: SignedDuration = SignedDuration::from_mins(3);
/// A start that is clean applies nothing this often in a row.
const OFTEN: i64 = 10;

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut failing: BTreeMap<&str, (i64, &str)> = BTreeMap::new();
    let mut applied: BTreeMap<&str, i64> = BTreeMap::new();
    for event in objects.all(ObjectKind::EVENT)? {
        let of_addon = text(event, "/involvedObject/kind") == "Addon";
        if !of_addon || !is_recent(event, now) {
            continue;
        }
        let name = text(event, "/involvedObject/name");
        let count = event.pointer("/count").and_then(Value::as_i64);
        let count = count.unwrap_or(1);
        match text(event, "/reason") {
            "ApplyManifestFailed"
            | "ParseManifestFailed"
            | "ValidateManifestFailed"
            | "ReadManifestFailed" => {
                failing.insert(name, (count, text(event, "/message")));
            }
            "AppliedManifest" => {
                applied.insert(name, count);
            }
            _ => {}
        }
    }
    let again: Vec<(&str, i64)> = applied
        .into_iter()
        .filter(|(name, count)| *count >= OFTEN && !failing.contains_key(name))
        .collect();
    let failing: Vec<(&str, (i64, &str))> = failing
        .into_iter()
        .filter(|(_, (count, _))| *count >= OFTEN)
        .collect();
    if again.is_empty() || failing.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = failing.iter().map(|(name, _)| *name).collect();
    let why = format!(
        "{} fails at every pass, and {} others are applied again each time",
        names.join(", "),
        again.len()
    );
    let finding = IncidentFinding::new(Code::ApplyStorm, "RKE2's deploy controller", &why);
    let failed = failing.iter().map(|(name, (count, message))| {
        let subject = format!("Addon kube-system/{name}");
        Evidence::new(subject, "failed", format!("{count} times: {message}"))
    });
    let repeated = again.iter().take(5).map(|(name, count)| {
        let subject = format!("Addon kube-system/{name}");
        Evidence::new(subject, "applied", format!("{count} times"))
    });
    Ok(vec![finding.seen(failed.chain(repeated))])
}

fn is_recent(event: &Value, now: Timestamp) -> bool {
    let last: Option<Timestamp> = ["/lastTimestamp", "/eventTime"]
        .iter()
        .find_map(|pointer| text(event, pointer).parse().ok());
    last.is_some_and(|last| now.duration_since(last) < RECENT)
}
