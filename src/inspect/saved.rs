//! Objects from saved files: the archive of `windrow report`, or a directory of lists as `kubectl get -o json` writes
//! them.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;
use windrow_harvester::incidents::OwnNode;
use windrow_harvester::objects::{KindListing, ObjectKind, Objects, text};
use windrow_model::manifest::GroupKind;

use crate::archive::{OWN_NODE, ReadError, ReportIndex, items_of, read_each};
use crate::files::read_at_most;
use crate::fs;
use crate::json_values::{ValueBudget, ValueError};
use crate::observe::objects::complete;

/// Largest saved file, in bytes: twice the size of a report's list, because of the fields that Windrow drops.
pub(crate) const LARGEST: u64 = 256 << 20;
/// Most memory that the values of a node's own findings take, in bytes.
const MOST_OF_OWN: usize = 64 << 20;
/// How a gzip file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const NO_LIST: &str = "no list of objects in it: save them with `kubectl get KIND -A -o json`";
/// How deep directories are searched.
const DEEPEST: usize = 4;

#[derive(Debug)]
pub(crate) struct SavedObjects {
    pub(crate) objects: Objects,
    /// When it was saved; `None` without a record of it.
    pub(crate) at: Option<Timestamp>,
    /// Facts from the files of the reported node.
    pub(crate) own: Option<OwnNode>,
}

/// Reads the archive of a report, or every `.json` file at or below a path: lists and single objects. A kind that was
/// not saved completely stays Unknown.
///
/// # Errors
///
/// All files that cannot be read.
pub(crate) fn saved(path: &Path) -> Result<SavedObjects, Vec<String>> {
    match is_packed(path) {
        true => {
            let wrong = |why: String| vec![format!("{}: {why}", path.display())];
            let file = fs::open(path).map_err(|error| wrong(error.to_string()))?;
            packed(file).map_err(|error| wrong(error.to_string()))
        }
        false => lists(path).map(|objects| SavedObjects {
            objects,
            at: None,
            own: None,
        }),
    }
}

/// As [`saved`], from the bytes of one file: an archive, or a list.
///
/// # Errors
///
/// Why it cannot be read. `shown` is its name.
pub(crate) fn saved_in(shown: &str, bytes: &[u8]) -> Result<SavedObjects, String> {
    if bytes.starts_with(&GZIP) {
        return packed(bytes).map_err(|error| format!("{shown}: {error}"));
    }
    let value = ValueBudget::default().parse(bytes);
    let value = value.map_err(|error| format!("{shown}: {error}"))?;
    let mut objects = Objects::default();
    match take(&mut objects, value) {
        true => Ok(SavedObjects {
            objects,
            at: None,
            own: None,
        }),
        false => Err(format!("{shown}: {NO_LIST}")),
    }
}

fn packed(archive: impl io::Read) -> Result<SavedObjects, ReadError> {
    packed_within(ValueBudget::default(), archive)
}

/// The lists take no more memory than this.
fn packed_within(
    mut budget: ValueBudget,
    archive: impl io::Read,
) -> Result<SavedObjects, ReadError> {
    let (mut lists, mut own) = (BTreeMap::new(), None);
    let index = read_each(archive, |mut file| {
        if file.path == OWN_NODE {
            own = own_node(&file.read()?)?;
        } else if let Some(name) = name_of_list(&file.path) {
            let name = name.to_owned();
            lists.insert(name, items_of(&file.read()?, &mut budget));
        }
        Ok(())
    })?;
    Ok(SavedObjects {
        at: Some(index.created),
        own,
        objects: of_archive(&index, lists),
    })
}

/// Facts from the files of the reported node; none if it has another version of Windrow.
fn own_node(json: &[u8]) -> Result<Option<OwnNode>, ReadError> {
    match ValueBudget::of(MOST_OF_OWN).parse(json) {
        Ok(value) => Ok(serde_json::from_value(value).ok()),
        Err(ValueError::TooLarge { .. }) => Err(ReadError::TooLarge),
        Err(ValueError::NotJson { .. } | ValueError::NoList) => Ok(None),
    }
}

fn name_of_list(path: &str) -> Option<&str> {
    path.strip_prefix("cluster/")?.strip_suffix(".json")
}

fn is_packed(path: &Path) -> bool {
    let mut begin = [0; 2];
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    let opened = is_file.then(|| fs::open(path).ok()).flatten();
    opened.is_some_and(|mut file| file.read_exact(&mut begin).is_ok()) && begin == GZIP
}

