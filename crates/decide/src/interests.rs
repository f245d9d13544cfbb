//! The objects to watch in the cluster, and the probes to run on the node.
//!
//! These are the requirements of unfinished files, and those that a rule or a user sets for finished files, because
//! they may regress. Objects that a verdict depends on are watched as well.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use windrow_model::manifest::ObjectRef;
use windrow_plan::readiness::{self, ObjectSeen, ObservedCluster};
use windrow_plan::rules::{NeedCondition, NeedTarget};
use windrow_plan::{Need, Plan, PlanFile};

use super::ledger::{FileStage, Ledger};
use super::observation::{Detail, Interests, Observation, ProbeInterest};
use crate::settings::Settings;

/// Pure like [`super::decide`], and based on the same values.
pub fn interests(
    settings: &Settings,
    plan: &Plan,
    observation: &Observation,
    ledger: &Ledger,
) -> Interests {
    let mut interests = Interests {
        probes: settings.probes.enabled.then(|| ProbeInterest {
            platform: plan.platform,
            installed: ledger.node.installed,
            joined: ledger.node.joined,
            data_dir: settings.data_dir.clone(),
            tunings: Arc::clone(&settings.probes.tunings),
            custom: Arc::clone(&settings.probes.custom),
        }),
        ..Interests::default()
    };
    let wanted = wanted_needs(plan, ledger);
    for (need, _) in plan.needs.iter().zip(wanted).filter(|(_, wanted)| *wanted) {
        let object = match &need.target {
            NeedTarget::Kind(kind) => {
                interests.kinds.insert(kind.clone());
                continue;
            }
            NeedTarget::Object(object) => object,
        };
        watch_object(&mut interests.objects, object.clone(), needed_detail(need));
        if let Some(value) = value_with_relations(need, object, observation) {
            let related = readiness::related(object, value);
            interests.kinds.extend(related.kinds);
            for object in related.objects {
                watch_object(&mut interests.objects, object, Detail::Full);
            }
        }
    }
    interests
}

/// Which needs to watch, in the plan's order. Many files share a need.
fn wanted_needs(plan: &Plan, ledger: &Ledger) -> Vec<bool> {
    let mut wanted = vec![false; plan.needs.len()];
    // A file that Windrow does not own waits for nothing.
    for file in plan.files.iter().filter(|file| file.owner.is_none()) {
        let finished = is_finished(file, ledger);
        for requirement in file.requirements() {
            if requirement.takes_part() && !(finished && requirement.inferred) {
                wanted[requirement.need] = true;
            }
        }
    }
    wanted
}

fn is_finished(file: &PlanFile, ledger: &Ledger) -> bool {
    let entry = ledger.files.get(&file.path);
    entry.is_some_and(|entry| {
        entry.digest == file.digest && matches!(entry.state, FileStage::Applied { .. })
    })
}

fn watch_object(objects: &mut BTreeMap<ObjectRef, Detail>, object: ObjectRef, detail: Detail) {
    let known = objects.entry(object).or_insert(detail);
    *known = detail.max(*known);
}

fn needed_detail(need: &Need) -> Detail {
    match need.condition {
        NeedCondition::Exists | NeedCondition::Served => Detail::Metadata,
        NeedCondition::Ready | NeedCondition::Expression(_) => Detail::Full,
    }
}

/// The required object, if it exists and its verdict may depend on further objects.
fn value_with_relations<'o>(
    need: &Need,
    object: &ObjectRef,
    observation: &'o Observation,
) -> Option<&'o Value> {
    if needed_detail(need) != Detail::Full || !readiness::has_related(object) {
        return None;
    }
    match observation.object(object) {
        ObjectSeen::Present(value) => Some(value),
        _ => None,
    }
}
