//! `.skip` markers: created whole or not at all, removed only while they are ours.
//!
//! RKE2 looks at a marker's name alone (k3s `pkg/deploy/controller.go`), Windrow at its content. A marker that does not
//! say `"by": "windrow"` is foreign (Harvester makes them during upgrades) and stays as it is. The check and the
//! removal are two steps: if our marker is replaced within the microseconds between them, the new one is lost.

use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstatat};
use thiserror::Error;
use windrow_decide::Mark;
use windrow_model::manifest::MarkerPath;

use super::directory::ParentDirectory;
use super::marker_files::{MarkerChange, NewMarker, make, sync_directories};

/// Longest name in any file system that a node runs on, in bytes.
const NAME_MAX: usize = 255;
/// Most markers that are changed together: each has two files open meanwhile.
const MOST_TOGETHER: usize = 64;
const CREATE: &str = "create the marker";
const REMOVE: &str = "remove the marker";

/// The markers of one manifests directory.
#[derive(Debug, Clone)]
pub struct Markers {
    directory: PathBuf,
}

/// The result of a change of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkerOutcome {
    /// Created, replaced or removed, as asked.
    Changed,
    /// It was already so.
    Unchanged,
    /// The file's directory is missing, so there is nothing to hold.
    NoDirectory,
    /// There is a foreign marker, which is left alone.
    Foreign,
}

/// A marker that could not be created or removed.
#[derive(Debug, Error)]
#[error("{what} {}: {source}", path.display())]
pub struct MarkerError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl MarkerError {
    /// Why, without the action and the path.
    pub(super) fn why(&self) -> String {
        self.source.to_string()
    }
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

    /// The marker's path.
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

