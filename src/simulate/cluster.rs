//! A small model of an API server: objects with versions, namespaces that must exist, kinds that
//! have to be served first, and the errors of the real one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::agenda::{Agenda, Stage, Timer};
use super::chance::Chance;
use super::kinds;
use super::log::{Counts, Happening, What};
use super::node::Asked;
use super::reading::{Declared, Reading, is_blank};
use super::times::{self, Range};
use crate::decide::{Addon, ApplyFailure};
use crate::manifest::{self, GroupKind, ObjectRef};

/// The API server, and the clock that everything on the simulated node shares.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub(super) now: Timestamp,
    pub(super) agenda: Agenda,
    pub(super) chance: Chance,
    pub(super) log: Vec<Happening>,
    pub(super) counts: Counts,
    /// Objects that controllers have not looked at since they changed.
    pub(super) changed: Vec<ObjectRef>,
    pub(super) addons: BTreeMap<String, AddonRecord>,
    pub(super) failures: BTreeMap<String, ApplyFailure>,
    /// On which server something happens at this moment.
    pub(super) on: usize,
    /// How often servers took an Addon from one another.
    pub(super) taken: BTreeMap<String, u32>,
    /// The servers on which kube-apiserver answers.
    up: Vec<bool>,
    revision: u64,
    /// Every change of an object, in order: what a watch has not told yet stands behind what it has.
    journal: Vec<ObjectRef>,
    /// The revision at which discovery last changed, and an Addon.
    served_at: u64,
    addons_at: u64,
    /// How often an application failed, as events tell it.
    failures_told: u64,
    /// Kinds that are served beside the built-in ones; true for namespaced ones.
    served: BTreeMap<GroupKind, bool>,
    objects: BTreeMap<ObjectRef, Stored>,
    /// How many objects each Addon has.
    owned: BTreeMap<String, usize>,
    /// What each Addon last applied whole, as long as nobody took any of it away.
    intact: BTreeMap<String, Intact>,
    /// Does the platform give Services of type LoadBalancer their addresses?
    pub(super) addresses: bool,
    /// Objects whose pods never run, and why.
    pub(super) cannot_run: Arc<BTreeMap<ObjectRef, String>>,
    /// Objects about which a webhook of the manifests is asked.
    pub(super) asked: Arc<BTreeMap<ObjectRef, Asked>>,
    /// Why Harvester's webhook refuses to touch the storage network, while it does.
    pub(super) guard: Option<Guard>,
}

/// Harvester's validating webhook, once it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Guard {
    /// Refuse an empty `storage-network` too (Harvester up to 1.5.0).
    pub(super) even_when_empty: bool,
}

/// One Addon, as the deploy controller keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddonRecord {
    pub(super) seen: Addon,
    /// What was applied last: prune candidates are looked for among these kinds.
    pub(super) kinds: Arc<BTreeSet<GroupKind>>,
    /// Rises with every change that a watch would tell.
    pub(super) revision: u64,
    /// The server that applied it last.
    pub(super) by: usize,
}

/// A file of which everything is in the cluster as it says.
#[derive(Debug, Clone)]
struct Intact {
    reading: Arc<Reading>,
    /// Writes that applying it anew costs all the same.
    writes: u64,
}

/// One object.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    /// As it is now.
    pub(super) json: Arc<Value>,
    /// As its manifest last declared it.
    declared: Option<Arc<Value>>,
    /// The Addon that applied it last.
    pub(super) owner: Option<String>,
    /// `metadata.resourceVersion`
    pub(super) revision: u64,
}

