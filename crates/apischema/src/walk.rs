//! Checks an object against its definition: types, fields, required fields, and the values of single fields.

use windrow_model::manifest::{MapEntry, Node, NodeValue, Object, decode_base64};
use windrow_model::quantity::is_quantity;
use windrow_model::redact::REDACTED;
use windrow_model::suggest::{self, Slip};
use windrow_plan::kubernetes::Minors;

use crate::catalogue::{CATALOGUE, Field};
use crate::path::Path;
use crate::problem::{Problem, ProblemKind, Reason};
use crate::refused_again::is_refused_again;
use crate::shape::Shape;
use crate::{enforced, formats, parts, values};

/// The errors in an object of a built-in kind, as far as its definition shows them.
pub(crate) fn walk(object: &Object, definition: &'static str, minors: Minors) -> Vec<Problem> {
    let mut walk = Walk::new(object, minors);
    walk.fields(definition, &object.node, &Path::ROOT);
    walk.problems
}

/// The violations of the published specification in an object, regardless of whether kube-apiserver enforces them: each claim as
/// in `data/enforced.txt`, and its field.
pub(crate) fn claims(
    object: &Object,
    definition: &'static str,
    minors: Minors,
) -> Vec<(String, String)> {
    let mut walk = Walk::new(object, minors);
    walk.fields(definition, &object.node, &Path::ROOT);
    walk.claims
}

struct Walk<'a> {
    object: &'a Object,
    minors: Minors,
    problems: Vec<Problem>,
    claims: Vec<(String, String)>,
}

impl<'a> Walk<'a> {
    fn new(object: &'a Object, minors: Minors) -> Self {
        Self {
            object,
            minors,
            problems: Vec::new(),
            claims: Vec::new(),
        }
    }

    /// Whether kube-apiserver enforces a violated claim of the specification.
    fn is_enforced(&mut self, claim: String, path: &Path<'_>) -> bool {
        let enforced = enforced::is_enforced(&claim);
        self.claims.push((claim, path.to_string()));
        enforced
    }

    /// Checks a map against the fields of a definition.
    fn fields(&mut self, definition: &'static str, node: &Node, path: &Path<'_>) {
        let known = CATALOGUE.fields(definition);
        for entry in node.entries() {
            let here = |field: &&Field| {
                field.name == entry.key && !field.minors.and(self.minors).is_empty()
            };
            let candidates: Vec<&Field> = known.iter().filter(here).collect();
            let at = path.field(&entry.key);
            if candidates.is_empty() {
                self.unknown_field(known, entry, &at);
                continue;
            }
            self.candidates(definition, &candidates, &entry.value, &at);
        }
        values::check_whole(definition, node, path, &mut self.problems);
        parts::check(definition, node, path, &mut self.problems);
        for field in known {
            let missing = node.get(field.name).is_none_or(is_nothing);
            if field.required && field.minors.covers(self.minors) && missing {
                let at = path.field(field.name);
                if self.is_enforced(format!("required {definition} {}", field.name), &at) {
                    let problem = Problem::invalid(node.line, &at, Reason::Required, "");
                    self.problems.push(problem);
                }
            }
        }
    }

    /// Checks a value against its field in all minors. Errors in only some of them are ignored.
    fn candidates(
        &mut self,
        definition: &'static str,
        candidates: &[&Field],
        node: &Node,
        path: &Path<'_>,
    ) {
        let before = self.problems.len();
        let mut fewest: Option<Vec<Problem>> = None;
        let mut covered: Option<Minors> = None;
        for field in candidates {
            self.value(definition, field, &field.shape, node, path);
            let found = self.problems.split_off(before);
            if fewest.as_ref().is_none_or(|few| found.len() < few.len()) {
                fewest = Some(found);
            }
            covered = Some(covered.map_or(field.minors, |minors| minors.or(field.minors)));
        }
        let everywhere = covered.is_some_and(|minors| minors.covers(self.minors));
        let found = fewest.unwrap_or_default().into_iter();
        self.problems
            .extend(found.filter(|problem| everywhere || !problem.refuses()));
    }

