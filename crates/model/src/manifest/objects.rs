//! Splits Lists of a document into objects, and checks names and types.

use super::budget::MOST_PROBLEMS;
use super::yaml::ReadKey;
use super::{MapEntry, Node, NodeValue, Object, ObjectRef, Problem};
use crate::reasons::Code;

/// A longer name or kind is invalid: no API server accepts it.
const LONGEST: usize = 1000;

/// Splits a document into at most `most` objects. RKE2 flattens a List by one level: every object with `items` is one.
/// `keys` are the keys that RKE2 reads as another text than the written one.
pub(super) fn of_document(
    node: Node,
    keys: &[ReadKey],
    most: usize,
) -> (Vec<Object>, Vec<Problem>) {
    let mut problems = Vec::new();
    if !matches!(node.value, NodeValue::Mapping(_)) {
        problems.push(Problem {
            code: Code::FileRefused,
            line: Some(node.line),
            message: format!(
                "the document is {}, not an object; write an object with apiVersion, kind and metadata",
                node.type_name()
            ),
        });
        return (Vec::new(), problems);
    }
    if node.entry("items").is_none() {
        let object = object(node, keys, Code::FileRefused, &mut problems);
        return (object.into_iter().collect(), problems);
    }
    let objects = list(node, keys, most, &mut problems);
    (objects, problems)
}

fn list(mut node: Node, keys: &[ReadKey], most: usize, problems: &mut Vec<Problem>) -> Vec<Object> {
    // For a List itself RKE2 requires only a kind.
    let Some(list_kind) = kind_of(&node, Code::FileRefused, problems) else {
        return Vec::new();
    };
    let list_version = node.str_at(&["apiVersion"]).unwrap_or_default().to_owned();
    let NodeValue::Mapping(entries) = &mut node.value else {
        return Vec::new();
    };
    let items = entries
        .iter()
        .position(|entry| entry.key == "items")
        .map(|at| entries.swap_remove(at).value);
    let Some(items) = items else {
        return Vec::new();
    };
    let items = match items.value {
        NodeValue::Sequence(items) => items,
        NodeValue::Null => Vec::new(),
        _ => {
            problems.push(Problem {
                code: Code::FileRefused,
                line: Some(items.line),
                message: format!(
                    "`items` is {}, and RKE2 reads every object with `items` as a List; write a list",
                    items.type_name()
                ),
            });
            Vec::new()
        }
    };
    let item_kind = list_kind.strip_suffix("List").unwrap_or(&list_kind);
    let mut objects = Vec::with_capacity(items.len().min(most));
    for mut item in items {
        if objects.len() >= most || problems.len() > MOST_PROBLEMS {
            break;
        }
        if !matches!(item.value, NodeValue::Mapping(_)) {
            problems.push(Problem {
                // RKE2 makes an object without a name from an empty item.
                code: match item.is_null() {
                    true => Code::ObjectRefused,
                    false => Code::FileRefused,
                },
                line: Some(item.line),
                message: format!(
                    "an item of the List is {}, not an object; write an object",
                    item.type_name()
                ),
            });
            continue;
        }
        inherit(&mut item, &list_version, item_kind);
        if item.str_at(&["kind"]).is_some_and(|kind| {
            kind == "List" || (kind.ends_with("List") && item.entry("items").is_some())
        }) {
            problems.push(refused(
                item.line,
                "a List inside a List: RKE2 unpacks Lists only one level deep; move its items up",
            ));
            continue;
        }
        objects.extend(object(item, keys, Code::ObjectRefused, problems));
    }
    objects
}

/// An item without kind and version gets those that the List's own kind implies.
fn inherit(item: &mut Node, version: &str, kind: &str) {
    if item.str_at(&["kind"]).is_some() || item.str_at(&["apiVersion"]).is_some() {
        return;
    }
    if kind.is_empty() {
        return;
    }
    let line = item.line;
    if let NodeValue::Mapping(entries) = &mut item.value {
        entries.retain(|entry| entry.key != "kind" && entry.key != "apiVersion");
        for (key, value) in [("apiVersion", version), ("kind", kind)] {
            entries.push(MapEntry {
                key: key.to_owned(),
                line,
                value: Node {
                    line,
                    value: NodeValue::String(value.to_owned()),
                },
            });
        }
    }
}

