//! The markers that have to be created or removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_model::manifest::{BaseName, MarkerPath};
use windrow_model::reasons::Code;
use windrow_plan::PlanFile;

use super::action::Action;
use super::ledger::{FileStage, Ledger};
use super::ledger_update::RETURN_GRACE;
use super::mark::{Mark, says_applied_once};
use super::observation::Marker;
use super::outcome::{DecisionContext, FileHold, FileOutcome};

#[derive(Debug, Default)]
pub(super) struct MarkerChanges {
    pub(super) holds: Vec<Action>,
    pub(super) lifts: Vec<Action>,
}

impl MarkerChanges {
    /// Compares the outcomes with the existing markers. `after` is the ledger after the decision.
    pub(super) fn from_outcomes(
        context: &DecisionContext<'_>,
        outcomes: &[FileOutcome],
        after: &Ledger,
    ) -> Self {
        let mut changes = Self::default();
        for (file, outcome) in context.plan.files.iter().zip(outcomes) {
            changes.compare_file(context, file, outcome, after);
        }
        changes.lift_strays(context, after);
        changes.keep_shared_markers(context, outcomes);
        // A marker stays while its file is being written, whatever was decided about the earlier content.
        let written = &context.observation.being_written;
        changes
            .lifts
            .retain(|action| marker_of(action).is_none_or(|path| !written.contains(&path.hides())));
        changes
    }

    fn compare_file(
        &mut self,
        context: &DecisionContext<'_>,
        file: &PlanFile,
        outcome: &FileOutcome,
        after: &Ledger,
    ) {
        let marker = context.observation.markers.get(&file.name);
        let entry = after.files.get(&file.path);
        // The held content. For an unreadable file, its last known content.
        let digest = entry.map_or(&file.digest, |entry| &entry.digest);
        match outcome {
            FileOutcome::Hold(hold)
                if marker.is_none_or(|marker| {
                    is_outdated(marker, file, hold, digest) || is_of_absent(marker, hold, context)
                }) =>
            {
                let since = entry.map_or(context.now, |entry| entry.since);
                let path = match marker {
                    Some(marker) => marker.path.clone(),
                    None => file.path.marker(),
                };
                self.holds.push(Action::Hold {
                    path,
                    mark: Arc::new(make_mark(file, hold, since, digest)),
                });
            }
            FileOutcome::Release(_) | FileOutcome::Applied(_) => {
                let ours = marker.filter(|marker| marker.mark.is_some());
                self.lifts.extend(ours.map(lift));
            }
            FileOutcome::Hold(_) | FileOutcome::NotOurs | FileOutcome::HeldByOther => {}
        }
    }

    /// Removes Windrow's markers without a file, and those that hide a file that Windrow may not hold.
    fn lift_strays(&mut self, context: &DecisionContext<'_>, after: &Ledger) {
        let files = context.plan.files.iter();
        let ours = files.filter(|file| file.owner.is_none());
        let names: BTreeSet<&BaseName> = ours.map(|file| &file.name).collect();
        let markers = context.observation.markers.iter();
        let mut strays: Vec<_> = markers.filter(|(name, _)| !names.contains(name)).collect();
        strays.sort_unstable_by_key(|(name, _)| *name);
        for (_, marker) in strays {
            let Some(mark) = &marker.mark else { continue };
            // `windrow add` creates the marker before the file. If the marker's time is in the future, the clock was
            // set back.
            let age = context.now.duration_since(mark.since).abs();
            let staged = mark.code == Code::Provisional && age < RETURN_GRACE;
            let entry = after.files.get(&mark.file);
            let held = entry.is_some_and(|entry| matches!(entry.state, FileStage::Held { .. }));
            if !staged && !held {
                self.lifts.push(lift(marker));
            }
        }
    }

    /// Files with the same name share the marker in all directories. One of them may still need it when another does
    /// not.
    fn keep_shared_markers(&mut self, context: &DecisionContext<'_>, outcomes: &[FileOutcome]) {
        let plan = context.plan;
        if plan.namesakes.is_empty() {
            return;
        }
        let is_held = |id: &usize| matches!(outcomes[*id], FileOutcome::Hold(_));
        let shared = plan.namesakes.iter().filter(|ids| ids.iter().any(is_held));
        let held: BTreeSet<&BaseName> = shared
            .filter_map(|ids| ids.first())
            .map(|id| &plan.files[*id].name)
            .collect();
        self.lifts
            .retain(|action| marker_of(action).is_none_or(|path| !held.contains(&path.hides())));
        for actions in [&mut self.holds, &mut self.lifts] {
            let mut names = BTreeSet::new();
            actions
                .retain(|action| marker_of(action).is_none_or(|path| names.insert(path.hides())));
        }
    }
}

fn marker_of(action: &Action) -> Option<&MarkerPath> {
    match action {
        Action::Hold { path, .. } | Action::Lift { path } => Some(path),
        Action::SaveLedger(_) => None,
    }
}

fn lift(marker: &Marker) -> Action {
    Action::Lift {
        path: marker.path.clone(),
    }
}

fn is_outdated(marker: &Marker, file: &PlanFile, hold: &FileHold, digest: &SmolStr) -> bool {
    marker.mark.as_ref().is_some_and(|old| {
        old.code == Code::Provisional
            // After a loss of the ledger, only the marker shows that RKE2 has applied the file.
            || old.says_applied_once() && old.code != hold.code && old.file == file.path
            // The same for a hold by hand.
            || (hold.code == Code::HeldByHand) != (old.code == Code::HeldByHand)
            || old.on_failure != hold.on_failure
            || (old.file == file.path && old.digest != *digest)
    })
}

/// Was it written for a removed file, and does it now hold another file with this name? The marker of a file that was
/// applied once does not change, unless the other file was applied once as well: the removed file may come back.
fn is_of_absent(marker: &Marker, hold: &FileHold, context: &DecisionContext<'_>) -> bool {
    marker.mark.as_ref().is_some_and(|mark| {
        let mut files = context.plan.files.iter();
        let may_change = !mark.says_applied_once() || says_applied_once(hold.code);
        may_change && files.all(|file| file.path != mark.file)
    })
}

fn make_mark(file: &PlanFile, hold: &FileHold, since: Timestamp, digest: &SmolStr) -> Mark {
    Mark {
        by: Mark::BY.to_owned(),
        file: file.path.clone(),
        code: hold.code,
        why: Mark::shortened(&hold.why),
        since,
        on_failure: hold.on_failure,
        digest: digest.clone(),
        release: ["windrow release ", &file.path].concat(),
    }
}
