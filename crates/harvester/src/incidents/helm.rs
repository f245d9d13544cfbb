//! A chart whose Job fails repeatedly. helm-controller limits a Job to a thousand attempts, so it practically never gives up,
//! unless the chart sets its own limit. For an Addon of Harvester the limit is five, after which the Addon fails. The Jobs have
//! `restartPolicy: OnFailure` (helm-controller's `pkg/controllers/chart/chart.go`): the containers of the pod count failed
//! attempts, and the Job counts only lost pods.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::finding::IncidentFinding;
use crate::addons::job_of;
use crate::objects::{ObjectKind, Objects, Unlisted, is_true, named, text};
use crate::objects::{last_ends, restarts, waiting};

/// This many failed attempts are not temporary: a chart that depends on another one fails once or twice at first.
const MANY: u64 = 5;

/// The label with the name of the Job on its pods.
const JOB_NAME: &str = "/metadata/labels/batch.kubernetes.io~1job-name";

pub(super) fn find(objects: &Objects, _: Timestamp) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    for chart in objects.all(ObjectKind::HELM_CHART)? {
        let namespace = text(chart, "/metadata/namespace");
        let Some(name) = job_of(chart) else { continue };
        let Some(job) = objects.get(ObjectKind::JOB, namespace, &name)? else {
            continue;
        };
        if is_true(job, "Complete") || is_true(job, "Failed") {
            continue;
        }
        let pods = objects.all(ObjectKind::POD)?.iter().filter(|pod| {
            text(pod, "/metadata/namespace") == namespace && text(pod, JOB_NAME) == name
        });
        findings.extend(retrying_chart(chart, job, &pods.collect::<Vec<_>>()));
    }
    Ok(findings)
}

fn retrying_chart(chart: &Value, job: &Value, pods: &[&Value]) -> Option<IncidentFinding> {
    let lost = job.pointer("/status/failed").and_then(Value::as_u64);
    let lost = lost.unwrap_or_default();
    let failed = lost + pods.iter().map(|pod| restarts(pod)).sum::<u64>();
    let limit = job.pointer("/spec/backoffLimit").and_then(Value::as_u64);
    // A Job with a low limit would already have given up, so it is reported earlier.
    let many = limit.map_or(MANY, |limit| MANY.min(limit / 2 + 1));
    if failed < many {
        return None;
    }
    let limit = limit.map_or_else(String::new, |limit| format!(", and gives up at {limit}"));
    let name = text(job, "/metadata/name");
    let why = format!("its Job {name} failed {failed} times{limit}");
    let subject = format!("HelmChart {}", named(chart));
    let mut finding = IncidentFinding::new(Code::ChartRetries, subject, &why);
    if lost > 0 {
        let subject = format!("Job {}", named(job));
        let seen = Evidence::new(subject, "status.failed", lost.to_string());
        finding.evidence.push(seen);
    }
    for pod in pods {
        let subject = format!("Pod {}", named(pod));
        let seen = |field: &str, value: String| Evidence::new(&subject, field, value);
        if restarts(pod) > 0 {
            let restarts = restarts(pod).to_string();
            finding.evidence.push(seen("restartCount", restarts));
        }
        let waits = waiting(pod).map(|why| seen("waiting", why));
        finding.evidence.extend(waits);
        let ended = last_ends(pod).map(|why| seen("lastState.terminated", why));
        finding.evidence.extend(ended);
    }
    Some(finding)
}
