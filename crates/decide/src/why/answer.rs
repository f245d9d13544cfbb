//! The answer of `windrow why`, as `-o json` prints it.

use jiff::Timestamp;
use serde::Serialize;
use windrow_model::findings::Finding;
use windrow_model::manifest::ManifestPath;

use crate::{Blocker, Holder, Phase, PhaseState, ProbeStatus};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyAnswer {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// How many files match the question; several if several files need an object.
    pub asked: usize,
    /// Those files, and then every file behind them that is not applied, each once.
    pub files: Vec<ExplainedFile>,
    /// The probe in the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<ExplainedProbe>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<ExplainedStep>,
    /// The meaning of the word in the question: a reason code, a readiness, the state of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<ExplainedWord>,
    /// The findings with the code, the object or the file in the question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// A note on the omitted parts of an answer that would be too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<&'static str>,
}

/// A step of the bootstrap, and the checks that it waits for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedStep {
    pub name: Phase,
    /// Absent if this node has no such step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PhaseState>,
    /// Its checks that do not pass.
    pub probes: Vec<ProbeStatus>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedWord {
    pub word: String,
    pub means: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
    /// The places where this node shows it now, one line each; absent without the document of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedProbe {
    #[serde(flatten)]
    pub probe: ProbeStatus,
    /// The action for its reason; absent when it passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedFile {
    /// Path below the manifests directory.
    pub file: ManifestPath,
    /// `held`, `not held`, `released`, `applied` or `failed`.
    pub state: &'static str,
    pub since: Timestamp,
    /// In one line.
    pub why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Holder>,
    /// Is it past its deadline and kept on purpose?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    /// Has RKE2 applied it, and is it held since then?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub applied_once: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub harmful: bool,
    /// When it is released even if nothing changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<ExplainedBlocker>,
    /// The path at which the file would not have been held, in the image of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_spares_hold: Option<ManifestPath>,
    /// Why no other name would have avoided the hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_name_spares_hold: Option<String>,
    /// The command that releases it; absent if there is nothing to release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedBlocker {
    /// The need. The file that provides it is also in the answer, unless this is a root or the answer is cut.
    #[serde(flatten)]
    pub blocker: Blocker,
    /// Is it a root? Then no staged file has to come first.
    pub root: bool,
}

impl ExplainedBlocker {
    /// The file that provides it, if that file is held, released or failed.
    pub fn waits_for_file(&self) -> Option<&ManifestPath> {
        self.blocker.brought_by.as_ref().filter(|_| !self.root)
    }
}
