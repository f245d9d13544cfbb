//! The result of asking a probe.

use windrow_plan::readiness::node::{NodeEvent, ProbeOutcome};

/// A probe's answer, and what else was found.
pub(super) struct ProbeAnswer {
    pub(super) outcome: ProbeOutcome,
    pub(super) events: Vec<NodeEvent>,
    /// The outcomes of other probes that the same question answers. One that is not here has the same outcome.
    pub(super) others: Vec<(&'static str, ProbeOutcome)>,
}

impl ProbeAnswer {
    /// What it says of a probe.
    pub(super) fn outcome_of(&self, probe: &str) -> ProbeOutcome {
        let other = self.others.iter().find(|(name, _)| *name == probe);
        other.map_or(&self.outcome, |(_, outcome)| outcome).clone()
    }
}

impl From<ProbeOutcome> for ProbeAnswer {
    fn from(outcome: ProbeOutcome) -> Self {
        Self {
            outcome,
            events: Vec::new(),
            others: Vec::new(),
        }
    }
}
