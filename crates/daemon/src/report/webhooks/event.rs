//! Which events are true, read from the status. Pure.
//!
//! An event is sent while it is true. Each topic has at most one event at a time: a later one replaces the earlier.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_decide::settings::WebhookEvent;
use windrow_decide::{NodeRole, Readiness, Status};
use windrow_plan::readiness::node::ProbeState;

use crate::report::server::ServerState;

/// RKE2 tries every 15 s. A file that it still cannot apply this long after the release is stuck, not early.
const BLOCKED_AFTER: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Topic {
    Node,
    Cluster,
    Staging,
    /// A boot that hangs.
    Stall,
    Phase,
    /// The running Windrow.
    Seen,
}

impl Topic {
    pub(super) const ALL: [Self; 6] = [
        Self::Node,
        Self::Cluster,
        Self::Staging,
        Self::Stall,
        Self::Phase,
        Self::Seen,
    ];

    pub(super) fn for_event(event: WebhookEvent) -> Self {
        match event {
            WebhookEvent::NodeReady | WebhookEvent::NodeDegraded | WebhookEvent::NodeFailed => {
                Self::Node
            }
            WebhookEvent::ClusterReady => Self::Cluster,
            WebhookEvent::StagingBlocked => Self::Staging,
            WebhookEvent::NodeStalled => Self::Stall,
            WebhookEvent::NodePhase => Self::Phase,
            WebhookEvent::NodeSeen => Self::Seen,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TopicState {
    /// The event is true. It is a new occurrence if `of` has something that it lacked before.
    Holds {
        event: WebhookEvent,
        of: BTreeSet<String>,
    },
    /// Unknown, or in between: the last event is remembered and not sent.
    Silent,
    /// It is over: if it comes back, that is a new occurrence.
    Over,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct EventInputs<'s> {
    pub(super) status: &'s Status,
    pub(super) cluster: Option<&'s str>,
    pub(super) server: &'s ServerState,
    pub(super) now: Timestamp,
}

pub(super) fn topic_state(
    topic: Topic,
    inputs: &EventInputs<'_>,
    before: &BTreeSet<String>,
) -> TopicState {
    match topic {
        Topic::Node => node(inputs.status),
        Topic::Cluster => cluster(inputs),
        Topic::Staging => staging(inputs, before),
        Topic::Stall => stall(inputs.status),
        Topic::Phase => phase(inputs.status),
        Topic::Seen => seen(inputs, before),
    }
}

/// Once for each boot, and whenever it differs from the last one.
fn node(status: &Status) -> TopicState {
    let event = match status.readiness {
        Readiness::Ready => WebhookEvent::NodeReady,
        Readiness::Degraded => WebhookEvent::NodeDegraded,
        Readiness::Failed => WebhookEvent::NodeFailed,
        Readiness::SettingUp | Readiness::Unknown => return TopicState::Silent,
    };
    let boot = status.writer.as_ref().map(|writer| writer.boot_id.clone());
    TopicState::Holds {
        event,
        of: boot.into_iter().collect(),
    }
}

/// Once for each phase of a boot in which it hangs. A restart of Windrow has to wait the same time again, and sends
/// nothing twice.
fn stall(status: &Status) -> TopicState {
    match status.hangs() {
        Some(_) => TopicState::Holds {
            event: WebhookEvent::NodeStalled,
            of: boot_and_phase(status),
        },
        None => TopicState::Silent,
    }
}

/// Whenever the node reaches another phase, and once in every boot. Unknown is not a phase.
fn phase(status: &Status) -> TopicState {
    if status.phases.is_empty() || status.readiness == Readiness::Unknown {
        return TopicState::Silent;
    }
    TopicState::Holds {
        event: WebhookEvent::NodePhase,
        of: boot_and_phase(status),
    }
}

/// Once in every boot, in any state of the node, and again when its status server has another certificate: a client
/// that has pinned the first one has to learn the second.
fn seen(inputs: &EventInputs<'_>, before: &BTreeSet<String>) -> TopicState {
    let boot = inputs.status.writer.as_ref();
    let boot = boot.map(|writer| writer.boot_id.clone());
    let fingerprint = match inputs.server {
        // The server's state will be known in a moment: one event instead of two.
        ServerState::Starting => return TopicState::Silent,
        ServerState::Served(server) => Some(server.fingerprint.clone()),
        ServerState::NotServed => None,
    };
    let mut of: BTreeSet<String> = boot.into_iter().chain(fingerprint).collect();
    if of.is_subset(before) {
        // A server that is down for a time comes back with the certificate of the last event.
        of.clone_from(before);
    }
    TopicState::Holds {
        event: WebhookEvent::NodeSeen,
        of,
    }
}

fn boot_and_phase(status: &Status) -> BTreeSet<String> {
    let boot = status.writer.as_ref().map(|writer| writer.boot_id.clone());
    let phase = status.phase.as_str().to_owned();
    boot.into_iter().chain([phase]).collect()
}

/// Once for each cluster, by the server that created it: the server is Ready, and so is Harvester if the node has it.
/// Until the platform is detected, Harvester may be missing among the probes.
fn cluster(inputs: &EventInputs<'_>) -> TopicState {
    let status = inputs.status;
    let up = matches!(status.readiness, Readiness::Ready | Readiness::Degraded);
    let mut harvester = status
        .probes
        .iter()
        .filter(|probe| probe.id.as_str() == "harvester");
    let passes = harvester.all(|probe| probe.state == ProbeState::Passing);
    let cluster = inputs.cluster.filter(|_| status.platform.is_some());
    match cluster {
        Some(cluster) if status.role == NodeRole::FirstServer && up && passes => {
            TopicState::Holds {
                event: WebhookEvent::ClusterReady,
                of: BTreeSet::from([cluster.to_owned()]),
            }
        }
        _ => TopicState::Silent,
    }
}

/// Once for each file that gets stuck.
fn staging(inputs: &EventInputs<'_>, before: &BTreeSet<String>) -> TopicState {
    let staging = &inputs.status.staging;
    let overdue = staging.held.iter().filter(|held| held.overdue);
    let failed = staging
        .failed
        .iter()
        .filter(|failed| blocked_at(failed.since) <= inputs.now);
    let blocked: BTreeSet<String> = overdue
        .map(|held| held.file.to_string())
        .chain(failed.map(|failed| failed.file.to_string()))
        .collect();
    // A stuck file stays stuck until it is applied or gone: after a restart its deadline starts again, and RKE2 has not
    // answered yet.
    let waiting = staging.held.iter().map(|held| &held.file);
    let doubtful: BTreeSet<String> = waiting
        .chain(staging.released.iter().map(|released| &released.file))
        .chain(staging.failed.iter().map(|failed| &failed.file))
        .filter(|file| before.contains(file.as_str()) && !blocked.contains(file.as_str()))
        .map(ToString::to_string)
        .collect();
    match (blocked.is_empty(), doubtful.is_empty()) {
        (true, true) => TopicState::Over,
        (true, false) => TopicState::Silent,
        (false, _) => TopicState::Holds {
            event: WebhookEvent::StagingBlocked,
            of: blocked.into_iter().chain(doubtful).collect(),
        },
    }
}

fn blocked_at(released: Timestamp) -> Timestamp {
    released
        .checked_add(BLOCKED_AFTER)
        .unwrap_or(Timestamp::MAX)
}

/// When an event may become true only because time passes.
pub(super) fn next_change(inputs: &EventInputs<'_>) -> Option<Timestamp> {
    let failed = inputs.status.staging.failed.iter();
    failed
        .map(|failed| blocked_at(failed.since))
        .filter(|at| *at > inputs.now)
        .min()
}

pub(super) fn blocked(status: &Status) -> Vec<(&str, &str)> {
    let staging = &status.staging;
    let overdue = staging.held.iter().filter(|held| held.overdue);
    overdue
        .map(|held| (held.file.as_str(), held.why.as_str()))
        .chain(
            staging
                .failed
                .iter()
                .map(|failed| (failed.file.as_str(), failed.message.as_str())),
        )
        .collect()
}
