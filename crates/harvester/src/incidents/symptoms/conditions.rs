//! Objects whose own status reports a problem that stays. Addons, ManagedCharts and KubeVirt have separate detectors.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::{Code, Severity};

use super::{
    CONDITION_FALSE, Clock, VOLUME_DEGRADED, VOLUME_FAULTED, condition_seen, known, nodes,
    state_of, subject,
};
use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::{MOST, is_platforms};
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, items, named, text};
use crate::upgrade::time;

/// The status of a VM that does not start without a change (kubevirt d923fdb `staging/src/kubevirt.io/api/core/v1/types.go`,
/// `VirtualMachinePrintableStatus`).
const VM_PROBLEMS: [&str; 6] = [
    "CrashLoopBackOff",
    "ErrorUnschedulable",
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrorPvcNotFound",
    "DataVolumeError",
];
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

pub(super) fn find_upgrade_images(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let images = objects.all(ObjectKind::VM_IMAGE)?.iter();
    let failed: Vec<_> = images
        .filter(|image| text(image, OF_UPGRADE) == "True")
        .filter_map(|image| Some((image, Condition::of(image, "Imported")?)))
        .filter(|(_, imported)| imported.is_false())
        .collect();
    if failed.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let late = failed
        .into_iter()
        .filter(|(_, imported)| clock.is_late(imported.since(), &CONDITION_FALSE));
    Ok(late
        .map(|(image, imported)| of_condition("VirtualMachineImage", image, imported))
        .collect())
}

fn of_condition(kind: &str, object: &Value, condition: Condition<'_>) -> IncidentFinding {
    let about = subject(object, kind);
    let since = condition.since();
    let why = format!("{} is {}", condition.name, state_of(&condition, since));
    let seen = condition_seen(&about, &condition, since);
    IncidentFinding::new(Code::ProblemStays, about, &why).seen([seen])
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
    let degraded: Vec<&Value> = degraded
        .into_iter()
        .filter(|volume| clock.is_late(time(volume, "/status/lastDegradedAt"), &VOLUME_DEGRADED))
        .collect();
    if !degraded.is_empty() {
        let why = match degraded.len() {
            1 => "it has too few healthy replicas".to_owned(),
            many => format!(
                "it and {} more volumes have too few healthy replicas",
                many - 1
            ),
        };
        found.push(of_volumes(&degraded, &why));
    }
    Ok(found)
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

/// A claim whose volume is gone.
pub(super) fn find_claims(
    objects: &Objects,
    _: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let claims = objects.all(ObjectKind::CLAIM)?.iter();
    let lost = claims.filter(|claim| text(claim, "/status/phase") == "Lost");
    Ok(lost
        .map(|claim| {
            let about = subject(claim, "PersistentVolumeClaim");
            let volume = text(claim, "/spec/volumeName");
            let why = format!("its PersistentVolume {volume} does not exist");
            let seen = Evidence::new(&about, "status.phase", "Lost");
            let mut finding = IncidentFinding::new(Code::ProblemStays, about, &why).seen([seen]);
            if is_platforms(claim) {
                finding.severity = Severity::Error;
            }
            "Restore the volume from a backup, or delete the claim and let its controller create it again."
                .clone_into(&mut finding.advice);
            finding
        })
        .collect())
}

/// VMs that should run and whose status is an error. They are yours: one finding for all.
pub(super) fn find_machines(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let machines = objects.all(ObjectKind::VM)?.iter();
    let status = |vm: &'_ Value| text(vm, "/status/printableStatus").to_owned();
    let bad: Vec<&Value> = machines
        .filter(|vm| VM_PROBLEMS.contains(&&*status(vm)))
        .collect();
    if bad.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    // KubeVirt's condition Ready has no transition time of its own in some versions: the newest of all conditions counts.
    let since = |vm: &Value| {
        let conditions = Condition::all(vm).filter_map(|condition| condition.since());
        conditions.max()
    };
    let late: Vec<&Value> = bad
        .into_iter()
        .filter(|vm| clock.is_late(since(vm), &CONDITION_FALSE))
        .collect();
    let Some(first) = late.first() else {
        return Ok(Vec::new());
    };
    let why = match late.len() {
        1 => format!("its status is {}", status(first)),
        many => format!(
            "its status is {}; {} more VMs do not run",
            status(first),
            many - 1
        ),
    };
    let evidence = late.iter().take(MOST).map(|vm| {
        let words = Condition::all(vm).find(|condition| !condition.message.is_empty());
        let words = words.map_or(String::new(), |words| format!(": {}", words.words()));
        let value = crate::incidents::platform::quoted(&format!("{}{words}", status(vm)));
        Evidence::new(
            subject(vm, "VirtualMachine"),
            "status.printableStatus",
            value,
        )
    });
    let about = format!("VirtualMachine {}", named(first));
    let mut finding = IncidentFinding::new(Code::ProblemStays, about, &why).seen(evidence);
    "`kubectl describe vm` and `kubectl describe vmi` show why the VM does not start."
        .clone_into(&mut finding.advice);
    Ok(vec![finding])
}
