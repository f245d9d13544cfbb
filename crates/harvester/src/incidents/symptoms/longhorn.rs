//! What Longhorn itself says of its nodes, disks, processes, images and attachments (longhorn-manager 5ddaa36
//! `k8s/pkg/apis/longhorn/v1beta2`: `node.go`, `instancemanager.go`, `engineimage.go`, `volumeattachment.go`, `backuptarget.go`).

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::{
    BACKUP_TARGET_UNAVAILABLE, CONDITION_FALSE, Clock, condition_seen, nodes, state_of, subject,
};
use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::quoted;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, is_true, text};
use crate::upgrade::time;

/// Longhorn's reasons for a node that is not Ready because Kubernetes' Node is not: that one is the symptom.
const OF_KUBERNETES: [&str; 4] = [
    "KubernetesNodeCordoned",
    "KubernetesNodeGone",
    "KubernetesNodeNotReady",
    "KubernetesNodePressure",
];
const DISK: &str = "Open this node in Longhorn's console. Compare the disk that it names with the disk on the node: its mount, its file system and \
    its free space.";
const ATTACHES: &str = "Check the engine and the replicas of this volume in Longhorn's console, and the log of the longhorn-manager pod on \
    the node that attaches it.";

/// The nodes of Kubernetes on which Longhorn should work.
fn working_nodes(objects: &Objects) -> Result<BTreeSet<&str>, Unlisted> {
    let aside = nodes::set_aside(objects)?;
    let nodes = objects.all(ObjectKind::NODE)?.iter();
    let works = nodes.filter(|node| is_true(node, "Ready"));
    let names = works.map(|node| text(node, "/metadata/name"));
    Ok(names.filter(|name| !aside.contains(*name)).collect())
}

/// Nodes and disks that are not Ready.
pub(super) fn find_nodes(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let all = objects.all(ObjectKind::LONGHORN_NODE)?;
    if all.iter().all(|node| faults(node).is_empty()) {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let works = working_nodes(objects)?;
    let mut found = Vec::new();
    for node in all {
        if !works.contains(text(node, "/metadata/name")) {
            continue;
        }
        let late: Vec<_> = faults(node)
            .into_iter()
            .filter(|(_, condition)| clock.is_late(condition.since(), &CONDITION_FALSE))
            .collect();
        let Some((name, first)) = late.first() else {
            continue;
        };
        let about = subject(node, "Node");
        let state = state_of(first, first.since());
        let why = match *name {
            "" => format!("Longhorn calls it not Ready: {state}"),
            disk => format!("Longhorn calls its disk {disk} not Ready: {state}"),
        };
        let seen = late.iter().map(|(disk, condition)| {
            let field = match *disk {
                "" => "condition Ready".to_owned(),
                disk => format!("condition Ready of disk {disk}"),
            };
            Evidence::new(&about, field, state_of(condition, condition.since()))
        });
        let mut finding = IncidentFinding::new(Code::ProblemStays, &about, &why).seen(seen);
        DISK.clone_into(&mut finding.advice);
        found.push(finding);
    }
    Ok(found)
}

/// The conditions Ready that are False, each with the name of its disk.
fn faults(node: &Value) -> Vec<(&str, Condition<'_>)> {
    let own = Condition::of(node, "Ready").map(|condition| ("", condition));
    let disks = disks(node).filter_map(|(name, status)| {
        let mut conditions = Condition::in_status(status);
        Some((
            name,
            conditions.find(|condition| condition.name == "Ready")?,
        ))
    });
    let is_bad = |condition: &Condition<'_>| {
        condition.is_false() && !OF_KUBERNETES.contains(&condition.reason)
    };
    let all = own.into_iter().chain(disks);
    all.filter(|(_, condition)| is_bad(condition)).collect()
}

fn disks(node: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let disks = node
        .pointer("/status/diskStatus")
        .and_then(Value::as_object);
    let disks = disks.into_iter().flatten();
    disks.map(|(name, status)| (name.as_str(), status))
}

/// The disks that accept no replica, as evidence.
pub(super) fn full_disks(nodes: &[Value]) -> impl Iterator<Item = Evidence> {
    nodes.iter().flat_map(|node| {
        disks(node).filter_map(|(disk, status)| {
            let mut conditions = Condition::in_status(status);
            let closed = conditions.find(|one| one.name == "Schedulable" && one.is_false())?;
            Some(Evidence::new(
                subject(node, "Node"),
                format!("condition Schedulable of disk {disk}"),
                state_of(&closed, closed.since()),
            ))
        })
    })
}

