//! When something is over, as an interval with its count. One number would be no prediction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_plan::knowledge::{ClassTimes, LearnedPhase, NodeFacts};
use windrow_plan::readiness::node::Phase;
use windrow_plan::{Plan, SatisfiedBy};

use super::rehearsal::Span;

/// When something is over, in seconds, in bootstraps that were rehearsed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// How many bootstraps it rests on: those in which it came to be over.
    pub boots: u64,
    /// Half of them are between these two.
    pub half: Span,
    /// Nine of ten of them are between these two.
    pub nine_of_ten: Span,
}

/// How long a phase took on nodes of this kind, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeenPhase {
    /// Which.
    pub phase: Phase,
    /// On how many boots.
    pub boots: u32,
    /// Of machines of this class of hardware; absent: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// Half of the next boots are expected between these two.
    pub half: Span,
    /// Nine of ten of the next boots are expected between these two.
    pub nine_of_ten: Span,
}

impl Prediction {
    /// From the seconds of each bootstrap; `None` of none.
    pub(super) fn new(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        let last = seconds.len().checked_sub(1)?;
        // Outwards: an interval of few bootstraps is all of them.
        let between = |tail: f64| Span {
            from: seconds[(last as f64 * tail).floor() as usize],
            to: seconds[last - (last as f64 * tail).floor() as usize],
        };
        Some(Self {
            boots: u64::try_from(seconds.len()).unwrap_or(u64::MAX),
            half: between(0.25),
            nine_of_ten: between(0.05),
        })
    }
}

impl From<&LearnedPhase> for SeenPhase {
    fn from(row: &LearnedPhase) -> Self {
        let times = &row.times;
        let span = |from: std::time::Duration, to: std::time::Duration| Span {
            from: from.as_secs_f64(),
            to: to.as_secs_f64(),
        };
        Self {
            phase: row.phase,
            boots: row.seen.boots,
            hardware: row.hardware.as_ref().map(ToString::to_string),
            half: span(times.p25, times.p75),
            nine_of_ten: span(times.p5, times.p95),
        }
    }
}

/// Of which machines the times are that a rehearsal takes from earlier boots.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsedTimes {
    /// The node's class of hardware, where it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// How many times are of machines of that class.
    pub of_class: usize,
    /// How many are of all machines: too little was learned of the class, or it was not named.
    pub of_all: usize,
}

impl UsedTimes {
    /// Those that a rehearsal of these files takes; `None` where nothing was learned of how long they take.
    pub fn of(plan: &Plan, node: &NodeFacts) -> Option<Self> {
        let is_class = |one: &ClassTimes| node.hardware() == Some(one.hardware.as_str());
        let mut used = Self {
            hardware: node.hardware().map(str::to_owned),
            ..Self::default()
        };
        let documents = || plan.files.iter().flat_map(|file| &file.documents);
        let brought = documents().filter_map(|document| document.brings.as_ref());
        let brought = brought.map(|known| (known.times.is_some(), &known.times_on));
        let needed = documents().flat_map(|document| &document.requires);
        let needed = needed.filter(|one| matches!(one.satisfied_by, SatisfiedBy::Platform { .. }));
        let needed = needed.filter_map(|one| one.learned.as_ref());
        let needed = needed.map(|known| (known.times.is_some(), &known.times_on));
        for (is_known, times_on) in brought.chain(needed) {
            match times_on.iter().any(is_class) {
                true => used.of_class += 1,
                false => used.of_all += usize::from(is_known),
            }
        }
        (used.of_class + used.of_all > 0).then_some(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_leaves_out_no_more_than_it_says_and_of_few_nothing() {
        let within = |span: Span| (span.from, span.to);
        let all = Prediction::new((1..=101).rev().map(f64::from).collect()).unwrap();
        assert_eq!((all.boots, within(all.half)), (101, (26.0, 76.0)));
        assert_eq!(within(all.nine_of_ten), (6.0, 96.0));
        let few = Prediction::new(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!(within(few.nine_of_ten), (1.0, 3.0));
        assert_eq!(within(few.half), (1.0, 3.0));
        assert_eq!(Prediction::new(Vec::new()), None);
    }
}
