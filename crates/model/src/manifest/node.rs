//! A YAML value in which each part keeps its line.
//!
//! This is the reader's result: scalars are already resolved the way RKE2 resolves them, keys are strings and unique,
//! aliases are expanded.

use std::collections::HashMap;

use serde_json::Number;

use super::budget::MOST_PROBLEMS;

/// One value and the line (from 1) on which it starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Line in the file, counted from 1.
    pub line: u32,
    pub value: NodeValue,
}

/// A resolved YAML value: every JSON type.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Sequence(Vec<Node>),
    /// A map with unique string keys, in the order in which they were written
    Mapping(Vec<MapEntry>),
}

/// One `key: value` of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct MapEntry {
    /// The key as a string, as in JSON.
    pub key: String,
    /// Line of the key, counted from 1.
    pub line: u32,
    pub value: Node,
}

impl Node {
    /// The value under `key`, if this is a map with this key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The whole entry under `key`, with the key's own line.
    pub fn entry(&self, key: &str) -> Option<&MapEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Follows a path of map keys.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The string at a path of map keys, if it is a string and not empty.
    pub fn str_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path)?.as_str().filter(|text| !text.is_empty())
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            NodeValue::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            NodeValue::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The items of a list; none for anything else.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            NodeValue::Sequence(items) => items,
            _ => &[],
        }
    }

    /// The items of the list with this key; none for anything else.
    pub fn list(&self, key: &str) -> &[Node] {
        self.get(key).map_or(&[], Node::items)
    }

    /// The entries of a map; none for anything else.
    pub fn entries(&self) -> &[MapEntry] {
        match &self.value {
            NodeValue::Mapping(entries) => entries,
            _ => &[],
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self.value, NodeValue::Null)
    }

    /// The common name of this type of value, for error messages.
    pub fn type_name(&self) -> &'static str {
        match self.value {
            NodeValue::Null => "null",
            NodeValue::Bool(_) => "a boolean",
            NodeValue::Number(_) => "a number",
            NodeValue::String(_) => "a string",
            NodeValue::Sequence(_) => "a list",
            NodeValue::Mapping(_) => "a map",
        }
    }

    /// A JSON value with all its parts on one line.
    pub fn from_json(value: serde_json::Value, line: u32) -> Self {
        let value = match value {
            serde_json::Value::Null => NodeValue::Null,
            serde_json::Value::Bool(value) => NodeValue::Bool(value),
            serde_json::Value::Number(number) => NodeValue::Number(number),
            serde_json::Value::String(text) => NodeValue::String(text),
            serde_json::Value::Array(items) => {
                let items = items.into_iter().map(|item| Self::from_json(item, line));
                NodeValue::Sequence(items.collect())
            }
            serde_json::Value::Object(entries) => {
                let entries = entries.into_iter().map(|(key, value)| MapEntry {
                    key,
                    line,
                    value: Self::from_json(value, line),
                });
                NodeValue::Mapping(entries.collect())
            }
        };
        Self { line, value }
    }

    /// The same value without lines.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            NodeValue::Null => serde_json::Value::Null,
            NodeValue::Bool(value) => serde_json::Value::Bool(*value),
            NodeValue::Number(number) => serde_json::Value::Number(number.clone()),
            NodeValue::String(text) => serde_json::Value::String(text.clone()),
            NodeValue::Sequence(items) => items.iter().map(Node::to_json).collect(),
            NodeValue::Mapping(entries) => serde_json::Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.to_json()))
                    .collect(),
            ),
        }
    }
}

/// Keeps the last of the entries that share a key, as RKE2 does. Also returns the repeated ones: the key, its last line
/// and the one before.
pub(super) fn keep_last(mut entries: Vec<MapEntry>) -> (Vec<MapEntry>, Vec<(String, u32, u32)>) {
    // Nearly all maps are small or sorted, and need no table.
    let sorted = || entries.windows(2).all(|pair| pair[0].key < pair[1].key);
    let few_and_different = || {
        entries.len() <= 16
            && entries
                .iter()
                .enumerate()
                .all(|(at, entry)| entries[..at].iter().all(|other| other.key != entry.key))
    };
    if sorted() || few_and_different() {
        return (entries, Vec::new());
    }
    let mut last: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
    let mut dropped = vec![false; entries.len()];
    let mut repeated = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        if let Some(earlier) = last.insert(&entry.key, at) {
            dropped[earlier] = true;
            if repeated.len() > MOST_PROBLEMS {
                continue;
            }
            repeated.push((entry.key.clone(), entry.line, entries[earlier].line));
        }
    }
    let mut dropped = dropped.into_iter();
    entries.retain(|_| !dropped.next().unwrap_or(false));
    (entries, repeated)
}
