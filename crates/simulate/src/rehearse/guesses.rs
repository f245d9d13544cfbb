//! Requirements that the manifests do not meet themselves. They come from knowledge about charts, operators and the platform, or
//! from an unknown installer. A rehearsal assumes that all of them are met, and reports which of them are unknown.

use windrow_model::reasons::Code;
use windrow_plan::knowledge::{LearnedTimes, Provider, phase_of, times_on};
use windrow_plan::readiness::node::{NodeRole, Phase};
use windrow_plan::rules::{NeedTarget, RuleSet, Tier};
use windrow_plan::{FileId, Plan, PlanDocument, Requirement, SatisfiedBy, rke2};

use crate::platform_steps::{HARVESTER, RKE2};
use crate::{MayBring, Scenario, Supply};

/// Adds the outside requirements of a plan's files to a scenario, and their known consequences.
pub fn add_what_comes(scenario: &mut Scenario, plan: &Plan, rules: &RuleSet) {
    // An image is rehearsed for the first boot of a first server.
    let api = phase_of(&plan.phases, Phase::Api, false, NodeRole::FirstServer);
    scenario.api_ready = api.map(|row| row.times);
    let node = scenario.node.clone();
    let files = plan.files.iter().enumerate();
    for (id, file) in files.filter(|(_, file)| !rke2::is_platforms(&file.path)) {
        for document in &file.documents {
            if let Some(known) = &document.brings {
                let supply = scenario.brings.entry(document.object.clone()).or_default();
                for brings in known.all() {
                    let kinds = brings.kinds.iter();
                    let kinds = kinds.map(|one| (one.kind.clone(), one.namespaced));
                    supply.kinds.extend(kinds);
                    supply.objects.extend(brings.objects.iter().cloned());
                }
                supply.after = known.after;
                supply.times = times_on(node.hardware(), &known.times_on, known.times);
            }
            for requirement in &document.requires {
                let need = Need {
                    file: id,
                    document,
                    requirement,
                };
                add_need(scenario, plan, rules, &need);
            }
        }
    }
    add_what_is_made_elsewhere(scenario, plan);
}

/// Adds the targets of rules and annotations that no file creates.
fn add_what_is_made_elsewhere(scenario: &mut Scenario, plan: &Plan) {
    for file in &plan.files {
        let mut required = file.requirements().filter(|one| one.tier == Tier::Required);
        if !required.any(|one| one.satisfied_by == SatisfiedBy::Nobody) {
            let waits = scenario.made_elsewhere.entry(file.path.clone());
            waits.or_default();
        }
    }
    for (file, requirement) in plan.made_elsewhere() {
        if let Some(waits) = scenario.made_elsewhere.get_mut(&plan.files[file].path) {
            let target = plan.needs[requirement.need].target.clone();
            waits.insert(target, plan.waits_for_elsewhere(file, requirement));
        }
    }
}

struct Need<'p> {
    file: FileId,
    document: &'p PlanDocument,
    requirement: &'p Requirement,
}

