//! The possible requirements of a document: the terms that rules, plan and decisions share.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::manifest::{GroupKind, ObjectRef};

use super::expression::CompiledProgram;

/// What the node is, or will be.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Harvester.
    Harvester,
    /// RKE2 without Harvester.
    Rke2,
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Platform::Harvester => "harvester",
            Platform::Rke2 => "rke2",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NeedTarget {
    /// A kind, served by the API.
    Kind(GroupKind),
    Object(ObjectRef),
}

impl fmt::Display for NeedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NeedTarget::Kind(kind) => write!(f, "the kind {kind}"),
            NeedTarget::Object(object) => object.fmt(f),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NeedCondition {
    /// The kind is served by the API (targets that are kinds).
    Served,
    /// The object exists.
    Exists,
    /// The object's verdict is Ready.
    Ready,
    /// A CEL expression on the observed `object` is true.
    Expression(Expression),
}

impl fmt::Display for NeedCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NeedCondition::Served => f.write_str("served"),
            NeedCondition::Exists => f.write_str("exists"),
            NeedCondition::Ready => f.write_str("ready"),
            NeedCondition::Expression(expression) => f.write_str(expression.source()),
        }
    }
}

/// Does a requirement hold a file, or only order it?
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Holds.
    Required,
    /// Orders; yields on a cycle or a deadline.
    Advisory,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tier::Required => "required",
            Tier::Advisory => "advisory",
        })
    }
}

/// What happens when a requirement is not met by its deadline.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum OnDeadline {
    /// The file stays held, and that is reported as overdue: releasing would do harm.
    Keep,
    /// The file is released: RKE2 tries, as it would have without Windrow.
    Release,
}

/// A CEL expression. Two are equal when their sources are equal.
#[derive(Clone)]
pub struct Expression {
    pub(super) source: Arc<str>,
    /// Its program, after it was compiled. Copies share it.
    pub(super) program: Arc<OnceLock<CompiledProgram>>,
}

impl Expression {
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Expression {}

impl Hash for Expression {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.source.hash(state);
    }
}

impl PartialOrd for Expression {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Expression {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.source.cmp(&other.source)
    }
}
