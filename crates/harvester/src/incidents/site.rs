//! Findings of a site's own: what the rule packs look for. Pure.
//!
//! Each rule is judged by itself: one that cannot be judged says so and keeps no other from it. What a look
//! may cost is bounded without a clock, by the steps that an expression takes on all objects together.

use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::manifest::GroupKind;
use windrow_model::reasons::Code;
use windrow_plan::rules::{EvaluationBudget, EvaluationError, FindingRule, Platform};

use super::finding::{DetectorResult, IncidentFinding};
use crate::objects::{Objects, Unlisted, named, text};

/// Steps that one rule's `when` may take in a look, on all objects.
const MOST_STEPS: u64 = 2_000_000;
/// How many objects of a rule are shown one by one.
const MOST_FINDINGS: usize = 20;

/// The kinds that these rules look at.
pub fn kinds_of<'r>(rules: impl IntoIterator<Item = &'r FindingRule>) -> Vec<GroupKind> {
    let mut kinds: Vec<GroupKind> = Vec::new();
    for rule in rules {
        if !kinds.contains(&rule.kind) {
            kinds.push(rule.kind.clone());
        }
    }
    kinds
}

/// The rules that are for a platform.
pub fn rules_for(rules: &[FindingRule], platform: Option<Platform>) -> Vec<FindingRule> {
    let fits = |rule: &&FindingRule| rule.platform.is_none() || rule.platform == platform;
    rules.iter().filter(fits).cloned().collect()
}

/// Looks for what the rules describe, each by itself.
pub fn look_by_rules(objects: &Objects, rules: &[FindingRule]) -> Vec<DetectorResult> {
    rules
        .iter()
        .map(|rule| DetectorResult {
            name: rule.name.clone(),
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
            // What it asks for is not there: not recognised.
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
