//! Rule packs: requirements of documents, providers, and the readiness of kinds, as data.
//!
//! A rule pack is a YAML file in a `rules.d` directory (`config/rules.d` here, `/usr/lib/windrow`, `/run/windrow`,
//! `/etc/windrow`, `/etc/rancher/windrow` on a node). Conditions are CEL. A bad rule is an error with file and line
//! when it is loaded, never a panic and never a silent no-op. Pure: texts come in, rules go out.

mod duration;
mod expression;
pub(crate) mod fields;
pub(crate) mod load;
mod matching;
mod path;
mod requirement;
pub mod schema;
mod template;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use duration::parse_duration;
pub use expression::{EvaluationBudget, EvaluationError};
pub use fields::RuleError;
pub(crate) use load::parts;
pub use matching::{MatchProblem, MatchedReference, MatchedRequirement, Matches};
pub use path::{FieldMatch, FieldPath};
pub use requirement::{Expression, NeedCondition, NeedTarget, OnDeadline, Platform, Tier};
pub use template::MessageTemplate;

use windrow_model::findings::Location;
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_model::reasons::Severity;

use crate::knowledge::Knowledge;

#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    /// Rules that add requirements to documents.
    pub rules: Vec<Rule>,
    /// Readiness of kinds, which counts before the built-in table.
    pub readiness: Vec<ReadinessRule>,
    /// The kinds and objects that the platform provides automatically.
    pub provides: Vec<Provision>,
    /// Fields that refer to other objects; each becomes an advisory requirement.
    pub references: Vec<Reference>,
    /// The problems that a site looks for in its clusters.
    pub findings: Vec<FindingRule>,
    /// The knowledge about other systems.
    pub knowledge: Arc<Knowledge>,
}

#[derive(Debug, Clone)]
pub struct Rule {
    /// `pack/rule`, as printed in every reason.
    pub name: String,
    pub at: Location,
    /// Only on this platform; on every platform when absent.
    pub platform: Option<Platform>,
    pub matches: Match,
    pub requires: Vec<RuleRequirement>,
    /// Why, for the user.
    pub reason: String,
}

/// The documents of a rule: all present conditions must match.
#[derive(Debug, Clone, Default)]
pub struct Match {
    pub group: Option<String>,
    pub kind: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// A CEL condition on `object`, the manifest's own object.
    pub when: Option<Expression>,
}

#[derive(Debug, Clone)]
pub struct RuleRequirement {
    pub target: NeedTarget,
    pub condition: NeedCondition,
    pub tier: Tier,
    /// One line for the user: the target of the wait. From the requirement, or the rule's reason.
    pub reason: String,
    /// The time until the rule acts as in `on_deadline`; absent: the configured default.
    pub deadline: Option<Duration>,
    pub on_deadline: OnDeadline,
    pub at: Location,
}

/// The readiness of a kind: the first expression that is true decides, in this order.
#[derive(Debug, Clone)]
pub struct ReadinessRule {
    pub kind: GroupKind,
    /// True while the object is in progress.
    pub in_progress: Option<Expression>,
    /// True when the object failed.
    pub failed: Option<Expression>,
    /// True when the object is ready.
    pub ready: Option<Expression>,
    pub at: Location,
}

/// Kinds and objects that a platform provides automatically, sooner or later.
#[derive(Debug, Clone)]
pub struct Provision {
    /// Only on this platform; on every platform when absent.
    pub platform: Option<Platform>,
    /// The provider, in words (`RKE2's rke2-multus chart`).
    pub by: String,
    pub kinds: Vec<GroupKind>,
    /// Groups of which all kinds are provided.
    pub groups: Vec<String>,
    pub objects: Vec<ObjectRef>,
    pub at: Location,
}

/// Fields of some kinds that refer to an object of another kind.
#[derive(Debug, Clone)]
pub struct Reference {
    /// Name of the rule, as printed in every reason (`references/workload-configmap`).
    pub name: String,
    /// The kinds that have the field.
    pub from: Vec<GroupKind>,
    /// The paths of the names.
    pub paths: Vec<FieldPath>,
    /// Only names next to which all of these keys match.
    pub only: Vec<Beside>,
    /// Not the names next to which one of these keys matches (`optional: true`).
    pub unless: Vec<Beside>,
    /// Names that always exist and need not be waited for; `*` at the end matches any text.
    pub except: Vec<String>,
    /// The text after the name in the field; a text without this ending is not a reference.
    pub suffix: String,
    /// The kind of the referenced objects.
    pub to: GroupKind,
    /// The namespace in which the names are looked up.
    pub namespace: ReferenceNamespace,
    /// The required state of the object.
    pub condition: NeedCondition,
    /// It counts only when a manifest declares the object: otherwise the object is created later, or is optional.
    pub if_declared: bool,
    pub at: Location,
}

/// A site's own finding: the objects with a problem, the problem, and its message.
#[derive(Debug, Clone)]
pub struct FindingRule {
    /// `pack/rule`, as printed with every finding.
    pub name: String,
    pub at: Location,
    /// Only on this platform; on every platform when absent.
    pub platform: Option<Platform>,
    /// The kind of the checked objects.
    pub kind: GroupKind,
    pub namespace: Option<String>,
    pub object: Option<String>,
    /// True of an object with the problem.
    pub when: Expression,
    pub severity: Severity,
    pub message: MessageTemplate,
    /// The evidence: the field's name for the user, and its value.
    pub evidence: Vec<(String, MessageTemplate)>,
    pub advice: String,
    /// The address of the page that explains it.
    pub documentation: Option<String>,
}

/// A key next to a name, in the same map, and the values that match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    pub key: String,
    /// The values, as text; `None` stands for an absent key.
    pub values: Vec<Option<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferenceNamespace {
    /// The one of the object with the field.
    Same,
    /// None: the kind is cluster-scoped.
    Cluster,
    /// In this key of the same map as the name; the object's own when the key is absent.
    Beside(String),
    /// The name is `namespace/name`, or a bare name in the object's own namespace.
    Slash,
}
