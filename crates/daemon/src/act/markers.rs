//! `.skip` markers: created whole or not at all, removed only while they are ours.
//!
//! RKE2 looks only at a marker's name (k3s `pkg/deploy/controller.go`), Windrow at its content. A marker that does not
//! say `"by": "windrow"` is foreign (Harvester makes them during upgrades) and stays as it is. The check and the
//! removal are two steps: if our marker is replaced within the microseconds between them, the new one is lost.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};
use thiserror::Error;
use windrow_decide::Mark;
use windrow_model::manifest::MarkerPath;

use super::arrivals::Arrivals;
use super::directory::ParentDirectory;
use super::marker_files::{MarkerChange, NewMarker, make, sync_directories};

use crate::fs::File;

/// Longest name in any file system that a node runs on, in bytes.
const NAME_MAX: usize = 255;
/// Most markers that are changed together: each has two files open meanwhile.
const MOST_TOGETHER: usize = 64;
const CREATE: &str = "create the marker";
const REMOVE: &str = "remove the marker";

#[derive(Debug, Clone)]
pub struct Markers {
    directory: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkerOutcome {
    /// Created, replaced or removed, as asked.
    Changed,
    Unchanged,
    /// The file's directory is missing, so there is nothing to hold.
    NoDirectory,
    /// There is a foreign marker, which stays as it is.
    Foreign,
}

#[derive(Debug, Error)]
#[error("{what} {}: {source}", path.display())]
pub struct MarkerError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl MarkerError {
    /// The system's error, without the action and the path.
    pub(super) fn cause(&self) -> &io::Error {
        &self.source
    }
}

/// While this exists, no process removes the marker.
#[derive(Debug)]
pub struct MarkerGuard {
    /// `None` if the file system knows no locks.
    _locked: Option<Flock<File>>,
}

enum There {
    Nothing,
    Ours(Mark),
    Foreign,
}

/// What to do with a marker of ours that says something else.
#[derive(Clone, Copy)]
enum OtherMark {
    Replace,
    Keep,
}

impl Markers {
    /// The markers below a manifests directory. It need not exist.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    pub(super) fn path(&self, path: &MarkerPath) -> PathBuf {
        self.directory.join(path.as_str())
    }

    /// Creates the marker at `path`, or brings ours up to date. It is on disk when this returns.
    ///
    /// # Errors
    ///
    /// Those of the file system, with the path.
    pub fn create(&self, path: &MarkerPath, mark: &Mark) -> Result<MarkerOutcome, MarkerError> {
        let mut results = self.make(&[(path, mark)], OtherMark::Replace);
        results.pop().unwrap_or(Ok(MarkerOutcome::Unchanged))
    }

    /// Creates markers or brings ours up to date, as [`create`](Self::create) does, with fewer syncs. One result for
    /// each, in their order; all are on disk when this returns.
    pub fn create_all(
        &self,
        marks: &[(&MarkerPath, &Mark)],
    ) -> Vec<Result<MarkerOutcome, MarkerError>> {
        self.make(marks, OtherMark::Replace)
    }

    /// As [`create`](Self::create), but an existing marker stays as it is, with any content.
    pub fn create_missing(
        &self,
        marks: &[(&MarkerPath, &Mark)],
    ) -> Vec<Result<MarkerOutcome, MarkerError>> {
        self.make(marks, OtherMark::Keep)
    }

    /// Removes the marker at `path` if it is ours. The removal is on disk when this returns.
    ///
    /// # Errors
    ///
    /// Those of the file system, with the path.
    pub fn remove(&self, path: &MarkerPath) -> Result<MarkerOutcome, MarkerError> {
        let mut results = self.remove_all(&[path]);
        results.pop().unwrap_or(Ok(MarkerOutcome::Unchanged))
    }

    /// Removes those of the markers that are ours, as [`remove`](Self::remove) does, with fewer syncs. One result for
    /// each, in their order.
    pub fn remove_all(&self, paths: &[&MarkerPath]) -> Vec<Result<MarkerOutcome, MarkerError>> {
        self.unlink_all(paths, |path| self.unlink(path))
    }

