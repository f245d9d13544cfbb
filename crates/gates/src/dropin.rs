//! The text of Windrow's own drop-in: the requested gates that every version that may start accepts for certain. All
//! others are left out and reported.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use windrow_model::manifest::yaml;
use windrow_model::reasons::Severity;
use windrow_plan::rke2::config::{ConfigLayer, MergedConfig, Rke2ConfigFile, merge};
use windrow_plan::version::Version;

use super::assess::{emulated, uses};
use super::catalogue::{Catalogue, GateStanding};
use super::check::judge_gate;
use super::findings::Findings;
use super::{Component, GateRequest, TargetVersion, apis, dependencies, syntax};

/// The drop-in's name in `config.yaml.d`: it sorts after the files of all other known writers.
pub const DROP_IN: &str = "99-zz9-windrow-gates.yaml";

const HEADER: &str = "\
# Written by Windrow from its configuration (featureGates); edit that, not this file.
# Checked against the Kubernetes version that will start, and written anew whenever that changes.
";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropIn {
    /// `None` if the file should not exist.
    pub content: Option<String>,
    /// The requests in it.
    pub written: Vec<GateRequest>,
    pub left_out: Vec<LeftOut>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub request: GateRequest,
    /// Why not, in a sentence.
    pub why: String,
    /// Is it left out only because of its own `when`? That is not a problem.
    pub not_meant: bool,
}

/// Decides on the content. `foreign` is the merged configuration without Windrow's own drop-in.
pub fn drop_in(requests: &[GateRequest], target: &TargetVersion, foreign: &MergedConfig) -> DropIn {
    drop_in_trusting(requests, target, foreign, &[])
}

/// The same with some trusted gates: proven on exactly this version, or forced by a user who has them tried.
pub fn drop_in_trusting(
    requests: &[GateRequest],
    target: &TargetVersion,
    foreign: &MergedConfig,
    trusted: &[GateRequest],
) -> DropIn {
    if requests.is_empty() {
        // Most nodes request no gate, and the catalogue stays in memory after it was read.
        return DropIn {
            content: None,
            written: Vec::new(),
            left_out: Vec::new(),
        };
    }
    let is_trusted = |request: &GateRequest| trusted.iter().any(|known| known.sets_as(request));
    let catalogue = Catalogue::builtin();
    let versions = target.plausible(catalogue);
    let mut left_out = Vec::new();
    let mut written: Vec<&GateRequest> = Vec::new();
    for request in requests {
        let refused = match is_trusted(request) {
            true => None,
            false => refusal(catalogue, request, &versions, foreign),
        };
        match refused {
            Some((why, not_meant)) => left_out.push(LeftOut {
                request: request.clone(),
                why,
                not_meant,
            }),
            None => {
                // If a gate is requested twice for one component, the later request counts.
                written.retain(|earlier| {
                    (earlier.component, &earlier.gate) != (request.component, &request.gate)
                });
                written.push(request);
            }
        }
    }
    for component in Component::ALL {
        // A gate that is left out can break another one that depends on it: repeat until nothing changes.
        while let Some((gate, why)) = conflict(catalogue, component, &written, &versions, foreign) {
            let taken = written
                .iter()
                .position(|request| request.component == component && request.gate == gate)
                .filter(|position| !is_trusted(written[*position]));
            let Some(position) = taken else { break };
            left_out.push(LeftOut {
                request: written.remove(position).clone(),
                why,
                not_meant: false,
            });
        }
    }
    let written: Vec<GateRequest> = written.into_iter().cloned().collect();
    DropIn {
        content: text(&written),
        written,
        left_out,
    }
}

/// Why a request cannot be written without regard to the others, and whether its `when` is the only reason.
fn refusal(
    catalogue: &Catalogue,
    request: &GateRequest,
    versions: &[Version],
    foreign: &MergedConfig,
) -> Option<(String, bool)> {
    if let Some(when) = &request.when {
        let meant = versions.iter().filter(|version| when.admits(version.minor));
        match meant.count() {
            0 => return Some((format!("it is meant for {when} only"), true)),
            count if count < versions.len() => {
                return Some((
                    format!(
                        "it is meant for {when} only, and which version will start is not certain"
                    ),
                    false,
                ));
            }
            _ => {}
        }
    }
    if let Some(item) = emulated(request.component, foreign) {
        let why = format!(
            "{} is set to behave as another version (`emulated-version={}`), and Windrow does not judge its feature gates",
            request.component, item.text
        );
        return Some((why, false));
    }
    for version in versions {
        let mut findings = Findings::default();
        judge_gate(catalogue, &request.as_set(), *version, &mut findings);
        if let Some(error) = findings
            .done()
            .into_iter()
            .find(|finding| finding.severity == Severity::Error)
        {
            return Some((error.message, false));
        }
        match catalogue.gate(&request.gate).map(|gate| gate.at(*version)) {
            Some(GateStanding::Known(_)) => {}
            Some(GateStanding::Doubtful { patch, .. }) => {
                return Some((
                    format!(
                        "it came with a patch (about {patch}), and it is not certain that {version} has it"
                    ),
                    false,
                ));
            }
            _ => {
                return Some((
                    format!(
                        "Windrow does not know the gates of Kubernetes {}",
                        version.minor
                    ),
                    false,
                ));
            }
        }
        if let Some(why) = unserved(catalogue, request, *version, foreign) {
            return Some((why, false));
        }
        let prefixed = foreign_pairs(request.component, *version, foreign)
            .into_iter()
            .find(|pair| pair.prefix.is_some());
        if let Some(pair) = prefixed {
            return Some((
                format!(
                    "another file sets `{}:{}` for {}; a component refuses to start when prefixed and plain names are mixed",
                    pair.prefix.unwrap_or_default(),
                    pair.name,
                    request.component
                ),
                false,
            ));
        }
    }
    None
}

