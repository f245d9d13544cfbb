//! Cures that the daemon carries out by itself, because `repair.auto` names their code.
//!
//! ```text
//!   found twice in a row ──> lease (one server for all) ──> never done for these objects before, and still recognised?
//!        │                                                        │ its requests would be taken (dryRun=All)
//!        │                                                        │ written down in the lease
//!        │                                                        v
//!        └─ begun before and not finished ───────────────> record ──> cure ──> recognised no longer?
//!                      (with growing pauses)                           └─> journal, flight
//! ```
//!
//! The same engine as `windrow repair` carries the cure out. A cure is begun once for the same thing (a code, a
//! subject, the objects by UID): no server begins it a second time, whatever came of it, but a person may. A cure that
//! did not finish is continued, after pauses that double, as long as what it is for is recognised or something is to be
//! given back. It is closed once it has waited for as long as it may, and nothing else is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windrow_decide::flight::RecordedRepair;
use windrow_decide::settings::Settings;
use windrow_harvester::incidents::{Cure, DetectorResult, IncidentFinding, OwnNode, found_of};
use windrow_model::manifest::sha256_hex;
use windrow_model::reasons::Code;

use super::incident_look::{is_over, look_at_cluster};
use crate::act::repair::{
    BegunCure, Record, Records, RequestOutcome, Unfinished, Worker, ask_for_cluster, carry_out,
    judge_begun, try_out,
};
use crate::act::{ClusterLease, Turn, lease_on_repairs};
use crate::layout::Layout;
use crate::observe::management::{host_name, lease_holder};
use crate::observe::requests::{RequestAction, SpooledRequest};
use crate::orders::spool::lay_request;

/// The first pause after a cure that did not finish, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// How many attempts are remembered for all servers.
const REMEMBERED: usize = 64;
/// The daemon, as it is recorded.
const BY: &str = "windrow (repair.auto)";

/// One attempt, as the servers record it for each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Attempt {
    /// What it was for: see [`fingerprint`].
    of: String,
    /// The server.
    by: String,
    /// When it was begun.
    at: Timestamp,
}

/// A pause after a cure that did not finish.
#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    length: Duration,
}

/// Cures what it may.
pub(super) struct Repairer {
    now: fn() -> Timestamp,
    lease: Option<ClusterLease>,
    /// What the previous look found, by fingerprint: found once is no reason to act.
    before: BTreeSet<String>,
    pauses: BTreeMap<String, Pause>,
    /// Why the records could not be read the last time.
    unreadable: Option<String>,
}

/// Where cures are carried out and recorded.
struct RepairSite<'a> {
    client: &'a Client,
    layout: &'a Layout,
    records: &'a Records,
}

/// What to do next.
enum RepairWork {
    /// Continue a cure that was begun.
    Resume(Box<Record>),
    /// Begin a cure.
    Begin(Box<IncidentFinding>, String),
}

impl Repairer {
    pub(super) fn new(now: fn() -> Timestamp) -> Self {
        Self {
            now,
            lease: None,
            before: BTreeSet::new(),
            pauses: BTreeMap::new(),
            unreadable: None,
        }
    }

    /// Cures one of the findings, if the settings name its code. True when the cluster should be looked at again.
    pub(super) async fn repair(
        &mut self,
        client: &Client,
        layout: &Layout,
        settings: &Settings,
        looked: &[DetectorResult],
    ) -> bool {
        if settings.repair.auto.is_empty() {
            self.before.clear();
            return false;
        }
        let Ok(cluster) = ask_for_cluster(client).await else {
            return false;
        };
        let records = Records::new(&layout.state_dir()).of_cluster(cluster);
        let Some(work) = self.work(&records, settings, looked) else {
            return false;
        };
        let lease = self.lease.take();
        let lease = lease.unwrap_or_else(|| lease_on_repairs(lease_holder(layout)));
        match Turn::take(lease, &layout.state_dir(), client, self.now).await {
            Ok(mut turn) => {
                let site = RepairSite {
                    client,
                    layout,
                    records: &records,
                };
                let begun = match work {
                    RepairWork::Resume(record) => self.resume(&mut turn, &site, *record).await,
                    RepairWork::Begin(finding, of) => {
                        self.begin(&mut turn, &site, &finding, of).await
                    }
                };
                let is_begun = begun.is_some();
                if let Some(record) = begun {
                    self.carry_out(&mut turn, &site, record).await;
                }
                self.lease = Some(turn.end().await);
                is_begun
            }
            // Another server or a person is at it, or that is unknown: there will be another look.
            Err(no) => {
                tracing::debug!("no repair now: {}", no.why);
                self.lease = Some(no.lease);
                false
            }
        }
    }

