//! Label selectors and node selector terms, as the API server and the scheduler match them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::objects::{items, text, texts};

/// Labels, or a node's fields.
pub type Labels = BTreeMap<String, String>;

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRequirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl LabelRequirement {
    /// A label that must have one of these values.
    pub fn is(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            operator: Operator::In,
            values: vec![value.into()],
        }
    }

    fn parse(value: &Value) -> Result<Self, String> {
        let operator = match text(value, "/operator") {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::Gt,
            "Lt" => Operator::Lt,
            _ => return Err("the operator of a selector is not known".to_owned()),
        };
        Ok(Self {
            key: text(value, "/key").to_owned(),
            operator,
            values: items(value, "/values")
                .iter()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect(),
        })
    }

    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        let compared = || -> Option<std::cmp::Ordering> {
            let label: i64 = value?.parse().ok()?;
            let bound: i64 = self.values.first()?.parse().ok()?;
            Some(label.cmp(&bound))
        };
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compared().is_some_and(std::cmp::Ordering::is_gt),
            Operator::Lt => compared().is_some_and(std::cmp::Ordering::is_lt),
        }
    }
}

impl std::fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
    /// An operator that is not known.
    pub fn parse(value: Option<&Value>) -> Result<Option<Self>, String> {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let labels = texts(value, "/matchLabels").into_iter();
        let mut requirements: Vec<LabelRequirement> = labels
            .map(|(key, value)| LabelRequirement::is(key, value))
            .collect();
        for expression in items(value, "/matchExpressions") {
            let requirement = LabelRequirement::parse(expression)?;
            // Only node selectors compare numbers.
            if let Operator::Gt | Operator::Lt = requirement.operator {
                return Err(format!("`{}` is for nodes", text(expression, "/operator")));
            }
            requirements.push(requirement);
        }
        Ok(Some(Self { requirements }))
    }

    /// Asks for more.
    pub fn require(&mut self, requirement: LabelRequirement) {
        self.requirements.push(requirement);
    }

    /// Does it select something with these labels?
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(labels))
    }

    /// Does it select everything?
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }
}

/// The terms of a node selector: one of them has to match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    labels: Vec<LabelRequirement>,
    fields: Vec<LabelRequirement>,
}

impl NodeSelector {
    /// Reads `nodeSelectorTerms`; `None` when there is no selector.
    ///
    /// # Errors
    ///
    /// An operator that is not known.
    pub fn parse(value: Option<&Value>) -> Result<Option<Self>, String> {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let read = |list: &[Value]| -> Result<Vec<LabelRequirement>, String> {
            list.iter().map(LabelRequirement::parse).collect()
        };
        let mut terms = Vec::new();
        for term in items(value, "/nodeSelectorTerms") {
            terms.push(Term {
                labels: read(items(term, "/matchExpressions"))?,
                fields: read(items(term, "/matchFields"))?,
            });
        }
        Ok(Some(Self { terms }))
    }

    /// Does the node match? A term without requirements matches nothing.
    pub fn matches(&self, labels: &Labels, name: &str) -> bool {
        let fields = Labels::from([("metadata.name".to_owned(), name.to_owned())]);
        self.terms.iter().any(|term| {
            !(term.labels.is_empty() && term.fields.is_empty())
                && term.labels.iter().all(|one| one.matches(labels))
                && term.fields.iter().all(|one| one.matches(&fields))
        })
    }
}

impl std::fmt::Display for NodeSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let terms: Vec<String> = self
            .terms
            .iter()
            .map(|term| {
                let all = term.labels.iter().chain(&term.fields);
                let all: Vec<String> = all.map(ToString::to_string).collect();
                all.join(" and ")
            })
            .collect();
        f.write_str(&terms.join(", or "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn an_absent_selector_selects_nothing_and_an_empty_one_everything() {
        assert_eq!(LabelSelector::parse(None).unwrap(), None);
        assert_eq!(LabelSelector::parse(Some(&json!(null))).unwrap(), None);
        let all = LabelSelector::parse(Some(&json!({}))).unwrap().unwrap();
        assert!(all.is_everything() && all.matches(&Labels::new()));
    }

    #[test]
    fn every_operator_compares_as_the_api_does() {
        let node = labels(&[("a", "x"), ("n", "5")]);
        for (operator, key, values, expected) in [
            ("In", "a", json!(["x", "y"]), true),
            ("In", "b", json!(["x"]), false),
            ("NotIn", "a", json!(["x"]), false),
            // A label that is not there is not among the values.
            ("NotIn", "b", json!(["x"]), true),
            ("Exists", "a", json!([]), true),
            ("DoesNotExist", "a", json!([]), false),
            ("Gt", "n", json!(["4"]), true),
            ("Gt", "n", json!(["5"]), false),
            ("Lt", "n", json!(["6"]), true),
            ("Lt", "a", json!(["6"]), false),
        ] {
            let selector = json!({"nodeSelectorTerms": [
                {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}
            ]});
            let selector = NodeSelector::parse(Some(&selector)).unwrap().unwrap();
            assert_eq!(selector.matches(&node, "n1"), expected, "{operator} {key}");
        }
        for operator in ["Is", "Gt", "Lt"] {
            let wrong =
                json!({"matchExpressions": [{"key": "n", "operator": operator, "values": ["4"]}]});
            assert!(LabelSelector::parse(Some(&wrong)).is_err(), "{operator}");
        }
    }

    #[test]
    fn one_term_is_enough_and_an_empty_term_matches_nothing() {
        let selector = json!({"nodeSelectorTerms": [
            {},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
        ]});
        let selector = NodeSelector::parse(Some(&selector)).unwrap().unwrap();
        assert!(!selector.matches(&Labels::new(), "n1"));
        assert!(selector.matches(&Labels::new(), "n2"));
    }
}
