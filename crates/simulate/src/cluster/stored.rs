//! One object, as it is stored.

use std::sync::Arc;

use serde_json::{Value, json};
use smol_str::SmolStr;
use windrow_decide::Detail;
use windrow_model::manifest::ObjectRef;

use super::super::declared::{Declared, SpecDigest};

/// One object, in the parts that change apart from one another. Only who looks at all of it has it put
/// together.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// As its manifest or its controller wrote it, before the API server did anything. Clusters share it.
    pub(super) body: Arc<Value>,
    /// Of the body's `spec`, where a manifest wrote it.
    pub(super) spec: Option<SpecDigest>,
    /// `status`, where a controller has set it since.
    pub(super) status: Option<Arc<Value>>,
    /// The generation that its controller is done with.
    pub(super) done: Option<u64>,
    /// As its manifest last declared it.
    pub(super) declared: Option<Arc<Value>>,
    /// The Addon that applied it last.
    pub(super) owner: Option<SmolStr>,
    /// `metadata.resourceVersion`
    pub(crate) revision: u64,
    /// `metadata.generation`: the number of the last change of substance.
    pub(crate) generation: u64,
}

impl Stored {
    /// As its manifest or its controller wrote it: everything but its status is in that.
    pub(crate) fn body(&self) -> &Value {
        &self.body
    }

    /// `spec`; null where there is none.
    pub(crate) fn spec(&self) -> &Value {
        &self.body["spec"]
    }

    /// `status` as it is now; null where there is none.
    pub(crate) fn status(&self) -> &Value {
        self.status.as_deref().unwrap_or(&self.body["status"])
    }

    /// Is its controller done with it as it is?
    pub(crate) fn is_done(&self) -> bool {
        self.done == Some(self.generation)
    }

    /// Is its `spec` the one that a manifest declares?
    pub(super) fn has_spec_of(&self, declared: &Declared) -> bool {
        match self.spec {
            Some(spec) => spec == declared.specs.0,
            None => self.body.get("spec") == declared.json.get("spec"),
        }
    }

    /// Did a manifest of the directory bring it?
    pub(crate) fn is_of_a_manifest(&self) -> bool {
        self.owner.is_some()
    }

    /// Its status, if it ever had one.
    pub(super) fn reported_status(&self) -> Option<Arc<Value>> {
        let first = || self.body.get("status").cloned().map(Arc::new);
        self.status.clone().or_else(first)
    }

    /// What a watch shows of it. `id` is its own name. The `resourceVersion`, which is another one in every
    /// bootstrap and is nothing to anybody who watches, is left out.
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

    /// All of it, as the API server has it.
    pub(super) fn whole(&self, id: &ObjectRef) -> Value {
        let mut json = self.shown(id, Detail::Full);
        json["metadata"]["resourceVersion"] = self.revision.to_string().into();
        json
    }

    /// What the API server writes into an object's metadata.
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
