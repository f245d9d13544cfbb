//! Durations of the phases of a bootstrap: in this boot, in earlier boots, and the expected ones.
//!
//! ```text
//!   this boot  network 4 s ── api 2 min ── node (since 20:08)          stored in the state file
//!                                             │ Ready
//!   earlier boots  [boot, boot, boot …] <─────┘   the last ten of the same kind ──> expected
//! ```
//!
//! An installation and a later start are two kinds: only the first one pulls images and charts. A phase in which a boot stalled
//! does not count as usual. Without recorded boots of this node, the durations learned from similar nodes count
//! ([`LearnedPhase`]), and otherwise a default (`phase_defaults.rs`). The expectation contains its source.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phase_defaults::default_seconds;
use super::{NodeRole, Phase, Readiness};
use crate::knowledge::{LearnedPhase, phase_of};
use crate::rules::Platform;

/// Number of stored boots.
const REMEMBERED: usize = 10;
/// A phase is slow if it takes 1.5 times as long as nine of ten earlier boots, and at least this much longer.
const LEAST_MARGIN: u64 = 60;
/// Durations from other nodes extend a phase to at most this multiple of its default. Nodes that are ten times slower, or report
/// false times, must not hide that this node is slow.
const MOST_DEFAULTS: u64 = 4;

/// Bootstrap of one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootTimes {
    /// ID of the boot.
    pub boot: String,
    /// Whether the node was already installed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub installed: bool,
    /// Whether it was observed from its beginning. Otherwise its durations do not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// Current phase.
    pub phase: Phase,
    /// Start of the current phase.
    pub since: Timestamp,
    /// Finished phases.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<Phase, PhaseTime>,
    /// Phases in which there was no progress for a time.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub stalled: BTreeSet<Phase>,
    /// When the node was first Ready; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Timestamp>,
}

/// Start and duration of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseTime {
    /// When the node first reached it.
    pub began: Timestamp,
    /// Duration in seconds: the sum of all finished visits.
    pub seconds: u64,
}

/// Durations of the phases in an earlier boot, in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EarlierBoot {
    /// ID of the boot.
    pub boot: String,
    /// Whether the node was already installed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub installed: bool,
    /// Durations of its phases, without stalled ones.
    pub seconds: BTreeMap<Phase, u64>,
}

/// Expected duration of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseExpectation {
    /// A longer phase is slow, in seconds.
    pub seconds: u64,
    /// Source of the expectation.
    pub from: ExpectationSource,
    /// Durations in those boots; absent for a default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<UsualTime>,
}

/// Source of an expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExpectationSource {
    /// Windrow's default for the platform, because this node has no recorded boots.
    Default,
    /// Earlier boots of this node.
    EarlierBoots,
    /// Boots of similar nodes (learned).
    Learned,
}

/// Usual duration in earlier boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsualTime {
    /// Number of boots.
    pub boots: usize,
    /// Median in seconds.
    pub median: u64,
    /// 90th percentile in seconds.
    pub p90: u64,
}

/// The part of a judgement that concerns the boot.
#[derive(Debug, Clone, Copy)]
pub(super) struct BootStep<'a> {
    pub(super) boot: &'a str,
    /// When the earlier phases ended.
    pub(super) entered: Timestamp,
    pub(super) readiness: Readiness,
    pub(super) phase: Phase,
    /// Whether all probes of the earlier phases have enough answers.
    pub(super) is_certain: bool,
    /// Whether the node was Ready in this boot according to a state without times.
    pub(super) was_ready: bool,
    pub(super) installed: bool,
    pub(super) now: Timestamp,
}

impl BootTimes {
    /// The times after one more judgement; `None` as long as nothing is known about this boot.
    pub(super) fn after(before: Option<&Self>, step: &BootStep<'_>) -> Option<Self> {
        let known = before.filter(|times| times.boot == step.boot);
        // An Unknown state is not a phase, and while an earlier phase may still be unfinished, the node stays in its last
        // observed phase.
        let is_known = step.readiness != Readiness::Unknown && step.is_certain;
        if step.boot.is_empty() || !is_known {
            return known.cloned();
        }
        let arrived = matches!(step.readiness, Readiness::Ready | Readiness::Degraded);
        let Some(known) = known else {
            let over = arrived || step.was_ready;
            return Some(Self {
                boot: step.boot.to_owned(),
                installed: step.installed,
                whole: !over && step.phase <= Phase::Api,
                phase: step.phase,
                since: step.entered,
                phases: BTreeMap::new(),
                stalled: BTreeSet::new(),
                ready: over.then_some(step.now),
            });
        };
        let mut times = known.clone();
        if times.ready.is_none() && (arrived || times.phase != step.phase) {
            times.close(step.now);
            times.phase = step.phase;
            times.since = step.now;
            times.ready = arrived.then_some(step.now);
        }
        Some(times)
    }

