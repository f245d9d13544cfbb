//! The walk through the directory.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use windrow_model::manifest::{
    FileContent, ManifestPath, MarkerPath, ReadLimits, is_manifest_name,
};

use super::found::{
    FileEntry, FileStamps, MarkerEntry, ScanStamp, ScannedContent, ScannedDirectory,
};
use super::read::{read, read_mark, special};
use crate::causes::in_words;
use crate::files::is_missing;
use crate::fs::{self, Metadata};

struct DirectoryToWalk {
    at: PathBuf,
    /// Its path below the manifests directory.
    below: PathBuf,
    /// Whether links to directories in it are followed. They are not below a link: RKE2 follows by one level.
    follows: bool,
}

struct UnreadFile {
    at: PathBuf,
    below: PathBuf,
    metadata: Metadata,
    /// Its stamp when it was last read. It is unchanged, but too new to prove that the file is.
    read_before: Option<ScanStamp>,
}

struct DirectoryWalk<'s> {
    /// The directory without any link in its path.
    inside: PathBuf,
    limits: &'s ReadLimits,
    seen: &'s FileStamps,
    now: Timestamp,
    unread: Vec<UnreadFile>,
    found: ScannedDirectory,
}

/// Walks through the directory. Files whose stamp is the one in `seen` are not read again.
///
/// # Errors
///
/// When the directory itself does not exist or cannot be read.
pub(super) fn walk(
    dir: &Path,
    limits: &ReadLimits,
    seen: &FileStamps,
    now: Timestamp,
) -> io::Result<ScannedDirectory> {
    let mut walk = DirectoryWalk {
        inside: fs::canonicalize(dir)?,
        limits,
        seen,
        now,
        unread: Vec::new(),
        found: ScannedDirectory::default(),
    };
    let mut todo = walk.directory(&DirectoryToWalk {
        at: dir.to_owned(),
        below: PathBuf::new(),
        // A link to the directory itself is the one level.
        follows: !fs::symlink_metadata(dir)?.is_symlink(),
    })?;
    while let Some(directory) = todo.pop() {
        match walk.directory(&directory) {
            Ok(more) => todo.extend(more),
            Err(error) if is_missing(&error) => {}
            Err(error) => walk.unreadable(&directory.below, &error),
        }
    }
    walk.read_files();
    let mut found = walk.found;
    found.files.sort_by(|a, b| a.path.cmp(&b.path));
    found.markers.sort_by(|a, b| a.path.cmp(&b.path));
    found.directories.sort();
    Ok(found)
}

