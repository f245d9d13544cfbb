//! Is the node ready? Probe results come in, a judgement with its reason goes out.
//!
//! ```text
//!   results ──> Track (rise / fall, per probe) ──┐
//!   role, transitions ───────────────────────────┼─> judge ──> readiness, phase, reason, pace
//!   manifests, findings ─────────────────────────┘
//! ```
//!
//! Three things are kept apart that a console tends to mix: what was seen to fail, what could not be
//! asked, and what is merely on its way. A refused request is `Unknown` with what was asked, never
//! "not ready"; everything starts Unknown. Pure: no clock, no I/O; times are passed in.

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
    /// Everything that the node is for works.
    Ready,
    /// On its way.
    SettingUp,
    /// It works, and something is wrong.
    Degraded,
    /// It does not work and is not on its way: it lost what it needs after it was Ready, or it is
    /// proved that it will not get there by itself.
    Failed,
    /// Not known.
    Unknown,
}

impl Readiness {
    /// Its name in documents and in the journal's fields. What people read has other words: `windrow_decide::sentence::word`.
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