    /// Lifts markers by a decision, as [`remove_all`](Self::remove_all) does. `None` for a marker that stays because a file
    /// that it hides has changed since.
    pub(super) fn lift_all(
        &self,
        paths: &[&MarkerPath],
        arrivals: &Arrivals,
    ) -> Vec<Option<Result<MarkerOutcome, MarkerError>>> {
        let mut staying = BTreeSet::new();
        let lifted = self.unlink_all(paths, |path| {
            let lifted = arrivals.unless_arriving(&path.hides(), || self.unlink(path));
            lifted.unwrap_or_else(|| {
                staying.insert(path.clone());
                Ok(MarkerOutcome::Unchanged.into())
            })
        });
        let lifted = lifted.into_iter().zip(paths);
        lifted
            .map(|(lifted, path)| (!staying.contains(*path)).then_some(lifted))
            .collect()
    }

    fn unlink_all(
        &self,
        paths: &[&MarkerPath],
        mut unlink: impl FnMut(&MarkerPath) -> io::Result<MarkerChange>,
    ) -> Vec<Result<MarkerOutcome, MarkerError>> {
        let mut results = Vec::with_capacity(paths.len());
        for paths in paths.chunks(MOST_TOGETHER) {
            let changes = paths.iter().map(|path| unlink(path)).collect();
            let done = sync_directories(changes).into_iter().zip(paths);
            results.extend(done.map(|(done, path)| self.result(REMOVE, path, done)));
        }
        results
    }

    fn make(
        &self,
        marks: &[(&MarkerPath, &Mark)],
        other: OtherMark,
    ) -> Vec<Result<MarkerOutcome, MarkerError>> {
        let mut results = self.make_once(marks, other);
        for (result, one) in results.iter_mut().zip(marks) {
            // If another process was quicker, its marker may be one of Windrow's.
            if matches!(result, Ok(MarkerOutcome::Foreign))
                && let Some(again) = self.make_once(&[*one], other).pop()
            {
                *result = again;
            }
        }
        results
    }

    fn make_once(
        &self,
        marks: &[(&MarkerPath, &Mark)],
        other: OtherMark,
    ) -> Vec<Result<MarkerOutcome, MarkerError>> {
        let mut results = Vec::with_capacity(marks.len());
        for marks in marks.chunks(MOST_TOGETHER) {
            let written = marks
                .iter()
                .map(|(path, mark)| self.write(path, mark, other));
            let done = make(written.collect()).into_iter().zip(marks);
            results.extend(done.map(|(done, (path, _))| self.result(CREATE, path, done)));
        }
        results
    }

    /// Writes the content of the marker, if there is something to be made.
    fn write(&self, path: &MarkerPath, mark: &Mark, other: OtherMark) -> io::Result<NewMarker> {
        let Some(directory) = ParentDirectory::find(&self.directory, path)? else {
            return Ok(NewMarker::Nothing(MarkerOutcome::NoDirectory));
        };
        match (look_at(&directory, path)?, other) {
            (There::Foreign, _) => Ok(NewMarker::Nothing(MarkerOutcome::Foreign)),
            (There::Ours(known), OtherMark::Replace) if known != *mark => {
                NewMarker::write(directory, mark, true)
            }
            (There::Ours(_), _) => Ok(NewMarker::Nothing(MarkerOutcome::Unchanged)),
            (There::Nothing, _) => NewMarker::write(directory, mark, false),
        }
    }

