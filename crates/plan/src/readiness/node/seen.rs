//! What is known of the node itself, and how events change it.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::reasons::Code;

use super::{ProbeId, ProbeOutcome, ProbeResult, ProbeSpec, ProbeState, Track, question_of};

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

    /// Does RKE2's server run on it?
    pub fn is_server(self) -> bool {
        self.serves_api() || self == NodeRole::Witness
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
    /// How long it excuses failures: beyond, it is itself what is wrong.
    pub fn patience(self) -> SignedDuration {
        SignedDuration::from_mins(match self {
            Transition::Shutdown => 15,
            // RKE2's server waits 15 minutes for kube-apiserver before it starts over.
            Transition::Restart => 20,
            Transition::Promotion => 45,
            Transition::Drain => 60,
            // The usual times of all stages of a node (`windrow_harvester::upgrade::usual_minutes_of_a_node`).
            Transition::Upgrade => 215,
        })
    }

    /// Does this question report it? Of an upgrade, Harvester's servers ask Harvester; other nodes go by its signs.
    fn is_reported_by(self, question: &str, asks_harvester: bool) -> bool {
        match self {
            Transition::Shutdown | Transition::Restart => question == "rke2-service",
            Transition::Drain | Transition::Promotion => question == "node",
            Transition::Upgrade if asks_harvester => question == "settings",
            Transition::Upgrade => matches!(question, "node" | "rke2-service"),
        }
    }

    /// Is it read from kube-apiserver?
    pub(super) fn is_in_the_cluster(self) -> bool {
        matches!(
            self,
            Transition::Upgrade | Transition::Drain | Transition::Promotion
        )
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

/// What a transition changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TransitionScope {
    /// This node.
    #[default]
    Node,
    /// Other nodes, or what all share: this node's own parts are as before.
    Cluster,
}

impl TransitionScope {
    fn is_node(&self) -> bool {
        *self == Self::Node
    }
}

/// What tells of a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransitionSign {
    /// What tells so, in a line.
    pub message: String,
    /// Since when it goes on; `None` if only this process's own observation tells.
    pub since: Option<Timestamp>,
    /// What it changes.
    pub scope: TransitionScope,
}

impl From<String> for TransitionSign {
    fn from(message: String) -> Self {
        Self {
            message,
            since: None,
            scope: TransitionScope::Node,
        }
    }
}

/// A transition that is going on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransitionSeen {
    /// What is done.
    pub kind: Transition,
    /// Since when it goes on, or was first seen.
    pub since: Timestamp,
    /// What tells so.
    pub message: String,
    /// What it changes.
    #[serde(default, skip_serializing_if = "TransitionScope::is_node")]
    pub scope: TransitionScope,
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
    Transition(Transition, Option<TransitionSign>),
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
    /// When each was last confirmed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub confirmed: BTreeMap<Transition, Timestamp>,
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
                let mut now_seen = seen.take().unwrap_or_else(|| Self::new(now));
                (now_seen.role, now_seen.boot) = (role, boot);
                now_seen.probe(specs, now);
                *seen = Some(now_seen);
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
            NodeEvent::Transition(kind, sign) => {
                let Some(seen) = seen else { return };
                match sign {
                    Some(sign) => seen.confirm(kind, sign, now),
                    None => seen.forget(kind),
                }
            }
        }
    }

    fn new(now: Timestamp) -> Self {
        Self {
            role: NodeRole::default(),
            boot: String::new(),
            started: now,
            probes: BTreeMap::new(),
            transitions: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            vip: None,
            cordoned: false,
        }
    }

    /// Takes other probes. What only a probe reports that is not asked any more is forgotten: nothing would ever end it.
    fn probe(&mut self, specs: Vec<ProbeSpec>, now: Timestamp) {
        let mut tracks = std::mem::take(&mut self.probes);
        let probes = specs.into_iter().map(|spec| {
            let track = match tracks.remove(&spec.id) {
                // Counted so far by other rules: the state stands, the rules are new.
                Some(track) if track.spec.off == spec.off => track.counted_by(spec),
                _ => Track::new(spec, now),
            };
            (track.spec.id.clone(), track)
        });
        self.probes = probes.collect();
        let kinds: Vec<Transition> = self.transitions.keys().copied().collect();
        for kind in kinds {
            if self.reporters(kind).next().is_none() {
                self.forget(kind);
            }
        }
        let asks_node = |track: &Track| {
            track.spec.off.is_none() && question_of(track.spec.id.as_str()) == "node"
        };
        self.cordoned &= self.probes.values().any(asks_node);
    }

    /// The probes that report a transition.
    fn reporters(&self, kind: Transition) -> impl Iterator<Item = &Track> {
        let asks_harvester = self.probes.keys().any(|id| id.as_str() == "settings");
        self.probes.values().filter(move |track| {
            let question = question_of(track.spec.id.as_str());
            track.spec.off.is_none() && kind.is_reported_by(question, asks_harvester)
        })
    }

    fn confirm(&mut self, kind: Transition, sign: TransitionSign, now: Timestamp) {
        let TransitionSign {
            message,
            since,
            scope,
        } = sign;
        let first_seen = match self.transitions.get(&kind) {
            Some(known) if known.scope == scope => known.since,
            _ => now,
        };
        self.confirmed.insert(kind, now);
        self.transitions.insert(
            kind,
            TransitionSeen {
                kind,
                since: since.unwrap_or(first_seen),
                message,
                scope,
            },
        );
    }

    fn forget(&mut self, kind: Transition) {
        self.transitions.remove(&kind);
        self.confirmed.remove(&kind);
    }

    /// When a transition that is no longer confirmed stops counting. While kube-apiserver does not answer, as when it is upgraded, the
    /// last answer stands.
    pub(super) fn doubtful_at(&self, kind: Transition) -> Option<Timestamp> {
        let confirmed = *self.confirmed.get(&kind)?;
        let mut apiserver = self.probes.values();
        let apiserver = apiserver.find(|track| track.spec.id.as_str() == "apiserver");
        let apiserver = apiserver.filter(|track| track.spec.off.is_none());
        let answers_since = match apiserver {
            _ if !kind.is_in_the_cluster() => return None,
            Some(track) if track.state != ProbeState::Passing => return None,
            Some(track) => track.since,
            None => confirmed,
        };
        let silence = self
            .reporters(kind)
            .map(|track| track.spec.longest_silence());
        let silence = SignedDuration::try_from(silence.max()?).ok()?;
        confirmed.max(answers_since).checked_add(silence).ok()
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
        for confirmed in self.confirmed.values_mut() {
            *confirmed = moved(*confirmed);
        }
    }
}
