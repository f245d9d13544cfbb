//! The plan of a repair: the repairs to continue, to close and to start.

use windrow_harvester::incidents::IncidentFinding;

use crate::act::repair::{BegunCure, Record, judge_begun};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RepairPlan {
    pub(super) begun: Vec<Record>,
    /// Repairs that only restore their temporary changes, because their problem is gone.
    pub(super) giving_back: Vec<Record>,
    /// Repairs to close: another one replaces them, or their problem is gone.
    pub(super) closed: Vec<(Record, BegunCure)>,
    pub(super) found: Vec<IncidentFinding>,
    pub(super) is_known: bool,
}

impl RepairPlan {
    /// From these repairs, and from the recognised problems; `None` if they are unknown.
    pub(super) fn new(unfinished: &[Record], recognised: Option<&[IncidentFinding]>) -> Self {
        let mut plan = Self {
            is_known: recognised.is_some(),
            ..Self::default()
        };
        let Some(found) = recognised else {
            // A repair that was given up or is being undone goes no further, no matter what is recognised.
            let unfinished = unfinished.iter().cloned();
            (plan.giving_back, plan.begun) = unfinished.partition(Record::is_given_up);
            return plan;
        };
        for record in unfinished {
            match judge_begun(record, found) {
                BegunCure::GoesOn => plan.begun.push(record.clone()),
                BegunCure::GivesBack => plan.giving_back.push(record.clone()),
                judged => plan.closed.push((record.clone(), judged)),
            }
        }
        let is_new = |one: &&IncidentFinding| {
            let mut begun = plan.begun.iter();
            begun.all(|record| record.subject != one.subject)
        };
        plan.found = found.iter().filter(is_new).cloned().collect();
        plan
    }

    pub(super) fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.giving_back.is_empty() && self.found.is_empty()
    }

    pub(super) fn has_a_cure(&self) -> bool {
        let can_begin = self.found.iter().any(|finding| finding.cure.is_some());
        can_begin || !self.begun.is_empty() || !self.giving_back.is_empty()
    }

    /// Keeps the parts that a later look shows unchanged. Returns the subjects of the rest.
    pub(super) fn keep_what_is_still_so(&mut self, again: &Self) -> Vec<String> {
        let mut gone = Vec::new();
        let shown = [
            (&mut self.begun, &again.begun),
            (&mut self.giving_back, &again.giving_back),
        ];
        for (shown, now) in shown {
            shown.retain(|record| {
                let stays = now.contains(record);
                gone.extend((!stays).then(|| record.subject.clone()));
                stays
            });
        }
        self.found.retain(|shown| {
            let now = again.found.iter().find(|one| one.subject == shown.subject);
            let stays = now.is_some_and(|now| is_as_shown(shown, now));
            gone.extend((!stays && shown.cure.is_some()).then(|| shown.subject.clone()));
            stays
        });
        gone
    }
}

/// Whether the same would be done to the same objects.
fn is_as_shown(shown: &IncidentFinding, now: &IncidentFinding) -> bool {
    match (&shown.cure, &now.cure) {
        (Some(shown), Some(now)) => shown.saves_the_same(now) && shown.steps == now.steps,
        (shown, now) => shown.is_none() && now.is_none(),
    }
}
