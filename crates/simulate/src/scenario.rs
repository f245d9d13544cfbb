//! The input of a simulation: a node, and the objects that others add to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::{GroupKind, ManifestPath, ObjectRef};
use windrow_model::reasons::Code;
use windrow_plan::knowledge::{LearnedTimes, NodeFacts};
use windrow_plan::rules::{NeedTarget, Platform};

use super::chance::Chance;

#[derive(Debug, Clone)]
pub struct Scenario {
    /// The name of the first node, if others join it.
    pub name: String,
    /// Harvester's version; `None` for RKE2 only.
    pub harvester: Option<HarvesterVersion>,
    /// The preset of `systemSettings.storage-network`, if there is one.
    pub storage_network: Option<String>,
    /// When the machine is switched on.
    pub start: Timestamp,
    /// Objects that others add in addition to the platform, with their delay after kube-apiserver's first answer.
    pub arrivals: Vec<Arrival>,
    /// Facts about the node: versions, and the parts that RKE2's configuration selects and disables.
    pub node: NodeFacts,
    /// Objects that others provide according to rule packs, in addition to the known platform.
    pub provided: Supply,
    /// The same, for objects with learned delays from earlier boots.
    pub provided_in_time: Vec<Supply>,
    /// From RKE2's start to kube-apiserver's first answer, if it was learned.
    pub api_ready: Option<LearnedTimes>,
    /// Known results of objects of the manifests: of charts, and of objects that operators handle.
    pub brings: BTreeMap<ObjectRef, Supply>,
    /// Assumptions about the platform, where Windrow has no knowledge; a sentence each.
    pub assumed: BTreeSet<String>,
    /// Targets that rules and annotations wait for and that nothing here creates. They are assumed to come from another source.
    pub made_elsewhere: MadeElsewhere,
    /// Objects whose pods never run, and why: an image that cannot be pulled.
    pub cannot_run: BTreeMap<ObjectRef, String>,
    /// What may create namespaces besides the manifests, if anything does: another node, or a command.
    pub makes_namespaces: Option<String>,
    /// Objects that the API server rejects, in their manifests' notation, and its message.
    pub refused: BTreeMap<ObjectRef, String>,
    /// Objects for which a fail-closed webhook is called.
    pub asked: BTreeMap<ObjectRef, WebhookGate>,
    /// The possible results of installers, which are assumed to come.
    pub may_bring: BTreeMap<ObjectRef, MayBring>,
    /// Does RKE2 rewrite HelmChart files when it starts? Up to 1.35 it does.
    pub rewrites_charts: bool,
    /// Definitions whose kinds are served late; none if kube-apiserver is quick.
    pub slow_definitions: Option<SlowDefinitions>,
    /// Once in how many scans RKE2 takes long from the manifests directory itself to its subdirectories; 0 is never.
    pub slow_walks: u64,
    /// Restarts: how long after power-on, and which node; 0 is the first.
    pub reboots: Vec<(Duration, usize)>,
}

/// Definitions that kube-apiserver takes long to establish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowDefinitions {
    /// One in how many: the seed and the names determine which.
    pub one_in: u64,
    /// The minimum and maximum additional delay.
    pub delay: (Duration, Duration),
}

impl SlowDefinitions {
    /// All of them, as with a count of several kube-apiservers: each then waits for the others (`apiextensions-apiserver` v0.36,
    /// `pkg/apiserver/customresource_handler.go`: five seconds with `--apiserver-count` above 1).
    pub const COUNTED: Self = Self {
        one_in: 1,
        delay: (Duration::from_secs(5), Duration::from_secs(5)),
    };

    /// The additional delay of this definition, by the seed.
    pub(super) fn delay_of(&self, definition: &str, chance: &Chance) -> Duration {
        let letters = definition.bytes().map(u64::from);
        let name = letters.fold(0, |sum: u64, letter| {
            sum.wrapping_mul(31).wrapping_add(letter)
        });
        let mut chance = chance.branch(name);
        match chance.one_in(self.one_in) {
            true => chance.between(self.delay),
            false => Duration::ZERO,
        }
    }
}

/// A webhook that fails closed, as far as one object is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookGate {
    /// Its configuration. While that does not exist, the webhook is not called.
    pub webhook: ObjectRef,
    /// The workload whose pods answer.
    pub backend: ObjectRef,
    /// The message of kube-apiserver while none of them does.
    pub refusal: String,
}

/// Objects and kinds from outside the manifests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Supply {
    /// Kinds; true for namespaced ones.
    pub kinds: BTreeMap<GroupKind, bool>,
    /// Namespaces, classes and other objects.
    pub objects: BTreeSet<ObjectRef>,
    /// The minimum and maximum delay, if known.
    pub after: Option<(Duration, Duration)>,
    /// The learned delay in earlier boots, if any: after the application of the source, or, for the platform, after
    /// kube-apiserver's first answer. It overrides `after`.
    pub times: Option<LearnedTimes>,
}

