//! The oracle: the releases that count in the present cluster, and the true state of files that are gone or that another server
//! applied.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use smol_str::SmolStr;
use windrow_decide::{Cause, FileStage, Ledger};
use windrow_model::manifest::ManifestPath;
use windrow_plan::PlanFile;

use super::oracle::{JudgedServer, Oracle};
use super::truth::Truth;
use super::written::Unwritten;

/// RKE2 takes at most this long from its scan of the directory to the last file of that scan.
const LONGEST_PASS: SignedDuration = SignedDuration::from_mins(5);

impl Oracle {
    /// Was this content released in the present cluster?
    pub(super) fn is_let_through(&self, file: &PlanFile) -> bool {
        self.is_content_let_through(&file.path, &file.digest)
    }

    /// The same for the content with this checksum.
    pub(super) fn is_content_let_through(&self, path: &ManifestPath, digest: &SmolStr) -> bool {
        let known = [
            &self.for_good,
            &self.granted,
            &self.let_through,
            &self.let_go,
        ];
        !self.is_lost && known.iter().any(|known| known.get(path) == Some(digest))
    }

    /// The datastore is a different one. Windrow cannot know yet.
    pub(super) fn lose_cluster(&mut self) {
        self.is_lost = true;
    }

    /// Windrow learns that its cluster is a different one: everything is decided again, except for the files that a user holds.
    pub(super) fn enter_cluster(&mut self, now: Timestamp) {
        self.is_lost = false;
        self.waits.enter_cluster();
        self.up_since = None;
        for known in [
            &mut self.for_good,
            &mut self.granted,
            &mut self.relied,
            &mut self.let_through,
            &mut self.let_go,
        ] {
            known.clear();
        }
        self.unwritten = Unwritten::default();
        self.taken.clear();
        // Everything is decided and reported again.
        self.reports.forget();
        for seen in self.first_seen.values_mut() {
            *seen = now;
        }
    }

    /// A moved file is the same file, as long as its name and its content are the same, and its release stays.
    pub(super) fn follow_moved(&mut self, server: &JudgedServer<'_>) {
        let disk = server.disk;
        for file in &server.plan.files {
            let was_there = self.waits.there.contains_key(&file.path);
            if was_there || disk.get(&file.path).is_none() {
                continue;
            }
            let is_its = |path: &ManifestPath, digest: &SmolStr| {
                path.name() == file.name && *digest == file.digest && disk.get(path).is_none()
            };
            let mut there = self.waits.there.iter();
            let before = there.find(|(path, (digest, _))| is_its(path, digest));
            if let Some((before, _)) = before {
                let content = |path: &ManifestPath| (path.clone(), file.digest.clone());
                if let Some(seen) = self.first_seen.get(&content(before)).copied() {
                    self.first_seen.entry(content(&file.path)).or_insert(seen);
                }
                // A file that relies on the files before it is decided again.
                if self.relied.get(before) != Some(&file.digest) {
                    self.reports.follow(before, &file.path);
                }
            }
            for known in [
                &mut self.for_good,
                &mut self.granted,
                &mut self.let_through,
                &mut self.let_go,
            ] {
                if known.iter().any(|(path, digest)| is_its(path, digest)) {
                    known.insert(file.path.clone(), file.digest.clone());
                }
            }
        }
    }

    pub(super) fn note_gone(&mut self, server: &JudgedServer<'_>, now: Timestamp) {
        let marks = server.disk.iter().filter_map(|(_, entry)| entry.mark());
        let gone: BTreeSet<ManifestPath> = marks
            .map(|mark| mark.file.clone())
            .filter(|file| server.disk.get(file).is_none())
            .collect();
        self.gone_since.retain(|file, _| gone.contains(file));
        for file in gone {
            self.gone_since.entry(file).or_insert(now);
        }
    }

    /// A file that RKE2 had before its marker was in place, unless another server applied it.
    pub(super) fn judge_escaped(&mut self, truth: &Truth<'_>, server: &JudgedServer<'_>) {
        for file in &server.plan.files {
            let cause = |ledger: &Ledger| {
                let entry = ledger.files.get(&file.path);
                let entry = entry.filter(|entry| entry.digest == file.digest);
                matches!(
                    entry.map(|entry| &entry.state),
                    Some(FileStage::Applied {
                        cause: Cause::Escaped
                    })
                )
            };
            let before = server.before.files.get(&file.path);
            // The file of a pass that began before its marker was made, or of another server: an Addon does not show which.
            let was_held = before
                .is_some_and(|entry| server.wall.duration_since(entry.first_seen) > LONGEST_PASS);
            let is_new = was_held && cause(server.state.ledger()) && !cause(server.before);
            if is_new && truth.has_applied(file) && !truth.has_applied_here(file, server.number) {
                let file = &file.path;
                self.untrue
                    .insert(format!("{file} escaped: another server applied it"));
            }
        }
    }
}