/// The lists of an archive. A kind that its index calls not served has no objects; one that was cut off or is missing
/// is Unknown.
fn of_archive(
    index: &ReportIndex,
    mut lists: BTreeMap<String, Result<Vec<Value>, ValueError>>,
) -> Objects {
    let mut objects = Objects::default();
    for missing in &index.missing {
        let Some((kind, version)) = missing.what.split_once(" of ") else {
            continue;
        };
        let group = version.split_once('/').map_or("", |(group, _)| group);
        // A group that is not served gets an answer without a Kubernetes status.
        let not_served = missing.why.starts_with("404") || missing.why == "HTTP 404";
        let listed = match not_served {
            true => KindListing::Objects(Vec::new()),
            false => KindListing::Unknown(missing.why.clone()),
        };
        objects.insert(GroupKind::new(group, kind), listed);
    }
    for entry in &index.files {
        let name = name_of_list(&entry.path);
        let Some((name, (group, kind))) =
            name.and_then(|name| Some((name, name.rsplit_once('_')?)))
        else {
            continue;
        };
        let listed = match lists.remove(name) {
            Some(Ok(_)) if entry.truncated => {
                KindListing::Unknown("the report has only a part of them".to_owned())
            }
            Some(Ok(items)) => KindListing::Objects(items),
            Some(Err(ValueError::TooLarge { .. })) => {
                KindListing::Unknown("its list in the report is too large to be read".to_owned())
            }
            _ => KindListing::Unknown("its list in the report cannot be read".to_owned()),
        };
        let group = if group == "core" { "" } else { group };
        objects.insert(GroupKind::new(group, kind), listed);
    }
    objects
}

fn lists(path: &Path) -> Result<Objects, Vec<String>> {
    let mut files = Vec::new();
    let mut errors = Vec::new();
    if let Err(error) = find(path, 0, &mut files) {
        errors.push(format!("{}: {error}", path.display()));
    }
    files.sort();
    let mut objects = Objects::default();
    let mut found = false;
    let mut budget = ValueBudget::default();
    for file in &files {
        match read(file, &mut budget) {
            Ok(value) => found |= take(&mut objects, value),
            Err(error) => errors.push(format!("{}: {error}", file.display())),
        }
    }
    if errors.is_empty() && !found {
        errors.push(format!("{}: {NO_LIST}", path.display()));
    }
    if errors.is_empty() {
        Ok(objects)
    } else {
        Err(errors)
    }
}

fn find(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    if metadata.is_file() {
        if depth == 0 || path.extension().is_some_and(|end| end == "json") {
            files.push(path.to_owned());
        }
    } else if metadata.is_dir() && depth < DEEPEST {
        for entry in fs::read_dir(path)? {
            find(&entry?.path(), depth + 1, files)?;
        }
    }
    Ok(())
}

fn read(path: &Path, budget: &mut ValueBudget) -> io::Result<Value> {
    let bytes = read_at_most(path, LARGEST)?;
    budget.parse(&bytes).map_err(io::Error::other)
}

