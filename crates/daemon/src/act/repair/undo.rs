//! Undoes the changes of a cure: the last step first, and only objects that still are as the cure left them.

use std::io;

use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use windrow_harvester::incidents::{CureStep, WayBack};

use super::records::{ChangeEnd, Record, RepairOutcome};
use super::requests::{RequestOutcome, make};
use super::{RepairContext, Unfinished, wait_for_change};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoneStep {
    Restored,
    AsBefore,
    /// Another client has changed it since, so it stays as it is; the change, in a line.
    ChangedSince(String),
    NoWayBack(String),
    Failed(String),
}

/// The changes that have not ended, in the order in which they are undone.
pub fn steps_to_undo(record: &Record) -> Vec<(&CureStep, &WayBack)> {
    let changes = changes_to_undo(record).into_iter();
    changes
        .map(|(_, step, way_back)| (step, way_back))
        .collect()
}

fn changes_to_undo(record: &Record) -> Vec<(usize, &CureStep, &WayBack)> {
    let changed = record.changed.iter().enumerate().rev();
    changed
        .filter(|(_, changed)| changed.ended.is_none())
        .filter_map(|(at, changed)| {
            let step = record.cure.steps.get(changed.step)?;
            Some((at, step, step.way_back.as_ref()?))
        })
        .collect()
}

/// Undoes a cure, whether it was finished or not. First the record says that it is not continued. `tell` gets the
/// outcome of each step. Returns false when a step failed: then the rest can be undone again.
///
/// # Errors
///
/// When the record, or the cluster's note, cannot be written.
pub async fn undo(
    context: &RepairContext,
    record: &mut Record,
    now: impl Fn() -> Timestamp,
    mut tell: impl FnMut(&CureStep, &UndoneStep),
) -> Result<bool, Unfinished> {
    if record.undoing.is_none() {
        record.undoing = Some(now());
        context.records.write(record)?;
    }
    context.learn_what_others_restored(record).await?;
    let mut is_undone = true;
    let changes = changes_to_undo(record).into_iter();
    let changes: Vec<(usize, CureStep, WayBack)> = changes
        .map(|(at, step, way_back)| (at, step.clone(), way_back.clone()))
        .collect();
    for (at, step, way_back) in changes {
        let is_for_a_while = record.restoring_step(&step).is_some();
        let undone = match &way_back {
            WayBack::Request(request) if is_for_a_while => {
                match wait_for_change(&context.client, &step, request).await {
                    Ok(()) => undo_step(&context.client, &way_back).await?,
                    Err(why) => UndoneStep::Failed(why),
                }
            }
            _ => undo_step(&context.client, &way_back).await?,
        };
        tell(&step, &undone);
        let request = match &way_back {
            WayBack::Request(request) => Some(request),
            WayBack::None { .. } => None,
        };
        let end = match undone {
            UndoneStep::Failed(_) => {
                is_undone = false;
                continue;
            }
            UndoneStep::Restored | UndoneStep::AsBefore => (ChangeEnd::Restored, None),
            UndoneStep::ChangedSince(why) => (ChangeEnd::ChangedByOthers, Some(why)),
            UndoneStep::NoWayBack(why) => (ChangeEnd::NoWayBack, Some(why)),
        };
        context.end_change(record, at, end, request).await?;
    }
    if is_undone {
        record.undone = Some(now());
        if let Err(error) = context.close(record, RepairOutcome::Undone, now()).await {
            record.undone = None;
            return Err(error);
        }
    }
    Ok(is_undone)
}

async fn undo_step(client: &Client, way_back: &WayBack) -> io::Result<UndoneStep> {
    let request = match way_back {
        WayBack::Request(request) => request,
        WayBack::None { why } => return Ok(UndoneStep::NoWayBack(why.clone())),
    };
    Ok(
        match make(client, request, async |_: &Value| Ok(())).await? {
            RequestOutcome::Taken(_) => UndoneStep::Restored,
            RequestOutcome::Applied => UndoneStep::AsBefore,
            RequestOutcome::Outdated(why) => UndoneStep::ChangedSince(why),
            RequestOutcome::Refused(why) | RequestOutcome::Unanswered(why) => {
                UndoneStep::Failed(why)
            }
        },
    )
}

#[cfg(test)]
#[path = "undo_tests.rs"]
mod tests;
