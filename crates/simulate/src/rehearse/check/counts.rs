//! How much a check read, and how many findings of each verdict it has.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::manifest::{Node, yaml};
use windrow_model::unchecked::NotChecked;

use super::finding::CheckedFinding;
use super::verdict::CheckVerdict;

/// The size of one input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InputSize {
    /// The Kubernetes objects in its manifests.
    pub objects: u64,
    /// The keys of its configurations.
    pub keys: u64,
}

/// The inputs of a node, by their names in messages.
pub type InputSizes = BTreeMap<String, InputSize>;

/// The number of keys in a configuration, at all levels.
pub fn keys_in(text: &str) -> u64 {
    let root = yaml::parse_configuration(text).ok().flatten();
    root.as_ref().map_or(0, keys_below)
}

fn keys_below(node: &Node) -> u64 {
    let entries = node.entries().iter();
    let entries: u64 = entries.map(|entry| 1 + keys_below(&entry.value)).sum();
    entries + node.items().iter().map(keys_below).sum::<u64>()
}

/// What a check read, and what it found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckCounts {
    /// Number of files.
    pub files: u64,
    /// Number of Kubernetes objects in them.
    pub objects: u64,
    /// Number of keys in the configurations among them, at all levels.
    pub keys: u64,
    /// Number of findings with the verdict fail.
    pub fail: u64,
    /// Number of findings with the verdict unknown.
    pub unknown: u64,
    /// Number of findings with the verdict warn.
    pub warn: u64,
    /// Number of findings that do not change the verdict.
    pub notice: u64,
    /// Number of accepted findings.
    pub accepted: u64,
    /// Number of things that no rule judged.
    pub not_checked: u64,
}

impl CheckCounts {
    pub(super) fn new(
        inputs: &InputSizes,
        findings: &[CheckedFinding],
        not_checked: &[NotChecked],
    ) -> Self {
        let mut counts = Self {
            files: inputs.len() as u64,
            objects: inputs.values().map(|size| size.objects).sum(),
            keys: inputs.values().map(|size| size.keys).sum(),
            not_checked: not_checked.len() as u64,
            ..Self::default()
        };
        for finding in findings {
            let count = match (finding.accepted.is_some(), finding.counts()) {
                (true, _) => &mut counts.accepted,
                (false, CheckVerdict::Fail) => &mut counts.fail,
                (false, CheckVerdict::Unknown) => &mut counts.unknown,
                (false, CheckVerdict::Warn) => &mut counts.warn,
                (false, CheckVerdict::Pass) => &mut counts.notice,
            };
            *count += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::keys_in;

    #[test]
    fn the_keys_of_all_levels_count_and_those_in_a_text_do_not() {
        let text = "a: 1\nb:\n  c: [{d: 1}, {d: 2, e: 3}]\nf: |\n  g: 1\n";
        assert_eq!(keys_in(text), 7);
        assert_eq!(keys_in("a: ["), 0);
    }
}
