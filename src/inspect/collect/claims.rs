//! The part of Windrow's own directories that a report takes: the files that one of its readers claims, and of a
//! configuration the keys that it reads. A note or a token that an operator put there stays on the node, and so does
//! the value of a misspelt key.

use std::path::Path;

use serde_json::Value;
use windrow_decide::settings::schema::settings_schema;
use windrow_model::redact::Learner;
use windrow_plan::rules::schema::rule_pack_schema;

use super::reduce::reduce_objects;
use crate::archive;
use crate::layout::Layout;

/// Stands for the value of a key that no reader knows.
const LEFT_OUT: &str = "[left out: Windrow reads no such key]";

/// It is written by hand.
const KNOWLEDGE_SCHEMA: &str = include_str!("../../../docs/knowledge.schema.json");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileReader {
    Settings,
    /// Rule packs: `crates/plan/src/rules`.
    Rules,
    Knowledge,
    /// Files that Windrow wrote and reads again.
    Own,
    /// Records of repairs: `crates/daemon/src/act/repair/records.rs`. They hold whole objects of the cluster.
    Repairs,
}

const CONFIGURATION: &[(&str, FileReader)] = &[
    ("windrow.yaml", FileReader::Settings),
    ("conf.d/*.yaml", FileReader::Settings),
    ("rules.d/*.yaml", FileReader::Rules),
    ("knowledge.d/*.yaml", FileReader::Knowledge),
    // The run-time directory is one of them.
    ("sandbox-time.json", FileReader::Own),
    ("requests/*.json", FileReader::Own),
];

const STATE: &[(&str, FileReader)] = &[
    ("flight.jsonl", FileReader::Own),
    ("flight.jsonl.1", FileReader::Own),
    ("gates/*.json", FileReader::Own),
    ("gates/last-known-good/gates.json", FileReader::Own),
    ("hardware.json", FileReader::Own),
    ("ledger.json", FileReader::Own),
    ("repairs/*.json", FileReader::Repairs),
    ("requests/*.json", FileReader::Own),
    ("webhooks.json", FileReader::Own),
];

/// The reader of this file; `None` if the file is not Windrow's.
pub(super) fn reader_of(layout: &Layout, path: &Path) -> Option<FileReader> {
    let configuration = layout.config_dirs().map(|place| (place, CONFIGURATION));
    let state = (layout.state_dir(), STATE);
    let mut claims = configuration.into_iter().chain([state]);
    claims.find_map(|(place, claims)| {
        let name = path.strip_prefix(place).ok()?.to_str()?;
        let claim = claims
            .iter()
            .find(|(pattern, _)| archive::matches(pattern, name))?;
        Some(claim.1)
    })
}

impl FileReader {
    /// Takes away the values of keys that the reader does not know, and learns them. Reduces objects of the cluster as the
    /// cluster's part of a report does.
    pub(super) fn reduce(self, tree: &mut Value, learner: &mut Learner) {
        let schema = match self {
            Self::Settings => settings_schema(),
            Self::Rules => rule_pack_schema(),
            Self::Knowledge => KNOWLEDGE_SCHEMA.to_owned(),
            Self::Own => return,
            Self::Repairs => return reduce_objects(tree),
        };
        // It is Windrow's own text.
        let root: Value = serde_json::from_str(&schema).unwrap_or_default();
        leave_out_unknown(&root, &[&root], tree, learner);
    }
}

/// Removes the values of unknown keys from a tree with one of these schemas.
fn leave_out_unknown(root: &Value, schemas: &[&Value], tree: &mut Value, learner: &mut Learner) {
    let mut all = Vec::new();
    for schema in schemas {
        add_alternatives(root, schema, &mut all);
    }
    if all.iter().any(|schema| is_any(schema)) {
        return;
    }
    match tree {
        Value::Object(entries) => {
            for (key, value) in entries {
                let below: Vec<&Value> = all
                    .iter()
                    .filter_map(|schema| {
                        let own = schema["properties"].get(key);
                        own.or_else(|| schema.get("additionalProperties"))
                    })
                    .filter(|schema| **schema != Value::Bool(false))
                    .collect();
                if below.is_empty() {
                    leave_out(value, learner);
                } else {
                    leave_out_unknown(root, &below, value, learner);
                }
            }
        }
        Value::Array(items) => {
            let below: Vec<&Value> = all
                .iter()
                .filter_map(|schema| schema.get("items"))
                .collect();
            for item in items {
                if below.is_empty() {
                    leave_out(item, learner);
                } else {
                    leave_out_unknown(root, &below, item, learner);
                }
            }
        }
        _ => {}
    }
}

fn leave_out(value: &mut Value, learner: &mut Learner) {
    learn(value, learner);
    if !value.is_null() {
        *value = LEFT_OUT.into();
    }
}

fn learn(value: &Value, learner: &mut Learner) {
    match value {
        Value::String(text) => learner.perhaps(text),
        Value::Array(items) => items.iter().for_each(|item| learn(item, learner)),
        Value::Object(entries) => entries.values().for_each(|value| learn(value, learner)),
        _ => {}
    }
}

