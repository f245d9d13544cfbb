//! Prepares an object for validation: removes unknown fields and disallowed nulls, and sets defaults.
//!
//! Source: `structuralpruning.Prune`, `PruneNonNullableNullsWithoutDefaults` and `Default` of k8s.io/apiextensions-apiserver
//! v0.36.3.

use windrow_model::manifest::{MapEntry, Node, NodeValue};
use windrow_model::suggest;

use super::schema::{Others, below, default_of, is_true, others};
use crate::catalogue::CATALOGUE;
use crate::path::Path;
use crate::problem::{Problem, ProblemKind};

/// kube-apiserver keeps these fields of every object, regardless of the schema.
const OF_OBJECTS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The prepared object and the dropped fields.
pub(super) fn prepare(schema: &Node, node: &Node, drops_status: bool) -> (Node, Vec<Problem>) {
    let mut dropped = Vec::new();
    let mut prepared = node.clone();
    prune(&mut prepared, Some(schema), &Path::ROOT, true, &mut dropped);
    set_defaults(&mut prepared, schema);
    if let NodeValue::Mapping(entries) = &mut prepared.value
        && drops_status
    {
        entries.retain(|entry| entry.key != "status");
    }
    (prepared, dropped)
}

/// The prepared default of a schema, and whether it has fields that are not in the schema.
pub(crate) fn prune_default(schema: &Node, default: &Node) -> (Node, bool) {
    let mut dropped = Vec::new();
    let mut pruned = default.clone();
    prune(&mut pruned, Some(schema), &Path::ROOT, false, &mut dropped);
    (pruned, !dropped.is_empty())
}

/// Drops fields that are not in the schema, and nulls that it does not allow. Without a schema all fields are unknown.
fn prune(
    node: &mut Node,
    schema: Option<&Node>,
    path: &Path<'_>,
    is_object: bool,
    dropped: &mut Vec<Problem>,
) {
    let is_object =
        is_object || schema.is_some_and(|schema| is_true(schema, "x-kubernetes-embedded-resource"));
    let preserves =
        schema.is_some_and(|schema| is_true(schema, "x-kubernetes-preserve-unknown-fields"));
    // kube-apiserver rejects a schema that does not describe its fields.
    let knows_fields = schema.is_none_or(|schema| schema.str_at(&["type"]) == Some("object"));
    match &mut node.value {
        NodeValue::Mapping(entries) => entries.retain_mut(|entry| {
            if is_object && OF_OBJECTS.contains(&&*entry.key) {
                if entry.key == "metadata" {
                    prune_metadata(&entry.value, &path.field("metadata"), dropped);
                }
                return true;
            }
            let inner = schema.and_then(|schema| below(schema, &entry.key));
            let is_known = inner.is_some()
                || schema.is_some_and(|schema| matches!(others(schema), Others::Any));
            if !is_known && (preserves || !knows_fields) {
                return true;
            }
            if !is_known {
                dropped.push(unknown_field(schema, entry, path));
                return false;
            }
            if inner.is_some_and(|inner| is_unwanted_null(&entry.value, inner)) {
                return default_of_null(inner);
            }
            let at = match schema.is_some_and(|schema| has_property(schema, &entry.key)) {
                true => path.field(&entry.key),
                false => path.key(&entry.key),
            };
            prune(&mut entry.value, inner, &at, false, dropped);
            true
        }),
        NodeValue::Sequence(items) if !preserves => {
            let inner = schema.and_then(|schema| schema.get("items"));
            for (index, item) in items.iter_mut().enumerate() {
                prune(item, inner, &path.index(index), false, dropped);
            }
        }
        _ => {}
    }
}

/// Metadata have the fields of Kubernetes, regardless of the schema.
fn prune_metadata(metadata: &Node, path: &Path<'_>, dropped: &mut Vec<Problem>) {
    let known = CATALOGUE.fields("meta.ObjectMeta");
    for entry in metadata.entries() {
        if !known.iter().any(|field| field.name == entry.key) {
            dropped.push(unknown_field(None, entry, path));
        }
    }
}

fn has_property(schema: &Node, key: &str) -> bool {
    schema.at(&["properties", key]).is_some()
}

fn is_unwanted_null(node: &Node, schema: &Node) -> bool {
    node.is_null() && !is_true(schema, "nullable")
}

/// True if a null stays until defaults are set.
fn default_of_null(schema: Option<&Node>) -> bool {
    schema.is_some_and(|schema| default_of(schema).is_some())
}

fn unknown_field(schema: Option<&Node>, entry: &MapEntry, path: &Path<'_>) -> Problem {
    let properties = schema.and_then(|schema| schema.get("properties"));
    let names = properties.map_or(&[][..], Node::entries);
    let near = suggest::nearest(&entry.key, names.iter().map(|one| &*one.key));
    let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    Problem {
        kind: ProblemKind::UnknownField,
        line: entry.line,
        field: path.field(&entry.key).to_string(),
        message: format!("is not a field of the definition, and is dropped{hint}"),
        refusal: None,
    }
}

fn set_defaults(node: &mut Node, schema: &Node) {
    let line = node.line;
    match &mut node.value {
        NodeValue::Mapping(entries) => {
            let properties = schema.get("properties").map_or(&[][..], Node::entries);
            for property in properties {
                let Some(default) = default_of(&property.value) else {
                    continue;
                };
                match entries.iter_mut().find(|entry| entry.key == property.key) {
                    Some(entry) if is_unwanted_null(&entry.value, &property.value) => {
                        entry.value = at_line(default, entry.line);
                    }
                    Some(_) => {}
                    None => entries.push(MapEntry {
                        key: property.key.clone(),
                        line,
                        value: at_line(default, line),
                    }),
                }
            }
            for entry in entries {
                if let Some(inner) = below(schema, &entry.key) {
                    set_default(&mut entry.value, inner);
                }
            }
        }
        NodeValue::Sequence(items) => {
            if let Some(inner) = schema.get("items") {
                for item in items {
                    set_default(item, inner);
                }
            }
        }
        _ => {}
    }
}

fn set_default(node: &mut Node, schema: &Node) {
    if let Some(default) = default_of(schema).filter(|_| is_unwanted_null(node, schema)) {
        *node = at_line(default, node.line);
    }
    set_defaults(node, schema);
}

/// A default is in another file, so its errors are reported at the place of the absent field.
fn at_line(default: &Node, line: u32) -> Node {
    let value = match &default.value {
        NodeValue::Sequence(items) => {
            NodeValue::Sequence(items.iter().map(|item| at_line(item, line)).collect())
        }
        NodeValue::Mapping(entries) => NodeValue::Mapping(
            entries
                .iter()
                .map(|entry| MapEntry {
                    key: entry.key.clone(),
                    line,
                    value: at_line(&entry.value, line),
                })
                .collect(),
        ),
        scalar => scalar.clone(),
    };
    Node { line, value }
}
