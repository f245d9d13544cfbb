//! One look at the manifests directory, on the real file system.
//!
//! It walks as RKE2 does (k3s `pkg/deploy`): every directory below, hidden ones too, a symbolic link
//! to a directory by one level. Unlike RKE2 it never opens what could block, never leaves the
//! directory, and one bad entry does not hide the others. What vanishes while it is looked at is
//! simply not there.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use nix::fcntl::OFlag;
use windrow_decide::{Directory, FileChange, Mark, Marker};
use windrow_model::manifest::{Content, Limits, MARKER_SUFFIX, is_manifest_name};

/// A file that changed this shortly before a look may change again within the same tick of the file
/// system's clock, so its stamp says nothing yet.
const SETTLES_NANOS: i128 = 2_000_000_000;

/// What came of a look.
#[derive(Debug, Clone, PartialEq)]
pub enum ScanResult {
    /// The directory does not exist: normal before RKE2's first start.
    Missing,
    /// The directory is there and cannot be read.
    Unreadable {
        /// Why, in the system's words.
        error: String,
    },
    /// The directory was read.
    Found(Found),
}

/// What is in the directory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// Every manifest file, and every entry at which RKE2 stumbles, in the order in which RKE2
    /// applies them.
    pub files: Vec<FileEntry>,
    /// Every `*.skip`, sorted by path.
    pub markers: Vec<MarkerEntry>,
    /// Every directory that was walked, the first one included: what has to be watched.
    pub directories: Vec<PathBuf>,
}

/// One manifest file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileEntry {
    /// Path below the directory, with `/`. Bytes that are not UTF-8 are written `\xff`.
    pub path: String,
    /// What it is.
    pub state: FileState,
    /// By what a change is noticed.
    pub stamp: Stamp,
}

/// A file's content, as far as it had to be read.
#[derive(Debug, Clone, PartialEq)]
pub enum FileState {
    /// Its stamp is the one it had at the last look: it was not read again.
    Unchanged,
    /// It is new or its stamp changed.
    Read(Content),
}

/// One `<name>.skip`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkerEntry {
    /// Path below the directory, with `/`.
    pub path: String,
    /// The base name that it hides, in every directory.
    pub hides: String,
    /// Windrow's mark in it; `None` when it is not Windrow's.
    pub mark: Option<Mark>,
    /// Why it could not be read; whose it is then is not known.
    pub unreadable: Option<String>,
    /// By what a change is noticed.
    pub stamp: Stamp,
}

/// By what a change of a file is noticed. Its path is only a name: what counts is the inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Device.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the content, in nanoseconds.
    pub mtime_ns: i128,
    /// Time of the last change of content or inode, in nanoseconds. Nobody can set it back.
    pub ctime_ns: i128,
    /// Was the last change long enough ago that a later one must show in the times?
    pub settled: bool,
}

impl Stamp {
    fn of(metadata: &Metadata, now: Timestamp) -> Self {
        let nanos =
            |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        let ctime_ns = nanos(metadata.ctime(), metadata.ctime_nsec());
        let age = now.as_nanosecond() - ctime_ns;
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.size(),
            mtime_ns: nanos(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns,
            settled: age > SETTLES_NANOS,
        }
    }

    fn is_same_file_as(&self, other: &Self) -> bool {
        Self {
            settled: other.settled,
            ..*self
        } == *other
    }
}

/// What an earlier look saw, by path. What has not changed since is not opened again: it costs time,
/// and each opened file is news to whoever watches the directory, Windrow's own watch included.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stamps {
    files: BTreeMap<String, Stamp>,
    markers: BTreeMap<String, (Stamp, Option<Mark>)>,
}

impl Stamps {
    /// Nothing was seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The file of this path is read at the next look, whatever its stamp says.
    pub fn forget(&mut self, path: &str) {
        self.files.remove(path);
    }
}

impl Found {
    /// The stamps, for the next look.
    pub fn stamps(&self) -> Stamps {
        // What there was no room for is read at a later look.
        let no_room =
            |file: &&FileEntry| !matches!(file.state, FileState::Read(Content::NoRoom { .. }));
        let files = self.files.iter().filter(no_room);
        let markers = self.markers.iter();
        Stamps {
            files: files.map(|file| (file.path.clone(), file.stamp)).collect(),
            // What could not be read is read again.
            markers: markers
                .filter(|marker| marker.unreadable.is_none())
                .map(|marker| (marker.path.clone(), (marker.stamp, marker.mark.clone())))
                .collect(),
        }
    }