    /// The first thing to do.
    fn work(
        &mut self,
        records: &Records,
        settings: &Settings,
        looked: &[DetectorResult],
    ) -> Option<RepairWork> {
        let auto = &settings.repair.auto;
        let found: Vec<(&IncidentFinding, String)> = looked
            .iter()
            .flat_map(|one| one.found.iter().flatten())
            .filter(|finding| auto.contains(&finding.code) && !finding.by_person)
            .filter_map(|finding| Some((finding, fingerprint(finding, finding.cure.as_ref()?))))
            .collect();
        let now = found.iter().map(|(_, of)| of.clone()).collect();
        let before = std::mem::replace(&mut self.before, now);
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
                return None;
            }
        };
        self.unreadable = None;
        let paused = |record: &Record| {
            let pause = self.pauses.get(&records.name(record));
            pause.is_some_and(|pause| pause.until > Instant::now())
        };
        let own = |record: &&Record| record.by == Worker::Daemon && !paused(record);
        if let Some(record) = begun.iter().find(own) {
            return Some(RepairWork::Resume(Box::new(record.clone())));
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

    /// Goes on with a cure, if what is recognised now does not say otherwise.
    async fn resume(
        &self,
        turn: &mut Turn<'_>,
        site: &RepairSite<'_>,
        record: Record,
    ) -> Option<Record> {
        // A person may have undone it just now.
        if !site.records.is_current(&record) {
            return None;
        }
        let judged = match self.look_again(turn, site, record.code).await {
            Ok(found) => judge_begun(&record, &found),
            Err(_) if record.has_to_give_back() => BegunCure::GoesOn,
            Err(why) => {
                let (subject, code) = (&record.subject, record.code);
                tracing::debug!("the repair of {subject} ({code}) does not go on now: {why}");
                return None;
            }
        };
        if judged == BegunCure::GoesOn {
            return Some(record);
        }
        self.close(site, record, judged);
        None
    }

    /// What of a code is recognised, now that no other repair runs.
    async fn look_again(
        &self,
        turn: &mut Turn<'_>,
        site: &RepairSite<'_>,
        code: Code,
    ) -> Result<Vec<IncidentFinding>, String> {
        let own = OwnNode::default();
        let look = async { Ok(look_at_cluster(site.client, self.now, &own).await) };
        let looked = turn.during(look).await?;
        Ok(found_of(&looked, code)?.into_iter().cloned().collect())
    }

    /// Closes a cure that does not go on.
    fn close(&self, site: &RepairSite<'_>, mut record: Record, judged: BegunCure) {
        let name = site.records.name(&record);
        if let Err(error) = site.records.close(&mut record, (self.now)()) {
            tracing::warn!("{name}: {error}");
            return;
        }
        let (action, why) = match judged {
            BegunCure::Over => (RequestAction::RepairDone, ""),
            _ => (
                RequestAction::RepairFailed,
                "the same is recognised of other objects now",
            ),
        };
        report_to_daemon(site.layout, action, &name, (BY, why), (self.now)());
    }

    /// Begins a cure, if it is still recognised as it was, unless any server has begun it before for the same thing.
    async fn begin(
        &self,
        turn: &mut Turn<'_>,
        site: &RepairSite<'_>,
        finding: &IncidentFinding,
        of: String,
    ) -> Option<Record> {
        let note = turn.note().await.ok()?;
        let mut attempts = attempts(note.as_deref());
        if attempts.iter().any(|attempt| attempt.of == of) {
            return None;
        }
        let found = self.look_again(turn, site, finding.code).await.ok()?;
        let is_it = |one: &&IncidentFinding| {
            let cure = one.cure.as_ref().filter(|_| !one.by_person);
            cure.is_some_and(|cure| fingerprint(one, cure) == of)
        };
        let finding = found.iter().find(is_it)?;
        for record in site.records.unfinished(finding.code).ok()? {
            if judge_begun(&record, &found) == BegunCure::Superseded {
                self.close(site, record, BegunCure::Superseded);
            }
        }
        let cure = finding.cure.as_ref()?;
        for request in cure.requests_to_try(0) {
            if let RequestOutcome::Refused(why) | RequestOutcome::Outdated(why) =
                try_out(site.client, request).await
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
        // What the other servers cannot be shown is not begun.
        turn.write_note(note.as_deref(), written.clone())
            .await
            .ok()?;
        let begun = site
            .records
            .begin(finding, cure, Worker::Daemon, (self.now)());
        let record = match begun {
            Ok(record) => record,
            // What this server cannot write down is not begun either, and another one may.
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
            site.layout,
            RequestAction::RepairBegun,
            &site.records.name(&record),
            (BY, &cure.summary),
            (self.now)(),
        );
        Some(record)
    }

    /// Carries a cure out, checks whether it helped, and reports.
    async fn carry_out(&mut self, turn: &mut Turn<'_>, site: &RepairSite<'_>, mut record: Record) {
        let RepairSite {
            client,
            layout,
            records,
        } = site;
        let now = self.now;
        let name = records.name(&record);
        let changing = turn.client();
        let work = async {
            let done = carry_out(&changing, records, &mut record, now, |_, _| {}).await;
            let is_in_vain = matches!(done, Err(Unfinished::Step { .. }))
                && !record.has_request_left()
                && !record.has_to_give_back();
            if is_in_vain {
                // It has waited for as long as it may take, and to wait again would be without an end.
                records
                    .close(&mut record, now())
                    .map_err(|error| error.to_string())?;
            }
            done.map_err(|error| error.to_string())
        };
        let ended = turn.during(work).await;
        let verified = match ended {
            Ok(()) => is_over(client, now, record.code, &record.subject).await,
            // Somebody else was faster, or nothing is left but to wait.
            Err(why) if record.finished.is_some() => Err(why),
            Err(why) => {
                let (first, longest) = PAUSES;
                let length = self
                    .pauses
                    .get(&name)
                    .map_or(first, |pause| (pause.length * 2).min(longest));
                let until = Instant::now() + length;
                self.pauses.insert(name.clone(), Pause { until, length });
                Err(format!("{why}; it goes on in {} s", length.as_secs()))
            }
        };
        let (action, why) = match verified {
            Ok(()) => (RequestAction::RepairDone, String::new()),
            Err(why) => (RequestAction::RepairFailed, why),
        };
        report_to_daemon(layout, action, &name, (BY, &why), now());
    }
}

/// What a cure is done for: the code, the subject, and the objects that it is for, by their UID.
fn fingerprint(finding: &IncidentFinding, cure: &Cure) -> String {
    let (code, subject) = (finding.code, &finding.subject);
    let all = format!("{code}\n{subject}\n{}", cure.carried_out_for());
    sha256_hex(all.as_bytes())
}

#[cfg(test)]
#[path = "repairs_tests.rs"]
mod tests;

/// What the servers have recorded. A record that cannot be read counts for nothing.
fn attempts(note: Option<&str>) -> Vec<Attempt> {
    note.and_then(|note| serde_json::from_str(note).ok())
        .unwrap_or_default()
}

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
    if let Err(error) = lay_request(layout, &request, "repair") {
        tracing::warn!("{error:#}");
    }
}

/// The flight's entry about a cure.
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
