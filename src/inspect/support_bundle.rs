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
use crate::files::read_beginning;
use crate::fs;
use crate::json_values::ValueBudget;

const METADATA: &str = "metadata.yaml";
const ERRORS: &str = "bundleGenerationError.log";
const OBJECTS: &str = "yamls/";
/// The most namespaces that are named.
const NAMED: usize = 10;
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
    DirectoryReader::read(root, LARGEST)
}

/// Reads the files of an unpacked bundle, up to a number of bytes for all together.
struct DirectoryReader<'p> {
    root: &'p Path,
    left: u64,
    files: BundleFiles,
}

impl<'p> DirectoryReader<'p> {
    fn read(root: &'p Path, left: u64) -> io::Result<BundleFiles> {
        let files = BundleFiles::new();
        let mut reader = Self { root, left, files };
        for name in [METADATA, ERRORS] {
            if fs::metadata(root.join(name)).is_ok_and(|found| found.is_file()) {
                reader.add(Path::new(name))?;
            }
        }
        reader.add_below(Path::new(OBJECTS.trim_end_matches('/')), 0)?;
        Ok(reader.files)
    }

    fn add(&mut self, inside: &Path) -> io::Result<()> {
        let bytes = read_beginning(&self.root.join(inside), self.left + 1)?;
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| io::Error::other("the files in it are too large"))?;
        self.files.insert(inside.display().to_string(), bytes);
        Ok(())
    }

    fn add_below(&mut self, inside: &Path, depth: usize) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join(inside))? {
            let entry = entry?;
            let path = inside.join(entry.file_name());
            let found = entry.file_type()?;
            if found.is_dir() && depth < DEEPEST {
                self.add_below(&path, depth + 1)?;
            } else if found.is_file() && is_read(&path.display().to_string()) {
                self.add(&path)?;
            }
        }
        Ok(())
    }
}

/// The objects of a bundle. A kind is unknown if one of its files cannot be read.
pub(super) fn objects_of(files: BundleFiles) -> SavedObjects {
    let mut objects = Objects::default();
    let (mut budget, mut unread) = (ValueBudget::default(), Vec::new());
    let mut broken = Vec::new();
    let (mut at, mut failed) = (None, String::new());
    let mut namespaces = BTreeSet::new();
    for (path, bytes) in files {
        if let Some(rest) = path.strip_prefix("yamls/namespaced/") {
            namespaces.extend(rest.split('/').next().map(str::to_owned));
        }
        if path == ERRORS {
            failed = String::from_utf8_lossy(&bytes).into_owned();
            continue;
        }
        let found = match values(&bytes, &mut budget) {
            Ok(found) => found,
            Err(error) => {
                let why = format!("{path}: {error}");
                let kinds: Vec<_> = kinds_at(&path).collect();
                if kinds.is_empty() {
                    unread.push(format!("1 file is not read: {why}"));
                }
                broken.extend(kinds.into_iter().map(|kind| (kind, why.clone())));
                continue;
            }
        };
        if path == METADATA {
            let created = found.first().map(|found| text(found, "/bundlecreatedat"));
            at = created.and_then(|created| created.parse::<Timestamp>().ok());
            continue;
        }
        let restored = found.into_iter().map(|mut value| {
            restore_empty(&mut value, false);
            value
        });
        take_all(&mut objects, restored.collect(), &[]);
    }
    add_empty(&mut objects, &namespaces, &failed);
    for (kind, why) in broken {
        objects.insert(kind.group_kind(), KindListing::Unknown(why));
    }
    SavedObjects {
        at,
        partial: Some(format!(
            "the support bundle has only the namespaces {}",
            list_of_names(&namespaces)
        )),
        unread,
        ..objects.into()
    }
}

/// The first of the names, and the number of the others.
fn list_of_names(names: &BTreeSet<String>) -> String {
    let first: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    first.join(", ") + &more
}

/// The kinds that Windrow reads from this file.
fn kinds_at(path: &str) -> impl Iterator<Item = ObjectKind> + '_ {
    let cluster = path.strip_prefix("yamls/cluster/");
    let namespaced = path.strip_prefix("yamls/namespaced/");
    let inside = cluster.or_else(|| Some(namespaced?.split_once('/')?.1));
    let inside = inside.and_then(|inside| inside.strip_suffix(".yaml"));
    let mut parts = inside.unwrap_or_default().rsplit('/');
    let (plural, _version) = (parts.next(), parts.next());
    let group = parts.next().unwrap_or_default();
    let kinds = ObjectKind::ALL.iter().copied();
    kinds.filter(move |kind| Some(kind.plural) == plural && kind.group == group)
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
    fn of_many_namespaces_only_some_are_named() {
        let names = (10..32).map(|number| format!("n{number}")).collect();
        let list = list_of_names(&names);
        assert!(list.ends_with("n18, n19 and 12 more"), "{list}");
    }

    #[test]
    fn an_unpacked_bundle_has_one_limit_for_all_of_its_files() {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in FILES {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let root = directory.path().join("b");
        let read = FILES[..5].iter().map(|(_, content)| content.len() as u64);
        let all = read.sum();
        assert_eq!(DirectoryReader::read(&root, all).unwrap().len(), 5);
        let error = DirectoryReader::read(&root, all - 1).unwrap_err();
        assert!(error.to_string().contains("too large"), "{error}");
    }

    #[test]
    fn a_broken_file_makes_only_its_kind_unknown_and_is_noted_if_nothing_reads_it() {
        let bad = "token: s3cret\na: [";
        let mut files = FILES.to_vec();
        files.extend([
            ("b/yamls/cluster/v1/componentstatuses.yaml", bad),
            (
                "b/yamls/namespaced/harvester-system/batch/v1/jobs.yaml",
                bad,
            ),
            ("b/yamls/namespaced/kube-system/v1/pods.yaml", bad),
            (
                "b/yamls/namespaced/kube-system/example.com/v1/nodes.yaml",
                bad,
            ),
        ]);
        let found = saved_in("-", &pack(&files)).unwrap();
        assert_eq!(found.objects.all(ObjectKind::NODE).unwrap().len(), 1);
        for kind in [ObjectKind::POD, ObjectKind::JOB] {
            let why = found.objects.all(kind).unwrap_err().why;
            assert!(
                why.contains(kind.plural) && !why.contains("s3cret"),
                "{why}"
            );
        }
        let unread = found.unread;
        assert_eq!(unread.len(), 2, "{unread:?}");
        assert!(unread[0].contains("componentstatuses"), "{unread:?}");
        assert!(unread[1].contains("example.com"), "{unread:?}");
        assert!(!unread.concat().contains("s3cret"), "{unread:?}");
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
    fn a_zip_that_is_no_support_bundle_is_refused() {
        let other = pack(&[("a/b.txt", "x")]);
        assert!(
            saved_in("-", &other)
                .unwrap_err()
                .contains("not a support bundle")
        );
    }
}
