//! One probe's answers, counted: a state changes only after enough answers in a row that contradict it.
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
//! Every probe starts Unknown, and one whose answers stop coming is Unknown again. Failures and unknown answers that alternate end
//! `Passing` too: after `fall` of them the probe is Failing if most of them failed, and else Unknown.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::reasons::Code;

use super::{ProbeOutcome, ProbeResult, ProbeSeverity, ProbeSpec, unanswered};

/// How many different messages of one state are remembered: a new one means that something moved, one
/// seen before does not.
const REMEMBERED: usize = 8;

const NOT_ASKED: &str = "not asked yet";
const NOT_ENOUGH: &str = "first checks running";

/// What a probe's answers amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProbeState {
    /// As it should be.
    Passing,
    /// Not as it should be.
    Failing,
    /// Not known.
    Unknown,
}

impl ProbeState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            ProbeState::Passing => "passing",
            ProbeState::Failing => "failing",
            ProbeState::Unknown => "unknown",
        }
    }
}

/// Answers that are no passes, and of which no kind came often enough in a row.
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

    /// What they amount to after `fall` of them: a failure if most of them failed.
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

/// An answer as a probe shows it.
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

/// A probe and what its answers amount to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Track {
    /// The probe.
    pub spec: ProbeSpec,
    /// Its state.
    pub state: ProbeState,
    /// Since when.
    pub since: Timestamp,
    /// Why it is failing or unknown; empty when it passes.
    pub message: String,
    /// A more exact reason than the probe's own, or than that there is no answer.
    pub code: Option<Code>,
    /// Is it proved that it will not come right by itself?
    pub stuck: bool,
    /// When something about it last moved.
    pub moved: Timestamp,
    /// The answers' kind, and how many in a row there were of it.
    run: (ProbeState, u32),
    /// The answers since the state last was certain.
    #[serde(default, skip_serializing_if = "MixedAnswers::is_empty")]
    mixed: MixedAnswers,
    /// When the last answer came.
    last: Timestamp,
    told: Vec<String>,
}

impl Track {
    /// A probe that was never asked.
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

    /// The same answers under a new description.
    pub(super) fn counted_by(mut self, spec: ProbeSpec) -> Self {
        self.spec = spec;
        self
    }

    /// The reason code of what it says now.
    pub fn code(&self) -> Option<Code> {
        match self.state {
            ProbeState::Passing => None,
            ProbeState::Failing => Some(self.code.unwrap_or(self.spec.code)),
            ProbeState::Unknown if self.spec.off.is_some() => Some(Code::ProbeOff),
            ProbeState::Unknown if self.is_pending() => Some(Code::ProbePending),
            ProbeState::Unknown => Some(self.code.unwrap_or(Code::ProbeUnknown)),
        }
    }

    /// What follows from what it says now. Under an alarm etcd refuses every write of the whole cluster, and no other probe
    /// notices: a dry run writes nothing, and the Nodes stay as they were. So do they without any kube-controller-manager.
    pub fn severity(&self) -> ProbeSeverity {
        match self.code() {
            Some(Code::EtcdAlarm | Code::NoActiveLeader) => ProbeSeverity::Required,
            _ => self.spec.severity,
        }
    }

    /// Is it unknown only because it was not asked often enough yet?
    pub fn is_pending(&self) -> bool {
        self.state == ProbeState::Unknown
            && [NOT_ASKED, NOT_ENOUGH].contains(&self.message.as_str())
    }

    /// Takes an answer in.
    pub fn take(&mut self, result: ProbeResult) {
        let ProbeResult { outcome, at } = result;
        let answer = Answer::from(outcome);
        self.last = at;
        self.run = match self.run {
            (before, count) if before == answer.kind => (answer.kind, count.saturating_add(1)),
            _ => (answer.kind, 1),
        };
        let enough = match answer.kind {
            // A figure that the kernel reports, not an answer that may be lost: the first one counts.
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
        // Failing stays until enough answers of another kind came in a row: two kinds that alternate are no news each time.
        let mixed = self.mixed.amount_to(self.spec.fall);
        let mixed = mixed.filter(|_| self.state != ProbeState::Failing);
        if let Some(mixed) = mixed.cloned() {
            self.settle(mixed, at);
        } else if self.state == answer.kind {
            // A first answer that tells nothing says at least why.
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

    /// When its silence means that it is not known any more.
    pub(super) fn stale_at(&self) -> Timestamp {
        SignedDuration::try_from(self.spec.longest_silence())
            .ok()
            .and_then(|patience| self.last.checked_add(patience).ok())
            .unwrap_or(Timestamp::MAX)
    }

    /// The answers have stopped: what they said is history.
    pub(super) fn is_stale(&self, now: Timestamp) -> bool {
        now >= self.stale_at()
    }

    /// The wall clock was set.
    pub(super) fn clock_jumped(&mut self, by: SignedDuration) {
        for at in [&mut self.since, &mut self.moved, &mut self.last] {
            *at = at.saturating_add(by).unwrap_or(*at);
        }
    }
}
