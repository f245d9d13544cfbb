//! What is to become of every file, decided again only where something changed that it rests on.
//!
//! A file's outcome rests on its needs, its marker, its Addon and RKE2's word about it, its entry in the
//! ledger, kube-apiserver's answering, the progress of files that it is advised to wait for, and the time.
//! Each of them is told here when it changes. That nothing is missed is compared in every build with
//! debug assertions: [`super::Engine::decide`] decides everything anew beside it.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use windrow_model::reasons::Code;
use windrow_plan::{FileId, Plan};

use super::files::{Context, Hold, Outcome};
use super::ids::Ids;
use super::ledger::Entry;
use super::lookup::Lookup;
use super::observation::OnFailure;

/// What is to become of every file.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    /// By [`FileId`].
    of: Vec<Verdict>,
    /// What has to be decided again.
    stale: Ids,
    /// What was decided and is being carried out.
    under_way: Ids,
    /// All of it has to be.
    outdated: bool,
    /// Every entry of the ledger is of a file that is there. What is decided of files that are there does
    /// not change that.
    complete: bool,
    /// Is every marker one of a file that is there and is ours to hold? None where it has to be looked at.
    at_home: Option<bool>,
}

/// What is to become of one file.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    /// When time alone may make it another.
    turns: Option<Timestamp>,
    /// What the ledger says of it.
    entry: Option<Arc<Entry>>,
}

impl Verdicts {
    /// The plan, or more than can be told, has changed.
    pub(super) fn outdate(&mut self) {
        self.outdated = true;
        self.at_home = None;
    }

    /// Markers came or went.
    pub(super) fn markers_changed(&mut self) {
        self.at_home = None;
    }

    /// One went: that can have been the last one that was not at home.
    pub(super) fn marker_went(&mut self) {
        self.at_home = self.at_home.filter(|at_home| *at_home);
    }

    /// May there be markers of which the file is gone, or not ours?
    pub(super) fn has_strays(&mut self, context: &Context<'_>, lookup: &Lookup) -> bool {
        let ours = |name: &String| lookup.hides_ours(context.plan, name);
        let look = || context.observation.markers.keys().all(ours);
        !*self.at_home.get_or_insert_with(look)
    }

    /// Something changed on which these files rest.
    pub(super) fn doubt(&mut self, files: &[FileId]) {
        self.stale.extend(files);
    }

    /// What was decided of these files is being carried out, or was: what is to become of them stays, and
    /// whether there is anything left to do is to be seen.
    pub(super) fn carried_out(&mut self, files: &[FileId]) {
        self.under_way.extend(files);
    }

    /// Decides again what is not known to be as it was. The files of which something can follow, in order.
    pub(super) fn look(&mut self, context: &Context<'_>, lookup: &Lookup) -> Ids {
        let files = &context.plan.files;
        let mut looked_at = std::mem::take(&mut self.under_way);
        let mut stale = std::mem::take(&mut self.stale);
        looked_at.cut(files.len());
        stale.cut(files.len());
        let all = std::mem::take(&mut self.outdated) || self.of.len() != files.len();
        let stale = match all {
            true => {
                let mut known = context.ledger.files.keys();
                self.complete = known.all(|path| lookup.has(context.plan, path));
                self.of.clear();
                looked_at = Ids::default();
                Ids::below(files.len())
            }
            false => self.due(stale, lookup, context.now),
        };
        for id in stale.iter() {
            let file = &files[id];
            let in_ledger = || context.ledger.files.get(file.path.as_str());
            let known = self.of.get_mut(id);
            let entry = match &known {
                Some(known) => known.entry.clone(),
                None => in_ledger().cloned(),
            };
            debug_assert_eq!(entry.as_ref(), in_ledger(), "of {}", file.path);
            let (outcome, turns) = context.outcome(file, entry.as_deref());
            let verdict = Verdict {
                outcome,
                turns,
                entry,
            };
            match known {
                Some(known) => *known = verdict,
                None => self.of.push(verdict),
            }
        }
        for ids in &context.plan.namesakes {
            if stale.contains(ids[0]) {
                self.hold_together(ids, context.plan);
            }
        }
        looked_at.join(&stale);
        looked_at
    }

    /// With those whose time has come, and with whatever shares a marker with one of them.
    fn due(&self, mut stale: Ids, lookup: &Lookup, now: Timestamp) -> Ids {
        for (id, verdict) in self.of.iter().enumerate() {
            if verdict.turns.is_some_and(|at| at <= now) {
                stale.insert(id);
            }
        }
        if lookup.has_namesakes() {
            for id in stale.clone().iter() {
                stale.extend(lookup.namesakes_of(id));
            }
        }
        stale
    }

    /// A marker hides its name in every directory, so files of one name are held and released together.
    fn hold_together(&mut self, ids: &[FileId], plan: &Plan) {
        let holds = ids.iter().filter_map(|&id| match &self.of[id].outcome {
            Outcome::Hold(hold) => Some((id, hold)),
            _ => None,
        });
        let Some((holder, hold)) = holds.clone().next() else {
            return;
        };
        // One marker stands for all of them: where lifting it harms one file, it stays.
        let keeps = holds
            .clone()
            .any(|(_, hold)| hold.on_failure == OnFailure::Keep);
        let on_failure = match keeps {
            true => OnFailure::Keep,
            false => OnFailure::Lift,
        };
        let hold = Hold {
            on_failure,
            ..Hold::clone(hold)
        };
        for &id in ids {
            if let Outcome::Hold(hold) = &mut self.of[id].outcome {
                hold.on_failure = on_failure;
            }
            if matches!(self.of[id].outcome, Outcome::Release(_)) {
                self.of[id].outcome = Outcome::hold(Hold {
                    code: Code::SameBaseName,
                    why: format!(
                        "held together with {}, which has the same name",
                        plan.files[holder].path
                    )
                    .into(),
                    blockers: Vec::new(),
                    ..hold.clone()
                });
            }
        }
    }

    /// Names of several files, at least one of them held.
    pub(super) fn held_names<'p>(&self, plan: &'p Plan) -> BTreeSet<&'p str> {
        let held = |id: &FileId| matches!(self.of[*id].outcome, Outcome::Hold(_));
        let shared = plan.namesakes.iter().filter(|ids| ids.iter().any(held));
        shared
            .filter_map(|ids| ids.first())
            .map(|id| plan.files[*id].name.as_str())
            .collect()
    }

    /// May the ledger know of files that are not there?
    pub(super) fn lack_files(&self) -> bool {
        !self.complete
    }

    /// What is to become of a file that was looked at.
    pub(super) fn of(&self, file: FileId) -> &Outcome {
        &self.of[file].outcome
    }

    /// What the ledger says of a file that was looked at.
    pub(super) fn entry_of(&self, file: FileId) -> Option<&Arc<Entry>> {
        self.of[file].entry.as_ref()
    }

    /// The ledger says something else of a file now.
    pub(super) fn enter(&mut self, file: FileId, entry: Option<Arc<Entry>>) {
        self.of[file].entry = entry;
    }

    /// What the ledger says of every file, by [`FileId`], where that is known of as many as there are.
    pub(super) fn entries(&self, files: usize) -> Option<impl Iterator<Item = Option<&Entry>>> {
        let known = !self.outdated && self.of.len() == files;
        known.then(|| self.of.iter().map(|verdict| verdict.entry.as_deref()))
    }

    /// Every file's, by [`FileId`].
    pub(super) fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.of.iter().map(|verdict| &verdict.outcome)
    }
}
