//! The effect of a merged configuration on each component: which gates are in effect, who set them, and whether the
//! component would start.

use std::collections::{BTreeMap, BTreeSet};

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::{Code, Severity};
use windrow_plan::rke2::config::{ConfigItem, MergedConfig, flag_values, split};
use windrow_plan::rke2::config::{Rke2ConfigFile, merge};
use windrow_plan::version::{Minor, Version};

use super::catalogue::Catalogue;
use super::check::{anywhere, judge_gate};
use super::findings::{Findings, GateAssignment};
use super::together::{together, together_anywhere, together_next};
use super::{Component, TargetVersion, runtime_config, syntax};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// The components with gates, in a fixed order.
    pub components: Vec<ComponentView>,
    /// Errors, warnings and notices.
    pub findings: Vec<Finding>,
}

impl Assessment {
    /// Would everything start, as far as gates and the syntax of files matter? An error means that it would not.
    pub fn starts(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.severity != Severity::Error)
    }

    /// Is a verdict missing because the version is not known well enough?
    pub fn uncertain(&self) -> bool {
        self.findings.iter().any(|finding| {
            matches!(
                finding.code,
                Code::GateUncovered
                    | Code::GateTargetUnknown
                    | Code::GateUndecided
                    | Code::GatePatch
            )
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentView {
    pub component: Component,
    /// By name.
    pub gates: Vec<EffectiveGate>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveGate {
    pub gate: String,
    pub value: bool,
    /// The place of this value.
    pub at: Location,
    /// Values that it replaced.
    pub overrides: Vec<(bool, Location)>,
}

/// One `name=value` and its item.
struct WrittenGate {
    pair: syntax::Pair,
    at: Location,
    /// The use of the flag that contains it.
    round: usize,
}

/// Judges a merged configuration against the version that will start. `ours` is the path of Windrow's own drop-in, if
/// it is one of the files.
pub fn assess(config: &MergedConfig, ours: Option<&str>, target: &TargetVersion) -> Assessment {
    let mut findings = Findings::default();
    for finding in &config.findings {
        findings.push_as(
            finding.code,
            finding.severity,
            finding.message.clone(),
            finding.at.clone(),
        );
    }
    let mut components = Vec::new();
    for component in Component::ALL {
        misnamed(component, config, &mut findings);
        let emulated = emulated(component, config);
        if component == Component::KubeApiserver && emulated.is_none() {
            runtime_config::report(config, target, &mut findings);
        }
        let uses = uses(component, config);
        if uses.is_empty() {
            continue;
        }
        let catalogue = Catalogue::builtin();
        let versions = target.plausible(catalogue);
        let Some(newest) = versions.iter().max().copied() else {
            continue;
        };
        if let Some(item) = emulated {
            findings.push(
                Code::GateUndecided,
                format!(
                    "{component} is set to behave as another version (`emulated-version={}`): Windrow does not judge its feature gates, regardless of --rke2",
                    item.text
                ),
                vec![item.at],
            );
        } else if *target == TargetVersion::Unknown {
            let written = read(component, newest, &uses, &mut findings);
            let sets: Vec<GateAssignment<'_>> = last(&written)
                .values()
                .map(|one| one.as_set(component, ours))
                .collect();
            for set in &sets {
                anywhere(catalogue, set, &mut findings);
            }
            together_anywhere(catalogue, component, &sets, config, &mut findings);
        } else {
            for version in versions {
                let mut uses = uses.as_slice();
                if component == Component::Kubelet && !own_files(version, config, &mut findings) {
                    uses = &uses[config.kubelet_gates.len()..];
                }
                let written = read(component, version, uses, &mut findings);
                judge(
                    catalogue,
                    component,
                    version,
                    (&written, ours),
                    config,
                    &mut findings,
                );
            }
        }
        // Errors in the texts were already reported; how they merge does not depend on the version.
        let written = read(component, newest, &uses, &mut Findings::default());
        let gates = effective(&written);
        contradictions(component, &gates, &mut findings);
        components.push(ComponentView { component, gates });
    }
    wiped(config, &mut findings);
    Assessment {
        components,
        findings: findings.done(),
    }
}

impl WrittenGate {
    fn as_set<'a>(&'a self, component: Component, ours: Option<&str>) -> GateAssignment<'a> {
        GateAssignment {
            component,
            gate: &self.pair.name,
            value: self.pair.value,
            reason: None,
            when: None,
            at: &self.at,
            ours: ours == Some(self.at.file.as_str()),
        }
    }
}

/// Every text that sets gates of a component, in the order in which they count.
pub(super) fn uses(component: Component, config: &MergedConfig) -> Vec<ConfigItem> {
    let mut uses = match component {
        Component::Kubelet => config.kubelet_gates.clone(),
        _ => Vec::new(),
    };
    uses.extend(config.flag(component.argument(), "feature-gates"));
    uses
}

/// Judges the gates in the kubelet's own files. The kubelet rejects these before it applies an argument (observed with
/// 1.33 and 1.36). Returns whether this kubelet reads them: RKE2 passes them to it from 1.32 on (k3s-io/docs, pull
/// request 433).
fn own_files(version: Version, config: &MergedConfig, findings: &mut Findings) -> bool {
    let Some(first) = config.kubelet_gates.first() else {
        return true;
    };
    if version.minor < Minor::v1(32) {
        findings.push(
            Code::GateUndecided,
            format!("RKE2 gives kubelet a KubeletConfiguration from 1.32 on: whether {} reads the feature gates in it is not judged. Set them in kubelet-arg", version.minor),
            vec![first.at.clone()],
        );
        return false;
    }
    let component = Component::Kubelet;
    let own = read(
        component,
        version,
        &config.kubelet_gates,
        &mut Findings::default(),
    );
    for one in last(&own).values() {
        judge_gate(
            Catalogue::builtin(),
            &one.as_set(component, None),
            version,
            findings,
        );
    }
    true
}

/// The flag by which a component accepts and locks gates like another version.
pub(super) fn emulated(component: Component, config: &MergedConfig) -> Option<ConfigItem> {
    config.flag(component.argument(), "emulated-version").pop()
}

fn read(
    component: Component,
    version: Version,
    uses: &[ConfigItem],
    findings: &mut Findings,
) -> Vec<WrittenGate> {
    let splits = component.splits_by_prefix(version);
    let mut written = Vec::new();
    for (round, item) in uses.iter().enumerate() {
        // No component has a gate with this name: it is the value of an item without a value.
        if item.text == "true" {
            findings.push(
                Code::GateSyntax,
                format!("{component} does not start: its item `feature-gates` has no `=`. Write feature-gates=Name=true in one item"),
                vec![item.at.clone()],
            );
            continue;
        }
        for pair in syntax::pairs(&item.text, splits) {
            match pair {
                Ok(pair) => written.push(WrittenGate {
                    pair,
                    at: item.at.clone(),
                    round,
                }),
                Err(problem) => findings.push(
                    Code::GateSyntax,
                    format!("{component} does not start: in its feature-gates, {problem}"),
                    vec![item.at.clone()],
                ),
            }
        }
    }
    prefixes(component, splits, &written, findings);
    written
}

/// A prefix must be known, and must be on all names or on none.
fn prefixes(component: Component, splits: bool, written: &[WrittenGate], findings: &mut Findings) {
    // If prefixes are split, an empty one does not count; otherwise it is a part of the name.
    let is_prefixed = |one: &&WrittenGate| {
        let prefix = one.pair.prefix.as_ref();
        prefix.is_some_and(|prefix| !splits || !prefix.is_empty())
    };
    let places = |prefixed: bool| -> BTreeSet<(String, Option<u32>)> {
        written
            .iter()
            .filter(|one| is_prefixed(one) == prefixed)
            .map(|one| (one.at.file.clone(), one.at.line))
            .collect()
    };
    let (with, without) = (places(true), places(false));
    if with.is_empty() {
        return;
    }
    let at = |places: BTreeSet<(String, Option<u32>)>| -> Vec<Location> {
        places
            .into_iter()
            .map(|(file, line)| Location { file, line })
            .collect()
    };
    let foreign = written
        .iter()
        .filter_map(|one| one.pair.prefix.as_deref())
        .find(|prefix| !prefix.is_empty() && *prefix != "kube");
    if !splits {
        findings.push(
            Code::GatePrefix,
            format!("this {component} takes no prefix before a feature gate and does not start: write plain names"),
            at(with),
        );
    } else if let Some(prefix) = foreign {
        findings.push(
            Code::GatePrefix,
            format!("`{prefix}:` is not a prefix that {component} knows; it does not start: write plain names"),
            at(with),
        );
    } else if !without.is_empty() {
        findings.push(
            Code::GatePrefix,
            format!("{component} does not start when names with the prefix `kube:` and plain names are mixed, in one file or across files: write plain names everywhere"),
            at(with.union(&without).cloned().collect()),
        );
    }
}

fn last(written: &[WrittenGate]) -> BTreeMap<&str, &WrittenGate> {
    written
        .iter()
        .map(|one| (one.pair.name.as_str(), one))
        .collect()
}

fn judge(
    catalogue: &Catalogue,
    component: Component,
    version: Version,
    (written, ours): (&[WrittenGate], Option<&str>),
    config: &MergedConfig,
    findings: &mut Findings,
) {
    let last = last(written);
    // Up to 1.30, the control plane applies each use of the flag on top of the one before, so each is judged. Later
    // versions, and every kubelet, use only the last value of a gate.
    let each_use = !component.splits_by_prefix(version)
        && !matches!(component, Component::Kubelet | Component::KubeProxy);
    let rounds = written.iter().map(|one| one.round).max().unwrap_or(0);
    if each_use {
        for round in 0..=rounds {
            let of_round: BTreeMap<&str, &WrittenGate> = written
                .iter()
                .filter(|one| one.round == round)
                .map(|one| (one.pair.name.as_str(), one))
                .collect();
            for one_written in of_round.values() {
                judge_gate(
                    catalogue,
                    &one_written.as_set(component, ours),
                    version,
                    findings,
                );
            }
        }
    } else {
        for one_written in last.values() {
            judge_gate(
                catalogue,
                &one_written.as_set(component, ours),
                version,
                findings,
            );
        }
    }
    let sets: Vec<GateAssignment<'_>> = last
        .values()
        .map(|one| one.as_set(component, ours))
        .collect();
    together(catalogue, component, version, &sets, config, findings);
    together_next(catalogue, component, version, &sets, config, findings);
}

fn effective(written: &[WrittenGate]) -> Vec<EffectiveGate> {
    let mut gates: BTreeMap<&str, EffectiveGate> = BTreeMap::new();
    for one in written {
        let value = one.pair.value;
        match gates.get_mut(one.pair.name.as_str()) {
            Some(gate) => {
                gate.overrides
                    .push((gate.value, std::mem::replace(&mut gate.at, one.at.clone())));
                gate.value = value;
            }
            None => {
                gates.insert(
                    &one.pair.name,
                    EffectiveGate {
                        gate: one.pair.name.clone(),
                        value,
                        at: one.at.clone(),
                        overrides: Vec::new(),
                    },
                );
            }
        }
    }
    gates.into_values().collect()
}

fn contradictions(component: Component, gates: &[EffectiveGate], findings: &mut Findings) {
    for gate in gates {
        let against: Vec<Location> = gate
            .overrides
            .iter()
            .filter(|(value, _)| *value != gate.value)
            .map(|(_, at)| at.clone())
            .collect();
        if !against.is_empty() {
            findings.push(
                Code::GateConflict,
                format!(
                    "`{}` is set to {} for {component} and to {} before it: the last one counts. Keep one",
                    gate.gate, gate.value, !gate.value
                ),
                [gate.at.clone()].into_iter().chain(against).collect(),
            );
        }
    }
}

/// Flags that look like `feature-gates`, but that the component does not know.
fn misnamed(component: Component, config: &MergedConfig, findings: &mut Findings) {
    for item in config.list(component.argument()) {
        let (name, _) = split(&item.text);
        // A `:` is a common mistake for the `=`.
        let whole = name.trim_end_matches(['+', '-']);
        let name = whole.split([':', ' ', '\t']).next().unwrap_or(whole);
        let letters: String = name
            .chars()
            .filter(char::is_ascii_alphabetic)
            .map(|letter| letter.to_ascii_lowercase())
            .collect();
        // `feature_gates` is accepted: the components read `_` as `-`.
        if matches!(letters.as_str(), "featuregate" | "featuregates")
            && !matches!(whole, "feature-gates" | "feature_gates")
        {
            findings.push(
                Code::GateFlagName,
                format!("{component} has no flag `--{whole}` and does not start: write feature-gates=Name=true"),
                vec![item.at.clone()],
            );
        }
    }
}

/// Gates that a later key without `+` removed.
fn wiped(config: &MergedConfig, findings: &mut Findings) {
    for wiped in &config.wiped {
        let Some(component) = Component::ALL
            .into_iter()
            .find(|component| component.argument() == wiped.key)
        else {
            continue;
        };
        let lost = flag_values(&wiped.items, "feature-gates");
        let kept = config.flag(&wiped.key, "feature-gates");
        let names: Vec<String> = lost
            .iter()
            .flat_map(|item| syntax::pairs(&item.text, true))
            .filter_map(Result::ok)
            .map(|pair| format!("`{}={}`", pair.name, pair.value))
            .collect();
        // If the list that replaced it contains the gate as well, nothing is lost.
        let again = lost
            .iter()
            .all(|item| kept.iter().any(|kept| kept.text == item.text));
        if names.is_empty() || again {
            continue;
        }
        let at = [wiped.by.clone()]
            .into_iter()
            .chain(lost.iter().map(|item| item.at.clone()));
        findings.push(
            Code::GateWiped,
            format!(
                "`{}:` without `+` replaces the list that set {} for {component}: write `{}+:` there, or repeat the gates",
                wiped.key,
                names.join(", "),
                wiped.key
            ),
            at.collect(),
        );
    }
}

pub fn set_last_at(files: &[Rke2ConfigFile], component: Component, gate: &str) -> Option<Location> {
    let merged = merge(files);
    uses(component, &merged).iter().rev().find_map(|item| {
        syntax::pairs(&item.text, true)
            .into_iter()
            .flatten()
            .any(|pair| pair.name == gate)
            .then(|| item.at.clone())
    })
}

#[cfg(test)]
#[path = "assess_tests.rs"]
mod tests;
