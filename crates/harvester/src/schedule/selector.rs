//! Node selector terms, as the API server and the scheduler match them.

use serde_json::Value;
use windrow_model::object::{LabelRequirement, Labels};

use crate::objects::items;

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
    /// An unknown operator.
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
    fn every_operator_compares_as_the_api_does() {
        let node = labels(&[("a", "x"), ("n", "5")]);
        for (operator, key, values, expected) in [
            ("In", "a", json!(["x", "y"]), true),
            ("In", "b", json!(["x"]), false),
            ("NotIn", "a", json!(["x"]), false),
            // A missing label is not among the values.
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
