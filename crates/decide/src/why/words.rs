//! The words of outlets that are not the name of a file, an object or a probe: steps, reason codes, states.

use windrow_model::reasons::{Code, REASONS, Reason};
use windrow_plan::readiness::node::{BUILTIN, ProbeState};

use super::{ExplainedStep, ExplainedWord, why_not_applied};
use crate::{Pace, Phase, PhaseState, ProbeStatus, Status, sentence};

/// The states that outlets show, and their meaning. The first word of each is the spelling of outlets.
const STATES: &[(&[&str], &str)] = &[
    (
        &["Ready"],
        "Every required check passes and every manifest is applied.",
    ),
    (
        &["Degraded"],
        "The node works, and something is wrong that you should fix. It counts as ready for `windrow wait`, for \
         windrow-ready.target and for the exit code.",
    ),
    (
        &[
            "Setting up",
            "SettingUp",
            "Setting up node",
            "Setting up Harvester",
        ],
        "The bootstrap continues: a required check fails and the node was not Ready in this boot, manifests wait, or \
         an upgrade, a drain or a restart explains the failure.",
    ),
    (
        &["Failed"],
        "A required check fails on a node that was Ready in this boot, or Windrow has proved that it will not pass \
         without help. For a file: RKE2 cannot apply it, and tries again every 15 s.",
    ),
    (
        &["Unknown"],
        "Unknown, for one of five reasons: first checks (probe-pending), no role (role-unknown), no answer \
         (probe-unknown, api-unreachable, state-unknown), a refusal (probe-refused), probes off (probe-off, not-probed).",
    ),
    (
        &["first checks running", "checking"],
        "Unknown because Windrow or the node has just started: a check has to give the same answer more than once.",
    ),
    (
        &["role not known", "no role"],
        "Unknown because neither a unit of RKE2 nor its files show whether this node is a server or an agent.",
    ),
    (
        &["cannot be asked", "no answer"],
        "Unknown because something does not answer, or sends an unusable answer.",
    ),
    (
        &["refused"],
        "Unknown because kube-apiserver or a component refuses Windrow's credential (401, 403).",
    ),
    (
        &["probes are off", "probes off"],
        "Unknown because the configuration has switched off the checks.",
    ),
    (&["passing"], "The check was made, and all is well."),
    (
        &["failing"],
        "The check was made, often enough in a row, and something is wrong.",
    ),
    (&["moving"], "The step goes on as usual."),
    (
        &["slow"],
        "The step takes longer than usual, and still moves.",
    ),
    (
        &["stalled"],
        "Windrow has not observed any progress for a while. That proves nothing.",
    ),
    (
        &["stuck"],
        "Windrow has proved that this does not recover without help.",
    ),
    (&["done"], "All requirements of the step are met."),
    (&["current"], "The node is at this step."),
    (
        &["pending"],
        "The step comes later, or the check has not answered often enough yet.",
    ),
    (
        &["held"],
        "Windrow keeps the file from RKE2 by a marker FILE.skip, until its requirements are met.",
    ),
    (
        &["not held", "notHeld"],
        "The file should be held, and its marker cannot be made: RKE2 may apply it too early.",
    ),
    (
        &["released"],
        "Nothing keeps the file from RKE2 any more, and RKE2 has not applied it yet.",
    ),
    (&["applied"], "RKE2 has applied the file as it is now."),
    (
        &["overdue"],
        "The file is held past its deadline: releasing it would do harm, or RKE2 could apply nothing of it, or an annotation asks for the wait.",
    ),
    // Why a file is free.
    (&["free"], "The file never had to wait."),
    (&["met"], "All requirements of the file are met."),
    (
        &["samePass"],
        "Files that RKE2 applies before it in the same pass provide the rest of its requirements.",
    ),
    (
        &["yielded"],
        "The file was released although it still waits: its deadline passed, or it is in a cycle. RKE2 tries, as it would \
         have without Windrow.",
    ),
    (&["byHand"], "A user released the file."),
    (
        &["elsewhere"],
        "RKE2 applied the file although Windrow held it here: another server did, or the marker was missing for a moment.",
    ),
    (&["off"], "Staging is switched off."),
    // The role of a node.
    (&["first-server"], "The server that made the cluster."),
    (
        &["joined-server"],
        "A server that joined the cluster, by its configuration or by promotion.",
    ),
    (&["agent"], "A worker. RKE2 reads no manifests here."),
    (&["witness"], "A server that only keeps etcd's quorum."),
    // Events of webhooks.
    (&["NODE_READY"], "Sent when the node is Ready and was not."),
    (
        &["NODE_DEGRADED"],
        "Sent when the node works and something is wrong that you should fix.",
    ),
    (
        &["NODE_FAILED"],
        "Sent when the node does not work and its bootstrap does not continue.",
    ),
    (
        &["CLUSTER_READY"],
        "Sent once, when the cluster's first server is Ready for the first time.",
    ),
    (
        &["STAGING_BLOCKED"],
        "Sent when a manifest is held beyond its deadline, or RKE2 cannot apply it.",
    ),
    (
        &["NODE_STALLED"],
        "Sent when the boot hangs: nothing has moved for long, or it is stuck.",
    ),
    (
        &["NODE_PHASE"],
        "Sent when the node has come to another step.",
    ),
    (
        &["NODE_SEEN"],
        "Sent once per boot as soon as Windrow runs, regardless of the node's state.",
    ),
];

