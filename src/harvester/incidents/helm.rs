//! A chart whose Job fails again and again: helm-controller's Jobs have a limit of a thousand tries, so
//! they practically never give up by themselves.

use jiff::Timestamp;
use serde_json::Value;

use super::finding::{Evidence, Finding};
use crate::harvester::addons::job_of;
use crate::harvester::objects::{Kind, Objects, Unlisted, is_true, named, text, waiting};
use crate::reasons::Code;

/// So many failed tries are no hiccup: a chart that needs another one first fails once or twice.
const MANY: i64 = 5;

pub(super) fn find(objects: &Objects, _: Timestamp) -> Result<Vec<Finding>, Unlisted> {
    let mut findings = Vec::new();
    for chart in objects.all(Kind::HELM_CHART)? {
        let namespace = text(chart, "/metadata/namespace");
        let Some(name) = job_of(chart) else { continue };
        let Some(job) = objects.one(Kind::JOB, namespace, name)? else {
            continue;
        };
        let failed = job.pointer("/status/failed").and_then(Value::as_i64);
        let failed = failed.unwrap_or_default();
        if failed < MANY || is_true(job, "Complete") || is_true(job, "Failed") {
            continue;
        }
        let why = format!("its Job {name} failed {failed} times");
        let mut finding = Finding::new(
            Code::ChartRetries,
            format!("HelmChart {}", named(chart)),
            &why,
        )
        .seen([Evidence::new(
            format!("Job {}", named(job)),
            "status.failed",
            failed.to_string(),
        )]);
        let label = "/metadata/labels/batch.kubernetes.io~1job-name";
        for pod in objects.all(Kind::POD)? {
            if text(pod, "/metadata/namespace") != namespace || text(pod, label) != name {
                continue;
            }
            let subject = format!("Pod {}", named(pod));
            let seen = waiting(pod).map(|why| Evidence::new(&subject, "waiting", why));
            finding.evidence.extend(seen);
        }
        findings.push(finding);
    }
    Ok(findings)
}
