//! Decides which objects of a kind count, by namespace. Many users may create objects in some namespace: without this limit, such
//! an object would pass for one of the platform.

use serde_json::Value;
use windrow_model::grammars::label_value_error;
use windrow_model::manifest::{GroupKind, object_name_error};
use windrow_model::redact::REDACTED;

use super::{ObjectKind, text, texts};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindScope {
    /// The kind has no namespaces.
    Cluster,
    /// Its controller ignores objects of all other namespaces.
    Only {
        /// Where the controller works.
        namespaces: &'static [&'static str],
        /// The evidence: project, tag and line.
        source: &'static str,
    },
    /// Objects of any namespace count.
    Any { reason: &'static str },
}

pub(super) const fn only(namespaces: &'static [&'static str], source: &'static str) -> KindScope {
    KindScope::Only { namespaces, source }
}

pub(super) const fn any(reason: &'static str) -> KindScope {
    KindScope::Any { reason }
}

impl ObjectKind {
    /// The paths of the lists of the objects that count.
    pub fn paths(self) -> Vec<String> {
        match self.scope {
            KindScope::Only { namespaces, .. } => namespaces
                .iter()
                .map(|namespace| self.path_in(namespace))
                .collect(),
            KindScope::Cluster | KindScope::Any { .. } => vec![self.path()],
        }
    }

    /// The objects that count, from a list in which they come first.
    pub(super) fn counted(self, objects: &[Value]) -> &[Value] {
        &objects[..objects.partition_point(|object| self.counts(object))]
    }

    pub(crate) fn is_in_scope(self, namespace: &str) -> bool {
        match self.scope {
            KindScope::Only { namespaces, .. } => namespaces.contains(&namespace),
            KindScope::Cluster | KindScope::Any { .. } => true,
        }
    }

    /// Does this object count? Saved lists can contain objects of any namespace, and names and labels that kube-apiserver
    /// rejects: those would become words of commands.
    pub(super) fn counts(self, object: &Value) -> bool {
        // A part of a name in a report can be redacted.
        let known = |text: &str| text.replace(REDACTED, "redacted");
        let name = known(text(object, "/metadata/name"));
        let labels = texts(object, "/metadata/labels");
        let mut labels = labels.values().map(|value| known(value));
        let kind = GroupKind::new(self.group, self.kind);
        self.is_in_scope(text(object, "/metadata/namespace"))
            && (name.is_empty() || object_name_error(&kind, &name).is_none())
            && labels.all(|value| label_value_error(&value).is_none())
    }
}
