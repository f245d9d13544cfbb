//! What is needed and whether it is there, judged again only where something changed that it rests on.
//!
//! A directory of thousands of documents hears of one object at a time: judging every need at every
//! event would make a bootstrap cost the square of its size.

use foldhash::HashMap;
use windrow_plan::readiness::{self, NeedState, ObjectSeen, Observed};
use windrow_plan::rules::{Condition, RuleSet, Target};
use windrow_plan::{Need, NeedId, Plan};

use super::ids::Ids;
use super::library::Planned;
use super::lookup::Lookup;
use super::observation::{ClusterEvent, Observation};

/// The state of every need of a plan.
#[derive(Debug, Default)]
pub(super) struct Needs {
    states: Vec<NeedState>,
    /// Those whose verdict rests on something beside their object, and on what.
    related: HashMap<NeedId, readiness::Related>,
    /// What has to be judged again.
    stale: Ids,
    /// All of it has to be.
    outdated: bool,
}

impl Needs {
    /// The plan, the rules or more than one event can tell have changed.
    pub(super) fn outdate(&mut self) {
        self.outdated = true;
    }

    /// What an event changes.
    pub(super) fn hear(&mut self, event: &ClusterEvent, lookup: &Lookup) {
        match event {
            ClusterEvent::Kind(kind, _) => {
                self.stale.extend(lookup.needs_of_kind(kind));
                let rests = self.related.iter();
                let rests = rests.filter(|(_, related)| related.kinds.contains(kind));
                self.stale.extend(rests.map(|(need, _)| need));
            }
            ClusterEvent::Object(object, _) => {
                self.stale.extend(lookup.needs_of(object));
                let rests = self.related.iter();
                let rests = rests.filter(|(_, related)| related.objects.contains(object));
                self.stale.extend(rests.map(|(need, _)| need));
            }
            _ => {}
        }
    }

    /// Judges again what has to be; the needs of which the state is another than before.
    pub(super) fn judge(
        &mut self,
        planned: &Planned,
        rules: &RuleSet,
        seen: &Observation,
    ) -> Vec<NeedId> {
        let Planned { plan, judged, .. } = planned;
        let judge = |id, need| match judged {
            Some(judged) => judged.judge(id, need, rules, seen),
            None => judge(need, rules, seen),
        };
        let stale = std::mem::take(&mut self.stale);
        if std::mem::take(&mut self.outdated) || self.states.len() != plan.needs.len() {
            self.related.clear();
            self.states.clear();
            for (id, need) in plan.needs.iter().enumerate() {
                self.relate(id, need, seen);
                self.states.push(judge(id, need));
            }
            return (0..plan.needs.len()).collect();
        }
        let mut changed = Vec::new();
        for id in stale.iter() {
            let Some(need) = plan.needs.get(id) else {
                continue;
            };
            self.relate(id, need, seen);
            let state = judge(id, need);
            if self.states[id] != state {
                self.states[id] = state;
                changed.push(id);
            }
        }
        changed
    }

    /// Is every state what would be judged anew?
    pub(super) fn are_so(&self, plan: &Plan, rules: &RuleSet, seen: &Observation) -> bool {
        let anew = plan.needs.iter().map(|need| judge(need, rules, seen));
        self.states.iter().cloned().eq(anew)
    }

    /// The states, by [`NeedId`].
    pub(super) fn states(&self) -> &[NeedState] {
        &self.states
    }

    /// Takes down what the verdict will rest on beside the object itself.
    fn relate(&mut self, id: NeedId, need: &Need, seen: &Observation) {
        let Target::Object(target) = &need.target else {
            return;
        };
        if need.condition != Condition::Ready || !readiness::has_related(target) {
            return;
        }
        let related = match seen.object(target) {
            ObjectSeen::Present(value) => readiness::related(target, value),
            _ => readiness::Related::default(),
        };
        if related.is_empty() {
            self.related.remove(&id);
        } else {
            self.related.insert(id, related);
        }
    }
}

/// One need, from what is known now.
pub(super) fn judge(need: &Need, rules: &RuleSet, seen: &Observation) -> NeedState {
    readiness::holds(&need.target, &need.condition, rules, seen)
}
