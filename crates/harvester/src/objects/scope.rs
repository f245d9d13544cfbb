//! Whose objects of a kind count. The right to make objects in one namespace is a common one: without a bound, such an object would pass
//! for one of the platform.

use serde_json::Value;
use windrow_model::grammars::label_value_error;
use windrow_model::manifest::{GroupKind, object_name_error};
use windrow_model::redact::REDACTED;

use super::{ObjectKind, text, texts};

/// In which namespaces the objects of a kind count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindScope {
    /// The kind has no namespaces.
    Cluster,
    /// Its controller ignores objects of all other namespaces.
    Only {
        /// Where the controller works.
        namespaces: &'static [&'static str],
        /// What shows that: project, tag and line.
        source: &'static str,
    },
    /// Objects of any namespace count.
    Any {
        /// Why.
        reason: &'static str,
    },
}

pub(super) const fn only(namespaces: &'static [&'static str], source: &'static str) -> KindScope {
    KindScope::Only { namespaces, source }
}

pub(super) const fn any(reason: &'static str) -> KindScope {
    KindScope::Any { reason }
}

impl ObjectKind {
    /// The paths below which the objects that count are listed.
    pub fn paths(self) -> Vec<String> {
        match self.scope {
            KindScope::Only { namespaces, .. } => namespaces
                .iter()
                .map(|namespace| self.path_in(namespace))
                .collect(),
            KindScope::Cluster | KindScope::Any { .. } => vec![self.path()],
        }
    }

    /// Those that count, of a list in which they come first.
    pub(super) fn counted(self, objects: &[Value]) -> &[Value] {
        &objects[..objects.partition_point(|object| self.counts(object))]
    }

    /// Do objects of this namespace count?
    pub(crate) fn is_in_scope(self, namespace: &str) -> bool {
        match self.scope {
            KindScope::Only { namespaces, .. } => namespaces.contains(&namespace),
            KindScope::Cluster | KindScope::Any { .. } => true,
        }
    }

    /// Does this object count? Saved lists can have objects of any namespace, and names and labels that kube-apiserver rejects: those
    /// would become words of commands.
    pub(super) fn counts(self, object: &Value) -> bool {
        // A report can have a part of a name redacted.
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
