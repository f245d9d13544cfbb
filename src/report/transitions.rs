//! What the journal says of the node: each change of its readiness once, and each probe that changes
//! its state, so that `journalctl -x -u windrow` reads as the story of a bootstrap.
//!
//! What is told is the judged state, in which every answer was counted already: nothing flaps here
//! that does not flap there. Unknown is where everything starts, and what a new role passes through:
//! it is told when it lasts.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use windrow_decide::{Phase, ProbeStatus, Readiness, Status};
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::{ProbeId, ProbeState};

/// So long the node has to be Unknown before that is news.
const LASTING: SignedDuration = SignedDuration::from_secs(30);

/// The node changed where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stood {
    /// The change: gives MESSAGE_ID and severity.
    pub code: Code,
    /// The line for people.
    pub message: String,
    /// Where it stands now.
    pub readiness: Readiness,
    /// In which phase.
    pub phase: Phase,
    /// Generation of the status document that says so.
    pub generation: u64,
    /// Why.
    pub reason: Code,
}

/// A probe changed its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turned {
    /// The line for people.
    pub message: String,
    /// Which probe.
    pub probe: ProbeId,
    /// Its state now.
    pub state: ProbeState,
    /// Why; `None` when it passes.
    pub reason: Option<Code>,
}

impl Turned {
    /// Gives MESSAGE_ID and severity.
    pub fn code(&self) -> Code {
        match self.state {
            ProbeState::Passing => Code::ProbePasses,
            ProbeState::Failing | ProbeState::Unknown => Code::ProbeTurned,
        }
    }
}

/// What is to be told of a status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct News {
    /// The node, if it changed where it stands.
    pub node: Option<Stood>,
    /// Its probes.
    pub probes: Vec<Turned>,
}

/// Compares each status with what was told before.
#[derive(Debug, Default)]
pub struct Transitions {
    told: Option<(Readiness, Phase)>,
    unknown_since: Option<Timestamp>,
    probes: BTreeMap<ProbeId, ProbeState>,
}

impl Transitions {
    /// Goes on where an earlier process of the same boot left off: what it told is no news.
    pub fn after(earlier: Option<&Status>) -> Self {
        Self {
            told: earlier.map(|status| (status.readiness, status.phase)),
            unknown_since: None,
            probes: earlier
                .map(|status| states(&status.probes))
                .unwrap_or_default(),
        }
    }

    /// What is new in a status.
    pub fn news(&mut self, status: &Status, now: Timestamp) -> News {
        News {
            node: self.node(status, now),
            probes: self.probes(&status.probes),
        }
    }

    /// When there may be news though the status does not change.
    pub fn due(&self) -> Option<Timestamp> {
        self.unknown_since.map(ends)
    }

    /// The wall clock was set.
    pub fn clock_jumped(&mut self, by: SignedDuration) {
        self.unknown_since = self
            .unknown_since
            .map(|since| since.saturating_add(by).unwrap_or(since));
    }

    fn node(&mut self, status: &Status, now: Timestamp) -> Option<Stood> {
        let stands = (status.readiness, status.phase);
        let was = self.told;
        let was_unknown = was.is_some_and(|(readiness, _)| readiness == Readiness::Unknown);
        if status.readiness == Readiness::Unknown && !was_unknown {
            let since = *self.unknown_since.get_or_insert(now);
            if ends(since) > now {
                return None;
            }
        }
        self.unknown_since = None;
        // Which part of it is not known is no change of what is known.
        let same = was == Some(stands) || (was_unknown && stands.0 == Readiness::Unknown);
        if same {
            return None;
        }
        self.told = Some(stands);
        let code = code_of(status.readiness);
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
        Some(Stood {
            code,
            message,
            readiness: status.readiness,
            phase: status.phase,
            generation: status.generation,
            reason: status.reason.code,
        })
    }

    fn probes(&mut self, probes: &[ProbeStatus]) -> Vec<Turned> {
        // None at all: not probed yet. What an earlier process told stays told.
        if !probes.is_empty() {
            self.probes
                .retain(|id, _| probes.iter().any(|probe| probe.id == *id));
        }
        let mut turned = Vec::new();
        for probe in probes {
            // Not asked yet, or not often enough: a restart of ours, a new role. No news of the node.
            if probe.code == Some(Code::ProbePending) {
                continue;
            }
            let before = self.probes.insert(probe.id.clone(), probe.state);
            // That all is well is what is expected of a new one.
            let news = before.unwrap_or(ProbeState::Passing) != probe.state;
            if news {
                turned.push(told(probe));
            }
        }
        turned
    }
}

fn told(probe: &ProbeStatus) -> Turned {
    let name = probe.id.as_str();
    let message = match probe.state {
        ProbeState::Passing => Code::ProbePasses.say(&[("probe", name)]),
        state => Code::ProbeTurned.say(&[
            ("probe", name),
            ("state", state.as_str()),
            ("why", &probe.message),
        ]),
    };
    Turned {
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

fn ends(since: Timestamp) -> Timestamp {
    since.saturating_add(LASTING).unwrap_or(Timestamp::MAX)
}

fn code_of(readiness: Readiness) -> Code {
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
