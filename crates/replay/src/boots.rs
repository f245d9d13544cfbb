//! The boots in a flight: which of its segments belong together.
//!
//! A segment begins with every process, and whenever the file begins again. Segments with the same boot id are one
//! boot. If no boot id was recorded, the segments of one process are one boot: each line has the start time of its
//! process.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_decide::flight::{FlightLine, RecordedDecision};

use crate::{Flights, Segment};

/// Two times of the same process differ only by rounding.
const SAME: SignedDuration = SignedDuration::from_secs(1);

/// One boot of a node, as far as the flight covers it.
#[derive(Debug, Clone)]
pub struct RecordedBoot<'f> {
    /// The oldest first. At least one.
    pub segments: Vec<&'f Segment>,
}

impl RecordedBoot<'_> {
    /// The kernel's id of the boot; `None` if it was not recorded.
    pub fn id(&self) -> Option<&str> {
        self.segments.first()?.head.boot.as_deref()
    }

    /// The oldest first. The boolean is true for the first decision of a segment.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = (&Segment, bool, &RecordedDecision)> {
        self.segments.iter().flat_map(|segment| {
            let decisions = decisions(segment).enumerate();
            decisions.map(move |(number, decision)| (*segment, number == 0, decision))
        })
    }
}

/// The oldest first. A boot without a decision is left out, because the flight says nothing about it.
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

/// False if Windrow cannot tell.
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

/// When the process started, if the line has this time.
pub(super) fn started(decision: &RecordedDecision) -> Option<Timestamp> {
    api_time(decision, "started")
}

/// When kube-apiserver first answered this process, if the line has this time.
pub(super) fn first_reachable(decision: &RecordedDecision) -> Option<Timestamp> {
    api_time(decision, "firstReachable")
}

fn api_time(decision: &RecordedDecision, field: &str) -> Option<Timestamp> {
    let api = decision.facts.get("api").and_then(Value::as_object)?;
    api.get(field)?.as_str()?.parse().ok()
}
