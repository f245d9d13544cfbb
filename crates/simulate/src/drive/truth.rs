//! What Windrow did, held against what was so in truth.

use std::sync::Arc;

use jiff::Timestamp;
use windrow_decide::{Detail, Ledger, Observation, State};
use windrow_plan::readiness::{self, NeedState, ObjectSeen};
use windrow_plan::rules::{Condition, Target, Tier};
use windrow_plan::{Need, NeedId, PlanFile};

use super::super::run::Release;
use super::{Drive, rules};

impl Drive<'_> {
    /// Was everything that a newly released file requires so, in truth?
    pub(super) fn check(&mut self, who: usize, before: &Arc<Ledger>, now: Timestamp) {
        let state = &self.agents[who].state;
        let mut releases = Vec::new();
        for (path, entry) in &state.ledger().files {
            let State::Released { cause } = entry.state else {
                continue;
            };
            let known = before.files.get(path).is_some_and(|old| {
                old.digest == entry.digest && !matches!(old.state, State::Held { .. })
            });
            if known {
                continue;
            }
            let file = state.plan().files.iter().find(|file| file.path == *path);
            releases.push(Release {
                at: now,
                file: path.to_string(),
                cause,
                unmet: file.map(|file| self.unmet(who, file)).unwrap_or_default(),
            });
        }
        self.agents[who].releases.extend(releases);
    }

    fn unmet(&self, who: usize, file: &PlanFile) -> Vec<String> {
        let plan = self.agents[who].state.plan();
        let required = file
            .requirements()
            .filter(|one| one.tier == Tier::Required && one.takes_part());
        required
            // A verdict on readiness can rest on more objects than the one that is named; those are not
            // looked up here.
            .filter(|one| plan.needs[one.need].condition != Condition::Ready)
            .filter(|one| !self.is_met(who, one.need))
            .map(|one| {
                let need = &plan.needs[one.need];
                format!("{} {}", need.target, need.condition)
            })
            .collect()
    }

    /// Is it so in the cluster, whatever the daemon has heard of it?
    fn is_met(&self, who: usize, need: NeedId) -> bool {
        let state = &self.agents[who].state;
        let cluster = self.node.cluster();
        let Need { target, condition } = &state.plan().needs[need];
        let object = match target {
            _ if !cluster.is_up_on(who) => return false,
            Target::Kind(kind) => return cluster.serves(kind).is_some(),
            Target::Object(object) => object,
        };
        let detail = match condition {
            Condition::Exists | Condition::Served => Detail::Metadata,
            Condition::Ready | Condition::Expression(_) => Detail::Full,
        };
        let truth = match cluster.shown(object, detail) {
            Some(stored) => ObjectSeen::Present(stored),
            None => ObjectSeen::Absent,
        };
        let mut observed = Observation::default();
        observed.objects.insert(object.clone(), truth);
        let rules = rules(self.setup, who);
        readiness::holds(target, condition, rules, &observed) == NeedState::Met
    }
}
