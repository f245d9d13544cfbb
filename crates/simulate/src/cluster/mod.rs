//! A small model of an API server: objects with versions, namespaces that must exist, kinds that have to be served first, and the
//! errors of the real server.

mod admission;
mod apply;
mod datastore;
mod kubevirt;
mod objects;
mod stored;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_decide::{Addon, ApplyFailure};
use windrow_model::manifest::{AddonName, GroupKind, ObjectRef};
use windrow_plan::knowledge::{NodeFacts, is_kubernetes_group, kubernetes_scope};

use super::agenda::Agenda;
use super::chance::Chance;
use super::lacking;
use super::literals::static_json;
use super::log::{DeployCounts, Happening, HappeningKind};
use super::pods;
use super::scenario::{MadeElsewhere, MayBring, SlowDefinitions, Supply, WebhookGate};
use super::timer::{ControllerStage, Timer};
use super::times::{self, Range};
pub(super) use datastore::Snapshot;
pub(super) use stored::Stored;

/// The API server, and the clock that everything on the simulated node shares.
#[derive(Debug, Clone)]
pub struct SimulatedCluster {
    pub(super) now: Timestamp,
    pub(super) agenda: Agenda<Timer>,
    pub(super) chance: Chance,
    pub(super) log: Vec<Happening>,
    pub(super) counts: DeployCounts,
    /// Objects that changed since the controllers last read them.
    pub(super) changed: Vec<ObjectRef>,
    pub(super) addons: BTreeMap<AddonName, AddonRecord>,
    pub(super) failures: BTreeMap<AddonName, ApplyFailure>,
    /// The server on which the present event happens.
    pub(super) on: usize,
    /// How often servers overwrote each other's Addon.
    pub(super) taken: BTreeMap<AddonName, u32>,
    up: Vec<bool>,
    revision: u64,
    /// Every change of an object, in order. A watch keeps an index into it, and reports the changes after that index.
    journal: Vec<ObjectRef>,
    /// The revision at which discovery last changed, and that of an Addon.
    served_at: u64,
    addons_at: u64,
    /// How many failed applications the events report.
    failures_reported: u64,
    /// Definitions that take longer, and the seed that selects them.
    pub(super) slow_definitions: Option<SlowDefinitions>,
    pub(super) slow_walks: u64,
    pub(super) slow_chance: Chance,
    pub(super) walk_chance: Chance,
    /// When the last of the created definitions is Established.
    establishing: Timestamp,
    /// The time of the last arrival or departure from outside, or of the last action of a controller.
    pub(super) last_moved: Option<Timestamp>,
    /// Kinds that are served in addition to the built-in ones; true for namespaced ones.
    served: BTreeMap<GroupKind, bool>,
    /// How often each kind got another version or scope.
    moves: BTreeMap<GroupKind, u32>,
    objects: BTreeMap<ObjectRef, Stored>,
    /// Does the platform assign addresses to Services of type LoadBalancer?
    pub(super) addresses: bool,
    /// Does Harvester name the class of a new image after its UID?
    pub(super) image_class_by_uid: bool,
    /// Objects whose pods never run, and why.
    pub(super) cannot_run: Arc<BTreeMap<ObjectRef, String>>,
    /// What may create namespaces besides the manifests.
    pub(super) makes_namespaces: Option<Arc<str>>,
    pub(super) asked: Arc<BTreeMap<ObjectRef, WebhookGate>>,
    /// Objects that the API server rejects, and its message.
    pub(super) refused: Arc<BTreeMap<ObjectRef, String>>,
    pub(super) node: Arc<NodeFacts>,
    /// Known results of objects of the manifests.
    pub(super) brings: Arc<BTreeMap<ObjectRef, Supply>>,
    /// Installers whose results are still to come.
    begun: BTreeSet<ObjectRef>,
    /// Assumptions about the platform, where Windrow has no knowledge.
    pub(super) assumed: Arc<BTreeSet<String>>,
    /// Targets that files wait for and that nothing here creates.
    pub(super) made_elsewhere: Arc<MadeElsewhere>,
    /// The possible results of installers, which are assumed to come.
    pub(super) may_bring: Arc<BTreeMap<ObjectRef, MayBring>>,
    /// Set while Harvester's webhook rejects changes of the storage network.
    pub(super) guard: Option<StorageNetworkGuard>,
}

/// Harvester's validating webhook, after it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StorageNetworkGuard {
    /// Also reject an empty `storage-network` (Harvester up to 1.5.0).
    pub(super) even_when_empty: bool,
}

/// An Addon, as the deploy controller keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddonRecord {
    pub(super) seen: Addon,
    /// The kinds of the last application: prune candidates are searched among them.
    pub(super) kinds: Arc<BTreeSet<GroupKind>>,
    /// Increases with every change that a watch would report.
    pub(super) revision: u64,
    /// The server that applied it last.
    pub(super) by: usize,
    /// The servers that have applied its present checksum.
    pub(super) appliers: BTreeSet<usize>,
}

