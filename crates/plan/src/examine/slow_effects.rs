//! What comes true only a while after RKE2 applied an object.

use std::collections::HashMap;

use windrow_model::manifest::{GroupKind, Node, Object, ObjectRef};

use crate::SlowEffect;

/// Group and kind of a CustomResourceDefinition.
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// The slow effects of all objects of a file, which are given with their names in the file's order.
pub(super) fn file_effects<'o>(
    objects: impl Iterator<Item = (&'o ObjectRef, &'o [SlowEffect])> + Clone,
) -> Vec<SlowEffect> {
    let after = written_after_definitions(objects.clone().map(|(id, _)| id));
    let mut effects: Vec<SlowEffect> = objects.flat_map(|(_, effects)| effects).cloned().collect();
    for effect in &mut effects {
        if let SlowEffect::Defines { followed_by, .. } = effect {
            *followed_by = after;
        }
    }
    effects
}

/// How many objects of a file RKE2 writes after its definitions: kinds are written in the order in which they first appear.
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
            let defined = defines.map(|kind| SlowEffect::Defines {
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
        ("", "ResourceQuota") => {
            let namespace = id.namespace_or_default().to_owned();
            vec![SlowEffect::Counts { namespace }]
        }
        _ => Vec::new(),
    }
}

/// The groups that hooks which fail closed are asked about.
fn asked_groups(configuration: &Node) -> Vec<String> {
    let items = |node: &Node, key: &str| node.get(key).map_or(&[][..], Node::items).to_vec();
    let hooks = items(configuration, "webhooks");
    let closed = hooks
        .iter()
        .filter(|hook| hook.str_at(&["failurePolicy"]) != Some("Ignore"));
    let rules = closed.flat_map(|hook| items(hook, "rules"));
    let groups = rules.flat_map(|rule| items(&rule, "apiGroups"));
    // Whatever is no text may be any group.
    let mut groups: Vec<String> = groups
        .map(|group| group.as_str().unwrap_or("*").to_owned())
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}
