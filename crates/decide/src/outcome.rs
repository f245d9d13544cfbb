//! One file: may RKE2 have it, and if not, why not.
//!
//! ```text
//!            new content                 everything met, a deadline, a person
//!   (unseen) ───────────> Held ──────────────────────────────────────> Released ──> Applied
//!       └──────────────── nothing to wait for ────────────────────────────^            │
//!                                                          windrow.dev/apply: once ────┘ kept
//! ```
//!
//! Forward only: Released and Applied never go back for the same content. New content starts over.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_model::reasons::Code;
use windrow_plan::readiness::NeedState;
use windrow_plan::rules::{Condition, OnDeadline, Tier};
use windrow_plan::{FileId, NeedId, Plan, PlanFile, Requirement, SatisfiedBy};

use super::ledger::{Cause, Entry, Ledger, State};
use super::mark::OnFailure;
use super::observation::Observation;
use super::status::Blocker;
use crate::settings::Staging;

/// What is to become of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FileOutcome {
    /// The file belongs to RKE2 or Rancher. Windrow leaves it alone.
    NotOurs,
    /// Somebody else's marker hides it.
    HeldByOther,
    /// Keep it from RKE2.
    Hold(Box<FileHold>),
    /// Let RKE2 have it.
    Release(Cause),
    /// RKE2 has applied exactly this.
    Applied(Cause),
}

/// A hold and its reasons.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileHold {
    pub(super) code: Code,
    pub(super) why: SmolStr,
    pub(super) on_failure: OnFailure,
    pub(super) blockers: Vec<UnmetNeed>,
    /// When it will be released though nothing changes.
    pub(super) deadline: Option<Timestamp>,
    /// When the hold is reported as overdue, if it is kept past its deadline.
    pub(super) overdue: Option<Timestamp>,
    /// RKE2 has applied the file, and it is kept from RKE2 since then.
    pub(super) after_apply: bool,
}

impl FileHold {
    /// A hold that only a person or new content ends.
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

/// A need that a file waits for. It is listed once, however many objects of the file have it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UnmetNeed {
    need: NeedId,
    tier: Tier,
    /// The first document that has the need, and which of its requirements it is.
    document: usize,
    requirement: usize,
    /// How many objects of the file have the need.
    objects: usize,
}

/// What a decision is made from.
pub(super) struct DecisionContext<'a> {
    pub(super) staging: &'a Staging,
    pub(super) plan: &'a Plan,
    pub(super) observation: &'a Observation,
    /// The ledger before the decision.
    pub(super) ledger: &'a Ledger,
    /// The state of every need of the plan.
    pub(super) needs: &'a [NeedState],
    pub(super) now: Timestamp,
}

