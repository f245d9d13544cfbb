//! The result of a rehearsal, for users and programs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Finding;
use windrow_model::manifest::{ManifestPath, MarkerPath};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::Origin;
use windrow_replay::BootTimeline;

use super::delay::Delay;
use super::prediction::{Prediction, SeenPhase, UsedTimes};
use crate::{DeployCounts, JoinRole};

/// Result of a rehearsal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rehearsal {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Rehearsal`
    pub kind: String,
    /// Version of Windrow.
    #[serde(default)]
    pub windrow: String,
    /// Worst end of the nodes with Windrow, including proofs.
    pub verdict: Ending,
    /// All nodes, which form one cluster. Facts about the whole cluster (end, work, VMs) are the same for each node.
    pub nodes: Vec<NodeRehearsal>,
    /// Conflicts between nodes.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "windrow_model::findings::serialize_advised"
    )]
    #[schemars(with = "Vec<windrow_model::findings::AdvisedFinding<'static>>")]
    pub findings: Vec<Finding>,
}

/// Result of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRehearsal {
    /// Name of the node.
    pub name: String,
    /// Role of the node in its cluster.
    #[serde(default)]
    pub role: MemberRole,
    /// Harvester's version; absent for plain RKE2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<String>,
    /// Requested versions without a model, one sentence each. Their results are uncertain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beyond: Vec<String>,
    /// Whether the installer presets a storage network.
    pub storage_network: bool,
    /// Number of simulated boots.
    pub seeds: u64,
    /// Bootstrap without Windrow.
    pub without: Side,
    /// Bootstrap with Windrow.
    pub with: Side,
    /// Delay with Windrow, if a file of this node causes one longer than RKE2's poll, and plain RKE2 completes too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// Time breakdown with Windrow, in the simulated boot of its timeline, for the node that creates the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootTimeline>,
    /// Durations of phases on nodes of this kind, learned from boots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen_phases: Vec<SeenPhase>,
    /// Machines from which the times of earlier boots come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_times: Option<UsedTimes>,
    /// The same node with other versions of Harvester.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionOutcome>,
    /// Problems of the files, and proofs of deadlocks.
    #[serde(serialize_with = "windrow_model::findings::serialize_advised")]
    #[schemars(with = "Vec<windrow_model::findings::AdvisedFinding<'static>>")]
    pub findings: Vec<Finding>,
}

/// Role of a node in the simulated cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MemberRole {
    /// It creates the cluster.
    #[default]
    First,
    /// A server that joins.
    Server,
    /// It joins as an agent, and Harvester promotes it to a server.
    Promoted,
    /// It joins as an agent, and Harvester promotes it to a member of etcd only: nothing reads its manifests directory.
    Witness,
    /// An agent: nothing reads its manifests directory.
    Agent,
}

impl MemberRole {
    /// All roles, in the order in which nodes join.
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

/// All bootstraps with Windrow, or all without it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// Ends, the most frequent first.
    pub ends: Vec<EndCount>,
    /// Result of every manifest file.
    pub files: BTreeMap<ManifestPath, FileFate>,
    /// Final states of VMs, with the number of simulated boots.
    pub machines: BTreeMap<String, BTreeMap<String, u64>>,
    /// Work of RKE2's deploy controller.
    pub work: WorkRange,
    /// End of the bootstrap, in seconds from power-on: smallest and largest value; absent if it never ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Span>,
    /// The same as a prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_in: Option<Prediction>,
    /// When all applied manifests of the node had been applied once, in seconds from power-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifests_in: Option<Prediction>,
    /// Files that are held forever, in the simulated boot of the timeline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stays_held: Vec<StillHeld>,
    /// Known incidents in the final states, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recognised: Vec<RecognisedIncident>,
    /// Number of the simulated boot of the timeline: the first one with the worst end.
    pub seed: u64,
    /// Events of this simulated boot.
    pub timeline: Vec<TimelineEntry>,
}

/// One of the ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndCount {
    /// End.
    pub verdict: Ending,
    /// Number of simulated boots.
    pub seeds: u64,
    /// First of these simulated boots.
    pub first_seed: u64,
    /// Missing things, or the proof that no other end is possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
}

