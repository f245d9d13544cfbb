//! The decision about one file: may RKE2 have it, and if not, why not.
//!
//! ```text
//!            new content                 everything met, a deadline, an order
//!   (unseen) ───────────> Held ──────────────────────────────────────> Released ──> Applied
//!       └──────────────── nothing to wait for ────────────────────────────^            │
//!                                                          windrow.dev/apply: once ────┘ kept
//! ```
//!
//! Forward only: Released and Applied never go back for the same content. New content starts again. The one exception
//! is a file that was released because of objects that RKE2 applies before it in the same pass: until it is applied, it
//! is decided again.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;
use jiff::{SignedDuration, Timestamp};
use smol_str::SmolStr;
use windrow_model::manifest::{AddonName, BaseName, ManifestPath};
use windrow_model::reasons::Code;
use windrow_plan::readiness::NeedState;
use windrow_plan::rules::Tier;
use windrow_plan::{
    FileId, FileObstacle, NeedId, NextPass, Plan, PlanFile, TakenFiles, TakenUp, WAITS_FOR_ADDONS,
};

use super::ledger::{Cause, FileStage, Ledger, LedgerEntry, Manual};
use super::mark::OnFailure;
use super::observation::{Addon, ApplyFailure, MarkerTrouble, Observation};
use crate::settings::Staging;

/// RKE2 reads the directories of the manifests one after the other. That takes milliseconds, and longer only if RKE2 is
/// blocked.
const LONGEST_LOOK: SignedDuration = SignedDuration::from_secs(10);
/// RKE2 retries a failed file after 15 s. A later failure is not the first one, which may be due to a restart of
/// kube-apiserver.
const SECOND_TRY: SignedDuration = SignedDuration::from_secs(20);

/// The longest time between RKE2's check for a marker and its use of the file: it applies the files before it first.
const LONGEST_PASS: SignedDuration = SignedDuration::from_mins(5);

#[derive(Debug, Clone, PartialEq)]
pub(super) enum FileOutcome {
    /// The file belongs to RKE2 or Rancher. Windrow does not change it.
    NotOurs,
    /// A marker that Windrow did not make hides it.
    HeldByOther,
    Hold(Box<FileHold>),
    Release(Cause),
    /// RKE2 has applied exactly this content.
    Applied(Cause),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileHold {
    pub(super) code: Code,
    pub(super) why: SmolStr,
    pub(super) on_failure: OnFailure,
    pub(super) blockers: Vec<UnmetNeed>,
    /// When it is released even if nothing changes.
    pub(super) deadline: Option<Timestamp>,
    /// When it becomes overdue, if it is kept past its deadline.
    pub(super) overdue: Option<Timestamp>,
    /// RKE2 has applied the file, and it is kept from RKE2 since then.
    pub(super) after_apply: bool,
}

impl FileHold {
    /// A hold that only a user or new content can end.
    fn without_end(code: Code, why: impl Into<SmolStr>) -> Self {
        Self {
            code,
            why: why.into(),
            on_failure: OnFailure::Keep,
            blockers: Vec::new(),
            deadline: None,
            overdue: None,
            after_apply: false,
        }
    }
}

/// An unmet need of a file. It is listed once, however many objects of the file have it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UnmetNeed {
    pub(super) need: NeedId,
    pub(super) tier: Tier,
    /// The first document that has the need, and the index of the requirement in it.
    pub(super) document: usize,
    pub(super) requirement: usize,
    pub(super) objects: usize,
}

/// The input of a decision.
pub(super) struct DecisionContext<'a> {
    pub(super) staging: &'a Staging,
    pub(super) plan: &'a Plan,
    pub(super) observation: &'a Observation,
    pub(super) ledger: &'a Ledger,
    /// Names that a user holds. The hold applies to every file with the name, whether or not the file existed then.
    pub(super) held_names: &'a BTreeMap<BaseName, &'a Manual>,
    pub(super) needs: &'a [NeedState],
    pub(super) now: Timestamp,
}

