//! What two files say differently.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::KnowledgeReport;

/// What is different in the second one of two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnowledgeDiff {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `KnowledgeDiff`
    pub kind: String,
    /// Each difference, by what it is about.
    pub changes: Vec<KnowledgeChange>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnowledgeChange {
    /// What it is about: an entry by its name, a phase by its node, a refusal by its kind.
    pub about: String,
    /// Which part of it; absent where one has it and the other has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What the first one says; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What the second one says; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl KnowledgeDiff {
    /// Of two.
    pub fn between(before: &KnowledgeReport, after: &KnowledgeReport) -> Self {
        let (before, after) = (parts(before), parts(after));
        let mut changes = Vec::new();
        let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            match (before.get(name), after.get(name)) {
                (Some(before), Some(after)) => compare(name, before, after, &mut changes),
                (before, after) => changes.push(KnowledgeChange {
                    about: name.clone(),
                    field: None,
                    before: before.map(words),
                    after: after.map(words),
                }),
            }
        }
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "KnowledgeDiff".to_owned(),
            changes,
        }
    }
}

/// Each part under a name that is the same in both. Where it is written is not compared.
fn parts(report: &KnowledgeReport) -> BTreeMap<String, Value> {
    let mut parts: BTreeMap<String, Value> = BTreeMap::new();
    let mut put = |name: String, mut value: Value| {
        if let Some(fields) = value.as_object_mut() {
            fields.remove("at");
            fields.remove("name");
        }
        let mut key = name.clone();
        let mut number = 2;
        while parts.contains_key(&key) {
            key = format!("{name} ({number})");
            number += 1;
        }
        parts.insert(key, value);
    };
    // Strings and numbers: always JSON.
    for entry in &report.entries {
        let value = serde_json::to_value(entry).unwrap_or_default();
        put(format!("entry {}", entry.name), value);
    }
    for phase in &report.phases {
        let node = [
            phase.platform.map(|platform| platform.to_string()),
            Some(phase.versions.clone()),
            phase.hardware.clone(),
            phase.role.map(|role| role.to_string()),
            phase.installed.then(|| "installed before".to_owned()),
        ];
        let node: Vec<String> = node
            .into_iter()
            .flatten()
            .filter(|one| !one.is_empty())
            .collect();
        let value = serde_json::to_value(phase).unwrap_or_default();
        put(
            format!("phase {} ({})", phase.phase, node.join(", ")),
            value,
        );
    }
    for refusal in &report.refusals {
        let value = serde_json::to_value(refusal).unwrap_or_default();
        put(
            format!("refusal of {}: {}", refusal.kind, refusal.said),
            value,
        );
    }
    parts
}

fn compare(name: &str, before: &Value, after: &Value, changes: &mut Vec<KnowledgeChange>) {
    let empty = serde_json::Map::new();
    let fields = |value: &'_ Value| value.as_object().unwrap_or(&empty).clone();
    let (before, after) = (fields(before), fields(after));
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let (before, after) = (before.get(key), after.get(key));
        if before != after {
            changes.push(KnowledgeChange {
                about: name.to_owned(),
                field: Some(key.clone()),
                before: before.map(words),
                after: after.map(words),
            });
        }
    }
}

/// A value in short.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields: Vec<String> = fields
                .map(|(key, value)| format!("{key} {}", words(value)))
                .collect();
            fields.join(", ")
        }
        other => other.to_string(),
    }
}
