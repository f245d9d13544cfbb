//! E: an Addon of Harvester that does not get settled (harvester#7376).

use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::cure::{Cure, CureGoal, CureMethod, CureRequest, CureStep, SavedObject};
use super::finding::IncidentFinding;
use crate::addons::{AddonParts, AddonState, is_settled, job_of, judge};
use crate::objects::{ObjectKind, Objects, Unlisted, condition, named, restarts, text, waiting};

/// The label by which a Job's pods are known.
const JOB_NAME: &str = "/metadata/labels/batch.kubernetes.io~1job-name";

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    for addon in objects.all(ObjectKind::ADDON)? {
        if is_settled(addon) {
            continue;
        }
        let namespace = text(addon, "/metadata/namespace");
        let chart = objects.get(
            ObjectKind::HELM_CHART,
            namespace,
            text(addon, "/metadata/name"),
        )?;
        let job = match chart.and_then(job_of) {
            Some(name) => objects.get(ObjectKind::JOB, namespace, name)?,
            None => None,
        };
        let pods = pods_of(objects, job)?;
        let parts = AddonParts {
            addon,
            chart,
            job,
            pods: &pods,
        };
        findings.extend(finding_for(&parts, &judge(&parts, now)));
    }
    Ok(findings)
}

fn pods_of(objects: &Objects, job: Option<&Value>) -> Result<Vec<Value>, Unlisted> {
    let Some(job) = job else {
        return Ok(Vec::new());
    };
    let (namespace, name) = (
        text(job, "/metadata/namespace"),
        text(job, "/metadata/name"),
    );
    let pods = objects.all(ObjectKind::POD)?.iter();
    Ok(pods
        .filter(|pod| text(pod, "/metadata/namespace") == namespace && text(pod, JOB_NAME) == name)
        .cloned()
        .collect())
}

fn finding_for(parts: &AddonParts<'_>, state: &AddonState) -> Option<IncidentFinding> {
    let code = match state {
        AddonState::Stuck { .. } => Code::AddonStuck,
        AddonState::Failed { .. } => Code::AddonFailed,
        AddonState::ImageMissing { .. } => Code::AddonImageMissing,
        AddonState::ControllerDown { .. } => Code::AddonControllerDown,
        AddonState::Settled
        | AddonState::NotStarted
        | AddonState::Progressing
        | AddonState::Retrying { .. } => {
            return None;
        }
    };
    let subject = format!("Addon {}", named(parts.addon));
    let mut finding =
        IncidentFinding::new(code, subject.clone(), &state.say()).seen(evidence(&subject, parts));
    if let AddonState::Stuck { job, made, since } = state {
        finding.proof = vec![
            format!("Job {job} was made at {made} and has ended"),
            format!(
                "Harvester takes only a Job that is not older than the Addon's condition InProgress, which \
                 was last updated at {since}"
            ),
            "helm-controller makes no new Job while nothing changes, and Harvester's webhook refuses every \
             change while the operation is in progress"
                .to_owned(),
        ];
        finding.cure = parts.job.map(|found| cure(parts, found));
    }
    Some(finding)
}

fn evidence(subject: &str, parts: &AddonParts<'_>) -> Vec<Evidence> {
    let mut seen = vec![Evidence::new(
        subject,
        "status.status",
        text(parts.addon, "/status/status"),
    )];
    for name in ["InProgress", "OperationFailed"] {
        if let Some(found) = condition(parts.addon, name) {
            let value = [
                text(found, "/status"),
                text(found, "/lastUpdateTime"),
                text(found, "/reason"),
                text(found, "/message"),
            ];
            let value: Vec<&str> = value.into_iter().filter(|part| !part.is_empty()).collect();
            seen.push(Evidence::new(
                subject,
                format!("condition {name}"),
                value.join(" "),
            ));
        }
    }
    match parts.chart {
        Some(chart) => seen.push(Evidence::new(
            format!("HelmChart {}", named(chart)),
            "status.jobName",
            job_of(chart).unwrap_or("(none)"),
        )),
        None => seen.push(Evidence::new(
            format!("HelmChart {}", named(parts.addon)),
            "metadata",
            "it does not exist",
        )),
    }
    if let Some(job) = parts.job {
        let subject = format!("Job {}", named(job));
        for (field, pointer) in [
            ("metadata.creationTimestamp", "/metadata/creationTimestamp"),
            ("status.completionTime", "/status/completionTime"),
        ] {
            if !text(job, pointer).is_empty() {
                seen.push(Evidence::new(&subject, field, text(job, pointer)));
            }
        }
        let failed = job.pointer("/status/failed").and_then(Value::as_i64);
        if let Some(failed) = failed {
            seen.push(Evidence::new(&subject, "status.failed", failed.to_string()));
        }
    }
    for pod in parts.pods {
        let subject = format!("Pod {}", named(pod));
        if restarts(pod) > 0 {
            let restarts = restarts(pod).to_string();
            seen.push(Evidence::new(&subject, "restartCount", restarts));
        }
        seen.extend(waiting(pod).map(|why| Evidence::new(&subject, "waiting", why)));
    }
    seen
}

/// The Job is deleted. helm-controller watches the Jobs that it made and makes the HelmChart's again (its
/// `pkg/controllers/chart/chart.go`, v0.15.15 to v0.17.1), and Harvester takes the first that is not older than
/// its condition. The Addon is not touched: while its operation is in progress Harvester's webhook refuses every
/// change of it, and from v1.7.0 on the deletion of most Addons at any time.
fn cure(parts: &AddonParts<'_>, job: &Value) -> Cure {
    let addon = parts.addon;
    let (namespace, name) = (
        text(addon, "/metadata/namespace"),
        text(addon, "/metadata/name"),
    );
    let (job_name, uid) = (text(job, "/metadata/name"), text(job, "/metadata/uid"));
    let path = ObjectKind::JOB.object_path(namespace, job_name);
    let mut steps = vec![CureStep {
        say: format!("delete Job {namespace}/{job_name}; helm-controller makes it again"),
        request: Some(CureRequest {
            method: CureMethod::Delete,
            path: path.clone(),
            body: json!({
                "apiVersion": "v1", "kind": "DeleteOptions",
                "propagationPolicy": "Background", "preconditions": {"uid": uid}
            }),
        }),
        goal: CureGoal::Anew {
            path: path.clone(),
            before: uid.to_owned(),
        },
        patience: 300,
    }];
    if addon.pointer("/spec/enabled") == Some(&json!(true)) {
        steps.push(CureStep {
            say: format!("wait until Addon {namespace}/{name} is deployed"),
            request: None,
            goal: CureGoal::Field {
                path: ObjectKind::ADDON.object_path(namespace, name),
                before: None,
                field: "/status/status".to_owned(),
                value: json!("AddonDeploySuccessful"),
            },
            patience: 1800,
        });
    }
    Cure {
        summary: format!("have the Job of Addon {namespace}/{name} made again"),
        changes: vec![
            format!(
                "Job {namespace}/{job_name} is deleted with its pods, and helm-controller makes it again: the chart is \
                 installed once more over what it runs, with the same values"
            ),
            "neither the Addon nor what its chart runs is deleted".to_owned(),
        ],
        saves: vec![SavedObject {
            path,
            object: job.clone(),
        }],
        steps,
    }
}
