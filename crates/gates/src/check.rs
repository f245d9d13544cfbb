//! Would the components start? Every request is judged, and all errors are reported at once.

use std::collections::BTreeMap;

use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};
use windrow_model::suggest::nearest;
use windrow_plan::rke2::config::MergedConfig;
use windrow_plan::version::{Minor, Version};

use super::catalogue::{Catalogue, Gate, GateStanding, Stage};
use super::findings::{Findings, GateAssignment};
use super::together::{together, together_anywhere, together_next};
use super::{Component, GateRequest, target};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetVersion {
    Known(Version),
    OneOf(Vec<Version>),
    Unknown,
}

impl TargetVersion {
    /// Every version that may start; every covered minor if the version is unknown.
    pub fn plausible(&self, catalogue: &Catalogue) -> Vec<Version> {
        match self {
            TargetVersion::Known(version) => vec![*version],
            TargetVersion::OneOf(versions) if !versions.is_empty() => versions.clone(),
            TargetVersion::OneOf(_) | TargetVersion::Unknown => {
                catalogue.minors().map(Version::from).collect()
            }
        }
    }
}

/// The version that will start, as it is stored.
pub fn version_text(target: &TargetVersion) -> String {
    match target {
        TargetVersion::Known(version) => version.to_string(),
        TargetVersion::OneOf(versions) => target::list(versions),
        TargetVersion::Unknown => "a version that is not known".to_owned(),
    }
}

/// Is this a result of [`version_text`]?
pub(crate) fn is_version_text(text: &str) -> bool {
    let is_version = |one: &str| {
        let version = one.parse::<Version>();
        version.is_ok_and(|version| version.to_string() == one)
    };
    text.is_empty()
        || text.split(target::OR).all(is_version)
        || text == version_text(&TargetVersion::Unknown)
}

/// Is one of the versions that may start in a result of [`version_text`]?
pub(crate) fn may_be_one_of(target: &TargetVersion, text: &str) -> bool {
    let is_named = |it: &Version| text.split(target::OR).any(|one| one == it.to_string());
    match target {
        TargetVersion::Known(version) => is_named(version),
        TargetVersion::OneOf(versions) => versions.iter().any(is_named),
        TargetVersion::Unknown => true,
    }
}

/// Did a user who requested a version with this result of [`version_text`] mean every version that may start now?
pub(crate) fn was_asked_for(target: &TargetVersion, text: &str) -> bool {
    let asked = |it: &Version| text.split(target::OR).any(|one| one == it.to_string());
    text == version_text(&TargetVersion::Unknown)
        || match target {
            TargetVersion::Known(version) => asked(version),
            TargetVersion::OneOf(versions) => versions.iter().all(asked),
            TargetVersion::Unknown => false,
        }
}

/// Judges requests against the version that will start, or against each plausible one if it is unknown. An error means
/// that a component would not start, or that the request is refused. `config` is the rest of the configuration that
/// RKE2 gives to the components.
pub fn check(
    requests: &[GateRequest],
    target: &TargetVersion,
    config: &MergedConfig,
) -> Vec<Finding> {
    let mut findings = Findings::default();
    if requests.is_empty() {
        return findings.done();
    }
    let catalogue = Catalogue::builtin();
    if *target == TargetVersion::Unknown {
        for request in requests {
            anywhere(catalogue, &request.as_set(), &mut findings);
        }
        for component in Component::ALL {
            let asked = requests
                .iter()
                .filter(|request| request.component == component);
            let sets: Vec<GateAssignment<'_>> = asked.map(GateRequest::as_set).collect();
            together_anywhere(catalogue, component, &sets, config, &mut findings);
        }
        return findings.done();
    }
    for version in target.plausible(catalogue) {
        let mut meant: BTreeMap<Component, Vec<GateAssignment<'_>>> = BTreeMap::new();
        for request in requests.iter().filter(|request| request.meant_on(version)) {
            meant
                .entry(request.component)
                .or_default()
                .push(request.as_set());
        }
        for (component, sets) in &meant {
            for set in sets {
                judge_gate(catalogue, set, version, &mut findings);
            }
            together(catalogue, *component, version, sets, config, &mut findings);
            together_next(catalogue, *component, version, sets, config, &mut findings);
        }
    }
    findings.done()
}