fn add_alternatives<'s>(root: &'s Value, schema: &'s Value, all: &mut Vec<&'s Value>) {
    let named = schema["$ref"]
        .as_str()
        .and_then(|path| path.strip_prefix('#'));
    let named = named.and_then(|path| root.pointer(path));
    let lists = ["anyOf", "oneOf", "allOf"].map(|key| schema[key].as_array());
    let others: Vec<&Value> = lists.into_iter().flatten().flatten().chain(named).collect();
    for other in &others {
        add_alternatives(root, other, all);
    }
    if others.is_empty() || schema.get("properties").is_some() {
        all.push(schema);
    }
}

fn is_any(schema: &Value) -> bool {
    const TELLING: &[&str] = &[
        "type",
        "properties",
        "items",
        "enum",
        "const",
        "additionalProperties",
        // A condition on the other keys of the object.
        "required",
    ];
    match schema {
        Value::Object(schema) => !TELLING.iter().any(|key| schema.contains_key(*key)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windrow_model::manifest::{ReadLimits, yaml};

    use super::*;

    #[test]
    fn only_files_that_windrow_reads_are_claimed() {
        let layout = Layout::new("/n");
        let reader = |place: &str| reader_of(&layout, &layout.path(place));
        for (place, expected) in [
            ("/etc/windrow/windrow.yaml", Some(FileReader::Settings)),
            (
                "/etc/rancher/windrow/conf.d/50.yaml",
                Some(FileReader::Settings),
            ),
            ("/usr/lib/windrow/rules.d/a.yaml", Some(FileReader::Rules)),
            (
                "/var/lib/rancher/windrow/ledger.json",
                Some(FileReader::Own),
            ),
            (
                "/var/lib/rancher/windrow/gates/trial.json",
                Some(FileReader::Own),
            ),
            (
                "/var/lib/rancher/windrow/repairs/plan-stuck-a-0.json",
                Some(FileReader::Repairs),
            ),
            ("/var/lib/rancher/windrow/notes.json", None),
            ("/var/lib/rancher/windrow/gates/a/b.json", None),
            ("/etc/windrow/conf.d/.yaml", None),
            ("/etc/windrow/conf.d/50.yml", None),
            ("/etc/windrow/ledger.json", None),
            ("/etc/windrow/token.yaml", None),
            ("/etc/passwd", None),
        ] {
            assert_eq!(reader(place), expected, "{place}");
        }
    }

    #[test]
    fn the_value_of_a_key_that_windrow_does_not_know_is_left_out_at_any_depth() {
        let mut tree = json!({
            "webhooks": [{"event": "NODE_READY", "url": "https://x", "pasword": "polecat-fir-brook",
                "basicAuth": {"user": "ann", "password": "p", "pass": {"word": "polecat"}}}],
            "staging": {"blindDeadline": "1m", "limits": {"depht": 5}},
            "probes": {"custom": {"a": {"http": {"url": "https://x", "body": "polecat"}}}},
            "featureGates": {"kubelet": {"A": true, "B": {"value": true, "why": "polecat"}}},
            "tokn": "polecat",
            "console": null,
        });
        let before = tree.clone();
        FileReader::Settings.reduce(&mut tree, &mut Learner::default());
        let shown = tree.to_string();
        assert!(!shown.contains("polecat"), "{shown}");
        for (pointer, is_kept) in [
            ("/webhooks/0/event", true),
            ("/webhooks/0/basicAuth/user", true),
            ("/webhooks/0/basicAuth/pass", false),
            ("/staging/blindDeadline", true),
            ("/staging/limits/depht", false),
            ("/probes/custom/a/http/url", true),
            ("/featureGates/kubelet/A", true),
            ("/featureGates/kubelet/B/value", true),
            ("/tokn", false),
        ] {
            let is_same = tree.pointer(pointer) == before.pointer(pointer);
            assert_eq!(is_same, is_kept, "{pointer}: {tree}");
        }
    }

    #[test]
    fn the_value_of_an_unknown_key_of_a_knowledge_file_is_left_out() {
        let mut tree = json!({
            "apiVersion": "windrow.dev/v1", "kind": "Knowledge", "metadata": {"name": "site"},
            "entries": [{"pasword": "polecat-fir-brook", "by": {"chart": "a", "tokn": "polecat"}}],
        });
        FileReader::Knowledge.reduce(&mut tree, &mut Learner::default());
        let shown = tree.to_string();
        assert!(!shown.contains("polecat"), "{shown}");
        assert!(
            shown.contains(r#""name":"site""#) && shown.contains(r#""chart":"a""#),
            "{shown}"
        );
    }

    #[test]
    fn everything_in_the_shipped_files_is_known() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = |directory: &str, reader| {
            let files = std::fs::read_dir(here.join(directory)).unwrap();
            files.map(move |entry| (entry.unwrap().path(), reader))
        };
        let rules = files("config/rules.d", FileReader::Rules);
        let knowledge = files("crates/plan/data/knowledge", FileReader::Knowledge);
        let settings = (here.join("config/windrow.yaml"), FileReader::Settings);
        for (path, reader) in rules.chain(knowledge).chain([settings]) {
            let text = std::fs::read_to_string(&path).unwrap();
            let Some(node) = yaml::parse(&text, 1, &ReadLimits::default()).unwrap() else {
                continue;
            };
            let mut tree = node.to_json();
            reader.reduce(&mut tree, &mut Learner::default());
            assert!(!tree.to_string().contains(LEFT_OUT), "{path:?}: {tree:#}");
        }
    }
}
