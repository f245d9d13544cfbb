//! Selects the decisions to record, each with the ledger that it depends on.

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use super::{DecisionToRecord, mark_done, recorded_actions, recorded_events};
use crate::{Action, Decision, Event, Ledger, Observation, Phase, Readiness, Status};

/// Receives every decision and its results, and returns those to record.
#[derive(Debug, Clone, Default)]
pub struct Tap {
    /// The ledger after the last recorded decision.
    recorded: Option<Ledger>,
    /// The ledger before the current decision, if something other than a decision changed it.
    before: Option<Ledger>,
    /// The current decision, while it is carried out.
    made: Option<DecisionToRecord>,
    last_shown: Option<StatusExcerpt>,
}

/// The parts of a status whose changes are recorded.
#[derive(Debug, Clone, PartialEq)]
struct StatusExcerpt {
    readiness: Readiness,
    phase: Phase,
    code: Code,
    held: Vec<(ManifestPath, Code, SmolStr)>,
}

impl Tap {
    pub fn before(&mut self, ledger: &Ledger) {
        let news = self.recorded.as_ref() != Some(ledger);
        self.before = news.then(|| ledger.clone());
    }

    /// Takes a decision before it is carried out. It is recorded if it changed something.
    pub fn decided(&mut self, now: Timestamp, decision: &Decision, seen: &Observation) {
        let shown = excerpt(&decision.status);
        let quiet = decision.actions.is_empty()
            && decision.events.is_empty()
            && self.last_shown.as_ref() == Some(&shown);
        if quiet {
            return;
        }
        self.last_shown = Some(shown);
        self.recorded = Some(Ledger::clone(&decision.ledger));
        self.made = Some(DecisionToRecord {
            at: now,
            observation: seen.clone(),
            before: self.before.take(),
            after: Ledger::clone(&decision.ledger),
            actions: recorded_actions(decision),
            events: recorded_events(&decision.events),
            status: decision.status.clone(),
            next_wake: decision.next_wake,
        });
    }

    /// Takes the results of the decision. Returns it if it is to be recorded.
    pub fn acted(&mut self, done: &[Action], events: &[Event]) -> Option<DecisionToRecord> {
        let mut made = self.made.take()?;
        mark_done(&mut made.actions, done);
        made.events.extend(recorded_events(events));
        Some(made)
    }

    pub fn start_over(&mut self) {
        *self = Self::default();
    }
}

fn excerpt(status: &Status) -> StatusExcerpt {
    StatusExcerpt {
        readiness: status.readiness,
        phase: status.phase,
        code: status.reason.code,
        held: status
            .staging
            .held
            .iter()
            .map(|held| (held.file.clone(), held.code, held.why.clone()))
            .collect(),
    }
}
