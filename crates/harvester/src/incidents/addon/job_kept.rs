//! Finds out whether helm-controller keeps a finished Job. From 0.16.26 and 0.17.5 on it may replace a complete Job, unless the
//! newest release of the chart is `deployed` with the configuration hash of the Job (`pkg/controllers/chart/chart.go`,
//! `getJobAndRelatedResources`).

use serde_json::Value;

use crate::addons::AddonParts;
use crate::objects::{ObjectKind, Objects, Unlisted, is_true, text};

/// JSON pointer to the label that klipper-helm writes to the release.
const HASH: &str = "/metadata/labels/helmcharts.helm.cattle.io~1configHash";

/// The reason why helm-controller may still replace the Job; `None` if it keeps it.
pub(super) fn why_not(
    objects: &Objects,
    parts: &AddonParts<'_>,
) -> Result<Option<String>, Unlisted> {
    let (Some(chart), Some(job)) = (parts.chart, parts.job) else {
        return Ok(Some("the Job was not found".to_owned()));
    };
    // A failed Job stays while the configuration is unchanged, and so does a Job that deletes the chart.
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

/// The newest revision. If the chart has no target namespace, helm-controller searches all namespaces.
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

/// The hash in the pod template, which helm-controller truncates to the maximum length of a label value.
fn configuration_hash(job: &Value) -> &str {
    let annotation = text(
        job,
        "/spec/template/metadata/annotations/helmcharts.helm.cattle.io~1configHash",
    );
    let hash = annotation.strip_prefix("SHA256=").unwrap_or_default();
    hash.get(..63).unwrap_or(hash)
}
