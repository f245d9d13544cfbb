//! Slow, stalled, stuck: three things.
//!
//! *Slow* takes longer than usual and still moves. *Stalled* has not moved in anything that can be
//! observed for a time, which proves nothing. *Stuck* is proved: it will not come right by itself.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::knowledge::LearnedPhase;

/// Nothing observable moved for so long: stalled. Longer than RKE2's own pauses: its server gives
/// kube-apiserver 15 minutes before it starts over.
pub(super) const STALLED_AFTER: SignedDuration = SignedDuration::from_mins(20);

/// No phase is taken to be silent for longer than this, whatever was learned of it.
const STALLED_AT_MOST: SignedDuration = SignedDuration::from_mins(60);

/// After how long without a movement a phase is stalled. One that is known to last longer than that in ordinary boots may be silent
/// for as long; what was learned never makes it shorter.
pub(super) fn stalled_after(learned: Option<&LearnedPhase>) -> SignedDuration {
    let longest = learned.map(|row| SignedDuration::try_from(row.times.p95));
    match longest {
        Some(Ok(longest)) => longest.clamp(STALLED_AFTER, STALLED_AT_MOST),
        Some(Err(_)) => STALLED_AT_MOST,
        None => STALLED_AFTER,
    }
}

/// How a node that is not Ready gets on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// As usual.
    Moving,
    /// Longer than usual, and still moving.
    Slow,
    /// Nothing observable has moved for a time.
    Stalled,
    /// Proved that it will not come right by itself.
    Stuck,
}

impl Pace {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Pace::Moving => "moving",
            Pace::Slow => "slow",
            Pace::Stalled => "stalled",
            Pace::Stuck => "stuck",
        }
    }
}

/// The pace, and when it changes though nothing happens. `slow`: when its phase takes longer than expected. `stalled_after`: after how
/// long without a movement it is stalled.
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
