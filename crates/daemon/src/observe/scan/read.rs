//! Opening and reading one file. Nothing here blocks, and no link is followed.

use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use nix::fcntl::OFlag;
use windrow_decide::Mark;
use windrow_model::manifest::{FileContent, ManifestPath, MarkerPath};

use crate::fs::{self, File, Metadata, OpenOptions};

pub(super) fn read_mark(
    at: &Path,
    path: &MarkerPath,
    metadata: &Metadata,
    now: Timestamp,
) -> io::Result<Option<Arc<Mark>>> {
    if !metadata.is_file() {
        return Ok(None);
    }
    Ok(Mark::read(open(at)?, path, now)?.map(Arc::new))
}

/// Reads a regular file. If something else took its place, its kind is returned. The metadata is older than the
/// content: a later change will be noticed.
pub(super) fn read(at: &Path, limit: u64) -> io::Result<(FileContent, Metadata)> {
    let file = match open(at) {
        Ok(file) => file,
        // A socket took its place.
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ENXIO as i32) => {
            let what = "a socket or device";
            return Ok((FileContent::Special { what }, fs::symlink_metadata(at)?));
        }
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if let Some(content) = special(&metadata) {
        return Ok((content, metadata));
    }
    let mut bytes = Vec::new();
    if metadata.size() <= limit {
        // A vector that grows step by step would take twice the memory.
        bytes.reserve_exact(usize::try_from(metadata.size()).unwrap_or_default() + 1);
        (&file)
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)?;
    }
    let size = metadata.size().max(bytes.len() as u64);
    if size > limit {
        return Ok((FileContent::TooLarge { size }, metadata));
    }
    Ok((FileContent::Bytes(bytes), metadata))
}

/// The bytes of one regular file of the directory; `None` for anything else, for a larger file, and for one that cannot
/// be read.
pub fn bytes(dir: &Path, path: &ManifestPath, limit: u64) -> Option<Vec<u8>> {
    let inside = fs::canonicalize(dir).ok()?;
    let at = fs::canonicalize(dir.join(path.as_str())).ok()?;
    let at = at.starts_with(inside).then_some(at)?;
    match read(&at, limit).ok()?.0 {
        FileContent::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

/// Opens without blocking and without following a link.
fn open(at: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(at)
}

pub(super) fn special(metadata: &Metadata) -> Option<FileContent> {
    let kind = metadata.file_type();
    if kind.is_file() {
        None
    } else if kind.is_fifo() {
        Some(FileContent::Fifo)
    } else if kind.is_socket() {
        Some(FileContent::Special { what: "a socket" })
    } else if kind.is_dir() {
        Some(FileContent::Special {
            what: "a directory",
        })
    } else {
        Some(FileContent::Special { what: "a device" })
    }
}
