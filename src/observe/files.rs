//! Watches the manifests directory with inotify.
//!
//! ```text
//!   inotify ──> FileEvent ──> the daemon: new files are marked at once, then it scans
//! ```
//!
//! While the directory does not exist its nearest existing ancestor is watched. Events are hints:
//! what counts is the scan that follows. There is no event when a directory is mounted over, so
//! [`FileWatch::aim`] compares what is watched with what the path means now, before every scan.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use windrow_model::manifest::{MARKER_SUFFIX, ManifestPath, is_manifest_name};

use crate::files::is_missing;

/// A hint that something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEvent {
    /// A manifest file is new or being written, and may be incomplete.
    Writing {
        /// Its path.
        path: ManifestPath,
    },
    /// A manifest file is whole: it was closed after writing, or renamed into place.
    Written {
        /// Its path.
        path: ManifestPath,
    },
    /// A directory is new. What is created in it before the watch reaches it raises no event.
    Directory,
    /// Something else changed: a marker, a removal. Or events were lost.
    Changed,
    /// A request was written to the spool.
    Request,
}

impl FileEvent {
    /// The manifest file that is new or was written.
    pub fn file(&self) -> Option<&ManifestPath> {
        match self {
            Self::Writing { path } | Self::Written { path } => Some(path),
            Self::Directory | Self::Changed | Self::Request => None,
        }
    }
}

/// The watch on one directory.
pub struct FileWatch {
    directory: PathBuf,
    spools: [PathBuf; 2],
    spools_watched: [bool; 2],
    watcher: RecommendedWatcher,
    aimed: Option<Aim>,
}

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Aim {
    path: PathBuf,
    /// Device and inode: they change when a directory is replaced or mounted over.
    id: (u64, u64),
}

impl FileWatch {
    /// A watch that calls `hear`, on its own thread, about everything below `directory`, once it is aimed, and about
    /// requests in `spools`. What `hear` takes long for may fill the system's queue of events.
    ///
    /// # Errors
    ///
    /// When the system has no inotify instance left.
    pub fn new(
        directory: PathBuf,
        spools: [PathBuf; 2],
        mut hear: impl FnMut(FileEvent) + Send + 'static,
    ) -> notify::Result<Self> {
        let below = directory.clone();
        let requests = spools.clone();
        let handler = move |event: notify::Result<Event>| {
            let event = match event {
                Ok(event) if in_spools(&requests, &event) => request(&event),
                Ok(event) => interpret(&below, &event),
                // Overflow and exhausted watches: the next scan sees what the events would have said.
                Err(_) => Some(FileEvent::Changed),
            };
            if let Some(event) = event {
                hear(event);
            }
        };
        let config = notify::Config::default().with_follow_symlinks(false);
        Ok(Self {
            watcher: RecommendedWatcher::new(handler, config)?,
            directory,
            spools,
            spools_watched: [false; 2],
            aimed: None,
        })
    }

    /// Points the watch at the directory, or at its nearest existing ancestor. To be called before every scan; it costs
    /// one `stat` while nothing changed. True when it points somewhere new.
    ///
    /// # Errors
    ///
    /// When nothing can be watched (`fs.inotify.max_user_watches`): the regular rescan goes on.
    pub fn aim(&mut self) -> notify::Result<bool> {
        let aimed = self.aim_at_manifests();
        for (spool, watched) in self.spools.iter().zip(&mut self.spools_watched) {
            if !*watched && spool.is_dir() {
                self.watcher.watch(spool, RecursiveMode::NonRecursive)?;
                *watched = true;
            }
        }
        aimed
    }