/// Why the API that a gate makes kube-apiserver watch is not served, or may not be.
fn unserved(
    catalogue: &Catalogue,
    request: &GateRequest,
    version: Version,
    foreign: &MergedConfig,
) -> Option<String> {
    if request.component != Component::KubeApiserver {
        return None;
    }
    let set = BTreeMap::from([(request.gate.as_str(), request.value)]);
    apis::unserved(catalogue, version, &set, foreign)
        .into_iter()
        .find(|api| api.gate == request.gate)
        .map(|api| api.why(catalogue, version))
}

/// One of Windrow's gates in a broken dependency, and why it must be removed.
fn conflict(
    catalogue: &Catalogue,
    component: Component,
    written: &[&GateRequest],
    versions: &[Version],
    foreign: &MergedConfig,
) -> Option<(String, String)> {
    let ours: BTreeMap<&str, bool> = written
        .iter()
        .filter(|request| request.component == component)
        .map(|request| (request.gate.as_str(), request.value))
        .collect();
    if ours.is_empty() {
        return None;
    }
    for version in versions {
        let others = foreign_pairs(component, *version, foreign);
        let mut set: BTreeMap<&str, bool> = others
            .iter()
            .map(|pair| (pair.name.as_str(), pair.value))
            .collect();
        set.extend(&ours);
        for broken in dependencies::broken(catalogue, component, *version, &set) {
            let list = broken.needs.join(", ");
            if ours.contains_key(broken.gate) {
                return Some((
                    broken.gate.to_owned(),
                    format!(
                        "it depends on {list}, which would be off in Kubernetes {}",
                        version.minor
                    ),
                ));
            }
            if let Some(need) = broken.needs.iter().find(|need| ours.contains_key(*need)) {
                return Some((
                    (*need).to_owned(),
                    format!(
                        "{} is on in Kubernetes {} and depends on it",
                        broken.gate, version.minor
                    ),
                ));
            }
        }
    }
    None
}

fn foreign_pairs(
    component: Component,
    version: Version,
    foreign: &MergedConfig,
) -> Vec<syntax::Pair> {
    uses(component, foreign)
        .iter()
        .flat_map(|value| syntax::pairs(&value.text, component.splits_by_prefix(version)))
        .filter_map(Result::ok)
        .collect()
}

/// The drop-in's data: one list for each component, in the order of [`Component::ALL`]. The text decides whether a
/// trial is the same as the last one, so its form must not change: quoted, and in this order.
struct ComponentGates<'r>(&'r [GateRequest]);

impl Serialize for ComponentGates<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let of_component = |component: Component| {
            let requests = self
                .0
                .iter()
                .filter(|request| request.component == component);
            let gates: Vec<String> = requests
                .map(|request| format!("{}={}", request.gate, request.value))
                .collect();
            let key = format!("{}+", component.argument());
            let value = [yaml::DoubleQuoted(format!(
                "feature-gates+={}",
                gates.join(",")
            ))];
            (!gates.is_empty()).then_some((key, value))
        };
        serializer.collect_map(Component::ALL.into_iter().filter_map(of_component))
    }
}

pub(super) fn text(written: &[GateRequest]) -> Option<String> {
    // A map of texts can always be written as YAML.
    let text = yaml::to_text(&ComponentGates(written)).ok()?;
    (!written.is_empty()).then(|| HEADER.to_owned() + &text)
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropInSnapshot {
    /// `None` without a drop-in.
    pub content: Option<String>,
}

/// The gates that a drop-in of Windrow sets. If a request still sets the same value, it is used, with its reason and
/// its `when`.
pub fn read_gates(own: &str, text: &str, requests: &[GateRequest]) -> Vec<GateRequest> {
    let merged = merge(&[Rke2ConfigFile::new(ConfigLayer::DropIn, own, text)]);
    let mut found: Vec<GateRequest> = Vec::new();
    for component in Component::ALL {
        for item in merged.flag(component.argument(), "feature-gates") {
            for pair in syntax::pairs(&item.text, false).into_iter().flatten() {
                let request = GateRequest {
                    component,
                    gate: pair.name,
                    value: pair.value,
                    when: None,
                    reason: None,
                    at: item.at.clone(),
                };
                found.retain(|known| (known.component, &known.gate) != (component, &request.gate));
                let asked = requests.iter().rfind(|asked| asked.sets_as(&request));
                found.push(asked.cloned().unwrap_or(request));
            }
        }
    }
    found
}

#[cfg(test)]
#[path = "dropin_tests.rs"]
mod tests;
