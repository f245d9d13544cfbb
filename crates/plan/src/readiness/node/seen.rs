//! What is known of the node itself, and how events change it.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::reasons::Code;

use super::{ProbeId, ProbeOutcome, ProbeResult, ProbeSpec, Track};

/// What a node is in its cluster. Read again and again: a node can be promoted.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRole {
    /// The server that made the cluster.
    FirstServer,
    /// A server that joined it, by its configuration or by promotion.
    JoinedServer,
    /// A worker.
    Agent,
    /// A server that only keeps etcd's quorum.
    Witness,
    /// Its files do not tell (yet).
    #[default]
    Unknown,
}

impl NodeRole {
    /// Those that a node can have.
    pub const KNOWN: [Self; 4] = [
        Self::FirstServer,
        Self::JoinedServer,
        Self::Agent,
        Self::Witness,
    ];

    /// As files have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FirstServer => "first-server",
            Self::JoinedServer => "joined-server",
            Self::Agent => "agent",
            Self::Witness => "witness",
            Self::Unknown => "unknown",
        }
    }

    /// Does it run kube-apiserver?
    pub fn serves_api(self) -> bool {
        matches!(self, NodeRole::FirstServer | NodeRole::JoinedServer)
    }

    /// Does RKE2 read the manifests directory here? Its deploy controller runs where
    /// kube-apiserver does.
    pub fn applies_manifests(self) -> bool {
        self.serves_api() || self == NodeRole::Unknown
    }
}

impl fmt::Display for NodeRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeRole::FirstServer => "first server",
            NodeRole::JoinedServer => "joined server",
            NodeRole::Agent => "agent",
            NodeRole::Witness => "witness",
            NodeRole::Unknown => "unknown",
        })
    }
}

/// Something that is done to the node on purpose, during which probes fail without anything being
/// wrong.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Transition {
    /// The machine reboots or powers off.
    Shutdown,
    /// Harvester or RKE2 is being upgraded.
    Upgrade,
    /// The node is being drained.
    Drain,
    /// The node becomes a server.
    Promotion,
    /// RKE2's unit is restarted by hand.
    Restart,
}

impl Transition {
    /// How long it excuses failures, in seconds: beyond, it is itself what is wrong.
    pub(super) fn patience_seconds(self) -> i64 {
        match self {
            Transition::Shutdown => 15 * 60,
            // RKE2's server waits 15 minutes for kube-apiserver before it starts over.
            Transition::Restart => 20 * 60,
            Transition::Promotion => 45 * 60,
            Transition::Drain => 60 * 60,
            Transition::Upgrade => 2 * 60 * 60,
        }
    }

    /// Its reason code.
    pub fn code(self) -> Code {
        match self {
            Transition::Shutdown => Code::ShuttingDown,
            Transition::Upgrade => Code::Upgrading,
            Transition::Drain => Code::Draining,
            Transition::Promotion => Code::Promoting,
            Transition::Restart => Code::Restarting,
        }
    }
}

/// A transition that is going on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransitionSeen {
    /// What is done.
    pub kind: Transition,
    /// Since when it was seen.
    pub since: Timestamp,
    /// What tells so.
    pub message: String,
}

/// One thing learned of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// The node is probed, in this role, by these probes and no others. Sent again when the role,
    /// the platform or the configuration changes; what is known of probes that stay is kept.
    Probing {
        /// The role.
        role: NodeRole,
        /// Which boot this is (`/proc/sys/kernel/random/boot_id`); empty when not known.
        boot: String,
        /// The probes.
        specs: Vec<ProbeSpec>,
    },
    /// Probes were switched off.
    NotProbing,
    /// A probe answered, now.
    Probed(ProbeId, ProbeOutcome),
    /// A transition goes on (with what tells so), or does not.
    Transition(Transition, Option<String>),
    /// The cluster's VIP was found.
    Vip(Vip),
    /// The own Node is cordoned, or is not.
    Cordoned(bool),
}

/// The cluster's virtual address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vip {
    /// The address, or the name that a node joined by.
    pub address: String,
    /// Where the address comes from, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<VipMode>,
}

/// Where a VIP's address comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VipMode {
    /// From a DHCP server.
    Dhcp,
    /// From the configuration.
    Static,
}

impl VipMode {
    /// As Harvester writes it.
    pub fn read(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "dhcp" => Some(VipMode::Dhcp),
            "static" => Some(VipMode::Static),
            _ => None,
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            VipMode::Dhcp => "dhcp",
            VipMode::Static => "static",
        }
    }
}

/// What is known of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSeen {
    /// Its role.
    pub role: NodeRole,
    /// Which boot this is; empty when not known.
    pub boot: String,
    /// Since when it is probed.
    pub started: Timestamp,
    /// Its probes.
    pub probes: BTreeMap<ProbeId, Track>,
    /// What is being done to it.
    pub transitions: BTreeMap<Transition, TransitionSeen>,
    /// The cluster's VIP, once it was found.
    pub vip: Option<Vip>,
    /// Is its Node cordoned, so that it takes no new pods?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cordoned: bool,
}

impl NodeSeen {
    /// Takes an event in; `None` is a node that is not probed.
    pub fn apply(seen: &mut Option<Self>, event: NodeEvent, now: Timestamp) {
        match event {
            NodeEvent::Probing { role, boot, specs } => {
                let known = seen.take();
                let started = known.as_ref().map_or(now, |known| known.started);
                let cordoned = known.as_ref().is_some_and(|known| known.cordoned);
                let (mut tracks, transitions, vip) = known
                    .map(|known| (known.probes, known.transitions, known.vip))
                    .unwrap_or_default();
                let probes = specs
                    .into_iter()
                    .map(|spec| {
                        let track = match tracks.remove(&spec.id) {
                            // Counted so far by other rules: the state stands, the rules are new.
                            Some(track) if track.spec.off == spec.off => track.counted_by(spec),
                            _ => Track::new(spec, now),
                        };
                        (track.spec.id.clone(), track)
                    })
                    .collect();
                *seen = Some(Self {
                    role,
                    boot,
                    started,
                    probes,
                    transitions,
                    vip,
                    cordoned,
                });
            }
            NodeEvent::NotProbing => *seen = None,
            NodeEvent::Vip(vip) => {
                if let Some(seen) = seen {
                    seen.vip = Some(vip);
                }
            }
            NodeEvent::Cordoned(cordoned) => {
                if let Some(seen) = seen {
                    seen.cordoned = cordoned;
                }
            }
            NodeEvent::Probed(id, outcome) => {
                // An answer that came too late for a probe that is not wanted any more.
                let track = seen.as_mut().and_then(|seen| seen.probes.get_mut(&id));
                if let Some(track) = track {
                    track.take(ProbeResult { outcome, at: now });
                }
            }
            NodeEvent::Transition(kind, message) => {
                let Some(seen) = seen else { return };
                match message {
                    Some(message) => {
                        let known = seen.transitions.entry(kind);
                        known
                            .and_modify(|known| known.message.clone_from(&message))
                            .or_insert(TransitionSeen {
                                kind,
                                since: now,
                                message,
                            });
                    }
                    None => {
                        seen.transitions.remove(&kind);
                    }
                }
            }
        }
    }

    /// The wall clock was set: what is remembered moves along.
    pub fn clock_jumped(&mut self, by: SignedDuration) {
        let moved = |at: Timestamp| at.saturating_add(by).unwrap_or(at);
        self.started = moved(self.started);
        for track in self.probes.values_mut() {
            track.clock_jumped(by);
        }
        for transition in self.transitions.values_mut() {
            transition.since = moved(transition.since);
        }
    }
}
