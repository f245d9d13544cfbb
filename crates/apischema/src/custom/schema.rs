//! Accessors for structural schemas.

use windrow_model::manifest::{Node, NodeValue};

pub(crate) fn is_true(schema: &Node, key: &str) -> bool {
    schema.get(key).and_then(Node::as_bool) == Some(true)
}

/// The list under a key; empty if it is absent.
pub(crate) fn items_of<'n>(schema: &'n Node, key: &str) -> &'n [Node] {
    schema.list(key)
}

pub(super) fn is_int_or_string(schema: &Node) -> bool {
    is_true(schema, "x-kubernetes-int-or-string")
}

/// The type of a value, or `integer or string`. `None` if any type is valid.
pub(super) fn expected_type(schema: &Node) -> Option<&str> {
    match is_int_or_string(schema) {
        true => Some("integer or string"),
        false => schema.str_at(&["type"]),
    }
}

/// The default of a value. A null is not a default.
pub(super) fn default_of(schema: &Node) -> Option<&Node> {
    schema.get("default").filter(|default| !default.is_null())
}

/// The rule for values under keys that have no schema.
pub(super) enum Others<'n> {
    /// Such keys are dropped.
    Dropped,
    /// Any value is valid, and the fields of maps in it are unknown.
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

pub(super) fn below<'n>(schema: &'n Node, key: &str) -> Option<&'n Node> {
    schema
        .get("properties")
        .and_then(|properties| properties.get(key))
        .or(match others(schema) {
            Others::Schema(schema) => Some(schema),
            Others::Dropped | Others::Any => None,
        })
}

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

/// The name that kube-apiserver uses for the type of a value.
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
