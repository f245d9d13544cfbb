//! Waiting for the status document to change, or for its writer to end.
//!
//! The kernel reports both, so a waiting reader is woken neither by the clock nor by other readers, who change nothing
//! by opening the file.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use windrow_decide::StatusWriter;

use super::document::FoundStatus;
use crate::fs;
use crate::observe::process;

/// How often to look for the process if the kernel does not report its end (before Linux 5.3).
const LOOK_AGAIN: Duration = Duration::from_secs(2);

pub(super) struct Follow {
    file: PathBuf,
    inotify: Inotify,
    watched: Option<(PathBuf, WatchDescriptor)>,
    life: Life,
}

enum Life {
    NoWriter,
    Told(OwnedFd),
    /// By checking now and then.
    Asked,
    /// It ended between the check and the wait.
    Over,
}

impl Follow {
    /// Follows `file`; it and its directory need not exist yet.
    ///
    /// # Errors
    /// When the kernel gives no inotify instance, or no watch on any directory above the file.
    pub(super) fn file(file: &Path) -> anyhow::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
            .context("the kernel gives no inotify instance (fs.inotify.max_user_instances)")?;
        let mut follow = Self {
            file: file.to_owned(),
            inotify,
            watched: None,
            life: Life::NoWriter,
        };
        follow.watch();
        if follow.watched.is_none() {
            anyhow::bail!("{} cannot be watched for changes", file.display());
        }
        Ok(follow)
    }

    /// From now on, the end of the document's writer counts as a change.
    pub(super) fn writer_of(&mut self, found: &FoundStatus) {
        self.life = match found {
            FoundStatus::Current(status) => status.writer.as_ref().map_or(Life::NoWriter, life_of),
            FoundStatus::Stale { .. } => Life::NoWriter,
        };
    }

    /// Returns when it may be worth looking again; false when `until` has passed.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> bool {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let patience = match (left, self.patience()) {
                (Some(left), Some(patience)) => Some(left.min(patience)),
                (left, patience) => left.or(patience),
            };
            let mut fds: Vec<PollFd<'_>> = self
                .fds()
                .into_iter()
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
                .collect();
            // Interrupted by a signal: the same as no event.
            let _ = poll(&mut fds, timeout(patience));
            if self.noticed() {
                return true;
            }
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            // It was time to check the writer, not the end of the wait.
            if matches!(self.life, Life::Asked) && left != patience {
                return true;
            }
        }
    }

    /// The files that become readable when something may have changed; [`Follow::noticed`] decides.
    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let mut fds = vec![self.inotify.as_fd()];
        if let Life::Told(fd) = &self.life {
            fds.push(fd.as_fd());
        }
        fds
    }

    pub(super) fn patience(&self) -> Option<Duration> {
        match self.life {
            Life::NoWriter | Life::Told(_) => None,
            Life::Asked => Some(LOOK_AGAIN),
            Life::Over => Some(Duration::ZERO),
        }
    }

    /// Reads the kernel's events without blocking. True if it is worth looking again.
    pub(super) fn noticed(&mut self) -> bool {
        let ended = match &self.life {
            Life::Over => true,
            Life::Told(fd) => {
                let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
                poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
            }
            Life::NoWriter | Life::Asked => false,
        };
        if ended {
            self.life = Life::NoWriter;
        }
        // The watched directory may be gone, or a missing one may have come.
        let changed = self.drain();
        if changed {
            self.watch();
        }
        changed || ended
    }

    /// Reads all events. True if one of them was about the file or a directory above it.
    fn drain(&mut self) -> bool {
        let mut changed = false;
        // It does not block: an error means that there are no more.
        while let Ok(events) = self.inotify.read_events() {
            changed |= events.iter().any(|event| {
                let named = event.name.as_deref();
                named.is_none_or(|name| self.awaited() == Some(Path::new(name)))
            });
        }
        changed
    }

    fn awaited(&self) -> Option<&Path> {
        let (directory, _) = self.watched.as_ref()?;
        let rest = self.file.strip_prefix(directory).ok()?;
        rest.iter().next().map(Path::new)
    }

    /// Watches the file's directory, or the nearest one above it that exists.
    fn watch(&mut self) {
        let flags = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        let before = self.watched.take();
        for directory in self.file.ancestors().skip(1) {
            let directory = match directory.as_os_str().is_empty() {
                true => Path::new("."),
                false => directory,
            };
            let add =
                |resolved: fs::Resolved<'_>| self.inotify.add_watch(resolved.as_ref(), flags).ok();
            if let Some(watch) = fs::resolve(directory).ok().and_then(add) {
                self.watched = Some((directory.to_owned(), watch));
                break;
            }
        }
        if let Some((_, old)) = before
            && self.watched.as_ref().is_none_or(|(_, new)| *new != old)
        {
            // It may have ended with its directory.
            let _ = self.inotify.rm_watch(old);
            // A directory made before the new watch was in place raised no event: go down further.
            let missed = self.watched.as_ref().zip(self.awaited());
            if missed.is_some_and(|((directory, _), next)| {
                directory.join(next) != self.file && fs::is_dir(directory.join(next))
            }) {
                self.watch();
            }
        }
    }
}

