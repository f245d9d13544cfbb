//! Missing images of platform pods. On a site without internet access, the kubelet may have deleted preloaded images, or an
//! upgrade has created a pod whose image was never loaded.
//!
//! A pod that waits for an image is Pending, unless its container has already run: then its image is in use, and the kubelet
//! keeps it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::container_image::full_name;
use windrow_model::findings::Evidence;
use windrow_model::object::{ObjectView, pods};
use windrow_model::reasons::Code;

use super::{MOST, is_platforms};
use crate::addons::NOT_PULLED;
use crate::incidents::finding::IncidentFinding;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, items, named, text};
use crate::upgrade::{label, time};

/// By then the kubelet has retried several times after a temporary failure of the registry.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// A container that waits for an image, and the reason.
struct Waiting<'o> {
    pod: &'o Value,
    name: &'o str,
    reason: &'o str,
}

pub(in crate::incidents) fn find(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut images: BTreeMap<&str, Vec<Waiting<'_>>> = BTreeMap::new();
    for pod in objects.pending_pods()? {
        if !is_platforms(pod) || !is_overdue(pod, now) || is_an_addons(objects, pod)? {
            continue;
        }
        for (image, waiting) in waiting(pod) {
            images.entry(image).or_default().push(waiting);
        }
    }
    if images.is_empty() {
        return Ok(Vec::new());
    }
    let nodes = objects.all(ObjectKind::NODE)?;
    let findings = images
        .iter()
        .map(|(image, pods)| missing(image, pods, nodes));
    Ok(findings.collect())
}

/// Whether the pod has been without its image for this long. The kubelet records since when the containers of a pod are not
/// ready.
fn is_overdue(pod: &Value, now: Timestamp) -> bool {
    let ready = Condition::of(pod, "ContainersReady");
    let unready = ready.and_then(|ready| ready.time("lastTransitionTime"));
    let since = unready.max(time(pod, "/status/startTime"));
    since.is_some_and(|since| now.duration_since(since) > PATIENCE)
}

/// Whether the pod belongs to the Job of an Addon. Those have their own incident.
fn is_an_addons(objects: &Objects, pod: &Value) -> Result<bool, Unlisted> {
    let chart = label(pod, "helmcharts.helm.cattle.io~1chart");
    if chart.is_empty() {
        return Ok(false);
    }
    let namespace = text(pod, "/metadata/namespace");
    let addon = objects.get(ObjectKind::ADDON, namespace, chart)?;
    Ok(addon.is_some())
}

fn waiting(pod: &Value) -> impl Iterator<Item = (&str, Waiting<'_>)> {
    pods::container_statuses(pod).filter_map(move |container| {
        let reason = text(container, "/state/waiting/reason");
        let name = text(container, "/name");
        let waiting = Waiting { pod, name, reason };
        NOT_PULLED
            .contains(&reason)
            .then(|| (text(container, "/image"), waiting))
    })
}

fn missing(image: &str, pods: &[Waiting<'_>], nodes: &[Value]) -> IncidentFinding {
    let first = named(pods[0].pod);
    let why = match pods.len() {
        1 => first,
        many => format!("{first} and {} more", many - 1),
    };
    let image_subject = format!("Image {image}");
    let evidence = pods.iter().take(MOST).map(|one| {
        let on = text(one.pod, "/spec/nodeName");
        let value = format!(
            "{} on {on} since {}",
            one.reason,
            text(one.pod, "/status/startTime")
        );
        let subject = format!("Pod {}", named(one.pod));
        Evidence::new(subject, format!("container {}: waiting", one.name), value)
    });
    let mut finding =
        IncidentFinding::new(Code::PlatformImageMissing, &image_subject, &why).seen(evidence);
    let waits_on = |node: &Value| {
        let mut on = pods.iter().map(|one| text(one.pod, "/spec/nodeName"));
        on.any(|on| on == text(node, "/metadata/name"))
    };
    for node in nodes {
        let subject = format!("Node {}", named(node));
        if let Some(pressure) = pressure(node).filter(|_| waits_on(node)) {
            let field = "condition DiskPressure";
            finding
                .evidence
                .push(Evidence::new(subject, field, pressure));
        } else if has(node, image) {
            let found = Evidence::new(subject, "status.images", "it has the image");
            finding.evidence.push(found);
        }
    }
    if pods.iter().any(|one| is_always_pulled(one)) {
        let always =
            "imagePullPolicy is Always: a registry is contacted even if the image is on the node";
        finding.proof.push(always.to_owned());
    }
    finding
}

/// Before its node reaches this state, the kubelet deletes unused images.
fn pressure(node: &Value) -> Option<String> {
    let pressure = Condition::of(node, "DiskPressure")?;
    let since = pressure.text("lastTransitionTime");
    pressure.is_true().then(|| format!("True since {since}"))
}

/// Whether the node reports the image. The kubelet lists only the fifty largest images, so an absent image proves nothing.
fn has(node: &Value, image: &str) -> bool {
    let wanted = full_name(image);
    let mut names = items(node, "/status/images").iter();
    names.any(|one| {
        let mut names = items(one, "/names").iter().filter_map(Value::as_str);
        names.any(|name| full_name(name) == wanted)
    })
}

fn is_always_pulled(one: &Waiting<'_>) -> bool {
    let mut containers = pods::containers(&one.pod["spec"]).map(|container| container.node);
    containers.any(|container| {
        container.text("name") == one.name && container.text("imagePullPolicy") == "Always"
    })
}
