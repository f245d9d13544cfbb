//! The phases of a bootstrap, in order.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PhaseExpectation;
use crate::rules::Platform;

/// Phase of the bootstrap. A node without probes has only the first three, because only its manifests are judged.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Without probes: kube-apiserver has not answered yet.
    WaitingForApi,
    /// Without probes: manifests are being applied.
    Staging,
    /// Without probes: all manifests are applied (or hidden on purpose).
    Staged,
    /// Links, routes and, on a joining node, the VIP.
    Network,
    /// RKE2's unit is installed.
    // Explicit, because the derived name would separate the digit.
    #[serde(rename = "rke2-installed")]
    Rke2Installed,
    /// RKE2 runs and kube-apiserver is ready.
    Api,
    /// The kubelet and the Node object.
    Node,
    /// Rancher (Harvester only).
    Rancher,
    /// Harvester's chart and its workloads (Harvester only).
    HarvesterChart,
    /// Harvester's settings (Harvester only).
    Settings,
    /// The storage network (Harvester only).
    StorageNetwork,
    /// Manifests are being applied.
    Manifests,
    /// Everything is done.
    Ready,
}

const PLAIN: &[Phase] = &[
    Phase::Network,
    Phase::Rke2Installed,
    Phase::Api,
    Phase::Node,
    Phase::Manifests,
    Phase::Ready,
];

const HARVESTER: &[Phase] = &[
    Phase::Network,
    Phase::Rke2Installed,
    Phase::Api,
    Phase::Node,
    Phase::Rancher,
    Phase::HarvesterChart,
    Phase::Settings,
    Phase::StorageNetwork,
    Phase::Manifests,
    Phase::Ready,
];

impl Phase {
    /// All phases; those of a node without probes come first.
    pub const ALL: &[Self] = &[
        Phase::WaitingForApi,
        Phase::Staging,
        Phase::Staged,
        Phase::Network,
        Phase::Rke2Installed,
        Phase::Api,
        Phase::Node,
        Phase::Rancher,
        Phase::HarvesterChart,
        Phase::Settings,
        Phase::StorageNetwork,
        Phase::Manifests,
        Phase::Ready,
    ];

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::WaitingForApi => "waiting-for-api",
            Phase::Staging => "staging",
            Phase::Staged => "staged",
            Phase::Network => "network",
            Phase::Rke2Installed => "rke2-installed",
            Phase::Api => "api",
            Phase::Node => "node",
            Phase::Rancher => "rancher",
            Phase::HarvesterChart => "harvester-chart",
            Phase::Settings => "settings",
            Phase::StorageNetwork => "storage-network",
            Phase::Manifests => "manifests",
            Phase::Ready => "ready",
        }
    }

    /// The bootstrap of a platform; the shorter one if it is unknown.
    pub fn bootstrap(platform: Option<Platform>) -> &'static [Phase] {
        match platform {
            Some(Platform::Harvester) => HARVESTER,
            Some(Platform::Rke2) | None => PLAIN,
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Phase::WaitingForApi => "waiting for kube-apiserver",
            Phase::Staging => "manifests are being applied",
            Phase::Staged => "every manifest is applied",
            Phase::Network => "network",
            Phase::Rke2Installed => "install RKE2",
            Phase::Api => "kube-apiserver",
            Phase::Node => "node",
            Phase::Rancher => "Rancher",
            Phase::HarvesterChart => "Harvester",
            Phase::Settings => "settings",
            Phase::StorageNetwork => "storage network",
            Phase::Manifests => "manifests",
            Phase::Ready => "ready",
        }
    }
}

/// State of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PhaseState {
    /// All requirements of the phase are met.
    Done,
    /// The node is in this phase.
    Current,
    /// A check of the phase has no result.
    Unknown,
    /// The phase has not begun.
    Pending,
}

/// A phase of the bootstrap, to show progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseStatus {
    /// Name of the phase.
    pub name: Phase,
    /// State of the phase.
    pub state: PhaseState,
    /// Number of finished steps.
    pub done: usize,
    /// Total number of steps.
    pub total: usize,
    /// When the node first reached it in this boot; absent before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// Duration in this boot, in seconds; absent before its first end. For the current phase, the duration of earlier visits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Expected duration, after which the phase is slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<PhaseExpectation>,
}

impl PhaseStatus {
    /// The current phase of a node without further data.
    pub fn current(name: Phase) -> Self {
        Self {
            name,
            state: PhaseState::Current,
            done: 0,
            total: 1,
            began: None,
            seconds: None,
            expected: None,
        }
    }
}
