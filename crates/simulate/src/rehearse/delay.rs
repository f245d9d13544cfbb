//! Measures how much later the last file is applied with Windrow than without it, and which held file is delayed most.
//!
//! It compares files and not the end of the bootstrap: the start time of a workload is random in each run, and independent of
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
    /// Held file with the largest delay.
    pub file: ManifestPath,
    /// Delay of the last file of the cluster compared with plain RKE2, in seconds: the median of the simulated boots.
    pub seconds: f64,
    /// The same as a prediction.
    pub in_boots: Prediction,
}

/// When each file of each node was first applied.
type FirstApplied<'r> = BTreeMap<(usize, &'r ManifestPath), Timestamp>;

#[derive(Default)]
pub(super) struct Delays {
    /// The delay of the last file in seconds, for each seed in which everything came up on both sides.
    last: Vec<f64>,
    /// The held files by node, with the sum of their delays in seconds.
    held: BTreeMap<(usize, ManifestPath), f64>,
    /// Whether plain RKE2 did not complete in some seed.
    alone_fails: bool,
}

impl Delays {
    /// Adds the comparison of one seed.
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

    /// Adds the comparisons of later seeds.
    pub(super) fn merge(&mut self, later: Self) {
        self.last.extend(later.last);
        self.alone_fails |= later.alone_fails;
        for (file, sum) in later.held {
            *self.held.entry(file).or_default() += sum;
        }
    }

    /// The delay, and the node whose file causes it. `None` if it does not exceed RKE2's poll, or if plain RKE2 does not complete
    /// in every seed.
    pub(super) fn worst(mut self) -> Option<(usize, Delay)> {
        if self.alone_fails {
            return None;
        }
        self.last.sort_by(f64::total_cmp);
        // The lower of the two middle values, so that chance alone must delay half of the seeds.
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
