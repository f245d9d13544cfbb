//! The observations of the node, and how events change them.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::reasons::Code;

use super::{ProbeId, ProbeOutcome, ProbeResult, ProbeSpec, ProbeState, Track, question_of};

/// Role of a node in its cluster. It is read repeatedly, because a node can be promoted.
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
    /// Server that created the cluster.
    FirstServer,
    /// Server that joined the cluster, by its configuration or by promotion.
    JoinedServer,
    /// Worker.
    Agent,
    /// Server that only keeps etcd's quorum.
    Witness,
    /// Not (yet) visible in its files.
    #[default]
    Unknown,
}

impl NodeRole {
    /// The roles that a node can have.
    pub const KNOWN: [Self; 4] = [
        Self::FirstServer,
        Self::JoinedServer,
        Self::Agent,
        Self::Witness,
    ];

    /// The notation in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FirstServer => "first-server",
            Self::JoinedServer => "joined-server",
            Self::Agent => "agent",
            Self::Witness => "witness",
            Self::Unknown => "unknown",
        }
    }

    pub fn is_server(self) -> bool {
        self.serves_api() || self == NodeRole::Witness
    }

    pub fn serves_api(self) -> bool {
        matches!(self, NodeRole::FirstServer | NodeRole::JoinedServer)
    }

    /// Whether RKE2 reads the manifests directory here. Its deploy controller runs on every node with kube-apiserver.
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

/// A deliberate operation on the node, during which failing probes are normal.
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
    /// A user restarts RKE2's unit.
    Restart,
}

impl Transition {
    /// How long it excuses failures. After that, the transition itself is the problem.
    pub fn patience(self) -> SignedDuration {
        SignedDuration::from_mins(match self {
            Transition::Shutdown => 15,
            // RKE2's server waits 15 minutes for kube-apiserver before it starts over.
            Transition::Restart => 20,
            Transition::Promotion => 45,
            Transition::Drain => 60,
            // The sum of the usual times of all stages of a node (`windrow_harvester::upgrade::usual_minutes_of_a_node`).
            Transition::Upgrade => 215,
        })
    }

    /// Whether this check reports the transition. Harvester's servers query Harvester about an upgrade, and other nodes use its
    /// signs.
    fn is_reported_by(self, question: &str, asks_harvester: bool) -> bool {
        match self {
            Transition::Shutdown | Transition::Restart => question == "rke2-service",
            Transition::Drain | Transition::Promotion => question == "node",
            Transition::Upgrade if asks_harvester => question == "settings",
            Transition::Upgrade => matches!(question, "node" | "rke2-service"),
        }
    }

    /// Whether it is read from kube-apiserver.
    pub(super) fn is_in_the_cluster(self) -> bool {
        matches!(
            self,
            Transition::Upgrade | Transition::Drain | Transition::Promotion
        )
    }

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

/// Scope of a transition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TransitionScope {
    /// This node.
    #[default]
    Node,
    /// Other nodes, or parts that all nodes share. This node's own parts are unchanged.
    Cluster,
}

impl TransitionScope {
    fn is_node(&self) -> bool {
        *self == Self::Node
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransitionSign {
    /// The sign in one line.
    pub message: String,
    /// Start of the transition; `None` if only this process has observed it.
    pub since: Option<Timestamp>,
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

/// A running transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransitionSeen {
    /// Kind of the transition.
    pub kind: Transition,
    /// Start of the transition, or its first observation.
    pub since: Timestamp,
    /// Sign of the transition.
    pub message: String,
    /// Scope of the transition.
    #[serde(default, skip_serializing_if = "TransitionScope::is_node")]
    pub scope: TransitionScope,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// The node is probed in this role, with exactly these probes. Sent again when the role, the platform or the configuration
    /// changes. Results of remaining probes are kept.
    Probing {
        role: NodeRole,
        /// ID of this boot (`/proc/sys/kernel/random/boot_id`); empty if unknown.
        boot: String,
        specs: Vec<ProbeSpec>,
    },
    NotProbing,
    Probed(ProbeId, ProbeOutcome),
    /// A transition is running (with its sign), or not.
    Transition(Transition, Option<TransitionSign>),
    Vip(Vip),
    /// Whether the own Node is cordoned.
    Cordoned(bool),
}

/// Virtual IP address of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vip {
    /// The address, or the name through which the node joined.
    pub address: String,
    /// Source of the address, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<VipMode>,
}

/// Source of the address of a VIP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VipMode {
    /// A DHCP server.
    Dhcp,
    /// The configuration.
    Static,
}

impl VipMode {
    /// Parses Harvester's notation.
    pub fn read(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "dhcp" => Some(VipMode::Dhcp),
            "static" => Some(VipMode::Static),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            VipMode::Dhcp => "dhcp",
            VipMode::Static => "static",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSeen {
    pub role: NodeRole,
    /// ID of this boot; empty if unknown.
    pub boot: String,
    /// When the probes started.
    pub started: Timestamp,
    pub probes: BTreeMap<ProbeId, Track>,
    pub transitions: BTreeMap<Transition, TransitionSeen>,
    /// When each transition was last confirmed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub confirmed: BTreeMap<Transition, Timestamp>,
    /// The VIP of the cluster, once it was found.
    pub vip: Option<Vip>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cordoned: bool,
}

impl NodeSeen {
    /// Applies an event; `None` is a node without probes.
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
                // A late answer of a probe that was removed.
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

    /// Replaces the probes. Transitions that only a removed probe reports are dropped, because nothing would ever end them.
    fn probe(&mut self, specs: Vec<ProbeSpec>, now: Timestamp) {
        let mut tracks = std::mem::take(&mut self.probes);
        let probes = specs.into_iter().map(|spec| {
            let track = match tracks.remove(&spec.id) {
                // It was counted with other settings: the state stays, and the settings are new.
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

    /// When a transition without confirmation stops counting. While kube-apiserver does not answer, for example during its own
    /// upgrade, the last answer stays valid.
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

    /// Adjusts all times after the wall clock was set.
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
