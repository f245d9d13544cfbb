//! A manifest file in a flight: its digests, and its objects without their secrets but with their lines. A plan made of
//! them is the plan that was in force.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use windrow_model::manifest::{
    self, Document, ManifestFile, ManifestPath, MapEntry, Node, Object, ObjectRef, Problem,
    sha256_hex,
};
use windrow_model::reasons::Code;

use super::redact;

/// One manifest file, as it is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedFile {
    /// Path below the manifests directory.
    pub path: ManifestPath,
    /// Hex SHA-256 of the bytes, keyed; empty when they were not read.
    pub sha256: String,
    /// Digest of the objects, keyed.
    pub digest: String,
    /// Why the objects are not recorded; absent when they are. A flight with such a file is not replayed exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// Problems: content that RKE2 rejects, or that exceeds the limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<RecordedProblem>,
    /// The objects, by document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<RecordedDocument>,
}

/// A problem in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedProblem {
    /// The code of the problem.
    pub code: Code,
    /// The line of the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The problem as text.
    pub message: String,
}

/// One document of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedDocument {
    /// Its first line.
    pub line: u32,
    /// Its objects.
    pub objects: Vec<RecordedObject>,
}

/// One object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedObject {
    /// Its reference, as written.
    pub id: ObjectRef,
    /// Its API version, without the group.
    pub version: String,
    /// Its line.
    pub line: u32,
    /// The object, without secrets.
    pub object: Value,
    /// The line of every key and value, in the order of a walk through the object.
    pub lines: Vec<u32>,
}

impl RecordedFile {
    /// `room` is the maximum number of bytes for its objects.
    pub fn from_manifest(file: &ManifestFile, room: usize) -> Self {
        let mut recorded = Self {
            path: file.path.clone(),
            sha256: file.sha256.clone(),
            digest: file.digest.clone(),
            left_out: None,
            problems: file
                .problems
                .iter()
                .map(|problem| RecordedProblem {
                    code: problem.code,
                    line: problem.line,
                    message: problem.message.clone(),
                })
                .collect(),
            documents: file.documents.iter().map(document).collect(),
        };
        // Strings and numbers are always valid JSON.
        let size = serde_json::to_vec(&recorded).map_or(0, |bytes| bytes.len());
        if size > room {
            recorded.documents.clear();
            recorded.left_out = Some(format!(
                "its objects take {size} bytes, and there was room for {room}"
            ));
        }
        recorded
    }

    /// A file whose content is unknown: it has only its path and size.
    pub fn left_out(path: &ManifestPath, why: String) -> Self {
        Self {
            path: path.clone(),
            sha256: String::new(),
            digest: sha256_hex(path.as_bytes()),
            left_out: Some(why),
            problems: Vec::new(),
            documents: Vec::new(),
        }
    }

    pub fn restore(&self) -> ManifestFile {
        ManifestFile {
            path: self.path.clone(),
            documents: self
                .documents
                .iter()
                .map(|document| Document {
                    line: document.line,
                    objects: document.objects.iter().map(restore).collect(),
                })
                .collect(),
            problems: self
                .problems
                .iter()
                .map(|problem| Problem {
                    code: problem.code,
                    line: problem.line,
                    message: problem.message.clone(),
                })
                .collect(),
            sha256: self.sha256.clone(),
            digest: self.digest.clone(),
        }
    }
}

fn document(document: &Document) -> RecordedDocument {
    RecordedDocument {
        line: document.line,
        objects: document.objects.iter().map(object).collect(),
    }
}

fn object(object: &Object) -> RecordedObject {
    let redacted = redact::object(&object.node.to_json());
    let mut lines = Vec::new();
    note(&object.node, &redacted, &mut lines);
    RecordedObject {
        id: object.id.clone(),
        version: object.version.clone(),
        line: object.line,
        object: redacted,
        lines,
    }
}

/// Records the lines of the remaining parts of a value, in the order in which JSON keeps its keys.
fn note(node: &Node, left: &Value, lines: &mut Vec<u32>) {
    lines.push(node.line);
    match (&node.value, left) {
        (manifest::NodeValue::Sequence(items), Value::Array(left)) => {
            for (item, left) in items.iter().zip(left) {
                note(item, left, lines);
            }
        }
        (manifest::NodeValue::Mapping(_), Value::Object(left)) => {
            for (key, left) in left {
                if let Some(entry) = node.entry(key) {
                    lines.push(entry.line);
                    note(&entry.value, left, lines);
                }
            }
        }
        _ => {}
    }
}

fn restore(object: &RecordedObject) -> Object {
    let mut lines = object.lines.iter().copied();
    Object {
        id: object.id.clone(),
        version: object.version.clone(),
        line: object.line,
        node: node(&object.object, &mut lines, object.line),
    }
}

fn node(value: &Value, lines: &mut impl Iterator<Item = u32>, above: u32) -> Node {
    let line = lines.next().unwrap_or(above);
    let value = match value {
        Value::Null => manifest::NodeValue::Null,
        Value::Bool(value) => manifest::NodeValue::Bool(*value),
        Value::Number(number) => manifest::NodeValue::Number(Number::clone(number)),
        Value::String(text) => manifest::NodeValue::String(text.clone()),
        Value::Array(items) => manifest::NodeValue::Sequence(
            items.iter().map(|item| node(item, lines, line)).collect(),
        ),
        Value::Object(fields) => manifest::NodeValue::Mapping(entries(fields, lines, line)),
    };
    Node { line, value }
}

/// In the order of their lines, as they were written.
fn entries(
    fields: &Map<String, Value>,
    lines: &mut impl Iterator<Item = u32>,
    above: u32,
) -> Vec<MapEntry> {
    let mut entries: Vec<MapEntry> = fields
        .iter()
        .map(|(key, value)| {
            let line = lines.next().unwrap_or(above);
            MapEntry {
                key: key.clone(),
                line,
                value: node(value, lines, line),
            }
        })
        .collect();
    entries.sort_by_key(|entry| entry.line);
    entries
}
