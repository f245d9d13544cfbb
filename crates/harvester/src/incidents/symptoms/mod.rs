//! Symptoms: parts of the platform that should work and do not, independent of the cause.
//!
//! ```text
//!   detectors of incidents ──> known causes ──┐
//!   detectors of symptoms  ──> symptoms ──────┴─> explain: a cause takes the symptoms of its objects;
//!                                                the rest is listed as unexplained
//! ```
//!
//! Only a command looks for them: it reads all pods. The daemon has its probes for the node instead.

mod addresses;
mod certificates;
mod claims;
mod conditions;
mod evacuations;
mod explain;
mod longhorn;
mod members;
mod nodes;
mod others;
mod parts;
mod pods;
mod statuses;
mod taints;
mod terminating;
mod vip;
mod vms;
mod webhooks;
mod workloads;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

pub(super) use explain::explain;
pub use others::unread_kinds;

use super::Detector;
use super::finding::IncidentFinding;
use super::platform::is_upgrading;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted};
use crate::upgrade::time;

pub(super) const DETECTORS: &[Detector] = &[
    Detector::new("nodes-not-ready", "nodes that are not Ready", nodes::find),
    Detector::new(
        "platform-pods",
        "pods of the platform",
        workloads::find_pods,
    ),
    Detector::new(
        "deployments",
        "Deployments of the platform",
        workloads::find_deployments,
    ),
    Detector::new("jobs", "Jobs of the platform", workloads::find_jobs),
    Detector::new(
        "daemon-sets",
        "DaemonSets of the platform",
        workloads::find_daemon_sets,
    ),
    Detector::new(
        "stateful-sets",
        "StatefulSets of the platform",
        workloads::find_stateful_sets,
    ),
    Detector::new(
        "settings-configured",
        "Settings that Harvester cannot apply",
        conditions::find_settings,
    ),
    Detector::new("volumes", "volumes of Longhorn", conditions::find_volumes),
    Detector::new("claims", "lost volume claims", claims::find_lost),
    Detector::new("vms", "VMs that do not run", vms::find),
    Detector::new(
        "upgrade-images",
        "images for an upgrade",
        conditions::find_upgrade_images,
    ),
    Detector::new(
        "pods-terminating",
        "pods that do not end",
        terminating::find,
    ),
    Detector::new("vip-service", "the Service of the VIP", vip::find),
    Detector::new(
        "api-services",
        "APIs that other servers serve",
        parts::find_api_services,
    ),
    Detector::new(
        "machine-conditions",
        "Machines that Rancher waits for",
        parts::find_machines,
    ),
    Detector::new(
        "node-certificates",
        "certificates of RKE2 that end soon",
        certificates::find,
    ),
    Detector::new(
        "claims-pending",
        "volume claims that get no volume",
        claims::find_pending,
    ),
    Detector::new(
        "maintenance",
        "maintenance mode that a node does not reach",
        evacuations::find_maintenance,
    ),
    Detector::new(
        "evacuations",
        "VMs whose evacuation keeps failing",
        evacuations::find_evacuations,
    ),
    Detector::new(
        "longhorn-nodes",
        "nodes and disks of Longhorn",
        longhorn::find_nodes,
    ),
    Detector::new(
        "longhorn-managers",
        "instance managers of Longhorn",
        longhorn::find_managers,
    ),
    Detector::new(
        "longhorn-images",
        "engine images of Longhorn",
        longhorn::find_engine_images,
    ),
    Detector::new(
        "longhorn-attaching",
        "volumes that Longhorn does not attach",
        longhorn::find_attaching,
    ),
    Detector::new(
        "backup-targets",
        "backup targets of Longhorn",
        longhorn::find_backup_targets,
    ),
    Detector::new(
        "etcd-members",
        "servers without a vote in etcd",
        members::find_etcd,
    ),
    Detector::new(
        "unmanaged-nodes",
        "nodes without Harvester's label",
        members::find_unmanaged,
    ),
    Detector::new(
        "namespaces-terminating",
        "namespaces that do not end",
        statuses::find_namespaces,
    ),
    Detector::new("vm-backups", "backups of VMs", statuses::find_backups),
    Detector::new("vm-images", "images of VMs", statuses::find_images),
    Detector::new(
        "chart-jobs",
        "charts whose Job failed and is gone",
        statuses::find_charts,
    ),
    Detector::new(
        "vlans",
        "networks of VMs on the nodes",
        statuses::find_vlans,
    ),
    Detector::new(
        "guest-clusters",
        "clusters that Rancher makes",
        statuses::find_guests,
    ),
    Detector::new(
        "address-pools",
        "pods without an address of whereabouts",
        addresses::find,
    ),
];