/// Judges one gate without a known version: it is an error if no minor accepts it.
pub(super) fn anywhere(catalogue: &Catalogue, set: &GateAssignment<'_>, findings: &mut Findings) {
    let meant = |minor: &Minor| set.when.is_none_or(|when| when.admits(*minor));
    let mut takes = catalogue
        .gate(set.gate)
        .map_or_else(Vec::new, |gate| gate.takes(set.value));
    takes.retain(meant);
    let covered = catalogue.minors().filter(meant).count();
    match (takes.len(), catalogue.minors().rfind(meant)) {
        (0, Some(newest)) => judge_gate(catalogue, set, newest.into(), findings),
        (some, _) if some < covered => findings.push(
            Code::GateTargetUnknown,
            format!(
                "`{}={}` works with {} of Kubernetes {} only, and Windrow cannot tell which version will start: name it with --rke2",
                set.gate,
                set.value,
                set.component,
                range(&takes)
            ),
            vec![set.at.clone()],
        ),
        _ => {}
    }
}

pub(super) fn judge_gate(
    catalogue: &Catalogue,
    set: &GateAssignment<'_>,
    version: Version,
    findings: &mut Findings,
) {
    let minor = version.minor;
    let GateAssignment {
        component,
        gate: name,
        value,
        ..
    } = *set;
    let mut say = |code: Code, severity: Severity, message: String| {
        let why = set.reason.map_or(String::new(), |reason| {
            format!(" (asked for because: {reason})")
        });
        findings.push_as(code, severity, message + &why, vec![set.at.clone()]);
    };
    if matches!(name, "AllAlpha" | "AllBeta") {
        let severity = match set.ours {
            true => Severity::Error,
            false => Severity::Warning,
        };
        say(
            Code::GateGroup,
            severity,
            format!(
                "`{name}={value}` for {component} sets every gate of a stage, and these differ between minors: name single gates instead"
            ),
        );
        return;
    }
    let Some(gate) = catalogue.gate(name) else {
        let (code, severity, message) = not_in_catalogue(catalogue, set, version);
        return say(code, severity, message);
    };
    let (code, message) = match gate.at(version) {
        GateStanding::Known(_) | GateStanding::Doubtful { .. }
            if gate.is_unknown_to(component, minor) =>
        {
            let message = format!(
                "{component} {version} does not know the feature gate `{name}`, which other components of that version have, and does not start with it. Remove it"
            );
            (Code::GateUnknown, message)
        }
        GateStanding::Uncovered => (Code::GateUncovered, uncovered(catalogue, set, version)),
        GateStanding::Gone(since) => (
            Code::GateRemoved,
            format!(
                "`{name}` was removed in Kubernetes {since}: {component} {version} does not start with it, true or false. {}",
                remedy(gate, set, version)
            ),
        ),
        GateStanding::NotYet(from) => (
            Code::GateTooNew,
            format!(
                "`{name}` comes with Kubernetes {from}: {component} {version} does not start with it, true or false. Remove it{}",
                set.or_limit(&format!(">={}", from.minor))
            ),
        ),
        GateStanding::Doubtful { patch, .. } => {
            say(
                Code::GatePatch,
                Severity::Warning,
                format!(
                    "`{name}` came to Kubernetes {minor} with {patch}; {component} does not start with it on an older patch, and Windrow cannot tell which patch starts"
                ),
            );
            known(gate, set, version, &mut say);
            return;
        }
        GateStanding::Known(_) => {
            known(gate, set, version, &mut say);
            return;
        }
    };
    say(code, code.severity(), message);
}