    /// The same, but a marker that is there stays as it is, whatever it says.
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
        let mut results = Vec::with_capacity(paths.len());
        for paths in paths.chunks(MOST_TOGETHER) {
            let changes = paths.iter().map(|path| self.unlink(path)).collect();
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
            // Where another process was quicker, the marker that is there may be ours all the same.
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

    /// Writes the marker under a temporary name, if there is something to be made.
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

    /// Takes the marker's name away if it is ours.
    fn unlink(&self, path: &MarkerPath) -> io::Result<MarkerChange> {
        let Some(directory) = ParentDirectory::find(&self.directory, path)? else {
            return Ok(MarkerOutcome::NoDirectory.into());
        };
        match look_at(&directory, path)? {
            There::Foreign => Ok(MarkerOutcome::Foreign.into()),
            There::Nothing => Ok(MarkerOutcome::Unchanged.into()),
            There::Ours(_) => MarkerChange::remove(directory),
        }
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

/// What lies at a marker's place. A link or a directory hides a file too, and is not ours.
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
        Ok(fd) => std::fs::File::from(fd),
        Err(Errno::ENOENT) => return Ok(There::Nothing),
        Err(Errno::ELOOP) => return Ok(There::Foreign),
        Err(error) => return Err(error.into()),
    };
    let mark = Mark::read(file, path, Timestamp::UNIX_EPOCH)?;
    Ok(mark.map_or(There::Foreign, There::Ours))
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use windrow_decide::OnFailure;
    use windrow_model::reasons::Code;

    use super::*;

    fn marker(path: &str) -> MarkerPath {
        MarkerPath::parse(path).unwrap()
    }

    pub(in super::super) fn mark(file: &str) -> Mark {
        Mark {
            by: Mark::BY.to_owned(),
            file: file.into(),
            code: Code::WaitsForKind,
            why: "the kind Widget.example.com is not served by the API yet".into(),
            since: Timestamp::UNIX_EPOCH,
            on_failure: OnFailure::Lift,
            digest: "0".repeat(64).into(),
            release: format!("windrow release {file}"),
        }
    }

    #[test]
    fn a_marker_is_created_whole_and_removed_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let markers = Markers::new(directory.path());
        let path = &marker("a.yaml.skip");
        let mut mark = mark("a.yaml");
        assert_eq!(markers.create(path, &mark).unwrap(), MarkerOutcome::Changed);
        assert_eq!(
            markers.create(path, &mark).unwrap(),
            MarkerOutcome::Unchanged
        );
        mark.code = Code::WaitsForNamespace;
        assert_eq!(markers.create(path, &mark).unwrap(), MarkerOutcome::Changed);
        assert_eq!(markers.read(path).unwrap(), Some(mark));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(markers.remove(path).unwrap(), MarkerOutcome::Changed);
        assert_eq!(markers.remove(path).unwrap(), MarkerOutcome::Unchanged);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn markers_that_are_changed_together_have_each_its_own_result() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        fs::write(directory.path().join("theirs.yaml.skip"), "").unwrap();
        let markers = Markers::new(directory.path());
        let many = (0..MOST_TOGETHER).map(|number| format!("{number}.yaml"));
        let others = [
            "a.yaml",
            "theirs.yaml",
            "no/where.yaml",
            &"a".repeat(251),
            "sub/a.yaml",
        ];
        let names: Vec<String> = others.map(str::to_owned).into_iter().chain(many).collect();
        let paths: Vec<MarkerPath> = names
            .iter()
            .map(|name| marker(&format!("{name}.skip")))
            .collect();
        let marks: Vec<Mark> = names.iter().map(|name| mark(name)).collect();
        let expected = |outcome: MarkerOutcome| {
            let mut all = vec![Some(outcome); names.len()];
            all[1] = Some(MarkerOutcome::Foreign);
            all[2] = Some(MarkerOutcome::NoDirectory);
            all[3] = None;
            all
        };
        let outcomes = |results: Vec<Result<MarkerOutcome, MarkerError>>| {
            let results = results.into_iter();
            results.map(Result::ok).collect::<Vec<_>>()
        };
        let marks: Vec<_> = paths.iter().zip(&marks).collect();
        let created = markers.create_all(&marks);
        assert!(created[3].as_ref().is_err_and(|error| {
            let said = error.to_string();
            said.contains(paths[3].as_str()) && said.contains("shorter")
        }));
        assert_eq!(outcomes(created), expected(MarkerOutcome::Changed));
        for (path, mark) in [&marks[0], &marks[4], &marks[names.len() - 1]] {
            assert_eq!(markers.read(path).unwrap().as_ref(), Some(*mark));
        }
        assert_eq!(
            outcomes(markers.create_all(&marks)),
            expected(MarkerOutcome::Unchanged)
        );
        let paths: Vec<&MarkerPath> = paths.iter().collect();
        assert_eq!(
            outcomes(markers.remove_all(&paths)),
            expected(MarkerOutcome::Changed)
        );
        let left = fs::read_dir(directory.path()).unwrap();
        let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["sub", "theirs.yaml.skip"]);
    }

    #[test]
    fn a_marker_that_is_there_is_kept_where_only_missing_ones_are_made() {
        let directory = tempfile::tempdir().unwrap();
        let markers = Markers::new(directory.path());
        let (held, new) = (marker("held.yaml.skip"), marker("new.yaml.skip"));
        markers.create(&held, &mark("held.yaml")).unwrap();
        let mut other = mark("held.yaml");
        other.code = Code::Provisional;
        let results = markers.create_missing(&[(&held, &other), (&new, &mark("new.yaml"))]);
        let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
        assert_eq!(results, [MarkerOutcome::Unchanged, MarkerOutcome::Changed]);
        assert_eq!(markers.read(&held).unwrap(), Some(mark("held.yaml")));
    }

    #[test]
    fn a_marker_that_another_process_makes_at_the_same_time_is_not_called_somebody_elses() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..200 {
            let path = marker(&format!("{round}.yaml.skip"));
            let start = std::sync::Barrier::new(2);
            // The daemon's first marker, and a person's.
            let outcomes: Vec<MarkerOutcome> = std::thread::scope(|scope| {
                let make = |code| {
                    let (markers, path, start) = (Markers::new(directory.path()), &path, &start);
                    scope.spawn(move || {
                        let mut mark = mark("a.yaml");
                        mark.code = code;
                        start.wait();
                        markers.create(path, &mark).unwrap()
                    })
                };
                let both = [make(Code::Provisional), make(Code::HeldByHand)];
                both.map(|one| one.join().unwrap()).into()
            });
            assert!(!outcomes.contains(&MarkerOutcome::Foreign), "{round}");
        }
        let left = fs::read_dir(directory.path()).unwrap();
        let left = left.map(|entry| entry.unwrap().file_name());
        let names: Vec<_> = left
            .filter(|name| name.to_string_lossy().starts_with('.'))
            .collect();
        assert!(names.is_empty(), "{names:?}");
    }

    #[test]
    fn what_somebody_else_made_is_neither_replaced_nor_removed() {
        let directory = tempfile::tempdir().unwrap();
        let markers = Markers::new(directory.path());
        let at = |name: &str| directory.path().join(name);
        fs::write(at("empty.yaml.skip"), "").unwrap();
        fs::write(at("text.yaml.skip"), "{\"by\": \"harvester\"}").unwrap();
        fs::create_dir(at("directory.yaml.skip")).unwrap();
        symlink("/dev/null", at("link.yaml.skip")).unwrap();
        symlink("nowhere", at("dangling.yaml.skip")).unwrap();
        nix::unistd::mkfifo(&at("fifo.yaml.skip"), Mode::S_IRUSR).unwrap();
        for name in ["empty", "text", "directory", "link", "dangling", "fifo"] {
            let path = marker(&format!("{name}.yaml.skip"));
            let before = fs::symlink_metadata(at(path.as_str())).unwrap().file_type();
            let created = markers.create(&path, &mark(name)).unwrap();
            assert_eq!(created, MarkerOutcome::Foreign, "{name}");
            assert_eq!(
                markers.remove(&path).unwrap(),
                MarkerOutcome::Foreign,
                "{name}"
            );
            let after = fs::symlink_metadata(at(path.as_str())).unwrap().file_type();
            assert_eq!(after, before, "{name}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 6);
    }

    #[test]
    fn a_marker_of_any_size_is_replaced_and_removed_as_ours() {
        let directory = tempfile::tempdir().unwrap();
        let markers = Markers::new(directory.path());
        let mut huge = mark("a.yaml");
        huge.why = "x".repeat(1 << 20).into();
        for act in ["replace", "remove"] {
            fs::write(directory.path().join("a.yaml.skip"), huge.to_json()).unwrap();
            let outcome = match act {
                "replace" => markers.create(&marker("a.yaml.skip"), &mark("a.yaml")),
                _ => markers.remove(&marker("a.yaml.skip")),
            };
            assert_eq!(outcome.unwrap(), MarkerOutcome::Changed, "{act}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_name_that_leaves_no_room_for_the_markers_is_said_to_be_too_long() {
        let directory = tempfile::tempdir().unwrap();
        let markers = Markers::new(directory.path());
        let named = |length: usize| marker(&("a".repeat(length) + ".skip"));
        let longest = named(250);
        let made = markers.create(&longest, &mark("a")).unwrap();
        assert_eq!(made, MarkerOutcome::Changed);
        assert_eq!(markers.remove(&longest).unwrap(), MarkerOutcome::Changed);
        let error = markers.create(&named(251), &mark("a")).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("256 bytes") && said.contains("shorter"),
            "{said}"
        );
    }

    #[test]
    fn a_directory_of_a_name_that_is_too_long_is_no_fault_of_the_markers_name() {
        let directory = tempfile::tempdir().unwrap();
        let markers = Markers::new(directory.path());
        let path = format!("{}/a.yaml.skip", "d".repeat(300));
        let error = markers
            .create(&marker(&path), &mark("a"))
            .unwrap_err()
            .to_string();
        assert!(!error.contains("shorter"), "{error}");
        assert!(error.contains("a.yaml.skip"), "{error}");
    }

    #[test]
    fn a_file_where_a_directory_was_has_its_marker_in_the_manifests_directory() {
        let directory = tempfile::tempdir().unwrap();
        let markers = Markers::new(directory.path());
        fs::write(directory.path().join("sub"), "").unwrap();
        let created = markers
            .create(&marker("sub/a.yaml.skip"), &mark("a"))
            .unwrap();
        assert_eq!(created, MarkerOutcome::Changed);
        assert!(directory.path().join("a.yaml.skip").exists());
    }

    #[test]
    fn no_link_on_the_way_leads_a_marker_out_of_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let markers = Markers::new(directory.path());
        symlink(outside.path(), directory.path().join("sub")).unwrap();
        // It hides `sub/a.yaml` from where it is.
        let created = markers
            .create(&marker("sub/a.yaml.skip"), &mark("a"))
            .unwrap();
        assert_eq!(created, MarkerOutcome::Changed);
        assert!(directory.path().join("a.yaml.skip").exists());
        let removed = markers.remove(&marker("sub/a.yaml.skip")).unwrap();
        assert_eq!(removed, MarkerOutcome::Changed);
        for path in [
            "../a.yaml.skip",
            "/etc/a.yaml.skip",
            "a/../../b.skip",
            "a//b.skip",
        ] {
            let created = markers.create(&marker(path), &mark("a"));
            let error = created.unwrap_err().to_string();
            assert!(error.contains("plain path"), "{path}: {error}");
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_gone_has_nothing_to_hold() {
        let directory = tempfile::tempdir().unwrap();
        let markers = Markers::new(directory.path().join("server/manifests"));
        for path in ["a.yaml.skip", "sub/a.yaml.skip"].map(marker) {
            let outcome = markers.create(&path, &mark("a")).unwrap();
            assert_eq!(outcome, MarkerOutcome::NoDirectory);
            assert_eq!(markers.remove(&path).unwrap(), MarkerOutcome::NoDirectory);
        }
    }
}
