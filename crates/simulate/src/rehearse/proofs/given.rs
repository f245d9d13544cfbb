//! What proofs rest on.

use std::collections::BTreeSet;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{ManifestFile, Object};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::{Plan, SourceMap};

/// Everything that proofs rest on.
pub struct ProofInputs<'a> {
    /// The manifests, and where a person finds their lines.
    pub files: &'a [(&'a ManifestFile, &'a SourceMap)],
    /// Their plan.
    pub plan: &'a Plan,
    /// What RKE2's configuration disables, and where.
    pub disabled: &'a [(String, Location)],
    /// Images of an air-gapped bundle; `None` where images can be pulled.
    pub images: Option<&'a BTreeSet<String>>,
}

pub(super) fn add_finding(
    found: &mut Vec<Finding>,
    code: Code,
    severity: Severity,
    message: String,
    at: Location,
) {
    found.push(Finding {
        incident: None,
        code,
        severity,
        message,
        at: vec![at],
    });
}

/// Objects of all files.
pub(super) fn objects<'a>(
    given: &ProofInputs<'a>,
) -> impl Iterator<Item = (&'a Object, &'a SourceMap)> {
    given
        .files
        .iter()
        .flat_map(|(file, shown)| file.objects().map(move |object| (object, *shown)))
}
