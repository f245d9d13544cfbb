//! A manifests directory in memory: RKE2's deploy controller reads it, and Windrow writes its markers into it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_decide::{Directory, FileChange, Mark, Marker};
use windrow_model::manifest::{self, FileContent, MARKER_SUFFIX, ManifestPath, MarkerPath};

use super::reading::{FileReading, read_file};

#[derive(Debug, Clone)]
pub struct DirectoryEntry {
    /// Shared, so that a copy of the directory costs little. The bytes of Windrow's markers are created when they are read.
    content: OnceLock<Arc<FileContent>>,
    /// RKE2's result of reading it, if it was read.
    reading: OnceLock<Arc<FileReading>>,
    /// When it was last written: the only property that RKE2 checks after its first clean pass.
    pub mtime: Timestamp,
    /// The directory's generation at which it was added.
    since: u64,
    /// The parsed content, if it is a marker of Windrow.
    mark: Option<Arc<Mark>>,
    /// Would RKE2 apply a file of its name?
    is_manifest: bool,
    /// Is it a marker, or is it in a directory whose name is that of a marker?
    hides: bool,
    /// Index of the file name in its path.
    base: usize,
}

impl DirectoryEntry {
    /// Its type and bytes.
    pub fn content(&self) -> &Arc<FileContent> {
        self.content.get_or_init(|| {
            let mark = self.mark.as_ref().map(|mark| mark.to_json());
            Arc::new(FileContent::Bytes(mark.unwrap_or_default().into_bytes()))
        })
    }

    /// RKE2's result of reading it. `path` is its own.
    pub(super) fn reading(&self, path: &str) -> &Arc<FileReading> {
        let read = || Arc::new(read_file(path, self.content()));
        self.reading.get_or_init(read)
    }

    /// The parsed content of a marker of Windrow.
    pub(super) fn mark(&self) -> Option<&Mark> {
        self.mark.as_deref()
    }

    /// Is it a marker that Windrow made?
    pub(super) fn is_ours(&self) -> bool {
        self.mark.is_some()
    }

    fn dangles(&self) -> bool {
        let content = self.content.get();
        content.is_some_and(|content| matches!(**content, FileContent::DanglingSymlink { .. }))
    }
}

/// The directory. Paths are relative to it, with `/`; directories exist by their files.
#[derive(Debug, Clone, Default)]
pub struct SimulatedDirectory {
    entries: BTreeMap<SmolStr, DirectoryEntry>,
    generation: u64,
}

/// The result of RKE2's walk over the directory: names and markers together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DirectoryWalk {
    /// The manifests that are not hidden, in RKE2's order, and when each was last written.
    pub(super) shown: Vec<(ManifestPath, Timestamp)>,
    pub(super) held: usize,
    /// The first dangling symbolic link.
    pub(super) dangling: Option<SmolStr>,
}

impl SimulatedDirectory {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn write(&mut self, path: impl Into<SmolStr>, bytes: impl Into<Vec<u8>>, now: Timestamp) {
        self.put(path, FileContent::Bytes(bytes.into()), now);
    }

    /// Adds an entry of any type.
    pub fn put(&mut self, path: impl Into<SmolStr>, content: FileContent, now: Timestamp) {
        let path = path.into();
        let mark = match &content {
            FileContent::Bytes(bytes) if path.ends_with(MARKER_SUFFIX) => Mark::parse(bytes),
            _ => None,
        };
        let marker = MarkerPath::parse(&path);
        let mark = mark.filter(|mark| marker.is_some_and(|marker| mark.was_made_for(&marker)));
        self.enter(path, Arc::new(content).into(), mark.map(Arc::new), now);
    }

    /// Adds a marker of Windrow; the bytes follow from the mark.
    pub(super) fn hold(&mut self, path: &str, mark: &Arc<Mark>, now: Timestamp) {
        self.enter(path.into(), OnceLock::new(), Some(Arc::clone(mark)), now);
    }

    fn enter(
        &mut self,
        path: SmolStr,
        content: OnceLock<Arc<FileContent>>,
        mark: Option<Arc<Mark>>,
        now: Timestamp,
    ) {
        self.generation += 1;
        let name = base_name(&path);
        let file = DirectoryEntry {
            content,
            reading: OnceLock::new(),
            mtime: now,
            since: self.generation,
            mark,
            is_manifest: manifest::is_manifest_name(name),
            hides: path.contains(MARKER_SUFFIX),
            base: path.len() - name.len(),
        };
        self.entries.insert(path, file);
    }