impl Cluster {
    pub(super) fn new(now: Timestamp, chance: Chance) -> Self {
        let mut cluster = Self {
            now,
            agenda: Agenda::default(),
            chance,
            log: Vec::new(),
            counts: Counts::default(),
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
            failures_told: 0,
            served: BTreeMap::new(),
            objects: BTreeMap::new(),
            owned: BTreeMap::new(),
            intact: BTreeMap::new(),
            addresses: false,
            cannot_run: Arc::default(),
            asked: Arc::default(),
            guard: None,
        };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            cluster.add_namespace(name);
        }
        cluster
    }

    /// The simulated time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Does the first server's kube-apiserver answer?
    pub fn is_up(&self) -> bool {
        self.is_up_on(0)
    }

    /// Does this server's kube-apiserver answer?
    pub fn is_up_on(&self, server: usize) -> bool {
        self.up.get(server).copied().unwrap_or_default()
    }

    pub(super) fn set_up(&mut self, server: usize, up: bool) {
        if self.up.len() <= server {
            self.up.resize(server + 1, false);
        }
        self.up[server] = up;
    }

    /// Rises with everything that changes in the cluster but events.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn touch(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Objects that changed, after so many changes.
    pub(super) fn changed_since(&self, seen: usize) -> &[ObjectRef] {
        self.journal.get(seen..).unwrap_or_default()
    }

    /// How many changes of objects there were.
    pub(super) fn changes(&self) -> usize {
        self.journal.len()
    }

    /// Rises when discovery changes.
    pub(super) fn served_at(&self) -> u64 {
        self.served_at
    }

    /// Rises when an Addon changes.
    pub(super) fn addons_at(&self) -> u64 {
        self.addons_at
    }

    /// How often an application failed.
    pub(super) fn failures_told(&self) -> u64 {
        self.failures_told
    }

    /// An event tells that an Addon could not be applied.
    pub(super) fn fail(&mut self, addon: &str, failure: ApplyFailure) {
        self.failures_told += 1;
        self.failures.insert(addon.to_owned(), failure);
    }

    /// An Addon changes: its new revision.
    pub(super) fn touch_addon(&mut self) -> u64 {
        self.addons_at = self.touch();
        self.addons_at
    }

    /// Is a kind served, and is it namespaced?
    pub fn serves(&self, kind: &GroupKind) -> Option<bool> {
        kinds::built_in(&kind.group, &kind.kind).or_else(|| self.served.get(kind).copied())
    }

    /// Is anything of this group served?
    pub(super) fn serves_group(&self, group: &str) -> bool {
        kinds::is_built_in_group(group) || self.served.keys().any(|kind| kind.group == group)
    }

    /// One object, as it is now.
    pub fn get(&self, object: &ObjectRef) -> Option<&Arc<Value>> {
        self.objects.get(object).map(|stored| &stored.json)
    }

    /// The Addon that an object belongs to: the one that applied it last.
    pub fn owner(&self, object: &ObjectRef) -> Option<&str> {
        self.objects.get(object)?.owner.as_deref()
    }

    /// Every object.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectRef, &Arc<Value>)> {
        self.objects.iter().map(|(id, stored)| (id, &stored.json))
    }

    /// Everything that happened.
    pub(super) fn into_log(mut self) -> (Vec<Happening>, Self) {
        (std::mem::take(&mut self.log), self)
    }

    /// Every object of a group and kind.
    pub fn list<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectRef, &'a Arc<Value>)> {
        self.of_kind(group, kind)
            .map(|(id, stored)| (id, &stored.json))
    }

    /// The same, as they are stored: objects are in order of group and kind.
    fn of_kind<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectRef, &'a Stored)> {
        let first = ObjectRef::cluster(group, kind, "");
        self.objects
            .range(first..)
            .take_while(move |(id, _)| id.kind == kind && id.group == group)
    }

    pub(super) fn stored(&self, object: &ObjectRef) -> Option<&Stored> {
        self.objects.get(object)
    }

    pub(super) fn tell(&mut self, what: What) {
        self.log.push(Happening {
            at: self.now,
            server: self.on,
            what,
        });
    }

    /// Is there anything else that happens at this instant?
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

    /// Discovery lists a kind from now on; true when it did not before.
    pub(super) fn serve(&mut self, kind: GroupKind, namespaced: bool) -> bool {
        if self.serves(&kind).is_some() {
            return false;
        }
        self.served.insert(kind, namespaced);
        self.served_at = self.touch();
        true
    }

    /// The same, told in the log: a kind that somebody's manifest or the scenario brings.
    pub(super) fn discover(&mut self, kind: GroupKind, namespaced: bool) {
        if self.serve(kind.clone(), namespaced) {
            self.tell(What::Served { kind });
        }
    }

    pub(super) fn add_namespace(&mut self, name: &str) {
        let id = ObjectRef::cluster("", "Namespace", name);
        if !self.objects.contains_key(&id) {
            let json = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
                "status": {"phase": "Active"},
            });
            self.put(id, json);
        }
    }

    /// A controller creates or replaces an object.
    pub(super) fn put(&mut self, id: ObjectRef, json: Value) {
        let revision = self.touch();
        let known = self.objects.remove(&id);
        let (declared, owner) = known.map_or((None, None), |old| (old.declared, old.owner));
        let generation = 1;
        let stored = Stored {
            json: Arc::new(stamped(json, &id, revision, generation)),
            declared,
            owner,
            revision,
        };
        self.journal.push(id.clone());
        self.objects.insert(id.clone(), stored);
        self.changed.push(id);
    }

    /// The same, of something that no controller of this simulation looks at.
    pub(super) fn bring(&mut self, id: ObjectRef, json: Value) {
        self.put(id, json);
        self.changed.pop();
    }

    /// A controller sets an object's status.
    pub(super) fn set_status(&mut self, id: &ObjectRef, status: Value) {
        let revision = self.revision + 1;
        let Some(stored) = self.objects.get_mut(id) else {
            return;
        };
        if stored.json["status"] == status {
            return;
        }
        let json = Arc::make_mut(&mut stored.json);
        json["status"] = status;
        json["metadata"]["resourceVersion"] = revision.to_string().into();
        stored.revision = revision;
        self.revision = revision;
        self.journal.push(id.clone());
    }

    /// The number of the object's last change of substance.
    pub(super) fn generation(&self, id: &ObjectRef) -> u64 {
        self.get(id)
            .and_then(|json| json["metadata"]["generation"].as_u64())
            .unwrap_or(1)
    }

    /// Creates or updates an object as the deploy controller would: changed only where its manifest
    /// changed.
    pub(super) fn apply(
        &mut self,
        id: &ObjectRef,
        declared: &Declared,
        owner: &str,
    ) -> Result<(), String> {
        let known = self.objects.get(id);
        // A name that is chosen here is never among those that are there: each time a new object is
        // made, and the former one pruned.
        let generated = declared.generated;
        let same = known.is_some_and(|known| {
            !generated
                && known.owner.as_deref() == Some(owner)
                && known.declared.as_ref().is_some_and(|known| {
                    Arc::ptr_eq(known, &declared.json) || *known == declared.json
                })
        });
        if same {
            self.counts.writes += u64::from(declared.is_missed);
            return Ok(());
        }
        if let Some(namespace) = &id.namespace {
            let namespace = ObjectRef::cluster("", "Namespace", namespace.as_str());
            if !self.objects.contains_key(&namespace) {
                return Err(format!("namespaces \"{}\" not found", namespace.name));
            }
        }
        self.admit(id, &declared.json)?;
        self.ask(&declared.id)?;
        validate(id, &declared.json, generated)?;
        let known = self.objects.remove(id);
        self.counts.writes += u64::from(generated && known.is_some());
        if let Some(former) = known.as_ref().and_then(|known| known.owner.clone()) {
            self.disown(&former);
        }
        *self.owned.entry(owner.to_owned()).or_default() += 1;
        let status = known
            .as_ref()
            .and_then(|known| known.json.get("status").cloned());
        let generation = known.map_or(1, |known| {
            let same_spec = known.json.get("spec") == declared.json.get("spec");
            known.json["metadata"]["generation"].as_u64().unwrap_or(1) + u64::from(!same_spec)
        });
        let revision = self.touch();
        self.counts.writes += 1;
        let mut json = stamped((*declared.json).clone(), id, revision, generation);
        if let Some(status) = status {
            json["status"] = status;
        }
        if id.kind == "Service" && id.group.is_empty() && is_blank(&json["spec"]["clusterIP"]) {
            json["spec"]["clusterIP"] = "10.43.0.100".into();
        }
        let stored = Stored {
            json: Arc::new(json),
            declared: Some(declared.json.clone()),
            owner: Some(owner.to_owned()),
            revision,
        };
        self.objects.insert(id.clone(), stored);
        self.journal.push(id.clone());
        self.changed.push(id.clone());
        if id.kind == "CustomResourceDefinition" && id.group == "apiextensions.k8s.io" {
            self.within(times::ESTABLISHED, Timer::Established(id.clone()));
        }
        Ok(())
    }

    fn disown(&mut self, owner: &str) {
        self.intact.remove(owner);
        if let Some(count) = self.owned.get_mut(owner) {
            *count -= 1;
        }
    }

    /// Is everything of a file there as it says, so that applying it anew changes nothing? Then it counts
    /// what that costs.
    pub(super) fn stands(&mut self, addon: &str, reading: &Arc<Reading>) -> bool {
        let intact = self.intact.get(addon);
        let Some(intact) = intact.filter(|intact| Arc::ptr_eq(&intact.reading, reading)) else {
            return false;
        };
        self.counts.writes += intact.writes;
        true
    }

    /// A file was applied whole. What it declares under a name that is chosen anew each time never stands.
    pub(super) fn stood(&mut self, addon: &str, reading: &Arc<Reading>) {
        let objects = || reading.objects.iter();
        if objects().any(|object| object.generated) {
            return;
        }
        let writes = objects().filter(|object| object.is_missed);
        let intact = Intact {
            reading: Arc::clone(reading),
            writes: writes.count() as u64,
        };
        self.intact.insert(addon.to_owned(), intact);
    }

    /// How many objects an Addon has.
    pub(super) fn owns(&self, owner: &str) -> usize {
        self.owned.get(owner).copied().unwrap_or_default()
    }

    /// The object's name in the cluster: with a namespace when its kind is namespaced.
    pub(super) fn resolve(&self, id: &ObjectRef) -> Result<ObjectRef, String> {
        let namespaced = self
            .serves(&id.group_kind())
            .ok_or("the server could not find the requested resource")?;
        let namespace = namespaced.then(|| id.namespace.clone().unwrap_or("default".into()));
        Ok(ObjectRef {
            namespace,
            ..id.clone()
        })
    }

    /// A webhook of the manifests, which fails closed, while no pod answers it.
    fn ask(&self, declared: &ObjectRef) -> Result<(), String> {
        // There seldom is one.
        if self.asked.is_empty() {
            return Ok(());
        }
        let Some(asked) = self.asked.get(declared) else {
            return Ok(());
        };
        let get = |id: &ObjectRef| self.get(&self.resolve(id).ok()?);
        let answers = |backend: &Arc<Value>| {
            let ready = |key: &str| backend["status"][key].as_u64().is_some_and(|pods| pods > 0);
            ready("readyReplicas") || ready("numberReady")
        };
        match get(&asked.webhook).is_none() || get(&asked.backend).is_some_and(answers) {
            true => Ok(()),
            false => Err(asked.refusal.clone()),
        }
    }

    /// Harvester's webhook: the storage network is not touched while any machine might run. Any
    /// `printableStatus` but `Stopped`, also none at all, counts as running
    /// (`pkg/util/virtualmachine`).
    pub(super) fn admit(&self, id: &ObjectRef, json: &Value) -> Result<(), String> {
        let storage_network =
            id.group == "harvesterhci.io" && id.kind == "Setting" && id.name == "storage-network";
        let Some(guard) = self.guard.filter(|_| storage_network) else {
            return Ok(());
        };
        let empty = json["value"].as_str().unwrap_or("").is_empty();
        if empty && !guard.even_when_empty {
            return Ok(());
        }
        let running = self
            .list("kubevirt.io", "VirtualMachine")
            .any(|(_, vm)| vm["status"]["printableStatus"] != "Stopped");
        match running {
            false => Ok(()),
            true => Err(
                "admission webhook \"validator.harvesterhci.io\" denied the request: \
                 Please stop all VMs before configuring the storage-network setting"
                    .to_owned(),
            ),
        }
    }

    /// Objects that an Addon applied and that are not among `keep`, in the given kinds.
    pub(super) fn owned_beside(
        &self,
        owner: &str,
        keep: &[&ObjectRef],
        kinds: &BTreeSet<GroupKind>,
    ) -> Vec<ObjectRef> {
        kinds
            .iter()
            .flat_map(|kind| self.of_kind(&kind.group, &kind.kind))
            .filter(|(id, stored)| {
                stored.owner.as_deref() == Some(owner)
                    && keep.binary_search(id).is_err()
                    && stored.json["metadata"]["labels"]["objectset.rio.cattle.io/prune"] != "false"
            })
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Deletes an object, and what goes with it.
    pub(super) fn delete(&mut self, id: &ObjectRef) {
        let Some(stored) = self.objects.remove(id) else {
            return;
        };
        let revision = self.touch();
        if let Some(owner) = &stored.owner {
            self.disown(owner);
        }
        self.journal.push(id.clone());
        match (id.group.as_str(), id.kind.as_str()) {
            ("", "Namespace") => {
                self.delete_all(|other| other.namespace.as_deref() == Some(id.name.as_str()));
            }
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                if let Some((kind, _)) = defined_kind(&stored.json) {
                    self.served.remove(&kind);
                    self.served_at = revision;
                    self.delete_all(|other| other.group_kind() == kind);
                }
            }
            _ => {}
        }
    }

    /// They go with something else.
    fn delete_all(&mut self, goes: impl Fn(&ObjectRef) -> bool) {
        let (gone, left): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.objects)
            .into_iter()
            .partition(|(id, _)| goes(id));
        self.objects = left;
        for (id, stored) in gone {
            if let Some(owner) = &stored.owner {
                self.disown(owner);
            }
            self.journal.push(id);
        }
    }

    /// A CustomResourceDefinition is Established; discovery follows a little later.
    pub(super) fn established(&mut self, id: &ObjectRef) {
        let Some((kind, namespaced)) = self.get(id).and_then(|json| defined_kind(json)) else {
            return;
        };
        self.set_status(
            id,
            json!({"conditions": [
                {"type": "NamesAccepted", "status": "True"},
                {"type": "Established", "status": "True"},
            ]}),
        );
        self.within(times::DISCOVERED, Timer::Discovered(kind, namespaced));
    }

    /// A controller will get to an object.
    pub(super) fn act_on(&mut self, id: ObjectRef, stage: Stage, range: Range) {
        self.within(range, Timer::Act(id, stage));
    }
}

