//! The plan as a JSON document: `apiVersion: windrow.dev/v1`, `kind: Plan`.
//!
//! The names of its fields never change; `docs/plan.schema.json` is generated from these types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Finding;
use windrow_model::manifest::{AddonName, ManifestPath, MarkerPath, ObjectRef};
use windrow_plan::knowledge::{LearnedReport, LearnedShare};
use windrow_plan::rules::Tier;
use windrow_plan::{FileId, HoldAdvice, Origin, Plan, Requirement, SatisfiedBy};
use windrow_simulate::rehearse::check::CheckVerdict;

use super::graph::BoxKind;

/// What `windrow plan -o json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Plan`
    pub kind: String,
    /// The version of Windrow that planned.
    #[serde(default)]
    pub windrow: String,
    /// The verdict from its findings and dependencies; `windrow check` also simulates the boot.
    pub verdict: CheckVerdict,
    /// The files, in the order in which RKE2 would read them.
    pub files: Vec<FileReport>,
    /// Names with which RKE2 would need fewer passes, for an image that has not booted yet; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<NameReport>,
    /// Paths in an order of release that works, as far as there is one.
    pub order: Vec<ManifestPath>,
    /// The share of required dependencies that Windrow knows from earlier boots; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<LearnedShare>,
    /// All findings.
    #[serde(serialize_with = "windrow_model::findings::serialize_advised")]
    #[schemars(with = "Vec<windrow_model::findings::AdvisedFinding<'static>>")]
    pub findings: Vec<Finding>,
}

/// Names with which RKE2 would need fewer passes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NameReport {
    /// How many passes RKE2 needs for the files whose needs the directory itself meets.
    pub passes: usize,
    /// How many it would need with the new names.
    pub passes_then: usize,
    /// The saved time: 15 seconds per pass.
    pub seconds_saved: u64,
    /// The new names.
    pub renames: Vec<RenameReport>,
}

/// A file that would not be held under another name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenameReport {
    /// Its path.
    pub file: ManifestPath,
    /// The path that would spare the hold.
    pub to: ManifestPath,
}

/// One manifest file of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileReport {
    /// Path below the manifests directory.
    pub path: ManifestPath,
    /// Name of the Addon that RKE2 makes of it.
    pub addon: AddonName,
    /// Why it would be held at a fresh boot; null when it would not.
    pub held: Option<Vec<String>>,
    /// Dependencies that RKE2's first pass on a fresh node applies before it reaches this file: the file is not held for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub met_in_same_pass: Vec<String>,
    /// For a held file: the path under which it would not be held, on an image that has not booted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_spares_hold: Option<ManifestPath>,
    /// For a held file: the reason why no other name would avoid the hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_name_spares_hold: Option<String>,
    /// The marker that keeps the file from RKE2 and that Windrow did not make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<MarkerPath>,
    /// What becomes of it at a fresh boot, in the words of the table: `applied at once`, `held`, `refused`, `skipped`, …
    #[serde(default)]
    pub state: String,
    /// Its objects.
    pub documents: Vec<DocumentReport>,
}

/// One object of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentReport {
    /// Line of the object in the manifest.
    pub line: u32,
    /// The object.
    pub object: ObjectRef,
    /// What it requires.
    pub requires: Vec<RequirementReport>,
}

/// One requirement of one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequirementReport {
    /// What is needed.
    pub what: String,
    /// In which state: `served`, `exists`, `ready`, or a CEL expression on the object.
    pub condition: String,
    /// Holds or orders.
    pub tier: Tier,
    /// Who says so, and where that is written.
    pub origin: Origin,
    /// Who brings it: `file PATH:LINE`, `same file`, `platform: WHO`, `cluster`, `installer PATH:LINE`
    /// (nothing known brings it, but this may) or `nobody`.
    pub satisfied_by: String,
    /// The knowledge from earlier boots; absent if no boot had this dependency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<LearnedReport>,
}

impl PlanReport {
    pub fn from_plan(plan: &Plan) -> Self {
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "Plan".to_owned(),
            windrow: env!("CARGO_PKG_VERSION").to_owned(),
            verdict: CheckVerdict::from_plan(plan),
            files: (0..plan.files.len())
                .map(|file| file_report(plan, file))
                .collect(),
            names: name_report(plan),
            order: plan
                .order
                .iter()
                .map(|file| plan.files[*file].path.clone())
                .collect(),
            learned: Some(plan.learned_share()).filter(|share| !share.things.is_empty()),
            findings: plan.findings_ahead(),
        }
    }
}

fn file_report(plan: &Plan, id: FileId) -> FileReport {
    let file = &plan.files[id];
    let held = file.held_at_boot();
    let (spares, none_spares) = match held.as_ref().map(|_| plan.advise_on_hold(id)) {
        Some(HoldAdvice::Name(path)) => (Some(path), None),
        Some(HoldAdvice::NoName(why)) => (None, Some(why.to_owned())),
        None => (None, None),
    };
    let documents = file.documents.iter().map(|document| {
        let requires = document.requires.iter();
        DocumentReport {
            line: document.line,
            object: document.object.clone(),
            requires: requires
                .map(|requirement| requirement_report(plan, requirement))
                .collect(),
        }
    });
    FileReport {
        path: file.path.clone(),
        addon: file.addon.clone(),
        held,
        met_in_same_pass: file.met_in_first_pass().to_vec(),
        name_spares_hold: spares,
        no_name_spares_hold: none_spares,
        skipped: file.skipped.clone(),
        state: BoxKind::for_file(file).badge().to_owned(),
        documents: documents.collect(),
    }
}

fn name_report(plan: &Plan) -> Option<NameReport> {
    let advice = &plan.names;
    let renames = advice.renames.iter().map(|rename| RenameReport {
        file: plan.files[rename.file].path.clone(),
        to: rename.to.clone(),
    });
    (!advice.renames.is_empty()).then(|| NameReport {
        passes: advice.passes,
        passes_then: advice.passes_then,
        seconds_saved: advice.saves().as_secs(),
        renames: renames.collect(),
    })
}

pub(super) fn satisfied_by(plan: &Plan, requirement: &Requirement) -> String {
    match &requirement.satisfied_by {
        SatisfiedBy::SameFile { .. } => "same file".to_owned(),
        SatisfiedBy::File { file, line } => format!("file {}:{line}", plan.files[*file].path),
        SatisfiedBy::Platform { by, .. } => format!("platform: {by}"),
        SatisfiedBy::Cluster => "cluster".to_owned(),
        SatisfiedBy::Installer { file, line } => {
            format!("installer {}:{line}", plan.files[*file].path)
        }
        SatisfiedBy::Nobody => "nobody".to_owned(),
    }
}

fn requirement_report(plan: &Plan, requirement: &Requirement) -> RequirementReport {
    let need = &plan.needs[requirement.need];
    RequirementReport {
        what: need.target.to_string(),
        condition: need.condition.to_string(),
        tier: requirement.tier,
        origin: requirement.origin.clone(),
        satisfied_by: satisfied_by(plan, requirement),
        learned: requirement.learned.as_ref().map(|one| one.report()),
    }
}
