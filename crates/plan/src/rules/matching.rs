//! Finds the rules and references that apply to an object of a manifest, and the provider of a target.
//!
//! Rules are few and documents are many: everything is decided by comparing names, and an object is converted into a
//! CEL value only for a rule that matches it in every other way.

#[cfg(test)]
mod references_tests;
#[cfg(test)]
mod tests;

use windrow_model::manifest::{GroupKind, Node, NodeValue, Object, ObjectRef};

use super::{
    Beside, EvaluationError, FieldMatch, Match, NeedCondition, Platform, Provision, Reference,
    ReferenceNamespace, Rule, RuleRequirement, RuleSet,
};
use crate::knowledge::{NodeFacts, Provider};

/// The namespace of a namespaced object whose manifest has none (k3s `pkg/deploy`).
const DEFAULT_NAMESPACE: &str = "default";

/// The rules' results for one object.
#[derive(Debug, Clone, Default)]
pub struct Matches<'r> {
    /// The requirements of every rule that applies.
    pub requirements: Vec<MatchedRequirement<'r>>,
    /// Rules that may or may not apply: the object does not have the shape that they assume.
    pub problems: Vec<MatchProblem<'r>>,
}

#[derive(Debug, Clone, Copy)]
pub struct MatchedRequirement<'r> {
    pub rule: &'r Rule,
    pub requirement: &'r RuleRequirement,
}

#[derive(Debug, Clone)]
pub struct MatchProblem<'r> {
    pub rule: &'r Rule,
    pub message: String,
}

/// An object to which a field of another refers.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchedReference<'r> {
    /// Name of the rule (`references/workload-configmap`).
    pub rule: &'r str,
    /// Line of the field in the manifest.
    pub line: u32,
    pub target: ObjectRef,
    /// The required state.
    pub condition: &'r NeedCondition,
    /// It counts only when a manifest declares the target.
    pub if_declared: bool,
}

impl RuleSet {
    /// The requirements of `object` according to the rules. Rules for a platform apply only if `platform` is that one,
    /// so none of them applies while the platform is unknown.
    pub fn requirements_for<'r>(
        &'r self,
        object: &Object,
        platform: Option<Platform>,
    ) -> Matches<'r> {
        let mut found = Matches::default();
        for rule in &self.rules {
            let elsewhere = rule.platform.is_some() && rule.platform != platform;
            if elsewhere || !rule.matches.fits(object) {
                continue;
            }
            let applies = match &rule.matches.when {
                None => Ok(true),
                Some(when) => when.holds_for(&object.node),
            };
            match applies {
                Ok(true) => found.requirements.extend(
                    rule.requires
                        .iter()
                        .map(|requirement| MatchedRequirement { rule, requirement }),
                ),
                Ok(false) | Err(EvaluationError::Missing(_)) => {}
                Err(EvaluationError::Type(message) | EvaluationError::Limit(message)) => {
                    found.problems.push(MatchProblem { rule, message });
                }
            }
        }
        found
    }

    /// Whether there is a rule for this object that would apply only if the platform were known.
    pub fn depends_on_platform(&self, object: &Object) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.platform.is_some() && rule.matches.fits(object))
    }

    /// The objects to which fields of `object` refer, each once per rule, in the order of the rules.
    pub fn references_of<'r>(&'r self, object: &Object) -> Vec<MatchedReference<'r>> {
        let mut matched: Vec<MatchedReference<'r>> = Vec::new();
        for reference in &self.references {
            if !reference.is_from(&object.id) {
                continue;
            }
            let first = matched.len();
            for path in &reference.paths {
                for found in path.texts(&object.node) {
                    let Some(target) = reference.target(&found, &object.id) else {
                        continue;
                    };
                    if matched[first..].iter().any(|other| other.target == target) {
                        continue;
                    }
                    matched.push(MatchedReference {
                        rule: &reference.name,
                        line: found.line,
                        target,
                        condition: &reference.condition,
                        if_declared: reference.if_declared,
                    });
                }
            }
        }
        matched
    }

    /// The platform's provider of a kind: rule packs count before built-in knowledge.
    pub fn provider_of_kind(&self, kind: &GroupKind, node: &NodeFacts) -> Option<Provider> {
        let brings = |provision: &&Provision| {
            provision.groups.iter().any(|group| *group == kind.group)
                || provision.kinds.contains(kind)
        };
        let written = self.provisions(node.platform).find(brings);
        let written = written.map(|provision| Provider::certain(&provision.by));
        written.or_else(|| self.knowledge.provider_of_kind(kind, node))
    }

    /// Whether objects of a kind are namespaced; `None` for an unknown kind.
    pub(crate) fn scope_of(&self, kind: &GroupKind) -> Option<bool> {
        self.knowledge.scope_of(kind)
    }

    /// The platform's provider of an object.
    pub fn provider_of_object(&self, object: &ObjectRef, node: &NodeFacts) -> Option<Provider> {
        let mut provisions = self.provisions(node.platform);
        let written = provisions.find(|provision| provision.objects.contains(object));
        let written = written.map(|provision| Provider::certain(&provision.by));
        written.or_else(|| self.knowledge.provider_of_object(object, node))
    }

    fn provisions(&self, platform: Option<Platform>) -> impl Iterator<Item = &Provision> {
        self.provides
            .iter()
            .filter(move |provision| provision.platform.is_none() || provision.platform == platform)
    }
}

