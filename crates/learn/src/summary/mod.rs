//! The summary of a set of boots: providers with their things, durations of phases, refusals. It is calculated from all
//! boots each time, so that their order does not matter.

mod evidence;
mod names;
mod phases;
mod shipped;
mod versions;

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use windrow_decide::flight::Appeared;
use windrow_model::manifest::GroupKind;
use windrow_plan::knowledge::{ClassTimes, LearnedTimes, Seen};
use windrow_plan::readiness::node::{NodeRole, Phase};
use windrow_plan::rules::Platform;

use crate::boot_set::BootSet;
use crate::row::ObservedBoot;

pub use self::versions::VersionSpan;

/// The summary of a set of boots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// The providers and their things.
    pub entries: Vec<LearnedEntry>,
    pub phases: Vec<PhaseEntry>,
    pub refusals: Vec<RefusalEntry>,
    /// The boots in it, the oldest first.
    pub boots: Vec<ObservedBoot>,
}

/// One provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedEntry {
    /// Its name in the file.
    pub name: String,
    pub by: Provider,
    pub versions: VersionSpan,
    pub things: BTreeSet<Appeared>,
    /// How long until all of it exists; absent if no boot shows it.
    pub times: Option<LearnedTimes>,
    /// The number of boots for the times.
    pub timed: usize,
    /// The times on classes of hardware with enough boots, and the number of boots.
    pub times_on: Vec<(ClassTimes, usize)>,
    pub seen: Seen,
}

/// A provider, in the form of a knowledge file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provider {
    Chart {
        name: String,
        /// A part of its address, if charts with this name differ.
        repository: Option<String>,
        /// Values, one of which has to be true, according to the shipped knowledge of this chart.
        values: Vec<String>,
    },
    /// A chart that RKE2 packages.
    Rke2 {
        component: String,
        /// `cni` or `ingressController`, and the word in it that selects the chart.
        selected_by: Option<(&'static str, String)>,
    },
    /// A part of Harvester.
    Harvester {
        part: String,
        /// The step with which it comes.
        phase: Option<&'static str>,
        /// The addon that has to be enabled.
        addon: Option<String>,
    },
    Operator {
        deployment: String,
        acts_on: GroupKind,
    },
}

/// How long a phase takes on nodes of one sort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseEntry {
    pub phase: Phase,
    pub platform: Platform,
    /// The platform's versions.
    pub versions: VersionSpan,
    /// `None`: the boots do not contain it.
    pub role: Option<NodeRole>,
    pub hardware: Option<String>,
    /// Was the node installed before?
    pub installed: bool,
    pub times: LearnedTimes,
    /// The number of boots in which it ended, and in which it began.
    pub seen: Seen,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalEntry {
    pub kind: GroupKind,
    /// The text of the refusal.
    pub said: String,
    /// The cause, if it was found.
    pub cause: Option<String>,
    pub seen: Seen,
}

impl Summary {
    /// Only of the boots that fit in a file.
    pub fn of_boots(set: &BootSet) -> Self {
        Self::of_rows(&set.boots())
    }

    /// From these boots, each of them once.
    pub fn of_rows(boots: &[&ObservedBoot]) -> Self {
        Self {
            entries: evidence::Evidence::gather(boots).into_entries(),
            phases: phases::phases(boots),
            refusals: refusals(boots),
            boots: boots.iter().map(|boot| (*boot).clone()).collect(),
        }
    }
}

/// The day of a boot, in UTC.
pub(super) fn day(boot: &ObservedBoot) -> Date {
    boot.at.to_zoned(TimeZone::UTC).date()
}

pub(super) fn count(boots: usize) -> u32 {
    u32::try_from(boots).unwrap_or(u32::MAX)
}

fn refusals(boots: &[&ObservedBoot]) -> Vec<RefusalEntry> {
    /// The boots with an observation, by index, and the causes that were found.
    type Found = (BTreeSet<usize>, BTreeSet<String>);
    let mut found: BTreeMap<(GroupKind, String), Found> = BTreeMap::new();
    for (number, boot) in boots.iter().enumerate() {
        for refusal in &boot.refusals {
            let key = (refusal.kind.clone(), refusal.said.clone());
            let (numbers, causes) = found.entry(key).or_default();
            numbers.insert(number);
            causes.extend(refusal.cause.clone());
        }
    }
    let found = found.into_iter();
    found
        .filter_map(|((kind, said), (numbers, causes))| {
            let last = numbers.iter().map(|number| day(boots[*number])).max()?;
            // Two causes count as none.
            let mut causes = causes.into_iter();
            let cause = causes.next().filter(|_| causes.next().is_none());
            Some(RefusalEntry {
                kind,
                said,
                cause,
                seen: Seen {
                    boots: count(numbers.len()),
                    of: count(boots.len()),
                    last,
                },
            })
        })
        .collect()
}
