//! The reader agrees with RKE2's deploy controller: every file of
//! `tests/fixtures/yaml-as-rke2-reads-it.json`, which that controller read on a real API server
//! (`yaml_as_rke2_reads_it.rs` makes the list again), comes out the same here.

use serde_json::{Value, json};
use windrow_model::manifest::{self, FileContent, ReadLimits};

/// Refusals that are the cluster's, not the file's: no reader can see them.
const OF_THE_CLUSTER: [&str; 3] = [
    "unknown-kind",
    "unknown-kind-of-known-group",
    "missing-namespace",
];

fn bytes(row: &Value) -> Vec<u8> {
    if let Some(text) = row["content"].as_str() {
        return text.as_bytes().to_vec();
    }
    let hex = row["hex"].as_str().expect("content or hex");
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}

/// As the API server has it: an object without a namespace is in `default`; a map of labels or
/// annotations with anything but text in it was dropped whole; one number is written in one way.
fn stored(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    metadata
        .entry("namespace")
        .or_insert_with(|| json!("default"));
    for key in ["labels", "annotations"] {
        let Some(Value::Object(texts)) = metadata.get_mut(key) else {
            metadata.remove(key);
            continue;
        };
        for text in texts.values_mut().filter(|text| text.is_null()) {
            *text = json!("");
        }
        if !texts.values().all(Value::is_string) {
            metadata.remove(key);
        }
    }
    with_one_kind_of_number(&mut object);
    object
}

fn with_one_kind_of_number(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64() {
                *value = json!(float);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(with_one_kind_of_number),
        Value::Object(map) => map.values_mut().for_each(with_one_kind_of_number),
        _ => {}
    }
}

fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    // Of one object declared twice in a file the last is applied.
    let id = |object: &Value| {
        let name = &object["metadata"]["name"];
        format!("{} {name}", object["kind"])
    };
    objects.reverse();
    objects.sort_by_key(id);
    objects.dedup_by(|next, kept| id(next) == id(kept) && !kept["metadata"]["name"].is_null());
    objects
}

#[test]
fn every_file_is_read_as_rke2_was_seen_to_read_it() {
    let fixture = include_str!("../fixtures/yaml-as-rke2-reads-it.json");
    let rows: Vec<Value> = serde_json::from_str(fixture).expect("the fixture is JSON");
    assert!(rows.len() > 100, "the fixture has {} rows", rows.len());
    let mut different = Vec::new();
    for row in &rows {
        let name = row["name"].as_str().expect("a name");
        let content = FileContent::Bytes(bytes(row));
        let file = manifest::read("x.yaml", &content, &ReadLimits::default());
        let refused = row["outcome"]["error"].is_string() && !OF_THE_CLUSTER.contains(&name);
        if refused != file.refused().is_some() {
            different.push(format!(
                "{name}: {:?}, but {}",
                file.problems, row["outcome"]
            ));
        }
        if refused || OF_THE_CLUSTER.contains(&name) {
            continue;
        }
        let ours: Vec<Value> = file
            .objects()
            .map(|object| stored(object.node.to_json()))
            .collect();
        let theirs = row["outcome"]["objects"].as_array().expect("objects");
        let (ours, theirs) = (
            sorted(ours),
            sorted(theirs.iter().cloned().map(stored).collect()),
        );
        if ours != theirs {
            different.push(format!("{name}: {}, but {}", json!(ours), json!(theirs)));
        }
    }
    assert!(different.is_empty(), "\n{}", different.join("\n"));
}