pub(super) fn all() -> impl Iterator<Item = &'static str> {
    let states = STATES.iter().flat_map(|(words, _)| words.iter().copied());
    let steps = Phase::ALL.iter().map(|step| step.as_str());
    states
        .chain(steps)
        .chain(REASONS.iter().map(|reason| reason.id))
}

/// The step with this name, as it is written in documents or by users.
pub(super) fn step(status: &Status, asked: &str) -> Option<ExplainedStep> {
    let asked = asked.strip_prefix("step ").unwrap_or(asked);
    let mut steps = Phase::ALL.iter().copied();
    let name = steps.find(|step| {
        step.as_str().eq_ignore_ascii_case(asked) || step.title().eq_ignore_ascii_case(asked)
    })?;
    let of_step = |probe: &&ProbeStatus| {
        let rows = BUILTIN.iter().filter(|row| row.name == probe.id.as_str());
        probe.state != ProbeState::Passing && rows.clone().any(|row| row.phase == name)
    };
    let known = status.phases.iter().find(|step| step.name == name);
    Some(ExplainedStep {
        name,
        state: match status.phases.is_empty() {
            // No probe runs.
            true => Some(PhaseState::Unknown),
            false => known.map(|step| step.state),
        },
        probes: status.probes.iter().filter(of_step).cloned().collect(),
    })
}

/// The meaning of a reason code or a state, and where this node shows it.
pub(super) fn word(status: &Status, asked: &str) -> Option<ExplainedWord> {
    let state = STATES.iter().find(|(words, _)| {
        let mut words = words.iter();
        words.any(|word| word.eq_ignore_ascii_case(asked))
    });
    if let Some((words, means)) = state {
        return Some(ExplainedWord {
            word: words[0].to_owned(),
            means: (*means).to_owned(),
            advice: None,
            shown: Some(shown_as_state(status, words)),
        });
    }
    let reason = reason(asked)?;
    Some(ExplainedWord {
        shown: Some(shown_as_code(status, reason.code)),
        ..code(asked)?
    })
}

pub(super) fn code(asked: &str) -> Option<ExplainedWord> {
    let reason = reason(asked)?;
    Some(ExplainedWord {
        word: reason.id.to_owned(),
        means: without_fields(reason.template),
        advice: Some(reason.advice),
        shown: None,
    })
}

fn reason(id: &str) -> Option<&'static Reason> {
    REASONS.iter().find(|reason| reason.id == id)
}

/// Writes each field of a template as a name in angle brackets.
fn without_fields(template: &str) -> String {
    template.replace('{', "<").replace('}', ">")
}