/// A document that lacks several of the keys that every object has, such as a chart's values, is not an object. This is
/// reported once.
fn no_object(node: &Node, without_kind: Code) -> Option<Problem> {
    // An invalid kind has a separate error.
    if node.entry("kind").is_some() && node.str_at(&["kind"]).is_none_or(str::is_empty) {
        return None;
    }
    let named = |key: &str| node.at(&["metadata", key]).is_some();
    let has_name = match node.get("metadata").map(|metadata| &metadata.value) {
        None => false,
        Some(NodeValue::Mapping(_)) => named("name") || named("generateName"),
        Some(_) => true,
    };
    let keys = [
        ("apiVersion", node.entry("apiVersion").is_some()),
        ("kind", node.entry("kind").is_some()),
        ("metadata.name", has_name),
    ];
    let missing = keys.iter().filter(|(_, there)| !there);
    let missing: Vec<String> = missing.map(|(key, _)| format!("`{key}`")).collect();
    let (last, others) = missing.split_last().filter(|(_, few)| !few.is_empty())?;
    let missing = format!("{} and {last}", others.join(", "));
    let or = match without_kind {
        Code::FileRefused => ", or keep the file in another directory",
        _ => "",
    };
    let mut problem = refused(
        node.line,
        &format!("no Kubernetes object: {missing} are missing; write them{or}"),
    );
    if node.entry("kind").is_none() {
        problem.code = without_kind;
    }
    Some(problem)
}

/// `apiVersion` and `kind`, when both are present and valid.
fn type_of(
    node: &Node,
    without_kind: Code,
    problems: &mut Vec<Problem>,
) -> Option<(String, String)> {
    let version = required(node, "apiVersion", node.line, problems);
    let kind = kind_of(node, without_kind, problems);
    version.zip(kind)
}

/// RKE2 refuses the whole file because of a document without a kind (apimachinery's `UnstructuredJSONScheme.Decode`:
/// *Object 'Kind' is missing*), but of a List only the item: `without_kind`. After an invalid `apiVersion` there is no
/// kind either.
fn kind_of(node: &Node, without_kind: Code, problems: &mut Vec<Problem>) -> Option<String> {
    let before = problems.len();
    let kind = required(node, "kind", node.line, problems);
    if node
        .str_at(&["kind"])
        .is_some_and(|kind| kind.len() > LONGEST)
    {
        return None;
    }
    if let Some(version) = node.entry("apiVersion")
        && version
            .value
            .as_str()
            .is_some_and(|text| text.matches('/').count() > 1)
    {
        problems.push(refused(
            version.line,
            "`apiVersion` has more than one `/`; write group/version",
        ));
    }
    for problem in &mut problems[before..] {
        problem.code = without_kind;
    }
    kind.filter(|_| problems.len() == before)
}

/// A required string. Reports the problem if it is absent or invalid.
fn required(node: &Node, key: &str, fallback: u32, problems: &mut Vec<Problem>) -> Option<String> {
    match node.entry(key) {
        None => {
            problems.push(refused(
                fallback,
                &format!(
                    "`{key}` is missing; every object needs apiVersion, kind and metadata.name"
                ),
            ));
            None
        }
        Some(entry) => text(entry, key, problems),
    }
}

fn text(entry: &MapEntry, name: &str, problems: &mut Vec<Problem>) -> Option<String> {
    match &entry.value.value {
        NodeValue::String(text) if text.len() > LONGEST => problems.push(refused(
            entry.line,
            &format!(
                "`{name}` has {} bytes, which is more than any API server accepts; write a shorter one",
                text.len()
            ),
        )),
        NodeValue::String(text) if !text.is_empty() => return Some(text.clone()),
        NodeValue::String(_) | NodeValue::Null => problems.push(refused(
            entry.line,
            &format!("`{name}` is empty; write its value"),
        )),
        _ => problems.push(refused(
            entry.line,
            &format!(
                "`{name}` is {}, not a string; put quotation marks around it",
                entry.value.type_name()
            ),
        )),
    }
    None
}

