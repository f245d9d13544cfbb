//! RKE2 applies every manifest again every 15 s, because one of them fails. RKE2 only switches to changed files after a first
//! pass without errors (k3s `pkg/deploy/controller.go`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::manifest::object_name_error;
use windrow_model::reasons::Code;

use super::finding::IncidentFinding;
use crate::objects::{ObjectKind, Objects, Unlisted, text};

/// Older observations no longer count. A pass takes 15 s plus the time for applying. But for an object with 25 events,
/// Kubernetes' event recorder lets only one through in five minutes (client-go `tools/record/events_cache.go`), so this allows
/// for three of them.
const RECENT: SignedDuration = SignedDuration::from_mins(15);
/// A start without errors never applies a file this often in a row.
const OFTEN: i64 = 10;

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut failed: BTreeMap<&str, Repeated<'_>> = BTreeMap::new();
    let mut applied: BTreeMap<&str, Repeated<'_>> = BTreeMap::new();
    for event in deploy_events(objects)? {
        let of_reason = match text(event, "/reason") {
            "ApplyManifestFailed"
            | "ParseManifestFailed"
            | "ValidateManifestFailed"
            | "ReadManifestFailed" => &mut failed,
            "AppliedManifest" => &mut applied,
            _ => continue,
        };
        if let Some(repeated) = recent(event, now) {
            let name = text(event, "/involvedObject/name");
            let newest = of_reason.entry(name).or_insert(repeated);
            if newest.last < repeated.last {
                *newest = repeated;
            }
        }
    }
    // Applied after its failure: it is fixed, and the next pass will succeed.
    let mended = |name: &str, failure: &Repeated<'_>| {
        let applied = applied.get(name);
        applied.is_some_and(|applied| applied.last > failure.last)
    };
    let failing: Vec<(&str, Repeated<'_>)> = failed
        .iter()
        .filter(|(name, failure)| failure.count >= OFTEN && !mended(name, failure))
        .map(|(name, failure)| (*name, *failure))
        .collect();
    let again: Vec<(&str, i64)> = applied
        .iter()
        .filter(|(name, applied)| applied.count >= OFTEN && !failed.contains_key(*name))
        .map(|(name, applied)| (*name, applied.count))
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
    let failed = failing.iter().map(|(name, failure)| {
        let subject = format!("Addon kube-system/{name}");
        let value = format!("{} times: {}", failure.count, failure.message);
        Evidence::new(subject, "failed", value)
    });
    let repeated = again.iter().take(5).map(|(name, count)| {
        let subject = format!("Addon kube-system/{name}");
        Evidence::new(subject, "applied", format!("{count} times"))
    });
    Ok(vec![finding.seen(failed.chain(repeated))])
}

/// The events of the deploy controller about Addons.
pub(super) fn deploy_events(objects: &Objects) -> Result<impl Iterator<Item = &Value>, Unlisted> {
    let addon = ObjectKind::MANIFEST_ADDON;
    let (version, kind) = (addon.api_version(), addon.group_kind());
    let is_of_addon = move |event: &&Value| {
        text(event, "/involvedObject/kind") == addon.kind
            && text(event, "/involvedObject/apiVersion") == version
            // An event can contain an object name that is not valid.
            && object_name_error(&kind, text(event, "/involvedObject/name")).is_none()
    };
    Ok(objects.all(ObjectKind::EVENT)?.iter().filter(is_of_addon))
}

#[derive(Clone, Copy)]
struct Repeated<'a> {
    count: i64,
    last: Timestamp,
    message: &'a str,
}

fn recent(event: &Value, now: Timestamp) -> Option<Repeated<'_>> {
    let number = |pointer| event.pointer(pointer).and_then(Value::as_i64);
    let time = |pointer| text(event, pointer).parse::<Timestamp>().ok();
    // An event of the newer API counts in a series.
    let series = number("/series/count").zip(time("/series/lastObservedTime"));
    let (count, last) = series.or_else(|| {
        let last = time("/lastTimestamp").or_else(|| time("/eventTime"))?;
        Some((number("/count").unwrap_or(1), last))
    })?;
    let message = text(event, "/message");
    (now.duration_since(last) < RECENT).then_some(Repeated {
        count,
        last,
        message,
    })
}
