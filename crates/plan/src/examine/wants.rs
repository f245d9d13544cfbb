//! The requirements of one object: by its annotations, by rules, by the fields that refer to others, by its kind and
//! namespace.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use windrow_model::manifest::{GroupKind, Node, Object, ObjectRef};
use windrow_model::reasons::Code;
use windrow_model::suggest;

use super::{
    Examined, LONGEST_MESSAGE, LONGEST_NAME, MOST_REQUESTS, MOST_WANTS, UnresolvedRequirement,
};
use crate::annotation::{self, DEPENDS_ON, WINDROW_DEPENDS_ON};
use crate::rules::{NeedCondition, NeedTarget, OnDeadline, Platform, RuleSet, Tier};
use crate::{Origin, builtin};

/// The rule by which an object requires its namespace.
pub(crate) const OWN_NAMESPACE: &str = "inferred/namespace";

impl Examined {
    /// Counts the requirements of an object. False when the file has too many.
    pub(super) fn count_wants(&mut self, wants: &[UnresolvedRequirement]) -> bool {
        self.requests += wants.len();
        for want in wants {
            let mut hasher = DefaultHasher::new();
            want.target.to_string().hash(&mut hasher);
            self.wanted.insert(hasher.finish());
            if self.wanted.len() > MOST_WANTS {
                return false;
            }
        }
        self.requests <= MOST_REQUESTS
    }

    /// Reads the requests of its annotations: an order, a hold, to be applied once.
    pub(super) fn read_annotations(
        &mut self,
        object: &Object,
        id: &ObjectRef,
        wants: &mut Vec<UnresolvedRequirement>,
    ) {
        self.read_depends_on(object, id, wants);
        self.read_hold(object);
        self.read_apply(object);
        self.read_unknown(object);
    }

    /// A misspelt annotation would be ignored, and its request with it.
    fn read_unknown(&mut self, object: &Object) {
        let annotations = object.node.at(&["metadata", "annotations"]);
        for entry in annotations.map_or(&[][..], Node::entries) {
            let key = entry.key.as_str();
            if !key.starts_with(annotation::OWN) || annotation::KNOWN.contains(&key) {
                continue;
            }
            let known = annotation::KNOWN.into_iter();
            let why = match suggest::nearest(key, known) {
                Some(near) => {
                    format!("there is no annotation of this name; did you mean `{near}`?")
                }
                None => "there is no annotation of this name".to_owned(),
            };
            let shown: String = key.chars().take(LONGEST_MESSAGE).collect();
            let message = Code::AnnotationInvalid.say(&[("annotation", &shown), ("why", &why)]);
            self.find(Code::AnnotationInvalid, Some(entry.line), message);
        }
    }

    fn read_depends_on(
        &mut self,
        object: &Object,
        id: &ObjectRef,
        wants: &mut Vec<UnresolvedRequirement>,
    ) {
        for (key, with_suffixes) in [(DEPENDS_ON, false), (WINDROW_DEPENDS_ON, true)] {
            let Some((value, line)) = object.annotation(key) else {
                continue;
            };
            let (dependencies, errors) = annotation::depends_on(value, with_suffixes);
            for error in errors {
                let message = Code::DependsOnInvalid.say(&[("annotation", key), ("why", &error)]);
                self.find(Code::DependsOnInvalid, Some(line), message);
            }
            for dependency in dependencies {
                if &dependency.object == id {
                    let message = Code::DependsOnInvalid
                        .say(&[("annotation", key), ("why", "the object names itself")]);
                    self.find(Code::DependsOnInvalid, Some(line), message);
                    continue;
                }
                wants.push(UnresolvedRequirement {
                    reason: format!("{id} names {} in its annotation", dependency.object).into(),
                    target: NeedTarget::Object(dependency.object),
                    condition: dependency.condition,
                    tier: dependency.tier,
                    origin: Origin {
                        rule: format!("annotation/{key}"),
                        at: self.shown.at(Some(line)),
                    },
                    deadline: None,
                    on_deadline: OnDeadline::Keep,
                    inferred: false,
                    if_declared: false,
                });
            }
        }
    }

    fn read_hold(&mut self, object: &Object) {
        if let Some(entry) = object
            .node
            .at(&["metadata", "annotations"])
            .and_then(|annotations| annotations.entry(annotation::HOLD))
        {
            // `windrow.dev/hold: yes` is a boolean, which Kubernetes would drop, but the intention is clear.
            let reason = match entry.value.as_str().map(str::trim) {
                None | Some("") => "no reason given",
                Some(reason) => reason,
            };
            let reason: String = reason.chars().take(LONGEST_MESSAGE).collect();
            let at = self.shown.at(Some(entry.line));
            self.hold.get_or_insert((reason, at));
        }
    }

