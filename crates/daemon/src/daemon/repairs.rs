//! Cures that the daemon carries out automatically, because `repair.auto` names their code.
//!
//! ```text
//!   found twice in a row ──> lease (one server for all) ──> never done for these objects before, and still recognised?
//!        │                                                        │ its requests would be accepted (dryRun=All)
//!        │                                                        │ recorded in the lease
//!        │                                                        v
//!        └─ begun before and not finished ───────────────> record ──> cure ──> recognised no longer?
//!                      (with growing pauses)                           └─> journal, flight
//! ```
//!
//! The same engine as `windrow repair` carries the cure out. A cure is begun once for the same purpose (a code, a
//! subject, the objects by UID): no server begins it a second time, no matter how it ended, but an operator may. A cure
//! that did not finish is continued, after pauses that double, as long as its incident is recognised or something has
//! to be restored. It is closed once it has waited for as long as it may, and nothing else is left.
//!
//! No matter which codes the configuration names, the daemon restores the temporary changes of a repair whose process
//! has ended: of this machine, which the lock on repairs shows, or of another server, once that does not have the lease
//! and has not changed anything between two looks. A repair whose process has ended and that has nothing to restore is
//! closed: its incident is repaired again. An undo of this machine that was interrupted is finished.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::task::JoinSet;
use tokio::time::Instant;
use windrow_decide::flight::RecordedRepair;
use windrow_decide::settings::Settings;
use windrow_harvester::incidents::{Cure, DetectorResult, IncidentFinding};
use windrow_model::manifest::sha256_hex;
use windrow_model::reasons::Code;

use super::incident_look::LookPlace;
use super::repair_task::{OpenRecord, RepairEnd, RepairTask, RepairWork};
use crate::act::repair::{
    BegunCure, NoteFailure, Record, Records, RestoreEntry, RestoreNote, Worker, ask_for_cluster,
    judge_begun,
};
use crate::act::{ClusterLease, lease_on_repairs};
use crate::configuration::Published;
use crate::layout::Layout;
use crate::observe::management::lease_holder;
use crate::observe::requests::{RequestAction, SpooledRequest};
use crate::orders::spool::publish_request;

/// The first pause after a cure that did not finish, and the longest. The first one is as long as kube-apiserver works on a request
/// at most (`--request-timeout`), and longer than Windrow waits for an answer.
const PAUSES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    length: Duration,
    /// When the record had been written last before the pause.
    written: Option<Timestamp>,
}

pub(super) struct Repairer {
    configured: Published,
    now: fn() -> Timestamp,
    lease: Option<ClusterLease>,
    /// The findings of the previous look, by fingerprint: a single look is not a reason to act.
    before: BTreeSet<String>,
    /// The changes that other servers had left at the previous look.
    left: Vec<RestoreEntry>,
    pauses: BTreeMap<String, Pause>,
    /// Why the records could not be read the last time.
    unreadable: Option<String>,
    /// Why the cluster's note of changes to restore could not be read the last time.
    unreadable_note: Option<String>,
    under_way: JoinSet<RepairEnd>,
    pub(super) look_place: LookPlace,
}

impl Repairer {
    pub(super) fn new(configured: Published, now: fn() -> Timestamp) -> Self {
        Self {
            configured,
            now,
            lease: None,
            before: BTreeSet::new(),
            left: Vec::new(),
            pauses: BTreeMap::new(),
            unreadable: None,
            unreadable_note: None,
            under_way: JoinSet::new(),
            look_place: LookPlace::default(),
        }
    }

    /// Begins to cure one of the findings, if the settings name its code and no other cure is under way, or goes on
    /// with a cure that was begun. [`Repairer::ended`] reports its end.
    pub(super) async fn repair(
        &mut self,
        client: &Client,
        layout: &Layout,
        settings: &Settings,
        looked: &[DetectorResult],
    ) {
        let found = findings_to_cure(settings, looked);
        let now = found.iter().map(|(_, of)| of.clone()).collect();
        let before = std::mem::replace(&mut self.before, now);
        if !self.under_way.is_empty() {
            self.left.clear();
            return;
        }
        let records = Records::new(&layout.state_dir());
        let left = self.look_at_others(client, settings, &records).await;
        let has_nothing_to_do = settings.repair.auto.is_empty()
            && left.is_empty()
            && records.to_restore_or_undo().is_empty()
            && records.without_a_change_for_a_while().is_empty();
        if has_nothing_to_do {
            return;
        }
        let Ok(cluster) = ask_for_cluster(client).await else {
            return;
        };
        let records = records.of_cluster(cluster);
        let Some(work) = self.work(&records, settings, (found, &before), left) else {
            return;
        };
        let task = RepairTask {
            client: client.clone(),
            layout: layout.clone(),
            pause: self.next_pause(&records, &work),
            records,
            configured: self.configured.clone(),
            now: self.now,
            look_place: self.look_place.clone(),
        };
        let lease = self.lease.take();
        let lease = lease.unwrap_or_else(|| lease_on_repairs(lease_holder(layout)));
        self.under_way.spawn(task.run(lease, work));
    }

