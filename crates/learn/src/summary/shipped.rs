//! What comes with Windrow says on which condition something is brought: a setting, an addon, a value. What is learned of it keeps that
//! condition, because no boot shows it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use windrow_decide::flight::Appeared;
use windrow_model::manifest::{GroupKind, ObjectRef};
use windrow_plan::knowledge::{Bringer, Brings, Knowledge, Phase as PlatformPhase, Selection};

use super::Provider;

/// The shipped entries, to be found by what they bring and by name.
#[derive(Default)]
struct Index {
    kinds: BTreeMap<GroupKind, Provider>,
    groups: BTreeMap<String, Provider>,
    objects: BTreeMap<ObjectRef, Provider>,
    components: BTreeMap<String, Provider>,
    operators: BTreeMap<GroupKind, Provider>,
    /// Of charts that need a value: what they bring, and the values.
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

/// The values on which a chart is known to bring something.
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

/// A chart that RKE2 packages: without the setting that selects it, it would be said to be everywhere.
pub(super) fn component(name: &str) -> Option<Provider> {
    INDEX.components.get(name).cloned()
}

/// The part of Harvester that is known to bring something: what else comes there may be an addon's, or a person's.
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