impl Match {
    /// Checks everything but `when`.
    fn fits(&self, object: &Object) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|w| w == is);
        same(&self.kind, &object.id.kind)
            && same(&self.group, &object.id.group)
            && same(&self.name, &object.id.name)
            && same(
                &self.namespace,
                object.id.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE),
            )
            && self
                .labels
                .iter()
                .all(|(key, value)| object.node.str_at(&["metadata", "labels", key]) == Some(value))
    }
}

impl Reference {
    fn is_from(&self, id: &ObjectRef) -> bool {
        self.from
            .iter()
            .any(|from| from.kind == id.kind && from.group == id.group)
    }

    /// The object that a name stands for, unless the reference ignores this name.
    fn target(&self, found: &FieldMatch<'_>, from: &ObjectRef) -> Option<ObjectRef> {
        let beside = found.beside.as_deref();
        if !self.only.iter().all(|key| key.fits(beside))
            || self.unless.iter().any(|key| key.fits(beside))
        {
            return None;
        }
        let own = || from.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let (namespace, name) = match &self.namespace {
            ReferenceNamespace::Cluster => (None, &*found.text),
            ReferenceNamespace::Same => (Some(own()), &*found.text),
            ReferenceNamespace::Beside(key) => {
                let written = beside.and_then(|node| node.str_at(&[key]));
                (Some(written.unwrap_or_else(own)), &*found.text)
            }
            ReferenceNamespace::Slash => match found.text.split_once('/') {
                Some((namespace, name)) => (Some(namespace), name),
                None => (Some(own()), &*found.text),
            },
        };
        let name = name.strip_suffix(self.suffix.as_str())?;
        let passed_over = self.except.iter().any(|except| {
            except
                .strip_suffix('*')
                .map_or(name == except, |prefix| name.starts_with(prefix))
        });
        if passed_over || name.is_empty() || namespace == Some("") {
            return None;
        }
        Some(ObjectRef {
            group: self.to.group.clone(),
            kind: self.to.kind.clone(),
            namespace: namespace.map(Into::into),
            name: name.into(),
        })
    }
}

impl Beside {
    fn fits(&self, node: Option<&Node>) -> bool {
        let value = scalar(node.and_then(|node| node.get(&self.key)));
        self.values.contains(&value)
    }
}

/// A scalar as text; `None` for anything absent, null or composite.
pub(super) fn scalar(node: Option<&Node>) -> Option<String> {
    match &node?.value {
        NodeValue::String(text) => Some(text.clone()),
        NodeValue::Bool(value) => Some(value.to_string()),
        NodeValue::Number(number) => Some(number.to_string()),
        NodeValue::Null | NodeValue::Sequence(_) | NodeValue::Mapping(_) => None,
    }
}
