//! Gates that must not be on while another is off: enforced when a component starts, since 1.35.
//!
//! A gate that is not set counts with its default, so one `false` can break gates that are on by
//! default.

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::reasons::Code;
use windrow_plan::version::Version;

use super::Component;
use super::catalogue::{Catalogue, GateStanding};
use super::findings::{Findings, GateAssignment};

/// A gate that is on although others it needs are off.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BrokenDependency<'c> {
    pub(super) gate: &'c str,
    pub(super) needs: Vec<&'c str>,
}

/// Every dependency that is broken once these gates are set; a gate set twice counts by its last.
pub(super) fn broken<'c>(
    catalogue: &'c Catalogue,
    version: Version,
    set: &BTreeMap<&str, bool>,
) -> Vec<BrokenDependency<'c>> {
    if !catalogue.covers(version.minor) {
        return Vec::new();
    }
    let on = |name: &str| match set.get(name) {
        Some(value) => *value,
        None => match catalogue.gate(name).map(|gate| gate.at(version)) {
            Some(GateStanding::Known(state) | GateStanding::Doubtful { state, .. }) => {
                state.default
            }
            _ => false,
        },
    };
    catalogue
        .gates()
        .filter_map(|gate| {
            let needs: Vec<&str> = gate.needs(version.minor).filter(|need| !on(need)).collect();
            (!needs.is_empty() && on(gate.name())).then(|| BrokenDependency {
                gate: gate.name(),
                needs,
            })
        })
        .collect()
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
    for BrokenDependency { gate, needs } in broken(catalogue, version, &values) {
        let named: BTreeSet<&str> = needs.iter().copied().chain([gate]).collect();
        let at = sets
            .iter()
            .filter(|set| named.contains(set.gate))
            .map(|set| set.at.clone())
            .collect();
        let how = match values.contains_key(gate) {
            true => "is set to true",
            false => "is on by default",
        };
        let list = needs
            .iter()
            .map(|need| format!("`{need}`"))
            .collect::<Vec<_>>()
            .join(", ");
        let remedy = match values.contains_key(gate) {
            true => format!("Set {list} to true as well, or remove {gate}"),
            false => format!("Set {gate} to false as well, or leave {list} on"),
        };
        findings.push(
            Code::GateDependency,
            format!(
                "`{gate}` {how} and depends on {list}, which would be off: {component} {version} does not start. {remedy}"
            ),
            at,
        );
    }
}
