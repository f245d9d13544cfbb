//! Custom objects against the CustomResourceDefinition of the same input: the versions that it serves, and its structural schema.
//!
//! Own code, not the crate `jsonschema`: a structural schema is no JSON Schema (nullable, int-or-string, unknown fields pruned before they
//! are judged, null pruned where there is a default), errors have to name lines, and nothing may be said of what is not known (formats,
//! rules in CEL, `not`).

use std::sync::LazyLock;

use regex::Regex;
use windrow_model::manifest::{self, FileContent, GroupKind, Node, NodeValue, Object, ReadLimits};
use windrow_model::suggest;

use crate::path::Path;
use crate::problem::{self, Problem, ProblemKind, Reason, shown};

static KNOWN: LazyLock<Vec<CustomKind>> = LazyLock::new(|| {
    let text = include_str!("../data/custom.yaml");
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("custom.yaml", &content, &ReadLimits::default());
    file.objects().filter_map(CustomKind::read).collect()
});

/// A kind that a CustomResourceDefinition brings.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomKind {
    kind: GroupKind,
    versions: Vec<CustomVersion>,
    preserves_unknown: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct CustomVersion {
    name: String,
    served: bool,
    schema: Option<Node>,
}

impl CustomKind {
    /// The kind of a CustomResourceDefinition; `None` for any other object, and for a definition that cannot be read.
    pub fn read(object: &Object) -> Option<Self> {
        let is_definition = object.id.group == "apiextensions.k8s.io"
            && object.id.kind == "CustomResourceDefinition"
            && object.version == "v1";
        let spec = object.node.get("spec").filter(|_| is_definition)?;
        let versions = spec.get("versions")?.items().iter().map(|version| {
            Some(CustomVersion {
                name: version.str_at(&["name"])?.to_owned(),
                served: version.get("served")?.as_bool()?,
                schema: version.at(&["schema", "openAPIV3Schema"]).cloned(),
            })
        });
        Some(Self {
            kind: GroupKind::new(spec.str_at(&["group"])?, spec.str_at(&["names", "kind"])?),
            versions: versions.collect::<Option<_>>()?,
            preserves_unknown: spec
                .get("preserveUnknownFields")
                .is_some_and(|node| node.as_bool() == Some(true)),
        })
    }

    /// What is known of a kind that RKE2 or KubeVirt bring (`data/custom.yaml`).
    pub fn known(kind: &GroupKind) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.kind == *kind)
    }

    /// Its group and kind.
    pub fn kind(&self) -> &GroupKind {
        &self.kind
    }

    /// What kube-apiserver would refuse of an object of this kind, and what it would drop.
    pub fn check(&self, object: &Object) -> Vec<Problem> {
        let named = self.versions.iter().find(|one| one.name == object.version);
        let Some(version) = named.filter(|version| version.served) else {
            return vec![self.not_served(object)];
        };
        let Some(schema) = &version.schema else {
            return Vec::new();
        };
        let mut check = Check {
            problems: Vec::new(),
            preserves_unknown: self.preserves_unknown,
        };
        check.object(schema, &object.node, &Path::ROOT, true);
        let mut problems = check.problems;
        problem::complete(object, &mut problems);
        // A wrong type is a matter of validation here.
        for problem in &mut problems {
            if problem.kind == ProblemKind::WrongType
                && let Some(words) = &mut problem.refusal
            {
                *words = problem::invalid(object, words);
            }
        }
        problems
    }

    fn not_served(&self, object: &Object) -> Problem {
        let (group, kind) = (&self.kind.group, &self.kind.kind);
        let served: Vec<&str> = self
            .versions
            .iter()
            .filter(|version| version.served)
            .map(|version| version.name.as_str())
            .collect();
        let version = &object.version;
        let entry = object.node.entry("apiVersion");
        Problem {
            kind: ProblemKind::UnknownKind,
            line: entry.map_or(object.line, |entry| entry.line),
            field: String::new(),
            message: format!(
                "the definition of {kind} does not serve {group}/{version}; it serves {}",
                match served.is_empty() {
                    true => "no version".to_owned(),
                    false => served.join(" and "),
                }
            ),
            refusal: Some(format!(
                "no matches for kind \"{kind}\" in version \"{group}/{version}\""
            )),
        }
    }
}

