//! The result of a drain check, for programs and as the evidence of a finding.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schedule::NodeRefusal;

/// Would the drain finish?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Drain {
    /// Yes.
    Finishes,
    /// No: that is proved.
    Blocked,
    /// It cannot be said.
    Unknown,
}

/// What `windrow drain-check -o json` prints. The names of its fields are a promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainCheck {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `DrainCheck`
    pub kind: String,
    /// The node.
    pub node: String,
    /// Would its drain finish?
    pub drain: Drain,
    /// Why it cannot be said, when nothing could be looked at.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The pods on the node that a drain evicts; blocked ones first.
    pub pods: Vec<PodDrain>,
    /// How many pods of the node a drain leaves alone (DaemonSets, static pods, ended ones).
    pub ignored: usize,
    /// Does Harvester accept maintenance mode for the node? Only for nodes of Harvester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance_mode: Option<MaintenanceMode>,
}

/// What Harvester answers if you enable maintenance mode for a node, without force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceMode {
    /// Its answer.
    pub answer: MaintenanceAnswer,
    /// Why it refuses, or why its answer is not known, line by line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
    /// What Harvester does with each VM of the node that has the label `harvesterhci.io/maintain-mode-strategy`, line by line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labelled: Vec<String>,
}

/// Does Harvester accept maintenance mode?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MaintenanceAnswer {
    /// Yes, and then it drains the node.
    Accepted,
    /// No: it leaves the node as it is.
    Refused,
    /// It cannot be said.
    Unknown,
}

/// What `windrow drain-check --all -o json` prints. The names of its fields are a promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainCheckList {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `DrainCheckList`
    pub kind: String,
    /// The worst of them: blocked, else unknown.
    pub drain: Drain,
    /// Why it cannot be said, when the nodes could not be listed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Each node, as if it alone were drained.
    pub nodes: Vec<DrainCheck>,
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodDrain {
    /// `namespace/name`.
    pub pod: String,
    /// What becomes of it.
    pub fate: PodFate,
    /// Why, in a line.
    pub why: String,
    /// The budget that covers it, `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// A node that would take its replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The proof, or what else is worth knowing, line by line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
}

/// What becomes of a pod.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PodFate {
    /// It never goes.
    Blocked,
    /// It cannot be said.
    Unknown,
    /// It goes.
    Goes,
}

impl DrainCheck {
    pub(super) fn new(node: &str, mut pods: Vec<PodDrain>, ignored: usize) -> Self {
        pods.sort_by(|a, b| (a.fate, &a.pod).cmp(&(b.fate, &b.pod)));
        let drain = match pods.first().map(|pod| pod.fate) {
            Some(PodFate::Blocked) => Drain::Blocked,
            Some(PodFate::Unknown) => Drain::Unknown,
            Some(PodFate::Goes) | None => Drain::Finishes,
        };
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "DrainCheck".to_owned(),
            node: node.to_owned(),
            drain,
            why: String::new(),
            pods,
            ignored,
            maintenance_mode: None,
        }
    }

    pub(super) fn unknown(node: &str, why: String) -> Self {
        Self {
            drain: Drain::Unknown,
            why,
            ..Self::new(node, Vec::new(), 0)
        }
    }

    pub fn blocked(&self) -> impl Iterator<Item = &PodDrain> {
        self.pods.iter().filter(|pod| pod.fate == PodFate::Blocked)
    }
}

impl MaintenanceMode {
    pub(super) fn new(answer: MaintenanceAnswer, because: Vec<String>) -> Self {
        Self {
            answer,
            because,
            labelled: Vec::new(),
        }
    }
}

impl DrainCheckList {
    pub(super) fn new(nodes: Vec<DrainCheck>, why: String) -> Self {
        let is = |drain| nodes.iter().any(|node| node.drain == drain);
        let drain = match () {
            () if is(Drain::Blocked) => Drain::Blocked,
            () if is(Drain::Unknown) || nodes.is_empty() => Drain::Unknown,
            () => Drain::Finishes,
        };
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "DrainCheckList".to_owned(),
            drain,
            why,
            nodes,
        }
    }
}

/// A line for each node that refuses a pod.
pub(super) fn lines(refusals: &[NodeRefusal]) -> Vec<String> {
    refusals
        .iter()
        .map(|refusal| format!("  {}: {}", refusal.node, refusal.why))
        .collect()
}
