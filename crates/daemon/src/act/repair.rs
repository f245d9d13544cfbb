//! Carries a cure out step by step, records its progress, and undoes it.
//!
//! ```text
//!   try_out: would the requests that depend on no other be taken? (dryRun=All)
//!   record written (saved objects, every step) ──> for each step:
//!        goal reached? ──yes──> next, written down
//!             │no
//!             └──> object as diagnosed? ──yes──> noted in the Lease if a later step restores it, written down, request
//!                        │no                          ──> look again, until the goal is reached or patience ends
//!                        └──> already as the request makes it: only waits; else Outdated
//!   a step failed, is Outdated, or is not wanted any more: given up (written down) ──> every temporary change is restored,
//!        unless another client has changed it since ──> closed. A change that cannot be restored now keeps the record open.
//!   undo: written down ──> the changes that have not ended, the last first, where the object still is as the cure left it
//! ```
//!
//! The record is durable before the first request. After an interruption the cure continues where it was, or is given
//! up. A step whose request was sent but not recorded is recognised as done by its goal, or by the object. Only changes
//! by requests of the cure are restored: a step that found its goal reached, or the change made by another client, has
//! nothing to restore.

mod begun;
mod records;
mod requests;
mod restore_note;
mod temporary;
mod undo;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use windrow_harvester::incidents::{CureRequest, CureStep, RequestState};

pub use begun::{BegunCure, judge_begun, judge_left_behind};
pub use records::{ChangeEnd, ChangedObject, Record, Records, RepairOutcome, Worker};
pub use requests::{RequestOutcome, ask_for_cluster, try_out};
pub use restore_note::{NoteFailure, RestoreEntry, RestoreNote, has_room_for};
pub use undo::{UndoneStep, steps_to_undo, undo};

pub(super) use requests::PATIENCE;
use requests::{NotSent, get, is_due, make, state_of};
use restore_note::Noted;

