//! The node's story in the journal: each change of its readiness once, and each probe that changes its state, so that
//! `journalctl -x -u windrow` reads as the story of a bootstrap.
//!
//! The states are already judged, with every answer counted, so nothing flaps here that does not flap there. Everything
//! starts as Unknown and passes through it with a new role, so Unknown is written only when it lasts.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use windrow_decide::{Phase, ProbeStatus, Readiness, Status};
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::{ProbeId, ProbeState};

/// How long the node has to be Unknown before that is written.
const LASTING: SignedDuration = SignedDuration::from_secs(30);

/// A change of readiness or phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessChange {
    /// The change: gives MESSAGE_ID and severity.
    pub code: Code,
    /// The line for people.
    pub message: String,
    /// The readiness now.
    pub readiness: Readiness,
    /// The phase now.
    pub phase: Phase,
    /// Generation of the status document with this change.
    pub generation: u64,
    /// Why.
    pub reason: Code,
}

/// A probe changed its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeChange {
    /// The line for people.
    pub message: String,
    /// Which probe.
    pub probe: ProbeId,
    /// Its state now.
    pub state: ProbeState,
    /// Why; `None` when it passes.
    pub reason: Option<Code>,
}

impl ProbeChange {
    /// Gives MESSAGE_ID and severity.
    pub fn code(&self) -> Code {
        match self.state {
            ProbeState::Passing => Code::ProbePasses,
            ProbeState::Failing | ProbeState::Unknown => Code::ProbeTurned,
        }
    }
}

/// The changes in a status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusChanges {
    /// The node's change of readiness or phase.
    pub node: Option<ReadinessChange>,
    /// The probes that changed.
    pub probes: Vec<ProbeChange>,
}

/// Compares each status with what was reported before.
#[derive(Debug, Default)]
pub struct Transitions {
    reported: Option<(Readiness, Phase)>,
    unknown_since: Option<Timestamp>,
    probes: BTreeMap<ProbeId, ProbeState>,
}

impl Transitions {
    /// Continues where an earlier process of the same boot ended: what it reported is not new.
    pub fn after(earlier: Option<&Status>) -> Self {
        Self {
            reported: earlier.map(|status| (status.readiness, status.phase)),
            unknown_since: None,
            probes: earlier
                .map(|status| states(&status.probes))
                .unwrap_or_default(),
        }
    }

    /// Returns what is new in a status.
    pub fn changes(&mut self, status: &Status, now: Timestamp) -> StatusChanges {
        StatusChanges {
            node: self.node(status, now),
            probes: self.probes(&status.probes),
        }
    }

    /// When there may be a change to report although the status stays the same.
    pub fn due(&self) -> Option<Timestamp> {
        self.unknown_since.map(lasting_from)
    }

    /// The wall clock was set.
    pub fn clock_jumped(&mut self, by: SignedDuration) {
        self.unknown_since = self
            .unknown_since
            .map(|since| since.saturating_add(by).unwrap_or(since));
    }

    fn node(&mut self, status: &Status, now: Timestamp) -> Option<ReadinessChange> {
        let stands = (status.readiness, status.phase);
        let was = self.reported;
        let was_unknown = was.is_some_and(|(readiness, _)| readiness == Readiness::Unknown);
        if status.readiness == Readiness::Unknown && !was_unknown {
            let since = *self.unknown_since.get_or_insert(now);
            if lasting_from(since) > now {
                return None;
            }
        }
        self.unknown_since = None;
        // A change in which part is unknown is no news.
        let same = was == Some(stands) || (was_unknown && stands.0 == Readiness::Unknown);
        if same {
            return None;
        }
        self.reported = Some(stands);
        let code = readiness_code(status.readiness);
        let was = match was {
            Some((readiness, _)) if readiness != status.readiness => {
                format!(" (was {readiness})")
            }
            _ => String::new(),
        };
        let message = code.say(&[
            ("phase", status.phase.title()),
            ("was", &was),
            ("why", &status.reason.message),
        ]);
        Some(ReadinessChange {
            code,
            message,
            readiness: status.readiness,
            phase: status.phase,
            generation: status.generation,
            reason: status.reason.code,
        })
    }

    fn probes(&mut self, probes: &[ProbeStatus]) -> Vec<ProbeChange> {
        // No probes at all: nothing was probed yet. What an earlier process reported stays reported.
        if !probes.is_empty() {
            self.probes
                .retain(|id, _| probes.iter().any(|probe| probe.id == *id));
        }
        let mut turned = Vec::new();
        for probe in probes {
            // Not asked yet, or not often enough: a restart of ours, or a new role. That is no news of the node.
            if probe.code == Some(Code::ProbePending) {
                continue;
            }
            let before = self.probes.insert(probe.id.clone(), probe.state);
            // A new probe is expected to pass.
            let news = before.unwrap_or(ProbeState::Passing) != probe.state;
            if news {
                turned.push(probe_change(probe));
            }
        }
        turned
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
        .filter(|probe| probe.code != Some(Code::ProbePending))
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
