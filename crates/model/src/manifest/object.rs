//! What a document declares: objects, and the names by which objects are meant.

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

/// Only the kind is hashed: hardly any two groups have a kind of the same name.
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

    /// The namespace into which a namespaced object goes.
    pub fn namespace_or_default(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    /// Its group and kind.
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

/// What an object says of the pods that it makes.
#[derive(Debug, Clone, Copy)]
pub struct PodTemplate<'o> {
    /// Their metadata: labels and annotations.
    pub metadata: Option<&'o Node>,
    /// Their specification.
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

    /// Their labels.
    pub fn labels(&self) -> Option<&'o Node> {
        self.metadata?.get("labels")
    }
}

/// One object that a document declares.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Group, kind, namespace and name. The namespace is as written in the manifest (absent when
    /// absent); whether the kind is namespaced is for the plan to know.
    pub id: ObjectRef,
    /// API version without the group (`v1`, `v1beta1`).
    pub version: String,
    /// Line of the object in its file, counted from 1.
    pub line: u32,
    /// The whole object.
    pub node: Node,
}

impl Object {
    /// Does the API server choose the name? `id.name` is then only what the name begins with
    /// (`metadata.generateName`).
    pub fn is_name_generated(&self) -> bool {
        self.node.str_at(&["metadata", "name"]).is_none()
    }

    /// Its pods, where it is of one of Kubernetes' own kinds that make some.
    pub fn pod_template(&self) -> Option<PodTemplate<'_>> {
        let path = pod_template_path(&self.id.group, &self.id.kind)?;
        PodTemplate::from_node(self.node.at(path)?)
    }

    /// The same, where some are made without a change of the object: not of what is suspended or has no replicas.
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
