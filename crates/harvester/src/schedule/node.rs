//! A node, as far as the scheduler looks at it.

use std::collections::BTreeMap;

use serde_json::Value;
use windrow_model::object::Labels;
use windrow_model::quantity::milli;

use crate::health::DRAIN_TAINT;
use crate::objects::{items, text, texts};

/// The taint that a cordoned node has, or is treated as having.
pub(super) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The taints by which the node controller follows a node's state. They disappear automatically when the node is well.
const PASSING: &[&str] = &[
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    pub value: String,
    /// `NoSchedule`, `NoExecute` or `PreferNoSchedule`.
    pub effect: String,
}

impl Taint {
    /// Does it repel pods? Otherwise it only lowers the node's score.
    pub fn repels(&self) -> bool {
        matches!(self.effect.as_str(), "NoSchedule" | "NoExecute")
    }
}

impl std::fmt::Display for Taint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{}:{}", self.key, self.value, self.effect)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerNode {
    pub name: String,
    pub labels: Labels,
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
    /// The resources for pods, in thousandths; `pods` is the number of pods.
    pub allocatable: BTreeMap<String, i128>,
}

impl SchedulerNode {
    /// Reads a Node.
    ///
    /// # Errors
    ///
    /// A quantity that cannot be read.
    pub fn parse(object: &Value) -> Result<Self, String> {
        let name = text(object, "/metadata/name").to_owned();
        let allocatable = texts(object, "/status/allocatable")
            .into_iter()
            .map(|(resource, quantity)| match milli(&quantity) {
                Some(value) => Ok((resource, value)),
                None => Err(format!(
                    "Node {name}: the amount of {resource} is not a quantity"
                )),
            })
            .collect::<Result<_, _>>()?;
        let taints = items(object, "/spec/taints")
            .iter()
            .map(|taint| Taint {
                key: text(taint, "/key").to_owned(),
                value: text(taint, "/value").to_owned(),
                effect: text(taint, "/effect").to_owned(),
            })
            .collect();
        Ok(Self {
            labels: texts(object, "/metadata/labels"),
            unschedulable: object
                .pointer("/spec/unschedulable")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
            taints,
            allocatable,
            name,
        })
    }

    /// Cordons the node, as a drain does first; the node controller adds the taint.
    pub fn cordon(&mut self) {
        self.unschedulable = true;
        self.taints = self.effective_taints().collect();
    }

    /// Removes the taints that repel pods only as long as a drain or a manual cordon lasts.
    pub fn uncordon(&mut self) {
        self.unschedulable = false;
        self.taints
            .retain(|taint| ![UNSCHEDULABLE, DRAIN_TAINT].contains(&taint.key.as_str()));
    }

    /// Removes the taints that repel pods only until the node is well.
    pub fn forget_passing_taints(&mut self) {
        self.taints
            .retain(|taint| !PASSING.contains(&taint.key.as_str()));
    }

    /// The taints that the scheduler sees: a cordoned node counts as tainted even before the taint is there.
    pub fn effective_taints(&self) -> impl Iterator<Item = Taint> + '_ {
        let cordoned =
            self.unschedulable && !self.taints.iter().any(|taint| taint.key == UNSCHEDULABLE);
        let cordon = cordoned.then(|| Taint {
            key: UNSCHEDULABLE.to_owned(),
            value: String::new(),
            effect: "NoSchedule".to_owned(),
        });
        cordon.into_iter().chain(self.taints.iter().cloned())
    }
}
