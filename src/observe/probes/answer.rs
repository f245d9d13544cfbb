//! The result of asking a probe.

use windrow_plan::readiness::node::{NodeEvent, ProbeOutcome};

/// A probe's answer, and further events that it found.
pub(super) struct ProbeAnswer {
    pub(super) outcome: ProbeOutcome,
    pub(super) events: Vec<NodeEvent>,
}

impl From<ProbeOutcome> for ProbeAnswer {
    fn from(outcome: ProbeOutcome) -> Self {
        Self {
            outcome,
            events: Vec::new(),
        }
    }
}
