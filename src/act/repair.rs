//! Carries a cure out step by step, records its progress, and undoes it.
//!
//! ```text
//!   try_out: would the requests that rest on no other be taken? (dryRun=All)
//!   record written (what is saved, every step) ──> for each step:
//!        goal reached? ──yes──> next, written down
//!             │no
//!             └──> object as diagnosed? ──yes──> written down, request ──> look again, until the goal is reached
//!                        │no                                               or patience ends
//!                        └──> already as the request makes it: only waits; else Outdated: closed, diagnose again
//!                                     (a step that gives something back is passed over, so that the others still do)
//!   not wanted any more: on to the steps that give something back, and no other
//!   undo: the steps that changed something, the last first, where the object still is as the cure left it
//! ```
//!
//! The record is durable before the first request. After an interruption the cure continues where it was. A step whose
//! request was sent but not recorded is recognised as done by its goal, or by the object.

mod begun;
mod records;
mod requests;
mod undo;

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::time::{Instant, sleep};
use windrow_harvester::incidents::{CureRequest, CureStep};

pub use begun::{BegunCure, judge_begun};
pub use records::{ChangedObject, Record, Records, Worker};
pub use requests::{RequestOutcome, ask_for_cluster, try_out};
pub use undo::{UndoneStep, steps_to_undo, undo};

pub(super) use requests::PATIENCE;
use requests::{get, make};

