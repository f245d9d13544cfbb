//! Lists of objects for a diagnosis: live from the API, or from what was saved of it.
//!
//! Lists, never watches; only what [`Kind::ALL`](windrow_harvester::objects::Kind::ALL) names, in pages, up to a bound. A kind that is refused,
//! late or too large is Unknown with the reason, and one that is not served has no objects.

mod live;
mod saved;

pub use live::{Room, ask, ask_by_name, escaped, list, reach};
pub use saved::{Saved, saved};

use serde_json::Value;
use windrow_model::redact;

/// What a list leaves out of its items: the API says it once for all, and who wrote which field is of no
/// use here. Messages lose the values that they quote.
fn complete(mut item: Value, api_version: &str, kind: &str) -> Value {
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
