//! The result of asking a probe.

use windrow_plan::readiness::node::{NodeEvent, ProbeOutcome};

pub(super) struct ProbeAnswer {
    pub(super) outcome: ProbeOutcome,
    pub(super) events: Vec<NodeEvent>,
    /// The outcomes of the other probes that the same question answers.
    pub(super) others: Vec<(&'static str, ProbeOutcome)>,
}

impl ProbeAnswer {
    /// The outcome of a probe in the answer to a question. If the question was not answered, that counts for all its
    /// probes.
    pub(super) fn outcome_of(&self, question: &str, probe: &str) -> ProbeOutcome {
        let other = self.others.iter().find(|(name, _)| *name == probe);
        match other {
            Some((_, outcome)) => outcome.clone(),
            None if probe == question => self.outcome.clone(),
            None if matches!(self.outcome, ProbeOutcome::Unknown { .. }) => self.outcome.clone(),
            None => ProbeOutcome::unknown(probe, "this version cannot ask it"),
        }
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