/// Adds a list or an object. True when it was one.
fn take(objects: &mut Objects, mut value: Value) -> bool {
    let (version, kind) = (
        text(&value, "/apiVersion").to_owned(),
        text(&value, "/kind").to_owned(),
    );
    let is_named = value.pointer("/metadata/name").is_some();
    let items = match value.get_mut("items") {
        Some(Value::Array(items)) if kind.ends_with("List") => std::mem::take(items),
        _ if !kind.is_empty() && is_named => {
            objects.add(value);
            return true;
        }
        _ => return false,
    };
    let of_items = kind.strip_suffix("List").unwrap_or_default();
    if !of_items.is_empty() {
        // The list's own kind shows which objects are missing.
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let kinds = match (group, of_items) {
            ("", "Secret") => ObjectKind::OF_SECRETS
                .iter()
                .map(|kind| kind.group_kind())
                .collect(),
            _ => vec![GroupKind::new(group, of_items)],
        };
        for kind in kinds {
            if objects.list(&kind).is_err() {
                objects.insert(kind, KindListing::Objects(Vec::new()));
            }
        }
    }
    for item in items {
        objects.add(complete(item, &version, of_items));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_every_form_are_read_and_what_has_no_file_is_unknown() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "cluster/_Pod.json",
            r#"{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a","namespace":"x","managedFields":[{}]}}]}"#,
        );
        write(
            "mixed.json",
            r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}]}"#,
        );
        write(
            "one.json",
            r#"{"apiVersion":"kubevirt.io/v1","kind":"KubeVirt","metadata":{"name":"kubevirt"}}"#,
        );
        write(
            "empty.json",
            r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudgetList","items":[]}"#,
        );
        write("report.json", r#"{"collected": []}"#);
        write("notes.txt", "not JSON");
        let objects = saved(directory.path()).unwrap().objects;
        let pods = objects.all(ObjectKind::POD).unwrap();
        assert_eq!(text(&pods[0], "/kind"), "Pod");
        assert!(pods[0].pointer("/metadata/managedFields").is_none());
        assert_eq!(objects.all(ObjectKind::NODE).unwrap().len(), 1);
        assert_eq!(objects.all(ObjectKind::KUBEVIRT).unwrap().len(), 1);
        assert_eq!(objects.all(ObjectKind::BUDGET).unwrap().len(), 0);
        assert!(objects.all(ObjectKind::VM).is_err());
        let alone = saved(&directory.path().join("one.json")).unwrap().objects;
        assert_eq!(alone.all(ObjectKind::KUBEVIRT).unwrap().len(), 1);
    }

    #[test]
    fn an_object_that_has_items_of_its_own_is_no_list_and_keeps_them() {
        let widget = serde_json::json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "a"}, "items": [{"metadata": {"name": "b"}}]});
        let mut objects = Objects::default();
        assert!(take(&mut objects, widget.clone()));
        let kind = GroupKind::new("example.com", "Widget");
        assert_eq!(objects.list(&kind).unwrap(), [widget]);
    }

    #[test]
    fn everything_that_cannot_be_read_is_named_without_quoting_it() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.json"), "{\"token\": s3cret").unwrap();
        fs::write(directory.path().join("b.json"), "").unwrap();
        let errors = saved(directory.path()).unwrap_err();
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors[0].contains("a.json") && errors[0].contains("line 1"));
        assert!(!errors[0].contains("s3cret"));
        let none = saved(&directory.path().join("none")).unwrap_err();
        assert!(none[0].contains("No such file"), "{none:?}");
    }

    #[test]
    fn a_file_that_is_too_large_is_named_and_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = fs::File::create(directory.path().join("a.json")).unwrap();
        file.set_len(LARGEST + 1).unwrap();
        let errors = saved(directory.path()).unwrap_err();
        assert!(errors[0].contains("larger than 256 MiB"), "{errors:?}");
    }

    #[test]
    fn a_report_says_what_there_was_what_was_not_served_and_what_is_not_known() {
        use crate::archive::{ArchiveOwner, Collected, CollectedContent, CollectedItem, pack};
        let list = |kind: &str, truncated: bool| CollectedItem {
            path: format!("cluster/core_{kind}.json"),
            what: "objects of the cluster".to_owned(),
            source: "GET".to_owned(),
            content: CollectedContent::Tree(
                serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
                    {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}}
                ]}),
            ),
            truncated,
        };
        let mut collected = Collected {
            items: vec![list("Node", false), list("Pod", true)],
            ..Collected::default()
        };
        collected.missing("Addon of harvesterhci.io/v1beta1", "404: not found");
        collected.missing("Volume of longhorn.io/v1beta2", "HTTP 404");
        collected.missing("PodDisruptionBudget of policy/v1", "403: forbidden");
        let created: Timestamp = "2026-11-21T20:15:00Z".parse().unwrap();
        let head = ArchiveOwner {
            host: "n1".to_owned(),
            created,
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.tar.gz");
        pack(collected, &head, fs::File::create(&path).unwrap()).unwrap();
        let read = saved(&path).unwrap();
        assert_eq!(read.at, Some(created));
        let objects = read.objects;
        assert_eq!(objects.all(ObjectKind::NODE).unwrap().len(), 1);
        assert!(
            objects
                .all(ObjectKind::POD)
                .unwrap_err()
                .why
                .contains("a part")
        );
        assert_eq!(objects.all(ObjectKind::ADDON).unwrap().len(), 0);
        assert_eq!(objects.all(ObjectKind::LONGHORN_VOLUME).unwrap().len(), 0);
        assert!(
            objects
                .all(ObjectKind::BUDGET)
                .unwrap_err()
                .why
                .contains("403")
        );
        assert!(objects.all(ObjectKind::VM).is_err());
        // With less memory than its lists take, they are unknown.
        let file = fs::File::open(&path).unwrap();
        let within = packed_within(ValueBudget::of(1000), file).unwrap();
        let refused = within.objects.all(ObjectKind::NODE).unwrap_err();
        assert!(refused.why.contains("too large"), "{refused:?}");
        fs::write(&path, [0x1f, 0x8b, 0]).unwrap();
        assert!(saved(&path).unwrap_err()[0].contains("not an archive"));
    }

    #[test]
    fn what_a_node_says_of_itself_has_a_bound_when_it_is_read() {
        for (count, is_read) in [(10, true), (1 << 20, false)] {
            let files = r#""","#.repeat(count);
            let own = format!(r#"{{"name": "n1", "missingFiles": [{files}""]}}"#);
            let read = own_node(own.as_bytes());
            assert_eq!(read.is_ok(), is_read, "{count}");
            let files = read.ok().flatten().map(|own| own.missing_files.len());
            assert_eq!(files, is_read.then_some(count + 1));
        }
        assert!(matches!(own_node(b"{}"), Ok(None)));
        assert!(matches!(own_node(b"no JSON"), Ok(None)));
    }

    #[test]
    fn a_directory_without_a_list_is_no_report() {
        let directory = tempfile::tempdir().unwrap();
        let errors = saved(directory.path()).unwrap_err();
        assert!(errors[0].contains("kubectl get"), "{errors:?}");
    }
}
