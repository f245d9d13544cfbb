//! Gates that must not be on while another is off. Since 1.35, every component enforces this at its start for all
//! gates; before that, only kube-apiserver did, for a few gates.
//!
//! A gate that is not set has the value of its stage's group (`AllAlpha`, `AllBeta`), or its default. So one `false`
//! can break gates that are on by default.

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::findings::Location;
use windrow_model::reasons::Code;
use windrow_plan::version::Version;

use super::Component;
use super::catalogue::{Catalogue, GateStanding, Stage};
use super::findings::{Findings, GateAssignment};

/// A gate that is on although it depends on others that are off.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BrokenDependency<'c> {
    pub(super) gate: &'c str,
    pub(super) needs: Vec<&'c str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueOrigin {
    Name,
    /// It is set through the group of its stage.
    Group(&'static str),
    Default,
}

impl ValueOrigin {
    /// Follows "the gate" in a message.
    pub(super) fn is_on(self) -> String {
        match self {
            ValueOrigin::Name => "is set to true".to_owned(),
            ValueOrigin::Group(group) => format!("is on through `{group}=true`"),
            ValueOrigin::Default => "is on by default".to_owned(),
        }
    }
}

/// The value of a gate in a component with the gates `set`, and its origin.
pub(super) fn value(
    catalogue: &Catalogue,
    version: Version,
    set: &BTreeMap<&str, bool>,
    name: &str,
) -> (bool, ValueOrigin) {
    if let Some(value) = set.get(name) {
        return (*value, ValueOrigin::Name);
    }
    let Some(GateStanding::Known(state) | GateStanding::Doubtful { state, .. }) =
        catalogue.gate(name).map(|gate| gate.at(version))
    else {
        return (false, ValueOrigin::Default);
    };
    let group = match state.stage {
        Stage::Alpha => Some("AllAlpha"),
        Stage::Beta => Some("AllBeta"),
        Stage::Ga | Stage::Deprecated => None,
    };
    match group.and_then(|group| Some((*set.get(group)?, group))) {
        Some((value, group)) => (value, ValueOrigin::Group(group)),
        None => (state.default, ValueOrigin::Default),
    }
}

/// Every broken dependency of a component with these gates. If a gate is set twice, its last value counts.
pub(super) fn broken<'c>(
    catalogue: &'c Catalogue,
    component: Component,
    version: Version,
    set: &BTreeMap<&str, bool>,
) -> Vec<BrokenDependency<'c>> {
    if !catalogue.covers(version.minor) {
        return Vec::new();
    }
    let on = |name: &str| value(catalogue, version, set, name).0;
    catalogue
        .gates()
        .filter_map(|gate| {
            let needs = gate.needs(component, version.minor);
            let needs: Vec<&str> = needs.filter(|need| !on(need)).collect();
            (!needs.is_empty() && on(gate.name())).then(|| BrokenDependency {
                gate: gate.name(),
                needs,
            })
        })
        .collect()
}

pub(super) fn places(
    catalogue: &Catalogue,
    version: Version,
    sets: &[GateAssignment<'_>],
    gates: &[&str],
) -> Vec<Location> {
    let values: BTreeMap<&str, bool> = sets.iter().map(|set| (set.gate, set.value)).collect();
    let mut named: BTreeSet<&str> = BTreeSet::new();
    for gate in gates {
        match value(catalogue, version, &values, gate).1 {
            ValueOrigin::Name => named.insert(gate),
            ValueOrigin::Group(group) => named.insert(group),
            ValueOrigin::Default => false,
        };
    }
    let at = sets.iter().filter(|set| named.contains(set.gate));
    at.map(|set| set.at.clone()).collect()
}

/// Reports every broken dependency, at the places that broke it.
pub(super) fn report(
    catalogue: &Catalogue,
    component: Component,
    version: Version,
    sets: &[GateAssignment<'_>],
    findings: &mut Findings,
) {
    let values: BTreeMap<&str, bool> = sets.iter().map(|set| (set.gate, set.value)).collect();
    for BrokenDependency { gate, needs } in broken(catalogue, component, version, &values) {
        let named: Vec<&str> = needs.iter().copied().chain([gate]).collect();
        let at = places(catalogue, version, sets, &named);
        let (_, origin) = value(catalogue, version, &values, gate);
        let list = needs
            .iter()
            .map(|need| format!("`{need}`"))
            .collect::<Vec<_>>()
            .join(", ");
        let remedy = match origin {
            ValueOrigin::Name => format!("Set {list} to true as well, or remove {gate}"),
            ValueOrigin::Group(_) => format!("Set {list} to true, or {gate} to false"),
            ValueOrigin::Default => format!("Set {gate} to false as well, or leave {list} on"),
        };
        findings.push(
            Code::GateDependency,
            format!(
                "`{gate}` {} and depends on {list}, which would be off: {component} {version} does not start. {remedy}",
                origin.is_on()
            ),
            at,
        );
    }
}