    fn value(
        &mut self,
        definition: &'static str,
        field: &Field,
        shape: &Shape,
        node: &Node,
        path: &Path<'_>,
    ) {
        // To Go's decoder, null is the same as an absent field.
        if node.is_null() || is_dropped(path, node) {
            return;
        }
        match (shape, &node.value) {
            (Shape::Fields(name), NodeValue::Mapping(_)) => {
                self.fields(name, node, path);
            }
            (Shape::List(item), NodeValue::Sequence(items)) => {
                for (index, inner) in items.iter().enumerate() {
                    let at = path.index(index);
                    match &**item {
                        // Null is the same as an empty object.
                        Shape::Fields(name) if inner.is_null() => self.fields(name, inner, &at),
                        item => self.value(definition, field, item, inner, &at),
                    }
                }
            }
            (Shape::Map(value), NodeValue::Mapping(entries)) => {
                for entry in entries {
                    self.value(
                        definition,
                        field,
                        value,
                        &entry.value,
                        &path.key(&entry.key),
                    );
                }
            }
            _ => {
                if let Some(problem) = self.scalar(definition, field, shape, node, path) {
                    self.problems.push(problem);
                    return;
                }
            }
        }
        // A rule for a list concerns either its items or the whole list.
        values::check(definition, field.name, node, path, &mut self.problems);
    }

    fn scalar(
        &mut self,
        definition: &'static str,
        field: &Field,
        shape: &Shape,
        node: &Node,
        path: &Path<'_>,
    ) -> Option<Problem> {
        let text = node.as_str();
        let whole = match &node.value {
            NodeValue::Number(number) => number.as_i64(),
            _ => None,
        };
        match shape {
            Shape::Any => None,
            Shape::Text => text
                .is_none()
                .then(|| self.wrong_type(definition, shape, node, path)),
            Shape::Enum(allowed) => {
                let Some(text) = text else {
                    return Some(self.wrong_type(definition, shape, node, path));
                };
                let other = !text.is_empty() && !allowed.contains(&text);
                let claim = || format!("enum {definition} {}", field.name);
                let refused = other && self.is_enforced(claim(), path);
                refused.then(|| unsupported(text, allowed, node.line, path))
            }
            Shape::Bool => node
                .as_bool()
                .is_none()
                .then(|| self.wrong_type(definition, shape, node, path)),
            Shape::Int64 => whole
                .is_none()
                .then(|| self.wrong_type(definition, shape, node, path)),
            Shape::Int32 => whole
                .is_none_or(|number| i32::try_from(number).is_err())
                .then(|| self.wrong_type(definition, shape, node, path)),
            Shape::Number => (!matches!(node.value, NodeValue::Number(_)))
                .then(|| self.wrong_type(definition, shape, node, path)),
            Shape::IntOrString => {
                let fits =
                    text.is_some() || whole.is_some_and(|number| i32::try_from(number).is_ok());
                (!fits).then(|| self.wrong_type(definition, &Shape::Int32, node, path))
            }
            Shape::Bytes => match text.map(|text| decode_base64(text.as_bytes())) {
                None => Some(self.wrong_type(definition, shape, node, path)),
                Some(Ok(_)) => None,
                Some(Err(why)) => {
                    Some(self.undecodable(node, path, &format!("is not base64: {why}"), &why))
                }
            },
            Shape::Time => match text {
                None => Some(self.wrong_type(definition, shape, node, path)),
                Some(text) if formats::is_time(text) => None,
                Some(_) => {
                    let why = "is not a time; write it like 2026-01-31T12:00:00Z";
                    let words =
                        format!("parsing time {REDACTED:?} as \"2006-01-02T15:04:05Z07:00\"");
                    Some(self.undecodable(node, path, why, &words))
                }
            },
            Shape::Quantity => self.quantity(definition, shape, node, path),
            Shape::Fields(_) | Shape::List(_) | Shape::Map(_) => {
                Some(self.wrong_type(definition, shape, node, path))
            }
        }
    }

    fn quantity(
        &self,
        definition: &'static str,
        shape: &Shape,
        node: &Node,
        path: &Path<'_>,
    ) -> Option<Problem> {
        let text = match &node.value {
            NodeValue::Number(_) => return None,
            NodeValue::String(text) => text,
            _ => return Some(self.wrong_type(definition, shape, node, path)),
        };
        // The decoder trims blanks around it.
        if is_quantity(text.trim_matches(' ')) {
            return None;
        }
        let why = "is not a quantity; write it like 500m, 2 or 64Mi";
        let words = "quantities must match the regular expression \
                     '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        Some(self.undecodable(node, path, why, words))
    }

    fn wrong_type(
        &self,
        definition: &'static str,
        shape: &Shape,
        node: &Node,
        path: &Path<'_>,
    ) -> Problem {
        let is_text = matches!(shape, Shape::Text | Shape::Enum(_));
        let advice = match &node.value {
            NodeValue::Number(_) | NodeValue::Bool(_) if is_text => {
                "; put it in quotation marks".to_owned()
            }
            NodeValue::String(text) if unquoted(shape, text) => {
                "; remove the quotation marks".to_owned()
            }
            _ => String::new(),
        };
        let owner = definition.rsplit('.').next().unwrap_or(definition);
        let words = format!(
            "json: cannot unmarshal {} into Go struct field {owner}.{} of type {}",
            go_value(node, shape),
            path.fields(),
            shape.go_type()
        );
        let message = format!(
            "must be {}, and is {}{advice}",
            shape.words(),
            node.type_name()
        );
        self.undecodable(node, path, &message, &words)
    }

