//! The objects: the stored parts of each, and who may change them.

use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;
use windrow_decide::Detail;
use windrow_model::manifest::{GroupKind, ObjectRef};

use super::super::literals::{self, static_json};
use super::stored::Stored;
use super::{SimulatedCluster, defined_kind};

impl SimulatedCluster {
    pub fn get(&self, object: &ObjectRef) -> Option<Value> {
        Some(self.stored(object)?.whole(object))
    }

    pub(crate) fn shown(&self, id: &ObjectRef, detail: Detail) -> Option<Arc<Value>> {
        Some(Arc::new(self.stored(id)?.shown(id, detail)))
    }

    /// The Addon of an object: the one that applied it last.
    pub fn owner(&self, object: &ObjectRef) -> Option<&str> {
        self.stored(object)?.owner.as_deref()
    }

    pub fn objects(&self) -> impl Iterator<Item = (&ObjectRef, Value)> {
        let all = self.objects.iter();
        all.map(|(id, stored)| (id, stored.whole(id)))
    }

    /// The same in stored form.
    pub(crate) fn stored_objects(&self) -> impl Iterator<Item = (&ObjectRef, &Stored)> {
        self.objects.iter()
    }

    /// Every object of a group and kind, in order.
    pub fn list(&self, group: &str, kind: &str) -> impl Iterator<Item = (&ObjectRef, Value)> {
        let all = self.of_kind(&GroupKind::new(group, kind));
        all.map(|(id, stored)| (id, stored.whole(id)))
    }