impl DecisionContext<'_> {
    /// Decides about every file of the plan. The outcomes are in the plan's order.
    pub(super) fn decide_files(&self) -> Vec<FileOutcome> {
        self.plan.play_pass(|whole| {
            let mut pass = NextPass::new(self.plan, whole);
            for (id, file) in self.plan.files.iter().enumerate() {
                let entry = self.ledger.files.get(&file.path).map(Arc::as_ref);
                if let Some(FileOutcome::Applied(_)) = self.settled(file, entry) {
                    pass.note_applied(id);
                }
            }
            let mut taken_files = TakenFiles::new();
            let mut outcomes = Vec::with_capacity(self.plan.files.len());
            for (id, file) in self.plan.files.iter().enumerate() {
                let outcome = self.decide_file(id, file, &pass);
                if let Some(taken) = self.how_taken_up(file, &outcome) {
                    pass.take_up(id, taken);
                    taken_files.insert(id, taken);
                }
                outcomes.push(outcome);
            }
            for same_name in &self.plan.namesakes {
                self.hold_together(same_name, &mut outcomes);
            }
            (outcomes, taken_files)
        })
    }

    fn decide_file(&self, id: FileId, file: &PlanFile, pass: &NextPass<'_>) -> FileOutcome {
        // The entry may be about other content of this file.
        let entry = self.ledger.files.get(&file.path).map(Arc::as_ref);
        let known = entry.filter(|entry| entry.digest == file.digest);
        if let Some(outcome) = self.settled(file, entry) {
            return outcome;
        }
        let began = known.map_or(self.now, |entry| entry.first_seen);
        match &file.refused {
            Some(why) => self.refused(why, began),
            None => {
                // As long as its marker exists, RKE2 cannot be about to apply it.
                let is_shown = !self.observation.markers.contains_key(&file.name);
                let wait = Wait {
                    waited: known.is_some(),
                    began,
                    relied: is_shown && known.is_some_and(relies_on_pass),
                    failed_again: known.is_some_and(|entry| self.has_failed_again(file, entry)),
                };
                let outcome = self.decide_by_needs(id, pass, &wait);
                match outcome {
                    FileOutcome::Release(_) if file.apply_once => {
                        self.wait_for_addons(began).unwrap_or(outcome)
                    }
                    outcome => outcome,
                }
            }
        }
    }

    /// How RKE2's next pass applies a file; `None` if it does not, or may not.
    fn how_taken_up(&self, file: &PlanFile, outcome: &FileOutcome) -> Option<TakenUp> {
        let is_new = match outcome {
            FileOutcome::Release(_) => true,
            FileOutcome::Applied(_) => false,
            _ => return None,
        };
        let marker = self.observation.markers.get(&file.name);
        let trouble = self.observation.marker_troubles.get(&file.name);
        let stays = matches!(trouble, Some(MarkerTrouble::NotRemoved(_)))
            || self.observation.being_written.contains(&file.name)
            || marker.is_some_and(|marker| marker.path != file.path.marker());
        (!stays).then_some(TakenUp {
            is_new,
            writes_all: applies_whole(outcome) && self.is_unknown_to_rke2(file),
            was_hidden: marker.is_some() || self.was_just_released(file),
        })
    }

    /// Did RKE2 never apply any content of this file? Before the Addons are listed, Windrow assumes this only if RKE2
    /// applied no file at all.
    fn is_unknown_to_rke2(&self, file: &PlanFile) -> bool {
        match &self.observation.addons {
            Some(addons) => !addons.contains_key(&file.addon),
            None => {
                let mut entries = self.ledger.files.values();
                !entries.any(|entry| matches!(entry.state, FileStage::Applied { .. }))
            }
        }
    }

    fn has_failed_again(&self, file: &PlanFile, entry: &LedgerEntry) -> bool {
        let up = self.observation.api.first_reachable;
        let began = up.map_or(entry.first_seen, |up| up.max(entry.first_seen));
        let failure = self.failure_of(file);
        failure.is_some_and(|failure| failure.at.duration_since(began) > SECOND_TRY)
    }

    /// RKE2's last failure with a file. Files with the same Addon share its events, which name the file.
    pub(super) fn failure_of(&self, file: &PlanFile) -> Option<&ApplyFailure> {
        let failure = self.observation.failures.get(&file.addon)?;
        let files = self.plan.files.iter();
        let named = files
            .filter(|other| other.addon == file.addon && failure.may_be_of(&other.path))
            .max_by_key(|other| other.path.len());
        // An event about a removed or moved file belongs to none of them.
        let names_none = !failure.names_a_file();
        let is_of = named.map_or(names_none, |named| named.path == file.path);
        is_of.then_some(failure)
    }

    /// Did an earlier decision release this content a moment ago? Its marker may have been removed then.
    fn was_just_released(&self, file: &PlanFile) -> bool {
        let entry = self.ledger.files.get(&file.path);
        let known = entry.filter(|entry| entry.digest == file.digest);
        known.is_some_and(|entry| self.now.duration_since(entry.since) < LONGEST_LOOK)
    }

    /// A marker hides its name in every directory. So files with the same name are held and released together.
    fn hold_together(&self, same_name: &[FileId], outcomes: &mut [FileOutcome]) {
        let holds = same_name.iter().filter_map(|&id| match &outcomes[id] {
            FileOutcome::Hold(hold) => Some((id, hold)),
            _ => None,
        });
        let Some((holder, hold)) = holds.clone().next() else {
            return;
        };
        // All of them share one marker. It stays if its removal would harm one of the files.
        let keeps = holds
            .clone()
            .any(|(_, hold)| hold.on_failure == OnFailure::Keep);
        let on_failure = match keeps {
            true => OnFailure::Keep,
            false => OnFailure::Lift,
        };
        let name = &self.plan.files[holder].path;
        let shared = FileHold {
            code: Code::SameBaseName,
            why: format!("held together with {name}, which has the same name").into(),
            on_failure,
            blockers: Vec::new(),
            ..FileHold::clone(hold)
        };
        for &id in same_name {
            match &mut outcomes[id] {
                FileOutcome::Hold(hold) => hold.on_failure = on_failure,
                outcome @ FileOutcome::Release(_) => {
                    *outcome = FileOutcome::Hold(Box::new(shared.clone()));
                }
                _ => {}
            }
        }
    }

    /// The outcome of a file that depends neither on its needs nor on RKE2's refusal; `None` for one that waits for
    /// them.
    fn settled(&self, file: &PlanFile, entry: Option<&LedgerEntry>) -> Option<FileOutcome> {
        if file.owner.is_some() {
            return Some(FileOutcome::NotOurs);
        }
        if let Some(marker) = self.observation.markers.get(&file.name)
            && marker.mark.is_none()
        {
            return Some(FileOutcome::HeldByOther);
        }
        let known = entry.filter(|entry| entry.digest == file.digest);
        let manual = entry.and_then(|entry| entry.manual.as_ref());
        if let Some(manual) = self.held_names.get(&file.name) {
            return Some(FileOutcome::Hold(Box::new(FileHold::without_end(
                Code::HeldByHand,
                manual.why(),
            ))));
        }
        if file.harmful {
            return Some(FileOutcome::Hold(Box::new(FileHold::without_end(
                Code::SpecialFile,
                "not a file: RKE2 would hang when opening it".to_owned(),
            ))));
        }
        if let Some(entry) = entry.filter(|entry| is_about_read_content(entry, file)) {
            return Some(self.as_before(file, entry));
        }
        let by_hand = known.is_some() && manual.is_some_and(|manual| !manual.hold);
        let applied = self.is_applied(file);
        // Once means once: a VM that a user stopped is not started again.
        let stays_applied = file.apply_once || !self.is_forgotten(file);
        let past = known.and_then(|entry| match entry.state {
            // The objects that it relies on may be gone again.
            _ if relies_on_pass(entry) && !applied && !by_hand => None,
            FileStage::Released { cause } => Some((cause, false)),
            FileStage::Applied { cause } if stays_applied => Some((cause, true)),
            FileStage::Applied { cause } => by_hand.then_some((cause, false)),
            FileStage::Held { .. } => None,
        });
        if let Some((cause, was_applied)) = past {
            let cause = if by_hand { Cause::ByHand } else { cause };
            return Some(self.let_through(file, cause, applied || was_applied, by_hand));
        }
        if by_hand {
            return Some(self.let_through(file, Cause::ByHand, applied, true));
        }
        if !self.staging.enabled {
            return Some(self.let_through(file, Cause::Off, applied, false));
        }
        if file.apply_once && known.is_some_and(|entry| entry.state.is_once_unconfirmed()) {
            match self.knows_addon_of(file) {
                Some(true) => return Some(self.let_through(file, Cause::Met, true, false)),
                Some(false) => {}
                None => {
                    let why = Code::OnceUnconfirmed.say(&[]);
                    let hold = FileHold::without_end(Code::OnceUnconfirmed, why);
                    return Some(FileOutcome::Hold(Box::new(hold)));
                }
            }
        }
        if applied {
            // RKE2 was faster than the marker, or another server applied the file.
            let cause = known.map_or(Cause::Free, |entry| self.cause_of_held(file, entry));
            return Some(self.let_through(file, cause, true, false));
        }
        let (reason, at) = file.hold.as_ref()?;
        Some(FileOutcome::Hold(Box::new(FileHold::without_end(
            Code::HeldByAnnotation,
            Code::HeldByAnnotation.say(&[("why", &format!("{reason} ({at})"))]),
        ))))
    }

    /// An unreadable file: its entry and its marker do not change. A hold that may end without harm ends after a while.
    fn as_before(&self, file: &PlanFile, entry: &LedgerEntry) -> FileOutcome {
        let marker = self.observation.markers.get(&file.name);
        let mark = marker.and_then(|marker| marker.mark.as_ref());
        match &entry.state {
            FileStage::Applied { .. } if mark.is_some_and(|mark| mark.says_applied_once()) => {
                self.hold_applied_once()
            }
            FileStage::Applied { cause } => FileOutcome::Applied(*cause),
            FileStage::Released { cause } => FileOutcome::Release(*cause),
            FileStage::Held { code, why } => {
                let mut hold = FileHold::without_end(*code, why.clone());
                if mark.is_some_and(|mark| mark.on_failure == OnFailure::Lift) {
                    hold.on_failure = OnFailure::Lift;
                    hold.deadline = self.deadline_from_start(self.staging.refused_deadline);
                }
                if hold.deadline.is_some_and(|at| at <= self.now) {
                    return FileOutcome::Release(Cause::Yielded);
                }
                FileOutcome::Hold(Box::new(hold))
            }
        }
    }

    /// Has RKE2 applied exactly these bytes? For a file that Windrow cannot read: any bytes of this path.
    fn is_applied(&self, file: &PlanFile) -> bool {
        let addons = self.observation.addons.as_ref();
        addons.is_some_and(|addons| has_applied(addons, file))
    }

    /// Is the content that RKE2 applied the same as at the first request of this process? Then Windrow cannot tell
    /// whether RKE2 applied it before the marker was created.
    pub(super) fn was_applied_at_first(&self, file: &PlanFile) -> bool {
        self.observation.addons_as_first.contains(&file.addon)
    }

    /// Why RKE2 applied a held file. An Addon does not say which server applied it. It may be this one, in a pass that
    /// began before the marker was created.
    pub(super) fn cause_of_held(&self, file: &PlanFile, entry: &LedgerEntry) -> Cause {
        let held_for = self.now.duration_since(entry.first_seen);
        if self.was_applied_at_first(file) {
            Cause::Free
        } else if held_for < LONGEST_PASS {
            Cause::Escaped
        } else {
            Cause::Elsewhere
        }
    }

    /// Has the cluster lost everything that RKE2 applied under this name? Either it has no Addons at all, like a new
    /// datastore, or RKE2 began with the file again: k3s creates an Addon without a checksum before it applies the
    /// file. If only one Addon is missing, it was deleted, and its objects exist.
    fn is_forgotten(&self, file: &PlanFile) -> bool {
        let addons = self.observation.addons.as_ref();
        addons.is_some_and(|addons| {
            let addon = addons.get(&file.addon);
            addons.is_empty() || addon.is_some_and(|addon| addon.checksum.is_empty())
        })
    }

    /// Does the cluster know that RKE2 applied some content of this path? `None` until the Addons are listed.
    fn knows_addon_of(&self, file: &PlanFile) -> Option<bool> {
        let addons = self.observation.addons.as_ref()?;
        let addon = addons.get(&file.addon);
        // The file may have been moved since then.
        let is_its = !self.is_overtaken(&file.path);
        Some(addon.is_some_and(|addon| !addon.checksum.is_empty() && is_its))
    }

    /// Holds a file that is to be applied once until RKE2's Addons are listed.
    fn wait_for_addons(&self, began: Timestamp) -> Option<FileOutcome> {
        let deadline = self.deadline(began, self.staging.inferred_deadline);
        let is_past = deadline.is_some_and(|deadline| deadline <= self.now);
        (self.observation.addons.is_none() && !is_past).then(|| {
            let mut hold = FileHold::without_end(Code::WaitsForCluster, WAITS_FOR_ADDONS);
            hold.on_failure = OnFailure::Lift;
            hold.deadline = deadline;
            FileOutcome::Hold(Box::new(hold))
        })
    }

    /// Has RKE2 applied another file with the same Addon? It applies them one after the other, within a moment. Windrow
    /// cannot tell whether it applied this one before, and RKE2 applies it again only after it is written again. So
    /// there is nothing left to wait for.
    pub(super) fn is_overtaken(&self, path: &ManifestPath) -> bool {
        let name = path.addon();
        let addons = self.observation.addons.as_ref();
        let Some(addon) = addons.and_then(|addons| addons.get(&name)) else {
            return false;
        };
        let files = self.plan.files.iter();
        let mut others = files.filter(|file| file.addon == name && file.path != *path);
        // It may have been moved since then.
        let has = |file: &PlanFile| addon.is_of(&file.path) || self.is_applied(file);
        !addon.is_of(path) && others.any(has)
    }

    /// Releases a file that no longer has to wait. It is applied if RKE2 has applied it, and then held if it is to be
    /// applied once.
    fn let_through(
        &self,
        file: &PlanFile,
        cause: Cause,
        applied: bool,
        by_hand: bool,
    ) -> FileOutcome {
        if !applied {
            return FileOutcome::Release(cause);
        }
        if file.apply_once && !by_hand && self.staging.enabled {
            return self.hold_applied_once();
        }
        FileOutcome::Applied(cause)
    }

    fn hold_applied_once(&self) -> FileOutcome {
        let mut hold = FileHold::without_end(Code::HeldAppliedOnce, Code::HeldAppliedOnce.say(&[]));
        hold.after_apply = true;
        FileOutcome::Hold(Box::new(hold))
    }

    fn refused(&self, why: &str, began: Timestamp) -> FileOutcome {
        let deadline = self.deadline(began, self.staging.refused_deadline);
        if deadline.is_some_and(|deadline| deadline <= self.now) {
            return FileOutcome::Release(Cause::Yielded);
        }
        let mut hold =
            FileHold::without_end(Code::HeldRefused, Code::HeldRefused.say(&[("why", why)]));
        hold.on_failure = OnFailure::Lift;
        hold.deadline = deadline;
        FileOutcome::Hold(Box::new(hold))
    }
}