impl SimulatedCluster {
    pub(super) fn new(now: Timestamp, chance: Chance) -> Self {
        let slow_chance = chance.branch(1);
        let walk_chance = chance.branch(4);
        let mut cluster = Self {
            now,
            agenda: Agenda::default(),
            chance,
            log: Vec::new(),
            counts: DeployCounts::default(),
            changed: Vec::new(),
            addons: BTreeMap::new(),
            failures: BTreeMap::new(),
            on: 0,
            taken: BTreeMap::new(),
            up: Vec::new(),
            revision: 0,
            journal: Vec::new(),
            served_at: 0,
            addons_at: 0,
            failures_reported: 0,
            slow_definitions: None,
            slow_walks: 0,
            slow_chance,
            walk_chance,
            establishing: now,
            last_moved: None,
            served: BTreeMap::new(),
            moves: BTreeMap::new(),
            objects: BTreeMap::new(),
            addresses: false,
            image_class_by_uid: false,
            cannot_run: Arc::default(),
            makes_namespaces: None,
            asked: Arc::default(),
            refused: Arc::default(),
            node: Arc::default(),
            brings: Arc::default(),
            begun: BTreeSet::new(),
            assumed: Arc::default(),
            made_elsewhere: Arc::default(),
            may_bring: Arc::default(),
            guard: None,
        };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            cluster.add_namespace(name);
        }
        cluster
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The time of the last arrival or departure from outside, or of the last action of a controller.
    pub fn last_moved(&self) -> Option<Timestamp> {
        self.last_moved
    }

    pub fn is_up(&self) -> bool {
        self.is_up_on(0)
    }

    pub fn is_up_on(&self, server: usize) -> bool {
        self.up.get(server).copied().unwrap_or_default()
    }

    pub(super) fn set_up(&mut self, server: usize, up: bool) {
        if self.up.len() <= server {
            self.up.resize(server + 1, false);
        }
        self.up[server] = up;
    }

    /// Increases with every change in the cluster except events.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn touch(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Objects that changed after the first `seen` changes.
    pub(super) fn changed_since(&self, seen: usize) -> impl Iterator<Item = &ObjectRef> {
        self.journal.get(seen..).unwrap_or_default().iter()
    }

    pub(super) fn changes(&self) -> usize {
        self.journal.len()
    }

    /// Increases when discovery changes.
    pub(super) fn served_at(&self) -> u64 {
        self.served_at
    }

    pub(super) fn addons_at(&self) -> u64 {
        self.addons_at
    }

    pub(super) fn failures_reported(&self) -> u64 {
        self.failures_reported
    }

    /// Adds an event that an Addon could not be applied.
    pub(super) fn fail(&mut self, addon: AddonName, failure: ApplyFailure) {
        self.failures_reported += 1;
        self.failures.insert(addon, failure);
    }

    /// Records a change of an Addon, and returns its new revision.
    pub(super) fn touch_addon(&mut self) -> u64 {
        self.addons_at = self.touch();
        self.addons_at
    }

    /// Does kube-apiserver or RKE2 itself serve a kind, and is it namespaced?
    fn built_in(&self, kind: &GroupKind) -> Option<bool> {
        kubernetes_scope(&kind.group, &kind.kind, &self.node)
    }

    /// Is a kind served, and is it namespaced?
    pub fn serves(&self, kind: &GroupKind) -> Option<bool> {
        self.built_in(kind)
            .or_else(|| self.served.get(kind).copied())
    }

    pub(super) fn serves_group(&self, group: &str) -> bool {
        is_kubernetes_group(group) || self.served.keys().any(|kind| kind.group == group)
    }

    pub(super) fn into_log(mut self) -> (Vec<Happening>, Self) {
        (std::mem::take(&mut self.log), self)
    }

    pub(super) fn record(&mut self, what: HappeningKind) {
        self.log.push(Happening {
            at: self.now,
            server: self.on,
            what,
        });
    }

    /// Is anything else due at this instant?
    pub(super) fn is_due(&self) -> bool {
        self.agenda.next_at().is_some_and(|at| at <= self.now)
    }

    pub(super) fn after(&mut self, delay: Duration, timer: Timer) {
        self.agenda.enter(self.now + delay, timer);
    }

    pub(super) fn within(&mut self, range: Range, timer: Timer) {
        let delay = self.chance.between(range);
        self.after(delay, timer);
    }

    /// Adds a kind to discovery; false if discovery already lists it.
    pub(super) fn serve(&mut self, kind: GroupKind, namespaced: bool) -> bool {
        if self.built_in(&kind).is_some() {
            return false;
        }
        let Entry::Vacant(place) = self.served.entry(kind) else {
            return false;
        };
        place.insert(namespaced);
        self.served_at = self.touch();
        true
    }

