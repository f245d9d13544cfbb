//! A datastore that is lost, or restored to an earlier state.

use std::collections::BTreeMap;
use std::time::Duration;

use windrow_decide::ApplyFailure;
use windrow_model::manifest::{AddonName, GroupKind, ObjectRef};

use super::super::timer::Timer;
use super::stored::Stored;
use super::{AddonRecord, SimulatedCluster};

#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    objects: BTreeMap<ObjectRef, Stored>,
    addons: BTreeMap<AddonName, AddonRecord>,
    failures: BTreeMap<AddonName, ApplyFailure>,
    served: BTreeMap<GroupKind, bool>,
}

impl SimulatedCluster {
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            objects: self.objects.clone(),
            addons: self.addons.clone(),
            failures: self.failures.clone(),
            served: self.served.clone(),
        }
    }

    /// Replaces the content of etcd; without a snapshot the cluster starts empty. kube-apiserver answers again after `down`.
    pub(crate) fn replace_datastore(&mut self, snapshot: Option<Snapshot>, down: Duration) {
        self.agenda.outage(Duration::ZERO, |_| true);
        let revision = self.touch();
        self.journal.extend(self.objects.keys().cloned());
        let is_new = snapshot.is_none();
        let snapshot = snapshot.unwrap_or_else(|| Snapshot {
            objects: BTreeMap::new(),
            addons: BTreeMap::new(),
            failures: BTreeMap::new(),
            served: BTreeMap::new(),
        });
        self.objects = snapshot.objects;
        self.addons = snapshot.addons;
        self.failures = snapshot.failures;
        self.served = snapshot.served;
        (self.served_at, self.addons_at) = (revision, revision);
        self.failures_reported += 1;
        self.begun.clear();
        self.taken.clear();
        self.establishing = self.now;
        self.last_moved = Some(self.now);
        if is_new {
            for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
                self.add_namespace(name);
            }
        }
        for stored in self.objects.values_mut() {
            stored.revision = revision;
        }
        for addon in self.addons.values_mut() {
            addon.revision = revision;
        }
        let all: Vec<ObjectRef> = self.objects.keys().cloned().collect();
        // Controllers read all objects when they start.
        self.changed.clone_from(&all);
        let definitions = all
            .iter()
            .filter(|object| object.kind == "CustomResourceDefinition");
        for definition in definitions {
            self.after(down, Timer::Established(definition.clone()));
        }
        self.journal.extend(all);
    }
}
