//! Watches the manifests directory with inotify.
//!
//! ```text
//!   inotify ──> FileEvent ──> the daemon: new files are marked at once, then it scans
//!   mounts ───────┘
//! ```
//!
//! The directory itself is watched with everything below it, and so is each directory on the `Route` to it: a link can
//! be changed and a directory renamed, removed and made again. A missing directory is seen when it comes. Events are
//! hints: only the next scan counts.

mod mounts;
mod route;

use std::collections::BTreeSet;
use std::io::{self, PipeWriter};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};
use std::sync::{Arc, Mutex};

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use windrow_model::manifest::{MARKER_SUFFIX, ManifestPath, is_manifest_name};

use self::route::Route;
use crate::fs;
use crate::locked::lock;

/// A hint that something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEvent {
    /// A manifest file is new or being written, and may be incomplete.
    Writing {
        path: ManifestPath,
    },
    /// A manifest file is whole: it was closed after writing, or renamed into place.
    Written {
        path: ManifestPath,
    },
    /// A directory is new. A file that is created in it before the watch reaches it causes no event.
    Directory,
    /// Something else changed: a marker, a removal. Or events were lost.
    Changed,
    Request,
}

impl FileEvent {
    pub fn file(&self) -> Option<&ManifestPath> {
        match self {
            Self::Writing { path } | Self::Written { path } => Some(path),
            Self::Directory | Self::Changed | Self::Request => None,
        }
    }
}

pub struct FileWatch {
    targets: Targets,
    watcher: RecommendedWatcher,
    watched: Vec<PathBuf>,
    aim: Arc<Mutex<Aim>>,
    _mounts: Option<PipeWriter>,
}

#[derive(Debug, Clone)]
struct Targets {
    manifests: PathBuf,
    spools: [PathBuf; 2],
}

#[derive(Debug, Default)]
struct Aim {
    routes: Routes,
    /// Something changed on a route since the watch was set. The kernel reuses inodes, so a comparison is not enough.
    is_stale: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Routes {
    manifests: Route,
    spools: [Route; 2],
}

impl Targets {
    fn routes(&self) -> io::Result<Routes> {
        let [first, second] = &self.spools;
        Ok(Routes {
            manifests: Route::find(&self.manifests)?,
            spools: [Route::find(first)?, Route::find(second)?],
        })
    }
}

impl Routes {
    fn all(&self) -> impl Iterator<Item = &Route> {
        std::iter::once(&self.manifests).chain(&self.spools)
    }
}

impl FileWatch {
    /// A watch that calls `hear`, on its own threads, for all events below `directory` after it is aimed, and for
    /// requests in `spools`. A slow `hear` may fill the system's queue of events.
    ///
    /// # Errors
    ///
    /// When the system has no inotify instance left.
    pub fn new(
        directory: PathBuf,
        spools: [PathBuf; 2],
        hear: impl FnMut(FileEvent) + Send + 'static,
    ) -> notify::Result<Self> {
        let [first, second] = spools.each_ref().map(absolute);
        let targets = Targets {
            manifests: absolute(directory).map_err(notify::Error::io)?,
            spools: [
                first.map_err(notify::Error::io)?,
                second.map_err(notify::Error::io)?,
            ],
        };
        let aim = Arc::new(Mutex::new(Aim::default()));
        let hear = Arc::new(Mutex::new(hear));
        let handler = {
            let (aim, hear) = (Arc::clone(&aim), Arc::clone(&hear));
            move |event: notify::Result<Event>| {
                let event = match event {
                    Ok(event) => meaning(&aim, &event),
                    // No watch is left for a new directory: the next look says so.
                    Err(_) => {
                        lock(&aim).is_stale = true;
                        Some(FileEvent::Changed)
                    }
                };
                if let Some(event) = event {
                    (lock(&hear))(event);
                }
            }
        };
        let config = notify::Config::default().with_follow_symlinks(false);
        let watcher = RecommendedWatcher::new(handler, config)?;
        // Without `/proc` a mount is seen at the next look.
        let mounts = mounts::watch({
            let (targets, aim) = (targets.clone(), Arc::clone(&aim));
            let mut known = mounts::in_directory(&targets.manifests);
            move || {
                if is_elsewhere(&targets, &aim, &mut known) {
                    (lock(&hear))(FileEvent::Changed);
                }
            }
        });
        Ok(Self {
            targets,
            watcher,
            watched: Vec::new(),
            aim,
            _mounts: mounts.ok(),
        })
    }

