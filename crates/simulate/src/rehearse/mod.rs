//! A boot before it happens: the same bootstrap in simulated time by many seeds, with Windrow and
//! without it, summed up for people and for programs.
//!
//! What the deploy controller does is checked against one on a real API server
//! (`tests/kubernetes/fidelity.rs`); times, and what Harvester's controllers do, are modelled. What comes out in
//! every seed is sure as far as the model goes; what comes out in some of them is a race.

pub mod carriers;
pub mod fix;
pub mod flown;
pub mod guesses;
pub mod membership;
pub mod modelled;
pub mod proofs;
mod recognise;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::{ManifestPath, MarkerPath};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::{Finding, Origin};

use self::recognise::recognised;
use crate::{Counts, PreparedSetup, Run, Setup};

/// Versions at which Harvester's bootstrap came to behave otherwise, the oldest first.
const TURNS: [HarvesterVersion; 2] = [
    HarvesterVersion::new(1, 5, 0),
    HarvesterVersion::new(1, 5, 1),
];
/// By so many seeds another version is looked at.
const SEEDS_OF_A_VERSION: u64 = 10;

/// What came of a rehearsal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rehearsal {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Rehearsal`
    pub kind: String,
    /// Every node that was rehearsed, all in one cluster. What a cluster has once (how it ended, work,
    /// machines) is the same at each.
    pub nodes: Vec<NodeRehearsal>,
    /// What is wrong between nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// One node's rehearsal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRehearsal {
    /// How the node is called.
    pub name: String,
    /// Harvester's version; absent for RKE2 alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<String>,
    /// What is said of versions that were asked for and of which there is no model: what comes up is not known
    /// then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beyond: Vec<String>,
    /// Does the installer preset a storage network?
    pub storage_network: bool,
    /// By how many seeds.
    pub seeds: u64,
    /// The bootstrap as it goes without Windrow.
    pub without: Side,
    /// And with it.
    pub with: Side,
    /// The same node with other versions of Harvester.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionOutcome>,
    /// What is wrong with the files, and proofs of what cannot work.
    pub findings: Vec<Finding>,
}

/// All bootstraps with Windrow, or all without.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// How it ended, the commonest end first.
    pub ends: Vec<End>,
    /// What became of every manifest file.
    pub files: BTreeMap<ManifestPath, Fate>,
    /// States in which virtual machines ended, and in how many seeds.
    pub machines: BTreeMap<String, BTreeMap<String, u64>>,
    /// What RKE2's deploy controller did.
    pub work: Work,
    /// When the bootstrap was over, in seconds from power-on; absent when it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Span>,
    /// What stays held for ever, in the seed of the timeline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stays_held: Vec<Kept>,
    /// Known incidents, recognised in what the seeds left, the commonest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recognised: Vec<Recognised>,
    /// The seed of the timeline: the first one that ended worst.
    pub seed: u64,
    /// What happened, in that seed.
    pub timeline: Vec<Moment>,
}

/// One way to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// Which.
    pub verdict: Ended,
    /// In how many seeds.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
    /// What is missing, or the proof that it can never end otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
}

/// How a bootstrap ended. The worse, the greater.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Ended {
    /// Everything came up.
    Complete,
    /// Everything came up as far as it is known: an installer has to bring what nothing known brings.
    Unknown,
    /// Everything came up, but the storage network that the installer's configuration presets is never
    /// configured.
    Unconfigured,
    /// Things were still happening after twelve hours.
    Underway,
    /// Nothing can change any more, and something is missing.
    Stuck,
    /// Nothing can change any more, because one thing waits for another in a circle.
    Deadlocked,
}

/// A known incident, as `windrow diagnose` would recognise it in what is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recognised {
    /// Reason code.
    pub code: Code,
    /// What it is about, `Kind namespace/name`.
    pub subject: String,
    /// What, in a line.
    pub message: String,
    /// What to do about it on the node.
    pub advice: String,
    /// In how many seeds.
    pub seeds: u64,
}

/// What became of a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fate {
    /// The marker that keeps it from RKE2 and that Windrow did not make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<MarkerPath>,
    /// In how many seeds RKE2 applied it.
    pub applied_in: u64,
    /// When it was applied first, in seconds from power-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Span>,
    /// In how many seeds it was held.
    pub held_in: u64,
    /// When Windrow let it go, in seconds from power-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Span>,
    /// The most failures in one seed.
    pub failures: u64,
    /// In how many seeds it failed at all.
    #[serde(default)]
    pub failed_in: u64,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The least and the most, over all seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// The least.
    pub from: f64,
    /// The most.
    pub to: f64,
}

/// What the deploy controller did: least and most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Work {
    /// In the seed in which it did least.
    pub least: Counts,
    /// In the seed in which it did most.
    pub most: Counts,
}

/// A file that stays held, and whose rule holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// The file.
    pub file: ManifestPath,
    /// Reason code.
    pub code: Code,
    /// Why, in a line.
    pub why: String,
    /// Whose rules, each with its place.
    pub rules: Vec<Origin>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// When, in seconds from power-on.
    pub at: f64,
    /// What, in a line.
    pub what: String,
    /// How much it matters to a reader.
    pub weight: Weight,
    /// The file that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<ManifestPath>,
}

