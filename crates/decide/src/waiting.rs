//! A file whose outcome depends on its needs: which of them are unmet, how long each may hold it, and what happens
//! then.

use std::time::Duration;

use jiff::Timestamp;
use windrow_model::reasons::Code;
use windrow_plan::readiness::{NeedState, ObservedCluster as _};
use windrow_plan::rules::{NeedCondition, OnDeadline, Tier};
use windrow_plan::{FileId, NextPass, PlanFile, Requirement, SatisfiedBy};

use super::ledger::{Cause, FileStage};
use super::mark::OnFailure;
use super::outcome::{DecisionContext, FileHold, FileOutcome, UnmetNeed, Wait, on_purpose};
use super::status::Blocker;

/// How long a process of the daemon watches the cluster before it applies a deadline that passed before its start.
const FIRST_LOOK: Duration = Duration::from_secs(30);
/// The first starts in a boot have that time, however long ago the deadline was. Later ones have it only until the wait is
/// twice as long as it should be.
const MOST_STARTS: u32 = 3;

/// How long a requirement may hold its file, and what happens then.
struct Patience {
    from: Timestamp,
    after: Duration,
    then: OnDeadline,
}

/// How much of a file RKE2 can apply: a part is applied even if the rest fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outlook {
    Some,
    /// Nothing, because every object lacks its kind or its namespace. Only then does a hold cost nothing.
    Hopeless,
    /// Nothing as far as Windrow can tell, but kube-apiserver does not answer for every object.
    Unknown,
}

/// The combined effect of the unmet requirements of one file.
#[derive(Default)]
struct UnmetNeeds<'a> {
    needs: Vec<UnmetNeed>,
    first: Option<&'a Requirement>,
    /// Does one of them hold the file past its deadline?
    keeps: bool,
    /// Would a release of the file do harm, so that not even the fail-safe may release it?
    harms: bool,
    /// When the last requirement that yields releases the file.
    release_at: Option<Timestamp>,
    /// When the first requirement that keeps the file is overdue.
    overdue: Option<Timestamp>,
    /// Has one of them yielded? `required_yielded`: one with the tier `Required`.
    yielded: bool,
    required_yielded: bool,
    /// Is one of them met in the same pass?
    in_pass: bool,
}

impl<'a> UnmetNeeds<'a> {
    /// Adds a requirement that holds the file until `deadline`, or permanently and overdue from then on.
    fn add(
        &mut self,
        requirement: &'a Requirement,
        (document, position): (usize, usize),
        then: OnDeadline,
        deadline: Option<Timestamp>,
    ) {
        match then {
            OnDeadline::Keep => {
                self.keeps = true;
                self.overdue = earliest(self.overdue, deadline);
            }
            OnDeadline::Release => self.release_at = latest(self.release_at, deadline),
        }
        // Inferred requirements, and those that only set an order, are met by RKE2's retries, as they would be without
        // Windrow. If a rule keeps a file, its release would do harm.
        self.harms |= requirement.harms();
        let (need, tier) = (requirement.need, requirement.tier);
        let same = |known: &&mut UnmetNeed| (known.need, known.tier) == (need, tier);
        if let Some(known) = self.needs.iter_mut().find(same) {
            known.objects += 1;
            return;
        }
        let comes_first = |first| precedence(requirement) < precedence(first);
        if self.first.is_none_or(comes_first) {
            self.first = Some(requirement);
        }
        self.needs.push(UnmetNeed {
            need,
            tier,
            document,
            requirement: position,
            objects: 1,
        });
    }
}

