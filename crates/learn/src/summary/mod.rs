//! What a set of boots says: who brings what, how long phases take, what was refused. Made again from all of them each time, so that it
//! does not depend on the order in which they came.

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

/// What a set of boots says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Who brings what.
    pub entries: Vec<LearnedEntry>,
    /// How long phases take.
    pub phases: Vec<PhaseEntry>,
    /// What was refused.
    pub refusals: Vec<RefusalEntry>,
    /// The boots that it was made from, the oldest first.
    pub boots: Vec<ObservedBoot>,
}

/// One who brings things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedEntry {
    /// Its name in the file.
    pub name: String,
    /// Who.
    pub by: Provider,
    /// In which versions.
    pub versions: VersionSpan,
    /// What.
    pub things: BTreeSet<Appeared>,
    /// How long until all of it is there; absent where no boot says it.
    pub times: Option<LearnedTimes>,
    /// From how many boots the times are.
    pub timed: usize,
    /// The same on classes of hardware of which enough boots are: how long, and from how many.
    pub times_on: Vec<(ClassTimes, usize)>,
    /// In how many boots.
    pub seen: Seen,
}

/// Who brings, as a knowledge file has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provider {
    /// A chart.
    Chart {
        /// Its name.
        name: String,
        /// A part of its address, where charts of this name differ.
        repository: Option<String>,
        /// Values, one of which has to be true, as it is known of this chart.
        values: Vec<String>,
    },
    /// A chart that RKE2 packages.
    Rke2 {
        /// Its name.
        component: String,
        /// `cni` or `ingressController`, and the word of it that selects the chart.
        selected_by: Option<(&'static str, String)>,
    },
    /// A part of Harvester.
    Harvester {
        /// Which.
        part: String,
        /// With which step it comes.
        phase: Option<&'static str>,
        /// Which addon has to be enabled.
        addon: Option<String>,
    },
    /// An operator.
    Operator {
        /// Its Deployment.
        deployment: String,
        /// The kind that it acts on.
        acts_on: GroupKind,
    },
}

/// How long a phase takes on nodes of one sort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseEntry {
    /// Which.
    pub phase: Phase,
    /// On which platform.
    pub platform: Platform,
    /// In which versions of it.
    pub versions: VersionSpan,
    /// On nodes of which role; `None`: the boots do not say it.
    pub role: Option<NodeRole>,
    /// On which hardware.
    pub hardware: Option<String>,
    /// Was the node installed before?
    pub installed: bool,
    /// How long.
    pub times: LearnedTimes,
    /// In how many boots it came to its end, of those in which it began.
    pub seen: Seen,
}

/// What was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalEntry {
    /// An object of this kind.
    pub kind: GroupKind,
    /// In these words.
    pub said: String,
    /// Why, where it was found.
    pub cause: Option<String>,
    /// In how many boots.
    pub seen: Seen,
}

impl Summary {
    /// Of the boots that a file takes.
    pub fn of_boots(set: &BootSet) -> Self {
        Self::of_rows(&set.boots())
    }

    /// Of these boots, each one once.
    pub fn of_rows(boots: &[&ObservedBoot]) -> Self {
        Self {
            entries: evidence::Evidence::gather(boots).into_entries(),
            phases: phases::phases(boots),
            refusals: refusals(boots),
            boots: boots.iter().map(|boot| (*boot).clone()).collect(),
        }
    }
}

/// The day of a boot, in universal time.
pub(super) fn day(boot: &ObservedBoot) -> Date {
    boot.at.to_zoned(TimeZone::UTC).date()
}

/// A count of boots.
pub(super) fn count(boots: usize) -> u32 {
    u32::try_from(boots).unwrap_or(u32::MAX)
}

fn refusals(boots: &[&ObservedBoot]) -> Vec<RefusalEntry> {
    /// The boots in which something was so, by their place, and the causes that were found.
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
            // Two causes are none.
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
