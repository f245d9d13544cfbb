//! One decision, of what is known by now.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use windrow_model::reasons::Severity;

use super::super::files::Context;
use super::super::judge::{self, Course};
use super::super::library::Planned;
use super::super::verdicts::Verdicts;
use super::super::{Action, Decision, Event, Steps};
use super::Engine;

impl Engine {
    /// Decides, and takes the ledger of the decision over.
    pub fn decide(&mut self, now: Timestamp) -> Decision {
        let (steps, status) = self.course(now, false, |course, context, verdicts| {
            course.told(context, verdicts)
        });
        let mut steps = self.taken_over(steps);
        if !std::mem::replace(&mut self.all_told, true) {
            steps.events.extend(self.new_findings());
        }
        Decision { steps, status }
    }

    /// The same where nobody reads status and events: writing them takes longer than deciding. There are no
    /// events in it. A node that is probed remembers what it said, so there it is written all the same.
    pub fn steps(&mut self, now: Timestamp) -> Steps {
        if self.observation.node.is_some() {
            let mut steps = self.decide(now).steps;
            steps.events.clear();
            return steps;
        }
        let (steps, ()) = self.course(now, true, |course, context, _| (course.steps(context), ()));
        self.taken_over(steps)
    }

    fn course<T>(
        &mut self,
        now: Timestamp,
        is_silent: bool,
        tell: impl FnOnce(Course, &Context<'_>, &Verdicts) -> (Steps, T),
    ) -> (Steps, T) {
        let Planned { plan, lookup, .. } = &self.planned;
        for need in (self.needs).judge(&self.planned, &self.rules, &self.observation) {
            self.verdicts.doubt(lookup.needing(need));
        }
        debug_assert!(
            self.needs.are_so(plan, &self.rules, &self.observation),
            "what is known of a need is what would be judged anew"
        );
        let context = Context {
            staging: &self.settings.staging,
            plan,
            observation: &self.observation,
            ledger: &self.ledger,
            needs: self.needs.states(),
            now,
            is_silent,
        };
        let course = judge::course(&context, &mut self.verdicts, lookup);
        if course.finishes {
            self.interests = None;
        }
        let (steps, told) = tell(course, &context, &self.verdicts);
        if steps.ledger.node.installed != self.ledger.node.installed {
            self.interests = None;
        }
        debug_assert!(
            self.would_decide(&steps, is_silent, now),
            "what is known of files and needs is what would be decided anew"
        );
        (steps, told)
    }

    /// Would everything, decided anew, be decided like this?
    fn would_decide(&self, steps: &Steps, is_silent: bool, now: Timestamp) -> bool {
        let Self {
            settings,
            rules,
            planned,
            observation,
            ledger,
            ..
        } = self;
        let plan = &planned.plan;
        let mut anew = judge::decide(settings, rules, plan, observation, ledger, now).steps;
        if is_silent {
            anew.events.clear();
        }
        *steps == anew
    }

    fn taken_over(&mut self, mut steps: Steps) -> Steps {
        self.ledger = Arc::clone(&steps.ledger);
        if std::mem::take(&mut self.unsaved) {
            save(&mut steps);
        }
        steps
    }

    /// What is wrong with the directory and was not told yet. What was mended is forgotten, so that
    /// it is told again should it come back.
    fn new_findings(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let mut current = BTreeSet::new();
        for finding in &self.planned.plan.findings {
            if finding.severity < Severity::Warning {
                continue;
            }
            let at: Vec<String> = finding.at.iter().map(ToString::to_string).collect();
            let message = format!("{}: {}", at.join(", "), finding.message);
            let key = (finding.code, message);
            if !self.told.contains(&key) {
                events.push(Event {
                    code: finding.code,
                    file: finding.at.first().map(|at| at.file.clone()),
                    message: key.1.clone(),
                });
            }
            current.insert(key);
        }
        self.told = current;
        events
    }
}

/// Has the ledger written by a decision that changed nothing in it: before anything is lifted.
fn save(steps: &mut Steps) {
    if steps.actions.iter().any(saves) {
        return;
    }
    let lifts = steps
        .actions
        .iter()
        .position(|action| matches!(action, Action::Lift { .. }))
        .unwrap_or(steps.actions.len());
    let ledger = Arc::clone(&steps.ledger);
    steps.actions.insert(lifts, Action::SaveLedger(ledger));
}

fn saves(action: &Action) -> bool {
    matches!(action, Action::SaveLedger(_))
}