    /// The same in stored form.
    pub(crate) fn of_kind(
        &self,
        kind: &GroupKind,
    ) -> impl Iterator<Item = (&ObjectRef, &Stored)> + use<'_> {
        let kind = kind.clone();
        // Objects are sorted by kind.
        let first = ObjectRef {
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            namespace: None,
            name: SmolStr::default(),
        };
        self.objects
            .range(first..)
            .take_while(move |(id, _)| id.group == kind.group && id.kind == kind.kind)
    }

    pub(crate) fn stored(&self, object: &ObjectRef) -> Option<&Stored> {
        self.objects.get(object)
    }

    pub(crate) fn has(&self, object: &ObjectRef) -> bool {
        self.objects.contains_key(object)
    }

    pub(crate) fn add_namespace(&mut self, name: &'static str) {
        self.create_namespace(SmolStr::new_static(name));
    }

    /// Creates a namespace, unless it exists.
    pub(crate) fn create_namespace(&mut self, name: SmolStr) {
        let id = literals::named("", "Namespace", None, name);
        if !self.has(&id) {
            let json = static_json!({
                "apiVersion": "v1", "kind": "Namespace", "status": {"phase": "Active"},
            });
            self.put(id, json);
        }
    }

    /// A controller creates or replaces an object.
    pub(crate) fn put(&mut self, id: ObjectRef, json: impl Into<Arc<Value>>) {
        self.put_unnoticed(id.clone(), json);
        self.changed.push(id);
    }

    /// The same for an object that no controller of this simulation reads.
    pub(crate) fn put_unnoticed(&mut self, id: ObjectRef, json: impl Into<Arc<Value>>) {
        let revision = self.touch();
        // Keeps its manifest and its Addon.
        let known = self.objects.remove(&id);
        let (declared, owner) = known
            .map(|known| (known.declared, known.owner))
            .unwrap_or_default();
        let stored = Stored {
            body: json.into(),
            spec: None,
            status: None,
            done: None,
            declared,
            owner,
            revision,
            generation: 1,
        };
        self.objects.insert(id.clone(), stored);
        self.journal.push(id);
    }

    /// A controller has finished with an object, or begins again.
    pub(crate) fn set_done(&mut self, id: &ObjectRef, is_done: bool) {
        if let Some(stored) = self.objects.get_mut(id) {
            stored.done = is_done.then_some(stored.generation);
        }
    }

    pub(crate) fn set_status(&mut self, id: &ObjectRef, status: impl Into<Arc<Value>>) {
        let revision = self.revision + 1;
        let Some(stored) = self.objects.get_mut(id) else {
            return;
        };
        let status = status.into();
        if *stored.status() == *status {
            return;
        }
        stored.revision = revision;
        stored.status = Some(status);
        self.revision = revision;
        self.journal.push(id.clone());
    }

    /// Objects that an Addon applied and that are not in `keep`, which is sorted, in the given kinds.
    pub(crate) fn owned_beside<'k>(
        &self,
        owner: &str,
        keep: &[&ObjectRef],
        kinds: impl IntoIterator<Item = &'k GroupKind>,
    ) -> Vec<ObjectRef> {
        kinds
            .into_iter()
            .flat_map(|kind| {
                self.of_kind(kind).filter(|(id, stored)| {
                    stored.owner.as_deref() == Some(owner)
                        && keep.binary_search(id).is_err()
                        && stored.body["metadata"]["labels"]["objectset.rio.cattle.io/prune"]
                            != "false"
                })
            })
            .map(|(id, _)| id.clone())
            .collect()
    }

    pub(crate) fn delete(&mut self, id: &ObjectRef) {
        let Some(stored) = self.objects.remove(id) else {
            return;
        };
        let revision = self.touch();
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

    pub(super) fn delete_all(&mut self, goes: impl Fn(&ObjectRef) -> bool) {
        let gone: Vec<ObjectRef> = self.objects.keys().filter(|id| goes(id)).cloned().collect();
        for id in gone {
            self.objects.remove(&id);
            self.journal.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::super::super::Chance;
    use super::*;

    fn cluster() -> SimulatedCluster {
        SimulatedCluster::new(Timestamp::UNIX_EPOCH, Chance::new(1))
    }

    fn job(name: &'static str) -> ObjectRef {
        literals::object("batch", "Job", Some("default"), name)
    }

    #[test]
    fn an_object_is_shown_with_its_name_and_as_it_is_after_its_last_change() {
        let mut cluster = cluster();
        let id = job("a");
        cluster.put(id.clone(), json!({"kind": "Job", "status": {"active": 1}}));
        let full = |cluster: &SimulatedCluster| cluster.shown(&id, Detail::Full).unwrap();
        let (first, shown) = (cluster.get(&id).unwrap(), full(&cluster));
        assert_eq!(shown["metadata"]["name"], "a");
        assert_eq!(shown["metadata"]["namespace"], "default");
        assert_eq!(shown["status"]["active"], 1);
        cluster.set_status(&id, json!({"active": 1}));
        assert_eq!(shown, full(&cluster));
        assert_eq!(first, cluster.get(&id).unwrap());
        cluster.set_status(&id, json!({"succeeded": 1}));
        let now = cluster.get(&id).unwrap();
        assert_eq!(now["status"], json!({"succeeded": 1}));
        assert_eq!(full(&cluster)["status"], now["status"]);
        assert_ne!(
            now["metadata"]["resourceVersion"],
            first["metadata"]["resourceVersion"]
        );
        let metadata = cluster.shown(&id, Detail::Metadata).unwrap();
        assert_eq!(metadata["metadata"], full(&cluster)["metadata"]);
        assert_eq!(metadata.get("status"), None);
        cluster.put(id.clone(), json!({"kind": "Job"}));
        assert_eq!(cluster.get(&id).unwrap().get("status"), None);
    }

    #[test]
    fn objects_are_in_order_and_a_deleted_one_is_gone_until_it_comes_again() {
        let mut cluster = cluster();
        for name in ["c", "a", "b"] {
            cluster.put(job(name), json!({}));
        }
        let names = |cluster: &SimulatedCluster| -> Vec<String> {
            let jobs = cluster.list("batch", "Job");
            jobs.map(|(id, _)| id.name.to_string()).collect()
        };
        assert_eq!(names(&cluster), ["a", "b", "c"]);
        cluster.delete(&job("a"));
        assert!(!cluster.has(&job("a")) && cluster.get(&job("a")).is_none());
        assert_eq!(names(&cluster), ["b", "c"]);
        cluster.put(job("a"), json!({}));
        assert_eq!(names(&cluster), ["a", "b", "c"]);
        let all: Vec<&ObjectRef> = cluster.objects().map(|(id, _)| id).collect();
        assert!(all.is_sorted() && all.len() == 7, "{all:?}");
    }

    #[test]
    fn what_lies_in_a_namespace_goes_with_it() {
        let mut cluster = cluster();
        cluster.put(job("a"), json!({}));
        cluster.delete(&literals::object("", "Namespace", None, "default"));
        assert!(!cluster.has(&job("a")));
        assert!(cluster.has(&literals::object("", "Namespace", None, "kube-system")));
    }
}