struct Check {
    problems: Vec<Problem>,
    preserves_unknown: bool,
}

impl Check {
    fn add(&mut self, node: &Node, path: &Path<'_>, reason: Reason<'_>, why: &str) {
        self.problems
            .push(Problem::invalid(node.line, path, reason, why));
    }

    /// An object that has apiVersion, kind and metadata of its own: at the top, or embedded.
    fn object(&mut self, schema: &Node, node: &Node, path: &Path<'_>, top: bool) {
        self.map(schema, node, path, top);
        self.values(schema, node, path);
    }

    fn value(&mut self, schema: &Node, node: &Node, path: &Path<'_>) {
        // Null is dropped where the schema does not want it.
        if node.is_null() {
            return;
        }
        if !has_type(schema, node) {
            let expected = match is_true(schema, "x-kubernetes-int-or-string") {
                true => "integer or string",
                false => schema.str_at(&["type"]).unwrap_or_default(),
            };
            let quotes = match (&node.value, expected) {
                (NodeValue::Number(_) | NodeValue::Bool(_), "string") => {
                    "; put it in quotation marks"
                }
                (NodeValue::String(text), "boolean") if matches!(&**text, "true" | "false") => {
                    "; remove the quotation marks"
                }
                (NodeValue::String(text), "integer" | "number") if text.parse::<f64>().is_ok() => {
                    "; remove the quotation marks"
                }
                _ => "",
            };
            self.problems.push(Problem {
                kind: ProblemKind::WrongType,
                line: node.line,
                field: path.to_string(),
                message: format!("must be of type {expected}, and is {}{quotes}", node.type_name()),
                refusal: Some(format!(
                    "{path}: Invalid value: \"{}\": {path} in body must be of type {expected}: \"{}\"",
                    json_type(node),
                    json_type(node)
                )),
            });
            return;
        }
        match &node.value {
            NodeValue::Mapping(_) => {
                let embedded = is_true(schema, "x-kubernetes-embedded-resource");
                self.map(schema, node, path, embedded);
            }
            NodeValue::Sequence(items) => {
                if let Some(inner) = schema.get("items") {
                    for (index, item) in items.iter().enumerate() {
                        let at = path.index(index);
                        if item.is_null()
                            && !is_true(inner, "nullable")
                            && inner.get("type").is_some()
                        {
                            self.add(
                                item,
                                &at,
                                Reason::Invalid("null"),
                                "an item may not be null",
                            );
                        }
                        self.value(inner, item, &at);
                    }
                }
            }
            _ => {}
        }
        self.values(schema, node, path);
    }

    /// The fields of a map.
    fn map(&mut self, schema: &Node, node: &Node, path: &Path<'_>, is_object: bool) {
        let properties = schema.get("properties").map_or(&[][..], Node::entries);
        let others = schema.get("additionalProperties");
        let preserves =
            self.preserves_unknown || is_true(schema, "x-kubernetes-preserve-unknown-fields");
        for entry in node.entries() {
            let of_object = is_object && matches!(&*entry.key, "apiVersion" | "kind" | "metadata");
            if of_object {
                continue;
            }
            if let Some(property) = properties.iter().find(|one| one.key == entry.key) {
                self.value(&property.value, &entry.value, &path.field(&entry.key));
                continue;
            }
            match others.map(|others| &others.value) {
                Some(NodeValue::Mapping(_)) => {
                    if let Some(others) = others {
                        self.value(others, &entry.value, &path.key(&entry.key));
                    }
                }
                Some(NodeValue::Bool(true)) => {}
                _ if preserves || !is_structural(schema) => {}
                _ => self.unknown_field(
                    properties.iter().map(|one| &*one.key),
                    entry.line,
                    &entry.key,
                    path,
                ),
            }
        }
    }

