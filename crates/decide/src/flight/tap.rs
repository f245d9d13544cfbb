//! Picks the decisions that are worth a line, with the ledger on which each rests.

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use super::{DecisionToRecord, mark_done, recorded_actions, recorded_events};
use crate::{Action, Decision, Event, Ledger, Observation, Phase, Readiness, Status};

/// Gets every decision and what became of it, and hands out what is to be recorded.
#[derive(Debug, Clone, Default)]
pub struct Tap {
    /// The ledger after the last decision that was recorded.
    recorded: Option<Ledger>,
    /// The ledger before the decision at hand, where something else had changed it.
    before: Option<Ledger>,
    /// The decision at hand, while it is carried out.
    made: Option<DecisionToRecord>,
    last_shown: Option<StatusExcerpt>,
}

/// What of a status is worth a line when it changes.
#[derive(Debug, Clone, PartialEq)]
struct StatusExcerpt {
    readiness: Readiness,
    phase: Phase,
    code: Code,
    held: Vec<(ManifestPath, Code, SmolStr)>,
}

impl Tap {
    /// The ledger on which the decision at hand will rest.
    pub fn before(&mut self, ledger: &Ledger) {
        let news = self.recorded.as_ref() != Some(ledger);
        self.before = news.then(|| ledger.clone());
    }

    /// A decision, before anything is done: worth a line when something changed by it.
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

    /// What became of it: what is to be recorded, if anything.
    pub fn acted(&mut self, done: &[Action], events: &[Event]) -> Option<DecisionToRecord> {
        let mut made = self.made.take()?;
        mark_done(&mut made.actions, done);
        made.events.extend(recorded_events(events));
        Some(made)
    }

    /// Forgets everything: the next line begins a flight.
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
