//! Counts the answers of one probe. A state changes only after enough consecutive answers that contradict it.
//!
//! ```text
//!              rise × passed
//!   Unknown ────────────────> Passing
//!      │ ^                    │    ^
//!      │ │ fall × unknown     │    │ rise × passed
//!      │ └────────────────────┤    │
//!      └──── fall × failed ───┴> Failing ── fall × unknown ──> Unknown
//! ```
//!
//! Every probe starts as Unknown, and becomes Unknown again if its answers stop. Alternating failures and unknown answers end
//! `Passing` too: after `fall` of them the probe is Failing if most of them failed, and otherwise Unknown.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::reasons::Code;

use super::{ProbeOutcome, ProbeResult, ProbeSeverity, ProbeSpec, unanswered};

/// Number of stored messages per state. A new message means progress, a repeated one does not.
const REMEMBERED: usize = 8;

const NOT_ASKED: &str = "not asked yet";
const NOT_ENOUGH: &str = "first checks running";

/// State of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProbeState {
    /// The requirement is met.
    Passing,
    /// The requirement is not met.
    Failing,
    /// Unknown.
    Unknown,
}

impl ProbeState {
    pub fn as_str(self) -> &'static str {
        match self {
            ProbeState::Passing => "passing",
            ProbeState::Failing => "failing",
            ProbeState::Unknown => "unknown",
        }
    }
}

/// Answers that did not pass, without enough consecutive ones of either kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct MixedAnswers {
    failed: u32,
    unknown: u32,
    last_failure: Option<Box<Answer>>,
    last_unknown: Option<Box<Answer>>,
}

impl MixedAnswers {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, answer: &Answer) {
        let (count, last) = match answer.kind {
            ProbeState::Passing => return,
            ProbeState::Failing => (&mut self.failed, &mut self.last_failure),
            ProbeState::Unknown => (&mut self.unknown, &mut self.last_unknown),
        };
        *count = count.saturating_add(1);
        *last = Some(Box::new(answer.clone()));
    }

    /// The result after `fall` of them: a failure if most of them failed.
    fn amount_to(&self, fall: u32) -> Option<&Answer> {
        if self.failed.saturating_add(self.unknown) < fall {
            return None;
        }
        let newest = if self.failed > self.unknown {
            &self.last_failure
        } else {
            &self.last_unknown
        };
        newest.as_deref()
    }
}

/// An answer in the form that a probe shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    kind: ProbeState,
    message: String,
    code: Option<Code>,
    stuck: bool,
}

