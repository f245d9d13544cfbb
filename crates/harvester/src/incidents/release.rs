//! An Addon that Harvester reports as disabled, although its Helm release still exists (harvester#10803).
//!
//! The Job that deletes a chart runs klipper-helm, whose `entry` ignores a failure of `helm uninstall` (`|| true` in all examined
//! builds from v0.9.2 to v0.13.3). The Job succeeds, helm-controller removes the HelmChart, and Harvester writes AddonDisabled.
//! Helm deletes the Secrets of a release at the end of a successful uninstall, so existing Secrets are the proof.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::finding::IncidentFinding;
use crate::addons::is_settled;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, named, text};

/// A younger release may belong to a running operation of the Addon: kube-apiserver serves a list of Secrets from its cache,
/// which may be slightly outdated.
const SETTLED: SignedDuration = SignedDuration::from_mins(10);

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    // The Addons are read first, so that the releases were read when the Addons were already off.
    for addon in objects.all(ObjectKind::ADDON)? {
        let is_on = addon["spec"]["enabled"].as_bool().unwrap_or_default();
        if is_on || !is_settled(addon) || was_just_disabled(addon, now) {
            continue;
        }
        let (namespace, name) = (
            text(addon, "/metadata/namespace"),
            text(addon, "/metadata/name"),
        );
        if objects
            .get(ObjectKind::HELM_CHART, namespace, name)?
            .is_some()
        {
            continue;
        }
        let releases = objects.all(ObjectKind::HELM_RELEASE)?;
        findings.extend(
            newest(releases, namespace, name).and_then(|release| left(addon, release, now)),
        );
    }
    Ok(findings)
}

/// Harvester writes a time into each condition that it changes.
fn was_just_disabled(addon: &Value, now: Timestamp) -> bool {
    let times = Condition::all(addon).filter_map(|condition| condition.since());
    times
        .max()
        .is_some_and(|at| now.duration_since(at) < SETTLED)
}

fn newest<'o>(releases: &'o [Value], namespace: &str, name: &str) -> Option<&'o Value> {
    let of_release = |release: &&Value| {
        text(release, "/metadata/namespace") == namespace
            && text(release, "/metadata/labels/name") == name
    };
    let revision = |release: &&Value| {
        text(release, "/metadata/labels/version")
            .parse::<u64>()
            .ok()
    };
    releases.iter().filter(of_release).max_by_key(revision)
}

/// When Helm last wrote it: seconds since 1970, in Helm's own labels.
pub(super) fn written(release: &Value) -> Option<Timestamp> {
    let labels = ["/metadata/labels/modifiedAt", "/metadata/labels/createdAt"];
    let seconds = labels
        .iter()
        .find_map(|label| text(release, label).parse().ok());
    match seconds {
        Some(seconds) => Timestamp::from_second(seconds).ok(),
        None => text(release, "/metadata/creationTimestamp").parse().ok(),
    }
}

/// An uninstalled release whose history is kept does not count.
fn left(addon: &Value, release: &Value, now: Timestamp) -> Option<IncidentFinding> {
    let status = text(release, "/metadata/labels/status");
    let since = written(release)?;
    if matches!(status, "" | "uninstalled") || now.duration_since(since) < SETTLED {
        return None;
    }
    let subject = format!("Addon {}", named(addon));
    let state = match text(addon, "/status/status") {
        "" => "never enabled",
        status => status,
    };
    let why = format!("Helm has a release of it that is `{status}`");
    let secret = format!("Secret {}", named(release));
    let seen = [
        Evidence::new(&subject, "status.status", state),
        Evidence::new(
            format!("HelmChart {}", named(addon)),
            "metadata",
            "it does not exist",
        ),
        Evidence::new(&secret, "metadata.labels.status", status),
        Evidence::new(&secret, "last written", since.to_string()),
    ];
    let mut finding = IncidentFinding::new(Code::ReleaseLeft, subject, &why).seen(seen);
    finding.proof = vec![
        "Helm removes the Secrets of a release after it has uninstalled it".to_owned(),
        "without a HelmChart helm-controller makes no Job that could uninstall it".to_owned(),
    ];
    Some(finding)
}