/// Do these Addons say that RKE2 has applied the file? RKE2 creates the Addon before it applies a file, with an empty
/// checksum.
fn has_applied(addons: &HashMap<AddonName, Addon>, file: &PlanFile) -> bool {
    let Some(addon) = addons.get(&file.addon) else {
        return false;
    };
    match is_unread(file) {
        true => !addon.checksum.is_empty() && addon.is_of(&file.path),
        false => !file.sha256.is_empty() && addon.checksum == file.sha256,
    }
}

/// Does RKE2 read a file that Windrow does not? Its content is then unknown.
pub(super) fn is_unread(file: &PlanFile) -> bool {
    let goes_to_rke2 = matches!(
        file.trouble,
        Some(FileObstacle::Unseen | FileObstacle::Unreadable)
    );
    file.sha256.is_empty() && goes_to_rke2
}

/// Is the file unreadable, and is its entry about earlier content that was read?
pub(super) fn is_about_read_content(entry: &LedgerEntry, file: &PlanFile) -> bool {
    file.trouble == Some(FileObstacle::Unreadable) && entry.digest != file.digest
}

pub(super) struct Wait {
    /// Has an earlier decision held this content?
    pub(super) waited: bool,
    pub(super) began: Timestamp,
    /// Was it released because of objects that RKE2 applies before it in the same pass?
    pub(super) relied: bool,
    /// Did RKE2 fail to apply it more than once? Then the file waits until the required objects exist.
    pub(super) failed_again: bool,
}

/// Can RKE2 apply every object of the file?
fn applies_whole(outcome: &FileOutcome) -> bool {
    let causes = [Cause::Free, Cause::Met, Cause::SamePass];
    matches!(outcome, FileOutcome::Release(cause) if causes.contains(cause))
}

/// Was the file released because of objects that RKE2 applies before it in the same pass?
fn relies_on_pass(entry: &LedgerEntry) -> bool {
    let cause = Cause::SamePass;
    entry.state == FileStage::Released { cause }
}

/// Does a user or an annotation hold it, rather than a missing object?
pub fn on_purpose(code: Code) -> bool {
    matches!(
        code,
        Code::HeldByAnnotation | Code::HeldByHand | Code::HeldAppliedOnce
    )
}
