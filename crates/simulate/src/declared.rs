//! An object of a manifest, with the facts that follow from its text: they are computed once for all bootstraps.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde_json::Value;
use windrow_apischema::FixedFields;
use windrow_model::manifest::{self, ObjectRef};

#[derive(Debug, Clone)]
pub(super) struct Declared {
    /// Namespace as written.
    pub(super) id: ObjectRef,
    /// Its name in the cluster if its kind is namespaced, and if it is not.
    namespaced: ObjectRef,
    unnamespaced: ObjectRef,
    pub(super) api_version: String,
    pub(super) json: Arc<Value>,
    /// The object as the API server stores it: a Service has an address.
    pub(super) kept: Arc<Value>,
    /// Digests of `spec`, as declared and as the API server stores it.
    pub(super) specs: (SpecDigest, SpecDigest),
    /// The API server generates its name, a different one each time.
    pub(super) generated: bool,
    /// The API server converts `stringData` into `data`: the controller does not find it and writes it again, without effect.
    pub(super) is_missed: bool,
    /// Why the API server rejects it, if it does.
    pub(super) refusal: Option<String>,
}

/// Distinguishes two `spec`s: files that declare the same definition of thousands of lines are compared in every pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpecDigest(u64);

impl SpecDigest {
    /// Digest of the object's `spec`, which may be missing.
    pub(super) fn new(object: &Value) -> Self {
        let mut hasher = DefaultHasher::new();
        object.get("spec").hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl Declared {
    pub(super) fn new(id: &ObjectRef, version: &str, json: Value) -> Self {
        let json = Arc::new(json);
        let generated = is_blank(&json["metadata"]["name"]);
        let in_namespace = |namespace| ObjectRef {
            namespace,
            ..id.clone()
        };
        let namespace = id.namespace.clone().unwrap_or("default".into());
        let kept = with_address(id, &json).unwrap_or_else(|| Arc::clone(&json));
        Self {
            specs: (SpecDigest::new(&json), SpecDigest::new(&kept)),
            namespaced: in_namespace(Some(namespace)),
            unnamespaced: in_namespace(None),
            api_version: match id.group.as_str() {
                "" => version.to_owned(),
                group => format!("{group}/{version}"),
            },
            generated,
            refusal: refusal(id, &json, generated),
            is_missed: id.kind == "Secret" && json["stringData"].is_object(),
            kept,
            json,
            id: id.clone(),
        }
    }

    /// Why an object from another file cannot be changed to this declaration, in the words of the rejection.
    pub(super) fn unchangeable(&self, there: &Value) -> Option<String> {
        let kind = self.id.group_kind();
        let read = |json: &Value| {
            let field = |keys: &[&str]| {
                keys.iter()
                    .try_fold(json, |node, key| node.get(key))
                    .cloned()
            };
            FixedFields::read(&kind, field)
        };
        let difference = read(there)?.refuse(&read(&self.json)?)?;
        Some(difference.refusal(&kind, &self.id.name))
    }

    pub(super) fn named(&self, namespaced: bool) -> &ObjectRef {
        match namespaced {
            true => &self.namespaced,
            false => &self.unnamespaced,
        }
    }
}

/// The same Service with a `clusterIP`, if it has none.
fn with_address(id: &ObjectRef, json: &Value) -> Option<Arc<Value>> {
    let spec = &json["spec"];
    let lacks = (spec.is_object() || spec.is_null()) && is_blank(&spec["clusterIP"]);
    if id.kind != "Service" || !id.group.is_empty() || !lacks {
        return None;
    }
    let mut json = json.clone();
    json["spec"]["clusterIP"] = "10.43.0.100".into();
    Some(Arc::new(json))
}

/// The reason for a rejection by the API server itself, for mistakes that are easily overlooked.
fn refusal(id: &ObjectRef, json: &Value, generated: bool) -> Option<String> {
    let (kind, name) = (id.group_kind(), &id.name);
    let words = manifest::object_name_refusal(&kind, name).filter(|_| !generated);
    if let Some(words) = words {
        return Some(format!(
            "{kind} \"{name}\" is invalid: metadata.name: Invalid value: \"{name}\": {words}"
        ));
    }
    let spec = &json["spec"];
    let no_ports = spec["ports"].as_array().is_none_or(Vec::is_empty);
    let needs_ports = spec["type"] != "ExternalName" && spec["clusterIP"] != "None";
    (id.group.is_empty() && id.kind == "Service" && no_ports && needs_ports)
        .then(|| format!("Service \"{name}\" is invalid: spec.ports: Required value"))
}

/// Is it missing, or equivalent to a missing value?
fn is_blank(value: &Value) -> bool {
    value.as_str().is_none_or(str::is_empty)
}
