//! How markers come onto the disk, one or many together: each step is made for all of them before the next one.
//!
//! ```text
//!   written without a name ──> synced ──> linked into place ──> their directories synced
//! ```
//!
//! RKE2 gives up its pass if a name disappears between listing the directory and looking at the entry (k3s
//! `pkg/deploy/controller.go`). So a new marker has no temporary name, if the file system can do without. One that replaces
//! another has to have one.
//!
//! A marker is not empty: it says whose it is. So its content is on disk before its name is; a power cut between the two would leave
//! an empty marker, which is foreign, and its file would be held forever. Its name is on disk once its directory was synced, and one
//! sync of a directory is enough for all names in it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};
use tempfile::NamedTempFile;
use windrow_decide::Mark;

use super::directory::ParentDirectory;
use super::markers::MarkerOutcome;
use crate::files::temporary_in;
use crate::fs::File;

/// Threads that sync the contents. A file system joins syncs that come at the same time into one write of its journal.
const SYNCING_THREADS: usize = 8;

pub(super) enum NewMarker {
    Nothing(MarkerOutcome),
    Written(WrittenMarker),
}

pub(super) struct WrittenMarker {
    // Before the directory, by whose descriptor it is removed when it is dropped.
    content: MarkerContent,
    directory: ParentDirectory,
    is_synced: bool,
}

enum MarkerContent {
    /// It has no name yet, and is gone if it does not get one.
    Nameless(File),
    /// Under a temporary name: the file system has no files without one.
    Temporary(NamedTempFile),
    /// Under a temporary name: it replaces a marker of ours.
    Replacement(NamedTempFile),
}

impl MarkerContent {
    fn begin(directory: &ParentDirectory, over_ours: bool) -> io::Result<Self> {
        let temporary = || temporary_in(&directory.path(), 0o600);
        if over_ours {
            return temporary().map(Self::Replacement);
        }
        let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        match openat(directory.fd(), ".", flags, Mode::S_IRUSR | Mode::S_IWUSR) {
            Ok(file) => Ok(Self::Nameless(file.into())),
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => {
                temporary().map(Self::Temporary)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn file(&self) -> &File {
        match self {
            Self::Nameless(file) => file,
            Self::Temporary(file) | Self::Replacement(file) => file.as_file(),
        }
    }
}

pub(super) struct MarkerChange {
    pub(super) outcome: MarkerOutcome,
    directory: Option<ParentDirectory>,
}

impl NewMarker {
    /// Writes the content. The marker gets its name only when it is complete: half of one would look like a foreign
    /// marker.
    pub(super) fn write(
        directory: ParentDirectory,
        mark: &Mark,
        over_ours: bool,
    ) -> io::Result<Self> {
        let content = MarkerContent::begin(&directory, over_ours)?;
        // Not through the temporary, which would put its own name, another one each time, into an error.
        content.file().write_all(mark.to_json().as_bytes())?;
        Ok(Self::Written(WrittenMarker {
            content,
            directory,
            is_synced: false,
        }))
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        if let Self::Written(marker) = self
            && !marker.is_synced
        {
            marker.content.file().sync_all()?;
            marker.is_synced = true;
        }
        Ok(())
    }

    pub(super) fn put_in_place(self) -> io::Result<MarkerChange> {
        // The content after the directory: it is dropped first, and removed by the directory's descriptor.
        let WrittenMarker {
            directory, content, ..
        } = match self {
            Self::Nothing(outcome) => return Ok(outcome.into()),
            Self::Written(marker) => marker,
        };
        let (fd, name) = (directory.fd(), directory.name());
        let path = || directory.path().join(name);
        let linked = match content {
            MarkerContent::Replacement(file) => {
                file.persist(path()).map_err(|error| error.error)?;
                Ok(())
            }
            MarkerContent::Nameless(file) => {
                let from = format!("/proc/self/fd/{}", file.as_raw_fd());
                linkat(
                    AT_FDCWD,
                    from.as_str(),
                    fd,
                    name,
                    AtFlags::AT_SYMLINK_FOLLOW,
                )
            }
            MarkerContent::Temporary(file) => {
                let temporary = file
                    .path()
                    .file_name()
                    .map(Path::new)
                    .ok_or_else(|| io::Error::other("the temporary file has no name"))?;
                // The temporary name goes before the directory is synced.
                match linkat(fd, temporary, fd, name, AtFlags::empty()) {
                    // A file system without hard links: the name is free, so renaming replaces nothing.
                    Err(Errno::EPERM | Errno::EOPNOTSUPP) => {
                        file.persist_noclobber(path())
                            .map_err(|error| error.error)?;
                        Ok(())
                    }
                    linked => linked,
                }
            }
        };
        match linked {
            Ok(()) => Ok(MarkerChange::changed_in(directory)),
            // Another process was quicker, perhaps one of Windrow's: who asked looks again.
            Err(Errno::EEXIST) => Ok(MarkerOutcome::Foreign.into()),
            Err(error) => Err(error.into()),
        }
    }
}

impl From<MarkerOutcome> for MarkerChange {
    fn from(outcome: MarkerOutcome) -> Self {
        Self {
            outcome,
            directory: None,
        }
    }
}

impl MarkerChange {
    fn changed_in(directory: ParentDirectory) -> Self {
        Self {
            outcome: MarkerOutcome::Changed,
            directory: Some(directory),
        }
    }

    pub(super) fn remove(directory: ParentDirectory) -> io::Result<Self> {
        match unlinkat(directory.fd(), directory.name(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) => Ok(Self::changed_in(directory)),
            Err(Errno::ENOENT) => Ok(MarkerOutcome::Unchanged.into()),
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn make(mut markers: Vec<io::Result<NewMarker>>) -> Vec<io::Result<MarkerOutcome>> {
    sync_contents(&mut markers);
    let named = markers.into_iter();
    let changes = named.map(|marker| marker.and_then(NewMarker::put_in_place));
    sync_directories(changes.collect())
}

fn sync_contents(markers: &mut [io::Result<NewMarker>]) {
    let sync = |marker: &mut io::Result<NewMarker>| {
        if let Ok(new) = marker
            && let Err(error) = new.sync()
        {
            *marker = Err(error);
        }
    };
    if markers.len() > 1 {
        let share = markers.len().div_ceil(SYNCING_THREADS);
        thread::scope(|scope| {
            for share in markers.chunks_mut(share) {
                // If the system provides no thread, the content is synced below.
                let _ = thread::Builder::new()
                    .spawn_scoped(scope, move || share.iter_mut().for_each(sync));
            }
        });
    }
    markers.iter_mut().for_each(sync);
}

/// Puts the changes of names on disk: one sync for each directory, after all changes in it.
pub(super) fn sync_directories(
    changes: Vec<io::Result<MarkerChange>>,
) -> Vec<io::Result<MarkerOutcome>> {
    let mut synced = BTreeMap::new();
    let mut sync_once = |change: MarkerChange| {
        if let Some(directory) = &change.directory {
            let result: &nix::Result<()> = synced
                .entry(directory.id()?)
                .or_insert_with(|| directory.sync());
            (*result)?;
        }
        Ok(change.outcome)
    };
    changes
        .into_iter()
        .map(|change| change.and_then(&mut sync_once))
        .collect()
}
