//! E: an Addon of Harvester that does not get settled (harvester#7376).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cure::{Cure, Goal, Method, Request, Saved, Step, bare};
use super::finding::{Evidence, Finding};
use crate::harvester::addons::{Parts, State, is_settled, job_of, judge};
use crate::harvester::objects::{Kind, Objects, Unlisted, condition, named, text, waiting};
use crate::reasons::Code;

/// The label by which a Job's pods are known.
const JOB_NAME: &str = "/metadata/labels/batch.kubernetes.io~1job-name";

pub(super) fn find(objects: &Objects, now: Timestamp) -> Result<Vec<Finding>, Unlisted> {
    let mut findings = Vec::new();
    for addon in objects.all(Kind::ADDON)? {
        if is_settled(addon) {
            continue;
        }
        let namespace = text(addon, "/metadata/namespace");
        let chart = objects.one(Kind::HELM_CHART, namespace, text(addon, "/metadata/name"))?;
        let job = match chart.and_then(job_of) {
            Some(name) => objects.one(Kind::JOB, namespace, name)?,
            None => None,
        };
        let pods = pods_of(objects, job)?;
        let parts = Parts {
            addon,
            chart,
            job,
            pods: &pods,
        };
        findings.extend(of(&parts, &judge(&parts, now)));
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
    let pods = objects.all(Kind::POD)?.iter();
    Ok(pods
        .filter(|pod| text(pod, "/metadata/namespace") == namespace && text(pod, JOB_NAME) == name)
        .cloned()
        .collect())
}

fn of(parts: &Parts<'_>, state: &State) -> Option<Finding> {
    let code = match state {
        State::Stuck { .. } => Code::AddonStuck,
        State::Failed { .. } => Code::AddonFailed,
        State::ImageMissing { .. } => Code::AddonImageMissing,
        State::ControllerDown { .. } => Code::AddonControllerDown,
        State::Settled | State::NotStarted | State::Progressing | State::Retrying { .. } => {
            return None;
        }
    };
    let subject = format!("Addon {}", named(parts.addon));
    let mut finding =
        Finding::new(code, subject.clone(), &state.say()).seen(evidence(&subject, parts));
    if let State::Stuck { job, made, since } = state {
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
        finding.cure = Some(cure(parts));
    }
    Some(finding)
}

fn evidence(subject: &str, parts: &Parts<'_>) -> Vec<Evidence> {
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
        seen.extend(waiting(pod).map(|why| Evidence::new(&subject, "waiting", why)));
    }
    seen
}

/// The documented cure: export the Addon, delete it, make it anew switched off, switch it on.
fn cure(parts: &Parts<'_>) -> Cure {
    let addon = parts.addon;
    let (namespace, name) = (
        text(addon, "/metadata/namespace"),
        text(addon, "/metadata/name"),
    );
    let uid = text(addon, "/metadata/uid").to_owned();
    let path = Kind::ADDON.object_path(namespace, name);
    let mut steps = vec![Step {
        say: format!("delete Addon {namespace}/{name}"),
        request: Some(Request {
            method: Method::Delete,
            path: path.clone(),
            body: json!({
                "apiVersion": "v1", "kind": "DeleteOptions",
                "propagationPolicy": "Background", "preconditions": {"uid": uid}
            }),
        }),
        goal: Goal::Gone {
            path: path.clone(),
            uid: uid.clone(),
        },
        patience: 300,
    }];
    let mut wait_for = |kind: Kind, object: &Value, what: &str| {
        let name = text(object, "/metadata/name");
        steps.push(Step {
            say: format!("wait until {what} {namespace}/{name} is gone"),
            request: None,
            goal: Goal::Gone {
                path: kind.object_path(namespace, name),
                uid: text(object, "/metadata/uid").to_owned(),
            },
            patience: 900,
        });
    };
    if let Some(chart) = parts.chart {
        wait_for(Kind::HELM_CHART, chart, "its HelmChart");
    }
    if let Some(job) = parts.job {
        wait_for(Kind::JOB, job, "its Job");
    }
    let mut off = bare(addon);
    off["spec"]["enabled"] = json!(false);
    steps.push(Step {
        say: format!("make Addon {namespace}/{name} anew, switched off"),
        request: Some(Request {
            method: Method::Make,
            path: path
                .rsplit_once('/')
                .map_or(path.clone(), |(collection, _)| collection.to_owned()),
            body: off,
        }),
        goal: Goal::Anew {
            path: path.clone(),
            before: uid.clone(),
        },
        patience: 300,
    });
    if addon.pointer("/spec/enabled") == Some(&json!(true)) {
        let field = |say: &str, request, field: &str, value: Value, patience| Step {
            say: say.to_owned(),
            request,
            goal: Goal::Field {
                path: path.clone(),
                before: Some(uid.clone()),
                field: field.to_owned(),
                value,
            },
            patience,
        };
        let on = Request {
            method: Method::Merge,
            path: path.clone(),
            body: json!({"spec": {"enabled": true}}),
        };
        steps.push(field(
            "switch it on",
            Some(on),
            "/spec/enabled",
            json!(true),
            300,
        ));
        let done = json!("AddonDeploySuccessful");
        steps.push(field(
            "wait until it is deployed",
            None,
            "/status/status",
            done,
            1800,
        ));
    }
    Cure {
        summary: format!("make Addon {namespace}/{name} anew"),
        changes: vec![
            format!(
                "Addon {namespace}/{name} is deleted and made anew from its own specification; what only \
                 its status knew is lost"
            ),
            "its chart is uninstalled and installed again: what it runs stops meanwhile, and volumes that \
             the chart itself owns are deleted with it"
                .to_owned(),
        ],
        saves: vec![Saved {
            path,
            object: addon.clone(),
        }],
        steps,
    }
}
