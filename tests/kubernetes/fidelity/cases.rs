//! Every known way to deadlock (`tests/cases`) and the example, as directories: what the deploy controller would find
//! on the node, extracted from an image builder's files by the program's own reader.
//!
//! Many of them share one cluster, and most make a `default/one` or a `Widget`. So the names that a file gives, its own
//! namespaces and the groups that it defines itself begin with `@`; each is changed in the line where the program found
//! it, and everything else is the case's own.
//!
//! Two passes go without the kinds that RKE2 does not have, then Harvester's charts bring them, and two more follow.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windrow_model::manifest::{self, FileContent, Node as Yaml, Object, ReadLimits, yaml};

use super::directories::{Directory, END, Edit, Kind};
use super::simulated::is_served_by_rke2;
use crate::support::first_boot::{entries, manifests};

/// A file: its path below the manifests directory, and its text.
type File = (String, String);

/// All of them; those that look the same to the deploy controller only once.
pub(crate) fn cases() -> Vec<Directory> {
    let mut seen = BTreeSet::new();
    inputs()
        .into_iter()
        .map(|(name, path)| (name, manifests(&path)))
        .filter(|(_, files)| !files.is_empty())
        .filter(|(_, files)| !files.iter().any(|(_, text)| installs(text)))
        .filter(|(_, files)| {
            let texts: Vec<String> = files.iter().map(|(_, text)| text.clone()).collect();
            seen.insert(texts)
        })
        .map(|(name, files)| directory(name, &files))
        .collect()
}

/// Does helm-controller bring what the file or its neighbours need? It is not played beside the real deploy controller
/// here, only in `tests/kubernetes/staging.rs`.
fn installs(text: &str) -> bool {
    text.contains("targetNamespace:")
}

/// Every file or directory that a case is rehearsed with, and its name.
fn inputs() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut inputs = Vec::new();
    let cases = entries(&root.join("tests/cases")).into_iter();
    // The states of running clusters are no manifests.
    for case in cases.filter(|case| !case.ends_with("states")) {
        let text = fs::read_to_string(case.join("case.yaml")).unwrap();
        let spec = yaml::parse_configuration(&text).unwrap().unwrap().to_json();
        let options: Vec<&str> = [&spec, &spec["sick"], &spec["healthy"]]
            .into_iter()
            .filter_map(|part| part["options"].as_array())
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for path in entries(&case) {
            let name = path.file_name().unwrap().to_str().unwrap();
            // Rule packs and lists of images are no manifests; nodes are named together with their files.
            if name != "case.yaml" && !options.contains(&name) {
                inputs.push((called(&case, &path), path));
            }
        }
    }
    inputs.push((
        "first-vm".to_owned(),
        root.join("examples/first-vm/harvester-config.yaml"),
    ));
    inputs
}

/// `first-machine-sick`
fn called(case: &Path, path: &Path) -> String {
    let part = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    format!("{}-{}", part(case), part(path))
}

