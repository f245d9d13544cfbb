//! The order in which an object is judged: the first answer is the verdict.
//!
//! 1. It is being deleted: Progressing.
//! 2. A readiness rule for its kind, from a rule pack: what the rule says, and nothing else.
//! 3. Its controller has not seen this generation: Progressing.
//! 4. The conditions `Reconciling` and `Stalled`.
//! 5. The built-in table.
//! 6. The condition `Ready`, `Available` or `Succeeded`.
//! 7. Unknown: there is no status, or none in words that are known.

use serde_json::Value;
use windrow_model::manifest::{GroupKind, ObjectRef};

use super::fields::{
    FieldResult, condition, failed, has_status, number, progressing, ready, text, unknown,
};
use super::{Judgement, ObservedCluster, kinds};
use crate::rules::{EvaluationError, Expression, ReadinessRule, RuleSet};

/// Judges one observed object. `id` says what it is: an answer from the API may leave kind and
/// version out of the items of a list.
pub fn judge(
    object: &Value,
    id: &ObjectRef,
    rules: &RuleSet,
    seen: &dyn ObservedCluster,
) -> Judgement {
    match first_answer(object, id, rules, seen) {
        Ok(judgement) | Err(judgement) => judgement,
    }
}

/// What else has to be observed to judge an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Related {
    /// Kinds that discovery should be asked for.
    pub kinds: Vec<GroupKind>,
    /// Objects.
    pub objects: Vec<ObjectRef>,
}

/// What the verdict on `object` rests on beside itself, as far as it is known by now.
pub fn related(id: &ObjectRef, object: &Value) -> Related {
    kinds::related(id, object)
}

/// Can the verdict on an object of this kind rest on anything beside itself?
pub fn has_related(id: &ObjectRef) -> bool {
    kinds::has_related(id)
}

/// Does an object of this kind do its work once, so that it counts as done when it was Ready and is
/// gone? A Job is collected after its `ttlSecondsAfterFinished`.
pub fn completes(id: &ObjectRef) -> bool {
    id.group == "batch" && id.kind == "Job"
}

/// Can a verdict other than Unknown ever come for this kind? True for every kind with a rule, every
/// kind of the built-in table, and every other kind that is stored: its controller may write a
/// `Ready` condition, and that cannot be known beforehand.
pub fn observable(kind: &GroupKind, rules: &RuleSet) -> bool {
    rule_for(kind, rules).is_some() || !kinds::never_stored(kind)
}

fn rule_for<'r>(kind: &GroupKind, rules: &'r RuleSet) -> Option<&'r ReadinessRule> {
    rules.readiness.iter().find(|rule| rule.kind == *kind)
}

fn first_answer(
    object: &Value,
    id: &ObjectRef,
    rules: &RuleSet,
    seen: &dyn ObservedCluster,
) -> FieldResult<Judgement> {
    if is_terminating(object) {
        return Ok(progressing("Terminating", "it is being deleted"));
    }
    if let Some(rule) = rule_for(&id.group_kind(), rules) {
        return Ok(by_rule(object, rule));
    }
    let observed = number(object, &["status", "observedGeneration"])?;
    let generation = number(object, &["metadata", "generation"])?;
    if let (Some(observed), Some(generation)) = (observed, generation)
        && observed != generation
    {
        return Ok(progressing(
            "LatestGenerationNotObserved",
            format!("its controller has seen generation {observed} of {generation}"),
        ));
    }
    if let Some(reconciling) = condition(object, "Reconciling")?
        && reconciling.is_true()
    {
        return Ok(progressing("Reconciling", reconciling.says()));
    }
    if let Some(stalled) = condition(object, "Stalled")?
        && stalled.is_true()
    {
        return Ok(failed("Stalled", stalled.says()));
    }
    if let Some(judgement) = kinds::judge(object, id, seen)? {
        return Ok(judgement);
    }
    by_condition(object)
}

/// Is it on its way out?
pub(super) fn is_terminating(object: &Value) -> bool {
    !text(object, &["metadata", "deletionTimestamp"]).is_empty()
}

/// What a rule pack says about the kind. An expression that has no answer yet is not true yet.
fn by_rule(object: &Value, rule: &ReadinessRule) -> Judgement {
    let answer = |expression: &Option<Expression>| match expression {
        None => Ok(false),
        Some(expression) => match expression.holds(object) {
            Err(EvaluationError::Missing(_)) => Ok(false),
            answer => answer,
        },
    };
    let (in_progress, failure) = match (answer(&rule.in_progress), answer(&rule.failed)) {
        (Ok(in_progress), Ok(failure)) => (in_progress, failure),
        (Err(error), _) | (_, Err(error)) => return no_answer(rule, &error),
    };
    if in_progress {
        return progressing("InProgress", reported_state(object, "on its way"));
    }
    if failure {
        return failed("Failed", reported_state(object, "failed"));
    }
    let Some(expression) = &rule.ready else {
        return unknown("NoReadyExpression", format!("{} has no `ready`", rule.at));
    };
    match expression.holds(object) {
        Ok(true) => ready("Ready", reported_state(object, "ready")),
        Ok(false) => progressing("NotReadyYet", reported_state(object, "not ready yet")),
        Err(EvaluationError::Missing(_)) if !has_status(object) => {
            unknown("NoStatus", "no status reported yet")
        }
        Err(EvaluationError::Missing(message)) => progressing("NotReadyYet", message),
        Err(error) => no_answer(rule, &error),
    }
}

fn no_answer(rule: &ReadinessRule, error: &EvaluationError) -> Judgement {
    unknown(
        "RuleDoesNotFit",
        format!("the readiness rule of {} does not fit: {error}", rule.at),
    )
}

/// A sentence about the state, with the phase where the object has one.
fn reported_state(object: &Value, state: &str) -> String {
    for key in ["phase", "printableStatus", "state", "status"] {
        let phase = text(object, &["status", key]);
        if !phase.is_empty() {
            return format!("{state}: its {key} is {}", super::fields::one_line(phase));
        }
    }
    state.to_owned()
}

/// Kinds that have no rule here: what most controllers write.
fn by_condition(object: &Value) -> FieldResult<Judgement> {
    for kind in ["Ready", "Available", "Succeeded"] {
        if let Some(found) = condition(object, kind)? {
            return Ok(if found.is_true() {
                ready("Ready", format!("its condition {kind} is True"))
            } else {
                progressing(
                    "NotReadyYet",
                    format!("its condition {kind} is {}: {}", found.status, found.says()),
                )
            });
        }
    }
    Ok(if has_status(object) {
        unknown(
            "NoKnownCondition",
            "its status has no condition Ready, Available or Succeeded; a readiness rule can say how to read it",
        )
    } else {
        unknown("NoStatus", "no status reported yet")
    })
}
