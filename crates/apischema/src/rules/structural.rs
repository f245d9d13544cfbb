//! Validates the schemas of CustomResourceDefinitions, which must be structural.
//!
//! Source: pkg/apiserver/schema/validation.go, complete.go and defaulting/validation.go, and
//! `ValidateCustomResourceDefinitionOpenAPISchema`, of k8s.io/apiextensions-apiserver v0.36.3.

use windrow_model::manifest::{Node, NodeValue};

use super::Checker;
use super::definition::line_of;
use crate::catalogue::CATALOGUE;
use crate::custom::{Validator, is_true, items_of, prune_default};
use crate::path::Path;
use crate::problem::{Problem, ProblemKind, Reason};

/// The first minor in which a rule may use formats. In new rules, 1.31 accepts only the features of 1.30.
const FORMATS: u16 = 32;

const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];

/// Keywords of JSON Schema that kube-apiserver rejects.
const UNSUPPORTED: [&str; 6] = [
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
];

/// Keywords that define values, which are not allowed under `allOf` and similar keywords.
const STRUCTURE: [&str; 11] = [
    "additionalProperties",
    "default",
    "title",
    "description",
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// The position of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

impl Checker<'_> {
    pub(super) fn schema(&mut self, schema: &Node, path: &Path<'_>) {
        if is_true(schema, "nullable") {
            let line = line_of(schema, "nullable");
            let why = "nullable cannot be true at the root";
            self.add(line, &path.field("nullable"), Reason::Forbidden, why);
        }
        let metadata = schema.at(&["properties", "metadata", "properties"]);
        for entry in metadata.map_or(&[][..], Node::entries) {
            if !["name", "generateName"].contains(&&*entry.key) {
                let properties = path.field("properties");
                let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
                let at = properties.key("metadata");
                self.add(entry.line, &at, Reason::Forbidden, why);
            }
        }
        self.structure(schema, Level::Root, path);
    }

    fn structure(&mut self, schema: &Node, level: Level, path: &Path<'_>) {
        self.keywords(schema, path);
        self.kind_of_value(schema, level, path);
        self.list_and_map_types(schema, path);
        self.default(schema, path);
        self.own_properties(schema, level, path);
        if let Some(items) = schema.get("items").filter(|items| is_map(items)) {
            self.structure(items, Level::Item, &path.field("items"));
        }
        let properties = path.field("properties");
        for entry in schema.get("properties").map_or(&[][..], Node::entries) {
            self.structure(&entry.value, Level::Field, &properties.key(&entry.key));
        }
        if let Some(others) = schema
            .get("additionalProperties")
            .filter(|node| is_map(node))
        {
            self.structure(others, Level::Field, &path.field("additionalProperties"));
        }
        let is_choice = is_int_or_string_choice(items_of(schema, "anyOf"));
        // Only values at the root must be complete.
        let outer = (level == Level::Root).then_some(schema);
        self.parts(schema, outer, is_choice, path);
    }

    /// Validates the schemas under `allOf`, `anyOf`, `oneOf` and `not`. `outer` is the schema that must also define their values,
    /// if there is one.
    fn parts(&mut self, schema: &Node, outer: Option<&Node>, is_choice: bool, path: &Path<'_>) {
        for junctor in ["allOf", "anyOf", "oneOf"] {
            if junctor == "anyOf" && is_choice {
                continue;
            }
            let list = path.field(junctor);
            for (index, part) in items_of(schema, junctor).iter().enumerate() {
                let first = junctor == "allOf" && index == 0;
                let is_choice = first && is_int_or_string_choice(items_of(part, "anyOf"));
                self.part(part, outer, is_choice, &list.index(index));
            }
        }
        if let Some(not) = schema.get("not").filter(|not| is_map(not)) {
            self.part(not, outer, false, &path.field("not"));
        }
    }

    fn part(&mut self, part: &Node, outer: Option<&Node>, is_choice: bool, path: &Path<'_>) {
        self.keywords(part, path);
        if part.str_at(&["type"]).is_some() {
            let line = line_of(part, "type");
            let why = "must be empty to be structural";
            self.add(line, &path.field("type"), Reason::Forbidden, why);
        }
        for field in STRUCTURE {
            if part.get(field).is_some_and(is_set) {
                let line = line_of(part, field);
                let why = "must not be set here to be structural";
                self.add(line, &path.field(field), Reason::Forbidden, why);
            }
        }
        if !items_of(part, "x-kubernetes-validations").is_empty() {
            let at = path.field("x-kubernetes-validations");
            let why = "must be empty to be structural";
            self.add(part.line, &at, Reason::Forbidden, why);
        }
        if let Some(items) = part.get("items").filter(|items| is_map(items)) {
            let at = path.field("items");
            let of_outer = outer.map(|outer| outer.get("items"));
            self.part_below(items, items.line, of_outer, &at);
        }
        let properties = path.field("properties");
        for entry in part.get("properties").map_or(&[][..], Node::entries) {
            let at = properties.key(&entry.key);
            if entry.key == "metadata" {
                let why = "must not be specified in a nested context";
                self.add(entry.line, &at, Reason::Forbidden, why);
            }
            let of_outer = outer.map(|outer| outer.at(&["properties", &entry.key]));
            self.part_below(&entry.value, entry.line, of_outer, &at);
        }
        self.parts(part, outer, is_choice, path);
    }

    /// Validates a schema within such a part. `outer` is present if an outer schema must define it too.
    fn part_below(
        &mut self,
        part: &Node,
        line: u32,
        outer: Option<Option<&Node>>,
        path: &Path<'_>,
    ) {
        match outer {
            Some(None) => {
                let why = "it has to be defined outside of `allOf`, `anyOf`, `oneOf` and `not` too";
                self.add(line, path, Reason::Required, why);
            }
            outer => self.part(part, outer.flatten(), false, path),
        }
    }

    /// Validates the keywords that are rejected everywhere.
    fn keywords(&mut self, schema: &Node, path: &Path<'_>) {
        for field in UNSUPPORTED {
            if schema.get(field).is_some_and(is_set) {
                let line = line_of(schema, field);
                let why = format!("{field} is not supported");
                self.add(line, &path.field(field), Reason::Forbidden, &why);
            }
        }
        if is_true(schema, "uniqueItems") {
            let line = line_of(schema, "uniqueItems");
            let why =
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.add(line, &path.field("uniqueItems"), Reason::Forbidden, why);
        }
        if schema
            .str_at(&["type"])
            .is_some_and(|kind| !TYPES.contains(&kind))
        {
            let line = line_of(schema, "type");
            let why = "supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"";
            self.add(line, &path.field("type"), Reason::Unsupported, why);
        }
        if schema
            .get("items")
            .is_some_and(|items| !items.items().is_empty())
        {
            let line = line_of(schema, "items");
            let why = "items must be a schema object and not an array";
            self.add(line, &path.field("items"), Reason::Forbidden, why);
        }
        let pattern = schema.str_at(&["pattern"]).unwrap_or_default();
        if ["(?=", "(?!", "(?<=", "(?<!"]
            .iter()
            .any(|part| pattern.contains(part))
        {
            let line = line_of(schema, "pattern");
            let why = "must be a valid regular expression, but isn't: it looks ahead or behind, which Go's do not";
            self.add(line, &path.field("pattern"), Reason::Invalid, why);
        }
        let preserves = "x-kubernetes-preserve-unknown-fields";
        if schema.get(preserves).and_then(Node::as_bool) == Some(false) {
            let line = line_of(schema, preserves);
            let why = "must be true or undefined";
            self.add(line, &path.field(preserves), Reason::Invalid, why);
        }
        let rules = path.field("x-kubernetes-validations");
        for (index, rule) in items_of(schema, "x-kubernetes-validations")
            .iter()
            .enumerate()
        {
            self.value_rule(rule, &rules.index(index));
        }
    }

    fn value_rule(&mut self, rule: &Node, path: &Path<'_>) {
        let text = rule.str_at(&["rule"]).unwrap_or_default().trim();
        let message = rule.str_at(&["message"]).unwrap_or_default().trim();
        if text.is_empty() {
            let why = "rule is not specified";
            self.add(
                line_of(rule, "rule"),
                &path.field("rule"),
                Reason::Required,
                why,
            );
        } else if self.minors.last() < FORMATS && text.contains("format.") && uses_formats(text) {
            let why = "its CEL has no formats before 1.32; write a pattern";
            let line = line_of(rule, "rule");
            self.add(line, &path.field("rule"), Reason::Invalid, why);
        } else if message.contains(['\n', '\r']) {
            let why = "must not contain line breaks";
            let line = line_of(rule, "message");
            self.add(line, &path.field("message"), Reason::Invalid, why);
        } else if text.contains(['\n', '\r']) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            self.add(rule.line, &path.field("message"), Reason::Required, why);
        }
        const REASONS: [&str; 4] = [
            "FieldValueRequired",
            "FieldValueForbidden",
            "FieldValueInvalid",
            "FieldValueDuplicate",
        ];
        let reason = rule.str_at(&["reason"]);
        if reason.is_some_and(|reason| !REASONS.contains(&reason)) {
            let why = format!("supported values: {}", REASONS.join(", "));
            let line = line_of(rule, "reason");
            self.add(line, &path.field("reason"), Reason::Unsupported, &why);
        }
    }

    /// Every value must have a type.
    fn kind_of_value(&mut self, schema: &Node, level: Level, path: &Path<'_>) {
        let at = path.field("type");
        let kind = schema.str_at(&["type"]).unwrap_or_default();
        let int_or_string = is_true(schema, "x-kubernetes-int-or-string");
        let preserves = is_true(schema, "x-kubernetes-preserve-unknown-fields");
        let line = line_of(schema, "type");
        let embedded = is_true(schema, "x-kubernetes-embedded-resource");
        if embedded && kind != "object" {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            self.add(line, &at, Reason::Invalid, why);
        } else if kind.is_empty() && !int_or_string && !preserves {
            let why = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.add(line, &at, Reason::Required, why);
        } else if level == Level::Root && kind != "object" && !kind.is_empty() {
            self.add(line, &at, Reason::Invalid, "must be object at the root");
        }
        if kind == "array" && schema.get("items").is_none_or(Node::is_null) {
            self.add(
                schema.line,
                &path.field("items"),
                Reason::Required,
                "must be specified",
            );
        }
        for other in [
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
        ] {
            if int_or_string && is_true(schema, other) {
                let why = "must be false if x-kubernetes-int-or-string is true";
                let line = line_of(schema, other);
                self.add(line, &path.field(other), Reason::Invalid, why);
            }
        }
        let has_properties = !schema
            .get("properties")
            .map_or(&[][..], Node::entries)
            .is_empty();
        if embedded && !preserves && !has_properties {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.add(
                schema.line,
                &path.field("properties"),
                Reason::Required,
                why,
            );
        }
    }

    fn own_properties(&mut self, schema: &Node, level: Level, path: &Path<'_>) {
        let has_properties = !schema
            .get("properties")
            .map_or(&[][..], Node::entries)
            .is_empty();
        let others = schema
            .get("additionalProperties")
            .filter(|node| !node.is_null());
        if let Some(others) = others {
            let at = path.field("additionalProperties");
            let line = line_of(schema, "additionalProperties");
            if level == Level::Root {
                self.add(line, &at, Reason::Forbidden, "must not be used at the root");
            }
            if is_true(schema, "x-kubernetes-embedded-resource") {
                let why = "must not be used if x-kubernetes-embedded-resource is set";
                self.add(line, &at, Reason::Forbidden, why);
            }
            if has_properties && others.as_bool() != Some(true) {
                let why = "additionalProperties and properties are mutual exclusive";
                self.add(line, &at, Reason::Forbidden, why);
            }
        }
        if level == Level::Root || is_true(schema, "x-kubernetes-embedded-resource") {
            let properties = path.field("properties");
            for (name, kind) in [
                ("apiVersion", "string"),
                ("kind", "string"),
                ("metadata", "object"),
            ] {
                let property = schema.at(&["properties", name]).filter(|node| is_map(node));
                let given = property.map(|node| (node, node.str_at(&["type"]).unwrap_or_default()));
                if let Some((node, _)) = given.filter(|(_, given)| *given != kind) {
                    let at = properties.key(name);
                    let why = format!("must be {kind}");
                    self.add(node.line, &at.field("type"), Reason::Invalid, &why);
                }
            }
        }
    }

    /// The schema must accept its own default.
    fn default(&mut self, schema: &Node, path: &Path<'_>) {
        let Some(default) = schema.get("default").filter(|node| !node.is_null()) else {
            return;
        };
        let at = path.field("default");
        let (pruned, has_unknown) = prune_default(schema, default);
        if has_unknown {
            let why = "must not have unknown fields";
            self.add(default.line, &at, Reason::Invalid, why);
        }
        let mut validator = Validator::new(self.minors);
        validator.validate(schema, &pruned, &at);
        for problem in validator.problems {
            // The definition can be decoded with any defaults.
            self.problems.push(Problem {
                kind: ProblemKind::Invalid,
                ..problem
            });
        }
    }
}