    /// Does the same, with an entry in the log: for a kind from a manifest or the scenario.
    pub(super) fn discover(&mut self, kind: GroupKind, namespaced: bool) {
        if self.serve(kind.clone(), namespaced) {
            self.record(HappeningKind::Served { kind });
        }
    }

    /// A kind is served in another version only, or its definition is created again with another scope. Its objects are deleted
    /// with its definition.
    pub(super) fn move_kind(&mut self, kind: GroupKind, namespaced: bool) {
        if self.served.get(&kind) == Some(&!namespaced) {
            self.delete_all(|object| object.group_kind() == kind);
        }
        *self.moves.entry(kind.clone()).or_default() += 1;
        self.served.insert(kind.clone(), namespaced);
        self.served_at = self.touch();
        self.record(HappeningKind::Served { kind });
    }

    pub(super) fn moves_of(&self, kind: &GroupKind) -> u32 {
        self.moves.get(kind).copied().unwrap_or_default()
    }

    /// A CustomResourceDefinition becomes Established; discovery follows a little later.
    pub(super) fn established(&mut self, definition: &ObjectRef) {
        let stored = self.stored(definition);
        let defined = stored.and_then(|stored| defined_kind(stored.spec()));
        let Some((kind, namespaced)) = defined else {
            return;
        };
        self.set_status(
            definition,
            static_json!({"conditions": [
                {"type": "NamesAccepted", "status": "True"},
                {"type": "Established", "status": "True"},
            ]}),
        );
        self.within(
            times::DISCOVERED,
            Timer::Discovered(Box::new(kind), namespaced),
        );
    }

    /// The assumptions of this simulation, a sentence each. Those about VMs and pods are valid only when nothing happens any
    /// more.
    pub fn guesses(&self) -> impl Iterator<Item = String> {
        let brought = self.may_bring.values().flat_map(MayBring::sentences);
        let assumed = self.assumed.iter().cloned();
        let machines = lacking::may_run(self);
        let charts = lacking::may_be_installed(self);
        let refused = pods::may_be_refused(self);
        let unknown = machines.chain(charts).chain(refused);
        brought.chain(assumed).chain(unknown)
    }

    /// All parts of a supply arrive, each after a separate delay, or all at about the same time after a learned one.
    pub(super) fn supply(&mut self, supply: &Supply, range: Range) {
        let learned = supply.times.map(|times| self.chance.by_times(&times));
        let together = learned.map(|first| (first, first + times::DISCOVERED.1));
        let range = together.or(supply.after).unwrap_or(range);
        for (kind, namespaced) in &supply.kinds {
            let kind = Box::new(kind.clone());
            self.within(range, Timer::Discovered(kind, *namespaced));
        }
        for object in &supply.objects {
            self.within(range, Timer::Appears(Box::new(object.clone())));
        }
    }

    /// An object that something outside the manifests creates.
    pub(super) fn appears(&mut self, object: ObjectRef) {
        if object.group.is_empty() && object.kind == "Namespace" {
            return self.create_namespace(object.name);
        }
        if self.has(&object) {
            return;
        }
        // The pods of a Deployment follow it.
        let json = match (object.group.as_str(), object.kind.as_str()) {
            ("apps", "Deployment") => json!({"kind": "Deployment", "spec": {"replicas": 1}}),
            _ => json!({"kind": object.kind, "status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": "Simulated"}]}}),
        };
        self.put(object, json);
    }

    /// A controller has seen an installer. The delays of earlier boots are measured from here, regardless of the progress of its
    /// Job.
    pub(super) fn begins(&mut self, installer: &ObjectRef) {
        let brings = Arc::clone(&self.brings);
        let supply = brings.get(installer).filter(|one| one.times.is_some());
        if let Some(supply) = supply
            && self.begun.insert(installer.clone())
        {
            self.supply(supply, times::DISCOVERED);
        }
    }

    pub(super) fn installed(&mut self, installer: &ObjectRef) {
        if !self.begun.contains(installer)
            && let Some(supply) = Arc::clone(&self.brings).get(installer)
        {
            self.supply(supply, times::DISCOVERED);
        }
        let may_bring = Arc::clone(&self.may_bring);
        let Some(guess) = may_bring.get(installer) else {
            return;
        };
        for name in &guess.namespaces {
            self.create_namespace(name.clone());
        }
        for (kind, namespaced) in &guess.kinds {
            let kind = Box::new(kind.clone());
            self.within(times::DISCOVERED, Timer::Discovered(kind, *namespaced));
        }
    }

    pub(super) fn act_on(&mut self, object: ObjectRef, stage: ControllerStage, range: Range) {
        self.within(range, Timer::Act(object, stage));
    }
}

/// The kind that a CustomResourceDefinition with this `spec` defines; true for a namespaced one.
fn defined_kind(spec: &Value) -> Option<(GroupKind, bool)> {
    let kind = GroupKind::new(spec["group"].as_str()?, spec["names"]["kind"].as_str()?);
    Some((kind, spec["scope"] != "Cluster"))
}