fn shown_as_state(status: &Status, words: &[&str]) -> Vec<String> {
    let word = words[0];
    let staging = &status.staging;
    let mut shown = Vec::new();
    if words.contains(&sentence::word(status)) {
        shown.push(format!("the node: {}", status.reason.message));
    }
    if status.pace.map(word_of_pace) == Some(word) {
        shown.push(format!("the step {}", status.phase.title()));
    }
    let probes = status.probes.iter();
    let probes = probes.filter(|probe| probe.state.as_str().eq_ignore_ascii_case(word));
    shown.extend(probes.map(line_of_probe));
    match word {
        "held" => {
            let files = staging.held.iter();
            shown.extend(files.map(|file| format!("{}: {}", file.file, file.why)));
        }
        "overdue" => {
            let files = staging.held.iter().filter(|file| file.overdue);
            shown.extend(files.map(|file| format!("{}: {}", file.file, file.why)));
        }
        "not held" => {
            let files = staging.not_held.iter();
            shown.extend(files.map(|file| format!("{}: {}", file.file, file.error)));
        }
        "released" => {
            let files = staging.released.iter();
            shown.extend(
                files.map(|file| format!("{}: {}", file.file, why_not_applied(status, file))),
            );
        }
        "applied" => shown.extend(staging.applied.iter().map(|file| file.file.to_string())),
        "Failed" => {
            let files = staging.failed.iter();
            shown.extend(files.map(|file| format!("{}: {}", file.file, file.message)));
        }
        _ => {}
    }
    shown
}

fn word_of_pace(pace: Pace) -> &'static str {
    match pace {
        Pace::Moving => "moving",
        Pace::Slow => "slow",
        Pace::Stalled => "stalled",
        Pace::Stuck => "stuck",
    }
}

fn line_of_probe(probe: &ProbeStatus) -> String {
    match probe.message.as_str() {
        "" => format!("the probe {}", probe.id.as_str()),
        message => format!("the probe {}: {message}", probe.id.as_str()),
    }
}

/// The places where this node has the code now. Its findings are shown separately.
fn shown_as_code(status: &Status, code: Code) -> Vec<String> {
    let staging = &status.staging;
    let mut shown = Vec::new();
    if status.reason.code == code {
        shown.push(format!("the node: {}", status.reason.message));
    }
    let held = staging.held.iter().filter(|file| file.code == code);
    shown.extend(held.map(|file| format!("{} is held: {}", file.file, file.why)));
    let not_held = staging.not_held.iter().filter(|file| file.code == code);
    shown.extend(not_held.map(|file| format!("{} is not held: {}", file.file, file.error)));
    let probes = status.probes.iter();
    let probes = probes.filter(|probe| probe.code == Some(code));
    shown.extend(probes.map(line_of_probe));
    shown
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use windrow_plan::readiness::node::PhaseState;

    use super::*;
    use crate::settings::WebhookEvent;
    use crate::{Cause, NodeRole, UnknownKind};

    fn written<T: Serialize>(all: &[T]) -> Vec<String> {
        let text = |one: &T| {
            serde_json::to_value(one)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned()
        };
        all.iter().map(text).collect()
    }

    #[test]
    fn every_word_of_a_fixed_set_that_an_outlet_shows_is_explained() {
        let mut shown = written(&WebhookEvent::ALL);
        shown.extend(written(&[
            Cause::Free,
            Cause::Met,
            Cause::SamePass,
            Cause::Yielded,
            Cause::ByHand,
            Cause::Escaped,
            Cause::Elsewhere,
            Cause::Off,
        ]));
        shown.extend(written(&[
            NodeRole::FirstServer,
            NodeRole::JoinedServer,
            NodeRole::Agent,
            NodeRole::Witness,
            NodeRole::Unknown,
        ]));
        shown.extend(written(&[
            PhaseState::Done,
            PhaseState::Current,
            PhaseState::Unknown,
            PhaseState::Pending,
        ]));
        for kind in [
            UnknownKind::FirstChecks,
            UnknownKind::NoRole,
            UnknownKind::NoAnswer,
            UnknownKind::Refused,
            UnknownKind::ProbesOff,
        ] {
            shown.extend([kind.as_word().to_owned(), kind.to_string()]);
        }
        let known = |word: &String| all().any(|one| one.eq_ignore_ascii_case(word));
        let unexplained: Vec<String> = shown.into_iter().filter(|word| !known(word)).collect();
        assert!(unexplained.is_empty(), "{unexplained:?}");
    }
}