    fn close(&mut self, now: Timestamp) {
        let began = self.since;
        let stay = self.phases.entry(self.phase);
        let stay = stay.or_insert(PhaseTime { began, seconds: 0 });
        stay.seconds += seconds_between(began, now);
    }

    /// Whether the node is still starting in this boot.
    pub fn is_under_way(&self) -> bool {
        self.ready.is_none()
    }

    /// The durations to store after the boot.
    pub(super) fn lesson(&self) -> Option<EarlierBoot> {
        let seconds = self.phases.iter();
        let seconds = seconds.filter(|(phase, _)| !self.stalled.contains(phase));
        (self.whole && !self.is_under_way()).then(|| EarlierBoot {
            boot: self.boot.clone(),
            installed: self.installed,
            seconds: seconds
                .map(|(phase, time)| (*phase, time.seconds))
                .collect(),
        })
    }

    /// Adjusts all times after the wall clock was set.
    pub(super) fn clock_jumped(&mut self, by: SignedDuration) {
        let moved = |at: Timestamp| at.saturating_add(by).unwrap_or(at);
        self.since = moved(self.since);
        self.ready = self.ready.map(moved);
        for time in self.phases.values_mut() {
            time.began = moved(time.began);
        }
    }
}

/// Stores a boot and removes the oldest one.
pub(super) fn remember(earlier: &mut Vec<EarlierBoot>, boot: EarlierBoot) {
    if earlier.iter().any(|known| known.boot == boot.boot) {
        return;
    }
    earlier.push(boot);
    let too_many = earlier.len().saturating_sub(REMEMBERED);
    earlier.drain(..too_many);
}

#[derive(Debug, Clone, Copy)]
pub(super) struct KnownTimes<'a> {
    pub(super) platform: Option<Platform>,
    pub(super) role: NodeRole,
    pub(super) earlier: &'a [EarlierBoot],
    /// From similar nodes.
    pub(super) learned: &'a [LearnedPhase],
}

impl KnownTimes<'_> {
    /// The learned durations of a phase in boots of this kind.
    pub(super) fn learned(&self, phase: Phase, this: Option<&BootTimes>) -> Option<&LearnedPhase> {
        let installed = this?.installed;
        phase_of(self.learned, phase, installed, self.role)
    }
}

/// The expectation for a phase, from earlier boots of the same kind, or else from similar nodes.
pub(super) fn expectation(
    phase: Phase,
    known: &KnownTimes<'_>,
    this: Option<&BootTimes>,
) -> PhaseExpectation {
    let of_kind = known.earlier.iter().filter(|boot| {
        this.is_some_and(|this| this.boot != boot.boot && this.installed == boot.installed)
    });
    let took: Vec<u64> = of_kind
        .filter_map(|boot| boot.seconds.get(&phase).copied())
        .collect();
    let by_default = default_seconds(phase, known.platform);
    if let Some(usual) = usual(took) {
        return PhaseExpectation {
            seconds: usual.slow_after(),
            from: ExpectationSource::EarlierBoots,
            usual: Some(usual),
        };
    }
    if let Some(row) = known.learned(phase, this) {
        let usual = UsualTime::learned(row);
        return PhaseExpectation {
            seconds: usual.slow_after().min(by_default * MOST_DEFAULTS),
            from: ExpectationSource::Learned,
            usual: Some(usual),
        };
    }
    PhaseExpectation {
        seconds: by_default,
        from: ExpectationSource::Default,
        usual: None,
    }
}

impl UsualTime {
    /// The usual duration in boots of other nodes.
    fn learned(row: &LearnedPhase) -> Self {
        Self {
            boots: usize::try_from(row.seen.boots).unwrap_or(usize::MAX),
            median: row.times.half.as_secs(),
            p90: row.times.p90().as_secs(),
        }
    }

    /// A phase is slow after this many seconds.
    fn slow_after(&self) -> u64 {
        let half_again = self.p90.saturating_add(self.p90 / 2);
        half_again.max(self.p90.saturating_add(LEAST_MARGIN))
    }
}

/// The median and the 90th percentile by rank; `None` for an empty list.
fn usual(mut took: Vec<u64>) -> Option<UsualTime> {
    took.sort_unstable();
    let boots = took.len();
    // The seconds of a boot are small enough for an exact float.
    let median = median(took.iter().map(|seconds| *seconds as f64).collect())?;
    Some(UsualTime {
        boots,
        median: median.round() as u64,
        p90: *took.get((boots * 9).div_ceil(10).saturating_sub(1))?,
    })
}

/// The median; the mean of the two middle values if their number is even. `None` for an empty list.
pub fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    let upper = *times.get(middle)?;
    Some(match times.len() % 2 {
        0 => (times[middle - 1] + upper) / 2.0,
        _ => upper,
    })
}

/// Whole seconds between two times; 0 if the clock went back.
pub(super) fn seconds_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_secs()).unwrap_or(0)
}