/// What the API server itself refuses, of that which is easily overlooked.
fn validate(id: &ObjectRef, json: &Value, generated: bool) -> Result<(), String> {
    let kind = id.group_kind();
    let words = manifest::object_name_refusal(&kind, &id.name).filter(|_| !generated);
    if let Some(words) = words {
        let name = &id.name;
        return Err(format!(
            "{kind} \"{name}\" is invalid: metadata.name: Invalid value: \"{name}\": {words}"
        ));
    }
    let spec = &json["spec"];
    let no_ports = spec["ports"].as_array().is_none_or(Vec::is_empty);
    let needs_ports = spec["type"] != "ExternalName" && spec["clusterIP"] != "None";
    match id.group.is_empty() && id.kind == "Service" && no_ports && needs_ports {
        true => Err(format!(
            "Service \"{}\" is invalid: spec.ports: Required value",
            id.name
        )),
        false => Ok(()),
    }
}

/// The kind that a CustomResourceDefinition defines; true for a namespaced one.
fn defined_kind(crd: &Value) -> Option<(GroupKind, bool)> {
    let spec = &crd["spec"];
    let kind = GroupKind::new(spec["group"].as_str()?, spec["names"]["kind"].as_str()?);
    Some((kind, spec["scope"] != "Cluster"))
}

fn stamped(mut json: Value, id: &ObjectRef, revision: u64, generation: u64) -> Value {
    if !json["metadata"].is_object() {
        json["metadata"] = json!({});
    }
    let metadata = &mut json["metadata"];
    metadata["name"] = id.name.as_str().into();
    if let Some(namespace) = &id.namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    metadata["resourceVersion"] = revision.to_string().into();
    metadata["generation"] = generation.into();
    json
}
