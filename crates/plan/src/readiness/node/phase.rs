//! The parts of a bootstrap, in the order in which a node goes through them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PhaseExpectation;
use crate::rules::Platform;

/// Part of the bootstrap. A node that is not probed knows the first three only: its manifests are
/// all that is judged.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Not probed: kube-apiserver has not answered yet.
    WaitingForApi,
    /// Not probed: manifests are being applied.
    Staging,
    /// Not probed: every manifest is applied (or kept on purpose).
    Staged,
    /// Links, routes and, on a node that joins, the VIP.
    Network,
    /// RKE2's unit is on the node.
    // Spelled out: the derived form would set the digit apart.
    #[serde(rename = "rke2-installed")]
    Rke2Installed,
    /// RKE2 runs and kube-apiserver is ready.
    Api,
    /// The kubelet and the Node object.
    Node,
    /// Rancher (Harvester only).
    Rancher,
    /// Harvester's chart and what it brings up (Harvester only).
    HarvesterChart,
    /// Harvester's settings (Harvester only).
    Settings,
    /// The storage network (Harvester only).
    StorageNetwork,
    /// Manifests are being applied.
    Manifests,
    /// All done.
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
    /// Every phase: those of a node that is not probed first.
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

    /// Its name in documents.
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

    /// The bootstrap of a platform; the shorter one when it is not known.
    pub fn bootstrap(platform: Option<Platform>) -> &'static [Phase] {
        match platform {
            Some(Platform::Harvester) => HARVESTER,
            Some(Platform::Rke2) | None => PLAIN,
        }
    }

    /// The phase in a few words.
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
            Phase::Settings => "Harvester's settings",
            Phase::StorageNetwork => "storage network",
            Phase::Manifests => "manifests",
            Phase::Ready => "ready",
        }
    }
}

/// Where one phase stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PhaseState {
    /// Everything that it needs is there.
    Done,
    /// The node is in it.
    Current,
    /// Something in it could not be found out.
    Unknown,
    /// Later.
    Pending,
}

/// One phase of the bootstrap, for whoever shows progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseStatus {
    /// Which.
    pub name: Phase,
    /// Where it stands.
    pub state: PhaseState,
    /// What of it is done.
    pub done: usize,
    /// Out of how much.
    pub total: usize,
    /// When the node first came to it in this boot; absent as long as it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// How long it took in this boot, in seconds; absent before its first end. Of the current phase, how long earlier stays took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// How long it may take before it is slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<PhaseExpectation>,
}

impl PhaseStatus {
    /// The phase in which a node is, where nothing else is known of it.
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
