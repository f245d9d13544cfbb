//! Judges whether the node is ready: probe results are the input, a judgement with its reason is the output.
//!
//! ```text
//!   results ──> Track (rise / fall, per probe) ──┐
//!   role, transitions ───────────────────────────┼─> judge ──> readiness, phase, reason, pace
//!   manifests, findings ─────────────────────────┘
//! ```
//!
//! It distinguishes three cases that a console tends to mix: an observed failure, a check without an answer, and a normal start.
//! A refused request is `Unknown` with the request as its reason, never "not ready". Everything starts as Unknown. Pure: no
//! clock, no I/O; times are arguments.

mod custom;
mod judge;
mod phase;
mod phase_defaults;
mod phase_times;
mod probe;
mod progress;
mod seen;
mod table;
#[cfg(test)]
mod tests;
mod track;
mod tuning;
mod unanswered;

pub use custom::{
    CustomProbe, CustomQuestion, FileQuestion, HttpQuestion, ObjectQuestion, custom_specs,
};
pub use judge::{
    KnownProblem, Manifests, NodeInputs, NodeJudgement, NodeMemory, as_of, judge, listed,
};
pub use phase::{Phase, PhaseState, PhaseStatus};
pub use phase_defaults::default_source;
pub use phase_times::{
    BootTimes, EarlierBoot, ExpectationSource, PhaseExpectation, PhaseTime, UsualTime, median,
};
pub use probe::{ProbeId, ProbeOutcome, ProbeResult, ProbeSeverity, ProbeSpec};
pub use progress::Pace;
pub use seen::{
    NodeEvent, NodeRole, NodeSeen, Transition, TransitionScope, TransitionSeen, TransitionSign,
    Vip, VipMode,
};
pub use table::{BUILTIN, Builtin, builtin, question_of, specs};
pub use track::{ProbeState, Track};
pub use tuning::{ProbeLimit, ProbeTuning, limit_of, tuned_specs};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Readiness of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Readiness {
    /// All functions of the node work.
    Ready,
    /// The node is starting.
    SettingUp,
    /// The node works, but with a problem.
    Degraded,
    /// The node does not work and is not starting: it lost a requirement after it was Ready, or it is proved to need a repair.
    Failed,
    /// Unknown.
    Unknown,
}

impl Readiness {
    /// The name in documents and in fields of the journal. Texts for users use other words: `windrow_decide::sentence::word`.
    pub fn as_str(self) -> &'static str {
        match self {
            Readiness::Ready => "Ready",
            Readiness::SettingUp => "SettingUp",
            Readiness::Degraded => "Degraded",
            Readiness::Failed => "Failed",
            Readiness::Unknown => "Unknown",
        }
    }
}
