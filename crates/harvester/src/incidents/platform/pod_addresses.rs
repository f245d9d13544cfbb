//! A node whose range of pod addresses is used up, so that no pod gets a network there (harvester#7471, harvester#7992).
//!
//! The plug-in host-local keeps a file for each address that it gave, and removes it when the pod ends. If the pod ended without it, as at a crash
//! of the node, the file stays (containernetworking/plugins `plugins/ipam/host-local/backend/allocator/allocator.go`, `Get`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::{MOST, quoted};
use crate::incidents::finding::IncidentFinding;
use crate::objects::{ObjectKind, Objects, Unlisted, named, text};
use crate::upgrade::time;

/// The message of host-local.
const USED_UP: &str = "no IP addresses available in range set: ";
/// The kubelet tries again at once: an address may become free.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

pub(in crate::incidents) fn find(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let pending = objects.pending_pods()?.into_iter();
    let is_late = |pod: &&Value| {
        let started = time(pod, "/status/startTime");
        started.is_some_and(|started| now.duration_since(started) > PATIENCE)
    };
    let waiting: Vec<&Value> = pending
        .filter(|pod| !text(pod, "/spec/nodeName").is_empty())
        // With an address it waits for something else, and an address of a secondary network may have been missing.
        .filter(|pod| text(pod, "/status/podIP").is_empty())
        .filter(is_late)
        .collect();
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    objects.want(&[ObjectKind::POD_WARNING])?;
    let mut nodes: BTreeMap<&str, Vec<(&Value, &Value)>> = BTreeMap::new();
    for event in objects.pod_warnings()? {
        let of = |field: &str| text(event, &format!("/involvedObject/{field}"));
        let is_its = |pod: &&&Value| {
            text(pod, "/metadata/name") == of("name")
                && text(pod, "/metadata/namespace") == of("namespace")
        };
        if !text(event, "/message").contains(USED_UP) {
            continue;
        }
        if let Some(pod) = waiting.iter().find(is_its) {
            let node = nodes.entry(text(pod, "/spec/nodeName")).or_default();
            node.push((pod, event));
        }
    }
    let pods = objects.all(ObjectKind::POD)?;
    Ok(nodes
        .into_iter()
        .map(|(node, waiting)| used_up(node, &waiting, pods))
        .collect())
}

fn used_up(node: &str, waiting: &[(&Value, &Value)], pods: &[Value]) -> IncidentFinding {
    let about = format!("Node {node}");
    let message = text(waiting[0].1, "/message");
    let range = message.split(USED_UP).nth(1).unwrap_or_default();
    let why = format!("{USED_UP}{}", quoted(range));
    let has_address = |pod: &&Value| {
        text(pod, "/spec/nodeName") == node
            && pod.pointer("/spec/hostNetwork") != Some(&Value::Bool(true))
            && !text(pod, "/status/podIP").is_empty()
            && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
    };
    let with = pods.iter().filter(has_address).count();
    let mut finding =
        IncidentFinding::new(Code::PodAddressesUsedUp, &about, &why).seen([Evidence::new(
            &about,
            "pods with an address",
            with.to_string(),
        )]);
    let seen = waiting.iter().take(MOST).map(|(pod, event)| {
        let count = event.pointer("/count").and_then(Value::as_u64);
        let count = count.map_or(String::new(), |count| format!(", {count} times"));
        let value = format!("{}{count}", text(event, "/reason"));
        Evidence::new(format!("Pod {}", named(pod)), "warning", value)
    });
    finding.evidence.extend(seen);
    finding.proof.push(
        "the network plug-in frees an address only when it is told that a pod ends: addresses of pods that were lost in a crash stay \
         used"
            .to_owned(),
    );
    finding
}
