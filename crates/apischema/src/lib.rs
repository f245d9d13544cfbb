//! Predicts from a file alone whether kube-apiserver of a minor accepts it: the served kinds, the fields and their types, and the
//! most frequent validation errors.
//!
//! - [`check`]: one object of a built-in kind.
//! - [`CustomKind`]: one object of a kind that a CustomResourceDefinition in the same input defines. The caller evaluates rules
//!   in CEL.
//! - [`PodSecurityLevel`]: the pods that a namespace with this level rejects.
//! - [`FixedFields`]: the fields in which two declarations of one object must agree.
//! - [`built_in_kinds`], [`is_default_cluster_role`], [`served_kinds`]: facts for other checks; [`quantity()`] parses a quantity.
//!
//! May know: the crate `model`. The facts are data (`data/kubernetes.txt`, written by `data/derive`; `data/enforced.txt` and
//! `data/values.txt`). `tests/kubernetes/api_schema.rs` compares them with a running kube-apiserver.
//!
//! Invariants: in doubt, there is no message. An error is reported only if every requested minor rejects the object. The data are
//! parsed on first use, and the fields of objects at the first check, which a daemon never makes.
#![forbid(unsafe_code)]

mod catalogue;
mod custom;
mod enforced;
mod formats;
mod immutable;
mod kinds;
mod minors;
mod parts;
mod path;
mod pod_security;
mod problem;
mod refused_again;
mod rules;
mod schedule;
mod shape;
#[cfg(test)]
mod tests;
mod values;
mod walk;

pub use custom::{CustomKind, JudgeRule};
pub use immutable::{FixedDifference, FixedFields};
pub use kinds::{
    BuiltInKind, built_in_kinds, is_built_in_group, is_default_cluster_role, lacks_its_group,
    served_kinds,
};
pub use minors::Minors;
pub use parts::quantity;
pub use pod_security::PodSecurityLevel;
pub use problem::{Problem, ProblemKind};
pub use schedule::error as schedule_problem;

use windrow_model::manifest::Object;

use kinds::Found;

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
