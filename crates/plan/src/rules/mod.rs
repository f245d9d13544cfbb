//! Rule packs: what a document requires, who provides what, and when a kind is ready, as data.
//!
//! A rule pack is a YAML file in a `rules.d` directory (`config/rules.d` here, `/usr/lib/windrow`,
//! `/run/windrow`, `/etc/windrow`, `/etc/rancher/windrow` on a node). Conditions are CEL. A bad rule
//! is an error with file and line when it is loaded, never a panic and never a silent no-op.
//! Pure: texts come in, rules go out.

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

/// All rules in force.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    /// Rules that add requirements to documents.
    pub rules: Vec<Rule>,
    /// How kinds are judged ready, before the built-in table is asked.
    pub readiness: Vec<ReadinessRule>,
    /// What the platform brings by itself.
    pub provides: Vec<Provision>,
    /// Fields that name other objects; each becomes an advisory requirement.
    pub references: Vec<Reference>,
    /// What a site looks for in its clusters.
    pub findings: Vec<FindingRule>,
    /// What is known of other systems.
    pub knowledge: Arc<Knowledge>,
}

/// One rule: which documents, and what they require.
#[derive(Debug, Clone)]
pub struct Rule {
    /// `pack/rule`, as printed in every reason.
    pub name: String,
    /// Where it is written.
    pub at: Location,
    /// Only on this platform; on every platform when absent.
    pub platform: Option<Platform>,
    /// Which documents it is for.
    pub matches: Match,
    /// What they require.
    pub requires: Vec<RuleRequirement>,
    /// Why, for people.
    pub reason: String,
}

/// Which documents a rule is for: everything given must fit.
#[derive(Debug, Clone, Default)]
pub struct Match {
    /// API group (`""` is the core group).
    pub group: Option<String>,
    /// Kind.
    pub kind: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Name.
    pub name: Option<String>,
    /// Labels that the object must have.
    pub labels: BTreeMap<String, String>,
    /// A CEL condition on `object`, the manifest's own object.
    pub when: Option<Expression>,
}

/// One requirement that a rule adds.
#[derive(Debug, Clone)]
pub struct RuleRequirement {
    /// What is needed.
    pub target: NeedTarget,
    /// In which state.
    pub condition: NeedCondition,
    /// Holds or orders.
    pub tier: Tier,
    /// One line for people: what is waited for. From the requirement, or the rule's reason.
    pub reason: String,
    /// After this long the rule does what `on_deadline` says; absent: the configured default.
    pub deadline: Option<Duration>,
    /// Keep or release at the deadline.
    pub on_deadline: OnDeadline,
    /// Where it is written.
    pub at: Location,
}

/// How a kind is judged ready: the first expression that is true decides, in this order.
#[derive(Debug, Clone)]
pub struct ReadinessRule {
    /// Which kind.
    pub kind: GroupKind,
    /// True while it is on its way.
    pub in_progress: Option<Expression>,
    /// True when it failed.
    pub failed: Option<Expression>,
    /// True when it is ready.
    pub ready: Option<Expression>,
    /// Where it is written.
    pub at: Location,
}

/// Kinds and objects that a platform brings by itself, sooner or later.
#[derive(Debug, Clone)]
pub struct Provision {
    /// On which platform; on every one when absent.
    pub platform: Option<Platform>,
    /// Who brings them, in words (`RKE2's rke2-multus chart`).
    pub by: String,
    /// The kinds.
    pub kinds: Vec<GroupKind>,
    /// Groups all of whose kinds are brought.
    pub groups: Vec<String>,
    /// The objects.
    pub objects: Vec<ObjectRef>,
    /// Where it is written.
    pub at: Location,
}

/// Fields of some kinds that name an object of another kind.
#[derive(Debug, Clone)]
pub struct Reference {
    /// Name of the rule, as printed in every reason (`references/workload-configmap`).
    pub name: String,
    /// The kinds that have the field.
    pub from: Vec<GroupKind>,
    /// Where the names stand.
    pub paths: Vec<FieldPath>,
    /// Only names beside which all of these stand.
    pub only: Vec<Beside>,
    /// Not the names beside which one of these stands (`optional: true`).
    pub unless: Vec<Beside>,
    /// Names that are always there and need not be waited for; `*` at the end stands for anything.
    pub except: Vec<String>,
    /// What follows the name in the field; a text that does not end so names nothing.
    pub suffix: String,
    /// What the names mean.
    pub to: GroupKind,
    /// In which namespace they are looked up.
    pub namespace: ReferenceNamespace,
    /// In which state the object is needed.
    pub condition: NeedCondition,
    /// It counts only when a manifest declares the object: otherwise it is made later,
    /// or it need not be there at all.
    pub if_declared: bool,
    /// Where it is written.
    pub at: Location,
}

/// A finding of a site's own: which objects are wrong in which way, and what to say of them.
#[derive(Debug, Clone)]
pub struct FindingRule {
    /// `pack/rule`, as printed with every finding.
    pub name: String,
    /// Where it is written.
    pub at: Location,
    /// Only on this platform; on every platform when absent.
    pub platform: Option<Platform>,
    /// Whose objects are looked at.
    pub kind: GroupKind,
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// Only the object of this name.
    pub object: Option<String>,
    /// True of an object that is found.
    pub when: Expression,
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong.
    pub message: MessageTemplate,
    /// What was seen: the field's name for people, and what stands there.
    pub evidence: Vec<(String, MessageTemplate)>,
    /// What to do.
    pub advice: String,
    /// The page that explains it, an address.
    pub documentation: Option<String>,
}

/// A key that stands in the same map as a name, and the values that fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// The key.
    pub key: String,
    /// The values, as text; `None` stands for an absent key.
    pub values: Vec<Option<String>>,
}

/// The namespace of a referenced object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferenceNamespace {
    /// That of the object which has the field.
    Same,
    /// None: the kind is cluster-scoped.
    Cluster,
    /// Written beside the name, under this key of the same map; the object's own when absent there.
    Beside(String),
    /// The name is `namespace/name`, or a bare name in the object's own namespace.
    Slash,
}