    fn aim_at_manifests(&mut self) -> notify::Result<bool> {
        // The directory may appear while the watch on its ancestor is being set.
        for _ in 0..8 {
            let target = nearest(&self.directory).map_err(notify::Error::io)?;
            if self.aimed.as_ref() == Some(&target) {
                return Ok(false);
            }
            self.release();
            let mode = if target.path == self.directory {
                RecursiveMode::Recursive
            } else {
                RecursiveMode::NonRecursive
            };
            match self.watcher.watch(&target.path, mode) {
                Ok(()) => self.aimed = Some(target.clone()),
                Err(error) if matches!(error.kind, notify::ErrorKind::PathNotFound) => continue,
                Err(error) => return Err(error),
            }
            if nearest(&self.directory).is_ok_and(|now| now == target) {
                return Ok(true);
            }
        }
        Ok(true)
    }

    fn release(&mut self) {
        if let Some(aim) = self.aimed.take() {
            // A removed directory took its watch along.
            let _ = self.watcher.unwatch(&aim.path);
        }
    }
}

fn nearest(directory: &Path) -> io::Result<Aim> {
    let mut path = directory;
    loop {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Ok(Aim {
                    path: path.to_owned(),
                    id: (found.dev(), found.ino()),
                });
            }
            Ok(_) => {}
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error),
        }
        path = path.parent().ok_or_else(|| {
            io::Error::other(format!("no directory above {}", directory.display()))
        })?;
    }
}

/// What an inotify event means. Reading is no change, and neither are our own temporary files.
fn interpret(directory: &Path, event: &Event) -> Option<FileEvent> {
    if event.need_rescan() {
        return Some(FileEvent::Changed);
    }
    if let EventKind::Access(access) = event.kind
        && access != AccessKind::Close(AccessMode::Write)
    {
        return None;
    }
    let path = event.paths.last()?;
    let Ok(below) = path.strip_prefix(directory) else {
        // An ancestor: the directory may have come or gone.
        return Some(FileEvent::Changed);
    };
    let Some(name) = below.file_name() else {
        // The directory itself came, went or was replaced.
        return Some(FileEvent::Changed);
    };
    let name = name.to_str();
    let Some((name, below)) = name.zip(below.to_str()) else {
        return Some(FileEvent::Changed);
    };
    if name.starts_with(".windrow-") {
        return None;
    }
    if name.ends_with(MARKER_SUFFIX) {
        // Closing it adds nothing to creating it.
        let touched = matches!(
            event.kind,
            EventKind::Modify(ModifyKind::Metadata(_)) | EventKind::Access(_)
        );
        return (!touched).then_some(FileEvent::Changed);
    }
    let path = ManifestPath::from(below);
    match event.kind {
        EventKind::Create(CreateKind::Folder) => Some(FileEvent::Directory),
        EventKind::Modify(ModifyKind::Name(RenameMode::To))
            if path_is_directory(directory, below) =>
        {
            Some(FileEvent::Directory)
        }
        _ if !is_manifest_name(name) => None,
        EventKind::Create(_) if is_open_for_writing(directory, below) => {
            Some(FileEvent::Writing { path })
        }
        EventKind::Modify(ModifyKind::Data(_)) => Some(FileEvent::Writing { path }),
        EventKind::Create(_)
        | EventKind::Access(_)
        | EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)) => {
            Some(FileEvent::Written { path })
        }
        _ => Some(FileEvent::Changed),
    }
}

fn path_is_directory(directory: &Path, path: &str) -> bool {
    fs::symlink_metadata(directory.join(path)).is_ok_and(|found| found.is_dir())
}

fn in_spools(spools: &[PathBuf], event: &Event) -> bool {
    let place = event.paths.last().and_then(|path| path.parent());
    place.is_some_and(|place| spools.iter().any(|spool| spool == place))
}

fn request(event: &Event) -> Option<FileEvent> {
    let whole = matches!(
        event.kind,
        EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(RenameMode::To))
            | EventKind::Create(_)
    );
    whole.then_some(FileEvent::Request)
}

/// A regular file with one name that was just created is still being written. A link, a FIFO or a second name of a
/// complete file is not.
fn is_open_for_writing(directory: &Path, path: &str) -> bool {
    fs::symlink_metadata(directory.join(path))
        .is_ok_and(|found| found.is_file() && found.nlink() == 1)
}