/// The error for a gate that is in no catalogue.
fn not_in_catalogue(
    catalogue: &Catalogue,
    set: &GateAssignment<'_>,
    version: Version,
) -> (Code, Severity, String) {
    if catalogue.covers(version.minor) {
        let (code, message) = unknown(catalogue, set, version);
        return (code, code.severity(), message);
    }
    if is_pod_selectors(set.gate) {
        let message = pod_selectors(catalogue);
        return (Code::GatePodSelectors, Severity::Error, message);
    }
    let message = uncovered(catalogue, set, version);
    (Code::GateUncovered, Severity::Warning, message)
}

fn known(
    gate: &Gate,
    set: &GateAssignment<'_>,
    version: Version,
    say: &mut impl FnMut(Code, Severity, String),
) {
    let (GateStanding::Known(state) | GateStanding::Doubtful { state, .. }) = gate.at(version)
    else {
        return;
    };
    let GateAssignment {
        component,
        gate: name,
        value,
        ..
    } = *set;
    if state.locked && state.default != value {
        let code = Code::GateLocked;
        say(
            code,
            code.severity(),
            format!(
                "`{name}` is locked to {} in Kubernetes {}: {component} {version} does not start with {name}={value}. {}",
                state.default,
                version.minor,
                remedy(gate, set, version)
            ),
        );
        return;
    }
    if let Some(reader) = gate.read_by().filter(|reader| *reader != component) {
        say(
            Code::GateComponent,
            Severity::Warning,
            format!(
                "only {reader} reads `{name}`: set for {component} it changes nothing, and can still keep {component} from starting later. Set it for {reader}"
            ),
        );
    }
    let next = version.minor.next();
    let later = match gate.at(next) {
        GateStanding::Gone(_) => Some(format!("{next} does not know it any more")),
        GateStanding::Known(later) if later.locked && later.default != value => {
            Some(format!("{next} locks it to {}", later.default))
        }
        _ => None,
    };
    // If `when` limits it to this minor, it is removed automatically.
    let later = later.filter(|_| set.when.is_none_or(|when| when.admits(next)));
    if let Some(later) = later {
        say(
            Code::GateNextMinor,
            Severity::Warning,
            format!(
                "`{name}={value}` works with {component} {version} and stops it at the next minor: Kubernetes {later}. Remove it before the upgrade{}",
                set.or_limit(&format!("<{next}"))
            ),
        );
    } else if matches!(state.stage, Stage::Ga | Stage::Deprecated) {
        say(
            Code::GateStage,
            Severity::Warning,
            format!(
                "`{name}` is {} in Kubernetes {}: the gate will be removed, and {component} will then not start with it. {}",
                state.stage.as_str(),
                version.minor,
                match state.default == value {
                    true => format!("{value} is its default: remove it"),
                    false => "Plan to do without it".to_owned(),
                }
            ),
        );
    }
}

fn uncovered(catalogue: &Catalogue, set: &GateAssignment<'_>, version: Version) -> String {
    let covered = match (catalogue.minors().next(), catalogue.minors().next_back()) {
        (Some(first), Some(last)) => format!("{first} to {last}"),
        _ => "no minor".to_owned(),
    };
    format!(
        "Windrow does not know the gates of Kubernetes {} (the catalogue covers {covered}), so it cannot tell whether {} starts with `{}={}`",
        version.minor, set.component, set.gate, set.value
    )
}

