//! Evidence from an Addon, its HelmChart, its Job and the pods of the Job.

use serde_json::Value;
use windrow_model::findings::Evidence;

use crate::addons::AddonParts;
use crate::incidents::upgrade::seen_condition;
use crate::objects::{Condition, is_true, items, named, restarts, text, waiting};

pub(super) fn evidence(subject: &str, parts: &AddonParts<'_>) -> Vec<Evidence> {
    let mut seen = of_addon(subject, parts.addon);
    match parts.chart {
        Some(chart) => seen.extend(of_chart(chart)),
        None => seen.push(Evidence::new(
            format!("HelmChart {}", named(parts.addon)),
            "metadata",
            "it does not exist",
        )),
    }
    seen.extend(parts.job.into_iter().flat_map(of_job));
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

fn of_addon(subject: &str, addon: &Value) -> Vec<Evidence> {
    let enabled = addon["spec"]["enabled"].as_bool().unwrap_or_default();
    let mut seen = vec![
        Evidence::new(subject, "spec.enabled", enabled.to_string()),
        Evidence::new(subject, "status.status", text(addon, "/status/status")),
    ];
    let conditions = ["InProgress", "OperationFailed"];
    seen.extend(
        conditions
            .iter()
            .filter_map(|name| Some(seen_condition(subject, Condition::of(addon, name)?))),
    );
    seen
}

fn of_chart(chart: &Value) -> Vec<Evidence> {
    let subject = format!("HelmChart {}", named(chart));
    let mut seen = vec![Evidence::new(
        &subject,
        "status.jobName",
        match text(chart, "/status/jobName") {
            "" => "(none)",
            name => name,
        },
    )];
    let deleted = text(chart, "/metadata/deletionTimestamp");
    if !deleted.is_empty() {
        seen.push(Evidence::new(
            &subject,
            "metadata.deletionTimestamp",
            deleted,
        ));
        let finalizers = items(chart, "/metadata/finalizers").iter();
        let finalizers = finalizers.filter_map(Value::as_str);
        seen.extend(finalizers.map(|name| Evidence::new(&subject, "metadata.finalizers", name)));
    }
    for owner in items(chart, "/metadata/ownerReferences") {
        let owner = ["/kind", "/name", "/uid"].map(|pointer| text(owner, pointer));
        seen.push(Evidence::new(
            &subject,
            "metadata.ownerReferences",
            owner.join(" "),
        ));
    }
    if is_true(chart, "Failed") {
        seen.extend(Condition::of(chart, "Failed").map(|failed| seen_condition(&subject, failed)));
    }
    seen
}

fn of_job(job: &Value) -> Vec<Evidence> {
    let subject = format!("Job {}", named(job));
    let times = [
        ("metadata.creationTimestamp", "/metadata/creationTimestamp"),
        ("status.completionTime", "/status/completionTime"),
    ];
    let times = times
        .iter()
        .map(|(field, pointer)| (*field, text(job, pointer)));
    let mut seen: Vec<Evidence> = times
        .filter(|(_, time)| !time.is_empty())
        .map(|(field, time)| Evidence::new(&subject, field, time))
        .collect();
    let failed = job.pointer("/status/failed").and_then(Value::as_i64);
    seen.extend(failed.map(|failed| Evidence::new(&subject, "status.failed", failed.to_string())));
    if is_true(job, "Failed") {
        seen.extend(Condition::of(job, "Failed").map(|failed| seen_condition(&subject, failed)));
    }
    seen
}
