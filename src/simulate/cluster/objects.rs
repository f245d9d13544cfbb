//! The objects: what is stored of each, and who may change what of it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use smol_str::SmolStr;

use super::super::once;
use super::{Cluster, defined_kind};
use crate::manifest::{GroupKind, ObjectRef};

/// One object, in the parts that change apart from one another. Only who looks at all of it has it put
/// together.
#[derive(Debug, Clone)]
pub(in crate::simulate) struct Stored {
    /// As its manifest or its controller wrote it, before the API server did anything. Clusters share it.
    pub(super) body: Arc<Value>,
    /// `status`, where a controller has set it since.
    pub(super) status: Option<Arc<Value>>,
    /// As its manifest last declared it.
    pub(super) declared: Option<Arc<Value>>,
    /// The Addon that applied it last.
    pub(super) owner: Option<SmolStr>,
    /// `metadata.resourceVersion`
    pub(in crate::simulate) revision: u64,
    /// `metadata.generation`: the number of the last change of substance.
    pub(in crate::simulate) generation: u64,
    /// All of it together, once somebody looked. Whatever changes a part forgets it.
    pub(super) whole: OnceLock<Arc<Value>>,
}

impl Stored {
    /// As its manifest or its controller wrote it: everything but its status is in that.
    pub(in crate::simulate) fn body(&self) -> &Value {
        &self.body
    }

    /// `spec`; null where there is none.
    pub(in crate::simulate) fn spec(&self) -> &Value {
        &self.body["spec"]
    }

    /// `status` as it is now; null where there is none.
    pub(in crate::simulate) fn status(&self) -> &Value {
        self.status.as_deref().unwrap_or(&self.body["status"])
    }

    /// Its status, if it ever had one.
    pub(super) fn said(&self) -> Option<Arc<Value>> {
        let first = || self.body.get("status").cloned().map(Arc::new);
        self.status.clone().or_else(first)
    }

    /// All of it, as the API server shows it. `id` is its own name.
    pub(in crate::simulate) fn whole(&self, id: &ObjectRef) -> &Arc<Value> {
        let whole = self.whole.get_or_init(|| Arc::new(self.together(id)));
        debug_assert_eq!(**whole, self.together(id), "a part of {id} changed");
        whole
    }

    fn together(&self, id: &ObjectRef) -> Value {
        let mut json = Value::clone(&self.body);
        if !json["metadata"].is_object() {
            json["metadata"] = json!({});
        }
        let metadata = &mut json["metadata"];
        metadata["name"] = id.name.as_str().into();
        if let Some(namespace) = &id.namespace {
            metadata["namespace"] = namespace.as_str().into();
        }
        metadata["resourceVersion"] = self.revision.to_string().into();
        metadata["generation"] = self.generation.into();
        if let Some(status) = &self.status {
            json["status"] = Value::clone(status);
        }
        json
    }
}

impl Cluster {
    /// One object, as it is now.
    pub fn get(&self, object: &ObjectRef) -> Option<&Arc<Value>> {
        let (id, stored) = self.objects.get_key_value(object)?;
        Some(stored.whole(id))
    }

    /// The Addon that an object belongs to: the one that applied it last.
    pub fn owner(&self, object: &ObjectRef) -> Option<&str> {
        self.objects.get(object)?.owner.as_deref()
    }

    /// Every object.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectRef, &Arc<Value>)> {
        self.objects
            .iter()
            .map(|(id, stored)| (id, stored.whole(id)))
    }

    /// Every object of a group and kind.
    pub fn list<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectRef, &'a Arc<Value>)> {
        self.of_kind(group, kind)
            .map(|(id, stored)| (id, stored.whole(id)))
    }

    /// The same, as they are stored: objects are in order of group and kind.
    pub(in crate::simulate) fn of_kind<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectRef, &'a Stored)> {
        let first = ObjectRef::cluster(group, kind, "");
        self.objects
            .range(first..)
            .take_while(move |(id, _)| id.kind == kind && id.group == group)
    }

    /// One object, as it is stored.
    pub(in crate::simulate) fn stored(&self, object: &ObjectRef) -> Option<&Stored> {
        self.objects.get(object)
    }

    /// Is it there?
    pub(in crate::simulate) fn has(&self, object: &ObjectRef) -> bool {
        self.objects.contains_key(object)
    }

    pub(in crate::simulate) fn add_namespace(&mut self, name: &'static str) {
        let id = once::object("", "Namespace", None, name);
        if !self.has(&id) {
            let json = once::json!({
                "apiVersion": "v1", "kind": "Namespace", "status": {"phase": "Active"},
            });
            self.put(id, json);
        }
    }

    /// A controller creates or replaces an object.
    pub(in crate::simulate) fn put(&mut self, id: ObjectRef, json: impl Into<Arc<Value>>) {
        self.bring(id.clone(), json);
        self.changed.push(id);
    }

    /// The same, of something that no controller of this simulation looks at.
    pub(in crate::simulate) fn bring(&mut self, id: ObjectRef, json: impl Into<Arc<Value>>) {
        let revision = self.touch();
        self.journal.push(id.clone());
        let known = self.objects.get_mut(&id);
        let stored = Stored {
            body: json.into(),
            status: None,
            // Its manifest and its Addon are still those.
            declared: known.as_ref().and_then(|known| known.declared.clone()),
            owner: known.and_then(|known| known.owner.take()),
            revision,
            generation: 1,
            whole: OnceLock::new(),
        };
        self.objects.insert(id, stored);
    }

    /// A controller sets an object's status.
    pub(in crate::simulate) fn set_status(
        &mut self,
        id: &ObjectRef,
        status: impl Into<Arc<Value>>,
    ) {
        let Some(stored) = self.objects.get_mut(id) else {
            return;
        };
        let status = status.into();
        if *stored.status() == *status {
            return;
        }
        self.revision += 1;
        stored.revision = self.revision;
        stored.status = Some(status);
        stored.whole.take();
        self.journal.push(id.clone());
    }

    /// The number of the object's last change of substance.
    pub(in crate::simulate) fn generation(&self, id: &ObjectRef) -> u64 {
        self.stored(id).map_or(1, |stored| stored.generation)
    }

    /// Objects that an Addon applied and that are not among `keep`, which is in order, in the given kinds.
    pub(in crate::simulate) fn owned_beside<'k>(
        &self,
        owner: &str,
        keep: &[&ObjectRef],
        kinds: impl IntoIterator<Item = &'k GroupKind>,
    ) -> Vec<ObjectRef> {
        kinds
            .into_iter()
            .flat_map(|kind| self.of_kind(&kind.group, &kind.kind))
            .filter(|(id, stored)| {
                stored.owner.as_deref() == Some(owner)
                    && keep.binary_search(id).is_err()
                    && stored.body["metadata"]["labels"]["objectset.rio.cattle.io/prune"] != "false"
            })
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Deletes an object, and what goes with it.
    pub(in crate::simulate) fn delete(&mut self, id: &ObjectRef) {
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
                if let Some((kind, _)) = defined_kind(stored.spec()) {
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
}