#[cfg(test)]
mod tests {
    use notify::event::{MetadataKind, RemoveKind};

    use super::*;

    fn meaning(kind: EventKind, path: &str) -> Option<FileEvent> {
        let event = Event::new(kind).add_path(PathBuf::from(path));
        interpret(Path::new("/data/server/manifests"), &event)
    }

    #[test]
    fn the_directory_itself_and_what_is_above_it_are_worth_a_look() {
        let created = EventKind::Create(CreateKind::Folder);
        for path in ["/data/server/manifests", "/data/server", "/data/other"] {
            assert_eq!(meaning(created, path), Some(FileEvent::Changed), "{path}");
        }
        let removed = EventKind::Remove(RemoveKind::Folder);
        assert_eq!(
            meaning(removed, "/data/server/manifests"),
            Some(FileEvent::Changed)
        );
    }

    #[test]
    fn reading_windrows_own_temporary_files_and_what_is_no_manifest_are_no_news() {
        let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
        let read = EventKind::Access(AccessKind::Close(AccessMode::Read));
        for kind in [opened, read] {
            assert_eq!(meaning(kind, "/data/server/manifests/a.yaml"), None);
        }
        let created = EventKind::Create(CreateKind::File);
        let own = "/data/server/manifests/.windrow-x.tmp";
        assert_eq!(meaning(created, own), None);
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        for kind in [created, closed] {
            assert_eq!(meaning(kind, "/data/server/manifests/README.md"), None);
        }
        let touched = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
        assert_eq!(meaning(touched, "/data/server/manifests/a.yaml.skip"), None);
    }

    #[test]
    fn a_file_is_whole_once_it_is_closed_or_renamed_into_place() {
        let path = ManifestPath::from("sub/a.yaml");
        let full = "/data/server/manifests/sub/a.yaml";
        let written = Some(FileEvent::Written { path: path.clone() });
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        assert_eq!(meaning(closed, full), written);
        let renamed = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        assert_eq!(meaning(renamed, full), written);
        let modified = EventKind::Modify(ModifyKind::Data(notify::event::DataChange::Any));
        assert_eq!(meaning(modified, full), Some(FileEvent::Writing { path }));
    }

    #[test]
    fn what_is_written_to_a_spool_is_a_request_and_nothing_beside_or_below_it_is() {
        let spools = ["/run/windrow/requests", "/var/lib/windrow/requests"].map(PathBuf::from);
        let is_in = |path: &str| in_spools(&spools, &Event::default().add_path(path.into()));
        assert!(is_in("/run/windrow/requests/1.json"));
        assert!(is_in("/var/lib/windrow/requests/1.json"));
        for elsewhere in [
            "/data/server/manifests/a.yaml",
            "/run/windrow/requests",
            "/run/windrow/requests/1/2.json",
        ] {
            assert!(!is_in(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn the_watch_points_somewhere_new_once_and_again_when_the_directory_appears() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("server/manifests");
        let spools = ["a", "b"].map(|name| root.path().join(name));
        let mut watch = FileWatch::new(directory.clone(), spools, |_| {}).unwrap();
        let mut aim = || watch.aim().unwrap();
        assert!(aim() && !aim());
        fs::create_dir_all(&directory).unwrap();
        assert!(aim() && !aim());
    }

    #[test]
    fn a_directory_that_is_moved_in_is_looked_into() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("charts")).unwrap();
        fs::write(directory.path().join("a.yaml"), "").unwrap();
        let moved_in = |name: &str| {
            let event = Event::new(EventKind::Modify(ModifyKind::Name(RenameMode::To)));
            interpret(
                directory.path(),
                &event.add_path(directory.path().join(name)),
            )
        };
        assert_eq!(moved_in("charts"), Some(FileEvent::Directory));
        let path = ManifestPath::from("a.yaml");
        assert_eq!(moved_in("a.yaml"), Some(FileEvent::Written { path }));
    }
}
