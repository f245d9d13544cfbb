//! Writes the status document, which every outlet shows, from the outcomes of the files.

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::NodeMemory;
use windrow_plan::{FileId, HoldAdvice, PlanFile};

use super::ledger::{Cause, Ledger};
use super::mark::OnFailure;
use super::node::{self, StagingVerdict};
use super::observation::MarkerTrouble;
use super::outcome::{DecisionContext, FileHold, FileOutcome, is_unread, on_purpose};
use super::sentence::published;
use super::status::{
    Blocker, FailedFile, FileStatus, HeldFile, Holder, NotHeldFile, Phase, Readiness,
    StagingStatus, Status, StatusReason,
};

pub(super) struct WrittenStatus {
    pub(super) status: Status,
    /// Input for the next decision.
    pub(super) memory: NodeMemory,
    /// When the document may change although nothing happens.
    pub(super) next_wake: Option<Timestamp>,
    pub(super) late_from: Option<Timestamp>,
}

/// The publisher sets `generation` and `since`. `after` is the ledger after the decision.
pub(super) fn write_status(
    context: &DecisionContext<'_>,
    outcomes: &[FileOutcome],
    after: &Ledger,
) -> WrittenStatus {
    let memory = &context.ledger.node;
    let mut staging = describe_files(context, outcomes, after);
    let troubles = marker_findings(context, &staging);
    let (readiness, phase, reason) = judgement(context, &staging);
    staging.settled = reason.code == Code::NotProbed;
    let mut status = Status {
        platform: context.plan.platform,
        staging,
        findings: findings(context, troubles),
        ..Status::new(readiness, phase, reason, context.now)
    };
    let (memory, next_wake) = match &context.observation.node {
        Some(seen) => node::judge(&mut status, seen, memory, context),
        None => (memory.clone(), None),
    };
    let late = status.staging.released.iter();
    let late = late.filter_map(|one| context.late_from(one.since));
    let late = late.filter(|at| *at > context.now).min();
    let line = published(&status, context.now);
    status.headline = line.headline;
    status.summary = line.summary;
    WrittenStatus {
        status,
        memory,
        next_wake: next_wake.into_iter().chain(line.next).min(),
        late_from: late,
    }
}

fn findings(context: &DecisionContext<'_>, troubles: Vec<Finding>) -> Vec<Finding> {
    let others = context.observation.found.values().flatten();
    let mut findings = troubles;
    findings.extend(context.plan.findings.iter().chain(others).cloned());
    findings
}

/// Findings about markers that could not be created or removed: one for each reason, with all of its files.
fn marker_findings(context: &DecisionContext<'_>, staging: &StagingStatus) -> Vec<Finding> {
    let not_held = staging.not_held.iter();
    let not_held = not_held.map(|file| (Code::NotHeld, &file.file, file.error.as_str()));
    let stays = staging.held.iter().filter_map(|held| {
        match context.observation.marker_troubles.get(&held.file.name()) {
            Some(MarkerTrouble::NotRemoved(error)) if held.code == Code::MarkerStays => {
                Some((Code::MarkerStays, &held.file, error.as_str()))
            }
            _ => None,
        }
    });
    let mut findings: Vec<Finding> = Vec::new();
    for (code, file, error) in not_held.chain(stays) {
        let at = Location::file(file.as_str());
        let same = |known: &&mut Finding| known.code == code && known.message.ends_with(error);
        match findings.iter_mut().find(same) {
            Some(known) => known.at.push(at),
            None => findings.push(Finding {
                code,
                severity: code.severity(),
                message: code.say(&[("error", error)]),
                at: vec![at],
                incident: None,
            }),
        }
    }
    findings
}

/// Adds every file of the plan to the list for its state.
fn describe_files(
    context: &DecisionContext<'_>,
    outcomes: &[FileOutcome],
    after: &Ledger,
) -> StagingStatus {
    let mut staging = StagingStatus {
        api_answers: context.observation.api.answers(),
        ..StagingStatus::default()
    };
    for (id, (file, outcome)) in context.plan.files.iter().zip(outcomes).enumerate() {
        let entry = after.files.get(&file.path);
        let description = FileDescription {
            context,
            id,
            file,
            since: entry.map_or(context.now, |entry| entry.since),
            failed_since: entry.and_then(|entry| entry.reported.failed_since),
        };
        description.enter(outcome, &mut staging);
    }
    staging
}

struct FileDescription<'a> {
    context: &'a DecisionContext<'a>,
    id: FileId,
    file: &'a PlanFile,
    since: Timestamp,
    /// When RKE2 first refused it.
    failed_since: Option<Timestamp>,
}

