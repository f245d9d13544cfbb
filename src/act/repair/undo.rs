//! Undoes what a cure has changed: the last step first, and only what still is as the cure left it.

use std::io;

use jiff::Timestamp;
use kube::Client;
use windrow_harvester::incidents::{CureStep, WayBack};

use super::records::{Record, Records};
use super::requests::{RequestOutcome, make};

/// What came of undoing a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoneStep {
    /// It is as it was before.
    Restored,
    /// It was already as before.
    AsBefore,
    /// Somebody else has changed it since, so it was left as it is; what, in a line.
    ChangedSince(String),
    /// It cannot be undone; why.
    NoWayBack(String),
    /// kube-apiserver did not take it; why.
    Failed(String),
}

/// The steps that have changed something, in the order in which they are undone.
pub fn steps_to_undo(record: &Record) -> Vec<(&CureStep, &WayBack)> {
    let changed = record.changed.iter().rev();
    changed
        .filter_map(|changed| {
            let step = record.cure.steps.get(changed.step)?;
            Some((step, step.way_back.as_ref()?))
        })
        .collect()
}

/// Undoes a cure, whether it was finished or not; it is not continued afterwards. `tell` gets what came of each step.
/// False when a step failed: then it can be undone again.
///
/// # Errors
///
/// When the record cannot be written.
pub async fn undo(
    client: &Client,
    records: &Records,
    record: &mut Record,
    now: impl Fn() -> Timestamp,
    mut tell: impl FnMut(&CureStep, &UndoneStep),
) -> io::Result<bool> {
    let mut is_undone = true;
    for (step, way_back) in steps_to_undo(record) {
        let undone = undo_step(client, way_back).await?;
        is_undone &= !matches!(undone, UndoneStep::Failed(_));
        tell(step, &undone);
    }
    if is_undone {
        record.undone = Some(now());
        record.finished = record.finished.or(record.undone);
        records.write(record)?;
    }
    Ok(is_undone)
}

async fn undo_step(client: &Client, way_back: &WayBack) -> io::Result<UndoneStep> {
    let request = match way_back {
        WayBack::Request(request) => request,
        WayBack::None { why } => return Ok(UndoneStep::NoWayBack(why.clone())),
    };
    Ok(match make(client, request, |_| Ok(())).await? {
        RequestOutcome::Taken(_) => UndoneStep::Restored,
        RequestOutcome::Applied => UndoneStep::AsBefore,
        RequestOutcome::Outdated(why) => UndoneStep::ChangedSince(why),
        RequestOutcome::Refused(why) | RequestOutcome::Unanswered(why) => UndoneStep::Failed(why),
    })
}

#[cfg(test)]
#[path = "undo_tests.rs"]
mod tests;
