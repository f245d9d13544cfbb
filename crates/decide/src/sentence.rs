//! The state of the node in one line: first the word, the step, its duration and its pace, then the reason.
//!
//! ```text
//! Setting up (kube-apiserver, 23 min, stalled): :6443 refuses connections
//! ╰──────────────── headline ────────────────╯
//! ```
//!
//! Every outlet uses this line. A published duration changes seldom ("20+ min"), so that a waiting node does not
//! publish a new document every minute. A reader that knows the time shows the exact duration.

use jiff::{SignedDuration, Timestamp};
use windrow_model::span;

use super::status::{ExpectationSource, Pace, Readiness, Status, StatusReason, UsualTime};
use super::text::shorten;

mod reason;

/// The longest line: the row of Harvester's own console.
pub const LINE_CHARS: usize = 65;

/// The minutes in a step at which a published line changes; after the last one, it changes every day.
const STEPS: [i64; 14] = [1, 2, 5, 10, 15, 20, 30, 45, 60, 120, 180, 360, 720, 1440];
const DAY: i64 = 1440;

/// The word for a readiness: that of the documents, written for users. Whether a failed node may recover is its pace.
pub fn word(status: &Status) -> &'static str {
    word_of(status.readiness)
}

/// The same without a document.
pub fn word_of(readiness: Readiness) -> &'static str {
    match readiness {
        Readiness::Ready => "Ready",
        Readiness::Degraded => "Degraded",
        Readiness::SettingUp => "Setting up",
        Readiness::Failed => "Failed",
        Readiness::Unknown => "Unknown",
    }
}

/// The same word inside a sentence.
pub fn word_inside(status: &Status) -> &'static str {
    match word(status) {
        "Setting up" => "setting up",
        name => name,
    }
}

/// The word, the step, its duration and its pace, at a time.
pub fn headline(status: &Status, now: Timestamp) -> String {
    join(status, true, lasted(status, now).as_deref())
}

/// How long the node has been in this state; `None` below a minute.
fn lasted(status: &Status, now: Timestamp) -> Option<String> {
    let seconds = u64::try_from(now.duration_since(since(status)).as_secs()).ok()?;
    (seconds >= 60).then(|| span(seconds))
}

/// When the present state began. During the bootstrap, when its phase began; otherwise, when its word became true.
pub fn since(status: &Status) -> Timestamp {
    match status.readiness {
        Readiness::SettingUp | Readiness::Unknown => status.phase_since.unwrap_or(status.since),
        Readiness::Ready | Readiness::Degraded | Readiness::Failed => status.since,
    }
}

/// When the bootstrap began, for a node that was never Ready; otherwise, when its word became true.
pub fn began(status: &Status) -> Timestamp {
    let is_bootstrap = matches!(status.readiness, Readiness::SettingUp | Readiness::Unknown)
        && status.first_ready.is_none();
    let phases = status.phases.iter().filter(|_| is_bootstrap);
    let began = phases.filter_map(|phase| phase.began);
    began.fold(status.since, Timestamp::min)
}

/// One line of at most 65 characters, at a time.
pub fn one_line(status: &Status, now: Timestamp) -> String {
    match status.headline.is_empty() {
        // The document is of an older version, or not about a node: use its own line.
        true => shorten(&status.summary, LINE_CHARS),
        false => with_reason(status, lasted(status, now).as_deref()),
    }
}

/// A note on the pace of a node that is slower than usual, with the usual time; `None` if there is nothing to report.
pub fn pace_note(status: &Status) -> Option<String> {
    // A node that was Ready and no longer is has no pace.
    if status.readiness == Readiness::Failed && status.pace != Some(Pace::Stuck) {
        return Some("it was Ready in this boot, and may recover".to_owned());
    }
    let says = match status.pace? {
        Pace::Moving => return None,
        Pace::Slow => "slower than usual",
        Pace::Stalled => "stalled: nothing has moved for 20 minutes or more",
        Pace::Stuck => return Some("stuck: this will not recover without help".to_owned()),
    };
    Some(match expected_time(status) {
        Some(expected) => format!("{says}; {expected}"),
        None => says.to_owned(),
    })
}

