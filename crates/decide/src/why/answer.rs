//! What is answered, as `-o json` prints it.

use jiff::Timestamp;
use serde::Serialize;
use windrow_model::findings::Finding;
use windrow_model::manifest::ManifestPath;

use crate::{Blocker, Holder, Phase, PhaseState, ProbeStatus};

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyAnswer {
    /// `windrow.dev/v1`
    pub api_version: &'static str,
    /// `Why`
    pub kind: &'static str,
    /// How many files were asked about; several when an object is needed by several.
    pub asked: usize,
    /// Those files, and then every file behind them that is not applied, each once.
    pub files: Vec<ExplainedFile>,
    /// The probe asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<ExplainedProbe>,
    /// The step of the bootstrap asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<ExplainedStep>,
    /// What the word asked about means: a reason code, a readiness, the state of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<ExplainedWord>,
    /// What was found of the code, the object or the file asked about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// What is not in this answer because it would be too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<&'static str>,
}

/// A step of the bootstrap, and the checks that it waits for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedStep {
    /// Which.
    pub name: Phase,
    /// Where it stands; absent where this node has no such step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PhaseState>,
    /// Its checks that do not pass.
    pub probes: Vec<ProbeStatus>,
}

/// A word that an outlet shows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedWord {
    /// The word.
    pub word: String,
    /// What it says.
    pub means: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
    /// Where this node shows it now, a line each; absent where no document of a node says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Vec<String>>,
}

/// One probe, and what to do about it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedProbe {
    /// The probe, as it counts now.
    #[serde(flatten)]
    pub probe: ProbeStatus,
    /// What to do about its reason; absent when it passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
}

/// One file and why it is as it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedFile {
    /// Path below the manifests directory.
    pub file: ManifestPath,
    /// `held`, `not held`, `released`, `applied` or `failed`.
    pub state: &'static str,
    /// Since when.
    pub since: Timestamp,
    /// Why, in a line.
    pub why: String,
    /// Who holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Holder>,
    /// Is it past its deadline and kept on purpose?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    /// Has RKE2 applied it, and is it kept from RKE2 since then?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub applied_once: bool,
    /// Would releasing it do harm?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub harmful: bool,
    /// When it will be released even if nothing changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// What it is still waiting for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<ExplainedBlocker>,
    /// The path under which it would not have been held, in the image of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_spares_hold: Option<ManifestPath>,
    /// Why no other name would have spared the hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_name_spares_hold: Option<String>,
    /// How to release it by hand; absent when there is nothing to release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
}

/// One blocker.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedBlocker {
    /// The need. The file that brings it is in the answer too, unless this is a root or the answer is cut.
    #[serde(flatten)]
    pub blocker: Blocker,
    /// Is it a root? Then nothing that is staged has to come first.
    pub root: bool,
}

impl ExplainedBlocker {
    /// The file that brings it, when that is held, released or failed itself.
    pub fn waits_for_file(&self) -> Option<&ManifestPath> {
        self.blocker.brought_by.as_ref().filter(|_| !self.root)
    }
}