/// Instance managers that do not run on a node that does. They have no times.
pub(super) fn find_managers(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let all = objects.all(ObjectKind::INSTANCE_MANAGER)?.iter();
    let failed: Vec<&Value> = all
        .filter(|manager| text(manager, "/status/currentState") == "error")
        .collect();
    if failed.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let works = working_nodes(objects)?;
    let pods = objects.all(ObjectKind::POD)?;
    let of_nodes = objects.all(ObjectKind::LONGHORN_NODE)?;
    let mut found = Vec::new();
    for manager in failed {
        let node = text(manager, "/spec/nodeID");
        let has_name = |pod: &&Value| {
            ["/metadata/name", "/metadata/namespace"]
                .iter()
                .all(|field| text(pod, field) == text(manager, field))
        };
        let pod = pods.iter().find(has_name);
        let created = [Some(manager), pod].into_iter().flatten();
        let created = created.filter_map(|one| time(one, "/metadata/creationTimestamp"));
        let changed = Condition::all(manager).filter_map(|condition| condition.since());
        let newest = created.chain(changed).max();
        if !works.contains(node)
            || pod.is_some_and(|pod| is_true(pod, "Ready"))
            || !clock.is_late(newest, &CONDITION_FALSE)
        {
            continue;
        }
        let about = subject(manager, "InstanceManager");
        let own = of_nodes
            .iter()
            .find(|one| text(one, "/metadata/name") == node);
        let lacks = own.into_iter().flat_map(|own| {
            let bad = Condition::all(own).filter(Condition::is_false);
            bad.map(|condition| {
                condition_seen(&subject(own, "Node"), &condition, condition.since())
            })
        });
        let lacks: Vec<Evidence> = lacks.collect();
        let why = match lacks.first() {
            Some(first) => format!(
                "it does not run on {node}; {}: {}",
                first.field, first.value
            ),
            None => format!("it does not run on {node}"),
        };
        let mut finding = IncidentFinding::new(Code::ProblemStays, &about, &why)
            .seen([Evidence::new(&about, "status.currentState", "error")])
            .seen(lacks);
        "No volume of this data engine works on this node. Fix what the conditions of Longhorn's node name, or read the log of the \
         longhorn-manager pod there."
            .clone_into(&mut finding.advice);
        found.push(finding);
    }
    Ok(found)
}

/// Engine images in use that Longhorn cannot deploy to every node.
pub(super) fn find_engine_images(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let is_used =
        |image: &Value| image.pointer("/status/refCount").and_then(Value::as_i64) > Some(0);
    let all = objects.all(ObjectKind::ENGINE_IMAGE)?.iter();
    let waiting: Vec<_> = all
        .filter(|image| text(image, "/status/state") == "deploying" && is_used(image))
        .filter_map(|image| Some((image, Condition::of(image, "ready")?)))
        .collect();
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let works = working_nodes(objects)?;
    let mut found = Vec::new();
    for (image, ready) in waiting {
        let map = image
            .pointer("/status/nodeDeploymentMap")
            .and_then(Value::as_object);
        let missing: Vec<&str> = map
            .into_iter()
            .flatten()
            .filter(|(_, is_there)| **is_there == Value::Bool(false))
            .map(|(node, _)| node.as_str())
            .filter(|node| works.contains(node))
            .collect();
        if missing.is_empty() || !clock.is_late(ready.since(), &CONDITION_FALSE) {
            continue;
        }
        let about = subject(image, "EngineImage");
        let name = text(image, "/spec/image");
        let why = format!(
            "{name} is not on {}, so no volume that uses it runs there",
            missing.join(", ")
        );
        let mut finding = IncidentFinding::new(Code::ProblemStays, &about, &why)
            .seen([condition_seen(&about, &ready, ready.since())]);
        "Find out why DaemonSet longhorn-system/engine-image-NAME has no pod on these nodes, for example because of a taint: Longhorn's \
         setting taint-toleration decides which taints it tolerates."
            .clone_into(&mut finding.advice);
        found.push(finding);
    }
    Ok(found)
}

