//! What the deploy controller does with the objects of a file.

use std::sync::{Arc, OnceLock};

use windrow_model::manifest::ObjectRef;

use super::super::agenda::Timer;
use super::super::declared::Declared;
use super::super::reading::Reading;
use super::super::{once, times};
use super::objects::Stored;
use super::{Cluster, Intact};

impl Cluster {
    /// Creates or updates an object as the deploy controller would: changed only where its manifest
    /// changed. `id` is its name in the cluster.
    pub(crate) fn apply(
        &mut self,
        id: &ObjectRef,
        declared: &Declared,
        owner: &str,
    ) -> Result<(), String> {
        let place = self.place(id);
        let known = place.and_then(|place| self.objects.at(place));
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
            let mut namespaced = once::object("", "Namespace", None, "");
            namespaced.name = namespace.clone();
            if !self.has(&namespaced) {
                return Err(format!("namespaces \"{namespace}\" not found"));
            }
        }
        self.admit(id, &declared.json)?;
        self.ask(&declared.id)?;
        if let Some(refusal) = &declared.refusal {
            return Err(refusal.clone());
        }
        self.counts.writes += 1;
        let revision = self.touch();
        let place = place.unwrap_or_else(|| self.objects.add(id.clone()));
        let slot = self.objects.slot(place);
        let known = slot.take();
        self.counts.writes += u64::from(generated && known.is_some());
        *slot = Some(Stored {
            body: Arc::clone(&declared.kept),
            // What a controller said stays.
            status: known.as_ref().and_then(Stored::said),
            declared: Some(Arc::clone(&declared.json)),
            owner: Some(owner.into()),
            revision,
            generation: known.as_ref().map_or(1, |known| {
                let same_spec = known.body.get("spec") == declared.json.get("spec");
                known.generation + u64::from(!same_spec)
            }),
            seen: OnceLock::new(),
        });
        if let Some(former) = known.and_then(|known| known.owner) {
            self.disown(&former);
        }
        match self.owned.get_mut(owner) {
            Some(count) => *count += 1,
            None => {
                self.owned.insert(owner.into(), 1);
            }
        }
        self.journal.push(place);
        self.changed.push(place);
        if id.kind == "CustomResourceDefinition" && id.group == "apiextensions.k8s.io" {
            self.within(times::ESTABLISHED, Timer::Established(place));
        }
        Ok(())
    }

    /// One object less.
    pub(super) fn disown(&mut self, owner: &str) {
        self.intact.remove(owner);
        if let Some(count) = self.owned.get_mut(owner) {
            *count -= 1;
        }
    }

    /// Is everything of a file there as it says, so that applying it anew changes nothing? Then it counts
    /// what that costs.
    pub(crate) fn stands(&mut self, addon: &str, reading: &Arc<Reading>) -> bool {
        let intact = self.intact.get(addon);
        let Some(intact) = intact.filter(|intact| Arc::ptr_eq(&intact.reading, reading)) else {
            return false;
        };
        self.counts.writes += intact.writes;
        true
    }

    /// A file was applied whole. What it declares under a name that is chosen anew each time never stands.
    pub(crate) fn stood(&mut self, addon: &str, reading: &Arc<Reading>) {
        let objects = || reading.objects.iter();
        if objects().any(|object| object.generated) {
            return;
        }
        let writes = objects().filter(|object| object.is_missed);
        let intact = Intact {
            reading: Arc::clone(reading),
            writes: writes.count() as u64,
        };
        self.intact.insert(addon.into(), intact);
    }

    /// How many objects an Addon has.
    pub(crate) fn owns(&self, owner: &str) -> usize {
        self.owned.get(owner).copied().unwrap_or_default()
    }
}