/// How long a refused request is tried again: a webhook may see the old object for a while.
const REFUSED: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum Unfinished {
    #[error("{step}: {why}")]
    Step { step: String, why: String },
    /// Another client changed the object of a step.
    #[error("{step}: {why}: somebody else was faster, diagnose again")]
    Outdated { step: String, why: String },
    /// The cure was not wanted any more when this step was due. Its temporary changes are restored then.
    #[error("{step}: not done, because it is not wanted any more")]
    Unwanted { step: String },
    /// It was given up before, for this reason. Its temporary changes are restored.
    #[error("{0}")]
    GivenUp(String),
    /// Everything was done, but another client had changed the objects that these steps should restore.
    #[error("not everything could be given back: {0}")]
    NotRestored(String),
    #[error("not restored yet: {0}")]
    NotRestoredYet(String),
    #[error("the record of the repair cannot be written: {0}")]
    Record(#[from] io::Error),
}

#[derive(Clone)]
pub struct RepairContext {
    pub client: Client,
    pub records: Records,
    pub note: RestoreNote,
}

/// Carries a cure out, from the step that it reached. `tell` is called at the beginning of each step. Once a step fails
/// or `is_wanted` returns false, it only restores its temporary changes.
///
/// # Errors
///
/// Why it did not finish. Its temporary changes are restored then, and the record is closed. The record stays open, and
/// the cure can be started again, if they cannot be restored now, or if it had not made any.
pub async fn carry_out(
    context: &RepairContext,
    record: &mut Record,
    now: impl Fn() -> Timestamp,
    is_wanted: impl Fn() -> bool,
    mut tell: impl FnMut(usize, &CureStep),
) -> Result<(), Unfinished> {
    context.learn_what_others_restored(record).await?;
    let gone_on = match record.given_up.clone() {
        Some(why) => Err(Unfinished::GivenUp(why)),
        None => go_on(context, record, is_wanted, &mut tell).await,
    };
    let error = match gone_on {
        Ok(()) => None,
        Err(error @ (Unfinished::Record(_) | Unfinished::NotRestoredYet(_))) => return Err(error),
        Err(error) if record.has_to_restore() || record.given_up.is_some() => {
            if record.given_up.is_none() {
                record.given_up = Some(error.to_string());
                context.records.write(record)?;
            }
            restore_all(context, record, &mut tell).await?;
            Some(error)
        }
        Err(error) => {
            if let Unfinished::Outdated { .. } = error {
                context
                    .records
                    .close(record, RepairOutcome::Outdated, now())?;
            }
            return Err(error);
        }
    };
    let left_alone = record.left_alone();
    let outcome = match &error {
        _ if !left_alone.is_empty() => RepairOutcome::NotRestored,
        Some(_) if record.is_restored_elsewhere() => RepairOutcome::RestoredElsewhere,
        Some(_) => RepairOutcome::GivenBack,
        None => RepairOutcome::Done,
    };
    context.close(record, outcome, now()).await?;
    match error {
        _ if !left_alone.is_empty() => Err(Unfinished::NotRestored(left_alone.join("; "))),
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Only restores the temporary changes of a cure, because of `why`. `tell` is called at the beginning of each step.
///
/// # Errors
///
/// Why some of them could not be restored.
pub async fn give_back(
    context: &RepairContext,
    record: &mut Record,
    why: &str,
    now: impl Fn() -> Timestamp,
    tell: impl FnMut(usize, &CureStep),
) -> Result<(), Unfinished> {
    record.given_up.get_or_insert_with(|| why.to_owned());
    match carry_out(context, record, now, || false, tell).await {
        Err(Unfinished::GivenUp(_)) => Ok(()),
        done => done,
    }
}

impl RepairContext {
    pub fn new(client: Client, records: Records, holder: &str) -> Self {
        let note = RestoreNote::new(client.clone(), holder.to_owned(), Arc::default());
        Self {
            client,
            records,
            note,
        }
    }

    /// Closes a cure. If the cluster has a note of changes to restore, the note is removed first.
    ///
    /// # Errors
    ///
    /// The cluster or the record could not be written; then it stays open.
    pub async fn close(
        &self,
        record: &mut Record,
        outcome: RepairOutcome,
        now: Timestamp,
    ) -> Result<(), Unfinished> {
        if record.noted {
            let name = self.records.name(record);
            let finished = self.note.finish(&name, record).await;
            finished.map_err(Unfinished::NotRestoredYet)?;
            record.noted = false;
        }
        Ok(self.records.close(record, outcome, now)?)
    }

    /// Another server may have restored the changes of this record, while this one was away.
    async fn learn_what_others_restored(&self, record: &mut Record) -> Result<(), Unfinished> {
        if !record.noted {
            return Ok(());
        }
        let entry = self.note.entry(&self.records.name(record)).await;
        let left = match entry.map_err(Unfinished::NotRestoredYet)? {
            // The server that began it may have gone on meanwhile.
            Noted::Entry(entry) if record.adopted_from.is_some() && !entry.changes.is_empty() => {
                record.take_over(entry.to_record());
                return Ok(self.records.write(record)?);
            }
            Noted::Entry(entry) => entry.restoring_steps().collect(),
            Noted::Nothing if record.adopted_from.is_some() => Vec::new(),
            // This record is the only source.
            Noted::Nothing | Noted::Lost => return Ok(()),
        };
        let restored: Vec<usize> = record
            .steps_to_restore()
            .filter(|(_, step)| !left.iter().any(|other| other.request == step.request))
            .filter_map(|(_, step)| record.change_to_restore(step))
            .collect();
        if restored.is_empty() {
            return Ok(());
        }
        for at in restored {
            record.changed[at].ended = Some(ChangeEnd::RestoredElsewhere);
        }
        let why = "another server has restored its temporary changes";
        record.given_up.get_or_insert_with(|| why.to_owned());
        Ok(self.records.write(record)?)
    }

    async fn end_change(
        &self,
        record: &mut Record,
        change: usize,
        (end, why): (ChangeEnd, Option<String>),
        request: Option<&CureRequest>,
    ) -> io::Result<()> {
        record.changed[change].ended = Some(end);
        record.changed[change].why = why;
        self.records.write(record)?;
        self.forget_step(record, request).await;
        Ok(())
    }

    /// The cluster need not know of this request any more. If that cannot be written, closing the record does it.
    async fn forget_step(&self, record: &Record, request: Option<&CureRequest>) {
        if let Some(request) = request.filter(|_| record.noted) {
            let name = self.records.name(record);
            let _ = self.note.remove(&name, request).await;
        }
    }
}

async fn go_on(
    context: &RepairContext,
    record: &mut Record,
    is_wanted: impl Fn() -> bool,
    tell: &mut impl FnMut(usize, &CureStep),
) -> Result<(), Unfinished> {
    while let Some(step) = record.cure.steps.get(record.done).cloned() {
        if record.waits_for_what_was_left_alone(&step) {
            // It may never come.
        } else if !step.gives_back() {
            tell(record.done, &step);
            carry_out_step(context, record, &step, &is_wanted).await?;
        } else if record.change_to_restore(&step).is_some() {
            tell(record.done, &step);
            match restore(context, record, record.done, &step).await {
                // The others are restored first.
                Ok(()) | Err(Unfinished::Step { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        record.done += 1;
        context.records.write(record)?;
    }
    restore_all(context, record, tell).await
}

/// Restores every temporary change that is not restored yet.
async fn restore_all(
    context: &RepairContext,
    record: &mut Record,
    tell: &mut impl FnMut(usize, &CureStep),
) -> Result<(), Unfinished> {
    let mut late = Vec::new();
    let steps = record.steps_to_restore();
    let steps: Vec<(usize, CureStep)> = steps.map(|(at, step)| (at, step.clone())).collect();
    // No change waits for another one that takes long to reach its goal.
    let (mut ready, mut later) = (Vec::new(), Vec::new());
    for (at, step) in steps {
        if is_ready(context, record, &step).await {
            ready.push((at, step));
        } else {
            later.push((at, step));
        }
    }
    ready.append(&mut later);
    for (at, step) in ready {
        tell(at, &step);
        match restore(context, record, at, &step).await {
            Ok(()) => {}
            Err(Unfinished::Step { step, why }) => late.push(format!("{step}: {why}")),
            Err(error) => return Err(error),
        }
    }
    if late.is_empty() {
        return Ok(());
    }
    Err(Unfinished::NotRestoredYet(late.join("; ")))
}

async fn is_ready(context: &RepairContext, record: &Record, step: &CureStep) -> bool {
    let change = record.change_to_restore(step);
    let made = change.and_then(|at| record.cure.steps.get(record.changed[at].step));
    let (Some(made), Some(request)) = (made, &step.request) else {
        return true;
    };
    may_restore(&context.client, made, request)
        .await
        .unwrap_or(false)
}

/// Restores one change, unless another client has changed the object since.
async fn restore(
    context: &RepairContext,
    record: &mut Record,
    at: usize,
    step: &CureStep,
) -> Result<(), Unfinished> {
    let (Some(change), Some(request)) = (record.change_to_restore(step), step.request.as_ref())
    else {
        return Ok(());
    };
    if !record.was_taken(at)
        && let Some(made) = record.cure.steps.get(record.changed[change].step)
        && let Err(why) = wait_for_change(&context.client, made, request).await
    {
        let step = step.say.clone();
        return Err(Unfinished::Step { step, why });
    }
    let began = Instant::now();
    let patience = REFUSED.min(Duration::from_secs(step.patience.into()));
    let end = loop {
        if record.was_taken(at) {
            break (ChangeEnd::Restored, None);
        }
        match carry_out_request(context, record, at, step, request).await? {
            RequestOutcome::Taken(_) | RequestOutcome::Applied => {
                break (ChangeEnd::Restored, None);
            }
            RequestOutcome::Outdated(why) => break (ChangeEnd::ChangedByOthers, Some(why)),
            RequestOutcome::Refused(why) | RequestOutcome::Unanswered(why) => {
                if began.elapsed() >= patience {
                    let step = step.say.clone();
                    return Err(Unfinished::Step { step, why });
                }
            }
        }
        sleep(LOOK).await;
    };
    Ok(context
        .end_change(record, change, end, Some(request))
        .await?)
}

/// Waits until a temporary change has reached its goal, or another client has changed the object. virt-controller never
/// starts a VM whose run strategy `RerunOnFailure` comes back before its instance is gone.
///
/// # Errors
///
/// In a line, why it cannot be restored yet.
async fn wait_for_change(
    client: &Client,
    made: &CureStep,
    way_back: &CureRequest,
) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let why = match may_restore(client, made, way_back).await {
            Ok(true) => return Ok(()),
            Ok(false) => format!("it was not seen until {}", made.goal.say()),
            Err(why) => why,
        };
        if began.elapsed() >= Duration::from_secs(made.patience.into()) {
            return Err(format!("{why} ({} s)", made.patience));
        }
        sleep(LOOK).await;
    }
}

/// Whether a temporary change has reached its goal, or the object is no longer as the change left it.
async fn may_restore(
    client: &Client,
    made: &CureStep,
    way_back: &CureRequest,
) -> Result<bool, String> {
    let seen = get(client, made.goal.path()).await?;
    Ok(made.goal.is_reached(seen.as_ref()) || !is_due(client, way_back).await?)
}

/// Whether everything that a cure waits for before it restores has happened. If kube-apiserver does not answer, it has
/// not. A cure does not wait after it was given up, or while it is being undone.
pub async fn has_come(client: &Client, record: &Record) -> bool {
    if record.is_given_up() {
        return true;
    }
    for step in record.waits_left() {
        let seen = get(client, step.goal.path()).await;
        if !seen.is_ok_and(|seen| step.goal.is_reached(seen.as_ref())) {
            return false;
        }
    }
    true
}

/// Whether a request of this cure has changed an object. A request in doubt that is still due has not. No request may
/// be on its way any more.
///
/// # Errors
///
/// In a line, if kube-apiserver does not answer or refuses.
pub async fn has_changed_objects(client: &Client, record: &Record) -> Result<bool, String> {
    let mut in_doubt = 0;
    for request in record.requests_in_doubt() {
        in_doubt += 1;
        if !is_due(client, request).await? {
            return Ok(true);
        }
    }
    Ok(record.changed.len() > in_doubt)
}

async fn carry_out_step(
    context: &RepairContext,
    record: &mut Record,
    step: &CureStep,
    is_wanted: impl Fn() -> bool,
) -> Result<(), Unfinished> {
    let began = Instant::now();
    let patience = Duration::from_secs(step.patience.into());
    let at = record.done;
    // A request that was taken is not sent again: another client may have reversed it since.
    let mut due = step.request.as_ref().filter(|_| !record.was_taken(at));
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
        let last = match (get(&context.client, step.goal.path()).await, due) {
            (Ok(seen), _) if step.goal.is_reached(seen.as_ref()) => return Ok(()),
            (Ok(_), None) => {
                if let Some(why) = changed_since(context, record, step).await {
                    let step = step.say.clone();
                    return Err(Unfinished::Outdated { step, why });
                }
                format!("it was not seen until {}", step.goal.say())
            }
            (Ok(_), Some(request)) => {
                match carry_out_request(context, record, at, step, request).await? {
                    RequestOutcome::Taken(_) | RequestOutcome::Applied => {
                        due = None;
                        // The goal may already be reached.
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

/// A change by another client to the object of a temporary change of this step. Then the goal of the step may never be
/// reached.
async fn changed_since(
    context: &RepairContext,
    record: &Record,
    step: &CureStep,
) -> Option<String> {
    let way_back = record.restoring_step(step)?.request.as_ref()?;
    match state_of(&context.client, way_back).await.ok()? {
        RequestState::Due => None,
        RequestState::Applied => Some("it is as it was before".to_owned()),
        RequestState::Outdated(why) => Some(why),
    }
}

/// Makes the request of a step, with the object before and after it in the record. For a temporary change, the
/// cluster's note of how to restore it is written before.
async fn carry_out_request(
    context: &RepairContext,
    record: &mut Record,
    at: usize,
    step: &CureStep,
    request: &CureRequest,
) -> io::Result<RequestOutcome> {
    let (client, records) = (&context.client, &context.records);
    let name = records.name(record);
    let restoring = record.restoring_step(step).cloned();
    // An earlier try had no answer.
    let was_sent = record.changed.iter().any(|changed| changed.step == at);
    let mut is_sent = false;
    let outcome = make(client, request, async |before: &Value| {
        if let Some(restoring) = &restoring {
            if !record.noted {
                record.noted = true;
                records.write(record).map_err(NotSent::Record)?;
            }
            let added = context.note.add(&name, record, (before, restoring)).await;
            added.map_err(NotSent::Note)?;
        }
        is_sent = true;
        record.changed.retain(|changed| changed.step != at);
        record.changed.push(ChangedObject::new(at, before.clone()));
        records.write(record).map_err(NotSent::Record)
    })
    .await?;
    match &outcome {
        RequestOutcome::Taken(after) => {
            let changed = record.changed.iter_mut();
            changed
                .filter(|changed| changed.step == at)
                .for_each(|changed| changed.after = Some(after.clone()));
        }
        RequestOutcome::Unanswered(_) => return Ok(outcome),
        // The changes that the earlier try made or may still make are kept.
        _ if !is_sent || was_sent => return Ok(outcome),
        // It was refused, so it has changed nothing.
        RequestOutcome::Outdated(_) | RequestOutcome::Applied | RequestOutcome::Refused(_) => {
            record.changed.retain(|changed| changed.step != at);
            records.write(record)?;
            let restores = restoring.and_then(|step| step.request);
            context.forget_step(record, restores.as_ref()).await;
            return Ok(outcome);
        }
    }
    records.write(record)?;
    Ok(outcome)
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
