//! What a rehearsal says, as people and programs read it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_decide::flight::BootTimeline;
use windrow_model::findings::Finding;
use windrow_model::manifest::{ManifestPath, MarkerPath};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::Origin;

use super::delay::Delay;
use super::prediction::{Prediction, SeenPhase, UsedTimes};
use crate::{DeployCounts, JoinRole};

/// What came of a rehearsal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rehearsal {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Rehearsal`
    pub kind: String,
    /// The version of Windrow that rehearsed.
    #[serde(default)]
    pub windrow: String,
    /// How the nodes end with Windrow at worst, with what is proved.
    pub verdict: Ending,
    /// Every node that was rehearsed, all in one cluster. What a cluster has once (how it ended, work,
    /// machines) is the same at each.
    pub nodes: Vec<NodeRehearsal>,
    /// What is wrong between nodes.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "windrow_model::findings::serialize_advised"
    )]
    #[schemars(with = "Vec<windrow_model::findings::AdvisedFinding<'static>>")]
    pub findings: Vec<Finding>,
}

/// One node's rehearsal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRehearsal {
    /// How the node is called.
    pub name: String,
    /// What it is in its cluster.
    #[serde(default)]
    pub role: MemberRole,
    /// Harvester's version; absent for RKE2 alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<String>,
    /// Versions that were asked for and that there is no model of, a sentence each: what comes up is then not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beyond: Vec<String>,
    /// Does the installer preset a storage network?
    pub storage_network: bool,
    /// How many seeds.
    pub seeds: u64,
    /// The bootstrap as it goes without Windrow.
    pub without: Side,
    /// And with it.
    pub with: Side,
    /// How much longer it takes with Windrow, where a file of this node makes it take longer by more than RKE2's poll, and RKE2 alone
    /// gets there too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// Where the time went with Windrow, in the seed of its timeline: of the node that founds the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootTimeline>,
    /// How long phases took on nodes of this kind, in boots from which was learned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen_phases: Vec<SeenPhase>,
    /// Of which machines the times are that were taken from earlier boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_times: Option<UsedTimes>,
    /// The same node with other versions of Harvester.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionOutcome>,
    /// What is wrong with the files, and proofs of what cannot work.
    #[serde(serialize_with = "windrow_model::findings::serialize_advised")]
    #[schemars(with = "Vec<windrow_model::findings::AdvisedFinding<'static>>")]
    pub findings: Vec<Finding>,
}

/// What a node is in the cluster that is rehearsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MemberRole {
    /// It founds the cluster.
    #[default]
    First,
    /// A server that joins.
    Server,
    /// It joins as an agent, and Harvester makes it a server.
    Promoted,
    /// It joins as an agent, and Harvester makes it a member of etcd and nothing more: nothing reads its manifests directory.
    Witness,
    /// An agent: nothing reads its manifests directory.
    Agent,
}

impl MemberRole {
    /// Every role, in the order in which nodes come.
    pub const ALL: [Self; 5] = [
        Self::First,
        Self::Server,
        Self::Promoted,
        Self::Witness,
        Self::Agent,
    ];
}

impl From<JoinRole> for MemberRole {
    fn from(role: JoinRole) -> Self {
        match role {
            JoinRole::Server => Self::Server,
            JoinRole::Promoted => Self::Promoted,
            JoinRole::Witness => Self::Witness,
            JoinRole::Agent => Self::Agent,
        }
    }
}

/// All bootstraps with Windrow, or all without.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// How it ended, the commonest end first.
    pub ends: Vec<EndCount>,
    /// What became of every manifest file.
    pub files: BTreeMap<ManifestPath, FileFate>,
    /// States in which virtual machines ended, and in how many seeds.
    pub machines: BTreeMap<String, BTreeMap<String, u64>>,
    /// What RKE2's deploy controller did.
    pub work: WorkRange,
    /// When the bootstrap was over, in seconds from power-on: the least and the most; absent when it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Span>,
    /// The same as a prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_in: Option<Prediction>,
    /// When every manifest of the node that is applied at all was applied for the first time, in seconds from power-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifests_in: Option<Prediction>,
    /// What stays held forever, in the seed of the timeline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stays_held: Vec<StillHeld>,
    /// Known incidents, recognised in what the seeds left, the commonest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recognised: Vec<RecognisedIncident>,
    /// The seed of the timeline: the first one that ended worst.
    pub seed: u64,
    /// What happened, in that seed.
    pub timeline: Vec<TimelineEntry>,
}

/// One way to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndCount {
    /// Which.
    pub verdict: Ending,
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
pub enum Ending {
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

impl Ending {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Complete => "the node comes up, and everything is applied",
            Self::Unknown => {
                "whether it comes up is not known: not everything that it needs is known to come"
            }
            Self::Unconfigured => {
                "it comes up, but the storage network you preset is never configured"
            }
            Self::Underway => "things were still happening after twelve hours",
            Self::Stuck => "it stays unfinished",
            Self::Deadlocked => "it never comes up",
        }
    }
}

/// A known incident, as `windrow diagnose` would recognise it in what is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecognisedIncident {
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
pub struct FileFate {
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
pub struct WorkRange {
    /// In the seed in which it did least.
    pub least: DeployCounts,
    /// In the seed in which it did most.
    pub most: DeployCounts,
}

/// A file that stays held, and whose rule holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StillHeld {
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
pub struct TimelineEntry {
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
    pub without: Ending,
    /// How it ends with Windrow, at worst.
    pub with: Ending,
}

impl NodeRehearsal {
    /// Every known incident that was recognised on either side, with the number of seeds without Windrow
    /// and with it.
    pub fn recognised(&self) -> Vec<(&RecognisedIncident, u64, u64)> {
        let same = |one: &RecognisedIncident, other: &RecognisedIncident| {
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
    pub fn worst(&self) -> Ending {
        let ends = self.with.ends.iter().map(|end| end.verdict);
        // Nothing comes up for certain that is only played like something else, or was not played.
        let unknown = !self.beyond.is_empty() || self.seeds == 0;
        ends.chain(proved(&self.findings))
            .chain(unknown.then_some(Ending::Unknown))
            .max()
            .unwrap_or(Ending::Complete)
    }
}

impl Rehearsal {
    /// The nodes' rehearsals together.
    pub fn new(nodes: Vec<NodeRehearsal>, findings: Vec<Finding>) -> Self {
        let mut rehearsal = Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "Rehearsal".to_owned(),
            windrow: env!("CARGO_PKG_VERSION").to_owned(),
            verdict: Ending::Complete,
            nodes,
            findings,
        };
        rehearsal.verdict = rehearsal.worst();
        rehearsal
    }

    /// How the nodes end with Windrow at worst.
    pub fn worst(&self) -> Ending {
        let nodes = self.nodes.iter().map(NodeRehearsal::worst);
        nodes
            .chain(proved(&self.findings))
            .max()
            .unwrap_or(Ending::Complete)
    }
}

/// How a bootstrap ends because of its findings: an error keeps something from working, and what was not looked at is
/// not known.
fn proved(findings: &[Finding]) -> Option<Ending> {
    let ends = findings.iter().filter_map(|finding| match finding {
        finding if finding.severity == Severity::Error => Some(Ending::Stuck),
        finding if finding.code == Code::NotLookedAt => Some(Ending::Unknown),
        finding if finding.code == Code::InstallerDepends && finding.is_unknown() => {
            Some(Ending::Unknown)
        }
        _ => None,
    });
    ends.max()
}
