//! A support bundle of Harvester, packed or unpacked.
//!
//! ```text
//!   supportbundle_…/
//!     metadata.yaml                                        bundlecreatedat
//!     bundleGenerationError.log                            Failed to get /apis/GROUP/VERSION/…/PLURAL: why
//!     yamls/cluster/GROUP/VERSION/PLURAL.yaml              of the core group without GROUP
//!     yamls/namespaced/NAMESPACE/GROUP/VERSION/PLURAL.yaml
//! ```
//!
//! A kind without objects has no file, and an empty text or a null is the text `null` (rancher support-bundle-kit 1efdd22
//! `pkg/manager/cluster.go`, `pkg/manager/collectors/common.go`, `toObjCommon`). It has the objects of some namespaces only, and of
//! Secrets and Settings only a part (harvester v1.8.2 `pkg/controller/master/supportbundle/manager.go`, `getExcludeResources`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;
use windrow_harvester::objects::{KindListing, KindScope, ObjectKind, Objects, text};

use super::saved::{LARGEST, SavedObjects, take_all, values};
use super::zip;
use crate::files::read_at_most;
use crate::fs;
use crate::json_values::ValueBudget;

const METADATA: &str = "metadata.yaml";
const ERRORS: &str = "bundleGenerationError.log";
const OBJECTS: &str = "yamls/";
/// How deep the directories of objects are.
const DEEPEST: usize = 6;
/// The kinds of which a bundle leaves some or all objects out.
const LEFT_OUT: [&str; 2] = ["secrets", "settings"];
/// Maps whose values may be empty.
const WITH_EMPTY_VALUES: [&str; 5] = [
    "labels",
    "annotations",
    "matchLabels",
    "nodeSelector",
    "data",
];

/// Its files, by their path in the bundle, as far as they are read.
pub(super) type BundleFiles = BTreeMap<String, Vec<u8>>;

/// Is this path of a bundle one that is read?
pub(super) fn is_read(path: &str) -> bool {
    path == METADATA || path == ERRORS || path.starts_with(OBJECTS) && path.ends_with(".yaml")
}

/// The directory of an unpacked bundle: this one, or the only one in it.
pub(super) fn unpacked(path: &Path) -> Option<PathBuf> {
    let is_bundle = |path: &Path| {
        let yamls = path.join(OBJECTS);
        fs::metadata(&yamls).is_ok_and(|found| found.is_dir())
            && fs::metadata(path.join(METADATA)).is_ok_and(|found| found.is_file())
    };
    if is_bundle(path) {
        return Some(path.to_owned());
    }
    let mut inside = fs::read_dir(path).ok()?;
    match (inside.next()?, inside.next()) {
        (Ok(only), None) => Some(only.path()).filter(|path| is_bundle(path)),
        _ => None,
    }
}

/// The files of a packed bundle.
///
/// # Errors
///
/// Why it cannot be read.
pub(super) fn read_zip(archive: impl io::Read + io::Seek) -> io::Result<BundleFiles> {
    let mut files = BundleFiles::new();
    let inside = |path: &str| path.split_once('/').map(|(_, inside)| inside.to_owned());
    let is_wanted = |path: &str| inside(path).is_some_and(|inside| is_read(&inside));
    zip::read_each(archive, LARGEST, is_wanted, |path, content| {
        files.extend(inside(path).map(|path| (path, content)));
    })?;
    match files.is_empty() {
        true => Err(io::Error::other("it is not a support bundle of Harvester")),
        false => Ok(files),
    }
}

/// The files of an unpacked bundle.
///
/// # Errors
///
/// Those of the file system.
pub(super) fn read_directory(root: &Path) -> io::Result<BundleFiles> {
    let mut files = BundleFiles::new();
    for name in [METADATA, ERRORS] {
        if let Ok(bytes) = read_at_most(&root.join(name), LARGEST) {
            files.insert(name.to_owned(), bytes);
        }
    }
    read_below(
        root,
        Path::new(OBJECTS.trim_end_matches('/')),
        0,
        &mut files,
    )?;
    Ok(files)
}

