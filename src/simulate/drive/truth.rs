//! What Windrow did, held against what was so in truth.

use std::sync::Arc;

use jiff::Timestamp;

use super::super::run::Release;
use super::super::watch::Watch;
use super::{Drive, rules};
use crate::decide::{Detail, Interests, Ledger, Observation, State};
use crate::plan::PlanFile;
use crate::readiness::{self, NeedState};
use crate::rules::{Condition, Target, Tier};

impl Drive<'_> {
    /// Was everything that a newly released file requires so, in truth?
    pub(super) fn check(&mut self, who: usize, before: &Ledger, now: Timestamp) {
        let engine = &self.agents[who].engine;
        let mut releases = Vec::new();
        for (path, entry) in &engine.ledger().files {
            let State::Released { cause } = entry.state else {
                continue;
            };
            let known = before.files.get(path).is_some_and(|old| {
                old.digest == entry.digest && !matches!(old.state, State::Held { .. })
            });
            if known {
                continue;
            }
            let file = engine.plan().files.iter().find(|file| file.path == *path);
            releases.push(Release {
                at: now,
                file: path.clone(),
                cause,
                unmet: file.map(|file| self.unmet(who, file)).unwrap_or_default(),
            });
        }
        self.agents[who].releases.extend(releases);
    }

    fn unmet(&self, who: usize, file: &PlanFile) -> Vec<String> {
        let plan = self.agents[who].engine.plan();
        let required: Vec<_> = file
            .requirements()
            .filter(|one| one.tier == Tier::Required && one.takes_part())
            .map(|one| &plan.needs[one.need])
            .collect();
        let mut interests = Interests::default();
        for need in &required {
            match &need.target {
                Target::Kind(kind) => {
                    interests.kinds.insert(kind.clone());
                }
                Target::Object(object) => {
                    interests.objects.insert(object.clone(), Detail::Full);
                }
            }
        }
        let cluster = self.node.cluster();
        let mut truth = Observation::default();
        for event in Watch::on(who).poll(cluster, &Arc::new(interests)) {
            truth.apply(event, cluster.now());
        }
        let rules = rules(self.setup, who);
        required
            .into_iter()
            .filter(|need| {
                let state = readiness::holds(&need.target, &need.condition, rules, &truth);
                // A verdict can rest on more objects than the one that is named; those were not
                // looked up here.
                !matches!(state, NeedState::Met) && need.condition != Condition::Ready
            })
            .map(|need| format!("{} {}", need.target, need.condition))
            .collect()
    }
}
