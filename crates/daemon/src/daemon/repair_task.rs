//! One cure that the daemon carries out, from the turn to the report, in a separate task next to the looks.
//!
//! It goes on while the configuration names its code. If the configuration stops naming it, the temporary changes (VMs
//! that were stopped) are restored, and nothing else is done. Changes that another process has left are restored too,
//! no matter which codes the configuration names: the restoring was promised when they were made.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use windrow_harvester::incidents::{IncidentFinding, found_of};
use windrow_model::reasons::Code;
use windrow_model::text::cut;

use super::incident_look::{LookPlace, PATIENCE, is_over, look_within};
use super::repairs::{fingerprint, fingerprint_of, report_to_daemon};
use crate::act::repair::{
    BegunCure, Record, Records, RepairOutcome, RequestOutcome, RestoreEntry, RestoreNote,
    Unfinished, Worker, carry_out, give_back, has_changed_objects, has_come, has_room_for,
    judge_begun, judge_left_behind, try_out, undo,
};
use crate::act::{ClusterLease, Turn};
use crate::configuration::Published;
use crate::layout::Layout;
use crate::observe::management::host_name;
use crate::observe::requests::RequestAction;

const REMEMBERED: usize = 64;
/// How often a cure with temporary changes goes on after an interruption, before it only restores them.
const RESUMED: u32 = 3;
const BY: &str = "windrow (repair.auto)";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Attempt {
    /// Its purpose: see [`fingerprint`].
    of: String,
    by: String,
    at: Timestamp,
}

