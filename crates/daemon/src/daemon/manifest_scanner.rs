//! The daemon's state of the manifests directory between two scans: the files that are being written, the files that
//! were already read, and the time of the next scan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use windrow_decide::Directory;
use windrow_model::manifest::{BaseName, FileContent, ManifestPath, ReadLimits};

use super::marking_thread::{MarkingContext, MarkingThread, is_there};
use crate::act::Arrivals;
use crate::observe::files::{FileEvent, FileWatch};
use crate::observe::scan::{FileStamps, ScanResult, scan};

/// A file that is not closed after writing counts as complete once it has not changed for this long: a program that
/// writes through a mapping, or keeps the file open, causes no further event.
const QUIET: Duration = Duration::from_secs(5);
/// A directory that is new may get files before the watch reaches it: look once more after this time.
const AFTER_DIRECTORY: Duration = Duration::from_millis(250);
/// The files of a large directory are read at several looks, with this pause between them.
const AFTER_MUCH: Duration = Duration::from_secs(1);
/// The pause after a failure to read.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// How often to look if there are no events at all.
const WITHOUT_EVENTS: Duration = Duration::from_secs(5);

pub(super) struct ManifestScanner {
    directory: PathBuf,
    watch: Option<FileWatch>,
    marking: MarkingThread,
    trouble: Option<String>,
    stamps: FileStamps,
    /// Files for which the last look had no room.
    unread: BTreeSet<ManifestPath>,
    /// Files that are being written, and when each counts as complete.
    writing: BTreeMap<ManifestPath, Instant>,
    again: Option<Instant>,
    next: Instant,
}

pub(super) enum ScanOutcome {
    Directory(Directory),
    Missing,
    /// It cannot be read: the known state stays.
    Unreadable(String),
}

impl ManifestScanner {
    pub(super) fn new(
        directory: PathBuf,
        spools: [PathBuf; 2],
        arrivals: Arc<Arrivals>,
        context: MarkingContext,
    ) -> Self {
        let (marking, hear) = MarkingThread::begin(directory.clone(), arrivals, context);
        let (watch, trouble) = match FileWatch::new(directory.clone(), spools, hear) {
            Ok(watch) => (Some(watch), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            directory,
            watch,
            marking,
            trouble,
            stamps: FileStamps::new(),
            unread: BTreeSet::new(),
            writing: BTreeMap::new(),
            again: None,
            next: Instant::now(),
        }
    }

    /// Takes in an event. Returns the path of a manifest file that needs a marker first, if it has none.
    pub(super) fn note(&mut self, event: FileEvent) -> Option<ManifestPath> {
        self.marking.heard(&event);
        self.next = Instant::now();
        let path = match event {
            FileEvent::Writing { path } => {
                self.writing.insert(path.clone(), Instant::now() + QUIET);
                path
            }
            FileEvent::Written { path } => {
                self.writing.remove(&path);
                path
            }
            FileEvent::Directory => {
                self.again = Some(Instant::now() + AFTER_DIRECTORY);
                return None;
            }
            FileEvent::Changed | FileEvent::Request => return None,
        };
        is_there(&self.directory, &path).then_some(path)
    }

    pub(super) fn due(&self) -> bool {
        self.next() <= Instant::now()
    }

    /// When to scan if nothing happens.
    pub(super) fn next(&self) -> Instant {
        if self.marking.arrivals().has_lost() {
            return Instant::now();
        }
        self.writing
            .values()
            .copied()
            .chain(self.again)
            .fold(self.next, Instant::min)
    }

    /// Scan with the next tick, and read every file again.
    pub(super) fn forget(&mut self) {
        self.stamps = FileStamps::new();
        self.next = Instant::now();
    }

    pub(super) fn look_again(&mut self) {
        self.next = Instant::now();
    }

    /// Whether some files are still unread, because there were too many.
    pub(super) fn is_partial(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Base names of files that may still be written, or are still unread.
    pub(super) fn being_written(&self) -> BTreeSet<BaseName> {
        let paths = self.writing.keys().chain(&self.unread);
        let mut names = self.marking.arrivals().names();
        names.extend(paths.map(ManifestPath::name));
        names
    }

    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    pub(super) fn scan(
        &mut self,
        limits: &ReadLimits,
        rescan: Duration,
        now: Timestamp,
    ) -> ScanOutcome {
        let started = Instant::now();
        self.writing.retain(|_, whole_at| *whole_at > started);
        self.again = self.again.filter(|again| *again > started);
        // Events that are dropped from now on are for the next scan.
        self.marking.arrivals().find_lost();
        let mut pause = rescan;
        match self.watch.as_mut().map(FileWatch::aim) {
            Some(Ok(_)) => self.trouble = None,
            Some(Err(error)) => {
                self.trouble = Some(error.to_string());
                pause = pause.min(WITHOUT_EVENTS);
            }
            None => pause = pause.min(WITHOUT_EVENTS),
        }
        self.next = started + pause;
        let found = match scan(&self.directory, limits, &self.stamps, now) {
            ScanResult::Found(found) => found,
            ScanResult::Missing => {
                self.stamps = FileStamps::new();
                self.writing.clear();
                return ScanOutcome::Missing;
            }
            ScanResult::Unreadable { error } => {
                self.next = self.next.min(started + AFTER_FAILURE);
                return ScanOutcome::Unreadable(error);
            }
        };
        self.stamps = found.stamps();
        self.unread.clear();
        let mut directory = found.into_directory();
        let present = |path: &ManifestPath| directory.files.iter().any(|file| file.path == *path);
        self.writing.retain(|path, _| present(path));
        for file in &mut directory.files {
            if let Some(FileContent::Unreadable { .. }) = file.content.as_deref() {
                self.next = self.next.min(started + AFTER_FAILURE);
            }
            if let Some(FileContent::NoRoom { .. }) = file.content.as_deref() {
                // Its known content stays until it is read at one of the next looks.
                file.content = None;
                self.unread.insert(file.path.clone());
                self.next = self.next.min(started + AFTER_MUCH);
            }
            if self.writing.contains_key(&file.path) {
                // A half-written file is not read until it is complete.
                file.content = None;
                self.stamps.forget(&file.path);
            }
        }
        ScanOutcome::Directory(directory)
    }
}
