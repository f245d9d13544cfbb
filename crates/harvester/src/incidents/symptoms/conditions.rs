//! Objects whose own status reports a problem that stays. Addons, ManagedCharts and KubeVirt have separate detectors.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};

use super::{
    CONDITION_FALSE, Clock, VOLUME_DEGRADED, VOLUME_FAULTED, condition_seen, known, nodes,
    of_condition, subject,
};
use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::MOST;
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, is_true, items, text};
use crate::upgrade::time;

/// Harvester v1.8.2 `pkg/util/constants.go:81`.
const OF_UPGRADE: &str = "/metadata/annotations/harvesterhci.io~1os-upgrade-image";

/// A Setting that is False without a message is empty (harvester v1.8.2 `pkg/controller/master/setting/handler.go`,
/// `setConfiguredCondition`).
pub(super) fn find_settings(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let settings = objects.all(ObjectKind::SETTING)?;
    let failing = settings.iter().filter_map(|setting| {
        let configured = Condition::of(setting, "configured")?;
        (configured.is_false() && !configured.message.trim().is_empty())
            .then_some((setting, configured))
    });
    let failing: Vec<_> = failing.collect();
    if failing.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let late = failing
        .into_iter()
        .filter(|(_, configured)| clock.is_late(configured.since(), &CONDITION_FALSE));
    Ok(late
        .map(|(setting, configured)| of_condition("Setting", setting, configured))
        .collect())
}

pub(super) fn is_of_upgrade(image: &Value) -> bool {
    text(image, OF_UPGRADE) == "True"
}

pub(super) fn find_upgrade_images(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let late = late_images(objects, now, is_of_upgrade)?.into_iter();
    Ok(late
        .map(|(image, imported)| of_condition("VirtualMachineImage", image, imported))
        .collect())
}

/// The images of these that have not been imported for long.
pub(super) fn late_images<'o>(
    objects: &'o Objects,
    now: Timestamp,
    is_meant: impl Fn(&Value) -> bool,
) -> Result<Vec<(&'o Value, Condition<'o>)>, Unlisted> {
    let images = objects.all(ObjectKind::VM_IMAGE)?.iter();
    let mut failed: Vec<_> = images
        .filter(|image| is_meant(image))
        .filter_map(|image| Some((image, Condition::of(image, "Imported")?)))
        .filter(|(_, imported)| imported.is_false())
        .collect();
    if !failed.is_empty() {
        let clock = Clock::read(objects, now)?;
        failed.retain(|(_, imported)| clock.is_late(imported.since(), &CONDITION_FALSE));
    }
    Ok(failed)
}

