//! KubeVirt has not been Available for an hour: no VM starts or migrates, so an upgrade would wait in Pre-draining. virt-operator
//! waits forever for a pod of virt-handler that lacks its annotations (harvester#10447).

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};
use windrow_plan::readiness::platform::KubeVirtState;

use super::{is_upgrading, quoted};
use crate::incidents::finding::IncidentFinding;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, named, text, texts};
use crate::upgrade::label;

/// virt-operator replaces all parts of KubeVirt in half of this time.
const PATIENCE: SignedDuration = SignedDuration::from_hours(1);
/// The namespaces of Harvester's KubeVirt, and of KubeVirt's own manifests.
const NAMESPACES: [&str; 2] = ["harvester-system", "kubevirt"];
/// virt-operator adds this annotation to its objects (Harvester's documentation of the upgrade from v1.7 to v1.8, known issue 1).
const MARK: &str = "kubevirt.io/install-strategy-identifier";

pub(in crate::incidents) fn find(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut findings = Vec::new();
    let kubevirts = objects.all(ObjectKind::KUBEVIRT)?.iter();
    for kubevirt in kubevirts.filter(|one| NAMESPACES.contains(&text(one, "/metadata/namespace"))) {
        let namespace = text(kubevirt, "/metadata/namespace");
        let Some(available) = Condition::of(kubevirt, "Available") else {
            continue;
        };
        let since = false_since(available);
        let is_late = since.is_some_and(|since| now.duration_since(since) > PATIENCE);
        let is_unavailable = KubeVirtState::of(kubevirt).is_unavailable() && !available.is_true();
        let is_harvesters = namespace == NAMESPACES[0];
        if !is_unavailable || !is_late || is_harvesters && is_upgrading(objects)? {
            continue;
        }
        let handlers = objects.all(ObjectKind::POD)?.iter().filter(|pod| {
            text(pod, "/metadata/namespace") == namespace
                && label(pod, "kubevirt.io") == "virt-handler"
        });
        findings.push(unavailable(
            kubevirt,
            available,
            &handlers.collect::<Vec<_>>(),
        ));
    }
    Ok(findings)
}

/// Start of the current status of the condition. virt-operator writes no transition time to a new condition
/// (`SetConditionTimestamps` in `pkg/virt-operator/util/client.go`, v1.7.0), so a first installation has only the other time.
fn false_since(available: Condition<'_>) -> Option<Timestamp> {
    available
        .since()
        .or_else(|| available.time("lastProbeTime"))
}

fn unavailable(kubevirt: &Value, available: Condition<'_>, handlers: &[&Value]) -> IncidentFinding {
    let subject = format!("KubeVirt {}", named(kubevirt));
    let (reason, said) = (available.reason, available.message);
    let since = false_since(available).map_or(String::new(), |since| format!(" since {since}"));
    let seen = Evidence::new(
        &subject,
        "condition Available",
        quoted(&format!("{} ({reason}){since}: {said}", available.status)),
    );
    let is_marked = |pod: &&&Value| texts(pod, "/metadata/annotations").contains_key(MARK);
    let (marked, unmarked): (Vec<&&Value>, Vec<&&Value>) = handlers.iter().partition(is_marked);
    let why = format!("it is not Available{since} ({reason})");
    let mut finding = IncidentFinding::new(Code::KubevirtNotReady, &subject, &why).seen([seen]);
    finding.severity = Severity::Error;
    // If no pod has the annotation, this KubeVirt does not write it.
    if !marked.is_empty() && !unmarked.is_empty() {
        finding = finding.seen(unmarked.iter().map(|pod| {
            let field = format!("metadata.annotations[{MARK}]");
            Evidence::new(format!("Pod {}", named(pod)), field, "absent")
        }));
        "Delete these pods of virt-handler: virt-operator waits for them, and they are created again with its annotations."
            .clone_into(&mut finding.advice);
    }
    finding
}