    /// Whether this machine has to restore something, even if the daemon may do nothing else.
    pub(super) fn has_to_restore(&self, layout: &Layout) -> bool {
        let records = Records::new(&layout.state_dir());
        self.under_way.is_empty() && !records.to_restore_or_undo().is_empty()
    }

    /// The changes that other servers had left at the last look.
    pub(super) fn left_by_others(&self) -> &[RestoreEntry] {
        &self.left
    }

    /// Checks which changes other servers have left. Returns those that they had also left at the previous look.
    async fn look_at_others(
        &mut self,
        client: &Client,
        settings: &Settings,
        records: &Records,
    ) -> Vec<RestoreEntry> {
        let before = std::mem::take(&mut self.left);
        if !settings.diagnosis.enabled {
            return Vec::new();
        }
        match entries_of_others(client, records, (self.now)()).await {
            Ok(entries) => (self.left, self.unreadable_note) = (entries, None),
            Err(why @ NoteFailure::Unanswered(_)) => {
                tracing::debug!("Windrow cannot tell which changes other servers have left: {why}");
            }
            Err(why @ NoteFailure::Unreadable { .. }) => {
                let why = why.to_string();
                if self.unreadable_note.as_ref() != Some(&why) {
                    tracing::warn!(
                        "Windrow cannot tell which changes other servers have left: {why}"
                    );
                }
                self.unreadable_note = Some(why);
            }
        }
        let left = self.left.iter().filter(|entry| before.contains(entry));
        left.cloned().collect()
    }

    /// Waits until the current task has ended. Without a task, it waits forever. True when the cluster should be
    /// examined again.
    pub(super) async fn ended(&mut self) -> bool {
        match self.under_way.join_next().await {
            None => std::future::pending().await,
            Some(Ok(end)) => {
                self.lease = Some(end.lease);
                if let Some(OpenRecord { name, written }) = end.goes_on {
                    let length = self.pause_after(&name);
                    let pause = Pause {
                        until: Instant::now() + length,
                        length,
                        written,
                    };
                    self.pauses.insert(name, pause);
                }
                end.is_begun
            }
            Some(Err(error)) => {
                tracing::warn!("a repair ended: {error}");
                false
            }
        }
    }

    #[cfg(test)]
    fn end_pauses(&mut self) {
        let now = Instant::now();
        let pauses = self.pauses.values_mut();
        pauses.for_each(|pause| pause.until = now);
    }

    /// Ends the current task, if there is one. Another process goes on from there.
    pub(super) async fn stop(&mut self) {
        self.under_way.shutdown().await;
    }

    /// The pause for a cure that does not finish this time.
    fn next_pause(&self, records: &Records, work: &RepairWork) -> Duration {
        match work {
            RepairWork::Resume(record)
            | RepairWork::Restore(record, _)
            | RepairWork::Close(record, _) => self.pause_after(&records.name(record)),
            RepairWork::Adopt(entry) => self.pause_after(&entry.record),
            RepairWork::Begin(..) => PAUSES.0,
        }
    }

    fn pause_after(&self, name: &str) -> Duration {
        let (first, longest) = PAUSES;
        let last = self.pauses.get(name);
        last.map_or(first, |pause| (pause.length * 2).min(longest))
    }

    fn work(
        &mut self,
        records: &Records,
        settings: &Settings,
        (found, before): (Vec<(&IncidentFinding, String)>, &BTreeSet<String>),
        left: Vec<RestoreEntry>,
    ) -> Option<RepairWork> {
        let is_paused = |name: &str| {
            let pause = self.pauses.get(name);
            pause.is_some_and(|pause| pause.until > Instant::now())
        };
        let to_restore = records.to_restore_or_undo().into_iter();
        let mut to_restore = to_restore
            .filter(|record| !is_paused(&records.name(record)) && !goes_on(record, settings));
        if let Some(record) = to_restore.next() {
            let why = why_restored(&record);
            return Some(RepairWork::Restore(Box::new(record), why));
        }
        let mut left = left.into_iter();
        let of_others = left.find(|entry| records.may_adopt(entry) && !is_paused(&entry.record));

        let auto = &settings.repair.auto;
        let begun: Result<Vec<_>, _> = auto.iter().map(|code| records.unfinished(*code)).collect();
        let begun = match begun {
            Ok(begun) => begun.concat(),
            // It might be one of these: then nothing is done.
            Err(error) => {
                let why = error.to_string();
                if self.unreadable.as_ref() != Some(&why) {
                    tracing::warn!("nothing is repaired: {why}");
                    self.unreadable = Some(why);
                }
                return of_others.map(|entry| RepairWork::Adopt(Box::new(entry)));
            }
        };
        self.unreadable = None;
        let own = |record: &&Record| goes_on(record, settings) && !is_paused(&records.name(record));
        if let Some(record) = begun.iter().find(own) {
            return Some(RepairWork::Resume(Box::new(record.clone())));
        }
        if let Some(entry) = of_others {
            return Some(RepairWork::Adopt(Box::new(entry)));
        }
        let mut abandoned = records.without_a_change_for_a_while().into_iter();
        let abandoned = abandoned.find(|record| {
            settings.diagnosis.enabled
                && !goes_on(record, settings)
                && !is_paused(&records.name(record))
        });
        if let Some(record) = abandoned {
            let pause = self.pauses.get(&records.name(&record));
            let written = pause.and_then(|pause| pause.written);
            return Some(RepairWork::Close(Box::new(record), written));
        }
        let is_begun = |finding: &IncidentFinding| {
            let mut begun = begun.iter();
            begun.any(|record| {
                let is_its = record.code == finding.code && record.subject == finding.subject;
                is_its && judge_begun(record, [finding]) == BegunCure::GoesOn
            })
        };
        found
            .into_iter()
            .find(|(finding, of)| before.contains(of) && !is_begun(finding))
            .map(|(finding, of)| RepairWork::Begin(Box::new(finding.clone()), of))
    }
}