fn directory(name: String, files: &[File]) -> Directory {
    let read: Vec<_> = files
        .iter()
        .map(|(path, text)| {
            let content = FileContent::Bytes(text.clone().into_bytes());
            manifest::read(path, &content, &ReadLimits::default())
        })
        .collect();
    let objects: Vec<&Object> = read.iter().flat_map(|file| file.objects()).collect();
    let own = Own::of(&objects);
    let mut brought: Vec<Kind> = Vec::new();
    let mut kinds: Vec<Kind> = Vec::new();
    for object in &objects {
        let mut kind = Kind {
            group: leak(own.group(&object.id.group)),
            version: leak(object.version.clone()),
            kind: leak(object.id.kind.to_string()),
            // As the cases are written.
            namespaced: object.id.namespace.is_some(),
        };
        if kinds.contains(&kind) {
            continue;
        }
        kinds.push(kind);
        kind.group = leak(object.id.group.to_string());
        if !is_served_by_rke2(&object.id.group_kind())
            && !own.groups.contains(object.id.group.as_str())
        {
            brought.push(kind);
        }
    }
    let written = files.iter().zip(&read).map(|((path, text), read)| {
        let text = own.rename(text, read.objects());
        let (below, name) = path.rsplit_once('/').unwrap_or(("", path));
        let slash = if below.is_empty() { "" } else { "/" };
        Edit::Write(leak(format!("{below}{slash}@-{name}")), leak(text))
    });
    let written: Vec<Edit> = written.collect();
    let mut steps: Vec<(&'static [Edit], usize)> = vec![(written.leak(), 2)];
    if !brought.is_empty() {
        // A pass that sees the link applies nothing: it does not matter how many begin before the kinds are there.
        const AWAY: &str = "@-away";
        let bring = vec![Edit::Bring(brought.leak()), Edit::Remove(AWAY)];
        steps.extend([(&[Edit::Dangle(AWAY)][..], 1), (bring.leak(), 2)]);
    }
    steps.push((&[END], 1));
    Directory {
        name: leak(name),
        kinds: kinds.leak(),
        steps: steps.leak(),
    }
}

/// Directories live as long as those in the source code.
fn leak(text: String) -> &'static str {
    text.leak()
}

/// What a case brings itself, and what is therefore named after it.
struct Own {
    namespaces: BTreeSet<String>,
    groups: BTreeSet<String>,
}

impl Own {
    fn of(objects: &[&Object]) -> Self {
        let of_kind =
            |kind: &'static str| objects.iter().filter(move |object| object.id.kind == kind);
        let groups = of_kind("CustomResourceDefinition");
        Self {
            namespaces: of_kind("Namespace")
                .map(|object| object.id.name.to_string())
                .collect(),
            groups: groups
                .filter_map(|object| object.node.str_at(&["spec", "group"]))
                .map(str::to_owned)
                .collect(),
        }
    }

    fn group(&self, group: &str) -> String {
        match self.groups.contains(group) {
            true => format!("@.{group}"),
            false => group.to_owned(),
        }
    }

    fn rename<'a>(&self, text: &str, objects: impl Iterator<Item = &'a Object>) -> String {
        assert!(!text.contains('@'), "it stands for the directory: {text}");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for object in objects {
            let name = &object.id.name;
            let definition = object.node.str_at(&["spec", "group"]);
            let renamed = match definition.and_then(|group| name.strip_suffix(group)) {
                Some(plural) => format!("{plural}@.{}", &name[plural.len()..]),
                None => format!("@-{name}"),
            };
            change(&mut lines, &object.node, &["metadata", "name"], &renamed);
            let namespace = object.id.namespace.as_ref();
            if let Some(namespace) = namespace.filter(|one| self.namespaces.contains(one.as_str()))
            {
                let renamed = format!("@-{namespace}");
                change(
                    &mut lines,
                    &object.node,
                    &["metadata", "namespace"],
                    &renamed,
                );
            }
            if self.groups.contains(object.id.group.as_str()) {
                let renamed = format!("@.{}/{}", object.id.group, object.version);
                change(&mut lines, &object.node, &["apiVersion"], &renamed);
            }
            if let Some(group) = definition {
                change(
                    &mut lines,
                    &object.node,
                    &["spec", "group"],
                    &format!("@.{group}"),
                );
            }
        }
        lines.join("\n") + "\n"
    }
}

/// Changes a value in the line in which it was read.
fn change(lines: &mut [String], object: &Yaml, path: &[&str], renamed: &str) {
    let (key, parents) = path.split_last().unwrap();
    let entry = object.at(parents).unwrap().entry(key).unwrap();
    let line = &mut lines[entry.line as usize - 1];
    let written = format!("{key}: {}", entry.value.as_str().unwrap());
    assert!(line.contains(&written), "no `{written}` in `{line}`");
    *line = line.replacen(&written, &format!("{key}: {renamed}"), 1);
}
