//! How the deploy controller applies the objects of a file.

use std::sync::Arc;

use serde_json::Value;
use windrow_model::manifest::ObjectRef;

use super::super::declared::Declared;
use super::super::timer::Timer;
use super::super::{literals, pods, times};
use super::SimulatedCluster;
use super::stored::Stored;

impl SimulatedCluster {
    /// The answer of kube-apiserver and the platform's webhooks to the creation of this object.
    pub fn try_create(&self, object: &ObjectRef, json: &Value) -> Result<(), String> {
        self.find_namespace(object)?;
        pods::admit(self, object, json)?;
        self.admit(object, json)
    }

    fn find_namespace(&self, object: &ObjectRef) -> Result<(), String> {
        let Some(namespace) = &object.namespace else {
            return Ok(());
        };
        let mut id = literals::object("", "Namespace", None, "");
        id.name = namespace.clone();
        if self.has(&id) {
            return Ok(());
        }
        Err(format!("namespaces \"{namespace}\" not found"))
    }

    /// Creates or updates an object like the deploy controller: it changes only if its manifest changed. `id` is its name in the
    /// cluster.
    pub(crate) fn apply(
        &mut self,
        id: &ObjectRef,
        declared: &Declared,
        owner: &str,
    ) -> Result<(), String> {
        let known = self.stored(id);
        // A generated name never matches an existing one: each time a new object is created, and the former one is pruned.
        let generated = declared.generated;
        let same = known.is_some_and(|known| {
            !generated
                && known.owner.as_deref() == Some(owner)
                && known.declared.as_ref() == Some(&declared.json)
        });
        if same {
            self.counts.writes += u64::from(declared.is_missed);
            return Ok(());
        }
        self.find_namespace(id)?;
        if let Some(refusal) = self.refused.get(&declared.id) {
            return Err(refusal.clone());
        }
        pods::admit(self, id, &declared.json)?;
        self.admit(id, &declared.json)?;
        self.ask(&declared.id)?;
        if let Some(refusal) = &declared.refusal {
            return Err(refusal.clone());
        }
        let other = known.filter(|known| !generated && known.owner.as_deref() != Some(owner));
        let there = other.and_then(|known| known.declared.as_deref());
        if let Some(refusal) = there.and_then(|there| declared.unchangeable(there)) {
            return Err(refusal);
        }
        self.counts.writes += 1;
        let revision = self.touch();
        let known = self.objects.remove(id);
        self.counts.writes += u64::from(generated && known.is_some());
        let stored = Stored {
            body: Arc::clone(&declared.kept),
            spec: Some(declared.specs.1),
            // A controller's report stays.
            status: known.as_ref().and_then(Stored::reported_status),
            done: known.as_ref().and_then(|known| known.done),
            declared: Some(Arc::clone(&declared.json)),
            owner: Some(owner.into()),
            revision,
            generation: known.as_ref().map_or(1, |known| {
                known.generation + u64::from(!known.has_spec_of(declared))
            }),
        };
        self.objects.insert(id.clone(), stored);
        self.journal.push(id.clone());
        self.changed.push(id.clone());
        if id.kind == "CustomResourceDefinition" && id.group == "apiextensions.k8s.io" {
            let takes = self.chance.between(times::ESTABLISHED);
            self.establishing = self.establishing.max(self.now) + takes;
            // The others do not wait for one that takes longer.
            let slow = self.slow_definitions;
            let late = slow.map(|slow| slow.delay_of(&id.name, &self.slow_chance));
            let at = self.establishing + late.unwrap_or_default();
            self.agenda.enter(at, Timer::Established(id.clone()));
        }
        Ok(())
    }
}
