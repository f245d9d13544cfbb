//! The markers of an earlier process that are missing in its ledger.

use std::sync::Arc;

use jiff::Timestamp;
use windrow_model::manifest::{ManifestPath, MarkerPath};
use windrow_model::reasons::Code;
use windrow_plan::{FileObstacle, Plan, PlanFile};

use super::StagingState;
use crate::ledger::{AlreadyReported, Cause, FileStage, Ledger, LedgerEntry, Manual};
use crate::mark::Mark;
use crate::observation::MarkerTrouble;

impl StagingState {
    /// Adopts Windrow's markers that the ledger does not have: the ledger was lost, or an older state of the disk came
    /// back.
    pub(super) fn adopt_markers(&mut self) {
        let is_known = |ledger: &Ledger, mark: &Mark| {
            let is_of_moved = |(path, entry): (&ManifestPath, &Arc<LedgerEntry>)| {
                let is_same = path.name() == mark.file.name() && entry.digest == mark.digest;
                is_same && outlasts_move(&entry.state)
            };
            ledger.files.contains_key(&mark.file)
                || mark.says_applied_once() && ledger.files.iter().any(is_of_moved)
        };
        let markers = self.observation.markers.values();
        let mut new: Vec<(MarkerPath, Arc<Mark>)> = markers
            .filter_map(|marker| Some((marker.path.clone(), marker.mark.clone()?)))
            .filter(|(_, mark)| mark.code != Code::Provisional && !is_known(&self.ledger, mark))
            // Files that waited in a former cluster are decided again.
            .filter(|(_, mark)| {
                let is_kept = mark.says_applied_once() || mark.code == Code::HeldByHand;
                is_kept || !self.has_former_markers
            })
            .collect();
        new.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (_, mark) in new {
            // A marker may have been copied to other directories: the first one counts.
            if is_known(&self.ledger, &mark) {
                continue;
            }
            // Either the loss of the ledger hides which cluster the marker is for, or it is a former one.
            let is_unsure = self.ledger.cluster.is_none() || self.has_former_markers;
            let is_unconfirmed = mark.says_applied_once() && is_unsure;
            self.adopt(&mark);
            let files = &mut Arc::make_mut(&mut self.ledger).files;
            if let Some(adopted) = files.get_mut(&mark.file).filter(|_| is_unconfirmed) {
                Arc::make_mut(adopted).state = FileStage::once_unconfirmed();
            }
        }
    }

    fn adopt(&mut self, mark: &Mark) {
        // It belongs to an earlier process. If its time is later than the start of this one, or may come from another
        // clock, it does not count.
        let started = self.observation.started;
        let boot = self.ledger.boot.as_ref();
        let since = if boot.is_some_and(|boot| boot.clock_was_set) {
            started
        } else {
            mark.since.min(started)
        };
        let state = match mark.code {
            Code::HeldAppliedOnce => FileStage::Applied { cause: Cause::Met },
            code => FileStage::Held {
                code,
                why: mark.why.clone(),
            },
        };
        let manual = (mark.code == Code::HeldByHand)
            .then(|| Box::new(Manual::from_marker(&mark.why, since)));
        let entry = LedgerEntry {
            digest: mark.digest.clone(),
            first_seen: since,
            since,
            state,
            reported: AlreadyReported::default(),
            manual,
        };
        let files = &mut Arc::make_mut(&mut self.ledger).files;
        files.insert(mark.file.clone(), Arc::new(entry));
    }

    /// A file that was moved to another directory is the same file if its name and its content are the same: it stays
    /// released or applied. A waiting file is decided again. The former path keeps its entry, and of several former
    /// paths, that of the last scan counts.
    pub(super) fn follow_moved_files(&mut self) {
        let plan = Arc::clone(&self.plan);
        let is_read = |file: &&PlanFile| {
            let unread = [Some(FileObstacle::Unreadable), Some(FileObstacle::Unseen)];
            file.owner.is_none() && !unread.contains(&file.trouble)
        };
        for file in plan.files.iter().filter(is_read) {
            let known = &self.ledger.files;
            let own = known.get(&file.path);
            let own_gone = own.and_then(|entry| entry.reported.vanished);
            if own.is_some() && own_gone.is_none() {
                continue;
            }
            let is_before = |(path, entry): &(&ManifestPath, &Arc<LedgerEntry>)| {
                path.name() == file.name
                    && entry.digest == file.digest
                    && outlasts_move(&entry.state)
                    && (entry.reported.vanished.is_none() || entry.reported.vanished > own_gone)
                    && !is_planned(&plan, path)
            };
            // A path of the last scan has been removed since then.
            let gone_at = |entry: &LedgerEntry| entry.reported.vanished.unwrap_or(Timestamp::MAX);
            let before = known.iter().filter(is_before);
            let before = before.max_by_key(|(_, entry)| gone_at(entry));
            let Some(mut entry) = before.map(|(_, entry)| LedgerEntry::clone(entry)) else {
                continue;
            };
            entry.reported.vanished = None;
            let files = &mut Arc::make_mut(&mut self.ledger).files;
            files.insert(file.path.clone(), Arc::new(entry));
            self.ledger_is_unsaved = true;
        }
    }

