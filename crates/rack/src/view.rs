//! The state of all nodes: their rows, the most urgent first, and the number of nodes per word.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::group::machines;
use crate::identity::NodeIdentity;
use crate::inventory::Inventory;
use crate::record::NodeRecord;
use crate::row::{Attention, NodeRow, RackWord, ViewTime};

/// All nodes, `apiVersion: windrow.dev/v1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RackView {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Rack`
    pub kind: String,
    /// Time of this view.
    pub at: Timestamp,
    /// Number of nodes per word.
    pub counts: RackCounts,
    /// Notices about all nodes.
    pub notices: Vec<RackNotice>,
    /// The nodes, the most urgent first.
    pub nodes: Vec<NodeRow>,
}

/// Numbers of nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RackCounts {
    /// All nodes.
    pub total: usize,
    /// Nodes in the inventory.
    pub expected: usize,
    /// Ready nodes.
    pub ready: usize,
    /// Ready nodes with a problem.
    pub degraded: usize,
    /// Starting nodes.
    pub setting_up: usize,
    /// Starting nodes without progress.
    pub hanging: usize,
    /// Failed nodes.
    pub failed: usize,
    /// Nodes that do not know their own state.
    pub unknown: usize,
    /// Nodes that have stopped reporting.
    pub silent: usize,
    /// Nodes that have never reported.
    pub never_came: usize,
}

/// A notice about all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RackNotice {
    /// The notice in one line.
    pub text: String,
}

impl RackView {
    /// The worst word of all nodes, if there are any: failed before unknown, and unknown before not yet ready. A node with
    /// contradicting reports counts as unknown.
    pub fn worst(&self) -> Option<RackWord> {
        let rank = |word: RackWord| match word {
            RackWord::Ready | RackWord::Degraded => 0,
            RackWord::SettingUp | RackWord::NeverCame => 1,
            RackWord::Unknown | RackWord::Silent => 2,
            RackWord::Failed => 3,
        };
        let words = self.nodes.iter().map(|row| {
            if row.attention == Attention::Conflict && rank(row.word) < rank(RackWord::Unknown) {
                RackWord::Unknown
            } else {
                row.word
            }
        });
        words.max_by_key(|word| rank(*word))
    }

    pub fn node(&self, id: &str) -> Option<&NodeRow> {
        self.nodes.iter().find(|row| row.id == id)
    }
}

pub(crate) fn view(
    inventory: &Inventory,
    records: &BTreeMap<NodeIdentity, NodeRecord>,
    at: ViewTime,
    notices: Vec<RackNotice>,
) -> RackView {
    let now = at.now;
    let machines = machines(inventory, records);
    let mut came = vec![false; inventory.nodes.len()];
    let mut rows: Vec<(String, NodeRow)> = Vec::new();
    for machine in &machines {
        if let Some(number) = machine.expected {
            came[number] = true;
        }
        let expected = machine.expected.map(|number| &inventory.nodes[number]);
        let row = NodeRow::of_machine(machine, expected, at);
        rows.push((machine.key.text().to_owned(), row));
    }
    let missing = inventory
        .nodes
        .iter()
        .zip(&came)
        .filter(|(_, came)| !**came);
    rows.extend(
        missing.map(|(node, _)| (format!("expected {}", node.name), NodeRow::never_came(node))),
    );
    name_rows(&mut rows);
    let mut nodes: Vec<NodeRow> = rows.into_iter().map(|(_, row)| row).collect();
    tell_skew(&mut nodes, "windrow", |row| &row.version);
    tell_skew(&mut nodes, "RKE2", |row| &row.rke2_version);
    nodes.sort_by_cached_key(|row| {
        (
            row.attention,
            row.since.unwrap_or(now),
            natural(&row.name),
            row.id.clone(),
        )
    });
    RackView {
        api_version: "windrow.dev/v1".to_owned(),
        kind: "Rack".to_owned(),
        at: now,
        counts: count(&nodes),
        notices,
        nodes,
    }
}

/// Uses the name of a row as its ID, if no other row has the same name.
fn name_rows(rows: &mut [(String, NodeRow)]) {
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for (_, row) in rows.iter() {
        *names.entry(row.name.clone()).or_default() += 1;
    }
    for (key, row) in rows {
        // Names in the inventory are unique, so an unknown machine with the same name does not get its URL.
        let is_only = row.expected || names.get(&row.name) == Some(&1);
        row.name_row(key, is_only);
    }
}

fn tell_skew(rows: &mut [NodeRow], of: &str, version: fn(&NodeRow) -> &String) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| !version(row).is_empty()) {
        *counts.entry(version(row).clone()).or_default() += 1;
    }
    let Some((most, count)) = counts.iter().max_by_key(|(_, count)| **count) else {
        return;
    };
    for row in rows {
        let own = version(row).clone();
        let fewer = counts.get(&own).is_some_and(|own| own < count);
        if !own.is_empty() && own != *most && fewer {
            row.note_skew(format!("{of} {own}, most have {most}"));
        }
    }
}

fn count(rows: &[NodeRow]) -> RackCounts {
    let mut counts = RackCounts {
        total: rows.len(),
        expected: rows.iter().filter(|row| row.expected).count(),
        ..RackCounts::default()
    };
    for row in rows {
        match row.word {
            RackWord::Ready => counts.ready += 1,
            RackWord::Degraded => counts.degraded += 1,
            RackWord::SettingUp => counts.setting_up += 1,
            RackWord::Failed => counts.failed += 1,
            RackWord::Unknown => counts.unknown += 1,
            RackWord::Silent => counts.silent += 1,
            RackWord::NeverCame => counts.never_came += 1,
        }
        let hangs = matches!(row.attention, Attention::Stalled | Attention::Failed);
        if hangs && row.word == RackWord::SettingUp {
            counts.hanging += 1;
        }
    }
    counts
}

/// Natural sort order: `n2` before `n10`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest
            .find(|one: char| one.is_ascii_digit())
            .unwrap_or(rest.len());
        let (text, after) = rest.split_at(digits);
        let end = after
            .find(|one: char| !one.is_ascii_digit())
            .unwrap_or(after.len());
        let (number, after) = after.split_at(end);
        parts.push((text.to_owned(), number.parse().unwrap_or(u64::MAX)));
        rest = after;
    }
    parts
}
