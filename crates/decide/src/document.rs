//! Writes the status document, which every outlet shows, from the outcomes of the files.

use jiff::Timestamp;
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::NodeMemory;
use windrow_plan::rules::Location;
use windrow_plan::{Finding, PlanFile};

use super::ledger::Ledger;
use super::node::{self, StagingVerdict};
use super::observation::MarkerTrouble;
use super::outcome::{DecisionContext, FileOutcome, on_purpose};
use super::status::{
    FailedFile, FileStatus, HeldFile, Holder, NotHeldFile, Phase, Readiness, Role, StagingStatus,
    Status, StatusReason, Versions,
};
use super::text::shorten;

/// Longest summary: the console's row.
const SUMMARY_CHARS: usize = 65;

/// A status document, and what goes with it.
pub(super) struct WrittenStatus {
    pub(super) status: Status,
    /// What has to be remembered of the node.
    pub(super) memory: NodeMemory,
    /// When time alone may change the document.
    pub(super) next_wake: Option<Timestamp>,
}

/// Writes the status document. The publisher sets `generation` and `since`. `after` is the ledger after
/// the decision.
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
        api_version: "windrow.dev/v1".to_owned(),
        kind: "Status".to_owned(),
        generation: 0,
        readiness,
        phase,
        since: context.now,
        summary: String::new(),
        reason,
        platform: context.plan.platform,
        role: Role::Unknown,
        phases: Vec::new(),
        pace: None,
        transition: None,
        vip: None,
        staging,
        probes: Vec::new(),
        findings: findings(context, troubles),
        gates: None,
        webhooks: Vec::new(),
        versions: Versions {
            windrow: env!("CARGO_PKG_VERSION").to_owned(),
        },
        writer: None,
    };
    let (memory, next_wake) = match &context.observation.node {
        Some(seen) => node::judge(&mut status, seen, memory, context),
        None => (memory.clone(), None),
    };
    status.summary = shorten(&status.reason.message, SUMMARY_CHARS);
    WrittenStatus {
        status,
        memory,
        next_wake,
    }
}

fn findings(context: &DecisionContext<'_>, troubles: Vec<Finding>) -> Vec<Finding> {
    let others = context.observation.found.values().flatten();
    let mut findings = troubles;
    findings.extend(context.plan.findings.iter().chain(others).cloned());
    findings
}

/// Findings about markers that could not be made or removed: one for each reason, with all of its files.
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

fn describe_files(
    context: &DecisionContext<'_>,
    outcomes: &[FileOutcome],
    after: &Ledger,
) -> StagingStatus {
    let mut staging = StagingStatus::default();
    for (file, outcome) in context.plan.files.iter().zip(outcomes) {
        let entry = after.files.get(&file.path);
        let since = entry.map_or(context.now, |entry| entry.since);
        let path = file.path.clone();
        let marked = context.observation.markers.contains_key(&file.name);
        let trouble = context.observation.marker_troubles.get(&file.name);
        let written = context.observation.being_written.contains(&file.name);
        match (outcome, trouble) {
            (FileOutcome::Hold(hold), Some(MarkerTrouble::NotMade(error))) if !marked => {
                staging.not_held.push(NotHeldFile {
                    file: path,
                    since,
                    code: hold.code,
                    why: hold.why.to_string(),
                    error: error.clone(),
                });
                staging.total += 1;
                continue;
            }
            (FileOutcome::Release(_) | FileOutcome::Applied(_), trouble)
                if marked && (written || trouble.is_some()) =>
            {
                let (code, why) = match trouble {
                    Some(MarkerTrouble::NotRemoved(error)) => {
                        let code = Code::MarkerStays;
                        (code, code.say(&[("error", error)]))
                    }
                    Some(MarkerTrouble::NotMade(_)) | None => {
                        (Code::Provisional, Code::Provisional.say(&[]))
                    }
                };
                staging.held.push(HeldFile {
                    file: path,
                    since,
                    code,
                    why,
                    by: Holder::Windrow,
                    overdue: false,
                    deadline: None,
                    blockers: Vec::new(),
                });
                staging.total += 1;
                continue;
            }
            _ => {}
        }
        match outcome {
            FileOutcome::NotOurs => continue,
            FileOutcome::HeldByOther => staging.held.push(HeldFile {
                file: path,
                since,
                code: Code::HeldByOther,
                why: Code::HeldByOther.say(&[]),
                by: Holder::Other,
                overdue: false,
                deadline: None,
                blockers: Vec::new(),
            }),
            FileOutcome::Hold(hold) => {
                let blockers = hold.blockers.iter();
                staging.held.push(HeldFile {
                    file: path,
                    since,
                    code: hold.code,
                    why: hold.why.to_string(),
                    by: Holder::Windrow,
                    overdue: hold.overdue.is_some_and(|at| at <= context.now),
                    deadline: hold.deadline,
                    blockers: blockers
                        .filter_map(|unmet| context.blocker(file, unmet))
                        .collect(),
                });
            }
            FileOutcome::Release(cause) => match failure(context, file, since) {
                Some((reason, message)) => staging.failed.push(FailedFile {
                    file: path,
                    since,
                    reason,
                    message,
                }),
                None => staging.released.push(FileStatus {
                    file: path,
                    since,
                    cause: *cause,
                }),
            },
            FileOutcome::Applied(cause) => staging.applied.push(FileStatus {
                file: path,
                since,
                cause: *cause,
            }),
        }
        staging.total += 1;
    }
    staging
}