fn findings_to_cure<'f>(
    settings: &Settings,
    looked: &'f [DetectorResult],
) -> Vec<(&'f IncidentFinding, String)> {
    looked
        .iter()
        .flat_map(|one| one.found.iter().flatten())
        .filter(|finding| settings.repair.auto.contains(&finding.code) && !finding.by_person)
        .filter_map(|finding| Some((finding, fingerprint(finding, finding.cure.as_ref()?))))
        .collect()
}

/// The changes that other servers have left, and that none goes on with.
pub async fn entries_of_others(
    client: &Client,
    records: &Records,
    now: Timestamp,
) -> Result<Vec<RestoreEntry>, NoteFailure> {
    let mut entries = RestoreNote::entries(client).await?;
    entries.retain(|entry| records.may_adopt(entry));
    if entries.is_empty() {
        return Ok(entries);
    }
    let is_attended = RestoreNote::is_attended(client, now).await;
    if is_attended.map_err(NoteFailure::Unanswered)? {
        return Ok(Vec::new());
    }
    Ok(entries)
}

/// Whether it is the daemon's own cure, and nothing is against the rest of it.
fn goes_on(record: &Record, settings: &Settings) -> bool {
    let is_own = record.by == Worker::Daemon && record.adopted_from.is_none();
    is_own && !record.is_given_up() && settings.repair.auto.contains(&record.code)
}

fn why_restored(record: &Record) -> String {
    match record.by {
        Worker::Person => "the process that repaired has ended".to_owned(),
        Worker::Daemon => format!("`repair.auto` does not name {} any more", record.code),
    }
}

/// The purpose of a cure: the code, the subject, and its objects, by their UID.
pub(super) fn fingerprint(finding: &IncidentFinding, cure: &Cure) -> String {
    fingerprint_of(finding.code, &finding.subject, cure)
}

pub(super) fn fingerprint_of(code: Code, subject: &str, cure: &Cure) -> String {
    let all = format!("{code}\n{subject}\n{}", cure.carried_out_for());
    sha256_hex(all.as_bytes())
}

#[cfg(test)]
#[path = "repairs_drawn_tests.rs"]
mod drawn_tests;
#[cfg(test)]
#[path = "repairs_tests.rs"]
mod tests;

/// Reports to the daemon, which records it in the flight and the journal, now or when it runs again.
pub fn report_to_daemon(
    layout: &Layout,
    action: RequestAction,
    record: &str,
    (by, why): (&str, &str),
    at: Timestamp,
) {
    let request = SpooledRequest {
        file: record.to_owned(),
        reason: why.to_owned(),
        ..SpooledRequest::new(action, by, at)
    };
    // The record itself is on the disk; only its mention is lost.
    if let Err(error) = publish_request(layout, &request, "repair") {
        tracing::warn!("{error:#}");
    }
}

pub(super) fn note(layout: &Layout, request: &SpooledRequest) -> Result<RecordedRepair, String> {
    let event = request.action.of_repair().ok_or("it names no cure")?;
    let records = Records::new(&layout.state_dir());
    let record = records
        .named(&request.file)
        .map_err(|error| error.to_string())?;
    let message = event.say(&[
        ("by", &request.by),
        ("subject", &record.subject),
        ("code", record.code.as_str()),
        ("what", &request.reason),
        ("why", &request.reason),
    ]);
    Ok(RecordedRepair {
        at: request.at,
        event,
        code: record.code,
        subject: record.subject,
        by: request.by.clone(),
        message,
        steps: record.cure.steps.into_iter().map(|step| step.say).collect(),
        done: record.done,
        record: request.file.clone(),
    })
}