impl DecisionContext<'_> {
    /// Decides every file of the plan. The outcomes are in the plan's order.
    pub(super) fn decide_files(&self) -> Vec<FileOutcome> {
        let files = self.plan.files.iter();
        let mut outcomes: Vec<FileOutcome> = files.map(|file| self.decide_file(file)).collect();
        for same_name in &self.plan.namesakes {
            self.hold_together(same_name, &mut outcomes);
        }
        outcomes
    }

    fn decide_file(&self, file: &PlanFile) -> FileOutcome {
        // The entry may be about other content of this file.
        let entry = self.ledger.files.get(&file.path).map(Arc::as_ref);
        match self.settled(file, entry) {
            Ok(outcome) => outcome,
            Err(began) => {
                let known = entry.is_some_and(|entry| entry.digest == file.digest);
                match &file.refused {
                    Some(why) => self.refused(why, began),
                    None => self.waiting(file, known, began),
                }
            }
        }
    }

    /// A marker hides its name in every directory. So files of one name are held and released together.
    fn hold_together(&self, same_name: &[FileId], outcomes: &mut [FileOutcome]) {
        let holds = same_name.iter().filter_map(|&id| match &outcomes[id] {
            FileOutcome::Hold(hold) => Some((id, hold)),
            _ => None,
        });
        let Some((holder, hold)) = holds.clone().next() else {
            return;
        };
        // All of them share one marker. It stays when lifting it would harm one of the files.
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

    /// The outcome where it does not depend on the file's needs. Otherwise the time since when the file waits.
    fn settled(&self, file: &PlanFile, entry: Option<&Entry>) -> Result<FileOutcome, Timestamp> {
        if file.owner.is_some() {
            return Ok(FileOutcome::NotOurs);
        }
        if let Some(marker) = self.observation.markers.get(&file.name)
            && marker.mark.is_none()
        {
            return Ok(FileOutcome::HeldByOther);
        }
        let known = entry.filter(|entry| entry.digest == file.digest);
        let manual = entry.and_then(|entry| entry.manual.as_ref());
        if let Some(manual) = manual.filter(|manual| manual.hold) {
            return Ok(FileOutcome::Hold(Box::new(FileHold::without_end(
                Code::HeldByHand,
                Code::HeldByHand.say(&[("why", &format!("{} ({})", manual.reason, manual.by))]),
            ))));
        }
        if file.harmful {
            return Ok(FileOutcome::Hold(Box::new(FileHold::without_end(
                Code::SpecialFile,
                "not a file: RKE2 would hang when it opens it".to_owned(),
            ))));
        }
        let by_hand = known.is_some() && manual.is_some_and(|manual| !manual.hold);
        let applied = self.is_applied(file);
        let past = known.and_then(|entry| match entry.state {
            State::Released { cause } => Some((cause, false)),
            State::Applied { cause } => Some((cause, true)),
            State::Held { .. } => None,
        });
        if let Some((cause, was_applied)) = past {
            let cause = if by_hand { Cause::ByHand } else { cause };
            return Ok(self.onward(file, cause, applied || was_applied, by_hand));
        }
        if by_hand {
            return Ok(self.onward(file, Cause::ByHand, applied, true));
        }
        if !self.staging.enabled {
            return Ok(self.onward(file, Cause::Off, applied, false));
        }
        if applied {
            // Our marker was there and RKE2 was quicker; or the ledger was lost and the file had
            // been applied long ago.
            let cause = match known {
                Some(_) => Cause::Escaped,
                None => Cause::Free,
            };
            return Ok(self.onward(file, cause, true, false));
        }
        if let Some((reason, at)) = &file.hold {
            return Ok(FileOutcome::Hold(Box::new(FileHold::without_end(
                Code::HeldByAnnotation,
                Code::HeldByAnnotation.say(&[("why", &format!("{reason} ({at})"))]),
            ))));
        }
        Err(known.map_or(self.now, |entry| entry.first_seen))
    }

    /// RKE2 has applied exactly these bytes.
    fn is_applied(&self, file: &PlanFile) -> bool {
        self.observation
            .addons
            .as_ref()
            .and_then(|addons| addons.get(&file.addon))
            .is_some_and(|addon| addon.checksum == file.sha256)
    }

    fn onward(&self, file: &PlanFile, cause: Cause, applied: bool, by_hand: bool) -> FileOutcome {
        if !applied {
            return FileOutcome::Release(cause);
        }
        if file.apply_once && !by_hand && self.staging.enabled {
            let mut hold =
                FileHold::without_end(Code::HeldAppliedOnce, Code::HeldAppliedOnce.say(&[]));
            hold.after_apply = true;
            return FileOutcome::Hold(Box::new(hold));
        }
        FileOutcome::Applied(cause)
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

    fn waiting(&self, file: &PlanFile, waited: bool, began: Timestamp) -> FileOutcome {
        // RKE2 applies what it can of a file. Holding it costs nothing only while it could apply
        // none of it: every object lacks its kind or its namespace.
        let hopeless = !file.documents.is_empty()
            && file.documents.iter().all(|document| {
                document.requires.iter().any(|requirement| {
                    requirement.inferred
                        && requirement.tier == Tier::Required
                        && requirement.takes_part()
                        && !self.met(requirement)
                })
            });
        let mut blockers: Vec<UnmetNeed> = Vec::new();
        let mut first: Option<((bool, bool), &Requirement)> = None;
        let mut kept = false;
        let mut on_failure = OnFailure::Lift;
        let mut release_at: Option<Timestamp> = None;
        let mut overdue: Option<Timestamp> = None;
        let mut yielded = false;
        // Most of them wait equally long.
        let mut last: Option<((Timestamp, Duration), Option<Timestamp>)> = None;
        for (number, document) in file.documents.iter().enumerate() {
            let requires = document.requires.iter().enumerate();
            for (place, requirement) in requires.filter(|(_, one)| one.takes_part()) {
                if self.met(requirement) {
                    continue;
                }
                let patience = self.patience(requirement, hopeless, began);
                let wait = (patience.from, patience.after);
                let at = match last {
                    Some((same, at)) if same == wait => at,
                    _ => self.deadline(wait.0, wait.1),
                };
                last = Some((wait, at));
                let past = at.is_some_and(|at| at <= self.now);
                if past && patience.then == OnDeadline::Release {
                    yielded = true;
                    continue;
                }
                match patience.then {
                    OnDeadline::Keep => {
                        kept = true;
                        overdue = earliest(overdue, at);
                    }
                    OnDeadline::Release => release_at = latest(release_at, at),
                }
                // What was inferred or merely asks for an order RKE2 gets right by trying again, as
                // it would have without Windrow. What a rule keeps would do harm.
                if requirement.harms() {
                    on_failure = OnFailure::Keep;
                }
                let (need, tier) = (requirement.need, requirement.tier);
                let same = |told: &&mut UnmetNeed| (told.need, told.tier) == (need, tier);
                if let Some(told) = blockers.iter_mut().find(same) {
                    told.objects += 1;
                    continue;
                }
                let precedence = precedence(requirement);
                if first.as_ref().is_none_or(|(best, ..)| precedence < *best) {
                    first = Some((precedence, requirement));
                }
                blockers.push(UnmetNeed {
                    need,
                    tier,
                    document: number,
                    requirement: place,
                    objects: 1,
                });
            }
        }
        let Some((_, first)) = first else {
            let cause = match (yielded, waited) {
                (true, _) => Cause::Yielded,
                (false, true) => Cause::Met,
                (false, false) => Cause::Free,
            };
            return FileOutcome::Release(cause);
        };
        let (code, why) = self.explain(first);
        FileOutcome::Hold(Box::new(FileHold {
            code,
            why: why.into(),
            on_failure,
            blockers,
            deadline: if kept { None } else { release_at },
            overdue,
            after_apply: false,
        }))
    }

    /// Describes an unmet need of a file for the status.
    pub(super) fn blocker(&self, file: &PlanFile, unmet: &UnmetNeed) -> Option<Blocker> {
        let document = file.documents.get(unmet.document)?;
        let requirement = document.requires.get(unmet.requirement)?;
        let need = &self.plan.needs[requirement.need];
        let (_, message) = self.explain(requirement);
        let more = match unmet.objects {
            1 => String::new(),
            objects => format!(" and {} more", objects - 1),
        };
        Some(Blocker {
            what: need.target.to_string(),
            condition: need.condition.to_string(),
            tier: requirement.tier,
            message,
            required_by: format!("{}{more}", document.object),
            origin: requirement.origin.clone(),
            brought_by: match requirement.satisfied_by {
                SatisfiedBy::File { file, .. } => Some(self.plan.files[file].path.clone()),
                _ => None,
            },
        })
    }

    fn met(&self, requirement: &Requirement) -> bool {
        matches!(self.needs[requirement.need], NeedState::Met)
    }

    /// How long a requirement may hold, and what then.
    fn patience(&self, requirement: &Requirement, hopeless: bool, began: Timestamp) -> Patience {
        let staging = self.staging;
        let (after, then) = match (requirement.tier, requirement.inferred) {
            (Tier::Advisory, _) => return self.advice(requirement, began),
            (Tier::Required, true) if hopeless => (staging.overdue_after, OnDeadline::Keep),
            // RKE2 could apply something of it, and for what it is held is a guess.
            (Tier::Required, true) if requirement.satisfied_by.is_guess() => {
                (staging.advisory_deadline, OnDeadline::Release)
            }
            (Tier::Required, true) => (staging.inferred_deadline, OnDeadline::Release),
            (Tier::Required, false) => {
                let default = match requirement.on_deadline {
                    OnDeadline::Keep => staging.overdue_after,
                    OnDeadline::Release => staging.inferred_deadline,
                };
                (
                    requirement.deadline.unwrap_or(default),
                    requirement.on_deadline,
                )
            }
        };
        Patience {
            from: began,
            after,
            then,
        }
    }

    /// Advice waits for a file of the directory while that file itself has to wait, then for RKE2 to
    /// apply it; not for a file that somebody holds on purpose, and never for long.
    fn advice(&self, requirement: &Requirement, began: Timestamp) -> Patience {
        let short = requirement
            .deadline
            .unwrap_or(self.staging.advisory_deadline);
        let provider = match requirement.satisfied_by {
            SatisfiedBy::File { file, .. } => {
                let file = &self.plan.files[file];
                Some(
                    self.ledger
                        .files
                        .get(&file.path)
                        .filter(|entry| entry.digest == file.digest),
                )
            }
            _ => None,
        };
        let (from, after) = match provider {
            Some(Some(entry)) => match entry.state {
                State::Held { code, .. } if on_purpose(code) => (began, short),
                State::Held { .. } => (began, short.max(self.staging.overdue_after)),
                State::Released { .. } | State::Applied { .. } => (began.max(entry.since), short),
            },
            // It is decided in this same look.
            Some(None) => (began, short.max(self.staging.overdue_after)),
            None => (began, short),
        };
        Patience {
            from,
            after,
            then: OnDeadline::Release,
        }
    }

    /// When a wait that began at `began` has lasted `after`. Counted from the API's first answer:
    /// before it RKE2 applies nothing, so nothing is lost by holding. Should the API never answer
    /// here though RKE2 reaches it, the blind deadline ends the wait.
    fn deadline(&self, began: Timestamp, after: Duration) -> Option<Timestamp> {
        let began = began.max(self.observation.started);
        match self.observation.api.first_reachable {
            Some(reachable) => began.max(reachable).checked_add(after).ok(),
            None => began
                .checked_add(self.staging.blind_deadline.max(after))
                .ok(),
        }
    }

    fn explain(&self, requirement: &Requirement) -> (Code, String) {
        let need = &self.plan.needs[requirement.need];
        let wanted = |why: &str| match (&need.condition, requirement.inferred) {
            (_, false) => [&requirement.reason, ": ", why].concat(),
            (Condition::Served, _) => format!("needs {} to be served: {why}", need.target),
            (_, _) => format!("needs {}: {why}", need.target),
        };
        match &self.needs[requirement.need] {
            NeedState::Met => (Code::WaitsForObject, String::new()),
            NeedState::Unknown { message } => {
                let api = &self.observation.api;
                let line = match &api.unreachable {
                    _ if api.first_reachable.is_none() => {
                        wanted("kube-apiserver does not answer yet")
                    }
                    // Whatever else is not known: as long as it cannot be asked, that is why.
                    Some(why) => wanted(&format!("kube-apiserver cannot be asked: {why}")),
                    None => wanted(message),
                };
                (Code::WaitsForCluster, line)
            }
            NeedState::NotYet { code, message } => {
                let line = match (requirement.inferred, message.as_str()) {
                    (true, message) => message.to_owned(),
                    // There is nothing to add to the rule's own words.
                    (false, "") => requirement.reason.clone(),
                    (false, message) => format!("{} ({message})", requirement.reason),
                };
                (*code, line)
            }
            NeedState::Failed { message } => (Code::WaitsForReady, wanted(message)),
        }
    }
}

/// Held because somebody wants it so, not because something is missing.
pub(super) fn on_purpose(code: Code) -> bool {
    matches!(
        code,
        Code::HeldByAnnotation | Code::HeldByHand | Code::HeldAppliedOnce
    )
}

struct Patience {
    from: Timestamp,
    after: Duration,
    then: OnDeadline,
}

/// Which unmet requirement is reported first; the least counts. What holds comes before what orders, and
/// what a person or a rule asks for before what was inferred.
fn precedence(requirement: &Requirement) -> (bool, bool) {
    (requirement.tier == Tier::Advisory, requirement.inferred)
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn latest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}
