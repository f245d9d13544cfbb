//! Rehearses a boot: simulates the same bootstrap with many seeds, with Windrow and without it, and summarizes the results for
//! users and programs.
//!
//! The behaviour of the deploy controller is compared with a deploy controller on a real API server
//! (`tests/kubernetes/fidelity.rs`). Times and Harvester's controllers are modelled. A result of every seed is certain as far as
//! the model goes; a result of only some seeds is a race.

#[cfg(test)]
mod agreement_tests;
mod boot;
pub mod carriers;
pub mod check;
mod cut;
mod delay;
mod ending;
pub mod fix;
pub mod flown;
pub mod guesses;
pub mod identity;
pub mod layout;
#[cfg(test)]
mod layout_tests;
pub mod membership;
pub mod modelled;
pub mod pod_network;
mod prediction;
pub mod promotion;
pub mod proofs;
mod recognise;
mod rehearsal;
pub mod rke2_servers;
mod summary;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use windrow_harvester::HarvesterVersion;
use windrow_model::findings::Finding;

pub use self::boot::boot_timeline;
pub use self::delay::Delay;
use self::delay::Delays;
use self::modelled::UnreadVersion;
pub use self::prediction::{Prediction, SeenPhase, UsedTimes};
use self::recognise::recognised;
pub use self::rehearsal::{
    EndCount, Ending, FileFate, MemberRole, NodeRehearsal, RecognisedIncident, Rehearsal, Side,
    Span, StillHeld, TimelineEntry, VersionOutcome, Weight, WorkRange,
};
use crate::{PreparedSetup, Run, Setup};

/// Number of seeds for another version.
const SEEDS_OF_A_VERSION: u64 = 10;

/// The results of some seeds.
pub struct PartialRehearsal {
    /// With Windrow and without it, by node.
    sides: Vec<(summary::Summary, summary::Summary)>,
    /// With other versions of Harvester; empty if there was no time for them.
    versions: Vec<(HarvesterVersion, Ending, Ending)>,
    /// The delays of the files with Windrow.
    delays: Delays,
    played: u64,
}

/// Callbacks of a running rehearsal.
pub struct Progress<'p> {
    /// Whether there is time left. It is called at each step of a seed, and a seed that does not reach its end does not count.
    pub go_on: &'p dyn Fn() -> bool,
    /// Called after each seed.
    pub played: &'p dyn Fn(),
}

impl PartialRehearsal {
    pub fn play(setup: &Setup, seeds: RangeInclusive<u64>) -> Self {
        let endless = Progress {
            go_on: &|| true,
            played: &|| {},
        };
        Self::play_while((setup, &PreparedSetup::read(setup)), seeds, &endless)
    }

    /// Plays these seeds as long as there is time. A caller that plays several ranges of one setup reads it only once.
    pub fn play_while(
        (setup, known): (&Setup, &PreparedSetup),
        seeds: RangeInclusive<u64>,
        progress: &Progress<'_>,
    ) -> Self {
        let start = setup.scenario.start;
        let mut part = Self {
            sides: (0..=setup.joins.len())
                .map(|node| {
                    (
                        summary::Summary::new(start, node),
                        summary::Summary::new(start, node),
                    )
                })
                .collect(),
            versions: Vec::new(),
            delays: Delays::default(),
            played: 0,
        };
        for seed in seeds.clone() {
            let Some((with, without)) = play_seed(setup, known, seed, progress) else {
                return part;
            };
            part.played += 1;
            (progress.played)();
            part.delays.take(&with, &without);
            let (left_with, left_without) = (recognised(&with), recognised(&without));
            for side in &mut part.sides {
                side.0.take(&with, &left_with);
                side.1.take(&without, &left_without);
            }
        }
        for version in other_versions(setup) {
            let mut other = setup.clone();
            other.scenario.harvester = Some(version);
            let node = std::mem::take(&mut other.scenario.node);
            other.scenario.node = node.with_harvester(Some(&version.to_string()));
            let (mut with, mut without) = (Ending::Complete, Ending::Complete);
            for seed in seeds.clone().filter(|seed| *seed <= SEEDS_OF_A_VERSION) {
                let Some(runs) = play_seed(&other, known, seed, progress) else {
                    part.versions.clear();
                    return part;
                };
                with = with.max(ending::ended(&runs.0));
                without = without.max(ending::ended(&runs.1));
            }
            part.versions.push((version, with, without));
        }
        part
    }

