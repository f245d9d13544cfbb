//! The objects of a document, and references to objects.

use std::fmt;
use std::hash::{Hash, Hasher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::Node;
use crate::object::pods::pod_template_path;

/// An API group and a kind in it. The version is left out on purpose: a requirement is on the
/// kind, whichever version serves it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct GroupKind {
    /// API group; empty for the core group.
    pub group: SmolStr,
    /// Kind.
    pub kind: SmolStr,
}

impl GroupKind {
    /// A group and kind from anything string-like.
    pub fn new(group: impl Into<SmolStr>, kind: impl Into<SmolStr>) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
        }
    }
}

/// The group of an `apiVersion`; empty for the core group.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Only the kind is hashed: few kinds exist in two groups under the same name.
impl Hash for GroupKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.kind.as_bytes());
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.kind),
            group => write!(f, "{}.{group}", self.kind),
        }
    }
}

/// The name by which one object is meant, in a manifest or in the cluster.
///
/// `namespace` is `None` for cluster-scoped objects. A namespaced object whose manifest names no
/// namespace goes to `default` (k3s `pkg/deploy`, wrangler `pkg/apply`), so it is written that way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObjectRef {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub group: SmolStr,
    /// Kind.
    pub kind: SmolStr,
    /// Namespace; absent for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<SmolStr>,
    /// Name.
    pub name: SmolStr,
}

/// The group is left out, as with [`GroupKind`].
impl Hash for ObjectRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.kind.as_bytes());
        state.write(self.namespace.as_deref().unwrap_or_default().as_bytes());
        state.write(self.name.as_bytes());
    }
}

impl ObjectRef {
    /// A cluster-scoped object.
    pub fn cluster(
        group: impl Into<SmolStr>,
        kind: impl Into<SmolStr>,
        name: impl Into<SmolStr>,
    ) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
            namespace: None,
            name: name.into(),
        }
    }

    /// A namespaced object.
    pub fn namespaced(
        group: impl Into<SmolStr>,
        kind: impl Into<SmolStr>,
        namespace: impl Into<SmolStr>,
        name: impl Into<SmolStr>,
    ) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// The namespace of a namespaced object; `default` if none is given.
    pub fn namespace_or_default(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group.clone(), self.kind.clone())
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// The template of the pods that an object makes.
#[derive(Debug, Clone, Copy)]
pub struct PodTemplate<'o> {
    pub metadata: Option<&'o Node>,
    pub spec: &'o Node,
}

impl<'o> PodTemplate<'o> {
    /// Reads a node with both parts; `None` without a specification.
    pub fn from_node(node: &'o Node) -> Option<Self> {
        Some(Self {
            metadata: node.get("metadata"),
            spec: node.get("spec")?,
        })
    }

    pub fn labels(&self) -> Option<&'o Node> {
        self.metadata?.get("labels")
    }
}

/// One object that a document declares.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Group, kind, namespace and name. The namespace is as written in the manifest (absent when absent); only the plan
    /// knows whether the kind is namespaced.
    pub id: ObjectRef,
    /// API version without the group (`v1`, `v1beta1`).
    pub version: String,
    /// Line of the object in its file, counted from 1.
    pub line: u32,
    pub node: Node,
}

impl Object {
    /// Whether the API server chooses the name. `id.name` is then only the beginning of the name
    /// (`metadata.generateName`).
    pub fn is_name_generated(&self) -> bool {
        self.node.str_at(&["metadata", "name"]).is_none()
    }

    /// Its pod template, if it is of one of Kubernetes' own kinds that make pods.
    pub fn pod_template(&self) -> Option<PodTemplate<'_>> {
        let path = pod_template_path(&self.id.group, &self.id.kind)?;
        PodTemplate::from_node(self.node.at(path)?)
    }

    /// Like [`Self::pod_template`], if the object makes pods without a change to it: neither suspended nor without
    /// replicas.
    pub fn running_pod_template(&self) -> Option<PodTemplate<'_>> {
        let value = |field: &str| self.node.at(&["spec", field]).map(Node::to_json);
        let is_none = |field: &str| value(field).is_some_and(|number| number == 0);
        let is_suspended = value("suspend").is_some_and(|value| value == true);
        let has_none = is_none("replicas") || is_none("parallelism") || is_suspended;
        self.pod_template().filter(|_| !has_none)
    }

    /// The value of an annotation, and its line.
    pub fn annotation(&self, key: &str) -> Option<(&str, u32)> {
        let entry = self.node.at(&["metadata", "annotations"])?.entry(key)?;
        Some((entry.value.as_str()?, entry.line))
    }
}
