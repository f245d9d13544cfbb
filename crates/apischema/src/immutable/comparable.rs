//! Normalizes values of fields, so that equivalent values are equal.

use serde_json::{Map, Value};
use windrow_model::quantity::billionths;

/// The parts of containers that cannot change. Images can change, and most other fields are completed by kube-apiserver.
pub(super) fn containers(value: Value) -> Value {
    let named = |list: Value, kept: &[&str]| {
        let mut items = match list {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.retain(|key, _| kept.contains(&&**key));
        }
        items.sort_by_key(|item| item["name"].to_string());
        items
    };
    let mut items = named(value, &["name", "command", "args", "env"]);
    for item in &mut items {
        if let Some(env) = item.get_mut("env") {
            *env = Value::Array(named(env.take(), &["name", "value"]));
        }
    }
    Value::Array(items)
}

/// The parts of volumes that cannot change: the name, and the name or path of the source. The others are completed by
/// kube-apiserver.
pub(super) fn volumes(value: Value) -> Value {
    const FROM: [(&str, &str); 5] = [
        ("configMap", "name"),
        ("hostPath", "path"),
        ("nfs", "path"),
        ("persistentVolumeClaim", "claimName"),
        ("secret", "secretName"),
    ];
    let mut items = match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        let known: Map<_, _> = FROM
            .iter()
            .filter_map(|(source, field)| {
                let from = item.get(*source)?.get(field)?.clone();
                Some(((*source).to_owned(), from))
            })
            .collect();
        item.retain(|key, _| key == "name");
        item.extend(known);
    }
    items.sort_by_key(|item| item["name"].to_string());
    Value::Array(items)
}

/// The resources of a claim as numbers: `1Gi` equals `1024Mi`.
pub(super) fn resources(mut value: Value) -> Value {
    for amounts in value.as_object_mut().into_iter().flat_map(Map::values_mut) {
        for amount in amounts
            .as_object_mut()
            .into_iter()
            .flat_map(Map::values_mut)
        {
            let text = match &amount {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            if let Some(number) = billionths(&text) {
                *amount = Value::String(number.to_string());
            }
        }
    }
    value
}

/// The claims of a StatefulSet, completed as in kube-apiserver.
pub(super) fn claim_templates(mut value: Value) -> Value {
    for claim in value.as_array_mut().into_iter().flatten() {
        let Some(claim) = claim.as_object_mut() else {
            continue;
        };
        claim.retain(|key, _| ["metadata", "spec"].contains(&&**key));
        if let Some(metadata) = claim.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("creationTimestamp");
        }
        if let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) {
            if let Some(asked) = spec.get_mut("resources") {
                *asked = resources(asked.take());
            }
            spec.entry("volumeMode").or_insert("Filesystem".into());
        }
    }
    value
}

/// To Go, null and empty lists and maps are the same as absent fields.
pub(super) fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map
                .into_iter()
                .map(|(key, value)| (key, without_empty(value)));
            let map: Map<_, _> = entries.filter(|(_, value)| !value.is_null()).collect();
            match map.is_empty() {
                true => Value::Null,
                false => Value::Object(map),
            }
        }
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Array(items) => Value::Array(items.into_iter().map(without_empty).collect()),
        Value::String(text) if text.is_empty() => Value::Null,
        other => other,
    }
}

/// Length in bytes to which the deploy controller truncates texts (`pruneValues` in `pkg/apply/desiredset_compare.go` of
/// wrangler).
pub(crate) const REMEMBERED: usize = 64;

/// Fields that identify an item of a list are not truncated.
pub(crate) const NAMES_OF_ITEMS: [&str; 10] = [
    "apiVersion",
    "containerPort",
    "devicePath",
    "ip",
    "kind",
    "mountPath",
    "name",
    "port",
    "topologyKey",
    "type",
];

pub(super) fn remembered(value: Value, is_item: bool) -> Value {
    match value {
        Value::Object(map) => {
            // The deploy controller compares quantities as numbers, which this code does not do.
            let entries = map.into_iter().filter(|(key, _)| key != "resources");
            let entries = entries.map(|(key, value)| {
                let value = match value {
                    Value::String(text) if !(is_item && NAMES_OF_ITEMS.contains(&&*key)) => {
                        Value::String(cut(text))
                    }
                    value => remembered(value, false),
                };
                (key, value)
            });
            Value::Object(entries.collect())
        }
        Value::Array(items) => {
            let items = items.into_iter().map(|item| remembered(item, true));
            Value::Array(items.collect())
        }
        other => other,
    }
}

fn cut(mut text: String) -> String {
    let mut end = REMEMBERED.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