impl DecisionContext<'_> {
    pub(super) fn decide_by_needs(
        &self,
        id: FileId,
        pass: &NextPass<'_>,
        wait: &Wait,
    ) -> FileOutcome {
        let comes = |requirement: &Requirement| {
            (requirement.may_come_first || !wait.failed_again)
                && self.comes_in(pass, id, requirement, wait.relied)
        };
        let unmet = self.unmet_needs(&self.plan.files[id], wait, &comes);
        let Some(first) = unmet.first else {
            let cause = match () {
                () if unmet.required_yielded => Cause::Yielded,
                // Even if advice has yielded, the decision stays open while the file relies on another file.
                () if unmet.in_pass => Cause::SamePass,
                () if unmet.yielded => Cause::Yielded,
                () if wait.waited => Cause::Met,
                () => Cause::Free,
            };
            return FileOutcome::Release(cause);
        };
        let (code, why) = self.explain(first);
        FileOutcome::Hold(Box::new(FileHold {
            code,
            why: why.into(),
            on_failure: match unmet.harms {
                true => OnFailure::Keep,
                false => OnFailure::Lift,
            },
            blockers: unmet.needs,
            deadline: unmet.release_at.filter(|_| !unmet.keeps),
            overdue: unmet.overdue,
            after_apply: false,
        }))
    }

    /// Will RKE2 have met an unmet requirement of a file before it reaches the file?
    fn comes_in(
        &self,
        pass: &NextPass<'_>,
        id: FileId,
        requirement: &Requirement,
        relied: bool,
    ) -> bool {
        // Applying an object again does not help if it is being deleted, or has failed.
        let may_come = match &self.needs[requirement.need] {
            NeedState::Unknown { .. } => true,
            NeedState::NotYet { code, .. } => *code != Code::WaitsForReady,
            NeedState::Met | NeedState::Failed { .. } => false,
        };
        may_come && pass.meets(id, requirement, relied)
    }

    fn unmet_needs<'f>(
        &self,
        file: &'f PlanFile,
        wait: &Wait,
        comes: &dyn Fn(&Requirement) -> bool,
    ) -> UnmetNeeds<'f> {
        let outlook = self.outlook(file, comes);
        let mut unmet = UnmetNeeds::default();
        // Most requirements of a file wait equally long.
        let mut last: Option<((Timestamp, Duration), Option<Timestamp>)> = None;
        for (document, planned) in file.documents.iter().enumerate() {
            for (position, requirement) in planned.requires.iter().enumerate() {
                if !requirement.takes_part() || self.is_met(requirement) {
                    continue;
                }
                if comes(requirement) {
                    unmet.in_pass = true;
                    continue;
                }
                // It was met or had yielded when the file was released: an order between files does not hide the file
                // again.
                if wait.relied && requirement.tier == Tier::Advisory && !requirement.at_once {
                    unmet.in_pass = true;
                    continue;
                }
                let patience = self.patience(requirement, outlook, wait.began);
                let period = (patience.from, patience.after);
                let deadline = match last {
                    Some((same, deadline)) if same == period => deadline,
                    _ => self.deadline(patience.from, patience.after),
                };
                last = Some((period, deadline));
                let is_past = deadline.is_some_and(|deadline| deadline <= self.now);
                match patience.then {
                    OnDeadline::Release if is_past => {
                        unmet.yielded = true;
                        unmet.required_yielded |= requirement.tier == Tier::Required;
                    }
                    then => unmet.add(requirement, (document, position), then, deadline),
                }
            }
        }
        unmet
    }

    fn outlook(&self, file: &PlanFile, comes: &dyn Fn(&Requirement) -> bool) -> Outlook {
        let lacks = |requirement: &&Requirement| {
            requirement.inferred
                && requirement.tier == Tier::Required
                && requirement.takes_part()
                && !self.is_met(requirement)
                && !comes(requirement)
        };
        let is_known = |requirement: &Requirement| {
            // After the credential was rejected, earlier answers become outdated.
            let is_unknown = matches!(self.needs[requirement.need], NeedState::Unknown { .. });
            !is_unknown && !self.observation.api.refused
        };
        let mut outlook = Outlook::Hopeless;
        for document in &file.documents {
            let mut lacking = document.requires.iter().filter(lacks).peekable();
            if lacking.peek().is_none() {
                return Outlook::Some;
            }
            if !lacking.any(is_known) {
                outlook = Outlook::Unknown;
            }
        }
        if file.documents.is_empty() {
            return Outlook::Some;
        }
        outlook
    }

    /// Since when Windrow cannot tell whether a requirement is met.
    fn unknown_since(&self, requirement: &Requirement) -> Option<Timestamp> {
        let target = &self.plan.needs[requirement.need].target;
        let since = self.observation.unknown_since.get(target).copied();
        let api = &self.observation.api;
        since.or(api.unreachable_since.filter(|_| api.refused))
    }

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
            usual: requirement
                .learned
                .as_ref()
                .and_then(|learned| learned.usual()),
            brought_by: match requirement.satisfied_by {
                SatisfiedBy::File { file, .. } => Some(self.plan.files[file].path.clone()),
                _ => None,
            },
        })
    }

    /// The missing requirements of a file that RKE2 meets before it reaches the file, each in one line.
    pub(super) fn met_in_pass(&self, file: &PlanFile) -> Vec<String> {
        let lacks = file.requirements().filter(|requirement| {
            requirement.at_once && requirement.takes_part() && !self.is_met(requirement)
        });
        let mut lines: Vec<String> = Vec::new();
        for line in lacks.filter_map(|one| self.plan.describe_met_in_pass(file, one)) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }

    fn is_met(&self, requirement: &Requirement) -> bool {
        let own_kind = requirement.own_namespace_of.as_ref();
        matches!(self.needs[requirement.need], NeedState::Met)
            || own_kind.is_some_and(|kind| self.observation.kind(kind).is_cluster_scoped())
    }

    fn patience(&self, requirement: &Requirement, outlook: Outlook, began: Timestamp) -> Patience {
        let staging = self.staging;
        let (after, then) = match (requirement.tier, requirement.inferred) {
            (Tier::Advisory, _) => return self.patience_of_advice(requirement, began),
            (Tier::Required, true) if outlook == Outlook::Hopeless => {
                (staging.overdue_after, OnDeadline::Keep)
            }
            // RKE2 may reach kube-apiserver although Windrow does not.
            (Tier::Required, true) if outlook == Outlook::Unknown => {
                let unknown_since = self.unknown_since(requirement);
                let boot = self.ledger.boot.as_ref();
                let was_never_known = boot.is_some_and(|boot| boot.reachable.is_none());
                // Otherwise, nothing records whether an earlier process knew it.
                let started = self.observation.started;
                let unknown_from = if was_never_known { began } else { started };
                let since = unknown_since.unwrap_or(unknown_from);
                return Patience {
                    from: since.max(began),
                    after: staging.blind_deadline,
                    then: OnDeadline::Release,
                };
            }
            // RKE2 could apply some of the file, and the provider of the missing object is only a guess.
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

    /// An advisory requirement waits for a file of the directory as long as that file has to wait itself, and then
    /// for RKE2 to apply it. It does not wait for a file that is held on purpose, and it never waits for long.
    fn patience_of_advice(&self, requirement: &Requirement, began: Timestamp) -> Patience {
        let short = requirement
            .deadline
            .unwrap_or(self.staging.advisory_deadline);
        let provider = match requirement.satisfied_by {
            SatisfiedBy::File { file, .. } => {
                let file = &self.plan.files[file];
                // The stage does not show an order that this decision carries out first.
                let by_hand = self.held_names.contains_key(&file.name);
                let entry = self.ledger.files.get(&file.path);
                let entry = entry.filter(|entry| entry.digest == file.digest);
                Some((entry, by_hand))
            }
            _ => None,
        };
        let (from, after) = match provider {
            Some((Some(entry), by_hand)) => match entry.state {
                FileStage::Held { code, .. } if by_hand || on_purpose(code) => (began, short),
                FileStage::Held { .. } => (began, short.max(self.staging.overdue_after)),
                // Without an answer from kube-apiserver, the blind deadline counts, once and not again for each file
                // before this one.
                _ if self.reachable(entry.since).is_none() => match self.reachable(began) {
                    None => (began, short),
                    // An earlier process had an answer, and this one has not checked the cluster since the release of
                    // the other file.
                    Some(_) => (began.max(self.observation.started), short),
                },
                FileStage::Released { .. } | FileStage::Applied { .. } => {
                    (began.max(entry.since), short)
                }
            },
            // The same decision is also about that file.
            Some((None, false)) => (began, short.max(self.staging.overdue_after)),
            Some((None, true)) | None => (began, short),
        };
        Patience {
            from,
            after,
            then: OnDeadline::Release,
        }
    }

    /// The end of a wait of length `after` that began at `began`. It counts from the API's first answer: before that,
    /// RKE2 applies nothing, so a hold costs nothing. If the API never answers Windrow although RKE2 reaches it, the
    /// blind deadline ends the wait. Within a boot, a restart of the daemon does not reset the wait.
    pub(super) fn deadline(&self, began: Timestamp, after: Duration) -> Option<Timestamp> {
        let started = self.observation.started;
        let boot = self.ledger.boot.as_ref();
        let from = began.max(boot.map_or(started, |boot| boot.started));
        let (from, after) = match self.reachable(began) {
            Some(reachable) => (from.max(reachable), after),
            None => (from, self.staging.blind_deadline.max(after)),
        };
        let deadline = from.checked_add(after).ok()?;
        if began >= started {
            return Some(deadline);
        }
        let looked = match self.observation.api.first_reachable {
            Some(reachable) => reachable.max(started).checked_add(FIRST_LOOK),
            // RKE2 may not run yet either.
            None => started.checked_add(self.staging.blind_deadline),
        };
        let looked = looked.ok()?;
        let is_often = boot.is_some_and(|boot| boot.starts > MOST_STARTS);
        let latest = deadline.checked_add(after).ok().filter(|_| is_often);
        Some(deadline.max(latest.map_or(looked, |latest| looked.min(latest))))
    }

    /// The end of a wait of length `after` that begins again with each process, counted from the API's first answer in
    /// this boot.
    pub(super) fn deadline_from_start(&self, after: Duration) -> Option<Timestamp> {
        let started = self.observation.started;
        match self.reachable_in_boot() {
            Some(reachable) => started.max(reachable).checked_add(after).ok(),
            None => started
                .checked_add(self.staging.blind_deadline.max(after))
                .ok(),
        }
    }

    /// When kube-apiserver first answered in this boot, to any process of the daemon.
    fn reachable_in_boot(&self) -> Option<Timestamp> {
        let boot = self.ledger.boot.as_ref();
        let reachable = boot.and_then(|boot| boot.reachable);
        reachable.or(self.observation.api.first_reachable)
    }

    /// When kube-apiserver first answered to a process that could wait from `began` on: any process of the daemon in
    /// this boot, or only this one if `began` is after its start.
    fn reachable(&self, began: Timestamp) -> Option<Timestamp> {
        match began < self.observation.started {
            true => self.reachable_in_boot(),
            false => self.observation.api.first_reachable,
        }
    }

    fn explain(&self, requirement: &Requirement) -> (Code, String) {
        let need = &self.plan.needs[requirement.need];
        let wanted = |why: &str| {
            let target = need.target.to_string();
            let wanted = match (&need.condition, requirement.inferred) {
                (_, false) => requirement.reason.to_string(),
                (NeedCondition::Served, true) => format!("needs {target} to be served"),
                (_, true) => format!("needs {target}"),
            };
            // A name that already occurs is not repeated.
            let why = why
                .strip_prefix(&target)
                .and_then(|why| why.strip_prefix(": "))
                .filter(|_| wanted.contains(&target))
                .unwrap_or(why);
            format!("{wanted}: {why}")
        };
        match &self.needs[requirement.need] {
            NeedState::Met => (Code::WaitsForObject, String::new()),
            NeedState::Unknown { message } => {
                let api = &self.observation.api;
                let line = match &api.unreachable {
                    _ if api.first_reachable.is_none() && !api.refused => {
                        wanted("kube-apiserver does not answer yet")
                    }
                    // As long as kube-apiserver cannot be asked, that is the reason for everything unknown.
                    Some(why) => wanted(&format!("kube-apiserver cannot be asked: {why}")),
                    None => wanted(message),
                };
                (Code::WaitsForCluster, line)
            }
            NeedState::NotYet { code, message } => {
                let line = match (requirement.inferred, message.as_str()) {
                    (true, message) => message.to_owned(),
                    // The rule's own text is enough.
                    (false, "") => requirement.reason.to_string(),
                    (false, message) => format!("{} ({message})", requirement.reason),
                };
                (*code, line)
            }
            NeedState::Failed { message } => (Code::WaitsForReady, wanted(message)),
        }
    }
}

/// The order in which unmet requirements are reported: the lowest value first. Requirements that hold come before those
/// that only set an order, and requirements of users and rules before inferred ones.
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
