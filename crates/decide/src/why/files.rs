//! Files and their requirements, within the limits of an answer.

use std::collections::BTreeSet;

use jiff::Timestamp;
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use super::answer::{ExplainedBlocker, ExplainedFile};
use crate::{Blocker, FileStatus, HeldFile, Holder, Mark, Status};

/// The maximum number of files and needs in one answer, and the maximum bytes of their texts. Every user may send a
/// request.
const MOST_ENTRIES: usize = 1_000;
const MOST_BYTES: usize = 256 << 10;

/// For an applied file that Windrow does not read.
pub const APPLIED_UNREAD: &str =
    "Windrow cannot read it, so it cannot tell whether that was the present content";
/// For a link to a directory elsewhere.
const UNREAD_DIRECTORY: &str = "RKE2 reads the directory behind this link and Windrow does not, so Windrow cannot tell which files are applied";

/// Collects the files of one answer until the limits are reached.
pub(super) struct FilesOfAnswer<'s> {
    status: &'s Status,
    entries: usize,
    bytes: usize,
    pub(super) is_cut: bool,
}

impl<'s> FilesOfAnswer<'s> {
    pub(super) fn new(status: &'s Status) -> Self {
        Self {
            status,
            entries: 0,
            bytes: 0,
            is_cut: false,
        }
    }

    /// Is there room for one more entry? If not, the answer is marked as cut.
    fn has_room(&mut self) -> bool {
        let room = self.entries < MOST_ENTRIES && self.bytes < MOST_BYTES;
        self.is_cut |= !room;
        room
    }

    /// Counts an entry whose texts have this length in bytes.
    fn count(&mut self, bytes: usize) {
        self.entries += 1;
        self.bytes += bytes;
    }

    /// As many of these files as fit.
    pub(super) fn explain_files<'f>(
        &mut self,
        files: impl Iterator<Item = &'f ManifestPath>,
    ) -> Vec<ExplainedFile> {
        let mut explained = Vec::new();
        for file in files {
            if !self.has_room() {
                break;
            }
            explained.extend(self.explain_file(file));
        }
        explained
    }

    /// Adds the files behind these, and those behind them, each once.
    pub(super) fn add_files_behind(&mut self, files: &mut Vec<ExplainedFile>) {
        let known = files.iter().map(|file| file.file.clone());
        let mut known: BTreeSet<ManifestPath> = known.collect();
        let mut next = 0;
        while let Some(file) = files.get(next) {
            let behind = file.waits_for.iter();
            let behind = behind.filter_map(ExplainedBlocker::waits_for_file);
            let new = behind.filter(|file| known.insert((*file).clone()));
            let new: Vec<ManifestPath> = new.cloned().collect();
            files.extend(self.explain_files(new.iter()));
            next += 1;
        }
    }

    /// `None` if no such file is staged.
    fn explain_file(&mut self, file: &ManifestPath) -> Option<ExplainedFile> {
        let staging = &self.status.staging;
        if let Some(held) = staging.held.iter().find(|one| one.file == *file) {
            return Some(self.explain_held_file(held));
        }
        let (state, since, why) = state_of(self.status, file)?;
        self.count(file.as_str().len() + why.len());
        Some(ExplainedFile {
            file: file.clone(),
            state,
            since,
            why,
            by: None,
            overdue: false,
            applied_once: false,
            harmful: false,
            deadline: None,
            waits_for: Vec::new(),
            name_spares_hold: None,
            no_name_spares_hold: None,
            release: None,
        })
    }

    fn explain_held_file(&mut self, held: &HeldFile) -> ExplainedFile {
        self.count(held.file.as_str().len() + held.why.len());
        let mut waits_for = Vec::new();
        for blocker in &held.blockers {
            if !self.has_room() {
                break;
            }
            waits_for.push(self.explain_blocker(blocker));
        }
        let ours = held.by == Holder::Windrow;
        ExplainedFile {
            file: held.file.clone(),
            state: "held",
            since: held.since,
            why: held.why.to_string(),
            by: Some(held.by),
            overdue: held.overdue,
            applied_once: held.is_applied(),
            harmful: held.harmful,
            deadline: held.deadline,
            waits_for,
            name_spares_hold: held.name_spares_hold.clone(),
            no_name_spares_hold: held.no_name_spares_hold.clone(),
            release: ours.then(|| Mark::release_command(&held.file)),
        }
    }

    fn explain_blocker(&mut self, blocker: &Blocker) -> ExplainedBlocker {
        let Blocker {
            what,
            condition,
            message,
            required_by,
            origin,
            brought_by,
            usual,
            tier: _,
        } = blocker;
        let texts = [what, condition, message, required_by, &origin.rule];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        self.count(texts + origin.at.file.len() + usual.as_ref().map_or(0, String::len));
        let waits = |file: &ManifestPath| waits(self.status, file);
        ExplainedBlocker {
            blocker: blocker.clone(),
            root: !brought_by.as_ref().is_some_and(waits),
        }
    }
}

/// Is there something to explain about a file that provides something: is it staged and not applied?
fn waits(status: &Status, file: &ManifestPath) -> bool {
    let mut held = status.staging.held.iter();
    held.any(|one| one.file == *file && !one.is_applied())
        || state_of(status, file).is_some_and(|(state, ..)| state != "applied")
}

/// The state of a released, applied or failed file, since when, and why.
fn state_of(status: &Status, file: &ManifestPath) -> Option<(&'static str, Timestamp, String)> {
    let staging = &status.staging;
    if let Some(file) = staging.not_held.iter().find(|one| one.file == *file) {
        let why = format!(
            "{} It should wait: {}",
            sentence(&Code::NotHeld.say(&[("error", &file.error)])),
            file.why
        );
        return Some(("not held", file.since, why));
    }
    if let Some(failed) = staging.failed.iter().find(|one| one.file == *file) {
        let why = format!("RKE2 cannot apply it: {}", failed.message);
        return Some(("failed", failed.since, why));
    }
    if let Some(one) = staging.released.iter().find(|one| one.file == *file) {
        return Some(("released", one.since, why_not_applied(status, one)));
    }
    let one = staging.applied.iter().find(|one| one.file == *file)?;
    let why = match one.unread {
        true => ["RKE2 has applied it; ", APPLIED_UNREAD].concat(),
        false => "RKE2 has applied it".to_owned(),
    };
    Some(("applied", one.since, why))
}

pub fn why_not_applied(status: &Status, released: &FileStatus) -> String {
    match &released.late {
        _ if released.is_directory() => UNREAD_DIRECTORY.to_owned(),
        Some(why) if status.role.applies_manifests() => {
            format!("RKE2 has not been seen to apply it: {why}")
        }
        _ => until_applied(status).to_owned(),
    }
}

/// What released files wait for at present.
pub fn until_applied(status: &Status) -> &'static str {
    if !status.role.applies_manifests() {
        return "RKE2 reads no manifests on a node of this role";
    }
    match status.staging.api_answers {
        Some(true) => "RKE2 applies it at its next pass, within 15 s",
        Some(false) => "RKE2 applies it once kube-apiserver answers",
        None => "RKE2 applies it at its next pass",
    }
}

/// Turns a line into a separate sentence.
fn sentence(line: &str) -> String {
    let mut letters = line.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}