impl DirectoryWalk<'_> {
    fn directory(&mut self, directory: &DirectoryToWalk) -> io::Result<Vec<DirectoryToWalk>> {
        let mut more = Vec::new();
        let entries = fs::read_dir(&directory.at)?;
        self.found.directories.push(directory.at.clone());
        for entry in entries {
            let entry = entry?;
            let at = entry.path();
            let below = directory.below.join(entry.file_name());
            match fs::symlink_metadata(&at) {
                Ok(metadata) => more.extend(self.entry(directory, at, below, &metadata)),
                Err(error) if is_missing(&error) => {}
                Err(error) => self.unreadable(&below, &error),
            }
        }
        Ok(more)
    }

    /// Lists an unreadable entry of any kind: RKE2 then ends its whole pass. The known state of the entry, and below
    /// it, stays.
    fn unreadable(&mut self, below: &Path, error: &io::Error) {
        let (path, stamp) = (printable(below.as_os_str()), ScanStamp::default());
        let error = in_words(error);
        match MarkerPath::parse(&path) {
            Some(path) => self.found.markers.push(MarkerEntry {
                path,
                mark: None,
                unreadable: Some(error),
                stamp,
            }),
            None => self.found.files.push(FileEntry {
                path: path.into(),
                state: ScannedContent::Read(FileContent::Unreadable { error }),
                stamp,
            }),
        }
    }

    fn entry(
        &mut self,
        directory: &DirectoryToWalk,
        at: PathBuf,
        below: PathBuf,
        metadata: &Metadata,
    ) -> Option<DirectoryToWalk> {
        let name = below.file_name().unwrap_or_default().to_owned();
        self.marker(&at, &below, metadata);
        if metadata.is_dir() {
            return Some(DirectoryToWalk {
                at,
                below,
                follows: directory.follows,
            });
        }
        if metadata.is_symlink() {
            return self.link(directory, at, below, &name, metadata);
        }
        if is_manifest(&name) {
            self.regular(&at, &below, metadata);
        }
        None
    }

    fn marker(&mut self, at: &Path, below: &Path, metadata: &Metadata) {
        let Some(path) = MarkerPath::parse(&printable(below.as_os_str())) else {
            return;
        };
        let stamp = ScanStamp::new(metadata, self.now);
        let (stamp, read) = match self.seen.markers.get(&path) {
            Some((earlier, mark)) if earlier.settled && earlier.file == stamp.file => {
                (*earlier, Ok(mark.clone()))
            }
            _ => (stamp, read_mark(at, &path, metadata, self.now)),
        };
        let (mark, unreadable) = match read {
            Ok(mark) => (mark, None),
            // Gone meanwhile: the next scan will not see it.
            Err(error) if is_missing(&error) => return,
            Err(error) => (None, Some(in_words(&error))),
        };
        self.found.markers.push(MarkerEntry {
            path,
            mark,
            unreadable,
            stamp,
        });
    }

    fn link(
        &mut self,
        directory: &DirectoryToWalk,
        at: PathBuf,
        below: PathBuf,
        name: &OsStr,
        metadata: &Metadata,
    ) -> Option<DirectoryToWalk> {
        let written = match fs::read_link(&at) {
            Ok(written) => written,
            Err(error) if is_missing(&error) => return None,
            Err(error) => {
                self.unreadable(&below, &error);
                return None;
            }
        };
        let target = printable(written.as_os_str());
        let led = fs::canonicalize(&at).and_then(|real| Ok((fs::metadata(&real)?, real)));
        let (behind, real) = match led {
            Ok(led) => led,
            Err(error) if leads_nowhere(&error) => {
                let is_gone = fs::symlink_metadata(&at).is_err_and(|error| is_missing(&error));
                if is_gone {
                    return None;
                }
                if directory.follows {
                    // RKE2 stops at such a link with any name.
                    self.file(&below, FileContent::DanglingSymlink { target }, metadata);
                } else if is_manifest(name) {
                    // RKE2 does not examine the link's target, and fails to read this one file.
                    self.unreadable(&below, &error);
                }
                return None;
            }
            Err(error) => {
                self.unreadable(&below, &error);
                return None;
            }
        };
        let leads_inside = real.starts_with(&self.inside);
        if behind.is_dir() {
            if !directory.follows {
                return None;
            }
            if !leads_inside {
                self.file(&below, FileContent::SymlinkOutside { target }, metadata);
                return None;
            }
            return Some(DirectoryToWalk {
                at,
                below,
                follows: false,
            });
        }
        if is_manifest(name) {
            if leads_inside {
                self.regular(&real, &below, &behind);
            } else {
                self.file(&below, FileContent::SymlinkOutside { target }, metadata);
            }
        }
        None
    }

    /// An entry with a manifest's name that is not a link: `at` is the path to open, `below` its name in the plan.
    fn regular(&mut self, at: &Path, below: &Path, metadata: &Metadata) {
        if let Some(content) = special(metadata) {
            self.file(below, content, metadata);
            return;
        }
        let path = ManifestPath::from(printable(below.as_os_str()));
        let stamp = ScanStamp::new(metadata, self.now);
        let earlier = self.seen.files.get(&path);
        let earlier = earlier.filter(|earlier| earlier.file == stamp.file);
        match earlier {
            Some(earlier) if earlier.settled => self.found.files.push(FileEntry {
                path,
                state: ScannedContent::Unchanged,
                stamp: *earlier,
            }),
            _ => self.unread.push(UnreadFile {
                at: at.to_owned(),
                below: below.to_owned(),
                metadata: metadata.clone(),
                read_before: earlier.copied(),
            }),
        }
    }

    /// Reads the files until the bound of one scan is reached: first those that were never read, in the order of their
    /// paths, so that none waits forever for a file that is written again and again.
    fn read_files(&mut self) {
        let mut unread = std::mem::take(&mut self.unread);
        unread.sort_by(|one, other| {
            let key = |file: &UnreadFile| file.read_before.is_some();
            key(one)
                .cmp(&key(other))
                .then_with(|| one.below.cmp(&other.below))
        });
        let mut taken = 0;
        for file in unread {
            let UnreadFile {
                at,
                below,
                metadata,
                read_before,
            } = file;
            let size = metadata.size();
            let fits = size <= self.limits.file_bytes;
            // At least one file is read at each scan, however large it is.
            if fits && taken > 0 && taken + size > self.limits.directory_bytes {
                match read_before {
                    Some(stamp) => self.found.files.push(FileEntry {
                        path: printable(below.as_os_str()).into(),
                        state: ScannedContent::Unchanged,
                        stamp,
                    }),
                    None => self.file(&below, FileContent::NoRoom { size }, &metadata),
                }
                continue;
            }
            match read(&at, self.limits.file_bytes) {
                Ok((content, metadata)) => {
                    if let FileContent::Bytes(bytes) = &content {
                        taken += bytes.len() as u64;
                    }
                    self.file(&below, content, &metadata);
                }
                Err(error) if is_missing(&error) => {}
                Err(error) => {
                    let content = FileContent::Unreadable {
                        error: in_words(&error),
                    };
                    self.file(&below, content, &metadata);
                }
            }
        }
    }

    fn file(&mut self, below: &Path, content: FileContent, metadata: &Metadata) {
        // RKE2 stops at such an entry with any name.
        let content = match content {
            FileContent::Bytes(_) | FileContent::TooLarge { .. } | FileContent::NoRoom { .. }
                if below.to_str().is_none() =>
            {
                match below.file_name().and_then(OsStr::to_str) {
                    None => FileContent::NotUtf8Name { special: None },
                    Some(_) => FileContent::Unreadable {
                        error: "a directory above it has a name that is not UTF-8; rename that"
                            .to_owned(),
                    },
                }
            }
            // A marker's path is derived from the file's. There is no such directory, or the marker hides another name.
            FileContent::Fifo if below.to_str().is_none() => FileContent::NotUtf8Name {
                special: Some("a FIFO"),
            },
            FileContent::Special { what } if below.to_str().is_none() => FileContent::NotUtf8Name {
                special: Some(what),
            },
            content => content,
        };
        self.found.files.push(FileEntry {
            path: printable(below.as_os_str()).into(),
            state: ScannedContent::Read(content),
            stamp: ScanStamp::new(metadata, self.now),
        });
    }
}

/// Whether this error of following a link means that nothing is there.
fn leads_nowhere(error: &io::Error) -> bool {
    is_missing(error) || error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32)
}

fn is_manifest(name: &OsStr) -> bool {
    is_manifest_name(&name.to_string_lossy())
}

/// A name as text. Bytes that are not UTF-8 stay visible, and different names stay different.
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
