//! Names and JSON from literals. They are created once.

use smol_str::SmolStr;
use windrow_model::manifest::{GroupKind, ObjectRef};

/// JSON that is the same in every bootstrap.
macro_rules! static_json {
    ($($json:tt)+) => {{
        static JSON: std::sync::LazyLock<std::sync::Arc<serde_json::Value>> =
            std::sync::LazyLock::new(|| std::sync::Arc::new(serde_json::json!($($json)+)));
        std::sync::Arc::clone(&JSON)
    }};
}

pub(super) use static_json;

pub(super) const fn object(
    group: &'static str,
    kind: &'static str,
    namespace: Option<&'static str>,
    name: &'static str,
) -> ObjectRef {
    ObjectRef {
        group: SmolStr::new_static(group),
        kind: SmolStr::new_static(kind),
        namespace: match namespace {
            Some(namespace) => Some(SmolStr::new_static(namespace)),
            None => None,
        },
        name: SmolStr::new_static(name),
    }
}

/// The name of an object of which only the group and kind are literals.
pub(super) fn named(
    group: &'static str,
    kind: &'static str,
    namespace: Option<&str>,
    name: impl Into<SmolStr>,
) -> ObjectRef {
    ObjectRef {
        namespace: namespace.map(SmolStr::from),
        name: name.into(),
        ..object(group, kind, None, "")
    }
}

pub(super) const fn kind(group: &'static str, kind: &'static str) -> GroupKind {
    GroupKind {
        group: SmolStr::new_static(group),
        kind: SmolStr::new_static(kind),
    }
}
