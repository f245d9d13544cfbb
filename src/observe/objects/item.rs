//! One object of a list.

use serde_json::Value;
use windrow_model::redact;

/// An item with its version and kind, which the API sends once for the whole list. Its managed fields are dropped, and
/// the values that its messages quote.
pub(super) fn complete(mut item: Value, api_version: &str, kind: &str) -> Value {
    if let Some(object) = item.as_object_mut() {
        let text = |text: &str| Value::String(text.to_owned());
        object.entry("apiVersion").or_insert(text(api_version));
        object.entry("kind").or_insert(text(kind));
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    redact::messages(&mut item);
    item
}
