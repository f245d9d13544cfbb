//! An unreadable path keeps its last known content, and its marker.
//!
//! A failed read does not mean that a file is empty or removed. Its last known content counts until it can be read
//! again, and its marker stays. A marker that may be removed without harm stays for `staging.refusedDeadline` at most.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use windrow_model::findings::Finding;
use windrow_model::manifest::{BaseName, FileContent, ManifestPath, MarkerPath};
use windrow_model::reasons::Code;
use windrow_plan::SourceMap;

use super::StagingState;
use crate::action::Event;
use crate::mark::OnFailure;
use crate::observation::{Directory, FileChange, Marker};

/// The source of the findings about an unreadable directory.
const DIRECTORY: &str = "directory";

#[derive(Debug, Clone, PartialEq)]
pub(super) struct UnreadPath {
    pub(super) why: String,
    /// When a decision was first made without it.
    pub(super) since: Option<Timestamp>,
    /// Does its last known content count? Then only this finding reports that it cannot be read.
    is_known: bool,
}

impl StagingState {
    /// Replaces unreadable paths of a scan with their last known content.
    ///
    /// An unreadable path may be a file, a marker, or a directory with both.
    #[must_use]
    pub fn keep_unread(&mut self, directory: Directory) -> Directory {
        let Directory { files, mut markers } = directory;
        let mut unread = BTreeMap::new();
        let mut kept = Vec::with_capacity(files.len());
        for FileChange { path, content } in files {
            let why = match content.as_deref() {
                Some(FileContent::Unreadable { error }) => Some(error.clone()),
                Some(_) => None,
                None => self.unread.get(&path).map(|earlier| earlier.why.clone()),
            };
            let Some(why) = why else {
                kept.push(FileChange { path, content });
                continue;
            };
            let known = self.examined.get(&path);
            let is_known = known.is_some_and(|known| !known.is_unreadable());
            let since = self.unread.get(&path).and_then(|earlier| earlier.since);
            let marker = MarkerPath::parse(&path);
            let is_marker = marker.is_some();
            if let Some(marker) = marker {
                self.keep_marker(marker, &mut markers);
            } else {
                let content = content.filter(|_| !is_known);
                let path = path.clone();
                kept.push(FileChange { path, content });
            }
            let is_known = is_known || is_marker;
            unread.insert(
                path,
                UnreadPath {
                    why,
                    since,
                    is_known,
                },
            );
        }
        self.keep_below(&unread, &mut kept, &mut markers);
        for path in kept.iter().map(|file| &file.path) {
            let above = unread.iter().find(|(above, _)| is_below(path, above));
            let reason = above.map(|(_, reason)| reason.clone());
            if let Some(reason) = reason.filter(|_| !unread.contains_key(path)) {
                unread.insert(path.clone(), reason);
            }
        }
        kept.sort_by(|one, other| one.path.cmp(&other.path));
        self.unread = unread;
        Directory {
            files: kept,
            markers,
        }
    }

    /// Notes that the directory itself cannot be read. The known content of its files counts, and all markers stay.
    pub fn keep_directory(&mut self, directory: &str, error: &str, now: Timestamp) {
        let code = Code::ManifestsUnreadable;
        let message = code.say(&[("path", directory), ("error", error)]);
        if !self.directory_is_known {
            self.observation.directory_unread = Some(message.clone());
        }
        self.directory_unread_since.get_or_insert(now);
        let finding = Finding {
            incident: None,
            code,
            severity: code.severity(),
            message,
            at: Vec::new(),
        };
        self.set_findings(DIRECTORY, &[finding]);
    }

    /// Notes that there is no directory. If it appears later and cannot be read, its content is unknown.
    pub fn take_missing(&mut self) {
        self.take_directory(Directory::default());
        self.directory_is_known = false;
    }

    pub(super) fn note_directory_read(&mut self) {
        self.directory_is_known = true;
        self.directory_unread_since = None;
        self.observation.directory_unread = None;
        self.set_findings(DIRECTORY, &[]);
    }