pub(super) enum RepairWork {
    Resume(Box<Record>),
    /// Restore the temporary changes of a cure, for this reason, or finish its undo.
    Restore(Box<Record>, String),
    /// Close a cure that no process goes on with, and that has nothing to restore. Before the last pause its record had
    /// been written at this time.
    Close(Box<Record>, Option<Timestamp>),
    /// Restore the temporary changes of a cure of another server.
    Adopt(Box<RestoreEntry>),
    Begin(Box<IncidentFinding>, String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Extent {
    /// The whole rest.
    Whole,
    /// Its temporary changes are restored; why.
    GiveBack(String),
    /// It is undone: an operator began that.
    Undo,
}

pub(super) struct RepairTask {
    pub(super) client: Client,
    pub(super) layout: Layout,
    pub(super) records: Records,
    pub(super) configured: Published,
    pub(super) now: fn() -> Timestamp,
    pub(super) look_place: LookPlace,
    pub(super) pause: Duration,
}

pub(super) struct RepairEnd {
    pub(super) lease: ClusterLease,
    /// Something was done: the cluster should be examined again.
    pub(super) is_begun: bool,
    pub(super) goes_on: Option<OpenRecord>,
}

pub(super) struct OpenRecord {
    pub(super) name: String,
    pub(super) written: Option<Timestamp>,
}

impl RepairTask {
    pub(super) async fn run(self, lease: ClusterLease, work: RepairWork) -> RepairEnd {
        let state_dir = self.layout.state_dir();
        let mut turn = match Turn::take(lease, &state_dir, &self.client, self.now).await {
            Ok(turn) => turn,
            // Another server or an operator is repairing, or that is unknown: there will be another look.
            Err(no) => {
                tracing::debug!("no repair now: {}", no.why);
                return RepairEnd {
                    lease: no.lease,
                    is_begun: false,
                    goes_on: None,
                };
            }
        };
        let mut kept = None;
        let begun = match work {
            RepairWork::Close(record, written) => {
                kept = self.close_left_behind(&mut turn, *record, written).await;
                None
            }
            RepairWork::Resume(record) => self.resume(&mut turn, *record).await,
            RepairWork::Restore(record, why) => self.restore(*record, why),
            RepairWork::Adopt(entry) => self.adopt(&entry).await,
            RepairWork::Begin(finding, of) => {
                let begun = self.begin(&mut turn, &finding, of).await;
                begun.map(|record| (record, Extent::Whole))
            }
        };
        let is_begun = begun.is_some();
        let goes_on = match begun {
            Some((record, extent)) => self.carry_out(&mut turn, record, extent).await,
            None => kept,
        };
        let goes_on = goes_on.map(|name| OpenRecord {
            written: self.records.written_at(&name),
            name,
        });
        RepairEnd {
            lease: turn.end().await,
            is_begun,
            goes_on,
        }
    }

    fn is_wanted(&self, code: Code) -> bool {
        let configuration = self.configured.borrow();
        let settings = configuration.settings();
        settings.diagnosis.enabled && settings.repair.auto.contains(&code)
    }

    /// Goes on with a cure, unless the current findings are against it.
    async fn resume(&self, turn: &mut Turn<'_>, record: Record) -> Option<(Record, Extent)> {
        // An operator may have undone it just now.
        if !self.records.is_current(&record) {
            return None;
        }
        let judged = match self.look_again(turn, record.code).await {
            Ok(found) => judge_begun(&record, &found),
            Err(_) if record.has_to_restore() => BegunCure::GoesOn,
            Err(why) => {
                let (subject, code) = (&record.subject, record.code);
                tracing::debug!("the repair of {subject} ({code}) does not go on now: {why}");
                return None;
            }
        };
        let mut record = record;
        if record.has_to_restore()
            && let Err(error) = self.records.resume(&mut record)
        {
            tracing::warn!("{}: {error}", self.records.name(&record));
            return None;
        }
        let extent = match judged {
            _ if record.resumed > RESUMED => {
                Extent::GiveBack(format!("it was interrupted {RESUMED} times"))
            }
            BegunCure::GivesBack if self.has_come(turn, &record).await => {
                Extent::GiveBack("it is not recognised any more".to_owned())
            }
            BegunCure::GoesOn | BegunCure::GivesBack => Extent::Whole,
            BegunCure::Superseded
            | BegunCure::Over
            | BegunCure::Abandoned
            | BegunCure::Unconfirmed => {
                self.close(turn, record, judged).await;
                return None;
            }
        };
        Some((record, extent))
    }

    /// Restores the changes that a process that has ended left, or finishes its undo.
    fn restore(&self, record: Record, why: String) -> Option<(Record, Extent)> {
        if !self.records.is_current(&record) {
            return None;
        }
        let extent = match record.undoing {
            Some(_) => Extent::Undo,
            None => Extent::GiveBack(why),
        };
        Some((record, extent))
    }

    /// Closes a cure that no process goes on with. Returns its name if that cannot be done yet.
    async fn close_left_behind(
        &self,
        turn: &mut Turn<'_>,
        record: Record,
        written: Option<Timestamp>,
    ) -> Option<String> {
        if !self.records.is_current(&record) {
            return None;
        }
        let name = self.records.name(&record);
        // A request that was on its way before the last pause has ended.
        let is_at_rest = written.is_some() && written == self.records.written_at(&name);
        let has_changed = if is_at_rest || !record.has_request_in_doubt() {
            let asked = turn.during(has_changed_objects(&self.client, &record));
            asked.await.ok()
        } else {
            None
        };
        let judged = match self.look_again(turn, record.code).await {
            Ok(found) => judge_left_behind(&record, &found, has_changed, (self.now)()),
            Err(_) => BegunCure::GoesOn,
        };
        if judged == BegunCure::GoesOn {
            return Some(name);
        }
        let mut record = record;
        if has_changed == Some(false) {
            // A request that was not taken is not undone: another client may make the same change.
            record.changed.clear();
        }
        self.close(turn, record, judged).await;
        None
    }

    /// Takes over the changes that another server has left, if they are still there.
    async fn adopt(&self, entry: &RestoreEntry) -> Option<(Record, Extent)> {
        let entries = RestoreNote::entries(&self.client).await.ok()?;
        if !entries.contains(entry) {
            return None;
        }
        match self.records.adopt(entry) {
            Ok(record) => Some((record, Extent::GiveBack(String::new()))),
            Err(error) => {
                let (code, subject) = (entry.code, &entry.subject);
                tracing::warn!("what {subject} ({code}) left changed is not restored: {error}");
                None
            }
        }
    }

    /// The findings for a code, now that no other repair runs.
    async fn look_again(
        &self,
        turn: &mut Turn<'_>,
        code: Code,
    ) -> Result<Vec<IncidentFinding>, String> {
        let look = look_within(PATIENCE, &self.client, &self.look_place, self.now);
        let looked = turn.during(look).await?;
        Ok(found_of(&looked, code)?.into_iter().cloned().collect())
    }

    async fn has_come(&self, turn: &mut Turn<'_>, record: &Record) -> bool {
        let asked = async { Ok(has_come(&self.client, record).await) };
        turn.during(asked).await.unwrap_or(false)
    }

    async fn close(&self, turn: &Turn<'_>, mut record: Record, judged: BegunCure) {
        let name = self.records.name(&record);
        let context = turn.repair_context(&self.records);
        let closed = context.close(&mut record, judged.outcome(), (self.now)());
        if let Err(error) = closed.await {
            tracing::warn!("{name}: {error}");
            return;
        }
        let (action, why) = match judged {
            BegunCure::Over => (RequestAction::RepairDone, ""),
            _ => {
                let given_up = record.given_up.as_deref();
                let why = given_up.unwrap_or(judged.why_it_ends());
                (RequestAction::RepairFailed, why)
            }
        };
        report_to_daemon(&self.layout, action, &name, (BY, why), (self.now)());
    }

    /// Begins a cure, if it is still recognised as it was, unless any server has begun it before for the same purpose.
    async fn begin(
        &self,
        turn: &mut Turn<'_>,
        finding: &IncidentFinding,
        of: String,
    ) -> Option<Record> {
        if !self.is_wanted(finding.code) {
            return None;
        }
        let note = turn.note().await.ok()?;
        let mut attempts = match attempts(note.as_deref()) {
            Ok(attempts) => attempts,
            Err(why) => {
                let (code, subject) = (finding.code, &finding.subject);
                tracing::warn!(
                    "{subject} ({code}) is not repaired: the note of the Lease {} cannot be read: {why}",
                    ClusterLease::REPAIRS
                );
                return None;
            }
        };
        if attempts.iter().any(|attempt| attempt.of == of) || self.has_begun(finding.code, &of)? {
            return None;
        }
        let found = self.look_again(turn, finding.code).await.ok()?;
        let is_it = |one: &&IncidentFinding| {
            let cure = one.cure.as_ref().filter(|_| !one.by_person);
            cure.is_some_and(|cure| fingerprint(one, cure) == of)
        };
        let finding = found.iter().find(is_it)?;
        for record in self.records.unfinished(finding.code).ok()? {
            if judge_begun(&record, &found) == BegunCure::Superseded {
                self.close(turn, record, BegunCure::Superseded).await;
            }
        }
        let cure = finding.cure.as_ref()?;
        if !has_room_for(cure) {
            let (code, subject) = (finding.code, &finding.subject);
            tracing::warn!(
                "{subject} ({code}) is not repaired: it changes too many objects for a while"
            );
            return None;
        }
        for request in cure.requests_to_try(0) {
            if let RequestOutcome::Refused(why) | RequestOutcome::Outdated(why) =
                try_out(&self.client, request).await
            {
                let (code, subject) = (finding.code, &finding.subject);
                tracing::info!(
                    "{subject} ({code}) is not repaired: {}: {why}",
                    request.say()
                );
                return None;
            }
        }
        attempts.push(Attempt {
            of,
            by: host_name(),
            at: (self.now)(),
        });
        let late = attempts.len().saturating_sub(REMEMBERED);
        let written = serde_json::to_string(&attempts[late..]).ok()?;
        // A cure is not begun if its note for the other servers cannot be written.
        turn.write_note(note.as_deref(), written.clone())
            .await
            .ok()?;
        let begun = self
            .records
            .begin(finding, cure, Worker::Daemon, (self.now)());
        let record = match begun {
            Ok(record) => record,
            // A cure that this server cannot record is not begun either, and another server may begin it.
            Err(error) => {
                let (code, subject) = (finding.code, &finding.subject);
                tracing::warn!("{subject} ({code}) is not repaired: its record: {error}");
                let before = note.unwrap_or_else(|| "[]".to_owned());
                if let Err(why) = turn.write_note(Some(&written), before).await {
                    tracing::warn!("{subject} ({code}) counts as tried: {why}");
                }
                return None;
            }
        };
        report_to_daemon(
            &self.layout,
            RequestAction::RepairBegun,
            &self.records.name(&record),
            (BY, &cure.summary),
            (self.now)(),
        );
        Some(record)
    }

    /// Whether this server has begun it before. Other clients may change the note of the Lease. `None` if the records
    /// cannot be read.
    fn has_begun(&self, code: Code, of: &str) -> Option<bool> {
        let begun = self.records.begun(code).ok()?;
        Some(begun.iter().any(|record| {
            let is_own = record.by == Worker::Daemon && record.adopted_from.is_none();
            is_own && fingerprint_of(code, &record.subject, &record.cure) == of
        }))
    }

    /// Carries a cure out, checks whether it helped, and reports. Returns the record's name if it goes on after the
    /// pause.
    async fn carry_out(
        &self,
        turn: &mut Turn<'_>,
        mut record: Record,
        extent: Extent,
    ) -> Option<String> {
        let (now, code) = (self.now, record.code);
        let name = self.records.name(&record);
        let context = turn.repair_context(&self.records);
        let mut is_unwanted = false;
        let work = async {
            let is_wanted = || self.is_wanted(code);
            let done = match &extent {
                Extent::Whole => carry_out(&context, &mut record, now, is_wanted, |_, _| {}).await,
                Extent::GiveBack(why) => {
                    give_back(&context, &mut record, why, now, |_, _| {}).await
                }
                Extent::Undo => match undo(&context, &mut record, now, |_, _| {}).await {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(Unfinished::NotRestoredYet("a step failed".to_owned())),
                    Err(error) => Err(error),
                },
            };
            let is_in_vain = matches!(done, Err(Unfinished::Step { .. }))
                && !record.has_request_left()
                && !record.has_to_restore();
            if is_in_vain {
                // It has waited for the maximum time, and another wait would never end.
                let closed = context.close(&mut record, RepairOutcome::InVain, now());
                closed.await.map_err(|error| error.to_string())?;
            }
            is_unwanted = matches!(done, Err(Unfinished::Unwanted { .. }));
            done.map_err(|error| error.to_string())
        };
        let ended = turn.during(work).await;
        let mut goes_on = None;
        let verified = match ended {
            Ok(()) if extent == Extent::Undo => {
                let what = "all remaining changes";
                let undone = RequestAction::RepairUndone;
                report_to_daemon(&self.layout, undone, &name, (BY, what), now());
                return None;
            }
            Ok(()) => {
                let looked = look_within(PATIENCE, &self.client, &self.look_place, now).await;
                is_over(looked, code, &record.subject)
            }
            Err(_) if is_unwanted => Err(why_stopped(&record)),
            // Another client was faster, or only waiting is left.
            Err(why) if !record.is_open() => Err(why),
            Err(why) => {
                goes_on = Some(name.clone());
                let seconds = self.pause.as_secs();
                Err(format!("{why}; it goes on in {seconds} s"))
            }
        };
        let (action, why) = match (verified, &record.given_up) {
            (Ok(()), _) => (RequestAction::RepairDone, String::new()),
            (Err(why), Some(given_up)) if extent != Extent::Whole => (
                RequestAction::RepairFailed,
                format!("{given_up}; its temporary changes are restored: {why}"),
            ),
            (Err(why), _) => (RequestAction::RepairFailed, why),
        };
        report_to_daemon(&self.layout, action, &name, (BY, &why), now());
        goes_on
    }
}

/// Why a cure stops that the configuration does not name any more.
fn why_stopped(record: &Record) -> String {
    let code = record.code;
    if record.finished.is_some() {
        return format!(
            "`repair.auto` does not name {code} any more; its temporary changes are restored"
        );
    }
    format!(
        "`repair.auto` does not name {code} any more; `windrow repair {code}` goes on with it, and `windrow repair --undo` \
         takes it back"
    )
}

/// The records of all servers, or the reason why the note cannot be read: a newer Windrow, or another client, wrote it.
fn attempts(note: Option<&str>) -> Result<Vec<Attempt>, String> {
    let attempts = note.map_or(Ok(Vec::new()), serde_json::from_str);
    // The error may quote what others wrote.
    attempts.map_err(|error: serde_json::Error| cut(error.to_string(), 200))
}
