//! What is needed and whether it is there, judged again only where something changed that it rests on.
//!
//! A directory of thousands of documents hears of one object at a time: judging every need at every
//! event would make a bootstrap cost the square of its size.

use std::collections::{BTreeSet, HashMap};

use super::observation::{ClusterEvent, Observation};
use crate::manifest::{GroupKind, ObjectRef};
use crate::plan::{Need, NeedId, Plan};
use crate::readiness::{self, NeedState, ObjectSeen, Observed};
use crate::rules::{Condition, RuleSet, Target};

/// The state of every need of a plan.
#[derive(Debug, Default)]
pub(super) struct Needs {
    states: Vec<NeedState>,
    /// Needs by what they rest on, as far as it is known without looking.
    by_object: HashMap<ObjectRef, Vec<NeedId>>,
    by_kind: HashMap<GroupKind, Vec<NeedId>>,
    /// Those whose verdict rests on something beside their object, and on what.
    related: HashMap<NeedId, readiness::Related>,
    /// What has to be judged again.
    stale: BTreeSet<NeedId>,
    /// All of it has to be.
    outdated: bool,
}

impl Needs {
    /// The plan, the rules or more than one event can tell have changed.
    pub(super) fn outdate(&mut self) {
        self.outdated = true;
    }

    /// What an event changes; true when it changes what has to be watched as well.
    pub(super) fn hear(&mut self, event: &ClusterEvent) -> bool {
        let mut widens = false;
        match event {
            ClusterEvent::Kind(kind, _) => {
                self.stale
                    .extend(self.by_kind.get(kind).into_iter().flatten());
                let rests = self.related.iter();
                self.stale.extend(
                    rests
                        .filter(|(_, related)| related.kinds.contains(kind))
                        .map(|(need, _)| *need),
                );
            }
            ClusterEvent::Object(object, _) => {
                self.stale
                    .extend(self.by_object.get(object).into_iter().flatten());
                let rests = self.related.iter();
                self.stale.extend(
                    rests
                        .filter(|(_, related)| related.objects.contains(object))
                        .map(|(need, _)| *need),
                );
                widens = readiness::has_related(object);
            }
            _ => {}
        }
        widens
    }

    /// The states, by [`NeedId`].
    pub(super) fn judged(
        &mut self,
        plan: &Plan,
        rules: &RuleSet,
        seen: &Observation,
    ) -> &[NeedState] {
        if std::mem::take(&mut self.outdated) || self.states.len() != plan.needs.len() {
            self.index(plan);
            self.states.clear();
            for (id, need) in plan.needs.iter().enumerate() {
                self.relate(id, need, seen);
                self.states.push(judge(need, rules, seen));
            }
        } else {
            for id in std::mem::take(&mut self.stale) {
                if let Some(need) = plan.needs.get(id) {
                    self.relate(id, need, seen);
                    self.states[id] = judge(need, rules, seen);
                }
            }
        }
        self.stale.clear();
        &self.states
    }

    fn index(&mut self, plan: &Plan) {
        self.by_object.clear();
        self.by_kind.clear();
        self.related.clear();
        for (id, need) in plan.needs.iter().enumerate() {
            let kind = match &need.target {
                Target::Kind(kind) => kind.clone(),
                Target::Object(object) => {
                    self.by_object.entry(object.clone()).or_default().push(id);
                    object.group_kind()
                }
            };
            self.by_kind.entry(kind).or_default().push(id);
        }
    }

    /// Takes down what the verdict will rest on beside the object itself.
    fn relate(&mut self, id: NeedId, need: &Need, seen: &Observation) {
        let related = match (&need.target, &need.condition, object(need, seen)) {
            (Target::Object(object), Condition::Ready, Some(ObjectSeen::Present(value))) => {
                readiness::related(object, value)
            }
            _ => readiness::Related::default(),
        };
        if related.is_empty() {
            self.related.remove(&id);
        } else {
            self.related.insert(id, related);
        }
    }
}

fn object<'s>(need: &Need, seen: &'s Observation) -> Option<&'s ObjectSeen> {
    match &need.target {
        Target::Object(object) => Some(seen.object(object)),
        Target::Kind(_) => None,
    }
}

/// One need, from what is known now.
pub(super) fn judge(need: &Need, rules: &RuleSet, seen: &Observation) -> NeedState {
    readiness::holds(&need.target, &need.condition, rules, seen)
}