/// Symptoms in kinds that only saved lists contain.
pub(super) const OF_SAVED: &[Detector] = &[
    Detector::new("webhooks", "webhooks without their Service", webhooks::find),
    Detector::new("other-kinds", "objects of other kinds", others::find),
];

/// The detectors that no verdict needs: the lists of the documentation did not have their kinds before.
const OPTIONAL: [&str; 15] = [
    "address-pools",
    "api-services",
    "machine-conditions",
    "node-certificates",
    "claims-pending",
    "evacuations",
    "longhorn-nodes",
    "longhorn-managers",
    "longhorn-images",
    "longhorn-attaching",
    "backup-targets",
    "namespaces-terminating",
    "vm-backups",
    "vlans",
    "guest-clusters",
];

pub(super) fn is_optional(detector: &str) -> bool {
    OPTIONAL.contains(&detector)
}

/// How long a bad state lasts before it is a symptom.
pub(super) struct Patience {
    pub(super) usual: SignedDuration,
    /// While an upgrade runs, or a new cluster sets itself up.
    pub(super) changing: SignedDuration,
    /// The source of the numbers.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by people and tests"))]
    pub(super) source: &'static str,
}

const fn patience(usual: i64, changing: i64, source: &'static str) -> Patience {
    Patience {
        usual: SignedDuration::from_mins(usual),
        changing: SignedDuration::from_mins(changing),
        source,
    }
}

/// In minutes. The alerts are those of kubernetes-mixin aa38e2b (`alerts/`), which Harvester's monitoring has too. During an upgrade, the numbers
/// are the longest of the upgrade's detectors (`upgrade/stalled.rs`: `BOOT`, `CHARTS`).
const NODE_NOT_READY: Patience = patience(
    15,
    60,
    "kubelet.libsonnet: KubeNodeNotReady, KubeNodeUnreachable 15m",
);
const NODE_PRESSURE: Patience = patience(10, 60, "kubelet.libsonnet: KubeNodePressure 10m");
const POD_NOT_READY: Patience = patience(
    15,
    60,
    "apps_alerts.libsonnet: KubePodNotReady, KubePodCrashLooping 15m",
);
const WORKLOAD_NOT_AVAILABLE: Patience = patience(
    15,
    60,
    "apps_alerts.libsonnet: KubeDeploymentReplicasMismatch, KubeStatefulSetReplicasMismatch, \
     KubeDaemonSetRolloutStuck 15m",
);
/// You delete the pods of such a workload when it suits you.
const UPDATE_WAITS: Patience = patience(24 * 60, 24 * 60, "ours: a day to delete the old pods");
const JOB_RUNS: Patience = patience(
    12 * 60,
    12 * 60,
    "config.libsonnet: kubeJobTimeoutDuration 12h",
);
const JOB_FAILED: Patience = patience(15, 60, "apps_alerts.libsonnet: KubeJobFailed 15m");
const CONDITION_FALSE: Patience = patience(
    15,
    60,
    "none of Harvester's: as for a workload, which its controller is",
);
/// Longhorn rebuilds a replica of 1 TiB in a few hours.
const VOLUME_DEGRADED: Patience = patience(
    6 * 60,
    12 * 60,
    "ours; longhorn-manager v1.12.1 replica-replenishment-wait-interval is 600 s",
);
const VOLUME_FAULTED: Patience = patience(
    15,
    60,
    "longhorn.io, example of prometheus rules: LonghornVolumeStatusCritical 5m",
);
const API_NOT_AVAILABLE: Patience = patience(
    15,
    60,
    "kube_apiserver.libsonnet: KubeAggregatedAPIDown, less than 85 % for 5m in 10m",
);
/// Rancher waits without a limit, and the incidents of an upgrade describe its reasons.
const MACHINE_NOT_READY: Patience = patience(60, 12 * 60, "ours: longer than any step of Rancher");
/// The longest that KubeVirt and Longhorn take to attach the volumes of a VM, several times over.
const VM_CHANGES: Patience = patience(60, 120, "ours: a VM starts or stops in minutes");
const MAINTENANCE: Patience = patience(60, 60, "ours: as for a node that an upgrade drains");
const ETCD_MEMBER: Patience = patience(30, 60, "as for a learner (`upgrade/learner.rs`: `JOINS`)");
const BACKUP_TARGET_UNAVAILABLE: Patience = patience(
    60,
    60,
    "ours; longhorn-manager polls a backup target every 5 minutes",
);
const STATUS_FAILED: Patience = patience(60, 60, "ours: you may be at work on it");
const OTHER_NOT_READY: Patience = patience(60, 12 * 60, "ours: as for a Machine");
const NAMESPACE_TERMINATING: Patience = patience(60, 60, "ours: as for a pod");
const POD_TERMINATING: Patience =
    patience(60, 60, "as for platform pods (`platform/terminating.rs`)");

