//! Validates a value against its schema.
//!
//! Source: k8s.io/kube-openapi, pkg/validation/validate, as used in k8s.io/apiextensions-apiserver v0.36.3.

use regex::Regex;
use windrow_model::manifest::{Node, NodeValue};
use windrow_model::suggest::Slip;
use windrow_plan::kubernetes::Minors;

use super::formats::{self, Verdict};
use super::schema::{Others, expected_type, has_type, is_true, items_of, json_type, others};
use crate::formats::is_dns_1035_label;
use crate::path::Path;
use crate::problem::{Problem, ProblemKind, Reason};

pub(crate) struct Validator {
    minors: Minors,
    pub(crate) problems: Vec<Problem>,
    /// True if something could not be checked, so that the absence of errors proves nothing.
    is_unsure: bool,
}

/// The result of a schema under `anyOf` and similar keywords.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    Fits,
    Not,
    Unknown,
}

impl Validator {
    pub(crate) fn new(minors: Minors) -> Self {
        Self {
            minors,
            problems: Vec::new(),
            is_unsure: false,
        }
    }

    fn add(&mut self, node: &Node, path: &Path<'_>, reason: Reason, why: &str) {
        self.problems
            .push(Problem::invalid(node.line, path, reason, why));
    }

    pub(crate) fn validate(&mut self, schema: &Node, node: &Node, path: &Path<'_>) {
        if node.is_null() {
            self.null(schema, node, path);
            return;
        }
        if !has_type(schema, node) {
            self.wrong_type(schema, node, path);
            return;
        }
        self.listed(schema, node, path);
        self.parts(schema, node, path);
        match &node.value {
            NodeValue::String(text) => self.text(schema, node, text, path),
            NodeValue::Number(number) => self.number(schema, node, number.as_f64(), path),
            NodeValue::Sequence(items) => self.list(schema, node, items, path),
            NodeValue::Mapping(_) => self.map(schema, node, path),
            NodeValue::Bool(_) | NodeValue::Null => {}
        }
    }

    /// A null that was not dropped is an item, or is allowed.
    fn null(&mut self, schema: &Node, node: &Node, path: &Path<'_>) {
        if is_true(schema, "nullable") {
            // An enum never matches null, even if it lists it.
            if !items_of(schema, "enum").is_empty() {
                let why = "an enum never takes null";
                self.add(node, path, Reason::Unsupported, why);
            }
        } else if expected_type(schema).is_some() {
            self.add(node, path, Reason::Invalid, "an item may not be null");
        }
    }

    fn wrong_type(&mut self, schema: &Node, node: &Node, path: &Path<'_>) {
        let expected = expected_type(schema).unwrap_or_default();
        let quotes = match (&node.value, expected) {
            (NodeValue::Number(_) | NodeValue::Bool(_), "string") => "; put it in quotation marks",
            (NodeValue::String(text), "boolean") if matches!(&**text, "true" | "false") => {
                "; remove the quotation marks"
            }
            (NodeValue::String(text), "integer" | "number") if text.parse::<f64>().is_ok() => {
                "; remove the quotation marks"
            }
            _ => "",
        };
        let found = json_type(node);
        self.problems.push(Problem {
            kind: ProblemKind::WrongType,
            line: node.line,
            field: path.to_string(),
            message: format!("must be of type {expected}, and is {}{quotes}", node.type_name()),
            refusal: Some(format!(
                "{path}: Invalid value: \"{found}\": {path} in body must be of type {expected}: \"{found}\""
            )),
        });
    }

    fn listed(&mut self, schema: &Node, node: &Node, path: &Path<'_>) {
        let allowed = items_of(schema, "enum");
        if allowed.is_empty() || allowed.iter().any(|one| is_same(one, node)) {
            return;
        }
        let choice: Vec<String> = allowed
            .iter()
            .map(|one| one.to_json().to_string())
            .collect();
        let why = format!("supported values: {}", choice.join(", "));
        self.add(node, path, Reason::Unsupported, &why);
        let text = node.as_str().unwrap_or_default();
        let slip = Slip::find(text, allowed.iter().filter_map(Node::as_str));
        if let (Some(slip), Some(problem)) = (slip, self.problems.last_mut()) {
            problem.message = slip.to_string();
        }
    }

    fn parts(&mut self, schema: &Node, node: &Node, path: &Path<'_>) {
        for part in items_of(schema, "allOf") {
            self.validate(part, node, path);
        }
        let invalid = |validator: &mut Self, why: &str| {
            validator.add(node, path, Reason::Invalid, why);
        };
        let fits = |part: &Node| self.fit(part, node, path);
        let any: Vec<Fit> = items_of(schema, "anyOf").iter().map(fits).collect();
        let one: Vec<Fit> = items_of(schema, "oneOf").iter().map(fits).collect();
        let not = schema.get("not").filter(|not| !not.is_null()).map(fits);
        let is_none = |all: &[Fit]| !all.is_empty() && all.iter().all(|fit| *fit == Fit::Not);
        let count = |fits: &[Fit], fit| fits.iter().filter(|one| **one == fit).count();
        if is_none(&any) {
            invalid(
                self,
                "it fits none of the schemas under `anyOf` of the definition",
            );
        }
        if is_none(&one) {
            invalid(
                self,
                "it fits none of the schemas under `oneOf` of the definition",
            );
        }
        if count(&one, Fit::Fits) > 1 {
            invalid(
                self,
                "it fits more than one of the schemas under `oneOf` of the definition, and has to fit one",
            );
        }
        if not == Some(Fit::Fits) {
            invalid(self, "the definition excludes it with `not`");
        }
        let is_unknown = |all: &[Fit]| count(all, Fit::Unknown) > 0;
        self.is_unsure |= not == Some(Fit::Unknown)
            || is_unknown(&one)
            || (is_unknown(&any) && count(&any, Fit::Fits) == 0);
    }