impl From<ProbeOutcome> for Answer {
    fn from(outcome: ProbeOutcome) -> Self {
        let (kind, message, code, stuck) = match outcome {
            ProbeOutcome::Passed => (ProbeState::Passing, String::new(), None, false),
            ProbeOutcome::Failed { why, code, stuck } => (ProbeState::Failing, why, code, stuck),
            ProbeOutcome::Unknown { asked, why, code } => {
                let message = unanswered::in_words(&asked, &why, code);
                (ProbeState::Unknown, message, code, false)
            }
        };
        Self {
            kind,
            message,
            code,
            stuck,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Track {
    pub spec: ProbeSpec,
    pub state: ProbeState,
    /// Start of the state.
    pub since: Timestamp,
    /// The reason for failing or unknown; empty if it passes.
    pub message: String,
    /// A more exact reason than the probe's own, or than the missing answer.
    pub code: Option<Code>,
    /// Whether it is proved to require a repair.
    pub stuck: bool,
    /// When it last made progress.
    pub moved: Timestamp,
    /// The kind of the last answers, and how many of them were consecutive.
    run: (ProbeState, u32),
    /// The answers since the last certain state.
    #[serde(default, skip_serializing_if = "MixedAnswers::is_empty")]
    mixed: MixedAnswers,
    /// When the last answer arrived.
    last: Timestamp,
    told: Vec<String>,
}

impl Track {
    /// A probe that has never run.
    pub fn new(spec: ProbeSpec, now: Timestamp) -> Self {
        let message = match &spec.off {
            Some(at) => format!("switched off by {at}"),
            None => NOT_ASKED.to_owned(),
        };
        Self {
            spec,
            state: ProbeState::Unknown,
            since: now,
            message,
            code: None,
            stuck: false,
            moved: now,
            run: (ProbeState::Unknown, 0),
            mixed: MixedAnswers::default(),
            last: now,
            told: Vec::new(),
        }
    }

    /// The same answers with new settings.
    pub(super) fn counted_by(mut self, spec: ProbeSpec) -> Self {
        self.spec = spec;
        self
    }

    pub fn code(&self) -> Option<Code> {
        match self.state {
            ProbeState::Passing => None,
            ProbeState::Failing => Some(self.code.unwrap_or(self.spec.code)),
            ProbeState::Unknown if self.spec.off.is_some() => Some(Code::ProbeOff),
            ProbeState::Unknown if self.is_pending() => Some(Code::ProbePending),
            ProbeState::Unknown => Some(self.code.unwrap_or(Code::ProbeUnknown)),
        }
    }

    /// The consequence of the current state. During an alarm etcd rejects all writes of the cluster, which no other probe
    /// notices: a dry run writes nothing, and the Nodes stay unchanged. They also stay unchanged without any
    /// kube-controller-manager.
    pub fn severity(&self) -> ProbeSeverity {
        match self.code() {
            Some(Code::EtcdAlarm | Code::NoActiveLeader) => ProbeSeverity::Required,
            _ => self.spec.severity,
        }
    }

    /// Whether it is unknown only because it has not run often enough yet.
    pub fn is_pending(&self) -> bool {
        self.state == ProbeState::Unknown
            && [NOT_ASKED, NOT_ENOUGH].contains(&self.message.as_str())
    }

    pub fn take(&mut self, result: ProbeResult) {
        let ProbeResult { outcome, at } = result;
        let answer = Answer::from(outcome);
        self.last = at;
        self.run = match self.run {
            (before, count) if before == answer.kind => (answer.kind, count.saturating_add(1)),
            _ => (answer.kind, 1),
        };
        let enough = match answer.kind {
            // The kernel reports this figure, so the answer is reliable and the first one counts.
            ProbeState::Failing if answer.code == Some(Code::DiskFull) => 1,
            ProbeState::Passing => self.spec.rise,
            ProbeState::Failing | ProbeState::Unknown => self.spec.fall,
        };
        if self.run.1 >= enough {
            self.mixed = MixedAnswers::default();
            self.settle(answer, at);
            return;
        }
        if answer.kind == ProbeState::Passing {
            self.mixed = MixedAnswers::default();
        }
        self.mixed.add(&answer);
        // Failing persists until there are enough consecutive answers of another kind, so that two alternating kinds do not cause
        // a change each time.
        let mixed = self.mixed.amount_to(self.spec.fall);
        let mixed = mixed.filter(|_| self.state != ProbeState::Failing);
        if let Some(mixed) = mixed.cloned() {
            self.settle(mixed, at);
        } else if self.state == answer.kind {
            // A first answer without a result at least has a reason.
            self.settle(answer, at);
        } else if self.message == NOT_ASKED {
            NOT_ENOUGH.clone_into(&mut self.message);
        }
    }

    fn settle(&mut self, answer: Answer, at: Timestamp) {
        let Answer {
            kind,
            message,
            code,
            stuck,
        } = answer;
        if self.state != kind {
            self.state = kind;
            self.since = at;
            self.moved = at;
            self.told.clear();
        }
        if !message.is_empty() && !self.told.contains(&message) && self.told.len() < REMEMBERED {
            self.told.push(message.clone());
            self.moved = at;
        }
        self.message = message;
        self.code = code;
        self.stuck = stuck;
    }

    /// When its last answer becomes invalid without a new one.
    pub(super) fn stale_at(&self) -> Timestamp {
        SignedDuration::try_from(self.spec.longest_silence())
            .ok()
            .and_then(|patience| self.last.checked_add(patience).ok())
            .unwrap_or(Timestamp::MAX)
    }

    /// Whether its answers have stopped, so that the last one is outdated.
    pub(super) fn is_stale(&self, now: Timestamp) -> bool {
        now >= self.stale_at()
    }

    /// Adjusts all times after the wall clock was set.
    pub(super) fn clock_jumped(&mut self, by: SignedDuration) {
        for at in [&mut self.since, &mut self.moved, &mut self.last] {
            *at = at.saturating_add(by).unwrap_or(*at);
        }
    }
}
