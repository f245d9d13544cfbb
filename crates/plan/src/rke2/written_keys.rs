//! The keys of RKE2's files with all of their values, merged as RKE2 merges them.

use std::collections::BTreeMap;

use windrow_model::findings::Location;
use windrow_model::manifest::{Node, NodeValue};

use super::config::{ConfigItem, Rke2ConfigFile, in_order, pairs, text};

/// A key with all of its values, merged as RKE2 merges them.
#[derive(Default)]
pub(super) struct WrittenKey {
    pub(super) values: Vec<WrittenValue>,
    /// Whether its last plain entry has no value.
    pub(super) is_null: bool,
    pub(super) at: Option<Location>,
}

pub(super) struct WrittenValue {
    pub(super) item: ConfigItem,
    /// The type of a value that is neither a text, a number nor a boolean.
    pub(super) no_text: Option<&'static str>,
}

/// All keys of the files, except those of a file that RKE2 refuses.
pub(super) fn written(files: &[Rke2ConfigFile]) -> BTreeMap<String, WrittenKey> {
    let mut keys: BTreeMap<String, WrittenKey> = BTreeMap::new();
    for file in in_order(files) {
        for entry in pairs(file).unwrap_or_default() {
            let name = entry.key.trim();
            let (name, appends) = match name.strip_suffix('+') {
                Some(name) => (name, true),
                None => (name, false),
            };
            let key = keys.entry(name.to_owned()).or_default();
            if !appends {
                key.values.clear();
                key.is_null = entry.value.is_null();
            }
            key.at = Some(file.at(entry.line));
            let nodes = match &entry.value.value {
                NodeValue::Sequence(items) => &items[..],
                NodeValue::Null => &[],
                _ => std::slice::from_ref(&entry.value),
            };
            key.values.extend(nodes.iter().map(|node| WrittenValue {
                item: ConfigItem {
                    text: text(node),
                    at: file.at(node.line),
                },
                no_text: not_a_text(node),
            }));
        }
    }
    keys
}

fn not_a_text(node: &Node) -> Option<&'static str> {
    let is_other = matches!(node.value, NodeValue::Mapping(_) | NodeValue::Sequence(_));
    is_other.then(|| node.type_name())
}
