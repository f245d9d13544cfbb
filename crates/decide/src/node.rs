//! The node's part of the status: its probes are judged together with the verdict of staging.
//!
//! If nothing else is wrong, the line says that the node is cordoned, and reports problems of Windrow itself: users do
//! not look for these on a Ready node. They change neither the readiness nor the code.

use jiff::Timestamp;
use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};
use windrow_plan::readiness::node::{
    self, KnownProblem, Manifests, NodeInputs, NodeMemory, NodeSeen,
};

use super::observation::Observation;
use super::outcome::DecisionContext;
use super::status::{
    HeldFile, Holder, Phase, ProbeStatus, Readiness, StagingStatus, Status, StatusReason,
};

/// The words of `kubectl get nodes` for a cordoned node.
const TAKES_NO_PODS: &str = "takes no pods (SchedulingDisabled)";

pub(super) type StagingVerdict = (Readiness, Phase, StatusReason);

/// Turns a status based only on staging into the status of a probed node. Returns the state to remember, and when the
/// verdict may change even if nothing happens.
pub(super) fn judge(
    status: &mut Status,
    seen: &NodeSeen,
    memory: &NodeMemory,
    context: &DecisionContext<'_>,
) -> (NodeMemory, Option<Timestamp>) {
    let manifests = manifests(status, seen, context);
    let trouble = trouble(seen, context);
    let judged = node::judge(&NodeInputs {
        seen,
        platform: context.plan.platform,
        learned: &context.plan.phases,
        memory,
        manifests: &manifests,
        trouble: trouble.as_ref(),
        now: context.now,
    });
    status.readiness = judged.readiness;
    status.phase = judged.phase;
    status.phase_since = judged.phase_since;
    status.first_ready = judged.first_ready;
    let cordoned = seen.cordoned.then(|| TAKES_NO_PODS.to_owned());
    let remarks: Vec<String> = cordoned.into_iter().chain(own_trouble(context)).collect();
    let remarks = (!remarks.is_empty()).then(|| remarks.join("; "));
    let remarks = remarks.filter(|_| judged.readiness == Readiness::Ready);
    status.reason = StatusReason {
        code: judged.code,
        message: match remarks {
            Some(remarks) => format!("{remarks}; {}", judged.message),
            None => judged.message,
        },
    };
    status.role = seen.role;
    status.phases = judged.phases;
    status.pace = judged.pace;
    status.transition = judged.transition;
    status.vip.clone_from(&seen.vip);
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
                severity: track.severity(),
                phase: Some(track.spec.phase),
                fall: Some(track.spec.fall),
                limit: track.spec.limit.clone(),
                off: track.spec.off.clone(),
                since: track.since,
                message,
                code,
            }
        })
        .collect()
}

/// Problems with Windrow's own configuration and notifications, and the command that shows more.
fn own_trouble(context: &DecisionContext<'_>) -> Option<String> {
    let found = || context.observation.found.values().flatten();
    let count = |codes: &[Code]| found().filter(|one| codes.contains(&one.code)).count();
    let errors = match count(&[Code::ConfigurationInvalid]) {
        0 => None,
        // The last of a long list only counts the rest, and has no location.
        many if found().any(is_rest_of_many) => Some(format!("{}+ errors", many - 1)),
        1 => Some("1 error".to_owned()),
        few => Some(format!("{few} errors")),
    };
    let errors =
        errors.map(|errors| format!("the configuration has {errors} (windrow config check)"));
    let undelivered = match count(&[Code::WebhookFailing, Code::WebhookGivenUp]) {
        0 => None,
        1 => Some("1 webhook is not delivered (windrow status)".to_owned()),
        more => Some(format!(
            "{more} webhooks are not delivered (windrow status)"
        )),
    };
    let parts: Vec<String> = [errors, undelivered].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn is_rest_of_many(finding: &Finding) -> bool {
    finding.code == Code::ConfigurationInvalid && finding.at.is_empty()
}

/// The verdict of staging, as input for the judgement of the node. An agent reads no manifests, so it waits for none:
/// the files in its directory have an effect only if it becomes a server.
fn manifests(status: &Status, seen: &NodeSeen, context: &DecisionContext<'_>) -> Manifests {
    let staging = &status.staging;
    if !seen.role.applies_manifests() {
        return Manifests::Settled {
            total: 0,
            kept: None,
        };
    }
    let total = staging.total;
    if staging.settled {
        return match own_failure(context) {
            None => Manifests::Settled {
                total,
                kept: kept(staging),
            },
            Some(message) => Manifests::Waiting {
                code: Code::ApplyFailed,
                message,
                done: total,
                total,
                moved: moved(staging, context.observation.started),
            },
        };
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
            done: staging.done(),
            total,
            moved: moved(staging, context.observation.started),
        },
    }
}

/// A sentence about the files held on purpose.
fn kept(staging: &StagingStatus) -> Option<String> {
    let by = |held: &HeldFile| match (held.by, held.code) {
        (Holder::Other, _) => "by somebody else",
        (Holder::Windrow, Code::HeldByHand) => "by hand",
        (Holder::Windrow, _) => "on purpose",
    };
    match staging.held.as_slice() {
        [] => None,
        [one] => Some(format!("{} is held {}", one.file, by(one))),
        many => Some(format!("{} manifests are held on purpose", many.len())),
    }
}

/// A changed file that RKE2 cannot apply and Windrow does not stage (RKE2's packaged charts, Rancher's files). A file
/// whose present content was applied, and that fails only when RKE2 applies it again, does not count.
fn own_failure(context: &DecisionContext<'_>) -> Option<String> {
    let Observation {
        addons,
        failures,
        markers,
        ..
    } = context.observation;
    let addons = addons.as_ref()?;
    let files = context.plan.files.iter();
    files
        .filter(|file| file.owner.is_some() && !markers.contains_key(&file.name))
        .filter(|file| {
            addons
                .get(&file.addon)
                .is_none_or(|addon| addon.checksum != file.sha256)
        })
        .find_map(|file| {
            let failure = failures.get(&file.addon)?;
            Some(Code::ApplyFailed.say(&[("file", &file.path), ("why", &failure.in_words())]))
        })
}

/// The first finding with severity error; a full disk comes before all others. If RKE2 reads no manifests, findings
/// about them do no harm.
fn trouble(seen: &NodeSeen, context: &DecisionContext<'_>) -> Option<KnownProblem> {
    let plan = &context.plan.findings;
    let of_plan = plan.iter().filter(|_| seen.role.applies_manifests());
    let found = || context.observation.found.values().flatten();
    let full = found().find(|finding| finding.code == Code::DiskFull);
    full.into_iter()
        .chain(of_plan)
        .chain(found())
        .find(|finding| finding.severity == Severity::Error)
        .map(|finding| KnownProblem {
            code: finding.code,
            message: match finding.at.first() {
                Some(at) => format!("{at}: {}", finding.message),
                None => finding.message.clone(),
            },
        })
}

fn moved(staging: &StagingStatus, started: Timestamp) -> Timestamp {
    let held = staging.held.iter().map(|file| file.since);
    let files = staging.released.iter().chain(&staging.applied);
    held.chain(files.map(|file| file.since))
        .chain(staging.failed.iter().map(|file| file.since))
        .chain(staging.not_held.iter().map(|file| file.since))
        .fold(started, Timestamp::max)
}
