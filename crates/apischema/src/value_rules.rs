//! Rules in CEL of CustomResourceDefinitions (`x-kubernetes-validations`).
//!
//! Rules with functions that only Kubernetes' CEL has (`isURL`, `quantity`, `ip`, `format`, …) are not evaluated.

use std::collections::HashMap;

use windrow_plan::rules::{EvaluationBudget, Expression};

/// Most steps of all rules together for one object: at most some hundred milliseconds.
const STEPS_OF_OBJECT: u64 = 2_000_000;

/// Rules, compiled when they are first evaluated.
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
    /// The next rules are about another object.
    pub fn begin_object(&mut self) {
        self.budget = EvaluationBudget::new(STEPS_OF_OBJECT);
    }

    /// Whether the rule is true of the value. `None` for a rule that cannot be compiled, or that has no answer.
    pub fn judge(&mut self, rule: &str, value: &serde_json::Value) -> Option<bool> {
        if !self.compiled.contains_key(rule) {
            let compiled = Expression::compile_value_rule(rule).ok();
            self.compiled.insert(rule.to_owned(), compiled);
        }
        let compiled = self.compiled.get(rule)?.as_ref()?;
        compiled.holds_within(value, &self.budget).ok()
    }
}
