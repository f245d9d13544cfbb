//! Objects from saved files: the archive of `windrow report`, a support bundle of Harvester, or a file or directory of lists as `kubectl get -o json` and
//! `-o yaml` write them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;
use windrow_harvester::incidents::OwnNode;
use windrow_harvester::objects::{KindListing, ObjectKind, Objects, text};
use windrow_model::manifest::{GroupKind, ReadLimits, nodes_problems_and_repeated_key, yaml};

use super::{json_stream, support_bundle, zip};
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
const NO_LIST: &str =
    "no list of objects in it: save them with `kubectl get KIND -A -o json` or `-o yaml`";
/// Most memory that the values of a YAML document take until they are objects, in bytes.
const MOST_OF_YAML: usize = 128 << 20;
const REPEATED: &str =
    "a key appears twice in one map, so a list would hide another one; save each list as a file";
const ENDS: [&str; 3] = ["json", "yaml", "yml"];
/// How deep directories are searched.
const DEEPEST: usize = 4;

#[derive(Debug)]
pub(crate) struct SavedObjects {
    pub(crate) objects: Objects,
    /// When it was saved; `None` without a record of it.
    pub(crate) at: Option<Timestamp>,
    /// Facts from the files of the reported node.
    pub(crate) own: Option<OwnNode>,
    /// Why kinds that users may have in any namespace are not complete.
    pub(crate) partial: Option<String>,
    /// The files that could not be read, of kinds that no check reads.
    pub(crate) unread: Vec<String>,
    /// The files that could not be read, and may have objects of any kind.
    pub(crate) broken: Vec<String>,
}

impl From<Objects> for SavedObjects {
    fn from(mut objects: Objects) -> Self {
        objects.keep_newest_of_each();
        Self {
            objects,
            at: None,
            own: None,
            partial: None,
            unread: Vec::new(),
            broken: Vec::new(),
        }
    }
}

/// Reads the archive of a report, or every file of JSON or YAML at or below a path: lists and single objects. A kind that was
/// not saved completely stays Unknown.
///
/// # Errors
///
/// All files that cannot be read. If the name of such a file in a directory says its kind, only this kind is Unknown.
pub(crate) fn saved(path: &Path) -> Result<SavedObjects, Vec<String>> {
    let wrong = |why: String| vec![format!("{}: {why}", path.display())];
    let open = || fs::open(path).map_err(|error| wrong(error.to_string()));
    if let Some(bundle) = support_bundle::unpacked(path) {
        let files = support_bundle::read_directory(&bundle);
        let files = files.map_err(|error| wrong(error.to_string()))?;
        return Ok(support_bundle::objects_of(files));
    }
    match &beginning(path)[..] {
        begin if begin.starts_with(&GZIP) => {
            let found = match packed(open()?) {
                Err(ReadError::NoIndex) => packed_lists(open()?),
                found => found,
            };
            found.map_err(|error| wrong(error.to_string()))
        }
        begin if begin == zip::MAGIC => zipped(open()?).map_err(|error| wrong(error.to_string())),
        _ => lists(path),
    }
}

/// As [`saved`], from the bytes of one file: an archive, or a list.
///
/// # Errors
///
/// Why it cannot be read. `shown` is its name.
pub(crate) fn saved_in(shown: &str, bytes: &[u8]) -> Result<SavedObjects, String> {
    if bytes.starts_with(&GZIP) {
        let found = match packed(bytes) {
            Err(ReadError::NoIndex) => packed_lists(bytes),
            found => found,
        };
        return found.map_err(|error| format!("{shown}: {error}"));
    }
    if bytes.starts_with(&zip::MAGIC) {
        let found = zipped(io::Cursor::new(bytes));
        return found.map_err(|error| format!("{shown}: {error}"));
    }
    let found = values(bytes, &mut ValueBudget::default());
    let found = found.map_err(|error| format!("{shown}: {error}"))?;
    let mut objects = Objects::default();
    match take_all(&mut objects, found, &[]) {
        true => Ok(objects.into()),
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
        ..of_archive(&index, lists).into()
    })
}

/// The lists of a packed directory.
fn packed_lists(archive: impl io::Read) -> Result<SavedObjects, ReadError> {
    let mut lists = SavedLists::default();
    let read = read_each(archive, |mut file| {
        if is_list(Path::new(&file.path)) {
            let bytes = file.read()?;
            lists.add(Path::new(&file.path), &bytes);
        }
        Ok(())
    });
    match read {
        Err(ReadError::NoIndex) if lists.found => Ok(lists.into()),
        Err(error) => Err(error),
        Ok(_) => Err(ReadError::NoIndex),
    }
}

