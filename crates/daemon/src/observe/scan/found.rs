//! The results of a scan, and the stamps by which the next one notices changes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use windrow_decide::{Directory, FileChange, Mark, Marker};
use windrow_model::manifest::{FileContent, ManifestPath, MarkerPath};

use crate::files::FileStamp;
use crate::fs::Metadata;

/// A file that changed less than this before a scan may change again within the same tick of the file system's clock:
/// its stamp proves nothing yet.
const SETTLES_NANOS: i128 = 2_000_000_000;

#[derive(Debug, Clone, PartialEq)]
pub enum ScanResult {
    Missing,
    Unreadable {
        /// Why, in the system's words.
        error: String,
    },
    Found(ScannedDirectory),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScannedDirectory {
    /// Every manifest file, and every entry that makes RKE2 stop, in the order in which RKE2 applies them.
    pub files: Vec<FileEntry>,
    pub markers: Vec<MarkerEntry>,
    /// Every directory below, including the first one: all of them have to be watched.
    pub directories: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FileEntry {
    /// Its path. Bytes that are not UTF-8 are written `\xff`.
    pub path: ManifestPath,
    pub state: ScannedContent,
    /// For the detection of changes.
    pub stamp: ScanStamp,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ScannedContent {
    /// Its stamp has not changed since the last scan: it was not read again.
    Unchanged,
    Read(FileContent),
}

/// One `<name>.skip`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkerEntry {
    pub path: MarkerPath,
    /// Windrow's mark in it; `None` when it is not Windrow's.
    pub mark: Option<Arc<Mark>>,
    /// Why it could not be read; whose marker it is, is unknown then.
    pub unreadable: Option<String>,
    /// For the detection of changes.
    pub stamp: ScanStamp,
}

/// Shows whether a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanStamp {
    pub(super) file: FileStamp,
    /// Whether the last change was long enough ago that a later one must show in the times.
    pub(super) settled: bool,
}

impl ScanStamp {
    pub(super) fn new(metadata: &Metadata, now: Timestamp) -> Self {
        let file = FileStamp::from(metadata);
        Self {
            file,
            settled: now.as_nanosecond() - file.changed > SETTLES_NANOS,
        }
    }
}

/// The results of an earlier scan, by path. An unchanged file is not opened again: opening takes time, and it is an
/// event for every watch on the directory, including Windrow's own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FileStamps {
    pub(super) files: BTreeMap<ManifestPath, ScanStamp>,
    pub(super) markers: BTreeMap<MarkerPath, (ScanStamp, Option<Arc<Mark>>)>,
}

impl FileStamps {
    pub fn new() -> Self {
        Self::default()
    }

    /// The next scan reads the file at this path, even if its stamp is unchanged.
    pub fn forget(&mut self, path: &ManifestPath) {
        self.files.remove(path);
    }
}

impl ScannedDirectory {
    pub fn stamps(&self) -> FileStamps {
        // A file that was not read, because of missing room or an error, is read at a later scan.
        let was_read = |file: &&FileEntry| {
            !matches!(
                file.state,
                ScannedContent::Read(FileContent::NoRoom { .. } | FileContent::Unreadable { .. })
            )
        };
        let files = self.files.iter().filter(was_read);
        let markers = self.markers.iter();
        FileStamps {
            files: files.map(|file| (file.path.clone(), file.stamp)).collect(),
            markers: markers
                .filter(|marker| marker.unreadable.is_none())
                .map(|marker| (marker.path.clone(), (marker.stamp, marker.mark.clone())))
                .collect(),
        }
    }

    pub fn into_directory(self) -> Directory {
        let files = self.files.into_iter().map(|file| FileChange {
            path: file.path,
            content: match file.state {
                ScannedContent::Unchanged => None,
                ScannedContent::Read(content) => Some(Arc::new(content)),
            },
        });
        let mut files: Vec<FileChange> = files.collect();
        let mut markers = Vec::with_capacity(self.markers.len());
        for MarkerEntry {
            path,
            mark,
            unreadable,
            ..
        } in self.markers
        {
            match unreadable {
                None => markers.push(Marker { path, mark }),
                Some(error) => files.push(FileChange {
                    path: path.as_str().into(),
                    content: Some(Arc::new(FileContent::Unreadable { error })),
                }),
            }
        }
        Directory { files, markers }
    }
}
