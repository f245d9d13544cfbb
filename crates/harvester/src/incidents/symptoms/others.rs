//! Kinds of which Windrow knows nothing but that saved lists contain them: their condition Ready or Available counts.

use jiff::Timestamp;
use serde_json::Value;

use super::{Clock, OTHER_NOT_READY, of_condition};
use crate::incidents::finding::IncidentFinding;
use crate::objects::{Condition, Objects, Unlisted};

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let is_deleted = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some();
    let failing: Vec<_> = objects
        .unread()
        .flat_map(|(kind, listed)| listed.iter().map(move |object| (kind, object)))
        .filter(|(_, object)| !is_deleted(object))
        .filter_map(|(kind, object)| Some((kind, object, not_ready(object)?)))
        .collect();
    if failing.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let late = failing
        .into_iter()
        .filter(|(.., condition)| clock.is_late(condition.since(), &OTHER_NOT_READY));
    Ok(late
        .map(|(kind, object, condition)| of_condition(&kind.kind, object, condition))
        .collect())
}

/// Some kinds of Longhorn and Harvester write the names of conditions in small letters.
fn not_ready(object: &Value) -> Option<Condition<'_>> {
    Condition::all(object).find(|condition| {
        let name = condition.name.to_ascii_lowercase();
        condition.is_false() && matches!(&*name, "ready" | "available")
    })
}

/// The kinds with a status that no check reads, for example `Certificate.cert-manager.io (2)`.
pub fn unread_kinds(objects: &Objects) -> Option<String> {
    let has_status = |object: &Value| object.get("status").is_some_and(|status| !status.is_null());
    let kinds: Vec<String> = objects
        .unread()
        .filter(|(_, listed)| listed.iter().any(has_status))
        .map(|(kind, listed)| format!("{kind} ({})", listed.len()))
        .collect();
    (!kinds.is_empty()).then(|| {
        format!(
            "kinds in the input without a check, except for their condition Ready or Available: {}",
            kinds.join(", ")
        )
    })
}
