//! The order in which an object is judged. The first rule that applies gives the verdict.
//!
//! 1. It is being deleted: Progressing.
//! 2. A readiness rule for its kind in a rule pack: only this rule counts.
//! 3. The judges of `platform`, which the node and the incidents use as well.
//! 4. Its controller has not seen this generation: Progressing.
//! 5. The conditions `Reconciling` and `Stalled`.
//! 6. The built-in table.
//! 7. The condition `Ready`, `Available` or `Succeeded`.
//! 8. Unknown: there is no status, or it contains no known field.

use serde_json::Value;
use windrow_model::manifest::{GroupKind, ObjectRef};

use super::fields::{
    FieldResult, condition, failed, has_status, number, progressing, ready, says, text, unknown,
};
use super::{Judgement, ObservedCluster, kinds, platform};
use crate::rules::{EvaluationError, Expression, ReadinessRule, RuleSet};

/// Judges one observed object. `id` is required because the API may omit kind and version in the items of a list.
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

/// Further observations that a verdict requires.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Related {
    /// Kinds to request from discovery.
    pub kinds: Vec<GroupKind>,
    pub objects: Vec<ObjectRef>,
}

/// The kinds and objects that the verdict on `object` depends on, as far as they are known so far.
pub fn related(id: &ObjectRef, object: &Value) -> Related {
    kinds::related(id, object)
}

/// Whether the verdict on an object of this kind can depend on anything else.
pub fn has_related(id: &ObjectRef) -> bool {
    kinds::has_related(id)
}

/// Whether an object of this kind works only once, so that it counts as done if it was Ready and is gone. A Job is collected
/// after its `ttlSecondsAfterFinished`.
pub fn completes(id: &ObjectRef) -> bool {
    id.group == "batch" && id.kind == "Job"
}

/// Whether this kind can ever get a verdict other than Unknown. True for every kind with a rule, every kind in the built-in
/// table, and every other stored kind: its controller may write a `Ready` condition, which cannot be known in advance.
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
    if let Some(judgement) = platform::judge(object, id) {
        return Ok(judgement);
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
        return Ok(progressing("Reconciling", says(&reconciling)));
    }
    if let Some(stalled) = condition(object, "Stalled")?
        && stalled.is_true()
    {
        return Ok(failed("Stalled", says(&stalled)));
    }
    if let Some(judgement) = kinds::judge(object, id, seen)? {
        return Ok(judgement);
    }
    by_condition(object)
}

pub(super) fn is_terminating(object: &Value) -> bool {
    !text(object, &["metadata", "deletionTimestamp"]).is_empty()
}

/// The verdict of a rule pack. An expression without a result is not true yet.
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

/// A sentence about the state, with the phase if the object has one.
fn reported_state(object: &Value, state: &str) -> String {
    for key in ["phase", "printableStatus", "state", "status"] {
        let phase = text(object, &["status", key]);
        if !phase.is_empty() {
            return format!("{state}: its {key} is {}", super::fields::one_line(phase));
        }
    }
    state.to_owned()
}

/// Judges kinds without a rule by the usual conditions of controllers.
fn by_condition(object: &Value) -> FieldResult<Judgement> {
    for kind in ["Ready", "Available", "Succeeded"] {
        if let Some(found) = condition(object, kind)? {
            return Ok(if found.is_true() {
                ready("Ready", format!("its condition {kind} is True"))
            } else {
                progressing(
                    "NotReadyYet",
                    format!("its condition {kind} is {}: {}", found.status, says(&found)),
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
