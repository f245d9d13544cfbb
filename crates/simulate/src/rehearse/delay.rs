//! How much later the last file is applied with Windrow than without it, and which held file comes later by most.
//!
//! Files are compared, not the end of the bootstrap: how long a workload needs to start is drawn in each run, and says nothing of
//! Windrow.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::manifest::ManifestPath;

use super::ending::ended;
use super::prediction::Prediction;
use super::rehearsal::Ending;
use crate::Run;
use crate::log::HappeningKind;
use crate::times::POLL;

/// A bootstrap that takes longer with Windrow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delay {
    /// The held file that comes later by most.
    pub file: ManifestPath,
    /// By how many seconds the last file of the cluster is applied later than by RKE2 alone: the median of the seeds.
    pub seconds: f64,
    /// The same as a prediction.
    pub in_boots: Prediction,
}

/// When each file of each node was applied first.
type FirstApplied<'r> = BTreeMap<(usize, &'r ManifestPath), Timestamp>;

/// The comparisons of all seeds so far.
#[derive(Default)]
pub(super) struct Delays {
    /// By how many seconds the last file came later, one for each seed in which everything came up on both sides.
    last: Vec<f64>,
    /// The files that Windrow held, by node: the seconds by which they came later, summed up.
    held: BTreeMap<(usize, ManifestPath), f64>,
    /// Did RKE2 alone not get there, in some seed?
    alone_fails: bool,
}

impl Delays {
    /// Compares one seed.
    pub(super) fn take(&mut self, with: &Run, without: &Run) {
        self.alone_fails |= ended(without) != Ending::Complete;
        if self.alone_fails || ended(with) != Ending::Complete {
            return;
        }
        let (late, alone) = (first_applied(with), first_applied(without));
        let (Some(late_end), Some(alone_end)) = (late.values().max(), alone.values().max()) else {
            return;
        };
        self.last.push(seconds(*alone_end, *late_end));
        for happening in &with.log {
            let HappeningKind::Held { marker, .. } = &happening.what else {
                continue;
            };
            let file = marker.file();
            let key = (happening.server, &file);
            if let (Some(late), Some(alone)) = (late.get(&key), alone.get(&key)) {
                let sum = self.held.entry((happening.server, file.clone()));
                *sum.or_default() += seconds(*alone, *late);
            }
        }
    }

    /// Takes in the comparisons of later seeds.
    pub(super) fn merge(&mut self, later: Self) {
        self.last.extend(later.last);
        self.alone_fails |= later.alone_fails;
        for (file, sum) in later.held {
            *self.held.entry(file).or_default() += sum;
        }
    }

    /// The delay, and the node whose file makes it. `None` where it is no more than RKE2's poll, or RKE2 alone does not get there
    /// in every seed.
    pub(super) fn worst(mut self) -> Option<(usize, Delay)> {
        if self.alone_fails {
            return None;
        }
        self.last.sort_by(f64::total_cmp);
        // The lower one of two: chance alone has to make half of the seeds late.
        let median = *self.last.get(self.last.len().checked_sub(1)? / 2)?;
        if median <= POLL.as_secs_f64() {
            return None;
        }
        let mut held = self.held.into_iter();
        let first = held.next()?;
        let ((node, file), _) = held.fold(first, |most, one| match one.1 > most.1 {
            true => one,
            false => most,
        });
        let delay = Delay {
            file,
            seconds: median,
            in_boots: Prediction::new(self.last)?,
        };
        Some((node, delay))
    }
}

fn first_applied(run: &Run) -> FirstApplied<'_> {
    let mut first = FirstApplied::new();
    for happening in &run.log {
        if let HappeningKind::Applied { file } = &happening.what {
            let at = first.entry((happening.server, file));
            at.or_insert(happening.at);
        }
    }
    first
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}