fn read_below(root: &Path, inside: &Path, depth: usize, files: &mut BundleFiles) -> io::Result<()> {
    for entry in fs::read_dir(root.join(inside))? {
        let entry = entry?;
        let path = inside.join(entry.file_name());
        let found = entry.file_type()?;
        let shown = path.display().to_string();
        if found.is_dir() && depth < DEEPEST {
            read_below(root, &path, depth + 1, files)?;
        } else if found.is_file() && is_read(&shown) {
            files.insert(shown, read_at_most(&entry.path(), LARGEST)?);
        }
    }
    Ok(())
}

/// The objects of a bundle.
///
/// # Errors
///
/// The files that cannot be read.
pub(super) fn objects_of(files: BundleFiles) -> Result<SavedObjects, Vec<String>> {
    let mut objects = Objects::default();
    let (mut budget, mut errors) = (ValueBudget::default(), Vec::new());
    let (mut at, mut failed) = (None, String::new());
    let mut namespaces = BTreeSet::new();
    for (path, bytes) in files {
        if path == ERRORS {
            failed = String::from_utf8_lossy(&bytes).into_owned();
            continue;
        }
        let found = match values(&bytes, &mut budget) {
            Ok(found) => found,
            Err(error) => {
                errors.push(format!("{path}: {error}"));
                continue;
            }
        };
        if path == METADATA {
            let created = found.first().map(|found| text(found, "/bundlecreatedat"));
            at = created.and_then(|created| created.parse::<Timestamp>().ok());
            continue;
        }
        if let Some(rest) = path.strip_prefix("yamls/namespaced/") {
            namespaces.extend(rest.split('/').next().map(str::to_owned));
        }
        let restored = found.into_iter().map(|mut value| {
            restore_empty(&mut value, false);
            value
        });
        take_all(&mut objects, restored.collect(), &[]);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    add_empty(&mut objects, &namespaces, &failed);
    let names: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    Ok(SavedObjects {
        objects,
        at,
        own: None,
        partial: Some(format!(
            "the support bundle has only the namespaces {}",
            names.join(", ")
        )),
    })
}

/// Replaces the text `null` by what was there.
fn restore_empty(value: &mut Value, in_map_of_texts: bool) {
    match value {
        Value::Object(map) => {
            if !in_map_of_texts {
                map.retain(|_, value| value != "null");
            }
            for (key, value) in map.iter_mut() {
                restore_empty(value, WITH_EMPTY_VALUES.contains(&key.as_str()));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| restore_empty(item, true)),
        Value::String(text) if text == "null" => text.clear(),
        _ => {}
    }
}

/// Adds the kinds without a file: they have no objects, unless the bundle leaves them out, or its log says that the request failed.
fn add_empty(objects: &mut Objects, namespaces: &BTreeSet<String>, failed: &str) {
    for kind in ObjectKind::ALL.iter().filter(|kind| kind.part.is_empty()) {
        let id = kind.group_kind();
        let failure = failed.lines().find(|line| is_failure_of(*kind, line));
        if let Some(line) = failure {
            objects.insert(id, KindListing::Unknown(line.to_owned()));
            continue;
        }
        let is_asked = match kind.scope {
            KindScope::Only {
                namespaces: wanted, ..
            } => wanted.iter().any(|wanted| namespaces.contains(*wanted)),
            KindScope::Cluster | KindScope::Any { .. } => true,
        };
        if objects.list(&id).is_err() && is_asked && !LEFT_OUT.contains(&kind.plural) {
            objects.insert(id, KindListing::Objects(Vec::new()));
        }
    }
}

/// Whether a line of the bundle's log says that objects of this kind are missing (support-bundle-kit 1efdd22,
/// `pkg/manager/collectors/cluster.go` and `pkg/manager/client/discovery.go`):
///
/// ```text
/// Failed to get /apis/apps/v1/namespaces/default/deployments: the server is busy
/// Failed to parse objects received from URL: /apis/apps/v1/deployments
/// Support Bundle: failed to generate /tmp/bundle/yamls/cluster/v1/nodes.yaml
/// Unable to fetch cluster resources: the server is busy
/// ```
fn is_failure_of(kind: ObjectKind, line: &str) -> bool {
    let is_of_cluster = matches!(kind.scope, KindScope::Cluster);
    if line.contains("Unable to fetch cluster resources") {
        return is_of_cluster;
    }
    if line.contains("Unable to fetch namespaced resources") {
        return !is_of_cluster;
    }
    let is_failure = [
        "Failed to get ",
        "Failed to parse objects",
        "failed to generate ",
    ]
    .iter()
    .any(|begin| line.contains(begin));
    let group = match kind.group {
        "" => "/v1/".to_owned(),
        group => format!("/{group}/"),
    };
    let mut words = line
        .split_whitespace()
        .map(|word| word.trim_end_matches([':', ',']));
    is_failure
        && words.any(|path| {
            let path = path.trim_end_matches(".yaml");
            path.contains(&group) && path.ends_with(&format!("/{}", kind.plural))
        })
}

#[cfg(test)]
mod tests {
    use super::super::saved::{saved, saved_in};
    use super::super::zip::tests::pack;
    use super::*;

    /// As support-bundle-kit v0.0.84 writes them: a list without a kind, and `null` for an empty text.
    const FILES: [(&str, &str); 6] = [
        (
            "b/metadata.yaml",
            "projectname: null\nbundlecreatedat: \"2026-05-01T12:00:00Z\"\n",
        ),
        (
            "b/yamls/cluster/v1/nodes.yaml",
            "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: n1\n    labels: {a/worker: \"null\"}\n  spec:\n    providerID: \"null\"\nkind: List\n",
        ),
        (
            "b/yamls/namespaced/harvester-system/apps/v1/deployments.yaml",
            "apiVersion: v1\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: harvester, namespace: harvester-system}\nkind: List\n",
        ),
        (
            "b/yamls/namespaced/kube-system/v1/services.yaml",
            "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: ingress-expose, namespace: kube-system}\nkind: List\n",
        ),
        (
            "b/bundleGenerationError.log",
            "Failed to get /apis/batch/v1/namespaces/default/jobs: the server is busy\n",
        ),
        ("b/logs/x.yaml", "not: [valid"),
    ];

    fn check(found: &SavedObjects) {
        let objects = &found.objects;
        assert_eq!(found.at, "2026-05-01T12:00:00Z".parse().ok());
        let node = &objects.all(ObjectKind::NODE).unwrap()[0];
        assert_eq!(node["metadata"]["labels"]["a/worker"], "");
        assert!(node["spec"].get("providerID").is_none(), "{node}");
        assert_eq!(objects.all(ObjectKind::DEPLOYMENT).unwrap().len(), 1);
        assert_eq!(objects.all(ObjectKind::SERVICE).unwrap().len(), 1);
        assert_eq!(
            objects.all(ObjectKind::POD),
            Ok(&[][..]),
            "none has no file"
        );
        let jobs = objects.all(ObjectKind::JOB).unwrap_err();
        assert!(jobs.why.contains("the server is busy"), "{jobs}");
        // Not in the bundle: the Settings, and namespaces that it does not have.
        assert!(objects.all(ObjectKind::SETTING).is_err());
        assert!(objects.all(ObjectKind::LONGHORN_VOLUME).is_err());
        let partial = found.partial.as_deref().unwrap();
        assert!(
            partial.ends_with("harvester-system, kube-system"),
            "{partial}"
        );
    }

    #[test]
    fn a_support_bundle_is_read_packed_unpacked_and_from_standard_input() {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in FILES {
            let path = directory.path().join("all").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        check(&saved(&directory.path().join("all/b")).unwrap());
        check(&saved(&directory.path().join("all")).unwrap());
        let packed = pack(&FILES);
        let path = directory.path().join("bundle.zip");
        fs::write(&path, &packed).unwrap();
        check(&saved(&path).unwrap());
        check(&saved_in("-", &packed).unwrap());
    }

    #[test]
    fn a_zip_that_is_no_support_bundle_is_refused_and_a_broken_file_named() {
        let other = pack(&[("a/b.txt", "x")]);
        assert!(
            saved_in("-", &other)
                .unwrap_err()
                .contains("not a support bundle")
        );
        let broken = pack(&[("b/yamls/cluster/v1/nodes.yaml", "token: s3cret\na: [")]);
        let error = saved_in("-", &broken).unwrap_err();
        assert!(
            error.contains("yamls/cluster/v1/nodes.yaml") && !error.contains("s3cret"),
            "{error}"
        );
    }
}
