//! A daemon's reads of its directory, and failing reads: the simulation's version of the program's scan.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use windrow_decide::{Directory, FileChange};
use windrow_model::manifest::{FileContent, MARKER_SUFFIX, ManifestPath};

use super::Drive;
use super::daemon::{RETRY, earliest};

/// How long reads fail, at most.
const FAILS: Duration = Duration::from_secs(3 * 60);
#[derive(Debug, Clone, PartialEq, Eq)]
enum Unreadable {
    /// The content of one file.
    File(String),
    /// The content of every file.
    Files,
    /// The names in a directory below the manifests directory.
    Below(String),
    /// The manifests directory itself.
    Directory,
    Markers,
}

/// The state of a daemon's reads, and of those that failed.
#[derive(Debug, Default)]
pub(super) struct Reads {
    fails: Option<(Unreadable, &'static str, Timestamp)>,
    pub(super) has_looked: bool,
    pub(super) has_read_markers: bool,
    /// Could the directory itself not be read at the last scan?
    pub(super) is_directory_unread: bool,
    /// When it scans its directory even if nothing changed in it.
    pub(super) look_at: Option<Timestamp>,
    /// Files whose present content was not read.
    pub(super) unread: BTreeSet<ManifestPath>,
    /// Files that the next scan reads even if nothing changed in them.
    again: BTreeSet<ManifestPath>,
}

impl Reads {
    pub(super) fn fail(&self, now: Timestamp) -> bool {
        self.fails
            .as_ref()
            .is_some_and(|(_, _, until)| now < *until)
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.look_at.is_some_and(|at| at <= now)
    }

    /// A new process begins: it has read nothing.
    pub(super) fn restart(&mut self) {
        self.unread.clear();
        self.again.clear();
        (self.has_looked, self.has_read_markers) = (false, false);
        self.is_directory_unread = false;
        self.look_at = None;
    }

    /// Does the next scan have to read this file even if nothing changed in it?
    pub(super) fn reads_again(&self, path: &ManifestPath) -> bool {
        self.again.contains(path)
    }

    /// Reduces a scan of the directory to the readable parts; `None` if the directory itself cannot be read.
    pub(super) fn look(&mut self, mut directory: Directory, now: Timestamp) -> Option<Directory> {
        self.look_at = self.look_at.filter(|at| now < *at);
        let is_read = |file: &FileChange| file.content.is_some();
        let read: Vec<ManifestPath> = directory
            .files
            .iter()
            .filter(|file| is_read(file))
            .map(|file| file.path.clone())
            .collect();
        let there: BTreeSet<&ManifestPath> =
            directory.files.iter().map(|file| &file.path).collect();
        self.unread.retain(|path| there.contains(path));
        self.again.retain(|path| there.contains(path));
        let fails = self.fails.clone().filter(|_| self.fail(now));
        self.is_directory_unread = matches!(fails, Some((Unreadable::Directory, ..)));
        let Some((what, why, _)) = fails else {
            for path in read {
                self.unread.remove(&path);
                self.again.remove(&path);
            }
            (self.has_looked, self.has_read_markers) = (true, true);
            return Some(directory);
        };
        // Failed reads are retried soon.
        self.look_at = earliest([self.look_at, Some(now + RETRY)]);
        self.has_read_markers |= matches!(what, Unreadable::File(_) | Unreadable::Files);
        match what {
            Unreadable::Directory => return None,
            Unreadable::File(of) => self.spoil(&mut directory, why, |path| *path == of),
            Unreadable::Files => self.spoil(&mut directory, why, |_| true),
            Unreadable::Below(below) => {
                let is_below = |path: &str| path.starts_with(&below);
                let lost = directory.files.iter().map(|file| file.path.clone());
                let lost: Vec<ManifestPath> = lost.filter(|path| is_below(path)).collect();
                self.unread.extend(lost.iter().cloned());
                // The scan loses these names.
                self.again.extend(lost);
                directory.files.retain(|file| !is_below(&file.path));
                directory.markers.retain(|marker| !is_below(&marker.path));
                directory.files.push(FileChange {
                    path: below.trim_end_matches('/').into(),
                    content: Some(unreadable(why)),
                });
                directory
                    .files
                    .sort_by(|one, other| one.path.cmp(&other.path));
            }
            Unreadable::Markers => {
                let lost = directory.markers.drain(..);
                directory.files.extend(lost.map(|marker| FileChange {
                    path: marker.path.as_str().into(),
                    content: Some(unreadable(why)),
                }));
            }
        }
        self.has_looked = true;
        for file in &directory.files {
            let spoilt = matches!(
                file.content.as_deref(),
                None | Some(FileContent::Unreadable { .. })
            );
            if !spoilt {
                self.unread.remove(&file.path);
                self.again.remove(&file.path);
            }
        }
        Some(directory)
    }

