//! Does helm-controller keep an ended Job? From 0.16.26 and 0.17.5 on it can replace a complete one, unless the newest release of the chart is
//! `deployed` with the hash of the Job's configuration (`pkg/controllers/chart/chart.go`, `getJobAndRelatedResources`).

use serde_json::Value;

use crate::addons::AddonParts;
use crate::objects::{ObjectKind, Objects, Unlisted, is_true, text};

/// The label that klipper-helm writes to the release, as a pointer.
const HASH: &str = "/metadata/labels/helmcharts.helm.cattle.io~1configHash";

/// Why helm-controller may still replace the Job; `None` if it keeps it.
pub(super) fn why_not(
    objects: &Objects,
    parts: &AddonParts<'_>,
) -> Result<Option<String>, Unlisted> {
    let (Some(chart), Some(job)) = (parts.chart, parts.job) else {
        return Ok(Some("the Job was not found".to_owned()));
    };
    // A failed Job is kept as long as the configuration stays the same, and so is one that deletes the chart.
    if !is_true(job, "Complete") {
        return Ok(None);
    }
    let releases = match objects.all(ObjectKind::HELM_RELEASE) {
        Err(unlisted) if unlisted.wanted => return Err(unlisted),
        Err(unlisted) => return Ok(Some(unlisted.to_string())),
        Ok(releases) => releases,
    };
    let hash = configuration_hash(job);
    let newest = newest(releases, chart);
    let is_kept = newest.is_some_and(|release| {
        text(release, "/metadata/labels/status") == "deployed"
            && !hash.is_empty()
            && text(release, HASH) == hash
    });
    let why = "helm-controller may replace the Job: no deployed release has the hash of its configuration";
    Ok((!is_kept).then(|| why.to_owned()))
}

/// The newest revision. Without a target namespace helm-controller looks in all of them.
fn newest<'o>(releases: &'o [Value], chart: &Value) -> Option<&'o Value> {
    let namespace = text(chart, "/spec/targetNamespace");
    let of_chart = |release: &&Value| {
        text(release, "/metadata/labels/name") == text(chart, "/metadata/name")
            && (namespace.is_empty() || text(release, "/metadata/namespace") == namespace)
    };
    let revision = |release: &&Value| {
        text(release, "/metadata/labels/version")
            .parse::<u64>()
            .ok()
    };
    releases.iter().filter(of_chart).max_by_key(revision)
}

/// The hash in the pod template, as helm-controller shortens it to the length of a label's value.
fn configuration_hash(job: &Value) -> &str {
    let annotation = text(
        job,
        "/spec/template/metadata/annotations/helmcharts.helm.cattle.io~1configHash",
    );
    let hash = annotation.strip_prefix("SHA256=").unwrap_or_default();
    hash.get(..63).unwrap_or(hash)
}