/// Adds the target of one requirement.
fn add_need(scenario: &mut Scenario, plan: &Plan, rules: &RuleSet, need: &Need<'_>) {
    let Need {
        file,
        document,
        requirement,
    } = *need;
    let target = &plan.needs[requirement.need].target;
    let namespaced = document.object.namespace.is_some();
    if let Some(learned) = requirement.learned.as_ref().filter(|one| !one.is_firm())
        && requirement.tier == Tier::Required
    {
        let (what, seen) = (target.to_string(), learned.seen.to_string());
        let words = [("what", &*what), ("by", &learned.by), ("seen", &seen)];
        scenario.assumed.insert(Code::SeenOnFewBoots.say(&words));
    }
    match &requirement.satisfied_by {
        SatisfiedBy::Installer { file, line } => {
            let file = &plan.files[*file];
            let Some(installer) = file.documents.iter().find(|one| one.line == *line) else {
                return;
            };
            let guess = scenario
                .may_bring
                .entry(installer.object.clone())
                .or_default();
            guess.file.clone_from(&file.path);
            add_guess(guess, target, namespaced);
        }
        // If all kinds of a group are provided, only the required ones are known here.
        SatisfiedBy::File { file, line } => {
            add_kind_of_group(scenario, plan, (*file, *line), target, namespaced);
        }
        SatisfiedBy::SameFile { line } => {
            let place = (file, *line);
            add_kind_of_group(scenario, plan, place, target, namespaced);
        }
        SatisfiedBy::Platform { by, condition } => {
            if let Some(condition) = condition
                .as_ref()
                .filter(|_| requirement.tier == Tier::Required)
            {
                let what = target.to_string();
                let words = [("what", &*what), ("by", by), ("condition", condition)];
                scenario
                    .assumed
                    .insert(Code::BroughtOnCondition.say(&words));
            }
            let times = requirement.learned.as_ref().and_then(|one| one.times);
            add_provided(scenario, rules, target, (namespaced, times));
        }
        // Targets of rules and annotations are added separately, and nothing waits for an object that a field only mentions.
        SatisfiedBy::Cluster | SatisfiedBy::Nobody => {}
    }
}

fn add_guess(guess: &mut MayBring, target: &NeedTarget, namespaced: bool) {
    match target {
        NeedTarget::Kind(kind) => {
            guess.kinds.insert(kind.clone(), namespaced);
        }
        NeedTarget::Object(object) => {
            guess.namespaces.insert(object.name.clone());
        }
    }
}

fn add_kind_of_group(
    scenario: &mut Scenario,
    plan: &Plan,
    (file, line): (usize, u32),
    target: &NeedTarget,
    namespaced: bool,
) {
    let mut documents = plan.files[file].documents.iter();
    let bringer = documents.find(|one| one.line == line && one.brings.is_some());
    if let (Some(bringer), NeedTarget::Kind(kind)) = (bringer, target) {
        let supply = scenario.brings.entry(bringer.object.clone()).or_default();
        supply.kinds.entry(kind.clone()).or_insert(namespaced);
    }
}

/// Adds the things that a rule pack declares as provided, and known parts of the platform that belong to none of its steps.
fn add_provided(
    scenario: &mut Scenario,
    rules: &RuleSet,
    target: &NeedTarget,
    (namespaced, times): (bool, Option<LearnedTimes>),
) {
    let node = &scenario.node.clone();
    // A site's own declaration counts even for things that RKE2's charts do not provide.
    let is_off = |provider: Option<Provider>| provider.is_none_or(|one| one.is_switched_off);
    let steps = match scenario.harvester {
        Some(_) => HARVESTER,
        None => RKE2,
    };
    let mut entries = steps.iter().flat_map(|step| step.brings.entries(node));
    match target {
        NeedTarget::Kind(kind) => {
            let comes_anyway =
                entries.any(|entry| entry.brings.kinds.iter().any(|one| one.kind == *kind));
            if !comes_anyway && !is_off(rules.provider_of_kind(kind, node)) {
                let kinds = &mut provided(scenario, times).kinds;
                kinds.insert(kind.clone(), namespaced);
            }
        }
        NeedTarget::Object(object) => {
            let comes_anyway = entries.any(|entry| entry.brings.objects.contains(object));
            if !comes_anyway && !is_off(rules.provider_of_object(object, node)) {
                let objects = &mut provided(scenario, times).objects;
                objects.insert(object.clone());
            }
        }
    }
}

/// The supply of the platform with these learned times, or without any.
fn provided(scenario: &mut Scenario, times: Option<LearnedTimes>) -> &mut Supply {
    if times.is_none() {
        return &mut scenario.provided;
    }
    let all = &mut scenario.provided_in_time;
    let known = all.iter().position(|supply| supply.times == times);
    let place = known.unwrap_or(all.len());
    if known.is_none() {
        all.push(Supply {
            times,
            ..Supply::default()
        });
    }
    &mut all[place]
}
