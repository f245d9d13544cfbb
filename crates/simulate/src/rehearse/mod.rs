//! A boot before it happens: the same bootstrap in simulated time by many seeds, with Windrow and
//! without it, summed up for people and for programs.
//!
//! What the deploy controller does is checked against one on a real API server
//! (`tests/kubernetes/fidelity.rs`); times, and what Harvester's controllers do, are modelled. What every
//! seed ends in is sure as far as the model goes; what only some of them end in is a race.

#[cfg(test)]
mod agreement_tests;
pub mod carriers;
pub mod check;
pub mod fix;
pub mod flown;
pub mod guesses;
pub mod membership;
pub mod modelled;
pub mod proofs;
mod recognise;
mod rehearsal;
mod summary;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use windrow_harvester::HarvesterVersion;
use windrow_model::findings::Finding;

use self::recognise::recognised;
pub use self::rehearsal::{
    EndCount, Ending, FileFate, NodeRehearsal, RecognisedIncident, Rehearsal, Side, Span,
    StillHeld, TimelineEntry, VersionOutcome, Weight, WorkRange, schema,
};
use crate::{PreparedSetup, Run, Setup};

/// Versions since which Harvester's bootstrap behaves otherwise, the oldest first.
const TURNS: [HarvesterVersion; 2] = [
    HarvesterVersion::new(1, 5, 0),
    HarvesterVersion::new(1, 5, 1),
];
/// How many seeds of another version are played.
const SEEDS_OF_A_VERSION: u64 = 10;

/// What is rehearsed of some seeds.
pub struct PartialRehearsal {
    /// With Windrow and without it, by node.
    sides: Vec<(summary::Summary, summary::Summary)>,
    /// With other versions of Harvester; none where there was no time for them.
    versions: Vec<(HarvesterVersion, Ending, Ending)>,
    /// How many seeds.
    played: u64,
}

impl PartialRehearsal {
    /// Plays these seeds.
    pub fn play(setup: &Setup, seeds: RangeInclusive<u64>) -> Self {
        Self::play_while(setup, seeds, &|| true)
    }

    /// Plays the first of these seeds, and those after it as long as that is wanted: it is asked before each.
    pub fn play_while(setup: &Setup, seeds: RangeInclusive<u64>, go_on: &dyn Fn() -> bool) -> Self {
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
            played: 0,
        };
        let known = PreparedSetup::read(setup);
        for seed in seeds.clone() {
            if part.played > 0 && !go_on() {
                return part;
            }
            part.played += 1;
            let (with, without) = play_seed(setup, &known, seed);
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
                if !go_on() {
                    part.versions.clear();
                    return part;
                }
                let runs = play_seed(&other, &known, seed);
                with = with.max(summary::ended(&runs.0));
                without = without.max(summary::ended(&runs.1));
            }
            part.versions.push((version, with, without));
        }
        part
    }

    /// Takes in what was played of later seeds.
    pub fn merge(&mut self, later: Self) {
        for (side, more) in self.sides.iter_mut().zip(later.sides) {
            side.0.merge(more.0);
            side.1.merge(more.1);
        }
        self.played += later.played;
        if self.versions.len() != later.versions.len() {
            self.versions.clear();
        }
        for (one, more) in self.versions.iter_mut().zip(later.versions) {
            one.1 = one.1.max(more.1);
            one.2 = one.2.max(more.2);
        }
    }

    /// How many seeds were played.
    pub fn played(&self) -> u64 {
        self.played
    }

    /// What came of it: every node's name, and what is wrong with its files.
    pub fn nodes(self, setup: &Setup, nodes: Vec<(String, Vec<Finding>)>) -> Vec<NodeRehearsal> {
        let scenario = &setup.scenario;
        let storage_network = scenario
            .storage_network
            .as_ref()
            .is_some_and(|value| !value.trim().is_empty());
        let mut versions = self.versions;
        if let (Some(asked), Some((with, without))) = (scenario.harvester, self.sides.first()) {
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
        let joined = setup.joins.iter().map(|node| &node.files);
        let files = std::iter::once(&setup.files).chain(joined);
        nodes
            .into_iter()
            .zip(self.sides)
            .zip(files)
            .map(
                |(((name, findings), (with, without)), files)| NodeRehearsal {
                    name,
                    harvester: scenario.harvester.map(|version| format!("v{version}")),
                    beyond: scenario
                        .harvester
                        .and_then(modelled::harvester)
                        .into_iter()
                        .collect(),
                    storage_network,
                    seeds: self.played,
                    without: without.side(files),
                    with: with.side(files),
                    versions: versions.clone(),
                    findings,
                },
            )
            .collect()
    }
}

/// A seed, with Windrow and without it.
fn play_seed(setup: &Setup, known: &PreparedSetup, seed: u64) -> (Run, Run) {
    (
        known.with_windrow(setup, seed),
        known.without_windrow(setup, seed),
    )
}

/// The versions at which something turned, but for the one that is played anyway.
fn other_versions(setup: &Setup) -> impl Iterator<Item = HarvesterVersion> {
    let asked = setup.scenario.harvester;
    TURNS
        .into_iter()
        .filter(move |version| asked.is_some_and(|asked| asked != *version))
}

/// Rehearses a node by the seeds 1 to `seeds`. `findings` are those of its plan.
pub fn rehearse(name: &str, setup: &Setup, seeds: u64, findings: Vec<Finding>) -> NodeRehearsal {
    let seeds = seeds.max(1);
    let part = PartialRehearsal::play(setup, 1..=seeds);
    let mut nodes = part.nodes(setup, vec![(name.to_owned(), findings)]);
    nodes.remove(0)
}
