//! The form of a rule pack for editors: a JSON schema, draft 7, from the types below. `load` reads packs and checks
//! more: allowed combinations, and the content of expressions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use windrow_model::reasons::Severity;

use super::Platform;

/// A rule pack: what kinds need before they can work, who brings them, and when they are ready.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct RulePackFile {
    /// The version of the form.
    pub api_version: PackVersion,
    /// What the file is.
    pub kind: PackKind,
    /// The pack's name.
    pub metadata: PackMetadata,
    /// The platform on which it holds; everywhere without one.
    pub platform: Option<Platform>,
    /// Who brings what.
    pub provides: Option<Vec<ProvisionItem>>,
    /// What documents need.
    pub rules: Option<Vec<RuleItem>>,
    /// When objects of a kind are ready.
    pub readiness: Option<Vec<ReadinessItem>>,
    /// Fields that name other objects.
    pub references: Option<Vec<ReferenceItem>>,
    /// What is found in the cluster.
    pub findings: Option<Vec<FindingItem>>,
}

/// The version of the form.
#[derive(JsonSchema)]
pub enum PackVersion {
    /// V1.
    #[schemars(rename = "windrow.dev/v1")]
    V1,
}

/// What the file is.
#[derive(JsonSchema)]
pub enum PackKind {
    /// Rule-pack.
    RulePack,
}

/// The pack's name.
#[derive(JsonSchema)]
pub struct PackMetadata {
    /// Name.
    pub name: String,
}

/// A kind of a group.
#[derive(JsonSchema)]
pub struct KindItem {
    /// The API group; empty for the core group.
    pub group: Option<String>,
    /// The kind.
    pub kind: String,
}

/// An object.
#[derive(JsonSchema)]
pub struct ObjectItem {
    /// The API group; empty for the core group.
    pub group: Option<String>,
    /// The kind.
    pub kind: String,
    /// The namespace; none for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

/// Who brings what.
#[derive(JsonSchema)]
pub struct ProvisionItem {
    /// Who, in words.
    pub by: String,
    /// Kinds.
    pub kinds: Option<Vec<KindItem>>,
    /// All kinds of these groups.
    pub groups: Option<Vec<String>>,
    /// Objects.
    pub objects: Option<Vec<ObjectItem>>,
}

/// What documents need.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct RuleItem {
    /// Its name; a later pack's rule of this name takes its place.
    pub name: String,
    /// false takes an earlier rule of this name away.
    pub enabled: Option<bool>,
    /// Which documents it is for.
    #[schemars(rename = "match")]
    pub matches: Option<MatchItem>,
    /// Why, in a line.
    pub reason: Option<String>,
    /// Holds (required), or only orders (advisory).
    pub tier: Option<TierWord>,
    /// How long it holds, like 90s or 15m.
    pub deadline: Option<String>,
    /// What happens then.
    pub on_deadline: Option<OnDeadlineWord>,
    /// What has to be there.
    pub requires: Option<Vec<RequirementItem>>,
}

/// Which documents a rule is for.
#[derive(JsonSchema)]
pub struct MatchItem {
    /// The API group.
    pub group: Option<String>,
    /// The kind.
    pub kind: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name.
    pub name: Option<String>,
    /// Labels that it has.
    pub labels: Option<BTreeMap<String, String>>,
    /// A CEL condition on `object`.
    pub when: Option<String>,
}

/// Holds, or only orders.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum TierWord {
    /// Required.
    Required,
    /// Advisory.
    Advisory,
}

/// What happens at the deadline.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum OnDeadlineWord {
    /// Keep.
    Keep,
    /// Release.
    Release,
}

/// One of `object` and `kind`, and in which state.
#[derive(JsonSchema)]
pub struct RequirementItem {
    /// An object.
    pub object: Option<ObjectItem>,
    /// A kind, which has to be served.
    pub kind: Option<KindItem>,
    /// The state.
    pub condition: Option<ConditionWord>,
    /// A CEL expression on `object`, in place of a state.
    pub expression: Option<String>,
    /// Why, where it is not the rule's reason.
    pub reason: Option<String>,
}

/// The state in which something is needed.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum ConditionWord {
    /// Exists.
    Exists,
    /// Ready.
    Ready,
    /// Served.
    Served,
}

/// When objects of a kind are ready: CEL expressions on `object`.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ReadinessItem {
    /// The kind.
    pub kind: KindItem,
    /// It is on its way.
    pub in_progress: Option<String>,
    /// It has failed.
    pub failed: Option<String>,
    /// It is ready.
    pub ready: String,
}

/// Fields that name other objects.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ReferenceItem {
    /// Its name.
    pub name: String,
    /// false takes an earlier reference of this name away.
    pub enabled: Option<bool>,
    /// The kinds that have the fields.
    pub from: Option<Vec<KindItem>>,
    /// What the paths begin with.
    pub under: Option<Vec<String>>,
    /// The fields.
    pub paths: Option<Vec<String>>,
    /// The kind that is named.
    pub to: Option<KindItem>,
    /// In which namespace: same, cluster, slash, or `{beside: KEY}`.
    pub namespace: Option<Value>,
    /// In which state it is needed.
    pub condition: Option<ConditionWord>,
    /// Keys beside the name, and the values with which it counts.
    pub only: Option<BTreeMap<String, Value>>,
    /// Keys beside the name, and the values with which it does not count.
    pub unless: Option<BTreeMap<String, Value>>,
    /// Names that do not count.
    pub except: Option<Vec<String>>,
    /// What follows the name in the field.
    pub suffix: Option<String>,
    /// Does it count only where the object is declared?
    pub if_declared: Option<bool>,
}

/// What is found in the cluster.
#[derive(JsonSchema)]
pub struct FindingItem {
    /// Its name.
    pub name: String,
    /// false takes an earlier finding of this name away.
    pub enabled: Option<bool>,
    /// The kind whose objects are looked at.
    pub kind: Option<KindItem>,
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// Only the object of this name.
    pub object: Option<String>,
    /// The CEL condition on `object` by which it is recognised.
    pub when: Option<String>,
    /// How much it matters.
    pub severity: Option<Severity>,
    /// What is said, with expressions in braces.
    pub message: Option<String>,
    /// What was seen, by name.
    pub evidence: Option<BTreeMap<String, String>>,
    /// What to do.
    pub advice: Option<String>,
    /// The address of a page.
    pub documentation: Option<String>,
}

pub fn rule_pack_schema() -> String {
    let generator = SchemaSettings::draft07().into_generator();
    let schema = generator.into_root_schema_for::<RulePackFile>();
    // A schema consists of maps and strings, and always serialises.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}
