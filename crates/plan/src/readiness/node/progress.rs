//! Slow, stalled, stuck: three things.
//!
//! *Slow* takes longer than usual and still moves. *Stalled* has not moved in anything that can be
//! observed for a time, which proves nothing. *Stuck* is proved: it will not come right by itself.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Phase;

/// Nothing observable moved for so long: stalled. Longer than RKE2's own pauses: its server gives
/// kube-apiserver 15 minutes before it starts over.
pub(super) const STALLED_AFTER: SignedDuration = SignedDuration::from_mins(20);

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

/// The pace, and when it changes though nothing happens.
pub(super) fn pace(
    phase: Phase,
    entered: Timestamp,
    moved: Timestamp,
    stuck: bool,
    now: Timestamp,
) -> (Pace, Option<Timestamp>) {
    let after = |from: Timestamp, by: SignedDuration| from.saturating_add(by).unwrap_or(from);
    let slow = after(entered, SignedDuration::from_secs(phase.usual_seconds()));
    let stalled = after(moved, STALLED_AFTER);
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