/// The error for a name that no minor has.
fn unknown(catalogue: &Catalogue, set: &GateAssignment<'_>, version: Version) -> (Code, String) {
    let GateAssignment {
        component,
        gate: name,
        ..
    } = *set;
    if is_pod_selectors(name) {
        return (Code::GatePodSelectors, pod_selectors(catalogue));
    }
    let fails = format!("{component} {version} does not start with it");
    if let Some(written) = catalogue.constant(name) {
        return (
            Code::GateConstant,
            format!(
                "`{name}` is the constant's name in the sources, the gate is called `{written}`: {fails}"
            ),
        );
    }
    if let Some(last) = catalogue.last_known_to(name) {
        return (
            Code::GateRemoved,
            format!(
                "`{name}` was removed after Kubernetes {last}: {fails}, true or false. Remove it"
            ),
        );
    }
    if let Some(gate) = catalogue.gate_in_any_case(name) {
        let written = gate.name();
        let either = match gate.at(version) {
            GateStanding::Known(_) | GateStanding::Doubtful { .. } => "",
            _ => ", and it does not know that name either",
        };
        return (
            Code::GateCase,
            format!("`{name}` is written `{written}`, case counts: {fails}{either}"),
        );
    }
    if let Some(program) = catalogue.elsewhere(name) {
        let place = match program {
            "KubeVirt" => {
                "set it in the KubeVirt object under spec.configuration.developerConfiguration.featureGates"
            }
            "kubeadm" => "RKE2 does not use kubeadm; remove it",
            _ => "set it there",
        };
        return (
            Code::GateElsewhere,
            format!(
                "`{name}` is a gate of {program}, not of Kubernetes: {fails}. Instead, {place}"
            ),
        );
    }
    let knows = |gate: &&Gate| {
        matches!(
            gate.at(version),
            GateStanding::Known(_) | GateStanding::Doubtful { .. }
        )
    };
    let here = catalogue.gates().filter(knows).map(Gate::name);
    let meant = match nearest(name, here) {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None => match nearest(name, catalogue.gates().map(Gate::name)) {
            Some(meant) => {
                format!("; it resembles `{meant}`, which {version} does not know either")
            }
            None => "; remove it, or look its name up".to_owned(),
        },
    };
    (
        Code::GateUnknown,
        format!("there is no feature gate `{name}`: {fails}{meant}"),
    )
}

/// The name that articles about KEP-4601 give for its gate.
fn is_pod_selectors(name: &str) -> bool {
    name.eq_ignore_ascii_case("NodeAuthorizerEnablePodSelectors")
}

const BY_SELECTOR: &str = "List pods by the field selector spec.nodeName=<the node>";

fn pod_selectors(catalogue: &Catalogue) -> String {
    let valid = catalogue
        .gate("AuthorizeNodeWithSelectors")
        .map_or_else(Vec::new, |gate| gate.takes(false));
    format!(
        "no version has the gate `NodeAuthorizerEnablePodSelectors`; `AuthorizeNodeWithSelectors` was meant, which may be false only in {}. {BY_SELECTOR}",
        range(&valid)
    )
}

/// The fix for a gate whose value the version refuses.
fn remedy(gate: &Gate, set: &GateAssignment<'_>, version: Version) -> String {
    let value = set.value;
    let takes = gate.takes(value);
    let last = takes.iter().rev().find(|minor| **minor < version.minor);
    let mut text = match (takes.first(), last) {
        (Some(first), Some(last)) => {
            // If it is older than the covered minors, it has no lower bound.
            let from = match gate.at(Minor {
                minor: first.minor.saturating_sub(1),
                ..*first
            }) {
                GateStanding::NotYet(_) => format!(">={first}, "),
                _ => String::new(),
            };
            let limit = set.or_limit(&format!("{from}<{}", last.next()));
            format!("Remove it{limit}")
        }
        _ => "Remove it".to_owned(),
    };
    if !value
        && matches!(
            gate.name(),
            "AuthorizeNodeWithSelectors" | "AuthorizeWithSelectors"
        )
    {
        text.push_str(". ");
        text.push_str(BY_SELECTOR);
    }
    text
}

pub(super) fn range(minors: &[Minor]) -> String {
    let runs: Vec<String> = minors
        .chunk_by(|one, next| one.next() == *next)
        .filter_map(|run| match run {
            [] => None,
            [only] => Some(only.to_string()),
            [first, .., last] => Some(format!("{first} to {last}")),
        })
        .collect();
    match runs.as_slice() {
        [] => "no known version".to_owned(),
        runs => runs.join(" and "),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
