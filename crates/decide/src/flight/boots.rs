//! The boots that a flight holds: which of its segments belong together.
//!
//! A segment begins with every process, and with every file that was begun again. Those of one boot id are one boot. Where no boot
//! id was recorded, segments of one process are: the process says when it began to look.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{FlightLine, Flights, RecordedDecision, Segment};

/// Two times of the same process differ by rounding alone.
const SAME: SignedDuration = SignedDuration::from_secs(1);

/// One boot of a node, as far as it is in the flight.
#[derive(Debug, Clone)]
pub struct RecordedBoot<'f> {
    /// Its segments, the oldest first. At least one.
    pub segments: Vec<&'f Segment>,
}

impl RecordedBoot<'_> {
    /// The kernel's id of the boot; none where it was not recorded.
    pub fn id(&self) -> Option<&str> {
        self.segments.first()?.head.boot.as_deref()
    }

    /// Its decisions, the oldest first, each with whether it is the first of its segment.
    pub(super) fn decisions(&self) -> impl Iterator<Item = (&Segment, bool, &RecordedDecision)> {
        self.segments.iter().flat_map(|segment| {
            let decisions = decisions(segment).enumerate();
            decisions.map(move |(number, decision)| (*segment, number == 0, decision))
        })
    }
}

/// The boots of a flight, the oldest first. One without any decision is left out: nothing is known of it.
pub fn boots(flights: &Flights) -> Vec<RecordedBoot<'_>> {
    let mut boots: Vec<RecordedBoot<'_>> = Vec::new();
    for segment in &flights.segments {
        if decisions(segment).next().is_none() {
            continue;
        }
        match boots.last_mut() {
            Some(boot) if boot.segments.last().is_some_and(|last| same(last, segment)) => {
                boot.segments.push(segment);
            }
            _ => boots.push(RecordedBoot {
                segments: vec![segment],
            }),
        }
    }
    boots
}

fn same(before: &Segment, after: &Segment) -> bool {
    match (&before.head.boot, &after.head.boot) {
        (Some(before), Some(after)) => before == after,
        (None, None) => is_same_process(last_started(before), last_started(after)),
        _ => false,
    }
}

/// Did one process write both? Not known: no.
pub(super) fn is_same_process(before: Option<Timestamp>, after: Option<Timestamp>) -> bool {
    matches!((before, after), (Some(before), Some(after))
        if before.duration_since(after).abs() <= SAME)
}

fn last_started(segment: &Segment) -> Option<Timestamp> {
    decisions(segment).filter_map(started).last()
}

fn decisions(segment: &Segment) -> impl Iterator<Item = &RecordedDecision> {
    segment.lines.iter().filter_map(|(_, line)| match line {
        FlightLine::Decision(decision) => Some(decision.as_ref()),
        _ => None,
    })
}

/// When the process began to look, where the line says so.
pub(super) fn started(decision: &RecordedDecision) -> Option<Timestamp> {
    api_time(decision, "started")
}

/// When kube-apiserver answered this process first, where the line says so.
pub(super) fn first_reachable(decision: &RecordedDecision) -> Option<Timestamp> {
    api_time(decision, "firstReachable")
}

fn api_time(decision: &RecordedDecision, field: &str) -> Option<Timestamp> {
    let api = decision.facts.get("api").and_then(Value::as_object)?;
    api.get(field)?.as_str()?.parse().ok()
}