    /// An unreadable marker is the last known one, or else not Windrow's.
    fn keep_marker(&self, path: MarkerPath, markers: &mut Vec<Marker>) {
        if markers.iter().any(|marker| marker.path == path) {
            return;
        }
        let known = self.observation.markers.get(&path.hides());
        let known = known.filter(|known| known.path == path).cloned();
        markers.push(known.unwrap_or(Marker { path, mark: None }));
    }

    /// Known files below an unreadable directory still exist.
    fn keep_below(
        &self,
        unread: &BTreeMap<ManifestPath, UnreadPath>,
        files: &mut Vec<FileChange>,
        markers: &mut Vec<Marker>,
    ) {
        let is_hidden = |path: &str| unread.keys().any(|above| is_below(path, above));
        let listed: BTreeSet<ManifestPath> = files.iter().map(|file| file.path.clone()).collect();
        let known = self.examined.keys();
        let known = known.filter(|path| is_hidden(path) && !listed.contains(*path));
        files.extend(known.map(|path| FileChange {
            path: path.clone(),
            content: None,
        }));
        // An earlier process has read these.
        for (path, entry) in &self.ledger.files {
            let above = unread.iter().find(|(above, _)| is_below(path, above));
            let is_unknown = !listed.contains(path) && !self.examined.contains_key(path);
            if let Some((_, UnreadPath { why, .. })) = above
                && is_unknown
                && entry.reported.vanished.is_none()
            {
                let error = why.clone();
                files.push(FileChange {
                    path: path.clone(),
                    content: Some(Arc::new(FileContent::Unreadable { error })),
                });
            }
        }
        let hidden = self.observation.markers.values();
        for marker in hidden.filter(|marker| is_hidden(&marker.path)) {
            if !markers.iter().any(|listed| listed.path == marker.path) {
                markers.push(marker.clone());
            }
        }
    }

    /// Notes since when decisions are made without the unreadable paths; returns the events to report about them, once.
    pub(super) fn note_unread(&mut self, now: Timestamp) -> Vec<Event> {
        let mut events = Vec::new();
        let mut findings = Vec::new();
        for (path, unread) in &mut self.unread {
            let is_news = unread.since.is_none();
            unread.since.get_or_insert(now);
            // The plan reports a file that was never read.
            if !unread.is_known {
                continue;
            }
            let code = Code::FileUnreadable;
            let why = code.say(&[("error", &unread.why)]);
            let message = format!("{why}; its last known content counts until then");
            if is_news {
                events.push(Event {
                    code,
                    file: Some(path.to_string()),
                    message: format!("{path}: {message}"),
                });
            }
            findings.push(Finding {
                incident: None,
                code,
                severity: code.severity(),
                message,
                at: vec![SourceMap::itself(path.as_str()).at(None)],
            });
        }
        self.set_findings("unreadable", &findings);
        events
    }

    /// The base names whose markers stay because their files cannot be read.
    pub(super) fn names_unread(&self, now: Timestamp) -> BTreeSet<BaseName> {
        let patience = self.settings.staging.refused_deadline;
        let stays = |path: &ManifestPath, since: Timestamp| {
            let manual = self
                .ledger
                .files
                .get(path)
                .and_then(|entry| entry.manual.as_ref());
            if manual.is_some_and(|manual| !manual.hold && manual.at >= since) {
                return false;
            }
            let is_short = now.duration_since(since).unsigned_abs() < patience;
            let marker = self.observation.markers.get(&path.name());
            let mark = marker.and_then(|marker| marker.mark.as_ref());
            is_short || mark.is_some_and(|mark| mark.on_failure == OnFailure::Keep)
        };
        let unread = self.unread.iter();
        let unread = unread.map(|(path, unread)| (path, unread.since.unwrap_or(now)));
        // If the directory cannot be read, none of its files can.
        let all = self.directory_unread_since.into_iter();
        let all = all.flat_map(|since| self.examined.keys().map(move |path| (path, since)));
        unread
            .chain(all)
            .filter(|(path, since)| stays(path, *since))
            .map(|(path, _)| path.name())
            .collect()
    }
}

/// Is the directory a part of the path?
pub(super) fn is_below(path: &str, directory: &ManifestPath) -> bool {
    path.strip_prefix(directory.as_str())
        .is_some_and(|rest| rest.starts_with('/'))
}
