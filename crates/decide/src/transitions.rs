//! The node's history in the journal: every change of its readiness, and every probe that changes its state, once each.
//! So `journalctl -x -u windrow` shows the bootstrap step by step.
//!
//! The states are already judged, with every answer counted, so nothing flaps here that does not flap there. Everything
//! starts as Unknown and becomes Unknown again with a new role, and the requirements of a new manifest are unknown at
//! first. So both are written only if they last.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::{ProbeId, ProbeState};

use crate::sentence::{expected_time, word, word_inside};
use crate::{Pace, Phase, ProbeStatus, Readiness, Status};

/// How long something has to be unknown before that is written.
const LASTING: SignedDuration = SignedDuration::from_secs(30);

/// Reasons to report even if the step has not changed: the rest of the step waits for their cause, or their cause fails
/// again and again.
const BREAKAGES: [Code; 4] = [
    Code::DiskFull,
    Code::RkeServiceDown,
    Code::RkeCrashLoop,
    Code::ApplyFailed,
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessChange {
    /// Determines MESSAGE_ID and severity.
    pub code: Code,
    pub message: String,
    pub readiness: Readiness,
    pub phase: Phase,
    /// Generation of the status document with this change.
    pub generation: u64,
    pub reason: Code,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeChange {
    pub message: String,
    pub probe: ProbeId,
    pub state: ProbeState,
    /// `None` if it passes.
    pub reason: Option<Code>,
}

impl ProbeChange {
    /// Determines MESSAGE_ID and severity.
    pub fn code(&self) -> Code {
        match self.state {
            ProbeState::Passing => Code::ProbePasses,
            ProbeState::Failing | ProbeState::Unknown => Code::ProbeTurned,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusChanges {
    pub node: Option<ReadinessChange>,
    /// Its boot hangs, or moves again.
    pub boot: Option<ReadinessChange>,
    pub probes: Vec<ProbeChange>,
}

/// The state of the node when it was reported.
#[derive(Debug, Clone, Copy)]
struct Reported {
    readiness: Readiness,
    phase: Phase,
    /// The readiness as the user reads it.
    word: &'static str,
}

impl Reported {
    fn of(status: &Status) -> Self {
        Self {
            readiness: status.readiness,
            // At the start, staging knows its phase before the node is probed: both mean the manifests.
            phase: match status.phase {
                Phase::Staging => Phase::Manifests,
                phase => phase,
            },
            word: word_inside(status),
        }
    }
}

/// Compares each status with the reported ones.
#[derive(Debug, Default)]
pub struct Transitions {
    reported: Option<Reported>,
    /// The reasons that were reported with it. A repeated reason is not news: two may alternate.
    reasons: Vec<Code>,
    unknown_since: Option<Timestamp>,
    /// The reported pace of a hanging boot. A new process starts without one: it has to wait as long again.
    hangs: Option<Pace>,
    probes: BTreeMap<ProbeId, ProbeState>,
}

impl Transitions {
    /// Continues for an earlier process of the same boot: its reports are not repeated.
    pub fn after(earlier: Option<&Status>) -> Self {
        Self {
            reported: earlier.map(Reported::of),
            reasons: earlier
                .map(|status| vec![status.reason.code])
                .unwrap_or_default(),
            unknown_since: None,
            hangs: None,
            probes: earlier
                .map(|status| states(&status.probes))
                .unwrap_or_default(),
        }
    }

    pub fn changes(&mut self, status: &Status, now: Timestamp) -> StatusChanges {
        StatusChanges {
            node: self.node(status, now),
            boot: self.boot(status),
            probes: self.probes(&status.probes),
        }
    }

    /// When there may be a change to report although the status stays the same.
    pub fn due(&self) -> Option<Timestamp> {
        self.unknown_since.map(lasting_from)
    }

    pub fn clock_jumped(&mut self, by: SignedDuration) {
        self.unknown_since = self
            .unknown_since
            .map(|since| since.saturating_add(by).unwrap_or(since));
    }

    fn node(&mut self, status: &Status, now: Timestamp) -> Option<ReadinessChange> {
        let stands = Reported::of(status);
        let was = self.reported;
        let was_unknown = was.is_some_and(|was| was.readiness == Readiness::Unknown);
        // A change of the phase in which something is unknown is not news.
        let still = |was: Reported| (was.readiness, was.phase) == (stands.readiness, stands.phase);
        let same =
            was.is_some_and(still) || (was_unknown && stands.readiness == Readiness::Unknown);
        let reason = status.reason.code;
        if same && !self.is_worse_news(stands.readiness, reason) {
            self.unknown_since = None;
            return None;
        }
        // The requirements of a new manifest are known as soon as kube-apiserver has answered.
        if stands.readiness == Readiness::Unknown || reason == Code::WaitsForCluster {
            let since = *self.unknown_since.get_or_insert(now);
            if lasting_from(since) > now {
                return None;
            }
        }
        self.unknown_since = None;
        if !same {
            self.reasons.clear();
        }
        self.reasons.push(reason);
        self.reported = Some(stands);
        let code = readiness_code(status.readiness);
        let was = match was {
            Some(was) if was.readiness != status.readiness => format!(" (was {})", was.word),
            _ => String::new(),
        };
        let message = code.say(&[
            ("phase", status.phase.title()),
            ("word", word(status)),
            ("was", &was),
            ("why", &status.reason.message),
        ]);
        Some(change(code, message, status))
    }

    /// Did something break in a step that was only slow until now?
    fn is_worse_news(&self, readiness: Readiness, reason: Code) -> bool {
        readiness != Readiness::Unknown
            && BREAKAGES.contains(&reason)
            && !self.reasons.contains(&reason)
    }

    /// A hanging boot is reported once, and once more when it continues.
    fn boot(&mut self, status: &Status) -> Option<ReadinessChange> {
        let hangs = status.hangs();
        let was = std::mem::replace(&mut self.hangs, hangs);
        let code = match hangs {
            _ if hangs == was => return None,
            Some(Pace::Stuck) => Code::BootStuck,
            Some(_) => Code::BootStalled,
            // The change to Ready is reported separately.
            None if status.first_ready.is_some() => return None,
            None => Code::BootMoves,
        };
        let expected =
            expected_time(status).unwrap_or_else(|| "its usual time is unknown".to_owned());
        let message = code.say(&[
            ("phase", status.phase.title()),
            ("expected", &expected),
            ("why", &status.reason.message),
        ]);
        Some(change(code, message, status))
    }

    fn probes(&mut self, probes: &[ProbeStatus]) -> Vec<ProbeChange> {
        // Without any probes, nothing was probed yet. Reports of an earlier process stay reported.
        if !probes.is_empty() {
            self.probes
                .retain(|id, _| probes.iter().any(|probe| probe.id == *id));
        }
        let mut turned = Vec::new();
        for probe in probes {
            // Not probed yet, or not often enough: after a restart of Windrow, or with a new role. That is not news
            // about the node.
            if probe.code == Some(Code::ProbePending) {
                continue;
            }
            let before = self.probes.get(&probe.id).copied();
            // Many probes cannot run yet at the start of a boot; the node's own line reports it if it lasts.
            if before.is_none() && probe.state == ProbeState::Unknown {
                continue;
            }
            self.probes.insert(probe.id.clone(), probe.state);
            // A new probe is expected to pass.
            let news = before.unwrap_or(ProbeState::Passing) != probe.state;
            if news {
                turned.push(probe_change(probe));
            }
        }
        turned
    }
}

fn change(code: Code, message: String, status: &Status) -> ReadinessChange {
    ReadinessChange {
        code,
        message,
        readiness: status.readiness,
        phase: status.phase,
        generation: status.generation,
        reason: status.reason.code,
    }
}

fn probe_change(probe: &ProbeStatus) -> ProbeChange {
    let name = probe.id.as_str();
    let message = match probe.state {
        ProbeState::Passing => Code::ProbePasses.say(&[("probe", name)]),
        state => Code::ProbeTurned.say(&[
            ("probe", name),
            ("state", state.as_str()),
            ("why", &probe.message),
        ]),
    };
    ProbeChange {
        message,
        probe: probe.id.clone(),
        state: probe.state,
        reason: probe.code,
    }
}

fn states(probes: &[ProbeStatus]) -> BTreeMap<ProbeId, ProbeState> {
    probes
        .iter()
        .filter(|probe| probe.state != ProbeState::Unknown)
        .map(|probe| (probe.id.clone(), probe.state))
        .collect()
}

fn lasting_from(since: Timestamp) -> Timestamp {
    since.saturating_add(LASTING).unwrap_or(Timestamp::MAX)
}

fn readiness_code(readiness: Readiness) -> Code {
    match readiness {
        Readiness::Ready => Code::BecameReady,
        Readiness::SettingUp => Code::BecameSettingUp,
        Readiness::Degraded => Code::BecameDegraded,
        Readiness::Failed => Code::BecameFailed,
        Readiness::Unknown => Code::BecameUnknown,
    }
}

#[cfg(test)]
mod tests;
