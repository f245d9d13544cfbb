//! One file: may RKE2 have it, and if not, why not.
//!
//! ```text
//!            new content                 everything met, a deadline, a person
//!   (unseen) ───────────> Held ──────────────────────────────────────> Released ──> Applied
//!       └──────────────── nothing to wait for ────────────────────────────^            │
//!                                                          windrow.dev/apply: once ────┘ kept
//! ```
//!
//! Forward only: Released and Applied never go back for the same content. New content begins anew.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_model::reasons::Code;
use windrow_plan::readiness::NeedState;
use windrow_plan::rules::{Condition, OnDeadline, Tier};
use windrow_plan::{NeedId, Plan, PlanFile, Requirement, SatisfiedBy};

use super::ledger::{Cause, Entry, Ledger, State};
use super::observation::{Observation, OnFailure};
use super::status::Blocker;
use crate::settings::Staging;

/// What is to become of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// RKE2's or Rancher's own: not looked at.
    NotOurs,
    /// Somebody else's marker hides it.
    HeldByOther,
    /// Keep it from RKE2.
    Hold(Box<Hold>),
    /// Let RKE2 have it.
    Release(Cause),
    /// RKE2 has applied exactly this.
    Applied(Cause),
}

impl Outcome {
    pub(super) fn hold(hold: Hold) -> Self {
        Self::Hold(Box::new(hold))
    }
}

/// A hold and its reasons.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hold {
    pub(super) code: Code,
    pub(super) why: SmolStr,
    pub(super) on_failure: OnFailure,
    pub(super) blockers: Vec<Waits>,
    /// When it will be released though nothing changes.
    pub(super) deadline: Option<Timestamp>,
    /// When it is to be reported as overdue, if it is kept past a deadline.
    pub(super) overdue: Option<Timestamp>,
    /// Was it applied and is kept from RKE2 since?
    pub(super) after_apply: bool,
}

impl Hold {
    fn of(code: Code, why: impl Into<SmolStr>) -> Self {
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

/// Something that a file waits for, as it is said once for all of its objects.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Waits {
    need: NeedId,
    tier: Tier,
    /// The first document that waits for it, and by which of its requirements.
    document: usize,
    requirement: usize,
    /// How many objects of the file wait for it.
    objects: usize,
}

/// What one look at all files shares.
pub(super) struct Context<'a> {
    pub(super) staging: &'a Staging,
    pub(super) plan: &'a Plan,
    pub(super) observation: &'a Observation,
    pub(super) ledger: &'a Arc<Ledger>,
    /// The state of every need of the plan.
    pub(super) needs: &'a [NeedState],
    pub(super) now: Timestamp,
    /// Nobody reads what is told of it.
    pub(super) is_silent: bool,
}

