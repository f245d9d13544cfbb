//! Platform pods whose deletion does not finish. An upgrade waits for some of them forever (harvester#4484).

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::{is_platforms, is_upgrading};
use crate::incidents::finding::IncidentFinding;
use crate::objects::{ObjectKind, Objects, Unlisted, is_true, items, named, text};
use crate::upgrade::time;

/// Counts from the deletionTimestamp, which includes the grace period of the pod.
const PATIENCE: SignedDuration = SignedDuration::from_hours(1);

/// A daemon requests all pods only during an upgrade; a command always has them.
pub(in crate::incidents) fn find(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let pods = match objects.all(ObjectKind::POD) {
        Err(unlisted) if unlisted.wanted && !is_upgrading(objects)? => return Ok(Vec::new()),
        all => all?,
    };
    let mut findings = Vec::new();
    for pod in pods.iter().filter(|pod| is_platforms(pod)) {
        let Some(deleted) = time(pod, "/metadata/deletionTimestamp") else {
            continue;
        };
        let node = text(pod, "/spec/nodeName");
        // On a node that is down nothing can end the pod, and without a node the pod waits for a finalizer.
        if now.duration_since(deleted) <= PATIENCE || !is_up(objects, node)? {
            continue;
        }
        findings.push(stays(pod, node, deleted));
    }
    Ok(findings)
}

fn is_up(objects: &Objects, node: &str) -> Result<bool, Unlisted> {
    let node = objects.get(ObjectKind::NODE, "", node)?;
    Ok(node.is_some_and(|node| is_true(node, "Ready")))
}

fn stays(pod: &Value, node: &str, deleted: Timestamp) -> IncidentFinding {
    let subject = format!("Pod {}", named(pod));
    let finalizers: Vec<&str> = items(pod, "/metadata/finalizers")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let why = match finalizers.as_slice() {
        [] => format!("it should have ended on {node} at {deleted}"),
        names => format!(
            "it should have ended at {deleted}, and has finalizers: {}",
            names.join(", ")
        ),
    };
    let mut seen = vec![
        Evidence::new(&subject, "metadata.deletionTimestamp", deleted.to_string()),
        Evidence::new(&subject, "spec.nodeName", node),
        Evidence::new(&subject, "metadata.uid", text(pod, "/metadata/uid")),
    ];
    seen.extend(
        finalizers
            .iter()
            .map(|name| Evidence::new(&subject, "metadata.finalizers", *name)),
    );
    IncidentFinding::new(Code::PlatformPodTerminating, subject, &why).seen(seen)
}
