//! A list of checks: the rows, their outcomes and the verdict. All lists have this shape, and one renderer shows them.
//!
//! ```text
//!   check ──> does it apply? ──no──> not-checked
//!               └─ facts: a problem ──> fail (warn, if the check can only warn)
//!                         unknown   ──> unknown
//!                         a warning ──> warn            otherwise ──> pass
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::findings::Evidence;

/// Maximum number of problems in a row.
const MAX_PROBLEMS: usize = 20;

/// The outcome of a check, or the verdict on a list: the worst outcome first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CheckOutcome {
    /// The rule is broken.
    Fail,
    /// Windrow cannot tell.
    Unknown,
    /// The rule is not broken, or the check can only warn, but you should know the facts.
    Warn,
    /// The rule holds.
    Pass,
    /// The check does not apply here; `unknown` contains the reason. Never a verdict.
    NotChecked,
}

/// A check and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", bound(deserialize = "E: Deserialize<'de>"))]
#[schemars(rename = "CheckRow")]
pub struct CheckRow<E = String> {
    /// Stable name of the check.
    pub check: String,
    /// The part of the list that contains the check; absent if the list has no parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// Outcome.
    pub outcome: CheckOutcome,
    /// True if an unknown outcome does not change the verdict.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
    /// The rule.
    pub rule: String,
    /// A part of the message with which the platform refuses if the check fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// What breaks the rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<E>,
    /// Number of further problems.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// Facts that do not break the rule and that you should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Facts that were found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<String>,
    /// Facts that are unknown, or the reason why the check does not apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// The action to take on a failure or a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Rows and their verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CheckList")]
pub struct CheckList<E = String> {
    /// The verdict: the worst outcome that counts.
    pub verdict: CheckOutcome,
    /// All checks.
    pub checks: Vec<CheckRow<E>>,
    /// What Windrow cannot check.
    pub not_checked: Vec<String>,
}

/// The facts that a check found.
#[derive(Debug)]
pub struct CheckFacts<E = String> {
    pub found: Vec<String>,
    pub problems: Vec<E>,
    pub warnings: Vec<String>,
    pub unknown: Vec<String>,
}

/// Why a check has no facts.
#[derive(Debug)]
pub enum NoFacts {
    Unknown(String),
    NotChecked(&'static str),
}

pub type CheckResult<E = String> = Result<CheckFacts<E>, NoFacts>;

impl<E> CheckRow<E> {
    /// The row of a check. A problem has the outcome `broken`.
    pub fn new(check: &str, rule: &str, broken: CheckOutcome, result: CheckResult<E>) -> Self {
        let (mut facts, is_checked) = match result {
            Ok(facts) => (facts, true),
            Err(NoFacts::Unknown(why)) => (CheckFacts::unknown(why), true),
            Err(NoFacts::NotChecked(why)) => (CheckFacts::unknown(why), false),
        };
        let outcome = if !is_checked {
            CheckOutcome::NotChecked
        } else if !facts.problems.is_empty() {
            broken
        } else if !facts.unknown.is_empty() {
            CheckOutcome::Unknown
        } else if !facts.warnings.is_empty() {
            CheckOutcome::Warn
        } else {
            CheckOutcome::Pass
        };
        let more = facts.problems.len().saturating_sub(MAX_PROBLEMS);
        facts.problems.truncate(MAX_PROBLEMS);
        Self {
            check: check.to_owned(),
            section: None,
            outcome,
            optional: false,
            rule: rule.to_owned(),
            says: None,
            problems: facts.problems,
            more,
            warnings: facts.warnings,
            found: facts.found,
            unknown: facts.unknown,
            advice: None,
        }
    }
}

impl<E> CheckList<E> {
    pub fn new(checks: Vec<CheckRow<E>>, not_checked: &[&str]) -> Self {
        let counted = checks
            .iter()
            .filter(|row| !(row.optional && row.outcome == CheckOutcome::Unknown));
        let answers = counted.filter(|row| row.outcome != CheckOutcome::NotChecked);
        // A list without an answer promises nothing.
        let verdict = answers.map(|row| row.outcome).min();
        let verdict = verdict.unwrap_or(CheckOutcome::Unknown);
        Self {
            verdict,
            checks,
            not_checked: not_checked.iter().map(|text| (*text).to_owned()).collect(),
        }
    }
}

impl<E> Default for CheckFacts<E> {
    fn default() -> Self {
        Self {
            found: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
            unknown: Vec::new(),
        }
    }
}

impl<E> CheckFacts<E> {
    pub fn found(text: impl Into<String>) -> Self {
        Self {
            found: vec![text.into()],
            ..Self::default()
        }
    }

