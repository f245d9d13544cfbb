//! What the simulated deploy controller reads out of a file, kept so that a file is parsed once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::manifest::{
    self, Content, GroupKind, Limits, ManifestFile, Node, ObjectRef, Value as Yaml,
};
use crate::reasons::{Code, Severity};

/// One object as its manifest declares it.
#[derive(Debug, Clone)]
pub(super) struct Declared {
    /// Namespace as written.
    pub(super) id: ObjectRef,
    /// Its name in the cluster where its kind is namespaced, and where it is not.
    namespaced: ObjectRef,
    unnamespaced: ObjectRef,
    pub(super) api_version: String,
    pub(super) json: Arc<Value>,
    /// The same as the API server keeps it: a Service has got an address.
    pub(super) kept: Arc<Value>,
    /// Its name is chosen by the API server, and anew each time.
    pub(super) generated: bool,
    /// The API server turns `stringData` into `data`: the controller misses it and writes it again, to no
    /// effect.
    pub(super) is_missed: bool,
}

impl Declared {
    fn new(id: &ObjectRef, version: &str, json: Value) -> Self {
        let json = Arc::new(json);
        let in_namespace = |namespace| ObjectRef {
            namespace,
            ..id.clone()
        };
        let namespace = id.namespace.clone().unwrap_or("default".into());
        Self {
            namespaced: in_namespace(Some(namespace)),
            unnamespaced: in_namespace(None),
            api_version: match id.group.as_str() {
                "" => version.to_owned(),
                group => format!("{group}/{version}"),
            },
            generated: is_blank(&json["metadata"]["name"]),
            is_missed: id.kind == "Secret" && json["stringData"].is_object(),
            kept: with_address(id, &json).unwrap_or_else(|| Arc::clone(&json)),
            json,
            id: id.clone(),
        }
    }

    /// Its name in the cluster.
    pub(super) fn named(&self, namespaced: bool) -> &ObjectRef {
        match namespaced {
            true => &self.namespaced,
            false => &self.unnamespaced,
        }
    }
}

/// One file, read.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) objects: Vec<Declared>,
    /// Their places in the order in which they are applied.
    pub(super) order: Vec<(GroupKind, Vec<usize>)>,
    /// Their kinds.
    pub(super) kinds: Arc<BTreeSet<GroupKind>>,
    pub(super) sha256: String,
    /// Why RKE2 cannot read the file, if it cannot.
    pub(super) refused: Option<String>,
    /// Why it does not try to apply any of it, if it can read it.
    pub(super) invalid: Option<&'static str>,
    /// Objects without a name, as the error calls them, and their kinds: the rest of the file is
    /// applied.
    pub(super) unnamed: Vec<(String, String)>,
    /// What cannot be an object of any kind: as well.
    pub(super) unknown: Vec<String>,
}

/// Files that were read, by where their content lies in memory, which it keeps. A copy shares them until
/// it reads something else.
#[derive(Debug, Clone, Default)]
pub(super) struct Readings {
    known: Arc<HashMap<usize, Known>>,
}

type Known = (Arc<Content>, Arc<Reading>);

impl Readings {
    pub(super) fn read(&mut self, path: &str, content: &Arc<Content>) -> Arc<Reading> {
        let place = Arc::as_ptr(content).addr();
        if let Some((_, reading)) = self.known.get(&place) {
            return reading.clone();
        }
        let reading = Arc::new(read(path, content));
        let known = (Arc::clone(content), Arc::clone(&reading));
        Arc::make_mut(&mut self.known).insert(place, known);
        reading
    }

    /// The same file on another server, read once for both: what they declare is then seen to be the
    /// same without a comparison.
    pub(super) fn read_alike(&mut self, path: &str, content: &Arc<Content>, other: &Arc<Content>) {
        let reading = self.read(path, other);
        let place = Arc::as_ptr(content).addr();
        Arc::make_mut(&mut self.known).insert(place, (Arc::clone(content), reading));
    }
}

fn read(path: &str, content: &Content) -> Reading {
    let file = manifest::read(path, content, &Limits::default());
    let objects: Vec<Declared> = file
        .objects()
        .map(|object| Declared::new(&object.id, &object.version, object.node.to_json()))
        .collect();
    let kinds = objects.iter().map(|object| object.id.group_kind());
    let mut reading = Reading {
        kinds: Arc::new(kinds.collect()),
        order: by_kind(&objects),
        objects,
        refused: None,
        invalid: None,
        unnamed: Vec::new(),
        unknown: Vec::new(),
        sha256: file.sha256.clone(),
    };
    let refused = file.problems.iter().find(|problem| {
        problem.code.severity() == Severity::Error && problem.code != Code::ObjectRefused
    });
    match (refused, content) {
        (Some(problem), _) => reading.refused = Some(say(problem)),
        (None, Content::Bytes(bytes)) if file.refused().is_some() => {
            examine(&file, &String::from_utf8_lossy(bytes), &mut reading);
        }
        _ => {}
    }
    reading
}

/// The same Service with a `clusterIP`, if it has none.
fn with_address(id: &ObjectRef, json: &Value) -> Option<Arc<Value>> {
    let spec = &json["spec"];
    let lacks = (spec.is_object() || spec.is_null()) && is_blank(&spec["clusterIP"]);
    if id.kind != "Service" || !id.group.is_empty() || !lacks {
        return None;
    }
    let mut json = json.clone();
    json["spec"]["clusterIP"] = "10.43.0.100".into();
    Some(Arc::new(json))
}

/// Is it not there, or as good as not there?
fn is_blank(value: &Value) -> bool {
    value.as_str().is_none_or(str::is_empty)
}

/// Kinds in order of first appearance, in each the objects by namespace and name; the last of two
/// of the same name wins.
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

/// To Windrow an object that lacks something is wrong, and so its file. RKE2 looks for the kind
/// when it reads the file, for the version before it applies, and finds the rest out as it applies
/// one object after the other.
fn examine(file: &ManifestFile, text: &str, reading: &mut Reading) {
    let mut items = Vec::new();
    for document in manifest::nodes(text, &Limits::default()) {
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
