//! The stored form of an object.

use std::sync::Arc;

use serde_json::{Value, json};
use smol_str::SmolStr;
use windrow_decide::Detail;
use windrow_model::manifest::ObjectRef;

use super::super::declared::{Declared, SpecDigest};

/// An object, in the parts that change independently. They are only combined for a reader of the whole object.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// The object as its manifest or its controller wrote it, before the API server changed anything. Clusters share it.
    pub(super) body: Arc<Value>,
    /// The digest of the body's `spec`, if a manifest wrote it.
    pub(super) spec: Option<SpecDigest>,
    /// `status`, if a controller has set it since.
    pub(super) status: Option<Arc<Value>>,
    /// The generation that its controller has finished.
    pub(super) done: Option<u64>,
    /// The last declaration of its manifest.
    pub(super) declared: Option<Arc<Value>>,
    pub(super) owner: Option<SmolStr>,
    pub(crate) revision: u64,
    /// `metadata.generation`: the number of the last relevant change.
    pub(crate) generation: u64,
}

impl Stored {
    /// The object as its manifest or its controller wrote it, complete except for its status.
    pub(crate) fn body(&self) -> &Value {
        &self.body
    }

    /// `spec`; null if it is missing.
    pub(crate) fn spec(&self) -> &Value {
        &self.body["spec"]
    }

    /// The present `status`; null if it is missing.
    pub(crate) fn status(&self) -> &Value {
        self.status.as_deref().unwrap_or(&self.body["status"])
    }

    /// Has its controller finished with its present generation?
    pub(crate) fn is_done(&self) -> bool {
        self.done == Some(self.generation)
    }

    pub(super) fn has_spec_of(&self, declared: &Declared) -> bool {
        match self.spec {
            Some(spec) => spec == declared.specs.0,
            None => self.body.get("spec") == declared.json.get("spec"),
        }
    }

    pub(crate) fn is_of_a_manifest(&self) -> bool {
        self.owner.is_some()
    }

    /// Its status, if it ever had one.
    pub(super) fn reported_status(&self) -> Option<Arc<Value>> {
        let first = || self.body.get("status").cloned().map(Arc::new);
        self.status.clone().or_else(first)
    }

    /// The object as a watch shows it. `id` is its own name. The `resourceVersion` is left out: it differs in every bootstrap,
    /// and no reader of the watch needs it.
    pub(super) fn shown(&self, id: &ObjectRef, detail: Detail) -> Value {
        let mut json = match detail {
            Detail::Full => Value::clone(&self.body),
            Detail::Metadata => {
                let field = |name: &str| (name.to_owned(), self.body[name].clone());
                let fields = ["apiVersion", "kind", "metadata"].map(field);
                Value::Object(fields.into_iter().collect())
            }
        };
        self.stamp(id, &mut json);
        if let (Some(status), Detail::Full) = (&self.status, detail) {
            json["status"] = Value::clone(status);
        }
        json
    }

    /// The complete object, as the API server has it.
    pub(super) fn whole(&self, id: &ObjectRef) -> Value {
        let mut json = self.shown(id, Detail::Full);
        json["metadata"]["resourceVersion"] = self.revision.to_string().into();
        json
    }

    fn stamp(&self, id: &ObjectRef, json: &mut Value) {
        if !json["metadata"].is_object() {
            json["metadata"] = json!({});
        }
        let metadata = &mut json["metadata"];
        metadata["name"] = id.name.as_str().into();
        if let Some(namespace) = &id.namespace {
            metadata["namespace"] = namespace.as_str().into();
        }
        metadata["generation"] = self.generation.into();
    }
}