    /// Is there a file that is not Windrow's at the place of a marker of Windrow?
    pub(super) fn is_foreign(&self, marker: &str) -> bool {
        self.get(marker).is_some_and(|file| file.mark.is_none())
    }

    /// Removes an entry; false if there was none.
    pub fn remove(&mut self, path: &str) -> bool {
        let removed = self.entries.remove(path).is_some();
        self.generation += u64::from(removed);
        removed
    }

    /// Writes an entry of another directory again, with its old content.
    pub(super) fn put_again(&mut self, path: &str, file: &DirectoryEntry, now: Timestamp) {
        self.generation += 1;
        let file = DirectoryEntry {
            mtime: now,
            since: self.generation,
            ..file.clone()
        };
        self.entries.insert(path.into(), file);
    }

    /// Moves an entry like `mv`: it keeps its content and its time.
    pub(super) fn move_entry(&mut self, path: &str, to: &str) {
        let Some(entry) = self.entries.remove(path) else {
            return;
        };
        let DirectoryEntry {
            content,
            mark,
            mtime,
            ..
        } = entry;
        self.enter(to.into(), content, mark, mtime);
    }

    /// The manifests of this name, in all directories.
    pub(super) fn namesakes<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let manifests = self.manifests().map(|(path, _)| path);
        manifests.filter(move |path| base_name(path) == name)
    }

    /// Reads every manifest. The result is taken from the other directory if the content is equal.
    pub(super) fn read_all(&self, other: Option<&Self>) {
        for (path, file) in self.manifests() {
            let alike = other
                .and_then(|other| other.get(path))
                .filter(|other| other.content() == file.content());
            let read = || match alike {
                Some(alike) => Arc::clone(alike.reading(path)),
                None => Arc::new(read_file(path, file.content())),
            };
            file.reading.get_or_init(read);
        }
    }

    /// Do both have the same bytes?
    pub(super) fn has_same_files(&self, other: &Self) -> bool {
        let content =
            |(path, file): (&SmolStr, &DirectoryEntry)| (path.clone(), Arc::clone(file.content()));
        self.entries
            .iter()
            .map(content)
            .eq(other.entries.iter().map(content))
    }

    pub fn get(&self, path: &str) -> Option<&DirectoryEntry> {
        self.entries.get(path)
    }

    /// Every entry, in byte order of the path: RKE2's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &DirectoryEntry)> {
        self.entries
            .iter()
            .map(|(path, file)| (path.as_str(), file))
    }

    /// Every manifest, in RKE2's order.
    pub fn manifests(&self) -> impl Iterator<Item = (&str, &DirectoryEntry)> {
        self.iter().filter(|(_, file)| file.is_manifest)
    }

    /// Increases with every change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Base names that any marker hides from RKE2, in every directory. A directory named `x.yaml.skip` hides `x.yaml` as well.
    pub fn hidden(&self) -> impl Iterator<Item = &str> {
        let markers = self.entries.iter().filter(|(_, file)| file.hides);
        markers.flat_map(|(path, file)| {
            let (directories, name) = path.split_at(file.base);
            let parts = directories.split('/').chain([name]);
            parts.filter_map(|part| part.strip_suffix(MARKER_SUFFIX))
        })
    }

    /// The result of a walk that read this directory first, and its subdirectories when they were as in `later`.
    pub(super) fn with_lower(&self, later: &Self) -> Self {
        let is_below = |path: &SmolStr| path.contains('/');
        let own = self.entries.iter().filter(|(path, _)| !is_below(path));
        let lower = later.entries.iter().filter(|(path, _)| is_below(path));
        let entries = own.chain(lower);
        Self {
            entries: entries
                .map(|(path, entry)| (path.clone(), entry.clone()))
                .collect(),
            generation: later.generation,
        }
    }

    pub(super) fn walk(&self) -> DirectoryWalk {
        let mut hidden: Vec<&str> = self.hidden().collect();
        hidden.sort_unstable();
        let mut walk = DirectoryWalk::default();
        for (path, file) in &self.entries {
            if file.dangles() && walk.dangling.is_none() {
                walk.dangling = Some(path.clone());
            }
            if !file.is_manifest {
                continue;
            }
            let path = ManifestPath::from(path.clone());
            let is_hidden = hidden.binary_search(&&path[file.base..]).is_ok();
            match is_hidden && path.applied_by().is_none() {
                true => walk.held += 1,
                false => walk.shown.push((path, file.mtime)),
            }
        }
        walk
    }

    pub fn is_hidden(&self, path: &str) -> bool {
        let name = base_name(path);
        self.hidden().any(|hidden| hidden == name)
    }

    /// The foreign marker that hides this manifest, if there is one.
    pub fn skipped_by(&self, path: &ManifestPath) -> Option<MarkerPath> {
        if path.applied_by().is_some() {
            return None;
        }
        let name = path.name();
        let foreign = self.iter().filter(|(_, file)| file.mark.is_none());
        let mut markers = foreign.filter_map(|(path, _)| MarkerPath::parse(path));
        markers.find(|marker| marker.hides() == name)
    }

    /// The result of a scan of the directory, given the generation of the previous scan.
    pub fn look(&self, before: Option<u64>) -> Directory {
        let is_new = |file: &DirectoryEntry| before.is_none_or(|before| file.since > before);
        let files = self
            .manifests()
            .map(|(path, file)| FileChange {
                path: path.into(),
                content: is_new(file).then(|| Arc::clone(file.content())),
            })
            .collect();
        let markers = self
            .iter()
            .filter_map(|(path, file)| {
                Some(Marker {
                    path: MarkerPath::parse(path)?,
                    mark: file.mark.clone(),
                })
            })
            .collect();
        Directory { files, markers }
    }
}