    fn fit(&self, part: &Node, node: &Node, path: &Path<'_>) -> Fit {
        let mut validator = Self::new(self.minors);
        validator.validate(part, node, path);
        match (validator.problems.is_empty(), validator.is_unsure) {
            (false, _) => Fit::Not,
            (true, false) => Fit::Fits,
            (true, true) => Fit::Unknown,
        }
    }

    fn text(&mut self, schema: &Node, node: &Node, text: &str, path: &Path<'_>) {
        let bounds = ["minLength", "maxLength"];
        self.count(
            schema,
            node,
            text.chars().count(),
            bounds,
            "characters",
            path,
        );
        if let Some(pattern) = schema.str_at(&["pattern"]) {
            match Regex::new(pattern) {
                Ok(regex) if !regex.is_match(text) => {
                    let why = format!("should match '{pattern}'");
                    self.add(node, path, Reason::Invalid, &why);
                }
                Ok(_) => {}
                // A pattern with another syntax is not checked.
                Err(_) => self.is_unsure = true,
            }
        }
        let Some(format) = schema.str_at(&["format"]) else {
            return;
        };
        match formats::judge(format, text, self.minors) {
            Verdict::Fits => {}
            Verdict::Unknown => self.is_unsure = true,
            Verdict::Not => {
                let why = format!("must be of type {format}");
                self.add(node, path, Reason::Invalid, &why);
            }
        }
    }

    fn number(&mut self, schema: &Node, node: &Node, number: Option<f64>, path: &Path<'_>) {
        let given = |key: &str| match schema.get(key).map(|node| &node.value) {
            Some(NodeValue::Number(number)) => number.as_f64(),
            _ => None,
        };
        let Some(number) = number else {
            return;
        };
        if let Some(least) = given("minimum") {
            let exclusive = is_true(schema, "exclusiveMinimum");
            if number < least || (exclusive && number <= least) {
                let or_equal = if exclusive { "" } else { " or equal to" };
                let why = format!("should be greater than{or_equal} {least}");
                self.add(node, path, Reason::Invalid, &why);
            }
        }
        if let Some(most) = given("maximum") {
            let exclusive = is_true(schema, "exclusiveMaximum");
            if number > most || (exclusive && number >= most) {
                let or_equal = if exclusive { "" } else { " or equal to" };
                let why = format!("should be less than{or_equal} {most}");
                self.add(node, path, Reason::Invalid, &why);
            }
        }
        // Binary fractions are inexact, so the result is certain only for integers.
        if let Some(factor) = given("multipleOf").filter(|factor| *factor > 0.0) {
            if factor.fract() != 0.0 || number.fract() != 0.0 {
                self.is_unsure = true;
            } else if number % factor != 0.0 {
                let why = format!("should be a multiple of {factor}");
                self.add(node, path, Reason::Invalid, &why);
            }
        }
    }

    fn list(&mut self, schema: &Node, node: &Node, items: &[Node], path: &Path<'_>) {
        let bounds = ["minItems", "maxItems"];
        self.count(schema, node, items.len(), bounds, "items", path);
        if let Some(inner) = schema.get("items") {
            for (index, item) in items.iter().enumerate() {
                self.validate(inner, item, &path.index(index));
            }
        }
    }

    fn map(&mut self, schema: &Node, node: &Node, path: &Path<'_>) {
        let bounds = ["minProperties", "maxProperties"];
        self.count(schema, node, node.entries().len(), bounds, "entries", path);
        for entry in node.entries() {
            match (schema.at(&["properties", &entry.key]), others(schema)) {
                (Some(property), _) => {
                    self.validate(property, &entry.value, &path.field(&entry.key));
                }
                (None, Others::Schema(inner)) => {
                    self.validate(inner, &entry.value, &path.key(&entry.key));
                }
                (None, Others::Dropped | Others::Any) => {}
            }
        }
        for name in items_of(schema, "required").iter().filter_map(Node::as_str) {
            if node.entry(name).is_none() {
                self.add(node, &path.field(name), Reason::Required, "");
            }
        }
        if is_true(schema, "x-kubernetes-embedded-resource") {
            self.embedded(node, path);
        }
    }

    /// An embedded object must contain its type.
    fn embedded(&mut self, node: &Node, path: &Path<'_>) {
        for name in ["apiVersion", "kind"] {
            let at = path.field(name);
            match node.get(name).map(|value| (value, value.as_str())) {
                None => self.add(node, &at, Reason::Required, ""),
                Some((value, None)) => {
                    self.add(value, &at, Reason::Invalid, "must be a string");
                }
                Some((value, Some(""))) => {
                    self.add(value, &at, Reason::Invalid, "must not be empty");
                }
                Some((value, Some(kind)))
                    if name == "kind" && !is_dns_1035_label(&kind.to_ascii_lowercase()) =>
                {
                    let why = "may have mixed case, but should otherwise be a DNS-1035 label";
                    self.add(value, &at, Reason::Invalid, why);
                }
                Some(_) => {}
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
            let why = format!("should have at least {least} {what}");
            self.add(node, path, Reason::Invalid, &why);
        }
        if let Some(most) = bound(most).filter(|most| count > *most) {
            let why = format!("may have at most {most} {what}");
            self.add(node, path, Reason::TooLong, &why);
        }
    }
}

/// Compares values. Numbers are equal regardless of their notation.
fn is_same(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (NodeValue::Number(one), NodeValue::Number(other)) => one.as_f64() == other.as_f64(),
        _ => one.to_json() == other.to_json(),
    }
}
