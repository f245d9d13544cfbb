//! Gates of one component that do not work together, or not with its other arguments.

use windrow_model::findings::Location;
use windrow_model::reasons::Code;
use windrow_plan::rke2::config::MergedConfig;
use windrow_plan::version::Version;

use super::catalogue::Catalogue;
use super::check::range;
use super::findings::{Findings, GateAssignment};
use super::{Component, apis, dependencies};

/// Judges the gates of a component together, and with its other arguments.
pub(super) fn together(
    catalogue: &Catalogue,
    component: Component,
    version: Version,
    sets: &[GateAssignment<'_>],
    config: &MergedConfig,
    findings: &mut Findings,
) {
    judge(
        catalogue,
        component,
        (version, version),
        sets,
        config,
        findings,
    );
}

/// Judges them for one version. Its advice also works with the running version.
fn judge(
    catalogue: &Catalogue,
    component: Component,
    (version, runs): (Version, Version),
    sets: &[GateAssignment<'_>],
    config: &MergedConfig,
    findings: &mut Findings,
) {
    dependencies::report(catalogue, component, version, sets, findings);
    if component == Component::KubeApiserver {
        apis::report(catalogue, (version, runs), sets, config, findings);
    }
}

/// Combinations that work now and stop the component at the next minor.
pub(super) fn together_next(
    catalogue: &Catalogue,
    component: Component,
    version: Version,
    sets: &[GateAssignment<'_>],
    config: &MergedConfig,
    findings: &mut Findings,
) {
    let next = version.minor.next();
    let judged = |at: Version, sets: &[GateAssignment<'_>]| {
        let mut found = Findings::default();
        judge(
            catalogue,
            component,
            (at, version),
            sets,
            config,
            &mut found,
        );
        found.done()
    };
    if !judged(version, sets).is_empty() {
        return;
    }
    let takes = |set: &&GateAssignment<'_>| {
        let known = catalogue.gate(set.gate).map(|gate| gate.takes(set.value));
        let group = matches!(set.gate, "AllAlpha" | "AllBeta");
        (group || known.is_some_and(|minors| minors.contains(&next)))
            && set.when.is_none_or(|when| when.admits(next))
    };
    // Gates that the next minor refuses have their own warning.
    let stay: Vec<GateAssignment<'_>> = sets.iter().filter(takes).copied().collect();
    for finding in judged(next.into(), &stay) {
        let message = format!(
            "this works with {component} {version} and stops at the next minor: {}",
            finding.message
        );
        findings.push(Code::GateNextMinor, message, finding.at);
    }
}

/// The same without a known version: it is an error if it is one in every minor.
pub(super) fn together_anywhere(
    catalogue: &Catalogue,
    component: Component,
    sets: &[GateAssignment<'_>],
    config: &MergedConfig,
    findings: &mut Findings,
) {
    let (mut fine, mut wrong) = (Vec::new(), Vec::new());
    for minor in catalogue.minors() {
        let meant = |set: &&GateAssignment<'_>| set.when.is_none_or(|when| when.admits(minor));
        let meant: Vec<GateAssignment<'_>> = sets.iter().filter(meant).copied().collect();
        let mut found = Findings::default();
        together(
            catalogue,
            component,
            minor.into(),
            &meant,
            config,
            &mut found,
        );
        match found.done() {
            found if found.is_empty() => fine.push(minor),
            found => wrong.push(found),
        }
    }
    let Some(newest) = wrong.last() else { return };
    if fine.is_empty() {
        for finding in newest {
            findings.push(finding.code, finding.message.clone(), finding.at.clone());
        }
        return;
    }
    let mut at: Vec<Location> = Vec::new();
    for place in wrong.iter().flatten().flat_map(|finding| &finding.at) {
        if !at.contains(place) {
            at.push(place.clone());
        }
    }
    findings.push(
        Code::GateTargetUnknown,
        format!(
            "with the other arguments, {component} starts with these feature gates in Kubernetes {} only, and Windrow cannot tell which version will start: name it with --rke2",
            range(&fine)
        ),
        at,
    );
}