    pub fn problem(problem: impl Into<E>) -> Self {
        Self {
            problems: vec![problem.into()],
            ..Self::default()
        }
    }

    pub fn unknown(why: impl Into<String>) -> Self {
        Self {
            unknown: vec![why.into()],
            ..Self::default()
        }
    }
}

impl CheckFacts<Evidence> {
    pub fn add(&mut self, subject: impl Into<String>, field: &str, value: impl Into<String>) {
        self.problems.push(Evidence::new(subject, field, value));
    }
}

impl<E> FromIterator<E> for CheckFacts<E> {
    fn from_iter<I: IntoIterator<Item = E>>(problems: I) -> Self {
        Self {
            problems: problems.into_iter().collect(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CheckOutcome::{Fail, NotChecked, Pass, Unknown, Warn};
    use super::*;

    fn row(broken: CheckOutcome, result: CheckResult<String>) -> CheckRow<String> {
        CheckRow::new("name", "the rule", broken, result)
    }

    #[test]
    fn a_problem_decides_before_an_unknown_fact_and_that_before_a_warning() {
        let mut facts = CheckFacts::problem("too small");
        facts.unknown.push("not read".to_owned());
        assert_eq!(row(Warn, Ok(facts)).outcome, Warn);
        let mut facts = CheckFacts::unknown("not read");
        facts.warnings.push("slow".to_owned());
        assert_eq!(row(Fail, Ok(facts)).outcome, Unknown);
        let facts = CheckFacts {
            warnings: vec!["slow".to_owned()],
            ..CheckFacts::default()
        };
        assert_eq!(row(Fail, Ok(facts)).outcome, Warn);
        assert_eq!(row(Fail, Ok(CheckFacts::found("fast"))).outcome, Pass);
        let nothing = row(Fail, Err(NoFacts::NotChecked("no disk")));
        assert_eq!(
            (nothing.outcome, &*nothing.unknown[0]),
            (NotChecked, "no disk")
        );
    }

    #[test]
    fn the_verdict_is_the_worst_outcome_and_an_optional_unknown_one_does_not_count() {
        let verdict = |rows: &[(CheckOutcome, bool)]| {
            let rows = rows.iter().map(|(outcome, optional)| CheckRow {
                outcome: *outcome,
                optional: *optional,
                ..row(Fail, Ok(CheckFacts::default()))
            });
            CheckList::new(rows.collect(), &[]).verdict
        };
        assert_eq!(
            verdict(&[(Warn, false), (Fail, false), (Unknown, false)]),
            Fail
        );
        assert_eq!(verdict(&[(Warn, false), (Unknown, false)]), Unknown);
        assert_eq!(verdict(&[(Warn, true), (Unknown, true)]), Warn);
        assert_eq!(verdict(&[(Pass, false), (NotChecked, false)]), Pass);
        assert_eq!(verdict(&[(Unknown, true)]), Unknown);
        assert_eq!(verdict(&[(Unknown, true), (Pass, false)]), Pass);
        assert_eq!(verdict(&[(NotChecked, false)]), Unknown);
        assert_eq!(verdict(&[]), Unknown);
    }
}