impl FileDescription<'_> {
    fn enter(&self, outcome: &FileOutcome, staging: &mut StagingStatus) {
        match outcome {
            FileOutcome::NotOurs => return,
            FileOutcome::HeldByOther => {
                let code = Code::HeldByOther;
                let held = self.held(code, code.say(&[]).into(), Holder::Other);
                staging.held.push(held);
            }
            FileOutcome::Hold(hold) => match self.why_marker_is_missing() {
                Some(error) => staging.not_held.push(NotHeldFile {
                    file: self.file.path.clone(),
                    since: self.since,
                    code: hold.code,
                    why: hold.why.to_string(),
                    error: error.to_owned(),
                }),
                None => staging.held.push(self.held_for(hold)),
            },
            FileOutcome::Release(cause) => match self.why_marker_stays() {
                Some((code, why)) => staging.held.push(self.held(code, why, Holder::Windrow)),
                None => match self.failure() {
                    Some(failed) => staging.failed.push(failed),
                    None => staging.released.push(self.released(*cause)),
                },
            },
            FileOutcome::Applied(cause) => match self.why_marker_stays() {
                Some((code, why)) => staging.held.push(self.held(code, why, Holder::Windrow)),
                None => staging.applied.push(self.status(*cause)),
            },
        }
        staging.total += 1;
    }

    /// For a file that is to be held.
    fn why_marker_is_missing(&self) -> Option<&str> {
        let observation = self.context.observation;
        match observation.marker_troubles.get(&self.file.name) {
            Some(MarkerTrouble::NotMade(error)) if !self.is_marked() => Some(error),
            _ => None,
        }
    }

    fn why_marker_stays(&self) -> Option<(Code, SmolStr)> {
        let observation = self.context.observation;
        let code = match observation.marker_troubles.get(&self.file.name) {
            _ if !self.is_marked() => return None,
            Some(MarkerTrouble::NotRemoved(error)) => {
                let code = Code::MarkerStays;
                return Some((code, code.say(&[("error", error)]).into()));
            }
            Some(MarkerTrouble::NotMade(_)) => Code::Provisional,
            None if observation.being_written.contains(&self.file.name) => Code::Provisional,
            None => return None,
        };
        Some((code, code.say(&[]).into()))
    }

    fn is_marked(&self) -> bool {
        let markers = &self.context.observation.markers;
        markers.contains_key(&self.file.name)
    }

    /// Without needs and without a deadline.
    fn held(&self, code: Code, why: SmolStr, by: Holder) -> HeldFile {
        HeldFile {
            file: self.file.path.clone(),
            since: self.since,
            code,
            why,
            by,
            overdue: false,
            harmful: false,
            deadline: None,
            blockers: Vec::new(),
            name_spares_hold: None,
            no_name_spares_hold: None,
        }
    }

    fn held_for(&self, hold: &FileHold) -> HeldFile {
        let now = self.context.now;
        let (spares, none_spares) = match self.context.plan.advise_on_hold(self.id) {
            HoldAdvice::Name(path) => (Some(path), None),
            HoldAdvice::NoName(why) => (None, Some(why.to_owned())),
        };
        let unmet = hold.blockers.iter();
        let mut blockers: Vec<Blocker> = unmet
            .filter_map(|unmet| self.context.blocker(self.file, unmet))
            .collect();
        // The status lives long, and most files have one blocker.
        blockers.shrink_to_fit();
        HeldFile {
            name_spares_hold: spares,
            no_name_spares_hold: none_spares,
            overdue: hold.overdue.is_some_and(|at| at <= now),
            harmful: hold.on_failure == OnFailure::Keep && !on_purpose(hold.code),
            deadline: hold.deadline,
            blockers,
            ..self.held(hold.code, hold.why.clone(), Holder::Windrow)
        }
    }

    /// Only a failure after the release of the present content counts.
    fn failure(&self) -> Option<FailedFile> {
        let failure = self.context.failure_of(self.file)?;
        (failure.at >= self.since).then(|| FailedFile {
            file: self.file.path.clone(),
            since: self.failed_since.unwrap_or(failure.at).max(self.since),
            reason: failure.reason.clone(),
            message: failure.in_words(),
        })
    }

    fn released(&self, cause: Cause) -> FileStatus {
        let mut released = self.status(cause);
        if !released.is_directory() {
            released.late = self.context.why_late(self.file, self.since);
        }
        released
    }

    fn status(&self, cause: Cause) -> FileStatus {
        FileStatus {
            file: self.file.path.clone(),
            since: self.since,
            cause,
            unread: is_unread(self.file),
            relies_on: match cause {
                Cause::SamePass => self.context.met_in_pass(self.file),
                _ => Vec::new(),
            },
            late: None,
        }
    }
}

