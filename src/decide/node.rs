//! The node's part of the status: what staging says, put to the node's judgement.

use jiff::Timestamp;

use super::files::Context;
use super::status::{
    HeldFile, Holder, Phase, ProbeStatus, Readiness, StagingStatus, Status, StatusReason,
};
use crate::readiness::node::{self, Manifests, NodeMemory, NodeSeen, Question};
use crate::reasons::Code;

/// What staging alone says.
pub(super) type Staged = (Readiness, Phase, StatusReason);

/// Rewrites a status that staging alone has made into that of a probed node. What is to be
/// remembered, and when time alone may change the judgement.
pub(super) fn judge(
    status: &mut Status,
    seen: &NodeSeen,
    memory: &NodeMemory,
    context: &Context<'_>,
) -> (NodeMemory, Option<Timestamp>) {
    let manifests = manifests(status, seen, context);
    let judged = node::judge(&Question {
        seen,
        platform: context.plan.platform,
        memory,
        manifests: &manifests,
        now: context.now,
    });
    status.readiness = judged.readiness;
    status.phase = judged.phase;
    status.reason = StatusReason {
        code: judged.code,
        message: judged.message,
    };
    status.role = seen.role;
    status.phases = judged.phases;
    status.pace = judged.pace;
    status.transition = judged.transition;
    status.probes = probes(seen, &judged.memory, context.now);
    (judged.memory, judged.next_wake)
}

fn probes(seen: &NodeSeen, memory: &NodeMemory, now: Timestamp) -> Vec<ProbeStatus> {
    node::listed(seen, memory)
        .map(|track| {
            let (state, message, code) = node::as_of(track, now);
            ProbeStatus {
                id: track.spec.id.clone(),
                state,
                severity: track.spec.severity,
                since: track.since,
                message,
                code,
            }
        })
        .collect()
}

/// What staging says, in the judgement's words. Where RKE2 reads no manifests there is nothing to
/// wait for: a file in the directory of an agent is for the day on which it is promoted.
fn manifests(status: &Status, seen: &NodeSeen, context: &Context<'_>) -> Manifests {
    let staging = &status.staging;
    if !seen.role.applies_manifests() {
        return Manifests::Settled { total: 0 };
    }
    let total = staging.total;
    if staging.settled {
        return Manifests::Settled { total };
    }
    let (code, message) = (status.reason.code, status.reason.message.clone());
    match status.readiness {
        Readiness::Unknown => Manifests::Unknown {
            code,
            message,
            total,
        },
        _ => Manifests::Waiting {
            code,
            message,
            done: done(staging),
            total,
            stuck: staging.held.iter().any(|held| stuck(held, context)),
            moved: moved(staging, context.observation.started),
        },
    }
}

/// A hold that nothing but a person can end: it stands in a cycle and has no deadline.
fn stuck(held: &HeldFile, context: &Context<'_>) -> bool {
    let in_cycle = || {
        context
            .plan
            .findings
            .iter()
            .filter(|finding| finding.code == Code::RequiredCycle)
            .flat_map(|finding| &finding.at)
            .any(|at| at.file == held.file)
    };
    held.by == Holder::Windrow && held.deadline.is_none() && in_cycle()
}

fn done(staging: &StagingStatus) -> usize {
    let kept = staging
        .held
        .iter()
        .filter(|held| held.code == Code::HeldAppliedOnce)
        .count();
    staging.applied.len() + kept
}

fn moved(staging: &StagingStatus, started: Timestamp) -> Timestamp {
    let held = staging.held.iter().map(|file| file.since);
    let files = staging.released.iter().chain(&staging.applied);
    held.chain(files.map(|file| file.since))
        .chain(staging.failed.iter().map(|file| file.since))
        .fold(started, Timestamp::max)
}