fn object(
    node: Node,
    keys: &[ReadKey],
    without_kind: Code,
    problems: &mut Vec<Problem>,
) -> Option<Object> {
    if let Some(problem) = no_object(&node, without_kind) {
        problems.push(problem);
        return None;
    }
    let typed = type_of(&node, without_kind, problems);
    let named = names(&node, keys, problems);
    let (api_version, kind) = typed?;
    let (namespace, name) = named?;
    if kind == "List" {
        problems.push(refused(
            node.line,
            "a List without `items`; write its items, or remove it",
        ));
        return None;
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    Some(Object {
        id: ObjectRef {
            group: group.into(),
            kind: kind.into(),
            namespace: namespace.map(Into::into),
            name: name.into(),
        },
        version: version.to_owned(),
        line: node.line,
        node,
    })
}

/// Reads namespace and name, and checks the type of everything else in `metadata`.
fn names(
    node: &Node,
    keys: &[ReadKey],
    problems: &mut Vec<Problem>,
) -> Option<(Option<String>, String)> {
    let before = problems.len();
    let Some(metadata) = node.entry("metadata") else {
        problems.push(refused(
            node.line,
            "`metadata.name` is missing; every object needs apiVersion, kind and metadata.name",
        ));
        return None;
    };
    match metadata.value.value {
        NodeValue::Mapping(_) => {}
        _ => {
            problems.push(refused(
                metadata.line,
                &format!(
                    "`metadata` is {}, not a map; write `metadata:` with `name:` below it",
                    metadata.value.type_name()
                ),
            ));
            return None;
        }
    }
    let optional = |key: &str, problems: &mut Vec<Problem>| {
        let entry = metadata.value.entry(key)?;
        match &entry.value.value {
            NodeValue::Null => None,
            NodeValue::String(text) if text.is_empty() => None,
            _ => text(entry, &format!("metadata.{key}"), problems),
        }
    };
    let namespace = optional("namespace", problems);
    let name = optional("name", problems);
    let generated = optional("generateName", problems);
    if name.is_none() && generated.is_none() && problems.len() == before {
        let line = metadata
            .value
            .entry("name")
            .map_or(metadata.line, |at| at.line);
        problems.push(refused(
            line,
            "`metadata.name` is missing; every object needs apiVersion, kind and metadata.name",
        ));
    }
    let is_refused = problems.len() > before;
    for key in ["labels", "annotations"] {
        if let Some(entry) = metadata.value.entry(key) {
            problems.extend(texts(entry, key, keys));
        }
    }
    if is_refused {
        return None;
    }
    Some((namespace, name.or(generated)?))
}

/// Labels and annotations are maps of strings. RKE2 does not refuse any other type: it silently drops the whole map.
fn texts(entry: &MapEntry, key: &str, keys: &[ReadKey]) -> Vec<Problem> {
    let dropped = |line: u32, what: &str| Problem {
        code: Code::LabelsDropped,
        line: Some(line),
        message: format!("{what}; RKE2 silently drops all {key} of the object"),
    };
    match &entry.value.value {
        NodeValue::Null => Vec::new(),
        NodeValue::Mapping(entries) => entries
            .iter()
            .filter(|item| !matches!(item.value.value, NodeValue::String(_) | NodeValue::Null))
            .take(MOST_PROBLEMS)
            .map(|item| {
                let type_name = item.value.type_name();
                let is_this = |one: &&ReadKey| (one.line, &one.read) == (item.line, &item.key);
                let what = match keys.iter().find(is_this) {
                    None => format!(
                        "`metadata.{key}.{}` is {type_name}, not a string: put quotation marks around it",
                        item.key
                    ),
                    Some(ReadKey { written, read, .. }) => format!(
                        "`metadata.{key}.{written}` is {type_name}, not a string, and RKE2 reads the key `{written}` as `{read}`: \
                         put quotation marks around both"
                    ),
                };
                dropped(item.line, &what)
            })
            .collect(),
        _ => {
            let what = format!(
                "`metadata.{key}` is {}, not a map: write `key: value` lines below it",
                entry.value.type_name()
            );
            vec![dropped(entry.line, &what)]
        }
    }
}

fn refused(line: u32, message: &str) -> Problem {
    Problem {
        code: Code::ObjectRefused,
        line: Some(line),
        message: message.to_owned(),
    }
}