/// End of a bootstrap. A greater value is worse.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// Everything came up.
    Complete,
    /// Everything came up as far as Windrow can tell: an installer must provide things that no known part provides.
    Unknown,
    /// Everything came up, but the storage network that the installer's configuration presets is never configured.
    Unconfigured,
    /// There was still activity after twelve hours.
    Underway,
    /// Nothing can change any more, and something is missing.
    Stuck,
    /// Nothing can change any more, because things wait for each other in a cycle.
    Deadlocked,
}

impl Ending {
    pub fn describe(self) -> &'static str {
        match self {
            Self::Complete => "the node comes up, and everything is applied",
            Self::Unknown => {
                "Windrow cannot tell whether it comes up, because some dependencies are uncertain"
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

/// A known incident, as `windrow diagnose` would find it in the final state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecognisedIncident {
    /// Reason code.
    pub code: Code,
    /// Subject, `Kind namespace/name`.
    pub subject: String,
    /// Problem in one line.
    pub message: String,
    /// Advice for the node.
    pub advice: String,
    /// Number of simulated boots.
    pub seeds: u64,
}

/// Result of a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileFate {
    /// Marker that hides it from RKE2, and that does not belong to Windrow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<MarkerPath>,
    /// Number of simulated boots in which RKE2 applied it.
    pub applied_in: u64,
    /// When it was first applied, in seconds from power-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Span>,
    /// Number of simulated boots in which it was held.
    pub held_in: u64,
    /// When Windrow released it, in seconds from power-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Span>,
    /// Largest number of failures in one simulated boot.
    pub failures: u64,
    /// Number of simulated boots in which it failed.
    #[serde(default)]
    pub failed_in: u64,
    /// Last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Smallest and largest value over all simulated boots.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// Smallest value.
    pub from: f64,
    /// Largest value.
    pub to: f64,
}

/// Work of the deploy controller: smallest and largest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkRange {
    /// In the simulated boot with the least work.
    pub least: DeployCounts,
    /// In the simulated boot with the most work.
    pub most: DeployCounts,
}

/// A file that is held, with the rules that hold it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StillHeld {
    /// Path of the file.
    pub file: ManifestPath,
    /// Reason code.
    pub code: Code,
    /// Reason in one line.
    pub why: String,
    /// Rules, each with its position.
    pub rules: Vec<Origin>,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// Time in seconds from power-on.
    pub at: f64,
    /// Event in one line.
    pub what: String,
    /// Importance for the reader.
    pub weight: Weight,
    /// File of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<ManifestPath>,
}

/// Importance of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Weight {
    /// A step of the platform.
    Step,
    /// Something was applied or reached its state.
    Good,
    /// Windrow holds or releases a file.
    Staging,
    /// Something failed or was rejected.
    Bad,
    /// A detail.
    Small,
}

/// Result of the same node with another version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionOutcome {
    /// Harvester's version.
    pub version: String,
    /// Worst end without Windrow.
    pub without: Ending,
    /// Worst end with Windrow.
    pub with: Ending,
}

impl NodeRehearsal {
    /// All known incidents on either side, with the number of seeds without Windrow and with it.
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

    /// The worst end with Windrow; proofs count too.
    pub fn worst(&self) -> Ending {
        let ends = self.with.ends.iter().map(|end| end.verdict);
        // If a version has no model, or no seed was played, nothing is certain to come up.
        let unknown = !self.beyond.is_empty() || self.seeds == 0;
        ends.chain(proved(&self.findings))
            .chain(unknown.then_some(Ending::Unknown))
            .max()
            .unwrap_or(Ending::Complete)
    }
}

impl Rehearsal {
    /// Combines the results of the nodes.
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

    pub fn worst(&self) -> Ending {
        let nodes = self.nodes.iter().map(NodeRehearsal::worst);
        nodes
            .chain(proved(&self.findings))
            .max()
            .unwrap_or(Ending::Complete)
    }
}

/// The end that findings prove: an error prevents something from working, and an unchecked part is unknown.
fn proved(findings: &[Finding]) -> Option<Ending> {
    let ends = findings.iter().filter_map(|finding| match finding {
        finding if finding.severity == Severity::Error => Some(Ending::Stuck),
        finding if finding.code == Code::NotLookedAt => Some(Ending::Unknown),
        finding
            if finding.is_unknown()
                && matches!(
                    finding.code,
                    Code::InstallerDepends | Code::WriteFilesSpelling
                ) =>
        {
            Some(Ending::Unknown)
        }
        _ => None,
    });
    ends.max()
}
