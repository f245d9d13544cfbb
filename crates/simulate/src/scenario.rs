//! What is simulated: a node and what others bring to it.

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

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// How the first node is called, where others join it.
    pub name: String,
    /// Harvester's version; `None` for RKE2 alone.
    pub harvester: Option<HarvesterVersion>,
    /// The preset of `systemSettings.storage-network`, if there is one.
    pub storage_network: Option<String>,
    /// When the machine is switched on.
    pub start: Timestamp,
    /// What others bring beside the platform, after so long from kube-apiserver's first answer.
    pub arrivals: Vec<Arrival>,
    /// What is known of the node: versions, and what RKE2's configuration selects and disables.
    pub node: NodeFacts,
    /// What others provide, as rule packs say, beside what is known of the platform.
    pub provided: Supply,
    /// The same of which earlier boots have shown when it comes.
    pub provided_in_time: Vec<Supply>,
    /// From RKE2's start to kube-apiserver's first answer, where that was learned.
    pub api_ready: Option<LearnedTimes>,
    /// What is known to come of objects of the manifests: of charts, and of what operators act on.
    pub brings: BTreeMap<ObjectRef, Supply>,
    /// What is not known of the platform, and taken to be so; a sentence each.
    pub assumed: BTreeSet<String>,
    /// What rules and annotations wait for and nothing here makes. It is taken to come, whatever makes it.
    pub made_elsewhere: MadeElsewhere,
    /// Objects whose pods never run, and why: an image that cannot be had.
    pub cannot_run: BTreeMap<ObjectRef, String>,
    /// Objects that the API server refuses, as their manifests name them, and what it says.
    pub refused: BTreeMap<ObjectRef, String>,
    /// Objects about which a fail-closed webhook is asked.
    pub asked: BTreeMap<ObjectRef, WebhookGate>,
    /// What installers may bring, and are taken to.
    pub may_bring: BTreeMap<ObjectRef, MayBring>,
    /// Does RKE2 rewrite HelmChart files when it starts? Up to 1.35 it does.
    pub rewrites_charts: bool,
    /// Definitions whose kinds are served late; none where kube-apiserver is quick.
    pub slow_definitions: Option<SlowDefinitions>,
    /// Once in how many looks RKE2 takes long from the manifests directory itself to those below it; 0 is never.
    pub slow_walks: u64,
    /// Restarts: how long after power-on, and which node; 0 is the first.
    pub reboots: Vec<(Duration, usize)>,
}

/// Definitions that kube-apiserver takes long to establish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowDefinitions {
    /// One in how many: the seed and their names say which.
    pub one_in: u64,
    /// How much longer, at least and at most.
    pub delay: (Duration, Duration),
}

impl SlowDefinitions {
    /// All of them, as where several kube-apiservers were counted: each then waits for the others
    /// (`apiextensions-apiserver` v0.36, `pkg/apiserver/customresource_handler.go`: five seconds with `--apiserver-count` above 1).
    pub const COUNTED: Self = Self {
        one_in: 1,
        delay: (Duration::from_secs(5), Duration::from_secs(5)),
    };

    /// How much longer this one takes, by the seed.
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
    /// Its configuration. While that is not there, the webhook is not asked.
    pub webhook: ObjectRef,
    /// Whose pods answer.
    pub backend: ObjectRef,
    /// What kube-apiserver says while none of them does.
    pub refusal: String,
}

/// Things that come from outside the manifests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Supply {
    /// Kinds; true for namespaced ones.
    pub kinds: BTreeMap<GroupKind, bool>,
    /// Namespaces, classes and other objects.
    pub objects: BTreeSet<ObjectRef>,
    /// After how long at least and at most, where that is known.
    pub after: Option<(Duration, Duration)>,
    /// After how long they came in earlier boots, where that was learned: from when what brings them is applied, or of the platform from
    /// kube-apiserver's first answer. It counts before `after`.
    pub times: Option<LearnedTimes>,
}

impl Supply {
    /// All that is made elsewhere.
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

    /// Takes in another.
    pub fn merge(&mut self, other: Self) {
        self.kinds.extend(other.kinds);
        self.objects.extend(other.objects);
    }
}

/// What files wait for that nothing here makes, and what is said of it, by file. Of a file that needs what cannot come nothing stands
/// here; every other one has an entry.
pub type MadeElsewhere = BTreeMap<ManifestPath, BTreeMap<NeedTarget, String>>;

/// What an installer may bring: nothing else is known to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MayBring {
    /// The file that it stands in.
    pub file: ManifestPath,
    /// Kinds; true for namespaced ones.
    pub kinds: BTreeMap<GroupKind, bool>,
    /// Namespaces.
    pub namespaces: BTreeSet<SmolStr>,
}

impl MayBring {
    /// What it may bring, in words.
    pub(super) fn things(&self) -> impl Iterator<Item = String> {
        let kinds = self.kinds.keys().map(|kind| format!("the kind {kind}"));
        let namespaces = self.namespaces.iter();
        kinds.chain(namespaces.map(|name| format!("Namespace {name}")))
    }

    /// What it may bring, a sentence each.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        self.things()
            .map(|what| Code::MayBeBrought.say(&[("what", &what), ("file", &self.file)]))
    }
}

/// What a node that joins is in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinRole {
    /// A server, which joins when the first one answers.
    Server,
    /// A server once Harvester has come up and has made it one.
    Promoted,
    /// A member of Harvester's etcd and nothing more: nothing reads its manifests directory.
    Witness,
    /// No server: nothing reads its manifests directory.
    Agent,
}

impl JoinRole {
    /// Does a deploy controller read its manifests directory, sooner or later?
    pub fn applies_manifests(self) -> bool {
        matches!(self, Self::Server | Self::Promoted)
    }
}

/// Something that others bring into the cluster, or take out of it.
#[derive(Debug, Clone, Default)]
pub struct Arrival {
    /// When, from kube-apiserver's first answer.
    pub after: Duration,
    /// Kinds; true for namespaced ones.
    pub kinds: Vec<(GroupKind, bool)>,
    /// Kinds that are served in another version from now on, or in another scope; true for namespaced ones.
    pub moved: Vec<(GroupKind, bool)>,
    /// Objects, as JSON.
    pub objects: Vec<(ObjectRef, serde_json::Value)>,
    /// Objects that go.
    pub gone: Vec<ObjectRef>,
}

impl Scenario {
    /// No Node comes: what makes nodes Ready waits for one.
    pub fn leave_nodes_out(&mut self) {
        let is_node = |target: &NeedTarget| matches!(target, NeedTarget::Object(object) if object.group.is_empty() && object.kind == "Node");
        for waits in self.made_elsewhere.values_mut() {
            waits.retain(|target, _| !is_node(target));
        }
    }

    /// RKE2 alone.
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
