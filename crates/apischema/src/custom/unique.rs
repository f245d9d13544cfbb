//! Checks lists that are sets (`x-kubernetes-list-type: set`), or maps with some of their fields as keys.
//!
//! Source: pkg/apiserver/schema/listtype of k8s.io/apiextensions-apiserver v0.36.3.

use serde_json::Value;
use windrow_model::manifest::{Node, NodeValue};

use super::schema::{below, items_of};
use crate::path::Path;
use crate::problem::{Problem, Reason};

pub(super) fn check(schema: &Node, node: &Node, path: &Path<'_>, problems: &mut Vec<Problem>) {
    match &node.value {
        NodeValue::Mapping(entries) => {
            for entry in entries {
                if let Some(inner) = below(schema, &entry.key) {
                    check(inner, &entry.value, &path.field(&entry.key), problems);
                }
            }
        }
        NodeValue::Sequence(items) => {
            match schema.str_at(&["x-kubernetes-list-type"]) {
                Some("set") => {
                    let values = items.iter().map(Node::to_json).collect();
                    add_repeated(items, values, path, problems);
                }
                Some("map") => {
                    let keys = items_of(schema, "x-kubernetes-list-map-keys");
                    let values = items.iter().map(|item| keys_of(item, keys)).collect();
                    add_repeated(items, values, path, problems);
                }
                _ => {}
            }
            for (index, item) in items.iter().enumerate() {
                if let Some(inner) = schema.get("items") {
                    check(inner, item, &path.index(index), problems);
                }
            }
        }
        _ => {}
    }
}

/// The keys of an item. An absent field counts as a key too.
fn keys_of(item: &Node, keys: &[Node]) -> Value {
    let there = keys.iter().filter_map(|key| {
        let key = key.as_str()?;
        Some((key.to_owned(), item.get(key)?.to_json()))
    });
    Value::Object(there.collect())
}

fn add_repeated(items: &[Node], values: Vec<Value>, path: &Path<'_>, problems: &mut Vec<Problem>) {
    for (index, (item, value)) in items.iter().zip(&values).enumerate() {
        if values[..index].contains(value) {
            let at = path.index(index);
            let problem = Problem::invalid(item.line, &at, Reason::Duplicate, "");
            problems.push(problem);
        }
    }
}
