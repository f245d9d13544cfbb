//! `rules:` of a pack: the documents, and their requirements.

use std::time::Duration;

use windrow_model::manifest::Node;

use super::parts::{kind, object};
use super::{Heading, PackItem};
use crate::rules::fields::{Errors, Fields};
use crate::rules::{
    Match, NeedCondition, NeedTarget, OnDeadline, Platform, Rule, RuleRequirement, Tier,
    parse_duration,
};

/// The keys of a rule, in addition to those of its heading.
pub(super) const KEYS: &[&str] = &[
    "match",
    "reason",
    "tier",
    "deadline",
    "onDeadline",
    "requires",
];

pub(super) fn rule(
    fields: &Fields<'_>,
    heading: Heading,
    platform: Option<Platform>,
    errors: &mut Errors<'_>,
) -> Option<PackItem> {
    let reason = fields.required("reason", errors);
    let tier = fields.word(
        "tier",
        &[("required", Tier::Required), ("advisory", Tier::Advisory)],
        errors,
    );
    let on_deadline = fields.word(
        "onDeadline",
        &[("keep", OnDeadline::Keep), ("release", OnDeadline::Release)],
        errors,
    );
    let terms = Terms {
        reason: reason.unwrap_or_default(),
        tier: tier.unwrap_or(Tier::Required),
        deadline: deadline(fields, errors),
        on_deadline: on_deadline.unwrap_or(OnDeadline::Release),
    };
    if terms.tier == Tier::Advisory && terms.on_deadline == OnDeadline::Keep {
        errors.at(
            fields.line_of("onDeadline"),
            "an advisory rule only orders and always yields at its deadline; use `tier: required` with `onDeadline: keep`",
        );
    }
    let matches = matches(fields, errors);
    fields.filled("requires", errors);
    let requires: Vec<RuleRequirement> = fields
        .list("requires", errors)
        .iter()
        .filter_map(|node| requirement(node, &terms, errors))
        .collect();
    Some(PackItem::Rule(Rule {
        name: heading.name,
        at: heading.at,
        platform,
        matches: matches?,
        requires,
        reason: terms.reason.to_owned(),
    }))
}

/// The terms that all requirements of a rule share.
struct Terms<'n> {
    reason: &'n str,
    tier: Tier,
    deadline: Option<Duration>,
    on_deadline: OnDeadline,
}

fn deadline(fields: &Fields<'_>, errors: &mut Errors<'_>) -> Option<Duration> {
    let text = fields.text("deadline", errors)?;
    let line = fields.line_of("deadline");
    match parse_duration(text) {
        Ok(Duration::ZERO) => {
            errors.at(
                line,
                "a deadline of 0 would release at once; leave the rule out, or disable it with `enabled: false`",
            );
            None
        }
        Ok(deadline) => Some(deadline),
        Err(error) => {
            errors.at(line, format!("`deadline`: {error}"));
            None
        }
    }
}

fn matches(rule: &Fields<'_>, errors: &mut Errors<'_>) -> Option<Match> {
    let keys = ["group", "kind", "namespace", "name", "labels", "when"];
    let Some(node) = rule.get("match") else {
        rule.lacks(
            "`match`: say which documents it is for, like `match: {group: apps, kind: Deployment}`",
            errors,
        );
        return None;
    };
    let fields = Fields::new(node, "`match`", &keys, errors)?;
    if node.entries().is_empty() {
        errors.at(
            node.line,
            format!(
                "`match` is empty and would fit every document; give at least one of {}",
                keys.join(", ")
            ),
        );
    }
    let labels = fields.pairs("labels", errors).into_iter();
    let labels = labels.map(|(key, value, _)| (key.to_owned(), value.to_owned()));
    Some(Match {
        group: fields.group("group", errors).map(str::to_owned),
        kind: fields.kind("kind", errors).map(str::to_owned),
        namespace: fields.text("namespace", errors).map(str::to_owned),
        name: fields.text("name", errors).map(str::to_owned),
        labels: labels.collect(),
        when: fields.expression("when", errors),
    })
}

fn requirement(node: &Node, terms: &Terms<'_>, errors: &mut Errors<'_>) -> Option<RuleRequirement> {
    let keys = ["object", "kind", "condition", "expression", "reason"];
    let fields = Fields::new(node, "the requirement", &keys, errors)?;
    let at = errors.location(fields.line());
    let target = match (fields.get("object"), fields.get("kind")) {
        (Some(node), None) => object(node, errors).map(NeedTarget::Object),
        (None, Some(node)) => kind(node, errors).map(NeedTarget::Kind),
        _ => {
            errors.at(
                fields.line(),
                "the requirement names one of `object` (group, kind, namespace, name) or `kind` (group, kind)",
            );
            None
        }
    };
    Some(RuleRequirement {
        condition: needed_condition(&fields, errors)?,
        target: target?,
        tier: terms.tier,
        reason: fields
            .text("reason", errors)
            .unwrap_or(terms.reason)
            .to_owned(),
        deadline: terms.deadline,
        on_deadline: terms.on_deadline,
        at,
    })
}

/// The required state of a requirement's target.
fn needed_condition(fields: &Fields<'_>, errors: &mut Errors<'_>) -> Option<NeedCondition> {
    let word = fields.word(
        "condition",
        &[
            ("exists", NeedCondition::Exists),
            ("ready", NeedCondition::Ready),
            ("served", NeedCondition::Served),
        ],
        errors,
    );
    let expression = fields.expression("expression", errors);
    let condition_line = fields.line_of("condition");
    if fields.get("condition").is_some() && fields.get("expression").is_some() {
        errors.at(
            condition_line,
            "the requirement has both `condition` and `expression`; an expression is enough, drop `condition`",
        );
    }
    let is_kind = fields.get("kind").is_some();
    let condition = match (expression, word) {
        (Some(expression), _) => NeedCondition::Expression(expression),
        (None, Some(word)) => word,
        (None, None) if is_kind => NeedCondition::Served,
        (None, None) => {
            if fields.get("condition").is_none() && fields.get("expression").is_none() {
                errors.at(
                    fields.line(),
                    "the requirement does not name a state of the object: `condition: exists`, `condition: ready` or `expression`",
                );
            }
            return None;
        }
    };
    if is_kind != (condition == NeedCondition::Served) {
        errors.at(
            condition_line,
            if is_kind {
                "a kind can only be `served`; ask for `exists`, `ready` or an expression of an `object`"
            } else {
                "an object cannot be `served`; ask for `exists` or `ready`, or name a `kind`"
            },
        );
    }
    Some(condition)
}