/// Volumes that Longhorn does not attach for a pod: by its own attachments, else by the Events of the pods.
pub(super) fn find_attaching(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let volumes = objects.all(ObjectKind::LONGHORN_VOLUME)?.iter();
    let waits = |volume: &&Value| text(volume, "/status/state") == "attaching";
    let attaching: Vec<&Value> = volumes.filter(waits).collect();
    if attaching.is_empty() {
        return Ok(Vec::new());
    }
    objects.want(&[ObjectKind::LONGHORN_ATTACHMENT, ObjectKind::POD_WARNING])?;
    let clock = Clock::read(objects, now)?;
    let works = working_nodes(objects)?;
    let tickets = objects
        .all(ObjectKind::LONGHORN_ATTACHMENT)
        .unwrap_or_default();
    let warnings = objects.pod_warnings().unwrap_or_default();
    let mut found = Vec::new();
    for volume in attaching {
        let node = text(volume, "/spec/nodeID");
        if !node.is_empty() && !works.contains(node) {
            continue;
        }
        let about = subject(volume, "Volume");
        let seen = ticket_seen(volume, tickets, clock)
            .or_else(|| attach_warning(volume, &warnings, clock));
        let Some(seen) = seen else { continue };
        let why = format!("it is attaching to {node}: {}", seen.value);
        let state = Evidence::new(&about, "status.state", "attaching");
        let mut finding =
            IncidentFinding::new(Code::ProblemStays, &about, &why).seen([state, seen]);
        ATTACHES.clone_into(&mut finding.advice);
        found.push(finding);
    }
    Ok(found)
}

/// The ticket of a pod that Longhorn does not satisfy.
fn ticket_seen(volume: &Value, attachments: &[Value], clock: Clock) -> Option<Evidence> {
    let name = text(volume, "/metadata/name");
    let attachment = attachments
        .iter()
        .find(|one| text(one, "/spec/volume") == name)?;
    let tickets = attachment.pointer("/spec/attachmentTickets")?.as_object()?;
    let of_pods = tickets
        .iter()
        .filter(|(_, ticket)| text(ticket, "/type") == "csi-attacher");
    let mut late = of_pods.filter_map(|(id, _)| {
        let status = attachment
            .pointer("/status/attachmentTicketStatuses")?
            .get(id)?;
        let mut conditions = Condition::in_status(status);
        let satisfied = conditions.find(|one| one.name == "Satisfied" && one.is_false())?;
        clock
            .is_late(satisfied.since(), &CONDITION_FALSE)
            .then_some(satisfied)
    });
    let satisfied = late.next()?;
    let about = subject(attachment, "VolumeAttachment");
    Some(condition_seen(&about, &satisfied, satisfied.since()))
}

/// The Event of a pod whose volume is not attached (kubernetes `pkg/kubelet/events/event.go`, `FailedAttachVolume`).
fn attach_warning(volume: &Value, warnings: &[&Value], clock: Clock) -> Option<Evidence> {
    let name = format!("\"{}\"", text(volume, "/metadata/name"));
    let is_its = |event: &&&Value| {
        text(event, "/reason") == "FailedAttachVolume" && text(event, "/message").contains(&name)
    };
    let event = warnings.iter().find(is_its)?;
    let first = time(event, "/firstTimestamp").or_else(|| time(event, "/eventTime"));
    if !clock.is_late(first, &CONDITION_FALSE) {
        return None;
    }
    let of = |field: &str| text(event, &format!("/involvedObject/{field}"));
    let pod = format!("Pod {}/{}", of("namespace"), of("name"));
    let since = first.map_or(String::new(), |first| format!(" since {first}"));
    let words = format!("FailedAttachVolume{since}: {}", text(event, "/message"));
    Some(Evidence::new(pod, "warning", quoted(&words)))
}

/// Backup targets that Longhorn does not reach.
pub(super) fn find_backup_targets(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let all = objects.all(ObjectKind::BACKUP_TARGET)?.iter();
    let lost: Vec<_> = all
        .filter(|target| !text(target, "/spec/backupTargetURL").is_empty())
        .filter_map(|target| Some((target, Condition::of(target, "Unavailable")?)))
        .filter(|(_, condition)| condition.is_true())
        .collect();
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let late = lost
        .into_iter()
        .filter(|(_, condition)| clock.is_late(condition.since(), &BACKUP_TARGET_UNAVAILABLE));
    Ok(late
        .map(|(target, condition)| {
            let about = subject(target, "BackupTarget");
            let state = state_of(&condition, condition.since());
            let why = format!("Longhorn does not reach it: Unavailable is {state}");
            let seen = condition_seen(&about, &condition, condition.since());
            let mut finding = IncidentFinding::new(Code::ProblemStays, &about, &why).seen([seen]);
            "No backup can be made or restored. Check the address, its server and the Secret of the backup target."
                .clone_into(&mut finding.advice);
            finding
        })
        .collect())
}
