//! Kinds, objects, `provides:` and `readiness:` of a pack.

use crate::kubernetes::lacks_its_group;
use windrow_model::manifest::{
    GroupKind, Node, ObjectRef, namespace_name_error, object_name_error,
};

use crate::rules::fields::{Errors, Fields, group_error};
use crate::rules::{Platform, Provision, ReadinessRule};

pub(super) fn kind(node: &Node, errors: &mut Errors<'_>) -> Option<GroupKind> {
    let fields = Fields::new(node, "the kind", &["group", "kind"], errors)?;
    let group = fields.group("group", errors).unwrap_or_default();
    fields.required("kind", errors)?;
    let kind = fields.kind("kind", errors)?;
    errors.check(fields.line_of("kind"), "kind", lacks_its_group(group, kind));
    Some(GroupKind::new(group, kind))
}

/// A required kind. `meaning` ends the message if it is absent.
pub(crate) fn required_kind(
    fields: &Fields<'_>,
    key: &str,
    meaning: &str,
    errors: &mut Errors<'_>,
) -> Option<GroupKind> {
    match fields.get(key) {
        Some(node) => kind(node, errors),
        None => {
            fields.lacks(
                &format!("`{key}: {{group: ..., kind: ...}}`{meaning}"),
                errors,
            );
            None
        }
    }
}

pub(crate) fn object(node: &Node, errors: &mut Errors<'_>) -> Option<ObjectRef> {
    let keys = ["group", "kind", "namespace", "name"];
    let fields = Fields::new(node, "the object", &keys, errors)?;
    let group = fields.group("group", errors).unwrap_or_default();
    let kind = fields.required("kind", errors);
    let kind = kind.and_then(|_| fields.kind("kind", errors))?;
    errors.check(fields.line_of("kind"), "kind", lacks_its_group(group, kind));
    let name = fields.required("name", errors)?;
    let namespace = fields.text("namespace", errors);
    let wrong = object_name_error(&GroupKind::new(group, kind), name);
    errors.check(fields.line_of("name"), "name", wrong);
    let wrong = namespace.and_then(namespace_name_error);
    errors.check(fields.line_of("namespace"), "namespace", wrong);
    Some(ObjectRef {
        group: group.into(),
        kind: kind.into(),
        namespace: namespace.map(Into::into),
        name: name.into(),
    })
}

pub(super) fn provision(
    node: &Node,
    platform: Option<Platform>,
    errors: &mut Errors<'_>,
) -> Option<Provision> {
    let before = errors.count();
    let keys = ["by", "kinds", "groups", "objects"];
    let fields = Fields::new(node, "the provision", &keys, errors)?;
    let by = fields.required("by", errors);
    let kinds = fields.list("kinds", errors);
    let groups = fields.texts("groups", errors);
    for (group, line) in &groups {
        errors.check(*line, "groups", group_error(group));
    }
    let objects = fields.list("objects", errors);
    if ["kinds", "groups", "objects"]
        .iter()
        .all(|key| fields.get(key).is_none())
    {
        errors.at(
            fields.line(),
            "the provision brings nothing; list `kinds`, `groups` or `objects`",
        );
    }
    let provision = Provision {
        platform,
        at: errors.location(fields.line()),
        kinds: kinds.iter().filter_map(|node| kind(node, errors)).collect(),
        groups: groups
            .into_iter()
            .map(|(group, _)| group.to_owned())
            .collect(),
        objects: objects
            .iter()
            .filter_map(|node| object(node, errors))
            .collect(),
        by: by?.to_owned(),
    };
    (errors.count() == before).then_some(provision)
}

pub(super) fn readiness(node: &Node, errors: &mut Errors<'_>) -> Option<ReadinessRule> {
    let before = errors.count();
    let keys = ["kind", "inProgress", "failed", "ready"];
    let fields = Fields::new(node, "the readiness rule", &keys, errors)?;
    let kind = required_kind(&fields, "kind", "", errors);
    let rule = ReadinessRule {
        kind: kind?,
        in_progress: fields.expression("inProgress", errors),
        failed: fields.expression("failed", errors),
        ready: fields.expression("ready", errors),
        at: errors.location(fields.line()),
    };
    if fields.get("ready").is_none() {
        fields.lacks(
            "`ready`: without it the kind could never become ready",
            errors,
        );
    }
    (errors.count() == before).then_some(rule)
}