/// The verdict of staging, without the probes.
fn judgement(context: &DecisionContext<'_>, staging: &StagingStatus) -> StagingVerdict {
    let phase = phase(context, staging);
    let (readiness, reason) = match (unknown(context), unfinished(staging, phase)) {
        // RKE2 may apply it at any time, whatever else is known.
        (_, Some(reason)) if reason.code == Code::NotHeld => (Readiness::SettingUp, reason),
        (Some(reason), _) => (Readiness::Unknown, reason),
        (None, Some(reason)) => (Readiness::SettingUp, reason),
        // This judges only manifests: Ready would be a guess about the rest of the node.
        (None, None) => {
            let code = Code::NotProbed;
            let message = code.say(&[]);
            (Readiness::Unknown, StatusReason { code, message })
        }
    };
    (readiness, phase, reason)
}

fn phase(context: &DecisionContext<'_>, staging: &StagingStatus) -> Phase {
    let comes = |one: &FileStatus| !context.is_overtaken(&one.file) && !one.is_directory();
    let moves = staging.released.iter().any(comes)
        || !staging.failed.is_empty()
        || !staging.not_held.is_empty()
        || staging.held.iter().any(HeldFile::waits);
    match context.observation.api.first_reachable {
        None => Phase::WaitingForApi,
        Some(_) if moves => Phase::Staging,
        Some(_) => Phase::Staged,
    }
}

fn unknown(context: &DecisionContext<'_>) -> Option<StatusReason> {
    if let Some(message) = context.observation.directory_unread.clone() {
        let code = Code::ManifestsUnreadable;
        return Some(StatusReason { code, message });
    }
    let api = &context.observation.api;
    let (code, why) = match &api.unreachable {
        Some(why) if api.refused => (Code::CredentialRefused, why.as_str()),
        Some(why) => (Code::ApiUnreachable, why.as_str()),
        None if api.first_reachable.is_none() => {
            let message = "Windrow has not contacted kube-apiserver yet".to_owned();
            return Some(StatusReason {
                code: Code::ApiUnreachable,
                message,
            });
        }
        None if context.observation.addons.is_none() => {
            (Code::StateUnknown, "RKE2's Addons were not listed yet")
        }
        None => return None,
    };
    let message = code.say(&[("why", why)]);
    Some(StatusReason { code, message })
}

/// The first step that is still to be done; `None` when every file is in its final state.
fn unfinished(staging: &StagingStatus, phase: Phase) -> Option<StatusReason> {
    // This comes first: RKE2 may apply the file too early now, and a hold does no harm.
    if let Some(NotHeldFile { file, error, .. }) = staging.not_held.first() {
        let code = Code::NotHeld;
        let why = code.say(&[("error", error)]);
        return Some(StatusReason {
            code,
            message: match staging.not_held.len() - 1 {
                0 => format!("{file} {why}"),
                more => format!("{file} {why} (and {more} more not held)"),
            },
        });
    }
    if let Some(failed) = staging.failed.first() {
        let code = Code::ApplyFailed;
        let message = code.say(&[("file", &failed.file), ("why", &failed.message)]);
        return Some(StatusReason { code, message });
    }
    let mut late = staging.released.iter().filter_map(|one| {
        let why = one.late.as_ref()?;
        Some((&one.file, why))
    });
    if let Some((file, why)) = late.next() {
        let code = Code::NotApplied;
        let message = code.say(&[("file", file), ("why", why)]);
        return Some(StatusReason { code, message });
    }
    let waiting = || staging.held.iter().filter(|held| held.waits());
    // The first blocker is the one that no other held file has to provide.
    let root = waiting().min_by_key(|held| {
        let mut blockers = held.blockers.iter();
        blockers.any(|blocker| blocker.brought_by.is_some())
    });
    if let Some(HeldFile {
        file, code, why, ..
    }) = root
    {
        let message = match waiting().count() {
            1 => format!("{file}: {why}"),
            more => format!("{file}: {why} (and {} more held)", more - 1),
        };
        return Some(StatusReason {
            code: *code,
            message,
        });
    }
    (phase == Phase::Staging).then(|| StatusReason {
        code: Code::Staging,
        message: Code::Staging.say(&[
            ("done", &staging.done().to_string()),
            ("count", &staging.total.to_string()),
            ("held", &staging.held.len().to_string()),
        ]),
    })
}
