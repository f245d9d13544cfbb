//! How the simulated deploy controller reads a file.

use std::collections::BTreeSet;
use std::sync::Arc;

use windrow_model::manifest::{
    self, FileContent, GroupKind, ManifestFile, Node, NodeValue as Yaml, ReadLimits,
};
use windrow_model::reasons::Code;

use super::declared::Declared;

#[derive(Debug, Clone)]
pub(super) struct FileReading {
    pub(super) objects: Vec<Declared>,
    /// Their numbers in the order in which they are applied.
    pub(super) order: Vec<(GroupKind, Vec<usize>)>,
    pub(super) kinds: Arc<BTreeSet<GroupKind>>,
    pub(super) sha256: String,
    /// Why RKE2 cannot read the file, if it cannot.
    pub(super) refused: Option<String>,
    /// Why it does not try to apply any of it, if it can read it.
    pub(super) invalid: Option<&'static str>,
    /// Objects without a name, as in the error, and their kinds: the rest of the file is applied.
    pub(super) unnamed: Vec<(String, String)>,
    /// Documents that cannot be an object of any kind: the same applies.
    pub(super) unknown: Vec<String>,
}

pub(super) fn read_file(path: &str, content: &FileContent) -> FileReading {
    // All documents of a file may take more memory together than one of them may.
    let limits = ReadLimits {
        expanded_bytes: 8 * ReadLimits::default().expanded_bytes,
        ..ReadLimits::default()
    };
    let file = manifest::read(path, content, &limits);
    let objects: Vec<Declared> = file
        .objects()
        .map(|object| Declared::new(&object.id, &object.version, object.node.to_json()))
        .collect();
    let kinds = objects.iter().map(|object| object.id.group_kind());
    let mut reading = FileReading {
        kinds: Arc::new(kinds.collect()),
        order: by_kind(&objects),
        objects,
        refused: None,
        invalid: None,
        unnamed: Vec::new(),
        unknown: Vec::new(),
        sha256: file.sha256.clone(),
    };
    let mut problems = file.problems.iter();
    let refused = problems.find(|problem| problem.refuses() && problem.code != Code::ObjectRefused);
    match (refused, content) {
        (Some(problem), _) => reading.refused = Some(say(problem)),
        (None, FileContent::Bytes(bytes)) if file.refused().is_some() => {
            examine(&file, &String::from_utf8_lossy(bytes), &mut reading);
        }
        _ => {}
    }
    reading
}

/// Kinds in order of first appearance, with the objects of each by namespace and name; the last of two with the same name wins.
fn by_kind(objects: &[Declared]) -> Vec<(GroupKind, Vec<usize>)> {
    let mut kinds: Vec<(GroupKind, Vec<usize>)> = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        let kind = object.id.group_kind();
        let place = match kinds.iter().position(|(known, _)| *known == kind) {
            Some(place) => place,
            None => {
                kinds.push((kind, Vec::new()));
                kinds.len() - 1
            }
        };
        let same = &mut kinds[place].1;
        same.retain(|other| objects[*other].id != object.id);
        same.push(number);
    }
    for (_, numbers) in &mut kinds {
        let id = |number: &usize| &objects[*number].id;
        numbers.sort_by(|a, b| {
            let (a, b) = (id(a), id(b));
            (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))
        });
    }
    kinds
}

fn say(problem: &manifest::Problem) -> String {
    match problem.line {
        Some(line) => format!("line {line}: {}", problem.message),
        None => problem.message.clone(),
    }
}

/// For Windrow, an incomplete object is an error, and so its whole file is. RKE2 checks the kind when it reads the file, and the
/// version before it applies; it finds all other errors as it applies one object after the other.
fn examine(file: &ManifestFile, text: &str, reading: &mut FileReading) {
    let mut items = Vec::new();
    for document in manifest::nodes(text, &ReadLimits::default()) {
        let kind = document.str_at(&["kind"]).unwrap_or("").to_owned();
        let inherited = kind.strip_suffix("List").unwrap_or("").to_owned();
        if kind.is_empty() {
            reading.refused = file.refused().map(say);
        }
        match document.entry("items").map(|entry| &entry.value.value) {
            Some(Yaml::Sequence(inner)) => {
                let version = document.str_at(&["apiVersion"]).unwrap_or("").to_owned();
                items.extend(inner.iter().map(|item| match item.entry("kind") {
                    None if !inherited.is_empty() => {
                        (item.clone(), version.clone(), inherited.clone())
                    }
                    _ => typed(item.clone()),
                }));
            }
            _ => items.push(typed(document)),
        }
    }
    for (item, version, kind) in items {
        let slash = if version.contains('/') { "" } else { "/" };
        if kind.is_empty() {
            reading.refused = file.refused().map(say);
        } else if version.is_empty() {
            reading.invalid = Some("groupVersion shouldn't be empty");
        } else if kind == "List" {
            reading.unknown.push(format!(
                "failed to discover client for {slash}{version}, Kind=List"
            ));
        } else if ["name", "generateName"]
            .iter()
            .all(|key| item.str_at(&["metadata", key]).is_none_or(str::is_empty))
        {
            let namespace = item.str_at(&["metadata", "namespace"]).unwrap_or("default");
            reading
                .unnamed
                .push((format!("{namespace}/ {slash}{version}, Kind={kind}"), kind));
        }
    }
}

fn typed(item: Node) -> (Node, String, String) {
    let text = |key| item.str_at(&[key]).unwrap_or("").to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    (item, version, kind)
}
