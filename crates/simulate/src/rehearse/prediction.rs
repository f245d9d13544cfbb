//! When something is over, as an interval with its count. One number would be no prediction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_plan::knowledge::LearnedPhase;
use windrow_plan::readiness::node::Phase;

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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeenPhase {
    /// Which.
    pub phase: Phase,
    /// On how many boots.
    pub boots: u32,
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
            half: span(times.p25, times.p75),
            nine_of_ten: span(times.p5, times.p95),
        }
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