/// Volumes without a healthy replica, or with too few of them.
pub(super) fn find_volumes(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let volumes = objects.all(ObjectKind::LONGHORN_VOLUME)?;
    let robustness = |volume: &Value| text(volume, "/status/robustness").to_owned();
    let is_bad = |volume: &&Value| matches!(&*robustness(volume), "faulted" | "degraded");
    let bad: Vec<&Value> = volumes.iter().filter(is_bad).collect();
    if bad.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let mut failed: BTreeMap<&str, Timestamp> = BTreeMap::new();
    let replicas = known(objects.all(ObjectKind::LONGHORN_REPLICA))?.unwrap_or_default();
    let set_aside = nodes::set_aside(objects)?;
    for replica in replicas {
        if let Some(at) = time(replica, "/spec/failedAt") {
            let newest = failed
                .entry(text(replica, "/spec/volumeName"))
                .or_insert(at);
            *newest = at.max(*newest);
        }
    }
    // A node that is out of service comes back, and its replicas with it.
    let nodes = known(objects.all(ObjectKind::NODE))?.unwrap_or_default();
    let is_out = nodes.iter().any(|node| !is_true(node, "Ready"));
    let places = match is_out || !set_aside.is_empty() {
        true => 0,
        false => nodes.len(),
    };
    let (faulted, degraded): (Vec<&Value>, Vec<&Value>) = bad
        .into_iter()
        .partition(|volume| robustness(volume) == "faulted");
    let mut found = Vec::new();
    for volume in faulted {
        let name = text(volume, "/metadata/name");
        // Without its replicas, the volume itself shows a time at which it was not healthy, or none.
        let since = failed.get(name).copied();
        let unplaced = Condition::of(volume, "Scheduled").filter(Condition::is_false);
        let since = since
            .or_else(|| time(volume, "/status/lastDegradedAt"))
            .or_else(|| unplaced?.since());
        if since.is_none() || clock.is_late(since, &VOLUME_FAULTED) {
            let since = since.map_or(String::new(), |since| format!(" since {since}"));
            let mut finding = of_volumes(&[volume], &format!("it has no healthy replica{since}"));
            let about = subject(volume, "Volume");
            let seen = unplaced.map(|one| condition_seen(&about, &one, one.since()));
            finding.evidence.extend(seen);
            let mut own = replicas
                .iter()
                .filter(|replica| text(replica, "/spec/volumeName") == name)
                .peekable();
            let is_on_purpose = own.peek().is_some()
                && own.all(|replica| set_aside.contains(text(replica, "/spec/nodeID")));
            if is_in_use(volume) && !is_on_purpose {
                finding.severity = Severity::Error;
            }
            found.push(finding);
        }
    }
    // On a cluster with fewer nodes than replicas, this is every volume.
    let degraded: Vec<(&Value, bool)> = degraded
        .into_iter()
        .map(|volume| (volume, unplaced(volume, places)))
        .filter(|(volume, unplaced)| {
            let patience = match unplaced {
                true => &CONDITION_FALSE,
                false => &VOLUME_DEGRADED,
            };
            clock.is_late(time(volume, "/status/lastDegradedAt"), patience)
        })
        .collect();
    let full = degraded.iter().any(|(_, unplaced)| *unplaced);
    let degraded: Vec<&Value> = degraded.into_iter().map(|(volume, _)| volume).collect();
    if !degraded.is_empty() {
        let why = match degraded.len() {
            1 => "it has too few healthy replicas".to_owned(),
            many => format!(
                "it and {} more volumes have too few healthy replicas",
                many - 1
            ),
        };
        let mut finding = of_volumes(&degraded, &why);
        if full {
            let scheduled = degraded.iter().filter_map(|volume| {
                let scheduled = Condition::of(volume, "Scheduled").filter(Condition::is_false)?;
                let about = subject(volume, "Volume");
                Some(condition_seen(&about, &scheduled, scheduled.since()))
            });
            finding.evidence.extend(scheduled.take(MOST));
            let disks = known(objects.all(ObjectKind::LONGHORN_NODE))?.unwrap_or_default();
            finding
                .evidence
                .extend(super::longhorn::full_disks(disks).take(MOST));
            "Longhorn finds no disk for a replica. Free or add space on the disks that are not Schedulable, or lower the number of \
             replicas of these volumes."
                .clone_into(&mut finding.advice);
        }
        found.push(finding);
    }
    Ok(found)
}

/// Does Longhorn find no disk for a replica, although there are enough nodes?
fn unplaced(volume: &Value, places: usize) -> bool {
    let scheduled = Condition::of(volume, "Scheduled").filter(Condition::is_false);
    let replicas = volume
        .pointer("/spec/numberOfReplicas")
        .and_then(Value::as_u64);
    let is_room = replicas.is_some_and(|replicas| replicas <= places as u64);
    is_room && scheduled.is_some_and(|one| one.reason == "ReplicaSchedulingFailure")
}

/// Does a pod need the volume? Longhorn keeps the names of former pods, and the time of their end (longhorn-manager
/// `k8s/pkg/apis/longhorn/v1beta2/volume.go`, `KubernetesStatus`).
fn is_in_use(volume: &Value) -> bool {
    text(volume, "/status/kubernetesStatus/lastPodRefAt").is_empty()
        && !items(volume, "/status/kubernetesStatus/workloadsStatus").is_empty()
}

fn of_volumes(volumes: &[&Value], why: &str) -> IncidentFinding {
    let evidence = volumes.iter().take(MOST).flat_map(|volume| {
        let about = subject(volume, "Volume");
        let status = text(volume, "/status/robustness");
        let used = text(volume, "/status/kubernetesStatus/pvcName");
        let namespace = text(volume, "/status/kubernetesStatus/namespace");
        let claim = (!used.is_empty()).then(|| {
            let claim = format!("PersistentVolumeClaim {namespace}/{used}");
            Evidence::new(&about, "status.kubernetesStatus.pvcName", claim)
        });
        let seen = Evidence::new(&about, "status.robustness", status);
        std::iter::once(seen).chain(claim)
    });
    let about = subject(volumes[0], "Volume");
    let mut finding = IncidentFinding::new(Code::ProblemStays, about, why).seen(evidence);
    "Open the volume in Longhorn's console: it shows each replica, its node and its disk. Longhorn rebuilds replicas when their \
     node and a disk with enough space are back."
        .clone_into(&mut finding.advice);
    finding
}
