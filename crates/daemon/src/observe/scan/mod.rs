//! One scan of the manifests directory, on the real file system.
//!
//! It walks as RKE2 does (k3s `pkg/deploy`): every directory below, hidden ones too, a symbolic link to a directory by
//! one level. Unlike RKE2 it never opens anything that could block, never leaves the directory, and one bad entry does
//! not hide the others. An entry that vanishes meanwhile counts as absent.

mod found;
mod read;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use jiff::Timestamp;
use windrow_model::manifest::{FileContent, ManifestPath, ReadLimits};

pub use self::found::{
    FileEntry, FileStamps, MarkerEntry, ScanResult, ScanStamp, ScannedContent, ScannedDirectory,
};
pub use self::read::bytes;

use self::walk::walk;

/// Scans the directory. Files whose stamp is the one in `seen` are not read again.
pub fn scan(dir: &Path, limits: &ReadLimits, seen: &FileStamps, now: Timestamp) -> ScanResult {
    match walk(dir, limits, seen, now) {
        Ok(found) => ScanResult::Found(found),
        Err(error) if error.kind() == ErrorKind::NotFound => ScanResult::Missing,
        Err(error) => ScanResult::Unreadable {
            error: error.to_string(),
        },
    }
}

/// How many scans of a large directory are made to read all of it.
const MOST_LOOKS: usize = 8;

/// Reads the whole directory in several scans, so that no more than `limits.directory_bytes` of it is in memory. `take`
/// gets each file after it was read; every marker is returned. Files for which no scan had room go to `take` last.
/// `None` if the directory does not exist or cannot be read.
pub fn scan_whole(
    dir: &Path,
    limits: &ReadLimits,
    now: Timestamp,
    take: &mut dyn FnMut(&ManifestPath, &FileContent),
) -> Option<Vec<MarkerEntry>> {
    let mut seen = FileStamps::new();
    let mut taken = BTreeSet::new();
    for look in 1.. {
        let ScanResult::Found(found) = scan(dir, limits, &seen, now) else {
            return None;
        };
        seen = found.stamps();
        let mut partial = false;
        for file in found.files {
            let ScannedContent::Read(content) = file.state else {
                continue;
            };
            if look < MOST_LOOKS && matches!(content, FileContent::NoRoom { .. }) {
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