fn is_map(node: &Node) -> bool {
    matches!(node.value, NodeValue::Mapping(_))
}

/// True if the value differs from that of an absent field.
fn is_set(node: &Node) -> bool {
    match &node.value {
        NodeValue::Null | NodeValue::Bool(false) => false,
        NodeValue::String(text) => !text.is_empty(),
        NodeValue::Sequence(items) => !items.is_empty(),
        _ => true,
    }
}

/// True for `anyOf: [{type: integer}, {type: string}]`, which is allowed even without types.
fn is_int_or_string_choice(parts: &[Node]) -> bool {
    let known = CATALOGUE.fields("crd.JSONSchemaProps");
    let is_only = |part: &Node, kind: &str| {
        let others = part.entries().iter().filter(|entry| entry.key != "type");
        let mut others = others.filter(|entry| known.iter().any(|field| field.name == entry.key));
        part.str_at(&["type"]) == Some(kind) && !others.any(|entry| is_set(&entry.value))
    };
    matches!(parts, [first, second] if is_only(first, "integer") && is_only(second, "string"))
}

/// Whether a CEL rule calls a format (`Format` in pkg/cel/library of k8s.io/apiserver).
fn uses_formats(rule: &str) -> bool {
    const NAMES: [&str; 14] = [
        "byte",
        "date",
        "datetime",
        "dns1035Label",
        "dns1035LabelPrefix",
        "dns1123Label",
        "dns1123LabelPrefix",
        "dns1123Subdomain",
        "dns1123SubdomainPrefix",
        "labelValue",
        "named",
        "qualifiedName",
        "uri",
        "uuid",
    ];
    rule.match_indices("format.").any(|(at, word)| {
        let is_part = |ch: char| ch.is_ascii_alphanumeric() || ['_', '.'].contains(&ch);
        let is_name = !rule[..at].ends_with(is_part);
        let call = rule[at + word.len()..].split_once('(');
        is_name && call.is_some_and(|(name, _)| NAMES.contains(&name))
    })
}
