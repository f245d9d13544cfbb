//! How long the phases of a bootstrap take: in this boot, in earlier ones, and what is expected of each.
//!
//! ```text
//!   this boot  network 4 s ── api 2 min ── node (since 20:08)          remembered in the ledger
//!                                             │ Ready
//!   earlier boots  [boot, boot, boot …] <─────┘   the last ten of the same kind ──> expected
//! ```
//!
//! An installation and a later start are two kinds: the first pulls images and charts, the other has them. A phase in
//! which a boot stalled teaches nothing of what is usual. Where no boot of this node has taught anything, what was learned
//! from nodes like it counts ([`LearnedPhase`]), and else a default (`phase_defaults.rs`). The expectation says which.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phase_defaults::default_seconds;
use super::{NodeRole, Phase, Readiness};
use crate::knowledge::{LearnedPhase, phase_of};
use crate::rules::Platform;

/// How many earlier boots are remembered.
const REMEMBERED: usize = 10;
/// A phase is slow when it takes half as long again as nine of ten earlier boots took, and this much longer at least.
const LEAST_MARGIN: u64 = 60;
/// What was learned from other nodes makes no phase longer than this many times its default: a node that is ten times slower, or one
/// that lies, must not hide that this one is slow.
const MOST_DEFAULTS: u64 = 4;

/// The bootstrap of one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootTimes {
    /// Which boot.
    pub boot: String,
    /// Was the node installed before it?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub installed: bool,
    /// Was it seen from its beginning? Otherwise it teaches nothing of what is usual.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// The phase in which the node is.
    pub phase: Phase,
    /// Since when.
    pub since: Timestamp,
    /// The phases that it went through.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<Phase, PhaseTime>,
    /// Phases in which nothing moved for a time.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub stalled: BTreeSet<Phase>,
    /// When the node was Ready for the first time; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Timestamp>,
}

/// When a node came to a phase, and how long it was in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseTime {
    /// When it came to it first.
    pub began: Timestamp,
    /// How long it was in it, in seconds: all of its stays that are over.
    pub seconds: u64,
}

/// What an earlier boot teaches: how long each phase took, in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EarlierBoot {
    /// Which boot.
    pub boot: String,
    /// Was the node installed before it?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub installed: bool,
    /// Its phases, without those in which it stalled.
    pub seconds: BTreeMap<Phase, u64>,
}

/// What is expected of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseExpectation {
    /// Longer than this many seconds is slow.
    pub seconds: u64,
    /// Where that comes from.
    pub from: ExpectationSource,
    /// How long it took in those boots; absent for a default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<UsualTime>,
}

/// Where an expectation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExpectationSource {
    /// Windrow's own value for the platform: this node has taught nothing yet.
    Default,
    /// Earlier boots of this node.
    EarlierBoots,
    /// Boots of nodes like this one, from which was learned.
    Learned,
}

/// How long something took in earlier boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsualTime {
    /// In how many of them.
    pub boots: usize,
    /// Half of them took no longer, in seconds.
    pub median: u64,
    /// Nine of ten took no longer, in seconds.
    pub p90: u64,
}

/// What one judgement tells of a boot.
#[derive(Debug, Clone, Copy)]
pub(super) struct BootStep<'a> {
    pub(super) boot: &'a str,
    /// When the phases before its phase were over.
    pub(super) entered: Timestamp,
    pub(super) readiness: Readiness,
    pub(super) phase: Phase,
    /// Has every probe of the phases before it been asked often enough to count?
    pub(super) is_certain: bool,
    /// Was the node Ready in this boot, as far as it was remembered without its times?
    pub(super) was_ready: bool,
    pub(super) installed: bool,
    pub(super) now: Timestamp,
}

impl BootTimes {
    /// The times after one more judgement; `None` as long as nothing is known of this boot.
    pub(super) fn after(before: Option<&Self>, step: &BootStep<'_>) -> Option<Self> {
        let known = before.filter(|times| times.boot == step.boot);
        // Unknown is no phase, and neither is one behind which an earlier one may show: the node stays where it was seen last.
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

    /// The stay in the phase is over.
    fn close(&mut self, now: Timestamp) {
        let began = self.since;
        let stay = self.phases.entry(self.phase);
        let stay = stay.or_insert(PhaseTime { began, seconds: 0 });
        stay.seconds += seconds_between(began, now);
    }

    /// Is the node still on its way in this boot?
    pub fn is_under_way(&self) -> bool {
        self.ready.is_none()
    }

    /// What it teaches, once it is over.
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

    /// The wall clock was set.
    pub(super) fn clock_jumped(&mut self, by: SignedDuration) {
        let moved = |at: Timestamp| at.saturating_add(by).unwrap_or(at);
        self.since = moved(self.since);
        self.ready = self.ready.map(moved);
        for time in self.phases.values_mut() {
            time.began = moved(time.began);
        }
    }
}

/// Remembers one more boot, and forgets the oldest.
pub(super) fn remember(earlier: &mut Vec<EarlierBoot>, boot: EarlierBoot) {
    if earlier.iter().any(|known| known.boot == boot.boot) {
        return;
    }
    earlier.push(boot);
    let too_many = earlier.len().saturating_sub(REMEMBERED);
    earlier.drain(..too_many);
}

/// What is known of how long phases take.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownTimes<'a> {
    pub(super) platform: Option<Platform>,
    pub(super) role: NodeRole,
    /// The boots that the node remembers.
    pub(super) earlier: &'a [EarlierBoot],
    /// Of nodes like this one.
    pub(super) learned: &'a [LearnedPhase],
}

impl KnownTimes<'_> {
    /// What was learned of a phase in boots of this kind.
    pub(super) fn learned(&self, phase: Phase, this: Option<&BootTimes>) -> Option<&LearnedPhase> {
        let installed = this?.installed;
        phase_of(self.learned, phase, installed, self.role)
    }
}

/// What is expected of a phase: from the boots before this one that were of its kind, else from boots of nodes like this one.
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
    /// What boots of other nodes have shown.
    fn learned(row: &LearnedPhase) -> Self {
        Self {
            boots: usize::try_from(row.seen.boots).unwrap_or(usize::MAX),
            median: row.times.half.as_secs(),
            p90: row.times.p90().as_secs(),
        }
    }

    /// Longer than this many seconds is slow.
    fn slow_after(&self) -> u64 {
        let half_again = self.p90.saturating_add(self.p90 / 2);
        half_again.max(self.p90.saturating_add(LEAST_MARGIN))
    }
}

/// The middle of some times, and the ninth tenth by its rank; `None` of none.
fn usual(mut took: Vec<u64>) -> Option<UsualTime> {
    took.sort_unstable();
    let boots = took.len();
    // Seconds of a boot: far from where a float loses one.
    let median = median(took.iter().map(|seconds| *seconds as f64).collect())?;
    Some(UsualTime {
        boots,
        median: median.round() as u64,
        p90: *took.get((boots * 9).div_ceil(10).saturating_sub(1))?,
    })
}

/// The middle of some times, and between the two in the middle where their number is even. `None` of none.
pub fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    let upper = *times.get(middle)?;
    Some(match times.len() % 2 {
        0 => (times[middle - 1] + upper) / 2.0,
        _ => upper,
    })
}

/// Whole seconds from one time to another, and none where the clock went back.
pub(super) fn seconds_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_secs()).unwrap_or(0)
}
