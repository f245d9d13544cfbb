//! Validates lists and maps in schemas that are merged item by item (`x-kubernetes-list-type`, `x-kubernetes-map-type`).
//!
//! Source: see `structural`.

use windrow_model::manifest::{Node, NodeValue};

use super::Checker;
use super::definition::line_of;
use crate::custom::{is_true, items_of};
use crate::path::Path;
use crate::problem::Reason;

impl Checker<'_> {
    pub(super) fn list_and_map_types(&mut self, schema: &Node, path: &Path<'_>) {
        for (field, of, known) in [
            (
                "x-kubernetes-map-type",
                "object",
                &["atomic", "granular"][..],
            ),
            (
                "x-kubernetes-list-type",
                "array",
                &["atomic", "set", "map"][..],
            ),
        ] {
            let Some(text) = schema.get(field).and_then(Node::as_str) else {
                continue;
            };
            let kind = schema.str_at(&["type"]).unwrap_or_default();
            if kind != of {
                let why = format!("must be {of} if {field} is specified");
                let line = line_of(schema, "type");
                self.add(line, &path.field("type"), Reason::Invalid, &why);
            }
            if !known.contains(&text) {
                let why = format!("supported values: {}", known.join(", "));
                let line = line_of(schema, field);
                self.add(line, &path.field(field), Reason::Unsupported, &why);
            }
        }
        let list_type = schema.str_at(&["x-kubernetes-list-type"]);
        let keys = items_of(schema, "x-kubernetes-list-map-keys");
        if !keys.is_empty() && list_type != Some("map") {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            let at = path.field("x-kubernetes-list-type");
            self.add(schema.line, &at, Reason::Invalid, why);
        }
        let Some(items) = schema.get("items").filter(|items| is_map(items)) else {
            return;
        };
        if matches!(list_type, Some("set" | "map")) && is_true(items, "nullable") {
            let at = path.field("items");
            let why = "cannot be nullable when x-kubernetes-list-type is set or map";
            let line = line_of(items, "nullable");
            self.add(line, &at.field("nullable"), Reason::Forbidden, why);
        }
        match list_type {
            Some("map") => self.keys_of_map(schema, items, keys, path),
            Some("set") => {
                let (field, fits) = match items.str_at(&["type"]) {
                    Some("object") => (
                        "x-kubernetes-map-type",
                        items.str_at(&["x-kubernetes-map-type"]) == Some("atomic"),
                    ),
                    Some("array") => (
                        "x-kubernetes-list-type",
                        matches!(
                            items.str_at(&["x-kubernetes-list-type"]),
                            None | Some("atomic")
                        ),
                    ),
                    _ => return,
                };
                if !fits {
                    let at = path.field("items");
                    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
                    self.add(items.line, &at.field(field), Reason::Invalid, why);
                }
            }
            _ => {}
        }
    }

    fn keys_of_map(&mut self, schema: &Node, items: &Node, keys: &[Node], path: &Path<'_>) {
        let at = path.field("x-kubernetes-list-map-keys");
        if keys.is_empty() {
            let why = "must not be empty if x-kubernetes-list-type is map";
            self.add(schema.line, &at, Reason::Required, why);
        }
        let inner = path.field("items");
        if items.str_at(&["type"]) != Some("object") {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            self.add(items.line, &inner.field("type"), Reason::Invalid, why);
            return;
        }
        let properties = inner.field("properties");
        let required = items_of(items, "required");
        for key in keys {
            let name = key.as_str().unwrap_or_default();
            let Some(property) = items.at(&["properties", name]) else {
                let why = "entries must all be names of item properties";
                self.add(key.line, &at, Reason::Invalid, why);
                continue;
            };
            let property_at = properties.key(name);
            if matches!(property.str_at(&["type"]), Some("array" | "object")) {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                self.add(
                    property.line,
                    &property_at.field("type"),
                    Reason::Invalid,
                    why,
                );
            }
            let is_required = required.iter().any(|one| one.as_str() == Some(name));
            if !is_required && property.get("default").is_none_or(Node::is_null) {
                let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.add(
                    property.line,
                    &property_at.field("default"),
                    Reason::Required,
                    why,
                );
            }
            if is_true(property, "nullable") {
                let why =
                    "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.add(
                    property.line,
                    &property_at.field("nullable"),
                    Reason::Forbidden,
                    why,
                );
            }
        }
    }
}

fn is_map(node: &Node) -> bool {
    matches!(node.value, NodeValue::Mapping(_))
}