/// A support bundle, or the lists of a packed directory.
fn zipped(mut archive: impl io::Read + io::Seek) -> io::Result<SavedObjects> {
    let not_a_bundle = match support_bundle::read_zip(&mut archive) {
        Ok(files) => return Ok(support_bundle::objects_of(files)),
        Err(error) => error,
    };
    archive.rewind()?;
    let mut lists = SavedLists::default();
    let is_wanted = |path: &str| is_list(Path::new(path));
    zip::read_each(archive, LARGEST, is_wanted, |path, bytes| {
        lists.add(Path::new(path), &bytes);
    })?;
    match lists.found {
        true => Ok(lists.into()),
        false => Err(not_a_bundle),
    }
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

/// The first four bytes of a regular file, or all of a shorter one.
fn beginning(path: &Path) -> Vec<u8> {
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    let file = is_file.then(|| fs::open(path).ok()).flatten();
    let mut begin = Vec::new();
    // A file that cannot be read is reported by its reader.
    let _ = file.map(|file| file.take(4).read_to_end(&mut begin));
    begin
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

/// The objects of several files. One that cannot be read loses only itself.
#[derive(Default)]
struct SavedLists {
    objects: Objects,
    budget: ValueBudget,
    found: bool,
    /// The kinds that may be incomplete.
    unknown: Vec<(ObjectKind, String)>,
    broken: Vec<String>,
    of_any_kind: Vec<String>,
}

impl SavedLists {
    fn add(&mut self, file: &Path, bytes: &[u8]) {
        match values(bytes, &mut self.budget) {
            Ok(values) => self.found |= take_all(&mut self.objects, values, &kinds_by_name(file)),
            Err(error) => self.lose(file, &error),
        }
    }

    fn lose(&mut self, file: &Path, error: &str) {
        let why = format!("{}: {error}", file.display());
        let kinds = kinds_by_name(file);
        // Without the name of a kind, the file may have objects of every kind.
        if kinds.is_empty() {
            self.of_any_kind.push(why.clone());
        }
        let kinds = kinds.into_iter();
        self.unknown.extend(kinds.map(|kind| (kind, why.clone())));
        self.broken.push(why);
    }
}

impl From<SavedLists> for SavedObjects {
    fn from(lists: SavedLists) -> Self {
        let mut objects = lists.objects;
        for (kind, why) in lists.unknown {
            objects.insert(kind.group_kind(), KindListing::Unknown(why));
        }
        Self {
            broken: lists.of_any_kind,
            ..objects.into()
        }
    }
}

fn lists(path: &Path) -> Result<SavedObjects, Vec<String>> {
    let mut files = Vec::new();
    let mut errors = Vec::new();
    if let Err(error) = find(path, 0, &mut files) {
        errors.push(format!("{}: {error}", path.display()));
    }
    files.sort();
    let mut lists = SavedLists::default();
    for file in &files {
        match read_at_most(file, LARGEST) {
            Ok(bytes) => lists.add(file, &bytes),
            Err(error) => lists.lose(file, &error.to_string()),
        }
    }
    if errors.is_empty() && !lists.found && lists.broken.is_empty() {
        errors.push(format!("{}: {NO_LIST}", path.display()));
    }
    match errors.is_empty() && lists.found {
        true => Ok(lists.into()),
        false => Err(errors.into_iter().chain(lists.broken).collect()),
    }
}

fn find(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    if metadata.is_file() {
        if depth == 0 || is_list(path) {
            files.push(path.to_owned());
        }
    } else if metadata.is_dir() && depth < DEEPEST {
        for entry in fs::read_dir(path)? {
            find(&entry?.path(), depth + 1, files)?;
        }
    }
    Ok(())
}

/// Can this be a file with a list, by its name?
fn is_list(path: &Path) -> bool {
    let end = path.extension().and_then(OsStr::to_str);
    end.is_some_and(|end| ENDS.contains(&end))
}

/// The values of a file: of JSON, or the documents of YAML. An error quotes nothing of it.
pub(super) fn values(bytes: &[u8], budget: &mut ValueBudget) -> Result<Vec<Value>, String> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if matches!(first, None | Some(b'{' | b'[')) {
        let documents = json_stream::documents(bytes).filter(|documents| documents.len() > 1);
        if let Some(documents) = documents {
            let values = documents.into_iter().map(|document| json(document, budget));
            return values.collect();
        }
        return match budget.parse(bytes) {
            Ok(_) if budget.has_repeated_key() => Err(REPEATED.to_owned()),
            Ok(value) => Ok(vec![value]),
            // Documents of JSON, or YAML that begins so.
            Err(error @ ValueError::NotJson { .. }) if first.is_some() => {
                let values = yaml_values(bytes, budget);
                let values = values.or_else(|why| flow(bytes, budget).ok_or(why));
                values.map_err(|why| match why.starts_with(REPEATED) {
                    true => why,
                    false => error.to_string(),
                })
            }
            Err(error) => Err(error.to_string()),
        };
    }
    yaml_values(bytes, budget)
}

fn yaml_values(bytes: &[u8], budget: &mut ValueBudget) -> Result<Vec<Value>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is neither JSON nor YAML".to_owned())?;
    let limits = ReadLimits {
        file_bytes: LARGEST,
        expanded_bytes: MOST_OF_YAML,
        ..ReadLimits::default()
    };
    let (documents, problems, repeated) = nodes_problems_and_repeated_key(text, &limits);
    if let Some(problem) = problems.first() {
        let line = problem
            .line
            .map_or(String::new(), |line| format!(" (line {line})"));
        return Err(format!("it is neither JSON nor YAML, or too large{line}"));
    }
    if let Some(line) = repeated {
        return Err(format!("{REPEATED} (line {line})"));
    }
    // Through JSON, so that the budget counts them.
    let counted = documents.into_iter().map(|document| {
        let json = document.to_json().to_string();
        drop(document);
        budget
            .parse(json.as_bytes())
            .map_err(|error| error.to_string())
    });
    counted.collect()
}

