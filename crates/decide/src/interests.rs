//! What has to be watched in the cluster and probed on the node.
//!
//! That is what unfinished files need, and what a rule or a person requires of finished ones, because it may regress.
//! What the verdict on any of these depends on is watched as well.

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

/// What has to be watched. Pure, as [`super::decide`] is, and of the same values.
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

/// Which needs have to be watched, in the plan's order. Many files share one.
fn wanted_needs(plan: &Plan, ledger: &Ledger) -> Vec<bool> {
    let mut wanted = vec![false; plan.needs.len()];
    // A file that is not ours waits for nothing.
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

/// Is this content of the file applied?
fn is_finished(file: &PlanFile, ledger: &Ledger) -> bool {
    let entry = ledger.files.get(&file.path);
    entry.is_some_and(|entry| {
        entry.digest == file.digest && matches!(entry.state, FileStage::Applied { .. })
    })
}

/// Adds an object, in the greatest detail that is asked for.
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

/// The object that is needed, where it is there and its verdict may depend on further objects.
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
