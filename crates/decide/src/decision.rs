//! The decision: one straight line from an observation to what has to be done and said.

use std::sync::Arc;

use jiff::Timestamp;
use windrow_plan::Plan;
use windrow_plan::readiness::{self, NeedState};
use windrow_plan::rules::RuleSet;

use super::action::{Action, Event};
use super::document::write_status;
use super::ledger::Ledger;
use super::ledger_update::LedgerUpdate;
use super::marker_changes::MarkerChanges;
use super::observation::Observation;
use super::outcome::{DecisionContext, FileOutcome};
use super::status::Status;
use crate::settings::Settings;

/// What follows from an observation.
#[derive(Debug, Clone)]
pub struct Decision {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// The ledger after it.
    pub ledger: Arc<Ledger>,
    /// What to report, once.
    pub events: Vec<Event>,
    /// When to decide again though nothing happens: the next deadline.
    pub next_wake: Option<Timestamp>,
    /// When to decide again because the status names a released file that RKE2 does not apply from then on. It ends no hold, and
    /// so is no deadline of those that a flight keeps.
    pub late_from: Option<Timestamp>,
    /// What to say. The publisher sets `generation`.
    pub status: Status,
}

/// Decides. Pure: the same values in, the same values out.
pub fn decide(
    settings: &Settings,
    rules: &RuleSet,
    plan: &Plan,
    observation: &Observation,
    ledger: &Arc<Ledger>,
    now: Timestamp,
) -> Decision {
    let needs: Vec<NeedState> = plan
        .needs
        .iter()
        .map(|need| readiness::holds(&need.target, &need.condition, rules, observation))
        .collect();
    let held_names = ledger.held_names();
    let context = DecisionContext {
        staging: &settings.staging,
        plan,
        observation,
        ledger,
        held_names: &held_names,
        needs: &needs,
        now,
    };
    let outcomes = context.decide_files();
    let LedgerUpdate {
        ledger: mut after,
        events,
    } = LedgerUpdate::from_outcomes(&context, ledger, &outcomes);
    let markers = MarkerChanges::from_outcomes(&context, &outcomes, &after);
    let written = write_status(&context, &outcomes, &after);
    if after.node != written.memory {
        Arc::make_mut(&mut after).node = written.memory;
    }
    let mut actions = markers.holds;
    if after != *ledger {
        actions.push(Action::SaveLedger(Arc::clone(&after)));
    }
    actions.extend(markers.lifts);
    Decision {
        actions,
        ledger: after,
        events,
        next_wake: next_deadline(&outcomes, now)
            .into_iter()
            .chain(written.next_wake)
            .min(),
        late_from: written.late_from,
        status: written.status,
    }
}

/// When a hold ends, or is overdue, though nothing happens.
fn next_deadline(outcomes: &[FileOutcome], now: Timestamp) -> Option<Timestamp> {
    let holds = outcomes.iter().filter_map(|outcome| match outcome {
        FileOutcome::Hold(hold) => Some(hold),
        _ => None,
    });
    holds
        .flat_map(|hold| [hold.deadline, hold.overdue])
        .flatten()
        .filter(|at| *at > now)
        .min()
}
