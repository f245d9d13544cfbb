//! Label selectors (`matchLabels`, `matchExpressions`), as kube-apiserver matches them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use super::ObjectView;

/// Labels, or the fields of a node.
pub type Labels = BTreeMap<String, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRequirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl LabelRequirement {
    /// A label that must have this value.
    pub fn is(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            operator: Operator::In,
            values: vec![value.into()],
        }
    }

    /// Reads an entry of `matchExpressions` or of a node selector term.
    ///
    /// # Errors
    ///
    /// An unknown operator.
    pub fn parse<V: ObjectView>(expression: &V) -> Result<Self, String> {
        let operator = match expression.text("operator") {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::Gt,
            "Lt" => Operator::Lt,
            _ => return Err("a selector has an unknown operator".to_owned()),
        };
        let values = expression.list("values").iter();
        Ok(Self {
            key: expression.text("key").to_owned(),
            operator,
            values: values.filter_map(V::as_str).map(str::to_owned).collect(),
        })
    }

    /// Whether the requirement is met by these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.holds(labels.get(&self.key).map(String::as_str))
    }

    /// Whether the requirement is met by this value of its label.
    fn holds(&self, value: Option<&str>) -> bool {
        let compared = || -> Option<Ordering> {
            let label: i64 = value?.parse().ok()?;
            let bound: i64 = self.values.first()?.parse().ok()?;
            Some(label.cmp(&bound))
        };
        let is_listed = || value.is_some_and(|value| self.values.iter().any(|one| one == value));
        match self.operator {
            Operator::In => is_listed(),
            Operator::NotIn => !is_listed(),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compared().is_some_and(Ordering::is_gt),
            Operator::Lt => compared().is_some_and(Ordering::is_lt),
        }
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.join(",");
        match self.operator {
            Operator::In if self.values.len() == 1 => write!(f, "{}={values}", self.key),
            Operator::In => write!(f, "{} in ({values})", self.key),
            Operator::NotIn => write!(f, "{} not in ({values})", self.key),
            Operator::Exists => write!(f, "{}", self.key),
            Operator::DoesNotExist => write!(f, "no {}", self.key),
            Operator::Gt => write!(f, "{} > {values}", self.key),
            Operator::Lt => write!(f, "{} < {values}", self.key),
        }
    }
}

/// A label selector. One without requirements selects everything; one that is absent, nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

impl LabelSelector {
    /// Reads `matchLabels` and `matchExpressions`; `None` when there is no selector.
    ///
    /// # Errors
    ///
    /// An unknown operator, or one that compares numbers: only node selectors have those.
    pub fn parse<V: ObjectView>(selector: Option<&V>) -> Result<Option<Self>, String> {
        let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
            return Ok(None);
        };
        let requirements: Result<Vec<_>, _> = requirements(selector).collect();
        Ok(Some(Self {
            requirements: requirements?,
        }))
    }

    /// Like [`Self::parse`], but ignores unknown expressions.
    pub fn parse_known<V: ObjectView>(selector: &V) -> Self {
        let requirements = requirements(selector).filter_map(Result::ok);
        Self {
            requirements: requirements.filter(|one| !one.key.is_empty()).collect(),
        }
    }

    /// Adds a requirement.
    pub fn require(&mut self, requirement: LabelRequirement) {
        self.requirements.push(requirement);
    }

    /// Whether it selects an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        let mut requirements = self.requirements.iter();
        requirements.all(|requirement| requirement.matches(labels))
    }

    /// Whether it selects an object with these labels. `label` returns the value of a label, if the label exists.
    pub fn matches_by<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.may_match(label, |_| true)
    }

    /// Whether it may select an object of which only some labels are known.
    pub fn may_match<'l>(
        &self,
        label: impl Fn(&str) -> Option<&'l str>,
        is_known: impl Fn(&str) -> bool,
    ) -> bool {
        let mut known = self.requirements.iter().filter(|one| is_known(&one.key));
        known.all(|requirement| requirement.holds(label(&requirement.key)))
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }
}

fn requirements<V: ObjectView>(
    selector: &V,
) -> impl Iterator<Item = Result<LabelRequirement, String>> {
    let labels = selector.get("matchLabels").into_iter().flat_map(V::entries);
    let labels = labels.map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        Ok(LabelRequirement::is(key, value))
    });
    let expressions = selector.list("matchExpressions").iter().map(|expression| {
        let requirement = LabelRequirement::parse(expression)?;
        match requirement.operator {
            Operator::Gt | Operator::Lt => {
                Err(format!("`{}` is for nodes", expression.text("operator")))
            }
            _ => Ok(requirement),
        }
    });
    labels.chain(expressions)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_absent_selector_selects_nothing_and_an_empty_one_everything() {
        assert_eq!(LabelSelector::parse(None::<&Value>).unwrap(), None);
        assert_eq!(LabelSelector::parse(Some(&json!(null))).unwrap(), None);
        let all = LabelSelector::parse(Some(&json!({}))).unwrap().unwrap();
        assert!(all.is_everything() && all.matches(&Labels::new()));
    }

    #[test]
    fn an_operator_that_is_not_for_labels_is_an_error_or_left_out() {
        for operator in ["Is", "Gt", "Lt"] {
            let wrong =
                json!({"matchExpressions": [{"key": "n", "operator": operator, "values": ["4"]}]});
            assert!(LabelSelector::parse(Some(&wrong)).is_err(), "{operator}");
            assert!(LabelSelector::parse_known(&wrong).is_everything());
        }
    }

    #[test]
    fn a_requirement_on_a_label_that_is_not_known_may_be_met() {
        let selector = json!({"matchLabels": {"a": "x", "b": "y"}});
        let selector = LabelSelector::parse_known(&selector);
        let label = |key: &str| (key == "a").then_some("x");
        assert!(selector.may_match(label, |key| key == "a"));
        assert!(!selector.matches_by(label));
    }
}