    fn unlink(&self, path: &MarkerPath) -> io::Result<MarkerChange> {
        let Some(directory) = ParentDirectory::find(&self.directory, path)? else {
            return Ok(MarkerOutcome::NoDirectory.into());
        };
        match look_at(&directory, path)? {
            There::Foreign => Ok(MarkerOutcome::Foreign.into()),
            There::Nothing => Ok(MarkerOutcome::Unchanged.into()),
            There::Ours(_) => {
                // Two that remove it do not stop each other: the daemon, and a command that releases its file.
                let _locked = match lock(&directory, FlockArg::LockSharedNonblock) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Ok(MarkerOutcome::Unchanged.into());
                    }
                    locked => locked?,
                };
                MarkerChange::remove(directory)
            }
        }
    }

    /// Keeps everyone from removing the marker at `path` while a file that it hides is replaced. `None` if it is gone, or was
    /// replaced meanwhile.
    ///
    /// # Errors
    ///
    /// Those of the file system, with the path.
    pub fn guard(&self, path: &MarkerPath) -> Result<Option<MarkerGuard>, MarkerError> {
        let guard = || {
            let Some(directory) = ParentDirectory::find(&self.directory, path)? else {
                return Ok(None);
            };
            let locked = match lock(&directory, FlockArg::LockExclusive) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                locked => locked?,
            };
            let Some(file) = &locked else {
                return Ok(Some(MarkerGuard { _locked: locked }));
            };
            let there = fstatat(
                directory.fd(),
                directory.name(),
                AtFlags::AT_SYMLINK_NOFOLLOW,
            );
            let is_there = there
                .is_ok_and(|there| fstat(&**file).is_ok_and(|file| file.st_ino == there.st_ino));
            Ok(is_there.then_some(MarkerGuard { _locked: locked }))
        };
        guard().map_err(|source| self.error("lock the marker", path, source))
    }

    /// The marker at `path`, if it is ours.
    ///
    /// # Errors
    ///
    /// Those of the file system, with the path.
    pub fn read(&self, path: &MarkerPath) -> Result<Option<Mark>, MarkerError> {
        let place = ParentDirectory::find(&self.directory, path);
        let found = place.and_then(|place| match place {
            Some(place) => look_at(&place, path),
            None => Ok(There::Nothing),
        });
        match found {
            Ok(There::Ours(mark)) => Ok(Some(mark)),
            Ok(There::Nothing | There::Foreign) => Ok(None),
            Err(source) => Err(self.error("read the marker", path, source)),
        }
    }

    fn result(
        &self,
        what: &'static str,
        path: &MarkerPath,
        done: io::Result<MarkerOutcome>,
    ) -> Result<MarkerOutcome, MarkerError> {
        done.map_err(|source| self.error(what, path, source))
    }

    fn error(&self, what: &'static str, path: &MarkerPath, source: io::Error) -> MarkerError {
        let name = path.rsplit('/').next().unwrap_or(path);
        let source = match source.raw_os_error() {
            Some(code) if code == Errno::ENAMETOOLONG as i32 && name.len() > NAME_MAX => {
                io::Error::other(format!(
                    "the marker's name would have {} bytes, and a file system takes {NAME_MAX}: give the file a shorter name",
                    name.len()
                ))
            }
            _ => source,
        };
        MarkerError {
            what,
            path: self.path(path),
            source,
        }
    }
}

/// The lock of a marker, which ends with the process. A process that replaces a file hidden by the marker holds it
/// meanwhile.
fn lock(place: &ParentDirectory, how: FlockArg) -> io::Result<Option<Flock<File>>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(place.fd(), place.name(), flags, Mode::empty())?);
    match Flock::lock(file, how) {
        Ok(locked) => Ok(Some(locked)),
        Err((_, Errno::EWOULDBLOCK)) => Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            "another process of Windrow replaces the file that it hides",
        )),
        Err(_) => Ok(None),
    }
}

/// A link or a directory hides a file too, and is not ours.
fn look_at(place: &ParentDirectory, path: &MarkerPath) -> io::Result<There> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let stat = match fstatat(place.fd(), place.name(), AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::ENOENT) => return Ok(There::Nothing),
        Err(error) => return Err(error.into()),
    };
    // Opened only when it is a regular file: a FIFO or a device must not be touched.
    if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Ok(There::Foreign);
    }
    let file = match openat(place.fd(), place.name(), flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::ENOENT) => return Ok(There::Nothing),
        Err(Errno::ELOOP) => return Ok(There::Foreign),
        Err(error) => return Err(error.into()),
    };
    let mark = Mark::read(file, path, Timestamp::UNIX_EPOCH)?;
    Ok(mark.map_or(There::Foreign, There::Ours))
}

#[cfg(test)]
#[path = "markers_tests.rs"]
pub(super) mod tests;
