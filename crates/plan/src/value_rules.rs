//! Rules in CEL of CustomResourceDefinitions (`x-kubernetes-validations`).
//!
//! What Kubernetes has and this CEL has not (`isURL`, `quantity`, `ip`, `format`, …) is not judged.

use std::collections::HashMap;

use crate::rules::{EvaluationBudget, Expression};

/// Steps that all rules together may take for one object: some hundred milliseconds at the most.
const STEPS_OF_OBJECT: u64 = 2_000_000;

/// Rules, compiled when they are first asked for.
pub struct ValueRules {
    compiled: HashMap<String, Option<Expression>>,
    budget: EvaluationBudget,
}

impl Default for ValueRules {
    fn default() -> Self {
        Self {
            compiled: HashMap::new(),
            budget: EvaluationBudget::new(STEPS_OF_OBJECT),
        }
    }
}

impl ValueRules {
    /// The rules that are asked for next are about another object.
    pub fn begin_object(&mut self) {
        self.budget = EvaluationBudget::new(STEPS_OF_OBJECT);
    }

    /// Does the rule hold of the value? `None` for a rule that cannot be compiled, and where it has no answer.
    pub fn judge(&mut self, rule: &str, value: &serde_json::Value) -> Option<bool> {
        if !self.compiled.contains_key(rule) {
            let compiled = Expression::compile_value_rule(rule).ok();
            self.compiled.insert(rule.to_owned(), compiled);
        }
        let compiled = self.compiled.get(rule)?.as_ref()?;
        compiled.holds_within(value, &self.budget).ok()
    }
}