    /// A marker is written before the ledger. If the process ended in between, only the marker shows that RKE2 has
    /// applied a file that is to be applied once. RKE2 would apply it again before Windrow can ask.
    pub(super) fn adopt_applied_once(&mut self) {
        let markers = self.observation.markers.values();
        let marks = markers.filter_map(|marker| marker.mark.clone());
        let once = marks.filter(|mark| mark.says_applied_once());
        let once = once.map(|mark| self.mark_of_moved(mark));
        let once: Vec<Arc<Mark>> = once.filter(|mark| self.is_news(mark)).collect();
        for mark in once {
            let entry = self.ledger.files.get(&mark.file);
            // The marker is later than this entry, or from an earlier datastore: RKE2's Addons will show.
            let was_held = entry.is_some_and(|entry| {
                entry.digest == mark.digest && matches!(entry.state, FileStage::Held { .. })
            });
            let is_unsure = was_held || self.has_former_markers;
            self.adopt(&mark);
            let files = &mut Arc::make_mut(&mut self.ledger).files;
            if let Some(adopted) = files.get_mut(&mark.file).filter(|_| is_unsure) {
                Arc::make_mut(adopted).state = FileStage::once_unconfirmed();
            }
        }
    }

    /// The marker with the present path of its file, if the file was moved.
    fn mark_of_moved(&self, mark: Arc<Mark>) -> Arc<Mark> {
        if is_planned(&self.plan, &mark.file) {
            return mark;
        }
        let name = mark.file.name();
        let mut files = self.plan.files.iter();
        let moved = files.find(|file| file.name == name && file.digest == mark.digest);
        moved.map_or(Arc::clone(&mark), |moved| {
            let file = moved.path.clone();
            Arc::new(Mark {
                file,
                ..Mark::clone(&mark)
            })
        })
    }

    /// Is this marker about the present content of its file, and does the ledger say something else? A file that a user
    /// releases is to be applied again.
    fn is_news(&self, mark: &Mark) -> bool {
        let mut files = self.plan.files.iter();
        let file = files.find(|file| file.path == mark.file);
        let (Some(file), Some(entry)) = (file, self.ledger.files.get(&mark.file)) else {
            return false;
        };
        let is_done =
            matches!(entry.state, FileStage::Applied { .. }) || entry.state.is_once_unconfirmed();
        let is_same = entry.digest == mark.digest;
        // Since then, RKE2's Addons have shown that the cluster does not have it, and the marker is to be removed or
        // could not be replaced.
        let is_released = matches!(entry.state, FileStage::Released { .. });
        let trouble = self.observation.marker_troubles.get(&file.name);
        let was_shown = match mark.code {
            Code::OnceUnconfirmed => is_released || trouble.is_some(),
            _ => is_released && matches!(trouble, Some(MarkerTrouble::NotRemoved(_))),
        };
        let is_news = !is_same || !is_done && !was_shown;
        // For an unreadable file, its last known content counts.
        let is_about_file = match file.trouble {
            Some(FileObstacle::Unreadable) => is_same,
            _ => file.digest == mark.digest,
        };
        entry.manual.is_none() && is_news && is_about_file
    }
}

/// Does this stage count wherever the file is? A file that relies on the files before it depends on its place.
fn outlasts_move(state: &FileStage) -> bool {
    match state {
        FileStage::Released { cause } => *cause != Cause::SamePass,
        FileStage::Applied { .. } => true,
        FileStage::Held { .. } => state.is_once_unconfirmed(),
    }
}

fn is_planned(plan: &Plan, path: &ManifestPath) -> bool {
    let found = plan.files.binary_search_by(|file| file.path.cmp(path));
    found.is_ok()
}