    fn unknown_field<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
        line: u32,
        key: &str,
        path: &Path<'_>,
    ) {
        let hint = match suggest::nearest(key, names) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        };
        self.problems.push(Problem {
            kind: ProblemKind::UnknownField,
            line,
            field: path.field(key).to_string(),
            message: format!("is no field that the definition knows, and is dropped{hint}"),
            refusal: None,
        });
    }

    /// What a value has to be besides its type.
    fn values(&mut self, schema: &Node, node: &Node, path: &Path<'_>) {
        self.required(schema, node, path);
        if let Some(allowed) = schema.get("enum") {
            let value = node.to_json();
            if !allowed.items().iter().any(|one| one.to_json() == value) {
                let text = shown(node);
                let choice: Vec<String> = allowed
                    .items()
                    .iter()
                    .map(|one| one.to_json().to_string())
                    .collect();
                let why = format!("supported values: {}", choice.join(", "));
                self.add(node, path, Reason::Unsupported(&text), &why);
                let meant =
                    suggest::nearest(&text, allowed.items().iter().filter_map(Node::as_str));
                if let (Some(near), Some(problem)) = (meant, self.problems.last_mut()) {
                    problem.message = format!("`{text}` is not valid; did you mean `{near}`?");
                }
            }
        }
        match &node.value {
            NodeValue::String(text) => self.text(schema, node, text, path),
            NodeValue::Number(number) => self.number(schema, node, number.as_f64(), path),
            NodeValue::Sequence(items) => {
                self.count(
                    schema,
                    node,
                    items.len(),
                    ["minItems", "maxItems"],
                    "items",
                    path,
                );
            }
            NodeValue::Mapping(entries) => {
                let bounds = ["minProperties", "maxProperties"];
                self.count(schema, node, entries.len(), bounds, "entries", path);
            }
            NodeValue::Bool(_) | NodeValue::Null => {}
        }
        for part in schema.get("allOf").map_or(&[][..], Node::items) {
            self.part(part, node, path);
        }
        // That one of several fits cannot be denied where each does not fit; that two fit is not known for certain.
        for several in ["anyOf", "oneOf"] {
            let parts = schema.get(several).map_or(&[][..], Node::items);
            let fits = |part: &Node| {
                let mut check = Check {
                    problems: Vec::new(),
                    preserves_unknown: true,
                };
                check.part(part, node, path);
                check.problems.is_empty()
            };
            if !parts.is_empty() && !parts.iter().any(fits) {
                let text = shown(node);
                let why =
                    format!("it fits none of the schemas under `{several}` of the definition");
                self.add(node, path, Reason::Invalid(&text), &why);
            }
        }
    }

    /// A part of a schema under `allOf` and the like: values alone, and those of fields.
    fn part(&mut self, schema: &Node, node: &Node, path: &Path<'_>) {
        let typed = schema.get("type").is_none() || has_type(schema, node);
        if !typed {
            let text = shown(node);
            self.add(node, path, Reason::Invalid(&text), "it is of another type");
            return;
        }
        self.values(schema, node, path);
        for property in schema.get("properties").map_or(&[][..], Node::entries) {
            if let Some(inner) = node.get(&property.key).filter(|inner| !inner.is_null()) {
                self.part(&property.value, inner, &path.field(&property.key));
            }
        }
    }

    fn required(&mut self, schema: &Node, node: &Node, path: &Path<'_>) {
        if !matches!(node.value, NodeValue::Mapping(_)) {
            return;
        }
        for name in schema.get("required").map_or(&[][..], Node::items) {
            let Some(name) = name.as_str() else {
                continue;
            };
            let property = schema.at(&["properties", name]);
            let defaulted = property.is_some_and(has_default);
            let there = node.get(name).is_some_and(|value| {
                !value.is_null() || property.is_none_or(|property| is_true(property, "nullable"))
            });
            if !there && !defaulted {
                self.add(node, &path.field(name), Reason::Required, "");
            }
        }
    }

    fn text(&mut self, schema: &Node, node: &Node, text: &str, path: &Path<'_>) {
        if let Some(pattern) = schema.get("pattern").and_then(Node::as_str)
            // A pattern of another grammar is not judged.
            && let Ok(regex) = Regex::new(pattern)
            && !regex.is_match(text)
        {
            let value = shown(node);
            self.add(
                node,
                path,
                Reason::Invalid(&value),
                &format!("should match '{pattern}'"),
            );
        }
        let length = text.chars().count();
        self.count(
            schema,
            node,
            length,
            ["minLength", "maxLength"],
            "characters",
            path,
        );
    }

    fn number(&mut self, schema: &Node, node: &Node, number: Option<f64>, path: &Path<'_>) {
        let bound = |key: &str| match schema.get(key).map(|node| &node.value) {
            Some(NodeValue::Number(number)) => number.as_f64(),
            _ => None,
        };
        let Some(number) = number else {
            return;
        };
        let value = shown(node);
        if let Some(least) = bound("minimum") {
            let exclusive = is_true(schema, "exclusiveMinimum");
            if number < least || (exclusive && number <= least) {
                let why = format!("should be greater than or equal to {least}");
                self.add(node, path, Reason::Invalid(&value), &why);
            }
        }
        if let Some(most) = bound("maximum") {
            let exclusive = is_true(schema, "exclusiveMaximum");
            if number > most || (exclusive && number >= most) {
                let why = format!("should be less than or equal to {most}");
                self.add(node, path, Reason::Invalid(&value), &why);
            }
        }
    }

    fn count(
        &mut self,
        schema: &Node,
        node: &Node,
        count: usize,
        [least, most]: [&str; 2],
        what: &str,
        path: &Path<'_>,
    ) {
        let bound = |key: &str| match schema.get(key).map(|node| &node.value) {
            Some(NodeValue::Number(number)) => number.as_u64(),
            _ => None,
        };
        let count = count as u64;
        if let Some(least) = bound(least).filter(|least| count < *least) {
            let value = shown(node);
            let why = format!("should have at least {least} {what}");
            self.add(node, path, Reason::Invalid(&value), &why);
        }
        if let Some(most) = bound(most).filter(|most| count > *most) {
            self.add(
                node,
                path,
                Reason::TooLong,
                &format!("may have at most {most} {what}"),
            );
        }
    }
}