impl Supply {
    /// Everything that is created elsewhere.
    pub(super) fn made_elsewhere(awaited: &MadeElsewhere) -> Self {
        let mut supply = Self::default();
        for target in awaited.values().flat_map(BTreeMap::keys).cloned() {
            match target {
                NeedTarget::Kind(kind) => {
                    supply.kinds.insert(kind, true);
                }
                NeedTarget::Object(object) => {
                    supply.objects.insert(object);
                }
            }
        }
        supply
    }

    pub fn merge(&mut self, other: Self) {
        self.kinds.extend(other.kinds);
        self.objects.extend(other.objects);
    }
}

/// Targets that files wait for and that nothing here creates, with a sentence about each, by file. Files with a requirement that
/// cannot be met have no entry; every other file has one.
pub type MadeElsewhere = BTreeMap<ManifestPath, BTreeMap<NeedTarget, String>>;

/// The possible results of an installer, of which nothing is certain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MayBring {
    /// The file that contains it.
    pub file: ManifestPath,
    /// Kinds; true for namespaced ones.
    pub kinds: BTreeMap<GroupKind, bool>,
    pub namespaces: BTreeSet<SmolStr>,
}

impl MayBring {
    /// The possible results, in words.
    pub(super) fn things(&self) -> impl Iterator<Item = String> {
        let kinds = self.kinds.keys().map(|kind| format!("the kind {kind}"));
        let namespaces = self.namespaces.iter();
        kinds.chain(namespaces.map(|name| format!("Namespace {name}")))
    }

    /// The possible results, a sentence each.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        self.things()
            .map(|what| Code::MayBeBrought.say(&[("what", &what), ("file", &self.file)]))
    }
}

/// The role of a joining node in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinRole {
    /// A server, which joins when the first one answers.
    Server,
    /// A server after Harvester has come up and has promoted it.
    Promoted,
    /// A member of Harvester's etcd only: nothing reads its manifests directory.
    Witness,
    /// An agent: nothing reads its manifests directory.
    Agent,
}

impl JoinRole {
    /// Does a deploy controller read its manifests directory, sooner or later?
    pub fn applies_manifests(self) -> bool {
        matches!(self, Self::Server | Self::Promoted)
    }
}

/// A change of the cluster by others: additions and removals.
#[derive(Debug, Clone, Default)]
pub struct Arrival {
    /// From kube-apiserver's first answer.
    pub after: Duration,
    /// Kinds; true for namespaced ones.
    pub kinds: Vec<(GroupKind, bool)>,
    /// Kinds that are served in another version from now on, or in another scope; true for namespaced ones.
    pub moved: Vec<(GroupKind, bool)>,
    pub objects: Vec<(ObjectRef, serde_json::Value)>,
    /// Objects to remove.
    pub gone: Vec<ObjectRef>,
}

impl Scenario {
    /// No Node object appears: objects that make nodes Ready wait for one.
    pub fn leave_nodes_out(&mut self) {
        let is_node = |target: &NeedTarget| matches!(target, NeedTarget::Object(object) if object.group.is_empty() && object.kind == "Node");
        for waits in self.made_elsewhere.values_mut() {
            waits.retain(|target, _| !is_node(target));
        }
    }

    /// RKE2 without Harvester.
    pub fn rke2(start: Timestamp) -> Self {
        Self {
            name: "the first node".to_owned(),
            harvester: None,
            storage_network: None,
            start,
            arrivals: Vec::new(),
            node: Some(Platform::Rke2).into(),
            provided: Supply::default(),
            provided_in_time: Vec::new(),
            api_ready: None,
            brings: BTreeMap::new(),
            assumed: BTreeSet::new(),
            made_elsewhere: MadeElsewhere::new(),
            cannot_run: BTreeMap::new(),
            makes_namespaces: None,
            refused: BTreeMap::new(),
            asked: BTreeMap::new(),
            may_bring: BTreeMap::new(),
            rewrites_charts: false,
            slow_definitions: None,
            slow_walks: 0,
            reboots: Vec::new(),
        }
    }

    /// Harvester, with a preset storage network or without.
    pub fn harvester(
        version: HarvesterVersion,
        storage_network: Option<&str>,
        start: Timestamp,
    ) -> Self {
        Self {
            harvester: Some(version),
            node: Some(Platform::Harvester).into(),
            storage_network: storage_network.map(str::to_owned),
            ..Self::rke2(start)
        }
    }
}