    /// Makes the reads of these files fail in this scan.
    fn spoil(&mut self, directory: &mut Directory, why: &str, fails: impl Fn(&str) -> bool) {
        for file in &mut directory.files {
            let is_bytes = matches!(file.content.as_deref(), Some(FileContent::Bytes(_)));
            if is_bytes && fails(&file.path) {
                file.content = Some(unreadable(why));
                self.unread.insert(file.path.clone());
                self.again.insert(file.path.clone());
            }
        }
    }
}

fn unreadable(why: &str) -> Arc<FileContent> {
    Arc::new(FileContent::Unreadable {
        error: why.to_owned(),
    })
}

impl Drive<'_> {
    /// A ledger that could not be read at the start is read again.
    pub(super) fn read_ledger_again(&mut self, who: usize, now: Timestamp) {
        let daemon = &mut self.daemons[who];
        if daemon.ledger_unread.take_if(|at| *at <= now).is_some() {
            let saved = daemon.enter_boot(Arc::clone(&daemon.saved), now);
            daemon.state.recover_ledger(saved);
            daemon.oracle.reports.forget();
            daemon.reads.look_at = Some(now);
            daemon.wake = Some(now);
        }
    }

    /// Reads fail from now on for a while, and the daemon reads: it is reloaded, it starts, or a file is written again.
    pub(super) fn fail_reads(&mut self, who: usize, now: Timestamp) {
        const ERRORS: [&str; 5] = ["EIO", "ESTALE", "EACCES", "ENOMEM", "EMFILE"];
        let chance = self.more.chance();
        let why = chance.pick(&ERRORS).copied().unwrap_or(ERRORS[0]);
        let until = now + chance.between((Duration::ZERO, FAILS));
        let disk = &self.disks[who];
        let paths: Vec<&str> = disk.manifests().map(|(path, _)| path).collect();
        let hidden: Vec<&str> = paths
            .iter()
            .copied()
            .filter(|path| disk.is_hidden(path))
            .collect();
        let is_of_hidden = !hidden.is_empty() && chance.one_in(2);
        let paths = if is_of_hidden { hidden } else { paths };
        let Some(path) = chance.pick(&paths).copied().map(str::to_owned) else {
            return;
        };
        let what = match chance.below(6) {
            0 => Unreadable::Files,
            1 => Unreadable::Directory,
            2 => Unreadable::Markers,
            3 => match path.split_once('/') {
                Some((below, _)) => Unreadable::Below(format!("{below}/")),
                None => Unreadable::File(path.clone()),
            },
            _ => Unreadable::File(path.clone()),
        };
        // A process that has not scanned yet knows none of its files.
        let cause = chance.below(4) * u64::from(self.daemons[who].reads.has_looked);
        self.record_fault(who, &format!("{why} for {what:?} until {until}"));
        let daemon = &mut self.daemons[who];
        daemon.reads.fails = Some((what, why, until));
        match cause {
            0 => {
                self.record_fault(who, "Windrow is restarted");
                let daemon = &mut self.daemons[who];
                daemon
                    .oracle
                    .forget_unwritten(&self.disks[who], &daemon.saved);
                self.restart_daemon(who, now);
                self.daemons[who].wake = Some(now);
            }
            1 | 2 => {
                self.record_fault(who, "Windrow is reloaded");
                let (settings, rules) = self.configuration(who);
                let platform = Some(self.setup.platform());
                let daemon = &mut self.daemons[who];
                daemon.state.configure(settings, rules, platform);
                daemon.seen = None;
            }
            _ => {
                self.record_fault(who, &format!("{path} is written again"));
                let disk = &mut self.disks[who];
                let entry = disk.get(&path).cloned();
                if let Some(entry) = entry.filter(|_| !path.ends_with(MARKER_SUFFIX)) {
                    disk.put_again(&path, &entry, now);
                }
            }
        }
        let at = self.more.chance().between((Duration::ZERO, RETRY));
        let reads = &mut self.daemons[who].reads;
        reads.look_at = earliest([reads.look_at, Some(now + at)]);
    }
}
