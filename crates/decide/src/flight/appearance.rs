//! What learning needs beside decisions: what the machine is and runs, what came into the cluster and by whom, and when a Helm
//! release was done. No decision rests on these lines, so a replay passes them over.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::readiness::node::NodeRole;

/// What the node is and runs. Written again when something of it becomes known or changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedMachine {
    /// When.
    pub at: Timestamp,
    /// The class of the hardware (`16cpu-64g-nvme`), so that like is compared with like; absent when it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// kube-apiserver's version (`v1.35.3+rke2r1`); absent until it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
    /// Harvester's version; absent where there is none, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<String>,
    /// The node's role, as its configuration has it.
    pub role: NodeRole,
}

/// Something that others wait for, or could wait for, came into the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedAppearance {
    /// When it was seen.
    pub at: Timestamp,
    /// The object's own time, in whole seconds; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// Was it there when Windrow began to look? Then when it came is not known from `at`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_there: bool,
    /// What.
    #[serde(flatten)]
    pub what: Appeared,
    /// By whom, as the object's own metadata says.
    pub by: Provenance,
}

/// What came.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Appeared {
    /// A kind is served.
    Kind {
        /// Which.
        kind: GroupKind,
        /// Do its objects live in namespaces?
        namespaced: bool,
    },
    /// A namespace, a class, a webhook's configuration, or what sets defaults for a namespace (LimitRange, ResourceQuota).
    Object(ObjectRef),
}

/// Who brought something, from labels, annotations, owner references and field managers of the object itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Provenance {
    /// A Helm release: `meta.helm.sh/release-name` and `-namespace`, `helm.sh/chart`.
    Helm {
        /// The release.
        release: String,
        /// Its namespace.
        namespace: String,
        /// The chart's name; absent where no label says it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chart: Option<String>,
        /// The chart's version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
    },
    /// Helm, and the object does not say which release: the kinds below a chart's `crds/` have no labels.
    HelmUnnamed,
    /// A manifest of RKE2's directory: the Addon that wrangler's annotations name.
    Addon {
        /// The Addon.
        name: String,
    },
    /// A bundle of Fleet.
    Fleet {
        /// The bundle.
        bundle: String,
    },
    /// The object that owns it.
    Owner {
        /// Its kind.
        kind: GroupKind,
        /// Its name.
        name: String,
    },
    /// The program that wrote it, by its field manager (`virt-operator`).
    Manager {
        /// The manager.
        name: String,
    },
    /// By whom is not known.
    NotKnown,
}

/// A Helm release was installed or failed, as the labels of Helm's own Secret say; its data is never asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRelease {
    /// When it was seen.
    pub at: Timestamp,
    /// The release.
    pub release: String,
    /// Its namespace.
    pub namespace: String,
    /// Helm's word: `deployed`, `failed`, `pending-install`.
    pub status: String,
    /// When Helm began with it: the Secret's own time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// When Helm changed it last: the label `modifiedAt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<Timestamp>,
    /// Was it there when Windrow began to look?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_there: bool,
}
