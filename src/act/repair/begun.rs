//! What becomes of a cure that was begun and not finished, by what is recognised now.

use windrow_harvester::incidents::IncidentFinding;

use super::records::Record;

/// What becomes of a cure that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BegunCure {
    /// It goes on where it was.
    GoesOn,
    /// What it cures is not recognised any more, and it has changed something for a while: once [`super::has_come`] what it waits
    /// for, it gives that back, and does nothing else. Until then it goes on: a container that crashes again and again runs
    /// between two crashes.
    GivesBack,
    /// The same is recognised of other objects: this cure was not made for them.
    Superseded,
    /// What it cures is not recognised any more, and it has nothing left to ask for.
    Over,
}

/// Judges it by what is recognised of its code now.
pub fn judge_begun<'f>(
    record: &Record,
    found: impl IntoIterator<Item = &'f IncidentFinding>,
) -> BegunCure {
    let mut found = found.into_iter();
    let found = found.find(|one| one.code == record.code && one.subject == record.subject);
    match found.map(|finding| &finding.cure) {
        // What it has taken from others for a while it gives back, whatever is recognised. It takes nothing more for what is over.
        None if record.has_to_give_back() && record.takes_more() => BegunCure::GivesBack,
        _ if record.has_to_give_back() => BegunCure::GoesOn,
        Some(Some(cure)) if !cure.saves_the_same(&record.cure) => BegunCure::Superseded,
        None if !record.has_request_left() => BegunCure::Over,
        _ => BegunCure::GoesOn,
    }
}

#[cfg(test)]
#[path = "begun_tests.rs"]
mod tests;
