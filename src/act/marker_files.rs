//! How markers come onto the disk, one or many together: each step is made for all of them before the next one.
//!
//! ```text
//!   written under temporary names ──> synced ──> linked into place ──> their directories synced
//! ```
//!
//! A marker is not empty: it says whose it is. So its content is on disk before its name is; a power cut between the two would leave
//! an empty marker, which is foreign, and its file would be held forever. Its name is on disk once its directory was synced, and one
//! sync of a directory is enough for all names in it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::thread;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};
use tempfile::NamedTempFile;
use windrow_decide::Mark;

use super::directory::ParentDirectory;
use super::markers::MarkerOutcome;
use crate::files::temporary_in;

/// Threads that sync the contents. A file system joins syncs that come at the same time into one write of its journal.
const SYNCING_THREADS: usize = 8;

/// A marker that is about to be made.
pub(super) enum NewMarker {
    /// There is nothing to be made.
    Nothing(MarkerOutcome),
    /// Its content is written under a temporary name.
    Written(WrittenMarker),
}

/// The content of a new marker, under a temporary name.
pub(super) struct WrittenMarker {
    // Before the directory, by whose descriptor it is removed when it is dropped.
    file: NamedTempFile,
    directory: ParentDirectory,
    over_ours: bool,
    is_synced: bool,
}

/// What became of a marker, and the directory that changed with it.
pub(super) struct MarkerChange {
    pub(super) outcome: MarkerOutcome,
    directory: Option<ParentDirectory>,
}

impl NewMarker {
    /// Writes the content. Its name never stands for half of it, which would look like a foreign marker.
    pub(super) fn write(
        directory: ParentDirectory,
        mark: &Mark,
        over_ours: bool,
    ) -> io::Result<Self> {
        let mut file = temporary_in(&directory.path(), 0o600)?;
        // Not through the temporary, which would put its own name, another one each time, into an error.
        file.as_file_mut().write_all(mark.to_json().as_bytes())?;
        Ok(Self::Written(WrittenMarker {
            file,
            directory,
            over_ours,
            is_synced: false,
        }))
    }

    /// Puts the content on disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if let Self::Written(marker) = self
            && !marker.is_synced
        {
            marker.file.as_file().sync_all()?;
            marker.is_synced = true;
        }
        Ok(())
    }

    /// Gives it its name.
    pub(super) fn put_in_place(self) -> io::Result<MarkerChange> {
        // The file after the directory: it is dropped first, and removed by the directory's descriptor.
        let WrittenMarker {
            directory,
            file,
            over_ours,
            ..
        } = match self {
            Self::Nothing(outcome) => return Ok(outcome.into()),
            Self::Written(marker) => marker,
        };
        if over_ours {
            file.persist(directory.path().join(directory.name()))
                .map_err(|error| error.error)?;
            return Ok(MarkerChange::changed_in(directory));
        }
        let temporary = file
            .path()
            .file_name()
            .map(Path::new)
            .ok_or_else(|| io::Error::other("the temporary file has no name"))?
            .to_owned();
        let (from, to) = (temporary.as_path(), directory.name());
        match linkat(directory.fd(), from, directory.fd(), to, AtFlags::empty()) {
            // The temporary name goes before the directory is synced.
            Ok(()) => drop(file),
            // Another process was quicker, perhaps one of Windrow's: who asked looks again.
            Err(Errno::EEXIST) => return Ok(MarkerOutcome::Foreign.into()),
            // A file system without hard links: the name is free, so renaming replaces nothing.
            Err(Errno::EPERM | Errno::EOPNOTSUPP) => {
                file.persist_noclobber(directory.path().join(directory.name()))
                    .map_err(|error| error.error)?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(MarkerChange::changed_in(directory))
    }
}

impl From<MarkerOutcome> for MarkerChange {
    /// Nothing changed.
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

    /// Removes the marker.
    pub(super) fn remove(directory: ParentDirectory) -> io::Result<Self> {
        match unlinkat(directory.fd(), directory.name(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) => Ok(Self::changed_in(directory)),
            Err(Errno::ENOENT) => Ok(MarkerOutcome::Unchanged.into()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Makes markers whose contents are written.
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
                // Where the system gives no thread, it is done below.
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