/// A document of YAML that begins with a brace, which the reader of manifests takes for JSON. A repeated key is an error.
fn flow(bytes: &[u8], budget: &mut ValueBudget) -> Option<Vec<Value>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let json = yaml::parse_configuration(text).ok()??.to_json();
    let value = budget.parse(json.to_string().as_bytes()).ok()?;
    Some(vec![value])
}

fn json(bytes: &[u8], budget: &mut ValueBudget) -> Result<Value, String> {
    let value = budget.parse(bytes).map_err(|error| error.to_string())?;
    match budget.has_repeated_key() {
        true => Err(REPEATED.to_owned()),
        false => Ok(value),
    }
}

/// The kinds in a file's name: `kubectl get` writes an empty list without the kind of its objects. As in a report (`core_Pod`,
/// `harvesterhci.io_Upgrade`), or as the argument of kubectl (`pods`, `upgrades.harvesterhci.io`).
fn kinds_by_name(path: &Path) -> Vec<ObjectKind> {
    let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    if matches!(name, "secrets" | "core_Secret") {
        return ObjectKind::OF_SECRETS.to_vec();
    }
    let whole = ObjectKind::ALL.iter().filter(|kind| kind.part.is_empty());
    let is_full = |kind: &&ObjectKind| {
        let group = if kind.group.is_empty() {
            "core"
        } else {
            kind.group
        };
        name == format!("{group}_{}", kind.kind) || name == format!("{}.{group}", kind.plural)
    };
    if let Some(kind) = whole.clone().find(is_full) {
        return vec![*kind];
    }
    let mut short = whole.filter(|kind| kind.plural == name);
    match (short.next(), short.next()) {
        // kubectl prefers the core group.
        (Some(kind), _) if kind.group.is_empty() => vec![*kind],
        (Some(kind), None) => vec![*kind],
        _ => Vec::new(),
    }
}

/// Adds lists and objects; a list without a kind is one of these kinds. True when there was one.
pub(super) fn take_all(objects: &mut Objects, values: Vec<Value>, kinds: &[ObjectKind]) -> bool {
    let mut found = false;
    for value in values {
        if text(&value, "/kind") == "List" && value["items"].is_array() {
            for kind in kinds.iter().map(|kind| kind.group_kind()) {
                if objects.list(&kind).is_err() {
                    objects.insert(kind, KindListing::Objects(Vec::new()));
                }
            }
        }
        found |= take(objects, value);
    }
    found
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
            objects.add(complete(value, &version, &kind));
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
        match text(&item, "/kind").ends_with("List") && item["items"].is_array() {
            true => {
                take(objects, item);
            }
            false => objects.add(complete(item, &version, of_items)),
        }
    }
    true
}

#[cfg(test)]
#[path = "saved_tests.rs"]
mod tests;