    /// The look as the core takes it in.
    pub fn into_directory(self) -> Directory {
        Directory {
            files: self
                .files
                .into_iter()
                .map(|file| FileChange {
                    path: file.path,
                    content: match file.state {
                        FileState::Unchanged => None,
                        FileState::Read(content) => Some(Arc::new(content)),
                    },
                })
                .collect(),
            markers: self
                .markers
                .into_iter()
                .map(|marker| Marker {
                    path: marker.path,
                    mark: marker.mark.map(Arc::new),
                })
                .collect(),
        }
    }
}

/// Looks at the directory. Files whose stamp is the one in `seen` are not read again.
pub fn scan(dir: &Path, limits: &Limits, seen: &Stamps, now: Timestamp) -> ScanResult {
    let inside = match fs::canonicalize(dir) {
        Ok(inside) => inside,
        Err(error) if error.kind() == ErrorKind::NotFound => return ScanResult::Missing,
        Err(error) => return unreadable(&error),
    };
    let mut scan = Scan {
        inside,
        limits,
        seen,
        now,
        unread: Vec::new(),
        found: Found::default(),
    };
    let first = Step {
        at: dir.to_owned(),
        below: PathBuf::new(),
        follows: true,
    };
    let mut steps = match scan.directory(&first) {
        Ok(steps) => steps,
        Err(error) if error.kind() == ErrorKind::NotFound => return ScanResult::Missing,
        Err(error) => return unreadable(&error),
    };
    // A directory that cannot be read makes RKE2 give its whole pass up: it is told like a file.
    while let Some(step) = steps.pop() {
        match scan.directory(&step) {
            Ok(more) => steps.extend(more),
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                if let Ok(metadata) = fs::symlink_metadata(&step.at) {
                    let content = Content::Unreadable {
                        error: error.to_string(),
                    };
                    scan.file(&step.below, content, &metadata);
                }
            }
        }
    }
    scan.read_files();
    let mut found = scan.found;
    found.files.sort_by(|a, b| a.path.cmp(&b.path));
    found.markers.sort_by(|a, b| a.path.cmp(&b.path));
    found.directories.sort();
    ScanResult::Found(found)
}

/// So many looks are made at a large directory to read all of it.
const MOST_LOOKS: usize = 8;

/// Reads the whole directory, in as many looks as it takes, so that no more than `limits.directory_bytes` of it is in
/// memory: each file that was read goes to `take`, and what is left is every marker. What there was no room for in any
/// look goes to `take` last. `None` where the directory is not there or cannot be read.
pub fn scan_whole(
    dir: &Path,
    limits: &Limits,
    now: Timestamp,
    take: &mut dyn FnMut(&str, &Content),
) -> Option<Vec<MarkerEntry>> {
    let mut seen = Stamps::new();
    let mut taken = BTreeSet::new();
    for look in 1.. {
        let ScanResult::Found(found) = scan(dir, limits, &seen, now) else {
            return None;
        };
        seen = found.stamps();
        let mut partial = false;
        for file in found.files {
            let FileState::Read(content) = file.state else {
                continue;
            };
            if look < MOST_LOOKS && matches!(content, Content::NoRoom { .. }) {
                partial = true;
            } else if taken.insert(file.path.clone()) {
                take(&file.path, &content);
            }
        }
        if !partial {
            return Some(found.markers);
        }
    }
    None
}

fn unreadable(error: &io::Error) -> ScanResult {
    ScanResult::Unreadable {
        error: error.to_string(),
    }
}

/// Gone, or not a directory any more.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// A directory yet to be walked.
struct Step {
    at: PathBuf,
    /// Its path below the manifests directory.
    below: PathBuf,
    /// Are links to directories in it followed? Not below a link: RKE2 follows by one level.
    follows: bool,
}

/// A file that has to be read.
struct Unread {
    at: PathBuf,
    below: PathBuf,
    metadata: Metadata,
    /// It was read as it is now, so shortly after it was written that a change need not show.
    read_before: Option<Stamp>,
}

struct Scan<'s> {
    /// The directory without any link in its path.
    inside: PathBuf,
    limits: &'s Limits,
    seen: &'s Stamps,
    now: Timestamp,
    /// What has to be read.
    unread: Vec<Unread>,
    found: Found,
}

