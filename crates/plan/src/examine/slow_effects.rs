//! What comes true only a while after RKE2 applied an object.

use std::collections::HashMap;

use windrow_model::manifest::{GroupKind, Node, Object, ObjectRef};

use super::{Examined, serves};
use crate::SlowEffect;

/// Group and kind of a CustomResourceDefinition.
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

impl Examined {
    /// The slow effects of all its objects.
    pub(super) fn slow_effects(&self) -> Vec<SlowEffect> {
        let after = self.written_after_definitions();
        let effects = self.objects.iter().flat_map(|one| &one.slow_effects);
        let mut effects: Vec<SlowEffect> = effects.cloned().collect();
        for effect in &mut effects {
            if let SlowEffect::Defines { followed_by, .. } = effect {
                *followed_by = after;
            }
        }
        effects
    }

    /// How many of its objects RKE2 writes after its definitions: kinds are written in the order in which they first appear.
    fn written_after_definitions(&self) -> usize {
        let mut order: HashMap<GroupKind, usize> = HashMap::new();
        let mut of_kind: Vec<usize> = Vec::new();
        for object in &self.objects {
            let next = order.len();
            let place = *order.entry(object.object.group_kind()).or_insert(next);
            if place == of_kind.len() {
                of_kind.push(0);
            }
            of_kind[place] += 1;
        }
        let definitions = order.get(&GroupKind::new(DEFINITION.0, DEFINITION.1));
        definitions.map_or(0, |place| of_kind[place + 1..].iter().sum())
    }
}

/// The slow effects of an object; `id` has its namespace filled in.
pub(super) fn slow_effects(object: &Object, id: &ObjectRef) -> Vec<SlowEffect> {
    match (id.group.as_str(), id.kind.as_str()) {
        DEFINITION => {
            let strategy = object.node.str_at(&["spec", "conversion", "strategy"]);
            let defined = serves(object).map(|(kind, _)| SlowEffect::Defines {
                kind,
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
            let namespace = id.namespace.as_deref().unwrap_or("default").to_owned();
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
