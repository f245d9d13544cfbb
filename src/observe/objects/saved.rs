//! From a directory of saved lists, as `kubectl get -o json` writes them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::complete;
use crate::harvester::objects::{Listed, Objects, text};
use crate::manifest::GroupKind;

/// Largest saved file that is read, in bytes.
const LARGEST: u64 = 256 << 20;
/// How deep directories are searched.
const DEEPEST: usize = 4;

/// Reads every `.json` file at or below a path: lists and single objects. A kind that has no file was
/// not saved, and stays Unknown.
///
/// # Errors
///
/// What cannot be read, all of it.
pub fn saved(path: &Path) -> Result<Objects, Vec<String>> {
    let mut files = Vec::new();
    let mut errors = Vec::new();
    if let Err(error) = find(path, 0, &mut files) {
        errors.push(format!("{}: {error}", path.display()));
    }
    files.sort();
    let mut objects = Objects::default();
    let mut found = false;
    for file in &files {
        match read(file) {
            Ok(value) => found |= take(&mut objects, value),
            Err(error) => errors.push(format!("{}: {error}", file.display())),
        }
    }
    if errors.is_empty() && !found {
        errors.push(format!(
            "{}: no list of objects in it: save them with `kubectl get KIND -A -o json`",
            path.display()
        ));
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

fn read(path: &Path) -> io::Result<Value> {
    if fs::metadata(path)?.len() > LARGEST {
        return Err(io::Error::other("it is larger than 256 MiB"));
    }
    let content = fs::read(path)?;
    // The words of the parser do not quote the text.
    serde_json::from_slice(&content).map_err(|error| {
        io::Error::other(format!(
            "it is no JSON (line {}, column {})",
            error.line(),
            error.column()
        ))
    })
}

/// Takes a list or an object in. True when it was one.
fn take(objects: &mut Objects, mut value: Value) -> bool {
    let (version, kind) = (
        text(&value, "/apiVersion").to_owned(),
        text(&value, "/kind").to_owned(),
    );
    let items = match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if kind.ends_with("List") => items,
        _ if !kind.is_empty() && value.pointer("/metadata/name").is_some() => {
            objects.add(value);
            return true;
        }
        _ => return false,
    };
    let of_items = kind.strip_suffix("List").unwrap_or_default();
    if !of_items.is_empty() {
        // A list of a kind says by its name what it has none of.
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let kind = GroupKind::new(group, of_items);
        if objects.list(&kind).is_err() {
            objects.insert(kind, Listed::Objects(Vec::new()));
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
    use crate::harvester::objects::Kind;

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
        let objects = saved(directory.path()).unwrap();
        let pods = objects.all(Kind::POD).unwrap();
        assert_eq!(text(&pods[0], "/kind"), "Pod");
        assert!(pods[0].pointer("/metadata/managedFields").is_none());
        assert_eq!(objects.all(Kind::NODE).unwrap().len(), 1);
        assert_eq!(objects.all(Kind::KUBEVIRT).unwrap().len(), 1);
        assert_eq!(objects.all(Kind::BUDGET).unwrap().len(), 0);
        assert!(objects.all(Kind::VM).is_err());
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
    fn a_directory_without_a_list_is_no_report() {
        let directory = tempfile::tempdir().unwrap();
        let errors = saved(directory.path()).unwrap_err();
        assert!(errors[0].contains("kubectl get"), "{errors:?}");
    }
}
