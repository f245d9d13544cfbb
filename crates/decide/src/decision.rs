//! The decision: one straight line from an observation to actions, events and status.

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

#[derive(Debug, Clone)]
pub struct Decision {
    /// Carried out in this order.
    pub actions: Vec<Action>,
    pub ledger: Arc<Ledger>,
    pub events: Vec<Event>,
    /// The next deadline: decide again then, even if nothing happens.
    pub next_wake: Option<Timestamp>,
    /// Decide again then, because the status names a released file that RKE2 has not applied by that time. It ends no
    /// hold, so a flight does not keep it as a deadline.
    pub late_from: Option<Timestamp>,
    /// The publisher sets `generation`.
    pub status: Status,
}

/// Pure: the same input gives the same output.
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

/// When the next hold ends or becomes overdue, even if nothing happens.
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
