//! Markers as the core knows them: found by a look at the directory, and changed by its own actions.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use windrow_model::reasons::Code;
use windrow_plan::base_name;
use windrow_plan::rke2;

use super::super::judge::hidden_name;
use super::super::ledger::{Cause, Entry, Manual, State, Told};
use super::super::observation::{Mark, MarkerTrouble, OnFailure};
use super::super::{Action, Ledger, Marker, marker_path};
use super::{Directory, Engine, FileChange};

impl Engine {
    /// Would this look at the directory tell nothing new?
    pub fn knows(&self, directory: &Directory) -> bool {
        self.knows_files(&directory.files) && self.knows_markers(&directory.markers)
    }

    pub(super) fn knows_files(&self, files: &[FileChange]) -> bool {
        let known = self.examined.keys();
        files.iter().all(|file| file.content.is_none())
            && known.eq(files.iter().map(|file| &file.path))
    }

    fn knows_markers(&self, markers: &[Marker]) -> bool {
        let known = &self.observation.markers;
        let same = |marker: &Marker| known.get(hidden_name(&marker.path)) == Some(marker);
        markers.len() == known.len() && markers.iter().all(same)
    }

    pub(super) fn take_markers(&mut self, markers: Vec<Marker>) {
        if self.knows_markers(&markers) {
            return;
        }
        let markers = markers
            .into_iter()
            .map(|marker| (hidden_name(&marker.path).to_owned(), marker))
            .collect();
        self.verdicts.markers_changed();
        let before = std::mem::replace(&mut self.observation.markers, markers);
        let now = &self.observation.markers;
        let gone = before.keys().filter(|name| !now.contains_key(*name));
        let new = now.iter();
        let new = new.filter(|(name, marker)| before.get(*name) != Some(marker));
        for name in gone.chain(new.map(|(name, _)| name)) {
            self.verdicts.doubt(self.planned.lookup.named(name));
        }
    }

    /// A marker of ours that the ledger knows nothing of: the ledger was lost, or written by an
    /// older state of the disk. What the marker says is taken over.
    pub(super) fn adopt_markers(&mut self) {
        let is_known = |ledger: &Ledger, mark: &Mark| ledger.files.contains_key(mark.file.as_str());
        let markers = self.observation.markers.values();
        let mut new: Vec<(&str, Arc<Mark>)> = markers
            .filter_map(|marker| Some((marker.path.as_str(), marker.mark.clone()?)))
            .filter(|(_, mark)| mark.code != Code::Provisional && !is_known(&self.ledger, mark))
            .collect();
        new.sort_unstable_by_key(|(path, _)| *path);
        for (_, mark) in new {
            // Of a marker and its copies under other names the first counts.
            if is_known(&self.ledger, &mark) {
                continue;
            }
            let state = match mark.code {
                Code::HeldAppliedOnce => State::Applied { cause: Cause::Met },
                code => State::Held {
                    code,
                    why: mark.why.clone(),
                },
            };
            let manual = (mark.code == Code::HeldByHand).then(|| {
                Box::new(Manual {
                    hold: true,
                    by: "unknown (read from the marker)".to_owned(),
                    at: mark.since,
                    reason: mark.why.to_string(),
                })
            });
            self.verdicts.outdate();
            self.interests = None;
            Arc::make_mut(&mut self.ledger).files.insert(
                mark.file.as_str().into(),
                Arc::new(Entry {
                    digest: mark.digest.clone(),
                    first_seen: mark.since,
                    since: mark.since,
                    state,
                    told: Told::default(),
                    manual,
                }),
            );
        }
    }

    /// A manifest file is new or being written: the marker that keeps RKE2 from reading it half-way,
    /// until a scan has read it whole. `None` when there is a marker already, or it is not ours to
    /// hold.
    pub fn appeared(&self, path: &str, now: Timestamp) -> Option<Action> {
        let name = base_name(path);
        if !self.settings.staging.enabled
            || rke2::owner(path).is_some()
            || self.observation.markers.contains_key(name)
        {
            return None;
        }
        Some(Action::Hold {
            path: marker_path(path),
            mark: Arc::new(provisional(path, now)),
        })
    }

    /// Which markers are not as they were decided to be. True when that is news: what the status says changes by it.
    pub fn markers_troubled(&mut self, troubles: BTreeMap<String, MarkerTrouble>) -> bool {
        let news = self.observation.marker_troubles != troubles;
        self.observation.marker_troubles = troubles;
        news
    }

    /// Does a marker of Windrow's hide a file of this base name?
    pub fn hides(&self, name: &str) -> bool {
        let marker = self.observation.markers.get(name);
        marker.is_some_and(|marker| marker.mark.is_some())
    }

    /// An action was carried out: what it changed is known without another look at the directory.
    pub fn done(&mut self, action: &Action) {
        match action {
            Action::Hold { path, mark } => {
                let name = hidden_name(path);
                self.verdicts.carried_out(self.planned.lookup.named(name));
                if !(self.planned.lookup).hides_ours(&self.planned.plan, name) {
                    self.verdicts.markers_changed();
                }
                self.observation.markers.insert(
                    name.to_owned(),
                    Marker {
                        path: path.clone(),
                        mark: Some(Arc::clone(mark)),
                    },
                );
            }
            Action::Lift { path } => {
                let name = hidden_name(path);
                self.verdicts.carried_out(self.planned.lookup.named(name));
                self.verdicts.marker_went();
                self.observation.markers.remove(name);
            }
            Action::SaveLedger(_) => {}
        }
    }
}

/// The marker that keeps a file from RKE2 for the moment it takes to read it; `windrow stage` puts
/// it in place before the file.
pub fn provisional(path: &str, now: Timestamp) -> Mark {
    Mark {
        by: Mark::BY.to_owned(),
        file: path.to_owned(),
        code: Code::Provisional,
        why: Code::Provisional.say(&[]).into(),
        since: now,
        on_failure: OnFailure::Lift,
        digest: "".into(),
        release: format!("windrow release {path}"),
    }
}
