//! What kube-apiserver of a minor accepts, judged from the file alone: kinds that are served, fields and their types, and the
//! validation that files fail most often.
//!
//! - [`check`]: one object of a built-in kind.
//! - [`CustomKind`]: one object of a kind that a CustomResourceDefinition of the same input brings. Rules in CEL are judged by who asks.
//! - [`PodSecurityLevel`]: what a namespace that enforces one refuses of its pods.
//! - [`FixedFields`]: what two declarations of one object may not differ in.
//! - [`built_in_kinds`], [`is_default_cluster_role`], [`served_kinds`]: facts that other checks need; [`quantity()`] reads an amount.
//!
//! May know: the crate `model`. The facts are data (`data/kubernetes.txt`, written by `data/derive`; `data/enforced.txt` and
//! `data/values.txt`), held to a running kube-apiserver by `tests/kubernetes/api_schema.rs`.
//!
//! Invariants: where in doubt, nothing is said. What is called wrong is refused by every minor that is asked about. The data is read
//! at the first question: the fields of objects at the first check, which a daemon never makes.
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

/// What kube-apiserver would refuse of an object of a built-in kind, and what it would drop. Nothing of other kinds.
pub fn check(object: &Object, minors: Minors) -> Vec<Problem> {
    let (definition, minors) = match kinds::find(object, minors) {
        Found::Served { definition, minors } => (definition, minors),
        Found::Problem(problem) => return vec![*problem],
        Found::Foreign => return Vec::new(),
    };
    let mut problems = walk::walk(object, definition, minors);
    // Nothing is validated that cannot be decoded.
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

/// What an object lacks of what the published specification asks for, whether or not kube-apiserver enforces it, and the field: what
/// `data/enforced.txt` is made from.
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