impl Scan<'_> {
    fn directory(&mut self, step: &Step) -> io::Result<Vec<Step>> {
        let mut steps = Vec::new();
        let entries = fs::read_dir(&step.at)?;
        self.found.directories.push(step.at.clone());
        for entry in entries {
            let entry = entry?;
            let at = entry.path();
            let below = step.below.join(entry.file_name());
            match fs::symlink_metadata(&at) {
                Ok(metadata) => steps.extend(self.entry(step, at, below, &metadata)),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(steps)
    }

    fn entry(
        &mut self,
        step: &Step,
        at: PathBuf,
        below: PathBuf,
        metadata: &Metadata,
    ) -> Option<Step> {
        let name = below.file_name().unwrap_or_default().to_owned();
        self.marker(&at, &below, &name, metadata);
        if metadata.is_dir() {
            return Some(Step {
                at,
                below,
                follows: step.follows,
            });
        }
        if metadata.is_symlink() {
            return self.link(step, at, below, &name, metadata);
        }
        if is_manifest(&name) {
            self.regular(&at, &below, metadata);
        }
        None
    }

    fn marker(&mut self, at: &Path, below: &Path, name: &OsStr, metadata: &Metadata) {
        let Some(hides) = name.as_bytes().strip_suffix(MARKER_SUFFIX.as_bytes()) else {
            return;
        };
        let path = printable(below.as_os_str());
        let stamp = Stamp::of(metadata, self.now);
        let (stamp, read) = match self.seen.markers.get(&path) {
            Some((earlier, mark)) if earlier.settled && earlier.is_same_file_as(&stamp) => {
                (*earlier, Ok(mark.clone()))
            }
            _ => (stamp, read_mark(at, &path, metadata, self.now)),
        };
        let (mark, unreadable) = match read {
            Ok(mark) => (mark, None),
            // Gone meanwhile: the next look tells.
            Err(error) if is_gone(&error) => return,
            Err(error) => (None, Some(error.to_string())),
        };
        self.found.markers.push(MarkerEntry {
            path,
            hides: printable(OsStr::from_bytes(hides)),
            mark,
            unreadable,
            stamp,
        });
    }

    fn link(
        &mut self,
        step: &Step,
        at: PathBuf,
        below: PathBuf,
        name: &OsStr,
        metadata: &Metadata,
    ) -> Option<Step> {
        let written = fs::read_link(&at).ok()?;
        let target = printable(written.as_os_str());
        let real = match fs::canonicalize(&at) {
            Ok(real) => real,
            // Whatever the link is called, RKE2 stops at it, unless it only just went away.
            Err(_) if fs::symlink_metadata(&at).is_err() => return None,
            Err(_) => {
                self.file(&below, Content::DanglingSymlink { target }, metadata);
                return None;
            }
        };
        let behind = fs::metadata(&real).ok()?;
        let leads_inside = real.starts_with(&self.inside);
        if behind.is_dir() {
            if !step.follows {
                return None;
            }
            if !leads_inside {
                self.file(&below, Content::SymlinkOutside { target }, metadata);
                return None;
            }
            return Some(Step {
                at,
                below,
                follows: false,
            });
        }
        if is_manifest(name) {
            if leads_inside {
                self.regular(&real, &below, &behind);
            } else {
                self.file(&below, Content::SymlinkOutside { target }, metadata);
            }
        }
        None
    }

    /// A manifest's name and no link any more: `at` is what is opened, `below` what it is called.
    fn regular(&mut self, at: &Path, below: &Path, metadata: &Metadata) {
        if let Some(content) = special(metadata) {
            self.file(below, content, metadata);
            return;
        }
        let path = printable(below.as_os_str());
        let stamp = Stamp::of(metadata, self.now);
        let earlier = self.seen.files.get(&path);
        let earlier = earlier.filter(|earlier| earlier.is_same_file_as(&stamp));
        match earlier {
            Some(earlier) if earlier.settled => self.found.files.push(FileEntry {
                path,
                state: FileState::Unchanged,
                stamp: *earlier,
            }),
            _ => self.unread.push(Unread {
                at: at.to_owned(),
                below: below.to_owned(),
                metadata: metadata.clone(),
                read_before: earlier.copied(),
            }),
        }
    }

    /// Reads what has to be read until it is as much as is read at one look: first what was never read, in the
    /// order of the paths, so that nothing waits for ever behind a file that is written again and again.
    fn read_files(&mut self) {
        let mut unread = std::mem::take(&mut self.unread);
        unread.sort_by(|one, other| {
            let key = |file: &Unread| file.read_before.is_some();
            key(one)
                .cmp(&key(other))
                .then_with(|| one.below.cmp(&other.below))
        });
        let mut taken = 0;
        for file in unread {
            let Unread {
                at,
                below,
                metadata,
                read_before,
            } = file;
            let size = metadata.size();
            let fits = size <= self.limits.file_bytes;
            // One file is read at each look, whatever its size.
            if fits && taken > 0 && taken + size > self.limits.directory_bytes {
                match read_before {
                    Some(stamp) => self.found.files.push(FileEntry {
                        path: printable(below.as_os_str()),
                        state: FileState::Unchanged,
                        stamp,
                    }),
                    None => self.file(&below, Content::NoRoom { size }, &metadata),
                }
                continue;
            }
            match read(&at, self.limits.file_bytes) {
                Ok((content, metadata)) => {
                    if let Content::Bytes(bytes) = &content {
                        taken += bytes.len() as u64;
                    }
                    self.file(&below, content, &metadata);
                }
                Err(error) if is_gone(&error) => {}
                Err(error) => {
                    let content = Content::Unreadable {
                        error: error.to_string(),
                    };
                    self.file(&below, content, &metadata);
                }
            }
        }
    }

    fn file(&mut self, below: &Path, content: Content, metadata: &Metadata) {
        // What RKE2 stops at it stops at whatever it is called.
        let content = match content {
            Content::Bytes(_) | Content::TooLarge { .. } | Content::NoRoom { .. }
                if below.to_str().is_none() =>
            {
                match below.file_name().and_then(OsStr::to_str) {
                    None => Content::NotUtf8Name { special: None },
                    Some(_) => Content::Unreadable {
                        error: "a directory above it has a name that is not UTF-8; rename that"
                            .to_owned(),
                    },
                }
            }
            // A marker's path is made of the file's, and there is no such directory, or the marker hides another name.
            Content::Fifo if below.to_str().is_none() => Content::NotUtf8Name {
                special: Some("a FIFO"),
            },
            Content::Special { what } if below.to_str().is_none() => Content::NotUtf8Name {
                special: Some(what),
            },
            content => content,
        };
        self.found.files.push(FileEntry {
            path: printable(below.as_os_str()),
            state: FileState::Read(content),
            stamp: Stamp::of(metadata, self.now),
        });
    }
}

/// The mark in a marker, if it is Windrow's.
fn read_mark(
    at: &Path,
    path: &str,
    metadata: &Metadata,
    now: Timestamp,
) -> io::Result<Option<Mark>> {
    if !metadata.is_file() {
        return Ok(None);
    }
    Mark::read(open(at)?, path, now)
}

/// Reads a regular file; whatever else has taken its place meanwhile is told, not read. The stamp is
/// taken before the content: what changes after it will be noticed.
fn read(at: &Path, limit: u64) -> io::Result<(Content, Metadata)> {
    let file = match open(at) {
        Ok(file) => file,
        // A socket took its place.
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ENXIO as i32) => {
            let what = "a socket or device";
            return Ok((Content::Special { what }, fs::symlink_metadata(at)?));
        }
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if let Some(content) = special(&metadata) {
        return Ok((content, metadata));
    }
    let mut bytes = Vec::new();
    if metadata.size() <= limit {
        // Grown step by step, it would take twice the memory.
        bytes.reserve_exact(usize::try_from(metadata.size()).unwrap_or_default() + 1);
        (&file)
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)?;
    }
    let size = metadata.size().max(bytes.len() as u64);
    if size > limit {
        return Ok((Content::TooLarge { size }, metadata));
    }
    Ok((Content::Bytes(bytes), metadata))
}