    fn read_apply(&mut self, object: &Object) {
        match object.annotation(annotation::APPLY) {
            Some(("once", _)) => self.apply_once = true,
            Some((other, line)) => {
                let why = format!("it is {other:?}; only `once` is valid");
                let message = Code::AnnotationInvalid
                    .say(&[("annotation", annotation::APPLY), ("why", &why)]);
                self.find(Code::AnnotationInvalid, Some(line), message);
            }
            None => {}
        }
    }

    /// Adds the requirements of rules.
    pub(super) fn add_by_rules(
        &mut self,
        object: &Object,
        rules: &RuleSet,
        platform: Option<Platform>,
        wants: &mut Vec<UnresolvedRequirement>,
    ) {
        let matched = rules.requirements_for(object, platform);
        for problem in matched.problems {
            let why = format!("{}: {}", problem.rule.name, problem.message);
            let message = Code::RuleFailed.say(&[("why", &why)]);
            self.find(Code::RuleFailed, Some(object.line), message);
        }
        self.platform_matters |= platform.is_none() && rules.depends_on_platform(object);
        for matched in matched.requirements {
            let requirement = matched.requirement;
            wants.push(UnresolvedRequirement {
                target: requirement.target.clone(),
                condition: requirement.condition.clone(),
                tier: requirement.tier,
                origin: Origin {
                    rule: matched.rule.name.clone(),
                    at: requirement.at.clone(),
                },
                reason: requirement.reason.as_str().into(),
                deadline: requirement.deadline,
                on_deadline: requirement.on_deadline,
                inferred: false,
                if_declared: false,
            });
        }
    }

    /// Adds the objects to which its fields refer.
    pub(super) fn add_references(
        &mut self,
        object: &Object,
        id: &ObjectRef,
        rules: &RuleSet,
        wants: &mut Vec<UnresolvedRequirement>,
    ) {
        for reference in rules.references_of(object) {
            let target = &reference.target;
            let longest = target
                .name
                .len()
                .max(target.namespace.as_ref().map_or(0, |one| one.len()));
            if target == id || longest > LONGEST_NAME {
                continue;
            }
            wants.push(UnresolvedRequirement {
                reason: format!("{id} names {}", reference.target).into(),
                target: NeedTarget::Object(reference.target),
                condition: reference.condition.clone(),
                tier: Tier::Advisory,
                origin: Origin {
                    rule: reference.rule.to_owned(),
                    at: self.shown.at(Some(reference.line)),
                },
                deadline: None,
                on_deadline: OnDeadline::Release,
                inferred: true,
                if_declared: reference.if_declared,
            });
        }
    }

    /// Adds its kind, if RKE2 applies manifests before the API serves it.
    pub(super) fn add_kind(
        &mut self,
        object: &Object,
        kind: &GroupKind,
        wants: &mut Vec<UnresolvedRequirement>,
    ) {
        if !builtin::serves_before_manifests(kind) {
            wants.push(self.inferred(
                object,
                NeedTarget::Kind(kind.clone()),
                NeedCondition::Served,
                "inferred/kind-served",
                format!(
                    "RKE2 cannot apply {} before the API serves its kind",
                    object.id
                ),
            ));
        }
    }

    /// Adds its namespace, unless every cluster has it.
    pub(super) fn add_namespace(
        &mut self,
        object: &Object,
        id: &ObjectRef,
        wants: &mut Vec<UnresolvedRequirement>,
    ) {
        let Some(namespace) = &id.namespace else {
            return;
        };
        if !builtin::has_namespace(namespace) {
            wants.push(self.inferred(
                object,
                NeedTarget::Object(ObjectRef::cluster("", "Namespace", namespace.clone())),
                NeedCondition::Exists,
                OWN_NAMESPACE,
                format!("RKE2 cannot apply {id} before its namespace exists"),
            ));
        }
    }

    fn inferred(
        &self,
        object: &Object,
        target: NeedTarget,
        condition: NeedCondition,
        rule: &str,
        reason: String,
    ) -> UnresolvedRequirement {
        UnresolvedRequirement {
            target,
            condition,
            tier: Tier::Required,
            origin: Origin {
                rule: rule.to_owned(),
                at: self.shown.at(Some(object.line)),
            },
            reason: reason.into(),
            deadline: None,
            on_deadline: OnDeadline::Release,
            inferred: true,
            if_declared: false,
        }
    }
}
