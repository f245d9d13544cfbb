//! When something is finished, as an interval with its count, because a single number would not be a prediction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_plan::knowledge::{ClassTimes, LearnedPhase, NodeFacts};
use windrow_plan::readiness::node::Phase;
use windrow_plan::{Plan, SatisfiedBy};

use super::rehearsal::Span;

/// When something is finished in the simulated boots, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// Number of simulated boots in which it finished.
    pub boots: u64,
    /// Interval of half of them.
    pub half: Span,
    /// Interval of nine of ten of them.
    pub nine_of_ten: Span,
}

/// Duration of a phase on nodes of this kind, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeenPhase {
    /// Name of the phase.
    pub phase: Phase,
    /// Number of boots.
    pub boots: u32,
    /// Hardware class of the machines; absent for all machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// Interval that is expected for half of the next boots.
    pub half: Span,
    /// Interval that is expected for nine of ten of the next boots.
    pub nine_of_ten: Span,
}

impl Prediction {
    /// From the seconds of each bootstrap; `None` for an empty list.
    pub(super) fn new(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        let last = seconds.len().checked_sub(1)?;
        // Rounds outwards: with few bootstraps the interval contains all of them.
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

/// Machines from which the learned times in a rehearsal come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsedTimes {
    /// Hardware class of the node, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// Number of times from machines of this class.
    pub of_class: usize,
    /// Number of times from all machines, because too little was learned about the class, or because none was given.
    pub of_all: usize,
}

impl UsedTimes {
    /// The times for a rehearsal of these files; `None` if no times were learned.
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
