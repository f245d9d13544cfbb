//! Findings of a site, defined by its rule packs. Pure.
//!
//! Each rule is evaluated separately, so a rule without a result does not affect others. The cost is limited without a clock, by
//! the number of steps that an expression takes on all objects together.

use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::manifest::GroupKind;
use windrow_model::reasons::Code;
use windrow_plan::rules::{EvaluationBudget, EvaluationError, FindingRule, Platform};

use super::finding::{DetectorId, DetectorResult, IncidentFinding};
use crate::objects::{Objects, Unlisted, named, text};

/// Limit of steps for the `when` of one rule, on all objects.
const MOST_STEPS: u64 = 2_000_000;
/// Limit of objects of a rule that are shown one by one.
const MOST_FINDINGS: usize = 20;

pub fn kinds_of<'r>(rules: impl IntoIterator<Item = &'r FindingRule>) -> Vec<GroupKind> {
    let mut kinds: Vec<GroupKind> = Vec::new();
    for rule in rules {
        if !kinds.contains(&rule.kind) {
            kinds.push(rule.kind.clone());
        }
    }
    kinds
}

pub fn rules_for(rules: &[FindingRule], platform: Option<Platform>) -> Vec<FindingRule> {
    let fits = |rule: &&FindingRule| rule.platform.is_none() || rule.platform == platform;
    rules.iter().filter(fits).cloned().collect()
}

/// Evaluates all rules, each separately.
pub fn look_by_rules(objects: &Objects, rules: &[FindingRule]) -> Vec<DetectorResult> {
    rules
        .iter()
        .map(|rule| DetectorResult {
            id: DetectorId::new(&rule.name),
            found: find(objects, rule),
        })
        .collect()
}

fn find(objects: &Objects, rule: &FindingRule) -> Result<Vec<IncidentFinding>, Unlisted> {
    let all = objects.list(&rule.kind)?;
    let not_judged = |why: String| Unlisted {
        kind: rule.kind.clone(),
        why: format!("{why} ({})", rule.at),
        wanted: false,
    };
    let budget = EvaluationBudget::new(MOST_STEPS);
    let mut found = Vec::new();
    let mut more = 0;
    for object in all.iter().filter(|object| is_meant(rule, object)) {
        match rule.when.holds_within(object, &budget) {
            Ok(true) if found.len() < MOST_FINDINGS => found.push(finding_by_rule(rule, object)),
            Ok(true) => more += 1,
            // A field that the rule reads is absent, so the rule does not match.
            Ok(false) | Err(EvaluationError::Missing(_)) => {}
            Err(EvaluationError::Type(why) | EvaluationError::Limit(why)) => {
                return Err(not_judged(format!("`when` on {}: {why}", named(object))));
            }
        }
    }
    if let (true, Some(last)) = (more > 0, found.last_mut()) {
        last.proof.push(format!("the same is true of {more} more"));
    }
    Ok(found)
}

fn is_meant(rule: &FindingRule, object: &Value) -> bool {
    let is = |wanted: &Option<String>, pointer: &str| {
        wanted
            .as_deref()
            .is_none_or(|wanted| wanted == text(object, pointer))
    };
    is(&rule.namespace, "/metadata/namespace") && is(&rule.object, "/metadata/name")
}

fn finding_by_rule(rule: &FindingRule, object: &Value) -> IncidentFinding {
    let subject = format!("{} {}", rule.kind.kind, named(object));
    let mut finding = IncidentFinding::new(
        Code::RuleFinding,
        subject.clone(),
        &rule.message.render(object),
    );
    let seen = rule
        .evidence
        .iter()
        .map(|(field, value)| Evidence::new(subject.clone(), field.clone(), value.render(object)));
    finding.evidence = seen.collect();
    finding.severity = rule.severity;
    finding.rule = Some(rule.name.clone());
    finding.advice.clone_from(&rule.advice);
    if let Some(documentation) = &rule.documentation {
        finding.documentation.clone_from(documentation);
    }
    finding
}