#[cfg(test)]
pub(super) const ALL: &[&Patience] = &[
    &NODE_NOT_READY,
    &NODE_PRESSURE,
    &POD_NOT_READY,
    &WORKLOAD_NOT_AVAILABLE,
    &UPDATE_WAITS,
    &JOB_RUNS,
    &JOB_FAILED,
    &CONDITION_FALSE,
    &VOLUME_DEGRADED,
    &VOLUME_FAULTED,
    &API_NOT_AVAILABLE,
    &MACHINE_NOT_READY,
    &VM_CHANGES,
    &MAINTENANCE,
    &ETCD_MEMBER,
    &BACKUP_TARGET_UNAVAILABLE,
    &STATUS_FAILED,
    &OTHER_NOT_READY,
    &NAMESPACE_TERMINATING,
    &POD_TERMINATING,
];

/// The age below which a cluster counts as one that sets itself up: Harvester's installation takes 15 to 45 minutes.
const YOUNG: SignedDuration = SignedDuration::from_hours(1);

/// The time, and whether much changes at the moment.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    now: Timestamp,
    changing: bool,
}

impl Clock {
    fn read(objects: &Objects, now: Timestamp) -> Result<Self, Unlisted> {
        let nodes = known(objects.all(ObjectKind::NODE))?.unwrap_or_default();
        let first = nodes
            .iter()
            .filter_map(|node| time(node, "/metadata/creationTimestamp"))
            .min();
        // An upgrade of Harvester may run if that is unknown, and if there may be a Harvester.
        let is_upgrading = known(is_upgrading(objects))?.unwrap_or_else(|| may_be_harvester(nodes));
        Ok(Self {
            now,
            changing: is_upgrading || first.is_none_or(|first| now.duration_since(first) < YOUNG),
        })
    }

    /// An unknown time is never late.
    fn is_late(self, since: Option<Timestamp>, patience: &Patience) -> bool {
        let limit = match self.changing {
            true => patience.changing,
            false => patience.usual,
        };
        since.is_some_and(|since| self.now.duration_since(since) > limit)
    }
}

/// Harvester's nodes have its label. Without nodes there is no answer.
fn may_be_harvester(nodes: &[Value]) -> bool {
    nodes.is_empty() || nodes.iter().any(members::is_managed)
}

/// What a symptom uses and does not need: `None` if it cannot be listed.
///
/// # Errors
///
/// If it can still be requested.
fn known<T>(listed: Result<T, Unlisted>) -> Result<Option<T>, Unlisted> {
    match listed {
        Err(unlisted) if unlisted.wanted => Err(unlisted),
        listed => Ok(listed.ok()),
    }
}

/// `False since 2026-05-01T08:00:00Z: NoPods: there is no pod`
fn state_of(condition: &Condition<'_>, since: Option<Timestamp>) -> String {
    let since = since.map_or(String::new(), |since| format!(" since {since}"));
    let words = match condition.words() {
        words if words.is_empty() => String::new(),
        words => format!(": {}", super::platform::quoted(&words)),
    };
    format!("{}{since}{words}", condition.status)
}

fn condition_seen(subject: &str, condition: &Condition<'_>, since: Option<Timestamp>) -> Evidence {
    Evidence::new(
        subject,
        format!("condition {}", condition.name),
        state_of(condition, since),
    )
}

fn of_condition(kind: &str, object: &Value, condition: Condition<'_>) -> IncidentFinding {
    let about = subject(object, kind);
    let since = condition.since();
    let why = format!("{} is {}", condition.name, state_of(&condition, since));
    let seen = condition_seen(&about, &condition, since);
    IncidentFinding::new(Code::ProblemStays, about, &why).seen([seen])
}

fn subject(object: &Value, kind: &str) -> String {
    format!("{kind} {}", crate::objects::named(object))
}