impl Context<'_> {
    /// Decides one file, and until when that holds if nothing else changes. `entry` is what the ledger
    /// says of it, for this content or another.
    pub(super) fn outcome(
        &self,
        file: &PlanFile,
        entry: Option<&Entry>,
    ) -> (Outcome, Option<Timestamp>) {
        match self.settled(file, entry) {
            Ok(outcome) => (outcome, None),
            Err(began) => {
                let known = entry.is_some_and(|entry| entry.digest == file.digest);
                match &file.refused {
                    Some(why) => self.refused(why, began),
                    None => self.waiting(file, known, began),
                }
            }
        }
    }

    /// What is to become of a file whatever it needs; or since when it has been waiting.
    fn settled(&self, file: &PlanFile, entry: Option<&Entry>) -> Result<Outcome, Timestamp> {
        if file.owner.is_some() {
            return Ok(Outcome::NotOurs);
        }
        if let Some(marker) = self.observation.markers.get(&file.name)
            && marker.mark.is_none()
        {
            return Ok(Outcome::HeldByOther);
        }
        let known = entry.filter(|entry| entry.digest == file.digest);
        let manual = entry.and_then(|entry| entry.manual.as_ref());
        if let Some(manual) = manual.filter(|manual| manual.hold) {
            return Ok(Outcome::hold(Hold::of(
                Code::HeldByHand,
                Code::HeldByHand.say(&[("why", &format!("{} ({})", manual.reason, manual.by))]),
            )));
        }
        if file.harmful {
            return Ok(Outcome::hold(Hold::of(
                Code::SpecialFile,
                "not a file: RKE2 would hang when it opens it".to_owned(),
            )));
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
            return Ok(Outcome::hold(Hold::of(
                Code::HeldByAnnotation,
                Code::HeldByAnnotation.say(&[("why", &format!("{reason} ({at})"))]),
            )));
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

    fn onward(&self, file: &PlanFile, cause: Cause, applied: bool, by_hand: bool) -> Outcome {
        if !applied {
            return Outcome::Release(cause);
        }
        if file.apply_once && !by_hand && self.staging.enabled {
            let mut hold = Hold::of(Code::HeldAppliedOnce, Code::HeldAppliedOnce.say(&[]));
            hold.after_apply = true;
            return Outcome::hold(hold);
        }
        Outcome::Applied(cause)
    }

    fn refused(&self, why: &str, began: Timestamp) -> (Outcome, Option<Timestamp>) {
        let deadline = self.deadline(began, self.staging.refused_deadline);
        if deadline.is_some_and(|deadline| deadline <= self.now) {
            return (Outcome::Release(Cause::Yielded), None);
        }
        let mut hold = Hold::of(Code::HeldRefused, Code::HeldRefused.say(&[("why", why)]));
        hold.on_failure = OnFailure::Lift;
        hold.deadline = deadline;
        (Outcome::hold(hold), deadline)
    }

    fn waiting(
        &self,
        file: &PlanFile,
        waited: bool,
        began: Timestamp,
    ) -> (Outcome, Option<Timestamp>) {
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
        let mut blockers: Vec<Waits> = Vec::new();
        let mut first: Option<(Rank, &Requirement)> = None;
        let mut kept = false;
        let mut on_failure = OnFailure::Lift;
        let mut release_at: Option<Timestamp> = None;
        let mut overdue: Option<Timestamp> = None;
        let mut turns: Option<Timestamp> = None;
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
                if !past {
                    turns = earliest(turns, at);
                }
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
                let same = |told: &&mut Waits| (told.need, told.tier) == (need, tier);
                if let Some(told) = blockers.iter_mut().find(same) {
                    told.objects += 1;
                    continue;
                }
                let rank = rank(requirement);
                if first.as_ref().is_none_or(|(best, ..)| rank < *best) {
                    first = Some((rank, requirement));
                }
                blockers.push(Waits {
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
            return (Outcome::Release(cause), turns);
        };
        let (code, why) = self.say(first);
        let hold = Box::new(Hold {
            code,
            why: why.into(),
            on_failure,
            blockers,
            deadline: if kept { None } else { release_at },
            overdue,
            after_apply: false,
        });
        (Outcome::Hold(hold), turns)
    }

    /// Something that a file waits for, for people.
    pub(super) fn blocker(&self, file: &PlanFile, waits: &Waits) -> Option<Blocker> {
        let document = file.documents.get(waits.document)?;
        let requirement = document.requires.get(waits.requirement)?;
        let need = &self.plan.needs[requirement.need];
        let (_, message) = self.say(requirement);
        let more = match waits.objects {
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
                        .get(file.path.as_str())
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

    fn say(&self, requirement: &Requirement) -> (Code, String) {
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

/// Which blocker is told first: what holds before what orders, a person's and a rule's words before
/// what was inferred.
type Rank = (Tier2, bool);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tier2 {
    Required,
    Advisory,
}

fn rank(requirement: &Requirement) -> Rank {
    let tier = match requirement.tier {
        Tier::Required => Tier2::Required,
        Tier::Advisory => Tier2::Advisory,
    };
    (tier, requirement.inferred)
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