/// RKE2's failure to apply a file, when it came after the release of what is there now.
fn failure(
    context: &DecisionContext<'_>,
    file: &PlanFile,
    released: Timestamp,
) -> Option<(String, String)> {
    let failure = context.observation.failures.get(&file.addon)?;
    (failure.at >= released).then(|| (failure.reason.clone(), failure.message.clone()))
}

/// What staging alone says of the node.
fn judgement(context: &DecisionContext<'_>, staging: &StagingStatus) -> StagingVerdict {
    let waiting = |held: &&HeldFile| held.by == Holder::Windrow && !on_purpose(held.code);
    let waits = staging.held.iter().filter(waiting).count();
    let done = staging.applied.len()
        + staging
            .held
            .iter()
            .filter(|held| held.code == Code::HeldAppliedOnce)
            .count();
    let api = &context.observation.api;
    let phase = if api.first_reachable.is_none() {
        Phase::WaitingForApi
    } else if waits + staging.released.len() + staging.failed.len() + staging.not_held.len() > 0 {
        Phase::Staging
    } else {
        Phase::Staged
    };
    let reason = |code: Code, message: String| StatusReason { code, message };
    let unknown = |message: String| {
        (
            Readiness::Unknown,
            phase,
            reason(Code::ApiUnreachable, message),
        )
    };
    if let Some(why) = &api.unreachable {
        return unknown(Code::ApiUnreachable.say(&[("why", why)]));
    }
    if api.first_reachable.is_none() {
        return unknown(Code::ApiUnreachable.say(&[("why", "it was not asked yet")]));
    }
    if context.observation.addons.is_none() {
        return (
            Readiness::Unknown,
            phase,
            reason(
                Code::StateUnknown,
                Code::StateUnknown.say(&[("why", "RKE2's Addons were not listed yet")]),
            ),
        );
    }
    if let Some(failed) = staging.failed.first() {
        let message = Code::ApplyFailed.say(&[("file", &failed.file), ("why", &failed.message)]);
        return (
            Readiness::SettingUp,
            phase,
            reason(Code::ApplyFailed, message),
        );
    }
    // The first blocker is the one that no other held file has to bring.
    let root = staging.held.iter().filter(waiting).min_by_key(|held| {
        held.blockers
            .iter()
            .any(|blocker| blocker.brought_by.is_some())
    });
    if let Some(held) = root {
        let rest = match waits {
            1 => String::new(),
            more => format!(" (and {} more held)", more - 1),
        };
        return (
            Readiness::SettingUp,
            phase,
            reason(held.code, format!("{}: {}{rest}", held.file, held.why)),
        );
    }
    if let Some(file) = staging.not_held.first() {
        let message = format!("{}: {}", file.file, file.why);
        return (Readiness::SettingUp, phase, reason(file.code, message));
    }
    if phase == Phase::Staging {
        let message = Code::Staging.say(&[
            ("done", &done.to_string()),
            ("count", &staging.total.to_string()),
            ("held", &staging.held.len().to_string()),
        ]);
        return (Readiness::SettingUp, phase, reason(Code::Staging, message));
    }
    // Manifests are all that this judges: saying Ready would be a guess about the rest of the node.
    (
        Readiness::Unknown,
        phase,
        reason(Code::NotProbed, Code::NotProbed.say(&[])),
    )
}
