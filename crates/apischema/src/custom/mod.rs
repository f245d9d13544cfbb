//! Validates custom objects against the CustomResourceDefinition in the same input: the served versions, its structural schema
//! and its CEL rules.
//!
//! The crate `jsonschema` is not suitable, because a structural schema is not JSON Schema: fields are nullable or int-or-string,
//! unknown fields are pruned, and defaults are set before the validation. Errors must also name lines, and unknown facts must not
//! lead to errors.
//!
//! An object passes the same steps as in kube-apiserver (k8s.io/apiextensions-apiserver v0.36.3, pkg/apiserver and
//! pkg/registry/customresource):
//!
//! 1. `prepare`: drops unknown fields and nulls, and sets defaults;
//! 2. `validate`: the schema;
//! 3. `unique`: lists that are sets or maps;
//! 4. `rules`: CEL, if the previous steps found no error.

mod formats;
mod platform;
mod prepare;
mod rules;
mod schema;
#[cfg(test)]
mod tests;
mod unique;
mod validate;

use std::sync::LazyLock;

use windrow_model::manifest::{self, FileContent, GroupKind, Node, Object, ReadLimits};
use windrow_plan::kubernetes::Minors;

use crate::path::Path;
use crate::problem::{self, Problem, ProblemKind};

pub(crate) use prepare::prune_default;
pub(crate) use schema::{is_true, items_of};
pub(crate) use validate::Validator;

static KNOWN: LazyLock<Vec<CustomKind>> = LazyLock::new(|| {
    let text = include_str!("../../data/custom.yaml");
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("custom.yaml", &content, &ReadLimits::default());
    file.objects().filter_map(CustomKind::read).collect()
});

/// Evaluates a CEL rule on its value, which the rule calls `self`. `None` if the evaluation is impossible.
pub type JudgeRule<'a> = dyn FnMut(&str, &serde_json::Value) -> Option<bool> + 'a;

/// A kind that a CustomResourceDefinition defines.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomKind {
    kind: GroupKind,
    versions: Vec<CustomVersion>,
    preserves_unknown: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct CustomVersion {
    name: String,
    served: bool,
    schema: Option<Node>,
    /// Only a controller sets `status`, so it is dropped from a new object.
    drops_status: bool,
}

impl CustomKind {
    /// The kind of a CustomResourceDefinition. `None` for any other object, and for an unreadable definition.
    pub fn read(object: &Object) -> Option<Self> {
        let is_definition = object.id.group == "apiextensions.k8s.io"
            && object.id.kind == "CustomResourceDefinition"
            && object.version == "v1";
        let spec = object.node.get("spec").filter(|_| is_definition)?;
        let versions = spec.get("versions")?.items().iter().map(|version| {
            let status = version.at(&["subresources", "status"]);
            Some(CustomVersion {
                name: version.str_at(&["name"])?.to_owned(),
                served: version.get("served")?.as_bool()?,
                schema: version.at(&["schema", "openAPIV3Schema"]).cloned(),
                drops_status: status.is_some_and(|status| !status.is_null()),
            })
        });
        Some(Self {
            kind: GroupKind::new(spec.str_at(&["group"])?, spec.str_at(&["names", "kind"])?),
            versions: versions.collect::<Option<_>>()?,
            preserves_unknown: is_true(spec, "preserveUnknownFields"),
        })
    }

    /// A kind that RKE2 or KubeVirt define (`data/custom.yaml`).
    pub fn known(kind: &GroupKind) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.kind == *kind)
    }

    pub fn kind(&self) -> &GroupKind {
        &self.kind
    }

    /// The errors for which kube-apiserver would reject an object of this kind, and the fields that it would drop.
    pub fn check(
        &self,
        object: &Object,
        minors: Minors,
        judge: &mut JudgeRule<'_>,
    ) -> Vec<Problem> {
        let named = self.versions.iter().find(|one| one.name == object.version);
        let Some(version) = named.filter(|version| version.served) else {
            return vec![self.not_served(object)];
        };
        let Some(schema) = &version.schema else {
            return Vec::new();
        };
        let (prepared, mut problems) = prepare::prepare(schema, &object.node, version.drops_status);
        if self.preserves_unknown {
            problems.clear();
        }
        let mut validator = Validator::new(minors);
        validator.validate(schema, &prepared, &Path::ROOT);
        let found = &mut validator.problems;
        unique::check(schema, &prepared, &Path::ROOT, found);
        if found.is_empty() {
            rules::check(schema, &prepared, &Path::ROOT, true, judge, found);
        }
        problems.append(found);
        problem::complete(object, &mut problems);
        // For custom objects, a wrong type is a validation error.
        for problem in &mut problems {
            if problem.kind == ProblemKind::WrongType
                && let Some(words) = &mut problem.refusal
            {
                *words = problem::invalid(object, words);
            }
        }
        problems
    }

    fn not_served(&self, object: &Object) -> Problem {
        let (group, kind) = (&self.kind.group, &self.kind.kind);
        let served: Vec<&str> = self
            .versions
            .iter()
            .filter(|version| version.served)
            .map(|version| version.name.as_str())
            .collect();
        let version = &object.version;
        let entry = object.node.entry("apiVersion");
        Problem {
            kind: ProblemKind::UnknownKind,
            line: entry.map_or(object.line, |entry| entry.line),
            field: String::new(),
            message: format!(
                "the definition of {kind} does not serve {group}/{version}; it serves {}",
                match served.is_empty() {
                    true => "no version".to_owned(),
                    false => served.join(" and "),
                }
            ),
            refusal: Some(format!(
                "no matches for kind \"{kind}\" in version \"{group}/{version}\""
            )),
        }
    }
}