/// What sort of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Weight {
    /// A step of the platform.
    Step,
    /// Something was applied or came into its state.
    Good,
    /// Windrow holds or releases.
    Staging,
    /// Something failed or was refused.
    Bad,
    /// Bookkeeping.
    Small,
}

/// How the same node fares with another version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionOutcome {
    /// Harvester's version.
    pub version: String,
    /// How it ends without Windrow, at worst.
    pub without: Ended,
    /// How it ends with Windrow, at worst.
    pub with: Ended,
}

impl NodeRehearsal {
    /// Every known incident that was recognised on either side, with the number of seeds without Windrow
    /// and with it.
    pub fn recognised(&self) -> Vec<(&Recognised, u64, u64)> {
        let same = |one: &Recognised, other: &Recognised| {
            (one.code, &one.subject) == (other.code, &other.subject)
        };
        let mut all: Vec<_> = self
            .without
            .recognised
            .iter()
            .map(|one| (one, one.seeds, 0))
            .collect();
        for one in &self.with.recognised {
            match all.iter_mut().find(|(known, ..)| same(known, one)) {
                Some((.., with)) => *with = one.seeds,
                None => all.push((one, 0, one.seeds)),
            }
        }
        all
    }

    /// How it ends with Windrow at worst; what is proved to keep it from working counts.
    pub fn worst(&self) -> Ended {
        let ends = self.with.ends.iter().map(|end| end.verdict);
        // Nothing comes up for certain that is only played like something else.
        let beyond = self.beyond.first().map(|_| Ended::Unknown);
        ends.chain(proved(&self.findings))
            .chain(beyond)
            .max()
            .unwrap_or(Ended::Complete)
    }
}

impl Rehearsal {
    /// The nodes' rehearsals together.
    pub fn of(nodes: Vec<NodeRehearsal>, findings: Vec<Finding>) -> Self {
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "Rehearsal".to_owned(),
            nodes,
            findings,
        }
    }

    /// How the nodes end with Windrow at worst.
    pub fn worst(&self) -> Ended {
        let nodes = self.nodes.iter().map(NodeRehearsal::worst);
        nodes
            .chain(proved(&self.findings))
            .max()
            .unwrap_or(Ended::Complete)
    }
}

/// What an error among the findings keeps from working stays unfinished; of what was not looked at nobody
/// knows.
fn proved(findings: &[Finding]) -> Option<Ended> {
    let ends = findings.iter().filter_map(|finding| match finding {
        finding if finding.severity == Severity::Error => Some(Ended::Stuck),
        finding if finding.code == Code::NotLookedAt => Some(Ended::Unknown),
        _ => None,
    });
    ends.max()
}

/// What is rehearsed of some seeds.
pub struct Part {
    /// With Windrow and without it, by node.
    sides: Vec<(summary::Summary, summary::Summary)>,
    /// With other versions of Harvester.
    versions: Vec<(HarvesterVersion, Ended, Ended)>,
}

impl Part {
    /// Plays these seeds.
    pub fn of(setup: &Setup, seeds: RangeInclusive<u64>) -> Self {
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
        };
        let known = PreparedSetup::read(setup);
        for seed in seeds.clone() {
            let (with, without) = play(setup, &known, seed);
            let (left_with, left_without) = (recognised(&with), recognised(&without));
            for side in &mut part.sides {
                side.0.take(&with, &left_with);
                side.1.take(&without, &left_without);
            }
        }
        for version in other_versions(setup) {
            let mut other = setup.clone();
            other.scenario.harvester = Some(version);
            let (mut with, mut without) = (Ended::Complete, Ended::Complete);
            for seed in seeds.clone().filter(|seed| *seed <= SEEDS_OF_A_VERSION) {
                let runs = play(&other, &known, seed);
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
        for (one, more) in self.versions.iter_mut().zip(later.versions) {
            one.1 = one.1.max(more.1);
            one.2 = one.2.max(more.2);
        }
    }

    /// What came of it: every node's name, and what is wrong with its files.
    pub fn nodes(
        self,
        setup: &Setup,
        seeds: u64,
        nodes: Vec<(String, Vec<Finding>)>,
    ) -> Vec<NodeRehearsal> {
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
                    seeds,
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
fn play(setup: &Setup, known: &PreparedSetup, seed: u64) -> (Run, Run) {
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
    let part = Part::of(setup, 1..=seeds);
    let mut nodes = part.nodes(setup, seeds, vec![(name.to_owned(), findings)]);
    nodes.remove(0)
}

/// Seconds from power-on.
fn seconds(start: Timestamp, at: Timestamp) -> f64 {
    Duration::try_from(at.duration_since(start)).map_or(0.0, |passed| passed.as_secs_f64())
}

/// The JSON schema of a rehearsal.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Rehearsal);
    // A schema is made of maps and strings, and always serialises.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}
