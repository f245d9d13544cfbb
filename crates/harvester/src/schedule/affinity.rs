//! The relations of a pod to other pods: affinity, anti-affinity, spread.

use serde_json::Value;
use windrow_model::object::{LabelRequirement, LabelSelector, Labels};

use crate::objects::{items, text};

/// One required term of affinity or anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Affinity {
    selector: Option<LabelSelector>,
    namespaces: Vec<String>,
    namespace_selector: Option<LabelSelector>,
    /// The label by which nodes count as one place.
    pub topology_key: String,
}

impl Affinity {
    pub(super) fn parse(term: &Value, namespace: &str) -> Result<Self, String> {
        let named: Vec<String> = items(term, "/namespaces")
            .iter()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        let namespace_selector = LabelSelector::parse(term.pointer("/namespaceSelector"))?;
        let namespaces = match (named.is_empty(), &namespace_selector) {
            (true, None) => vec![namespace.to_owned()],
            _ => named,
        };
        Ok(Self {
            selector: LabelSelector::parse(term.pointer("/labelSelector"))?,
            namespaces,
            namespace_selector,
            topology_key: text(term, "/topologyKey").to_owned(),
        })
    }

    /// Does the term select a pod with these labels? `namespace_labels` are those of its namespace, if they could be read.
    pub fn selects(
        &self,
        labels: &Labels,
        namespace: &str,
        namespace_labels: Option<&Labels>,
    ) -> bool {
        let by_label = || {
            let selector = self.namespace_selector.as_ref()?;
            Some(selector.is_everything() || selector.matches(namespace_labels?))
        };
        (self.namespaces.iter().any(|one| one == namespace) || by_label().unwrap_or_default())
            && self
                .selector
                .as_ref()
                .is_some_and(|selector| selector.matches(labels))
    }

    pub fn needs_namespaces(&self) -> bool {
        let selector = self.namespace_selector.as_ref();
        selector.is_some_and(|selector| !selector.is_everything())
    }
}

/// One topology spread constraint that rejects nodes (`DoNotSchedule`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// The label by which nodes count as one place.
    pub topology_key: String,
    pub max_skew: i64,
    /// Fewer places than this count as an empty one.
    pub min_domains: i64,
    /// The pods to count.
    pub selector: Option<LabelSelector>,
    /// Are only nodes counted that the pod's node affinity allows?
    pub honors_affinity: bool,
    /// Are only nodes counted whose taints the pod tolerates?
    pub honors_taints: bool,
}

impl Spread {
    pub(super) fn parse_all(constraints: &[Value], labels: &Labels) -> Result<Vec<Self>, String> {
        constraints
            .iter()
            .filter(|one| text(one, "/whenUnsatisfiable") != "ScheduleAnyway")
            .map(|one| Self::parse(one, labels))
            .collect()
    }

    fn parse(constraint: &Value, labels: &Labels) -> Result<Self, String> {
        let number = |pointer: &str| constraint.pointer(pointer).and_then(Value::as_i64);
        let mut selector = LabelSelector::parse(constraint.pointer("/labelSelector"))?;
        if let Some(selector) = &mut selector {
            for key in items(constraint, "/matchLabelKeys") {
                if let Some(key) = key.as_str()
                    && let Some(value) = labels.get(key)
                {
                    selector.require(LabelRequirement::is(key, value));
                }
            }
        }
        Ok(Self {
            topology_key: text(constraint, "/topologyKey").to_owned(),
            max_skew: number("/maxSkew").unwrap_or(1),
            min_domains: number("/minDomains").unwrap_or(1),
            selector,
            honors_affinity: text(constraint, "/nodeAffinityPolicy") != "Ignore",
            honors_taints: text(constraint, "/nodeTaintsPolicy") == "Honor",
        })
    }

    /// Does the constraint count a pod with these labels? It counts only pods of the same namespace that are not terminating.
    pub fn selects(&self, labels: &Labels) -> bool {
        let selector = self.selector.as_ref();
        selector.is_some_and(|selector| selector.matches(labels))
    }
}
