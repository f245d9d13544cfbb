//! Distinguishes slow, stalled and stuck nodes.
//!
//! *Slow* takes longer than usual and still makes progress. *Stalled* has made no observable progress for a time, which proves
//! nothing. *Stuck* is proved to require a repair.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::knowledge::LearnedPhase;

/// A phase without observable progress for this time is stalled. Longer than RKE2's own pauses: its server gives kube-apiserver
/// 15 minutes before it starts over.
pub(super) const STALLED_AFTER: SignedDuration = SignedDuration::from_mins(20);

/// The longest silence that a phase may have, regardless of learned durations.
const STALLED_AT_MOST: SignedDuration = SignedDuration::from_mins(60);

/// The time without progress after which a phase is stalled. A phase that usually takes longer may be silent for as long; learned
/// durations never shorten the time.
pub(super) fn stalled_after(learned: Option<&LearnedPhase>) -> SignedDuration {
    let longest = learned.map(|row| SignedDuration::try_from(row.times.p95));
    match longest {
        Some(Ok(longest)) => longest.clamp(STALLED_AFTER, STALLED_AT_MOST),
        Some(Err(_)) => STALLED_AT_MOST,
        None => STALLED_AFTER,
    }
}

/// Progress of a node that is not Ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// As usual.
    Moving,
    /// Slower than usual, but with progress.
    Slow,
    /// No observable progress for a time.
    Stalled,
    /// Proved to require a repair.
    Stuck,
}

impl Pace {
    pub fn as_str(self) -> &'static str {
        match self {
            Pace::Moving => "moving",
            Pace::Slow => "slow",
            Pace::Stalled => "stalled",
            Pace::Stuck => "stuck",
        }
    }
}

/// The pace, and when it changes without a new event. `slow` is when the phase exceeds its expected duration. `stalled_after` is
/// the time without progress after which it is stalled.
pub(super) fn pace(
    slow: Timestamp,
    moved: Timestamp,
    stalled_after: SignedDuration,
    stuck: bool,
    now: Timestamp,
) -> (Pace, Option<Timestamp>) {
    let stalled = moved.saturating_add(stalled_after).unwrap_or(moved);
    if stuck {
        return (Pace::Stuck, None);
    }
    let pace = if now >= stalled {
        Pace::Stalled
    } else if now >= slow {
        Pace::Slow
    } else {
        Pace::Moving
    };
    let next = [slow, stalled].into_iter().filter(|at| *at > now).min();
    (pace, next)
}
