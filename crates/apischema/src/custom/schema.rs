//! How a structural schema is read.

use windrow_model::manifest::{Node, NodeValue};

/// Is this set in the schema?
pub(crate) fn is_true(schema: &Node, key: &str) -> bool {
    schema.get(key).and_then(Node::as_bool) == Some(true)
}

/// The list under a key; nothing where there is none.
pub(crate) fn items_of<'n>(schema: &'n Node, key: &str) -> &'n [Node] {
    schema.get(key).map_or(&[], Node::items)
}

pub(super) fn is_int_or_string(schema: &Node) -> bool {
    is_true(schema, "x-kubernetes-int-or-string")
}

/// What a value may be: `integer or string`, or the one type; nothing where any is taken.
pub(super) fn expected_type(schema: &Node) -> Option<&str> {
    match is_int_or_string(schema) {
        true => Some("integer or string"),
        false => schema.str_at(&["type"]),
    }
}

/// The default of a value. A null is none.
pub(super) fn default_of(schema: &Node) -> Option<&Node> {
    schema.get("default").filter(|default| !default.is_null())
}

/// What values under keys without a schema of their own are held to.
pub(super) enum Others<'n> {
    /// There may be none, and they are dropped.
    Dropped,
    /// Any, but in maps below them nothing is known.
    Any,
    Schema(&'n Node),
}

pub(super) fn others(schema: &Node) -> Others<'_> {
    match schema.get("additionalProperties") {
        None => Others::Dropped,
        Some(node) => match node.value {
            NodeValue::Mapping(_) => Others::Schema(node),
            NodeValue::Null => Others::Dropped,
            _ => Others::Any,
        },
    }
}

/// The schema of the value under a key.
pub(super) fn below<'n>(schema: &'n Node, key: &str) -> Option<&'n Node> {
    schema
        .get("properties")
        .and_then(|properties| properties.get(key))
        .or(match others(schema) {
            Others::Schema(schema) => Some(schema),
            Others::Dropped | Others::Any => None,
        })
}

/// Has it the value's type?
pub(super) fn has_type(schema: &Node, node: &Node) -> bool {
    if is_int_or_string(schema) {
        return match &node.value {
            NodeValue::String(_) => true,
            NodeValue::Number(number) => is_whole(number),
            _ => false,
        };
    }
    match (schema.str_at(&["type"]), &node.value) {
        (Some("string"), NodeValue::String(_))
        | (Some("boolean"), NodeValue::Bool(_))
        | (Some("array"), NodeValue::Sequence(_))
        | (Some("object"), NodeValue::Mapping(_))
        | (Some("number"), NodeValue::Number(_)) => true,
        (Some("integer"), NodeValue::Number(number)) => is_whole(number),
        (Some("string" | "boolean" | "array" | "object" | "number" | "integer"), _) => false,
        _ => true,
    }
}

fn is_whole(number: &serde_json::Number) -> bool {
    number.is_i64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// What kube-apiserver calls the type of a value.
pub(super) fn json_type(node: &Node) -> &'static str {
    match &node.value {
        NodeValue::Null => "null",
        NodeValue::Bool(_) => "boolean",
        NodeValue::Number(number) if number.is_i64() => "integer",
        NodeValue::Number(_) => "number",
        NodeValue::String(_) => "string",
        NodeValue::Sequence(_) => "array",
        NodeValue::Mapping(_) => "object",
    }
}