/// How long a refused request is tried again: a webhook may see the old object for a while.
const REFUSED: Duration = Duration::from_secs(60);
/// The pause between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Why a cure did not finish.
#[derive(Debug, thiserror::Error)]
pub enum Unfinished {
    /// A step did not reach its goal.
    #[error("{step}: {why}")]
    Step {
        /// The step.
        step: String,
        /// Why.
        why: String,
    },
    /// Somebody else changed what a step was to change.
    #[error("{step}: {why}: somebody else was faster, diagnose again")]
    Outdated {
        /// The step.
        step: String,
        /// What has changed.
        why: String,
    },
    /// It was not wanted any more when this step was to be done. What was changed for a while is given back then.
    #[error("{step}: not done, because it is not wanted any more")]
    Unwanted {
        /// The step.
        step: String,
    },
    /// Everything was done, but what these steps should restore was changed by somebody else.
    #[error("not everything could be given back: {0}")]
    NotRestored(String),
    /// The progress could not be recorded.
    #[error("the record of the repair cannot be written: {0}")]
    Record(#[from] io::Error),
}

/// Carries a cure out, from the step that it reached. `tell` is called at the beginning of each step. Once it `is_wanted` no
/// longer, it does nothing more but give back what it has changed for a while.
///
/// # Errors
///
/// Why it did not finish. It can be started again, unless it rests on what somebody else has changed, or everything is given
/// back: then it is closed.
pub async fn carry_out(
    client: &Client,
    records: &Records,
    record: &mut Record,
    now: impl Fn() -> Timestamp,
    is_wanted: impl Fn() -> bool,
    mut tell: impl FnMut(usize, &CureStep),
) -> Result<(), Unfinished> {
    let (mut given_up, mut passed_over) = (None, Vec::new());
    while let Some(step) = record.cure.steps.get(record.done).cloned() {
        tell(record.done, &step);
        let is_wanted = || step.gives_back() || is_wanted();
        match carry_out_step(client, records, record, &step, is_wanted).await {
            Err(Unfinished::Outdated { step: say, why }) if step.gives_back() => {
                passed_over.push(format!("{say}: {why}"));
            }
            // What comes after rests on it, but for what is given back.
            Err(error @ (Unfinished::Outdated { .. } | Unfinished::Unwanted { .. })) => {
                let Some(next) = record.next_to_give_back() else {
                    // What is not wanted may be wanted again.
                    if !matches!(error, Unfinished::Unwanted { .. }) {
                        records.close(record, now())?;
                    }
                    return Err(error);
                };
                given_up = Some(error);
                record.done = next;
                records.write(record)?;
                continue;
            }
            carried => carried?,
        }
        record.done += 1;
        records.write(record)?;
    }
    records.close(record, now())?;
    match given_up {
        Some(why) => Err(why),
        None if passed_over.is_empty() => Ok(()),
        None => Err(Unfinished::NotRestored(passed_over.join("; "))),
    }
}

/// Gives back what a cure has changed for a while, and does nothing else of it. `tell` is called at the beginning of each step that
/// gives something back.
///
/// # Errors
///
/// Why not everything could be given back.
pub async fn give_back(
    client: &Client,
    records: &Records,
    record: &mut Record,
    now: impl Fn() -> Timestamp,
    mut tell: impl FnMut(usize, &CureStep),
) -> Result<(), Unfinished> {
    let tell = |number, step: &CureStep| {
        if step.gives_back() {
            tell(number, step);
        }
    };
    match carry_out(client, records, record, now, || false, tell).await {
        Err(Unfinished::Unwanted { .. }) => Ok(()),
        done => done,
    }
}

/// Has everything come that the steps of a cure still wait for? What cannot be asked for has not.
pub async fn has_come(client: &Client, record: &Record) -> bool {
    for step in record.waits_left() {
        let seen = get(client, step.goal.path()).await;
        if !seen.is_ok_and(|seen| step.goal.is_reached(seen.as_ref())) {
            return false;
        }
    }
    true
}

async fn carry_out_step(
    client: &Client,
    records: &Records,
    record: &mut Record,
    step: &CureStep,
    is_wanted: impl Fn() -> bool,
) -> Result<(), Unfinished> {
    let began = Instant::now();
    let patience = Duration::from_secs(step.patience.into());
    let was_taken = record.was_taken(record.done);
    let mut due = step.request.as_ref();
    let failed = |why: String| Unfinished::Step {
        step: step.say.clone(),
        why,
    };
    loop {
        if !is_wanted() {
            return Err(Unfinished::Unwanted {
                step: step.say.clone(),
            });
        }
        let last = match (get(client, step.goal.path()).await, due) {
            (Ok(seen), _) if step.goal.is_reached(seen.as_ref()) => return Ok(()),
            (Ok(_), None) => format!("it was not seen until {}", step.goal.say()),
            (Ok(_), Some(request)) => {
                match carry_out_request(client, records, record, request).await? {
                    RequestOutcome::Taken(_) | RequestOutcome::Applied => {
                        due = None;
                        // The goal may already be reached.
                        continue;
                    }
                    // It may have moved on because of what an earlier try changed.
                    RequestOutcome::Outdated(_) if was_taken => {
                        due = None;
                        continue;
                    }
                    RequestOutcome::Outdated(why) => {
                        let step = step.say.clone();
                        return Err(Unfinished::Outdated { step, why });
                    }
                    RequestOutcome::Refused(why) | RequestOutcome::Unanswered(why) => {
                        if began.elapsed() >= REFUSED.min(patience) {
                            return Err(failed(why));
                        }
                        why
                    }
                }
            }
            (Err(why), _) => why,
        };
        if began.elapsed() >= patience {
            return Err(failed(format!("{last} ({} s)", step.patience)));
        }
        sleep(LOOK).await;
    }
}

/// Makes the request of the step that the record is at, with the object before and after it in the record.
async fn carry_out_request(
    client: &Client,
    records: &Records,
    record: &mut Record,
    request: &CureRequest,
) -> io::Result<RequestOutcome> {
    let step = record.done;
    let mut is_sent = false;
    let outcome = make(client, request, |before| {
        is_sent = true;
        record.changed.retain(|changed| changed.step != step);
        record.changed.push(ChangedObject {
            step,
            before: before.clone(),
            after: None,
        });
        records.write(record)
    })
    .await?;
    match &outcome {
        RequestOutcome::Taken(after) => {
            let changed = record.changed.iter_mut();
            changed
                .filter(|changed| changed.step == step)
                .for_each(|changed| changed.after = Some(after.clone()));
        }
        // An earlier try had no answer: what it may have changed is not forgotten.
        RequestOutcome::Outdated(_) if !is_sent => return Ok(outcome),
        // A request that was refused has changed nothing. One without an answer may have.
        RequestOutcome::Refused(_) | RequestOutcome::Outdated(_) => {
            record.changed.retain(|changed| changed.step != step);
        }
        RequestOutcome::Applied | RequestOutcome::Unanswered(_) => return Ok(outcome),
    }
    records.write(record)?;
    Ok(outcome)
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
