//! Error messages of the API, in texts and in objects.

use serde_json::Value;

use super::text;

/// An error message of the API without the values that it quotes, and without other secrets.
#[must_use]
pub fn message(said: &str) -> String {
    text::redact(said, &mut |_, _| {})
}

/// Redacts every message of an object: messages of controllers in a status often include an error of the API, and so do
/// those of an event.
pub fn messages(object: &mut Value) {
    if let Some(Value::String(said)) = object.get_mut("message") {
        *said = message(said);
    }
    if let Some(status) = object.get_mut("status") {
        walk(status);
    }
    let items = object.get_mut("items").and_then(Value::as_array_mut);
    items.into_iter().flatten().for_each(messages);
}

fn walk(status: &mut Value) {
    match status {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(said) if is_message(key) => *said = message(said),
                    value => walk(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(walk),
        _ => {}
    }
}

fn is_message(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["message", "messages", "error", "errors"]
        .iter()
        .any(|end| key.ends_with(end))
}