    /// Points the watch at the directory, or at its future place. Call it before every scan; it costs a few `lstat`
    /// while nothing changed. True when it points somewhere new.
    ///
    /// # Errors
    ///
    /// When not everything can be watched (`fs.inotify.max_user_watches`): the regular rescan goes on.
    pub fn aim(&mut self) -> notify::Result<bool> {
        let mut moved = false;
        // A directory may come or go while the watch is being set.
        for _ in 0..8 {
            let routes = self.targets.routes().map_err(notify::Error::io)?;
            {
                let mut aim = lock(&self.aim);
                if !aim.is_stale && aim.routes == routes {
                    return Ok(moved);
                }
                aim.routes = routes.clone();
                aim.is_stale = false;
            }
            moved = true;
            for path in self.watched.drain(..) {
                // A removed directory took its watch along.
                let _ = self.watcher.unwatch(&path);
            }
            if let Err(error) = self.watch(&routes) {
                lock(&self.aim).is_stale = true;
                if !matches!(error.kind, notify::ErrorKind::PathNotFound) {
                    return Err(error);
                }
            }
        }
        Ok(moved)
    }

    fn watch(&mut self, routes: &Routes) -> notify::Result<()> {
        let mut known = BTreeSet::new();
        if let Some(manifests) = routes.manifests.end() {
            known.insert(manifests);
            self.watched.push(manifests.to_owned());
            self.watcher.watch(manifests, RecursiveMode::Recursive)?;
        }
        let spools = routes.spools.iter().filter_map(Route::end);
        for spool in spools {
            if known.insert(spool) {
                self.watched.push(spool.to_owned());
                self.watcher.watch(spool, RecursiveMode::NonRecursive)?;
            }
        }
        for directory in routes.all().flat_map(Route::directories) {
            if !known.insert(directory) {
                continue;
            }
            match self.watcher.watch(directory, RecursiveMode::NonRecursive) {
                Ok(()) => self.watched.push(directory.to_owned()),
                // An unprivileged user may pass through directories that it may not list.
                Err(error) if is_denied(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_denied(error: &notify::Error) -> bool {
    matches!(&error.kind, notify::ErrorKind::Io(error) if error.kind() == io::ErrorKind::PermissionDenied)
}

/// Whether a mount changed the directories behind the paths, or something in the manifests directory. Then the watch
/// has to be set again.
fn is_elsewhere(targets: &Targets, aim: &Mutex<Aim>, known: &mut Vec<String>) -> bool {
    let Ok(routes) = targets.routes() else {
        return true;
    };
    let end = routes.manifests.end().unwrap_or(&targets.manifests);
    let within = mounts::in_directory(end);
    let mut aim = lock(aim);
    if aim.routes == routes && *known == within {
        return false;
    }
    *known = within;
    aim.is_stale = true;
    true
}

fn meaning(aim: &Mutex<Aim>, event: &Event) -> Option<FileEvent> {
    let path = event.paths.last();
    let manifests = {
        let mut aim = lock(aim);
        let on_route = |path: &Path| aim.routes.all().any(|route| route.leads_over(path));
        // Directories whose events were lost have no watch.
        if event.need_rescan()
            || (comes_or_goes(event.kind) && path.is_some_and(|path| on_route(path)))
        {
            aim.is_stale = true;
            return Some(FileEvent::Changed);
        }
        let place = path?.parent();
        if place.is_some() && aim.routes.spools.iter().any(|spool| spool.end() == place) {
            return request(event);
        }
        aim.routes.manifests.end()?.to_owned()
    };
    interpret(&manifests, event)
}

fn comes_or_goes(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
    )
}

/// The meaning of an inotify event. Reading is not a change, and neither are our own temporary files.
fn interpret(directory: &Path, event: &Event) -> Option<FileEvent> {
    if let EventKind::Access(access) = event.kind
        && access != AccessKind::Close(AccessMode::Write)
    {
        return None;
    }
    let path = event.paths.last()?;
    // Events elsewhere are not of interest.
    let below = path.strip_prefix(directory).ok()?;
    let Some(name) = below.file_name() else {
        // The directory's own attributes.
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
    use std::os::unix::fs::symlink;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use notify::event::MetadataKind;

    use super::*;

    fn interpreted(kind: EventKind, path: &str) -> Option<FileEvent> {
        let event = Event::new(kind).add_path(PathBuf::from(path));
        interpret(Path::new("/data/server/manifests"), &event)
    }

    #[test]
    fn reading_windrows_own_temporary_files_and_what_is_no_manifest_are_no_news() {
        let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
        let read = EventKind::Access(AccessKind::Close(AccessMode::Read));
        for kind in [opened, read] {
            assert_eq!(interpreted(kind, "/data/server/manifests/a.yaml"), None);
        }
        let created = EventKind::Create(CreateKind::File);
        let own = "/data/server/manifests/.windrow-x.tmp";
        assert_eq!(interpreted(created, own), None);
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        for kind in [created, closed] {
            assert_eq!(interpreted(kind, "/data/server/manifests/README.md"), None);
        }
        let touched = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
        assert_eq!(
            interpreted(touched, "/data/server/manifests/a.yaml.skip"),
            None
        );
    }

    #[test]
    fn a_file_is_whole_once_it_is_closed_or_renamed_into_place() {
        let path = ManifestPath::from("sub/a.yaml");
        let full = "/data/server/manifests/sub/a.yaml";
        let written = Some(FileEvent::Written { path: path.clone() });
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        assert_eq!(interpreted(closed, full), written);
        let renamed = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        assert_eq!(interpreted(renamed, full), written);
        let modified = EventKind::Modify(ModifyKind::Data(notify::event::DataChange::Any));
        assert_eq!(
            interpreted(modified, full),
            Some(FileEvent::Writing { path })
        );
    }

    struct Watched {
        place: tempfile::TempDir,
        watch: FileWatch,
        events: Receiver<FileEvent>,
    }

    impl Watched {
        fn after(prepare: impl FnOnce(&Path)) -> Self {
            let place = tempfile::tempdir().unwrap();
            prepare(place.path());
            let (hear, events) = channel();
            let spools = ["a", "b"].map(|name| place.path().join(name));
            let hear = move |event| {
                let _ = hear.send(event);
            };
            let mut watch = FileWatch::new(place.path().join("manifests"), spools, hear).unwrap();
            watch.aim().unwrap();
            Self {
                place,
                watch,
                events,
            }
        }

        fn path(&self, below: &str) -> PathBuf {
            self.place.path().join(below)
        }

        /// Waits for an event about a new file in `directory`, and aims after each event as the daemon does. After a
        /// watch is set again, a scan would see the file: then there has to be an event about a second file.
        fn hears_of_a_file_in(&mut self, directory: &str, expected: impl Fn(&str) -> FileEvent) {
            'file: for number in 0.. {
                let name = format!("{number}.yaml");
                fs::write(self.path(directory).join(&name), "").unwrap();
                loop {
                    let event = self.events.recv_timeout(Duration::from_secs(60)).unwrap();
                    if event == expected(&name) {
                        return;
                    }
                    if self.watch.aim().unwrap() {
                        continue 'file;
                    }
                }
            }
        }

        fn hears_of_a_manifest(&mut self) {
            self.hears_of_a_file_in("manifests", |name| FileEvent::Written { path: name.into() });
        }
    }

    #[test]
    fn a_request_is_heard_of_in_a_spool_that_comes_late_or_is_made_again() {
        let mut watched = Watched::after(|place| fs::create_dir(place.join("a")).unwrap());
        fs::create_dir(watched.path("b")).unwrap();
        fs::remove_dir_all(watched.path("a")).unwrap();
        fs::create_dir(watched.path("a")).unwrap();
        for spool in ["a", "b"] {
            watched.hears_of_a_file_in(spool, |_| FileEvent::Request);
        }
    }

    #[test]
    fn a_file_below_a_spool_is_not_a_request() {
        let watched = Watched::after(|place| fs::create_dir_all(place.join("a/below")).unwrap());
        fs::write(watched.path("a/below/1.json"), "").unwrap();
        fs::create_dir(watched.path("manifests")).unwrap();
        assert_eq!(watched.events.recv(), Ok(FileEvent::Changed));
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
        while aim() {}
    }

    #[test]
    fn a_file_in_a_linked_directory_is_heard_of_also_after_the_link_was_changed() {
        let mut watched = Watched::after(|place| {
            for real in ["one", "two"] {
                fs::create_dir(place.join(real)).unwrap();
            }
            symlink("one", place.join("link")).unwrap();
            symlink("link", place.join("manifests")).unwrap();
        });
        watched.hears_of_a_manifest();
        symlink("two", watched.path("new")).unwrap();
        fs::rename(watched.path("new"), watched.path("link")).unwrap();
        watched.hears_of_a_manifest();
    }

    #[test]
    fn a_file_is_heard_of_in_a_directory_that_was_removed_and_made_again() {
        let mut watched = Watched::after(|place| fs::create_dir(place.join("manifests")).unwrap());
        for _ in 0..10 {
            fs::remove_dir_all(watched.path("manifests")).unwrap();
            fs::create_dir(watched.path("manifests")).unwrap();
            watched.hears_of_a_manifest();
        }
    }

    #[test]
    fn a_file_is_heard_of_below_a_directory_that_was_replaced_by_rename() {
        let mut watched = Watched::after(|place| {
            for directory in ["server/manifests", "new/manifests"] {
                fs::create_dir_all(place.join(directory)).unwrap();
            }
            symlink("server/manifests", place.join("manifests")).unwrap();
        });
        fs::rename(watched.path("server"), watched.path("old")).unwrap();
        fs::rename(watched.path("new"), watched.path("server")).unwrap();
        watched.hears_of_a_manifest();
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
