//! Decides about a cure that was begun and not finished, by the incidents that are recognised now.

use jiff::Timestamp;
use windrow_harvester::incidents::IncidentFinding;

use super::records::{Record, RepairOutcome};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BegunCure {
    GoesOn,
    /// It was given up, or its incident is not recognised any more, and it has temporary changes. Once
    /// [`super::has_come`] is true it restores them, and does nothing else. Until then it goes on: a container that
    /// crashes again and again runs between two crashes.
    GivesBack,
    /// The same incident is recognised for other objects: this cure was not made for them.
    Superseded,
    /// Its incident is not recognised any more, and it has no requests left.
    Over,
    /// Its process has ended, and nothing is left to restore or to wait for. If the incident is recognised, it is
    /// repaired again.
    Abandoned,
    /// It has requests left, and a version that it relies on is not confirmed any more.
    Unconfirmed,
}

impl BegunCure {
    pub fn outcome(self) -> RepairOutcome {
        match self {
            Self::GoesOn | Self::GivesBack => RepairOutcome::GivenBack,
            Self::Superseded => RepairOutcome::Superseded,
            Self::Over => RepairOutcome::Over,
            Self::Abandoned => RepairOutcome::Abandoned,
            Self::Unconfirmed => RepairOutcome::Unconfirmed,
        }
    }

    pub fn why_it_ends(self) -> &'static str {
        match self {
            Self::GoesOn | Self::GivesBack => "",
            Self::Superseded => "the same is recognised of other objects now",
            Self::Over => "it is not recognised any more",
            Self::Abandoned => "the process that repaired has ended",
            Self::Unconfirmed => "a version that it relies on is not confirmed any more",
        }
    }
}

pub fn judge_begun<'f>(
    record: &Record,
    found: impl IntoIterator<Item = &'f IncidentFinding>,
) -> BegunCure {
    let mut found = found.into_iter();
    let found = found.find(|one| one.code == record.code && one.subject == record.subject);
    let is_unconfirmed = found.is_some_and(|finding| finding.unconfirmed);
    match found.map(|finding| &finding.cure) {
        _ if record.is_given_up() => BegunCure::GivesBack,
        // It restores its temporary changes, no matter what is recognised. It makes no more of them for an incident
        // that is over.
        None if record.has_to_restore() && record.takes_more() => BegunCure::GivesBack,
        _ if record.has_to_restore() => BegunCure::GoesOn,
        _ if is_unconfirmed && record.has_request_left() => BegunCure::Unconfirmed,
        Some(Some(cure)) if !cure.saves_the_same(&record.cure) => BegunCure::Superseded,
        None if !record.has_request_left() => BegunCure::Over,
        _ => BegunCure::GoesOn,
    }
}

/// Judges a cure that no process goes on with, and that has nothing to restore. `has_changed` says whether a request of
/// it has changed an object. The cure stays open if that is unknown or if its changes may still help.
pub fn judge_left_behind(
    record: &Record,
    found: &[IncidentFinding],
    has_changed: Option<bool>,
    now: Timestamp,
) -> BegunCure {
    let judged = judge_begun(record, found);
    if judged != BegunCure::GoesOn {
        return judged;
    }
    let mut found = found.iter();
    if !found.any(|one| one.code == record.code && one.subject == record.subject) {
        return BegunCure::Over;
    }
    let steps = record.cure.steps.iter();
    let patience: u64 = steps.map(|step| u64::from(step.patience)).sum();
    // A clock that was ahead when it began must not keep it open.
    let age = now.as_second().abs_diff(record.started.as_second());
    let is_late = age > patience;
    match has_changed {
        Some(has_changed) if is_late || !has_changed => BegunCure::Abandoned,
        _ => BegunCure::GoesOn,
    }
}

#[cfg(test)]
#[path = "begun_tests.rs"]
mod tests;