/// How long the current step should take, and the source of this time.
pub fn expected_time(status: &Status) -> Option<String> {
    let current = status.phases.iter().find(|one| one.name == status.phase);
    let expected = current?.expected?;
    Some(match expected.usual {
        Some(UsualTime { median, boots, .. }) => {
            let plural = if boots == 1 { "" } else { "s" };
            let whose = match expected.from {
                ExpectationSource::Learned => " of nodes like this",
                ExpectationSource::EarlierBoots | ExpectationSource::Default => "",
            };
            format!("usually {} ({boots} boot{plural}{whose})", span(median))
        }
        None => format!("{} by default", span(expected.seconds)),
    })
}

pub(super) struct Published {
    pub(super) headline: String,
    pub(super) summary: String,
    /// When they change even if nothing happens.
    pub(super) next: Option<Timestamp>,
}

pub(super) fn published(status: &Status, now: Timestamp) -> Published {
    let (lasted, next) = published_time(status, now);
    Published {
        headline: join(status, true, lasted.as_deref()),
        summary: with_reason(status, lasted.as_deref()),
        next,
    }
}

/// The duration in steps, and when it reaches the next step.
fn published_time(status: &Status, now: Timestamp) -> (Option<String>, Option<Timestamp>) {
    // Readers calculate how long a node is Ready, or was lost: they know when that began.
    let Some(since) = status.phase_since else {
        return (None, None);
    };
    let minutes = now.duration_since(since).as_mins();
    let reached = match minutes >= DAY {
        true => Some(minutes / DAY * DAY),
        false => STEPS.into_iter().rev().find(|step| *step <= minutes),
    };
    let next = match minutes >= DAY {
        true => (minutes / DAY + 1) * DAY,
        false => STEPS
            .into_iter()
            .find(|step| *step > minutes)
            .unwrap_or(DAY),
    };
    let next = since.saturating_add(SignedDuration::from_mins(next)).ok();
    let lasted = reached.map(|minutes| span(minutes.unsigned_abs() * 60).replacen(' ', "+ ", 1));
    (lasted, next)
}

/// The line, with as much of the reason as fits.
fn with_reason(status: &Status, lasted: Option<&str>) -> String {
    let headlines = reason::Headlines {
        whole: join(status, true, lasted),
        without_step: join(status, false, lasted),
        without_time: join(status, false, None),
    };
    let StatusReason { code, message } = &status.reason;
    reason::fit(&headlines, *code, message, LINE_CHARS)
}

fn join(status: &Status, with_step: bool, lasted: Option<&str>) -> String {
    // Without probes, staging knows no phases.
    let is_probed = !status.phases.is_empty();
    let settled = matches!(status.readiness, Readiness::Ready | Readiness::Degraded);
    let step = (with_step && is_probed && !settled).then_some(status.phase.title());
    let pace = status.pace.filter(|pace| match status.readiness {
        Readiness::SettingUp | Readiness::Unknown => *pace != Pace::Moving,
        // A node that was Ready and no longer is has no pace.
        Readiness::Failed => *pace == Pace::Stuck,
        Readiness::Ready | Readiness::Degraded => false,
    });
    let pace = pace.map(Pace::as_str);
    // There is no room for both.
    let kind = (status.readiness == Readiness::Unknown && pace.is_none())
        .then(|| status.why_unknown().as_word());
    let parts: Vec<&str> = [kind, step, lasted, pace].into_iter().flatten().collect();
    match parts.is_empty() {
        true => word(status).to_owned(),
        false => format!("{} ({})", word(status), parts.join(", ")),
    }
}

#[cfg(test)]
mod tests;
