//! Objects that kube-apiserver refuses because of other objects of the files.

use std::collections::BTreeMap;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{Node, Object, ObjectRef};
use windrow_model::reasons::Code;
use windrow_plan::knowledge::{NodeFacts, kubernetes_scope};

use super::finding;

/// The objects that will never exist.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pub(crate) findings: Vec<Finding>,
    /// Refused objects, with the names in their manifests, and kube-apiserver's messages.
    pub(crate) refused: BTreeMap<ObjectRef, String>,
    /// Objects that get no pods, and why.
    pub(crate) without_pods: BTreeMap<ObjectRef, String>,
}

impl Refusals {
    pub(super) fn extend(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.refused.extend(other.refused);
        self.without_pods.extend(other.without_pods);
    }

    /// Records that another object of the files prevents this one; `because` are its place and its message.
    pub(super) fn refuse(&mut self, of: &ObjectRef, who: &str, why: &str, at: Vec<Location>) {
        let code = Code::AdmissionRefuses;
        let what = of.to_string();
        let words = [("who", who), ("what", &*what), ("why", why)];
        self.findings.push(finding(code, code.say(&words), at));
    }

    /// Records that another object of the files may prevent this one.
    pub(super) fn may_refuse(&mut self, of: &ObjectRef, who: &str, why: &str, at: Vec<Location>) {
        let code = Code::AdmissionUnknown;
        let what = of.to_string();
        let words = [("who", who), ("what", &*what), ("why", why)];
        self.findings.push(finding(code, code.say(&words), at));
    }
}

/// An object's name in the cluster.
pub(super) fn in_cluster(object: &Object) -> ObjectRef {
    let id = &object.id;
    let namespaced = kubernetes_scope(&id.group, &id.kind, &NodeFacts::default());
    let namespace = || id.namespace.clone().unwrap_or("default".into());
    ObjectRef {
        namespace: (namespaced != Some(false)).then(namespace),
        ..id.clone()
    }
}

/// A value in one line.
pub(super) fn shown(value: &Node) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_json().to_string(),
    }
}
