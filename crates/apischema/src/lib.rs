//! Predicts from a file alone whether kube-apiserver of a minor accepts it: the served kinds, the fields and their types, and the
//! most frequent validation errors.
//!
//! - [`check`]: one object of a built-in kind.
//! - [`CustomKind`]: one object of a kind that a CustomResourceDefinition in the same input defines, or a release of Harvester
//!   (`data/platform.txt`), with rules that all versions share (`data/custom.yaml`). The caller evaluates rules in CEL.
//! - [`PodSecurityLevel`]: the pods that a namespace with this level rejects.
//! - [`FixedFields`]: the fields in which two declarations of one object must agree.
//! - [`ApiCheck`]: all objects of a node's files together, for checks ahead of a boot; [`ValueRules`] evaluates their rules in CEL.
//! - [`setting_fault`]: why Harvester refuses the value of a setting, in a Setting or in an installer's configuration.
//! - [`quantity()`] parses a quantity.
//!
//! May know: the crates `model` and `plan`. The facts are data (`data/kubernetes.txt`, written by `data/derive`; `data/platform.txt`, by
//! `data/derive-platform`; `data/enforced.txt`, `data/values.txt`, `data/custom.yaml`). `tests/kubernetes/api_schema.rs` compares them with a running kube-apiserver.
//!
//! Invariants: in doubt, there is no message. An error is reported only if every requested minor rejects the object. The data are
//! parsed on first use. The daemon does not depend on this crate.
#![forbid(unsafe_code)]

mod api;
mod catalogue;
mod cross_check;
mod custom;
mod enforced;
mod formats;
mod harvester_kinds;
mod harvester_network;
mod harvester_setting;
mod immutable;
mod kinds;
mod parts;
mod path;
mod pod_security;
mod problem;
mod refused_again;
mod release;
mod rules;
mod shape;
#[cfg(test)]
mod tests;
mod value_rules;
mod values;
mod virtual_machine;
mod walk;

pub use api::{ApiCheck, ApiVerdict};
pub use custom::{CustomKind, JudgeRule};
pub use harvester_setting::{
    StorageNetwork, proxy_exceptions, setting_fault, storage_network, why_unjudged,
};
pub use immutable::{FixedDifference, FixedFields};
pub use parts::quantity;
pub use pod_security::PodSecurityLevel;
pub use problem::{Problem, ProblemKind};
pub use release::MinorRelease;
pub use value_rules::ValueRules;

use kinds::Found;
use windrow_model::manifest::Object;
use windrow_plan::kubernetes::Minors;

/// The errors for which kube-apiserver would reject an object of a built-in kind, and the fields that it would drop. Empty for
/// other kinds.
pub fn check(object: &Object, minors: Minors) -> Vec<Problem> {
    let (definition, minors) = match kinds::find(object, minors) {
        Found::Served { definition, minors } => (definition, minors),
        Found::Problem(problem) => return vec![*problem],
        Found::Foreign => return Vec::new(),
    };
    let mut problems = walk::walk(object, definition, minors);
    // An object that cannot be decoded is not validated.
    let decoded = !problems
        .iter()
        .any(|problem| problem.kind == ProblemKind::WrongType);
    if decoded {
        rules::check(object, minors, &mut problems);
    }
    problems.retain(|problem| {
        problem.kind != ProblemKind::Invalid || rules::validates(object, &problem.field, minors)
    });
    problem::complete(object, &mut problems);
    problems
}

/// The violations of the published specification in an object, with their fields, regardless of whether kube-apiserver enforces
/// them. They are the source of `data/enforced.txt`.
pub fn claims(object: &Object, minors: Minors) -> Vec<(String, String)> {
    match kinds::find(object, minors) {
        Found::Served { definition, minors } => {
            let mut claims = walk::claims(object, definition, minors);
            claims.retain(|(_, field)| rules::validates(object, field, minors));
            claims
        }
        Found::Problem(_) | Found::Foreign => Vec::new(),
    }
}
