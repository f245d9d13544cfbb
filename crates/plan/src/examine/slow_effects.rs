//! Effects that take place some time after RKE2 applied an object.

use std::collections::{HashMap, HashSet};

use windrow_model::manifest::{GroupKind, Node, Object, ObjectRef};

use crate::SlowEffect;

/// Group and kind of a CustomResourceDefinition.
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// The number of objects that RKE2 writes for a file. RKE2 writes an object once, even if the file declares it again.
pub(super) fn count_written<'o>(objects: impl Iterator<Item = &'o ObjectRef>) -> usize {
    objects.collect::<HashSet<_>>().len()
}

/// The slow effects of all objects of a file. The objects come with their names, in the file's order.
pub(super) fn file_effects<'o>(
    objects: impl Iterator<Item = (&'o ObjectRef, &'o [SlowEffect])> + Clone,
) -> Vec<SlowEffect> {
    let mut effects: Vec<SlowEffect> = objects
        .clone()
        .flat_map(|(_, effects)| effects)
        .cloned()
        .collect();
    if effects.is_empty() {
        return effects;
    }
    let mut known = HashSet::new();
    let distinct = objects.map(|(id, _)| id).filter(|id| known.insert(*id));
    let after = written_after_definitions(distinct);
    for effect in &mut effects {
        if let SlowEffect::Defines { followed_by, .. } = effect {
            *followed_by = after;
        }
    }
    effects
}

/// The number of objects of a file that RKE2 writes after its definitions: kinds are written in the order in which they
/// first appear.
fn written_after_definitions<'o>(objects: impl Iterator<Item = &'o ObjectRef>) -> usize {
    let mut order: HashMap<GroupKind, usize> = HashMap::new();
    let mut of_kind: Vec<usize> = Vec::new();
    for object in objects {
        let next = order.len();
        let place = *order.entry(object.group_kind()).or_insert(next);
        if place == of_kind.len() {
            of_kind.push(0);
        }
        of_kind[place] += 1;
    }
    let definitions = order.get(&GroupKind::new(DEFINITION.0, DEFINITION.1));
    definitions.map_or(0, |place| of_kind[place + 1..].iter().sum())
}

/// The slow effects of an object; `id` has its namespace filled in, and `defines` is the kind that it defines.
pub(super) fn object_effects(
    object: &Object,
    id: &ObjectRef,
    defines: Option<&GroupKind>,
) -> Vec<SlowEffect> {
    match (id.group.as_str(), id.kind.as_str()) {
        DEFINITION => {
            let strategy = object.node.str_at(&["spec", "conversion", "strategy"]);
            let defined = defines
                .filter(|_| is_taken(object))
                .map(|kind| SlowEffect::Defines {
                    kind: kind.clone(),
                    converts: strategy == Some("Webhook"),
                    followed_by: 0,
                });
            defined.into_iter().collect()
        }
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => {
            let groups = asked_groups(&object.node);
            let asks = (!groups.is_empty()).then_some(SlowEffect::Asks { groups });
            asks.into_iter().collect()
        }
        (
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicy" | "ValidatingAdmissionPolicy",
        ) => {
            let groups = groups_refused_without_parameters(&object.node);
            let asks = (!groups.is_empty()).then_some(SlowEffect::Asks { groups });
            asks.into_iter().collect()
        }
        ("", "ResourceQuota") => {
            let namespace = id.namespace_or_default().to_owned();
            vec![SlowEffect::Counts { namespace }]
        }
        _ => Vec::new(),
    }
}

/// Whether kube-apiserver accepts the version and the name of a definition.
fn is_taken(definition: &Object) -> bool {
    let group = definition.node.str_at(&["spec", "group"]);
    let plural = definition.node.str_at(&["spec", "names", "plural"]);
    let name = plural.zip(group);
    let is_named =
        name.is_some_and(|(plural, group)| definition.id.name == [plural, ".", group].concat());
    definition.version == "v1" && is_named
}

/// The groups for which hooks that fail closed are called.
fn asked_groups(configuration: &Node) -> Vec<String> {
    let hooks = configuration.list("webhooks");
    let closed = hooks.iter().filter(|hook| fails_closed(hook));
    groups_of(closed.filter_map(|hook| hook.get("rules")))
}

/// The groups whose objects an admission policy refuses until its parameters exist.
fn groups_refused_without_parameters(policy: &Node) -> Vec<String> {
    let Some(spec) = policy.get("spec") else {
        return Vec::new();
    };
    if !fails_closed(spec) || spec.get("paramKind").is_none() {
        return Vec::new();
    }
    let rules = spec.at(&["matchConstraints", "resourceRules"]);
    groups_of(rules.into_iter())
}

fn fails_closed(hook: &Node) -> bool {
    hook.str_at(&["failurePolicy"]) != Some("Ignore")
}

/// The groups in these lists of rules.
fn groups_of<'n>(rules: impl Iterator<Item = &'n Node>) -> Vec<String> {
    let groups = rules
        .flat_map(Node::items)
        .filter_map(|rule| rule.get("apiGroups"))
        .flat_map(Node::items);
    // A value that is not a text may stand for any group.
    let mut groups: Vec<String> = groups
        .map(|group| group.as_str().unwrap_or("*").to_owned())
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}