/// The part after the last `/`.
pub(super) fn base_name(path: &str) -> &str {
    match memchr::memrchr(b'/', path.as_bytes()) {
        Some(slash) => &path[slash + 1..],
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_in_any_directory_hides_its_name_in_every_directory() {
        let mut files = SimulatedDirectory::new();
        files.write("one/x.yaml", "", Timestamp::UNIX_EPOCH);
        files.write("x.yaml", "", Timestamp::UNIX_EPOCH);
        files.write("x.yml", "", Timestamp::UNIX_EPOCH);
        files.write("other/x.yaml.skip", "", Timestamp::UNIX_EPOCH);
        assert!(files.is_hidden("one/x.yaml") && files.is_hidden("x.yaml"));
        assert!(!files.is_hidden("x.yml"));
    }

    #[test]
    fn a_walk_finds_what_is_there_and_hides_what_a_marker_hides() {
        let shown = |files: &SimulatedDirectory| {
            let walk = files.walk();
            let shown = walk.shown.iter().map(|(path, _)| path.to_string());
            (shown.collect::<Vec<_>>(), walk.held)
        };
        let mut files = SimulatedDirectory::new();
        files.write("a.yaml", "", Timestamp::UNIX_EPOCH);
        files.write("b.yaml", "", Timestamp::UNIX_EPOCH);
        assert_eq!(shown(&files), (vec!["a.yaml".into(), "b.yaml".into()], 0));
        let before = files.walk();
        assert!(!files.remove("c.yaml") && before == files.walk());
        files.write("sub/a.yaml.skip", "", Timestamp::UNIX_EPOCH);
        assert_eq!(shown(&files), (vec!["b.yaml".into()], 1));
        let copy = files.clone();
        assert!(files.remove("sub/a.yaml.skip"));
        assert_eq!(shown(&files).1, 0);
        assert_eq!(shown(&copy).1, 1);
        let later = Timestamp::UNIX_EPOCH + std::time::Duration::from_secs(1);
        files.write("b.yaml", "", later);
        assert_eq!(files.walk().shown[1].1, later);
    }

    #[test]
    fn a_second_look_carries_only_what_changed() {
        let mut files = SimulatedDirectory::new();
        files.write("a.yaml", "a: 1", Timestamp::UNIX_EPOCH);
        files.write("b.yaml", "b: 1", Timestamp::UNIX_EPOCH);
        let before = files.generation();
        files.write("b.yaml", "b: 2", Timestamp::UNIX_EPOCH);
        let look = files.look(Some(before));
        let changed: Vec<_> = look
            .files
            .iter()
            .filter(|file| file.content.is_some())
            .map(|file| file.path.as_str())
            .collect();
        assert_eq!(changed, ["b.yaml"]);
        assert_eq!(look.files.len(), 2);
    }
}