/// The bytes of one regular file of the directory, `below` it; `None` of anything else, of what is larger, and of what
/// cannot be read.
pub fn bytes(dir: &Path, below: &str, limit: u64) -> Option<Vec<u8>> {
    let inside = fs::canonicalize(dir).ok()?;
    let at = fs::canonicalize(dir.join(below)).ok()?;
    let at = at.starts_with(inside).then_some(at)?;
    match read(&at, limit).ok()?.0 {
        Content::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

/// Opens without waiting for anything and without following a link.
fn open(at: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(at)
}

fn special(metadata: &Metadata) -> Option<Content> {
    let kind = metadata.file_type();
    if kind.is_file() {
        None
    } else if kind.is_fifo() {
        Some(Content::Fifo)
    } else if kind.is_socket() {
        Some(Content::Special { what: "a socket" })
    } else if kind.is_dir() {
        Some(Content::Special {
            what: "a directory",
        })
    } else {
        Some(Content::Special { what: "a device" })
    }
}

fn is_manifest(name: &OsStr) -> bool {
    is_manifest_name(&name.to_string_lossy())
}

/// A name as text. Bytes that are not UTF-8 stay visible, and two names stay two.
fn printable(name: &OsStr) -> String {
    let mut text = String::new();
    for part in name.as_bytes().utf8_chunks() {
        text.push_str(part.valid());
        for byte in part.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
