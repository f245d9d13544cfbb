//! Reads fields of observed objects. An absent field is absent, and a value of the wrong type gives Unknown, never a panic.

use serde_json::Value;
use windrow_model::object::Condition;
use windrow_model::text;

use super::{Judgement, Verdict};

/// The result of a reader: the value, or the final verdict.
pub(super) type FieldResult<T> = Result<T, Judgement>;

/// The message of the controller, on one line.
pub(super) fn says(condition: &Condition<'_>) -> String {
    match (condition.reason, condition.message) {
        ("", "") => "no reason is given".to_owned(),
        ("", text) | (text, "") => one_line(text),
        (reason, message) => format!("{reason}: {}", one_line(message)),
    }
}

/// Shortens a text from the cluster and puts it on one line.
pub(super) fn one_line(said: &str) -> String {
    const LONGEST: usize = 300;
    text::cut(text::one_line(said), LONGEST)
}

/// The value at a path; `null` counts as absent.
pub(super) fn at<'o>(object: &'o Value, path: &[&str]) -> Option<&'o Value> {
    path.iter()
        .try_fold(object, |value, key| value.get(key))
        .filter(|value| !value.is_null())
}

/// The text at a path; empty if the value is not a text.
pub(super) fn text<'o>(object: &'o Value, path: &[&str]) -> &'o str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a path. Some controllers write it as a string, which is accepted too.
pub(super) fn number(object: &Value, path: &[&str]) -> FieldResult<Option<i64>> {
    let Some(value) = at(object, path) else {
        return Ok(None);
    };
    value
        .as_i64()
        .or_else(|| value.as_str().and_then(|text| text.parse().ok()))
        .map(Some)
        .ok_or_else(|| wrong_type(path, value, "a whole number"))
}

pub(super) fn condition<'o>(object: &'o Value, name: &str) -> FieldResult<Option<Condition<'o>>> {
    let path = ["status", "conditions"];
    match at(object, &path) {
        Some(value) if !value.is_array() => Err(wrong_type(&path, value, "a list")),
        _ => Ok(Condition::of(object, name)),
    }
}

/// True if the status exists and is not empty.
pub(super) fn has_status(object: &Value) -> bool {
    match at(object, &["status"]) {
        None => false,
        Some(Value::Object(entries)) => !entries.is_empty(),
        Some(_) => true,
    }
}

fn wrong_type(path: &[&str], value: &Value, wanted: &str) -> Judgement {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    };
    unknown(
        "WrongType",
        format!("{} is {found}, expected {wanted}", path.join(".")),
    )
}

pub(super) fn ready(reason: &'static str, message: impl Into<String>) -> Judgement {
    judgement(Verdict::Ready, reason, message)
}

pub(super) fn progressing(reason: &'static str, message: impl Into<String>) -> Judgement {
    judgement(Verdict::Progressing, reason, message)
}

pub(super) fn failed(reason: &'static str, message: impl Into<String>) -> Judgement {
    judgement(Verdict::Failed, reason, message)
}

pub(super) fn unknown(reason: &'static str, message: impl Into<String>) -> Judgement {
    judgement(Verdict::Unknown, reason, message)
}

fn judgement(verdict: Verdict, reason: &'static str, message: impl Into<String>) -> Judgement {
    Judgement {
        verdict,
        reason,
        message: message.into(),
    }
}
