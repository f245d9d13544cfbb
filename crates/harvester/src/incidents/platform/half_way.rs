//! Helm releases of the platform in an interrupted change. Helm then rejects all changes, and an upgrade of Harvester waits
//! forever for those of Fleet and Rancher (harvester#9738, harvester#9680; Harvester's documentation of the upgrades to v1.4.0
//! and v1.7). For releases of helm-controller, the HelmChart shows the problem.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};
use windrow_model::text::shell_word;

use super::{is_platforms, is_upgrading};
use crate::incidents::finding::IncidentFinding;
use crate::incidents::release::written;
use crate::objects::{ObjectKind, Objects, Unlisted, named, text};
use crate::upgrade::label;

/// Helm waits ten minutes for Harvester's own charts (`timeoutSeconds`).
const PATIENCE: SignedDuration = SignedDuration::from_mins(30);
/// An upgrade of Harvester waits for these releases without a limit (harvester v1.8.2 `package/upgrade/upgrade_manifests.sh`,
/// `wait_helm_release`; harvester#9374).
const OF_UPGRADE: [(&str, &str); 4] = [
    ("cattle-fleet-system", "fleet"),
    ("cattle-fleet-system", "fleet-crd"),
    ("cattle-system", "rancher"),
    ("cattle-system", "rancher-webhook"),
];
const HALF_WAY: &[&str] = &["pending-install", "pending-upgrade", "pending-rollback"];

pub(in crate::incidents) fn find(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    // Without these charts the cluster is not Harvester.
    if objects.all(ObjectKind::MANAGED_CHART)?.is_empty() {
        return Ok(Vec::new());
    }
    let mut releases: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    let all = objects.all(ObjectKind::HELM_RELEASE)?.iter();
    for revision in all.filter(|release| is_platforms(release)) {
        let release = (
            text(revision, "/metadata/namespace"),
            label(revision, "name"),
        );
        releases.entry(release).or_default().push(revision);
    }
    let mut findings = Vec::new();
    for ((namespace, name), revisions) in releases {
        let number = |one: &&&Value| label(one, "version").parse::<u64>().unwrap_or_default();
        let newest = revisions.iter().max_by_key(number);
        let is_late = |one: &&&Value| {
            HALF_WAY.contains(&label(one, "status"))
                && written(one).is_some_and(|at| now.duration_since(at) > PATIENCE)
        };
        let Some(newest) = newest.filter(is_late) else {
            continue;
        };
        let helm_chart = objects.get(ObjectKind::HELM_CHART, namespace, name)?;
        if helm_chart.is_none() {
            let deployed = revisions
                .iter()
                .filter(|one| label(one, "status") == "deployed");
            let deployed = deployed.max_by_key(number).copied();
            let mut finding = left(namespace, name, newest, deployed);
            if OF_UPGRADE.contains(&(namespace, name)) && is_upgrading(objects)? {
                finding.severity = Severity::Error;
            }
            findings.push(finding);
        }
    }
    Ok(findings)
}

fn left(namespace: &str, name: &str, newest: &Value, deployed: Option<&Value>) -> IncidentFinding {
    let status = label(newest, "status");
    let subject = format!("Helm release {namespace}/{name}");
    let why = format!(
        "its newest revision, {}, is `{status}`",
        label(newest, "version")
    );
    let secret = |one: &Value| format!("Secret {}", named(one));
    let mut seen = vec![
        Evidence::new(secret(newest), "metadata.labels.status", status),
        Evidence::new(
            secret(newest),
            "last written",
            written(newest).map_or_else(String::new, |at| at.to_string()),
        ),
    ];
    let mut finding = match deployed {
        None => IncidentFinding::new(Code::ReleaseHalfWay, subject, &why),
        Some(deployed) => {
            let field = "metadata.labels.status";
            seen.push(Evidence::new(secret(deployed), field, "deployed"));
            let mut finding = IncidentFinding::new(Code::ReleaseHalfWay, subject, &why);
            finding.advice = format!(
                "`helm rollback {} {} -n {}` returns to the deployed revision. For Fleet, Rancher then \
                 upgrades it automatically; restart Rancher's pods to speed this up.",
                shell_word(name),
                shell_word(label(deployed, "version")),
                shell_word(namespace)
            );
            finding
        }
    };
    let proof = "Helm changes no release that another change has begun and not ended";
    finding.proof.push(proof.to_owned());
    finding.seen(seen)
}