fn has_type(schema: &Node, node: &Node) -> bool {
    if is_true(schema, "x-kubernetes-int-or-string") {
        return match &node.value {
            NodeValue::String(_) => true,
            NodeValue::Number(number) => number.is_i64(),
            _ => false,
        };
    }
    let Some(kind) = schema.str_at(&["type"]) else {
        return true;
    };
    match (kind, &node.value) {
        ("string", NodeValue::String(_))
        | ("boolean", NodeValue::Bool(_))
        | ("array", NodeValue::Sequence(_))
        | ("object", NodeValue::Mapping(_))
        | ("number", NodeValue::Number(_)) => true,
        ("integer", NodeValue::Number(number)) => {
            number.is_i64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        ("string" | "boolean" | "array" | "object" | "number" | "integer", _) => false,
        _ => true,
    }
}

/// Does the schema say anything of fields? One that does not is not judged.
fn is_structural(schema: &Node) -> bool {
    schema.str_at(&["type"]) == Some("object")
}

fn is_true(schema: &Node, key: &str) -> bool {
    schema
        .get(key)
        .is_some_and(|node| node.as_bool() == Some(true))
}

fn has_default(schema: &Node) -> bool {
    schema.entry("default").is_some()
}

fn json_type(node: &Node) -> &'static str {
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