fn life_of(writer: &StatusWriter) -> Life {
    let fd = i32::try_from(writer.pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
    match fd {
        Err(rustix::io::Errno::SRCH) => Life::Over,
        Err(_) => Life::Asked,
        // The number may belong to another process by now.
        Ok(fd) => match process::alive(writer) {
            Ok(()) => Life::Told(fd),
            Err(_) => Life::Over,
        },
    }
}

/// For `poll`: rounded up, so that a wait does not end a moment too early.
pub(super) fn timeout(patience: Option<Duration>) -> PollTimeout {
    let Some(patience) = patience else {
        return PollTimeout::NONE;
    };
    let milliseconds = patience.as_nanos().div_ceil(1_000_000);
    // Longer than the kernel can wait at once: the wait is repeated.
    i32::try_from(milliseconds)
        .ok()
        .and_then(|milliseconds| PollTimeout::try_from(milliseconds).ok())
        .unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(30))
    }

    fn quiet(follow: &mut Follow) -> bool {
        !follow.wait(AT_ONCE.map(|now| Instant::now() + now))
    }

    #[test]
    fn a_file_that_is_replaced_is_noticed_and_one_that_is_read_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("status.json");
        fs::write(&file, "1").unwrap();
        let mut follow = Follow::file(&file).unwrap();
        fs::read(&file).unwrap();
        fs::write(directory.path().join("other"), "1").unwrap();
        assert!(quiet(&mut follow), "a reader or another file was noticed");
        let temporary = directory.path().join(".status.json");
        fs::write(&temporary, "2").unwrap();
        fs::rename(&temporary, &file).unwrap();
        assert!(follow.wait(soon()));
        assert!(quiet(&mut follow));
    }

    #[test]
    fn a_file_is_noticed_though_its_directories_come_later_and_go() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("run/windrow");
        let file = directory.join("status.json");
        let mut follow = Follow::file(&file).unwrap();
        for _ in 0..2 {
            fs::create_dir_all(&directory).unwrap();
            fs::write(&file, "1").unwrap();
            assert!(follow.wait(soon()));
            while follow.wait(AT_ONCE.map(|now| Instant::now() + now)) {}
            fs::write(&file, "2").unwrap();
            assert!(follow.wait(soon()), "the new directory is not watched");
            fs::remove_dir_all(root.path().join("run")).unwrap();
            assert!(follow.wait(soon()));
            while follow.wait(AT_ONCE.map(|now| Instant::now() + now)) {}
        }
    }

    #[test]
    fn the_end_of_the_writer_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let mut follow = Follow::file(&directory.path().join("status.json")).unwrap();
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let writer = process::writer(child.id()).unwrap();
        follow.life = life_of(&writer);
        assert!(quiet(&mut follow));
        child.kill().unwrap();
        assert!(follow.wait(soon()));
        assert!(quiet(&mut follow), "an end is reported once");
        child.wait().unwrap();
        follow.life = life_of(&writer);
        assert!(follow.wait(soon()), "it had ended before it was followed");
    }
}
