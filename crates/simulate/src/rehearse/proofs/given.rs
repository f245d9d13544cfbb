//! The input of the proofs.

use std::collections::BTreeSet;

use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{ManifestFile, Object};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::{Plan, SourceMap};

pub struct ProofInputs<'a> {
    /// The manifests and the positions of their lines for the user.
    pub files: &'a [(&'a ManifestFile, &'a SourceMap)],
    pub plan: &'a Plan,
    /// The components that RKE2's configuration disables, with positions.
    pub disabled: &'a [(String, Location)],
    /// Images of an air-gapped bundle; `None` if images can be pulled.
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

pub(super) fn objects<'a>(
    given: &ProofInputs<'a>,
) -> impl Iterator<Item = (&'a Object, &'a SourceMap)> {
    given
        .files
        .iter()
        .flat_map(|(file, shown)| file.objects().map(move |object| (object, *shown)))
}
