//! What learning reads in addition to decisions: the node's hardware and versions, which objects came into the cluster
//! and who created them, and when Helm installed a release. No decision depends on these lines, so a replay skips them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::readiness::node::NodeRole;

/// The node's hardware and versions. Written again when one of them becomes known or changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedMachine {
    /// The time of this line.
    pub at: Timestamp,
    /// The class of the hardware (`16cpu-64g-nvme`), so that like is compared with like; absent when Windrow cannot
    /// tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// kube-apiserver's version (`v1.35.3+rke2r1`); absent before its first answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
    /// Harvester's version; absent on a node without Harvester, or when Windrow cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<String>,
    /// The node's role, as its configuration has it.
    pub role: NodeRole,
}

/// An object that others wait for, or could wait for, came into the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedAppearance {
    /// When Windrow first observed it.
    pub at: Timestamp,
    /// The object's own time, in whole seconds; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// Did it exist before Windrow began to watch? Then `at` is not the time of its creation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_there: bool,
    /// The new kind or object.
    #[serde(flatten)]
    pub what: Appeared,
    /// Who created it, according to the object's own metadata.
    pub by: Provenance,
}

/// A new kind or object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Appeared {
    /// A kind is served.
    Kind {
        /// The kind.
        kind: GroupKind,
        /// Is the kind namespaced?
        namespaced: bool,
    },
    /// A namespace, a class, a webhook configuration, or an object with defaults for a namespace (LimitRange,
    /// ResourceQuota).
    Object(ObjectRef),
}

/// Who created an object, according to its labels, annotations, owner references and field managers.
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
    /// Helm, but the object does not name its release: the objects below a chart's `crds/` have no labels.
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
    /// Unknown.
    NotKnown,
}

/// A Helm release was installed or failed, according to the labels of Helm's own Secret. Windrow never requests its
/// data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRelease {
    /// When Windrow first observed it.
    pub at: Timestamp,
    /// The release.
    pub release: String,
    /// Its namespace.
    pub namespace: String,
    /// Helm's status: `deployed`, `failed`, `pending-install`.
    pub status: String,
    /// When Helm began with it: the Secret's own time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// When Helm changed it last: the label `modifiedAt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<Timestamp>,
    /// Did it exist before Windrow began to watch?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_there: bool,
}
