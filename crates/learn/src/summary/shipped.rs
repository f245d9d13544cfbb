//! The shipped knowledge has the conditions of providers: a setting, an addon, a value. A learned entry keeps its
//! condition, because no boot shows it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use windrow_decide::flight::Appeared;
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::knowledge::{Bringer, Brings, Knowledge, Phase as PlatformPhase, Selection};

use super::Provider;

/// The shipped entries, indexed by their things and by name.
#[derive(Default)]
struct Index {
    kinds: BTreeMap<GroupKind, Provider>,
    groups: BTreeMap<String, Provider>,
    objects: BTreeMap<ObjectRef, Provider>,
    components: BTreeMap<String, Provider>,
    operators: BTreeMap<GroupKind, Provider>,
    /// For charts that need a value: their things, and the values.
    charts: BTreeMap<String, Vec<(Brings, Vec<String>)>>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index::default();
    for entry in Knowledge::shipped().entries() {
        index.add(&entry.bringer, &entry.brings);
    }
    index
});

impl Index {
    fn add(&mut self, bringer: &Bringer, brings: &Brings) {
        match bringer {
            Bringer::Kubernetes { .. } => {}
            Bringer::Rke2 {
                component,
                selected_by,
            } => {
                let Some(component) = component else {
                    return;
                };
                let selected_by = selected_by.as_ref();
                let provider = Provider::Rke2 {
                    component: component.clone(),
                    selected_by: selected_by
                        .map(|(setting, word)| (selection_key(*setting), word.clone())),
                };
                self.components.entry(component.clone()).or_insert(provider);
            }
            Bringer::Harvester { part, phase, addon } => {
                let provider = Provider::Harvester {
                    part: part.clone(),
                    phase: phase.map(platform_phase),
                    addon: addon.clone(),
                };
                for known in &brings.kinds {
                    let place = self.kinds.entry(known.kind.clone());
                    place.or_insert_with(|| provider.clone());
                }
                for group in &brings.groups {
                    let place = self.groups.entry(group.to_string());
                    place.or_insert_with(|| provider.clone());
                }
                for object in &brings.objects {
                    let place = self.objects.entry(object.clone());
                    place.or_insert_with(|| provider.clone());
                }
            }
            Bringer::Chart { name, values, .. } if !values.is_empty() => {
                let known = self.charts.entry(name.clone()).or_default();
                known.push((brings.clone(), values.clone()));
            }
            Bringer::Chart { .. } => {}
            Bringer::Operator {
                acts_on: Some(acts_on),
                deployment,
            } => {
                let place = self.operators.entry(acts_on.clone());
                place.or_insert_with(|| Provider::Operator {
                    deployment: deployment.clone(),
                    acts_on: acts_on.clone(),
                });
            }
            Bringer::Operator { acts_on: None, .. } => {}
        }
    }
}

fn platform_phase(phase: PlatformPhase) -> &'static str {
    match phase {
        PlatformPhase::Rancher => "rancher",
        PlatformPhase::Definitions => "definitions",
        PlatformPhase::Operators => "operators",
    }
}

fn selection_key(selection: Selection) -> &'static str {
    match selection {
        Selection::Cni => "cni",
        Selection::IngressController => "ingressController",
    }
}

/// The values that a chart needs to provide a thing, according to the shipped knowledge.
pub(super) fn values(provider: &Provider, what: &Appeared) -> Vec<String> {
    let Provider::Chart { name, .. } = provider else {
        return Vec::new();
    };
    let mut known = INDEX.charts.get(name).into_iter().flatten();
    let found = known.find(|(brings, _)| match what {
        Appeared::Kind { kind, .. } => brings.brings_kind(kind),
        Appeared::Object(object) => brings.objects.contains(object),
    });
    found.map(|(_, values)| values.clone()).unwrap_or_default()
}

/// A chart that RKE2 packages: without the setting that selects it, the entry would be valid for every node.
pub(super) fn component(name: &str) -> Option<Provider> {
    INDEX.components.get(name).cloned()
}

/// The part of Harvester that provides a thing according to the shipped knowledge. Other things there may come from an
/// addon or a user.
pub(super) fn of_harvester(what: &Appeared) -> Option<Provider> {
    let found = match what {
        Appeared::Kind { kind, .. } => {
            let by_group = || INDEX.groups.get(kind.group.as_str());
            INDEX.kinds.get(kind).or_else(by_group)
        }
        Appeared::Object(object) => INDEX.objects.get(object),
    };
    found.cloned()
}

/// The known operator that acts on a kind.
pub(super) fn operator(kind: &GroupKind) -> Option<Provider> {
    INDEX.operators.get(kind).cloned()
}
