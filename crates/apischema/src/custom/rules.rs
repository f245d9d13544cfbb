//! CEL rules (`x-kubernetes-validations`): finds the rules for the values of an object, and converts each value for its rules.
//!
//! A rule about the previous value (`oldSelf`) does not apply to a new object.
//!
//! Source: pkg/apiserver/schema/cel of k8s.io/apiextensions-apiserver v0.36.3, pkg/cel of k8s.io/apiserver v0.36.3
//! (`escaping.go`).

use serde_json::{Map, Number, Value};
use windrow_model::manifest::{Node, NodeValue};

use super::JudgeRule;
use super::schema::{below, is_true, items_of};
use crate::path::Path;
use crate::problem::{Problem, Reason};

/// Longest list whose items are checked. A rule may search the list for each item, which takes too long in a longer one.
const LONGEST_LIST: usize = 1_000;

/// Adds the violated rules of a value and of the values in it.
pub(super) fn check(
    schema: &Node,
    node: &Node,
    path: &Path<'_>,
    is_object: bool,
    judge: &mut JudgeRule<'_>,
    problems: &mut Vec<Problem>,
) {
    // A rule applies only to existing values.
    if node.is_null() {
        return;
    }
    let is_object = is_object || is_true(schema, "x-kubernetes-embedded-resource");
    let rules = items_of(schema, "x-kubernetes-validations");
    if !rules.is_empty() {
        // Values with a different type in CEL are not checked.
        if let Some(value) = value_in_rules(schema, node, is_object) {
            let has_sets = has_sets(schema, node);
            for rule in rules {
                let text = rule.str_at(&["rule"]).unwrap_or_default();
                let says_nothing = text.contains("oldSelf") || (has_sets && compares_lists(text));
                if !says_nothing && judge(text, &value) == Some(false) {
                    problems.push(broken(rule, text, node, path));
                }
            }
        }
    }
    match &node.value {
        NodeValue::Mapping(entries) => {
            for entry in entries {
                if let Some(inner) = below(schema, &entry.key) {
                    let at = path.field(&entry.key);
                    check(inner, &entry.value, &at, false, judge, problems);
                }
            }
        }
        NodeValue::Sequence(items) if items.len() <= LONGEST_LIST => {
            for (index, item) in items.iter().enumerate() {
                if let Some(inner) = schema.get("items") {
                    check(inner, item, &path.index(index), false, judge, problems);
                }
            }
        }
        _ => {}
    }
}

fn broken(rule: &Node, text: &str, node: &Node, path: &Path<'_>) -> Problem {
    let said = rule.str_at(&["message"]).map_or_else(
        || format!("failed rule: {}", text.trim()),
        |message| message.trim().to_owned(),
    );
    let mut problem = Problem::invalid(node.line, path, Reason::Invalid, &said);
    problem.message = format!("breaks a rule of the definition: {said}");
    problem
}

/// A value in CEL; `None` if it contains null or a value that has another type in CEL.
fn value_in_rules(schema: &Node, node: &Node, is_object: bool) -> Option<Value> {
    match &node.value {
        NodeValue::Null => None,
        NodeValue::Bool(value) => Some(Value::Bool(*value)),
        NodeValue::Number(number) => match schema.str_at(&["type"]) {
            Some("number") => Number::from_f64(number.as_f64()?).map(Value::Number),
            _ => number.is_i64().then(|| Value::Number(number.clone())),
        },
        NodeValue::String(text) => {
            // Times, durations and bytes.
            let other = ["date", "date-time", "datetime", "duration", "byte"];
            let format = schema.str_at(&["format"]).unwrap_or_default();
            (!other.contains(&format)).then(|| Value::String(text.clone()))
        }
        NodeValue::Sequence(items) => {
            let inner = schema.get("items")?;
            let values = items.iter().map(|item| value_in_rules(inner, item, false));
            values.collect::<Option<Vec<Value>>>().map(Value::Array)
        }
        NodeValue::Mapping(_) => map_in_rules(schema, node, is_object),
    }
}

/// A map, or an object with the known fields of the schema.
fn map_in_rules(schema: &Node, node: &Node, is_object: bool) -> Option<Value> {
    let mut map = Map::new();
    for entry in node.entries() {
        let property = schema.at(&["properties", &entry.key]);
        let value = match (is_object, &*entry.key) {
            (true, "apiVersion" | "kind") => Some(entry.value.to_json()),
            (true, "metadata") => Some(metadata_in_rules(&entry.value)),
            _ => None,
        };
        if let Some(value) = value {
            map.insert(entry.key.clone(), value);
            continue;
        }
        let is_embedded =
            property.is_some_and(|inner| is_true(inner, "x-kubernetes-embedded-resource"));
        match (property, below(schema, &entry.key)) {
            (Some(inner), _) => {
                let value = value_in_rules(inner, &entry.value, is_embedded)?;
                if let Some(name) = escaped(&entry.key) {
                    map.insert(name, value);
                }
            }
            (None, Some(inner)) => {
                let value = value_in_rules(inner, &entry.value, false)?;
                map.insert(entry.key.clone(), value);
            }
            (None, None) => {}
        }
    }
    Some(Value::Object(map))
}

fn metadata_in_rules(metadata: &Node) -> Value {
    let known = ["name", "generateName"].iter().filter_map(|name| {
        let value = metadata.get(name)?.as_str()?;
        Some(((*name).to_owned(), Value::String(value.to_owned())))
    });
    Value::Object(known.collect())
}

/// The name of a field in CEL; `None` if it has none.
fn escaped(name: &str) -> Option<String> {
    const RESERVED: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte);
    let begins_well = name
        .bytes()
        .next()
        .is_some_and(|byte| !byte.is_ascii_digit());
    (begins_well && name.bytes().all(fits)).then(|| {
        name.replace("__", "__underscores__")
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__")
    })
}

/// True if it contains an unordered list of several items. CEL compares such lists without their order.
fn has_sets(schema: &Node, node: &Node) -> bool {
    match &node.value {
        NodeValue::Sequence(items) => {
            let kind = schema.str_at(&["x-kubernetes-list-type"]);
            let is_set = matches!(kind, Some("set" | "map"));
            let inner = schema.get("items");
            (is_set && items.len() > 1)
                || inner.is_some_and(|inner| items.iter().any(|item| has_sets(inner, item)))
        }
        NodeValue::Mapping(entries) => entries.iter().any(|entry| {
            below(schema, &entry.key).is_some_and(|inner| has_sets(inner, &entry.value))
        }),
        _ => false,
    }
}

/// True if a rule compares list literals, or concatenates lists.
fn compares_lists(rule: &str) -> bool {
    let dense: String = rule.split_whitespace().collect();
    ["==[", "!=[", "]==", "]!=", "+["]
        .iter()
        .any(|part| dense.contains(part))
}