    fn undecodable(&self, node: &Node, path: &Path<'_>, message: &str, words: &str) -> Problem {
        let (kind, version) = (&self.object.id.kind, &self.object.version);
        Problem {
            kind: ProblemKind::WrongType,
            line: node.line,
            field: path.to_string(),
            message: message.to_owned(),
            refusal: Some(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: {words}"
            )),
        }
    }

    fn unknown_field(&mut self, known: &[Field], entry: &MapEntry, path: &Path<'_>) {
        let (line, key) = (entry.line, &*entry.key);
        let names = known
            .iter()
            .filter(|field| !field.minors.and(self.minors).is_empty())
            .map(|field| field.name);
        let other = known.iter().find(|field| field.name == key);
        let hint = match (other, suggest::nearest(key, names)) {
            (Some(field), _) if field.minors.first() > self.minors.last() => {
                format!("; Kubernetes knows it from 1.{} on", field.minors.first())
            }
            (Some(field), _) => format!("; Kubernetes knew it up to 1.{}", field.minors.last()),
            (None, Some(near)) => format!("; did you mean `{near}`?"),
            (None, None) => String::new(),
        };
        let group = &self.object.id.group;
        let (kind, message) = match is_refused_again(group, path, &entry.value) {
            false => (
                ProblemKind::UnknownField,
                "is not a known Kubernetes field, and is dropped",
            ),
            true => (
                ProblemKind::RefusedAgain,
                "is not a known Kubernetes field, and holds a text of more than 64 bytes",
            ),
        };
        self.problems.push(Problem {
            kind,
            line,
            field: path.to_string(),
            message: format!("{message}{hint}"),
            refusal: None,
        });
    }
}

/// True for the zero value in Go. In a required field, the validation cannot distinguish it from an absent one.
fn is_nothing(node: &Node) -> bool {
    match &node.value {
        NodeValue::Null => true,
        NodeValue::String(text) => text.is_empty(),
        NodeValue::Number(number) => number.as_i64() == Some(0),
        NodeValue::Sequence(items) => items.is_empty(),
        NodeValue::Bool(_) | NodeValue::Mapping(_) => false,
    }
}

/// Whether RKE2 drops these labels before they reach kube-apiserver (`labels-dropped`).
fn is_dropped(path: &Path<'_>, node: &Node) -> bool {
    let of_object = path.is("metadata", "labels") || path.is("metadata", "annotations");
    let NodeValue::Mapping(entries) = &node.value else {
        return of_object;
    };
    of_object && entries.iter().any(|entry| entry.value.as_str().is_none())
}

fn unsupported(text: &str, allowed: &[&str], line: u32, path: &Path<'_>) -> Problem {
    let choice: Vec<String> = allowed
        .iter()
        .filter(|value| !value.is_empty())
        .map(|value| format!("\"{value}\""))
        .collect();
    let mut problem = Problem::invalid(
        line,
        path,
        Reason::Unsupported,
        &format!("supported values: {}", choice.join(", ")),
    );
    if let Some(slip) = Slip::find(text, allowed.iter().copied()) {
        problem.message = slip.to_string();
    }
    problem
}

/// Whether it would have the right type without its quotation marks.
fn unquoted(shape: &Shape, text: &str) -> bool {
    match shape {
        Shape::Bool => matches!(text, "true" | "false"),
        Shape::Int32 => text.parse::<i32>().is_ok(),
        Shape::Int64 => text.parse::<i64>().is_ok(),
        Shape::Number => text.parse::<f64>().is_ok(),
        _ => false,
    }
}

fn go_value(node: &Node, shape: &Shape) -> String {
    match &node.value {
        NodeValue::Null => "null".to_owned(),
        NodeValue::Bool(_) => "bool".to_owned(),
        NodeValue::Number(_) if matches!(shape, Shape::Int32 | Shape::Int64) => {
            format!("number {REDACTED}")
        }
        NodeValue::Number(_) => "number".to_owned(),
        NodeValue::String(_) => "string".to_owned(),
        NodeValue::Sequence(_) => "array".to_owned(),
        NodeValue::Mapping(_) => "object".to_owned(),
    }
}