    /// Adds the results of later seeds.
    pub fn merge(&mut self, later: Self) {
        for (side, more) in self.sides.iter_mut().zip(later.sides) {
            side.0.merge(more.0);
            side.1.merge(more.1);
        }
        self.played += later.played;
        self.delays.merge(later.delays);
        if self.versions.len() != later.versions.len() {
            self.versions.clear();
        }
        for (one, more) in self.versions.iter_mut().zip(later.versions) {
            one.1 = one.1.max(more.1);
            one.2 = one.2.max(more.2);
        }
    }

    pub fn played(&self) -> u64 {
        self.played
    }

    /// The results, with the name of each node and the findings about its files.
    pub fn nodes(self, setup: &Setup, nodes: Vec<(String, Vec<Finding>)>) -> Vec<NodeRehearsal> {
        let scenario = &setup.scenario;
        let storage_network = scenario
            .storage_network
            .as_ref()
            .is_some_and(|value| !value.trim().is_empty());
        let mut versions = self.versions;
        let first = self.sides.first().filter(|_| self.played > 0);
        if let (Some(asked), Some((with, without))) = (scenario.harvester, first) {
            versions.push((asked, with.worst(), without.worst()));
        }
        versions.sort_unstable_by_key(|(version, ..)| *version);
        let versions: Vec<VersionOutcome> = versions
            .into_iter()
            .map(|(version, with, without)| VersionOutcome {
                version: format!("v{version}"),
                without,
                with,
            })
            .collect();
        let mut delay = self.delays.worst();
        let unread = scenario.harvester.and_then(modelled::harvester);
        let joined = setup.joins.iter().map(|node| &node.files);
        let files = std::iter::once(&setup.files).chain(joined);
        nodes
            .into_iter()
            .zip(self.sides)
            .zip(files)
            .enumerate()
            .map(
                |(number, (((name, findings), (with, without)), files))| NodeRehearsal {
                    name,
                    role: match number.checked_sub(1) {
                        None => MemberRole::First,
                        Some(joined) => setup.joins[joined].role.into(),
                    },
                    harvester: scenario.harvester.map(|version| format!("v{version}")),
                    beyond: unread
                        .clone()
                        .and_then(UnreadVersion::unmodelled)
                        .into_iter()
                        .collect(),
                    storage_network,
                    seeds: self.played,
                    without: without.side(files),
                    with: with.side(files),
                    delay: delay
                        .take_if(|(node, _)| *node == number)
                        .map(|(_, delay)| delay),
                    boot: None,
                    seen_phases: Vec::new(),
                    used_times: None,
                    versions: versions.clone(),
                    findings: findings
                        .into_iter()
                        .chain(unread.clone().and_then(UnreadVersion::finding))
                        .collect(),
                },
            )
            .collect()
    }
}

/// Plays a seed with Windrow and without it; `None` if the time is up before its end.
fn play_seed(
    setup: &Setup,
    known: &PreparedSetup,
    seed: u64,
    progress: &Progress<'_>,
) -> Option<(Run, Run)> {
    let with = known.with_windrow_while(setup, seed, progress.go_on)?;
    let without = known.without_windrow_while(setup, seed, progress.go_on)?;
    Some((with, without))
}

/// The versions at which the result may change, without the one that is played anyway.
fn other_versions(setup: &Setup) -> impl Iterator<Item = HarvesterVersion> {
    let asked = setup.scenario.harvester;
    modelled::turns()
        .into_iter()
        .filter(move |version| asked.is_some_and(|asked| asked != *version))
}

/// Rehearses a node with the seeds 1 to `seeds`. `findings` are those of its plan.
pub fn rehearse(name: &str, setup: &Setup, seeds: u64, findings: Vec<Finding>) -> NodeRehearsal {
    let seeds = seeds.max(1);
    let part = PartialRehearsal::play(setup, 1..=seeds);
    let mut nodes = part.nodes(setup, vec![(name.to_owned(), findings)]);
    nodes.remove(0)
}
