//! Objects whose status tells for long that their controller failed or waits, each with the field that shows it.

use jiff::Timestamp;
use serde_json::Value;
use windrow_model::findings::Evidence;
use windrow_model::reasons::Code;

use super::conditions::{is_of_upgrade, late_images};
use super::{
    CONDITION_FALSE, Clock, MACHINE_NOT_READY, NAMESPACE_TERMINATING, STATUS_FAILED,
    condition_seen, of_condition, state_of, subject,
};
use crate::incidents::finding::IncidentFinding;
use crate::incidents::platform::{MOST, quoted};
use crate::objects::{Condition, ObjectKind, Objects, Unlisted, is_true, items, text};
use crate::upgrade::time;

/// The namespace of the local cluster's objects (rancher v2.15.0 `pkg/fleet/const.go:13`).
const LOCAL: &str = "fleet-local";

/// Namespaces whose deletion does not finish.
pub(super) fn find_namespaces(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let deleted = |namespace: &Value| time(namespace, "/metadata/deletionTimestamp");
    let all = objects.all(ObjectKind::NAMESPACE)?.iter();
    let ending: Vec<&Value> = all.filter(|one| deleted(one).is_some()).collect();
    if ending.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let late = ending
        .into_iter()
        .filter(|one| clock.is_late(deleted(one), &NAMESPACE_TERMINATING));
    Ok(late.map(terminating).collect())
}

fn terminating(namespace: &Value) -> IncidentFinding {
    let about = subject(namespace, "Namespace");
    let since = text(namespace, "/metadata/deletionTimestamp");
    // Finalizers of its own, which a controller removes, and that of Kubernetes, which waits for its content.
    let lists = ["/metadata/finalizers", "/spec/finalizers"];
    let finalizers = lists.map(|list| {
        let names = items(namespace, list).iter().filter_map(Value::as_str);
        names.collect::<Vec<_>>().join(", ")
    });
    // These conditions are True if something is wrong (kubernetes `pkg/controller/namespace/deletion/status_condition_utils.go`).
    let bad: Vec<_> = Condition::all(namespace)
        .filter(Condition::is_true)
        .collect();
    let reason = match (bad.first(), &finalizers) {
        (Some(condition), _) => quoted(&condition.words()),
        (None, [own, _]) if !own.is_empty() => format!("it waits for finalizer {own}"),
        (None, _) => "its content is gone".to_owned(),
    };
    let why = format!("it is being deleted since {since}: {reason}");
    let fields = ["metadata.finalizers", "spec.finalizers"];
    let lists = fields
        .iter()
        .zip(&finalizers)
        .filter(|(_, names)| !names.is_empty());
    let lists = lists.map(|(field, names)| Evidence::new(&about, *field, names));
    let conditions = bad
        .iter()
        .map(|one| condition_seen(&about, one, one.since()));
    let deleted = Evidence::new(&about, "metadata.deletionTimestamp", since);
    let mut finding = IncidentFinding::new(Code::ProblemStays, &about, &why)
        .seen([deleted])
        .seen(lists)
        .seen(conditions);
    "Find the finalizer's controller, and read its log. Remove a finalizer by hand only if its controller is gone for good: otherwise the \
     controller's own resources stay."
        .clone_into(&mut finding.advice);
    finding
}

/// Backups of VMs that failed.
pub(super) fn find_backups(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let is_failed = |backup: &&Value| {
        !text(backup, "/status/error/message").is_empty()
            && backup.pointer("/status/readyToUse") != Some(&Value::Bool(true))
    };
    let all = objects.all(ObjectKind::VM_BACKUP)?.iter();
    let failed: Vec<&Value> = all.filter(is_failed).collect();
    if failed.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let late = |backup: &&Value| clock.is_late(time(backup, "/status/error/time"), &STATUS_FAILED);
    let late: Vec<&Value> = failed.into_iter().filter(late).collect();
    let Some(first) = late.first() else {
        return Ok(Vec::new());
    };
    let about = subject(first, "VirtualMachineBackup");
    let error = |backup: &Value| quoted(text(backup, "/status/error/message"));
    let more = match late.len() {
        1 => String::new(),
        many => format!("; {} more failed", many - 1),
    };
    let at = text(first, "/status/error/time");
    let why = format!("it failed at {at}: {}{more}", error(first));
    let seen = late.iter().take(MOST).map(|backup| {
        let about = subject(backup, "VirtualMachineBackup");
        Evidence::new(about, "status.error.message", error(backup))
    });
    let mut finding = IncidentFinding::new(Code::ProblemStays, about, &why).seen(seen);
    "Fix the cause, then make a new backup: Harvester does not repeat a failed one."
        .clone_into(&mut finding.advice);
    Ok(vec![finding])
}

/// Images of VMs whose download failed for good. Those for an upgrade have a separate check.
pub(super) fn find_images(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let is_meant = |image: &Value| is_true(image, "RetryLimitExceeded") && !is_of_upgrade(image);
    let late = late_images(objects, now, is_meant)?.into_iter();
    Ok(late
        .map(|(image, imported)| {
            let mut finding = of_condition("VirtualMachineImage", image, imported);
            "Harvester does not try again. Fix the cause that the message names, delete the image and create it again."
                .clone_into(&mut finding.advice);
            finding
        })
        .collect())
}

/// Charts whose Job failed and is gone. A chart whose Job still fails has an incident (helm-controller 21a911f
/// `pkg/controllers/chart/chart.go`, condition Failed).
pub(super) fn find_charts(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let charts = objects.all(ObjectKind::HELM_CHART)?.iter();
    let failed: Vec<_> = charts
        .filter_map(|chart| {
            Some((
                chart,
                Condition::of(chart, "Failed").filter(Condition::is_true)?,
            ))
        })
        .collect();
    if failed.is_empty() {
        return Ok(Vec::new());
    }
    let jobs = objects.all(ObjectKind::JOB)?;
    let clock = Clock::read(objects, now)?;
    let has_job = |chart: &Value| {
        let name = text(chart, "/status/jobName");
        jobs.iter().any(|job| {
            text(job, "/metadata/namespace") == text(chart, "/metadata/namespace")
                && text(job, "/metadata/name") == name
        })
    };
    let made = |chart: &Value| time(chart, "/metadata/creationTimestamp");
    let late = failed.into_iter().filter(|(chart, condition)| {
        let since = condition.since().or_else(|| made(chart));
        !has_job(chart) && clock.is_late(since, &CONDITION_FALSE)
    });
    Ok(late
        .map(|(chart, condition)| {
            let mut finding = of_condition("HelmChart", chart, condition);
            "Its Job is gone, and helm-controller makes another one only after a change of the chart. Fix the cause, then change the chart, \
             for example its spec.valuesContent."
                .clone_into(&mut finding.advice);
            finding
        })
        .collect())
}

/// Networks of VMs that a node could not set up (network-controller-harvester 2e5cbea `pkg/controller/agent/vlanconfig`).
pub(super) fn find_vlans(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let all = objects.all(ObjectKind::VLAN_STATUS)?.iter();
    let failed: Vec<_> = all
        .filter_map(|status| {
            Some((
                status,
                Condition::of(status, "ready").filter(Condition::is_false)?,
            ))
        })
        .collect();
    if failed.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let aside = super::nodes::set_aside(objects)?;
    let late = failed.into_iter().filter(|(status, ready)| {
        !aside.contains(text(status, "/status/node"))
            && clock.is_late(ready.since(), &CONDITION_FALSE)
    });
    Ok(late
        .map(|(status, ready)| {
            let about = subject(status, "VlanStatus");
            let (network, node) = (text(status, "/status/clusterNetwork"), text(status, "/status/node"));
            let state = state_of(&ready, ready.since());
            let why = format!("cluster network {network} does not work on {node}: ready is {state}");
            let seen = condition_seen(&about, &ready, ready.since());
            let mut finding = IncidentFinding::new(Code::ProblemStays, &about, &why).seen([seen]);
            "Read the log of the pod harvester-network-controller on this node. VMs with this network do not run or reach nothing there."
                .clone_into(&mut finding.advice);
            finding
        })
        .collect())
}

/// Clusters that this Rancher makes, and their Machines, that wait with a message. Those of the local cluster have a separate check.
pub(super) fn find_guests(
    objects: &Objects,
    now: Timestamp,
) -> Result<Vec<IncidentFinding>, Unlisted> {
    let mut waiting = Vec::new();
    for kind in [ObjectKind::PROVISIONING_CLUSTER, ObjectKind::CAPI_MACHINE] {
        for object in objects.all(kind)? {
            let is_deleted = object.pointer("/metadata/deletionTimestamp").is_some();
            let ready = Condition::of(object, "Ready");
            let ready = ready.filter(|one| !one.is_true() && !one.message.trim().is_empty());
            if text(object, "/metadata/namespace") != LOCAL && !is_deleted {
                waiting.extend(ready.map(|ready| (kind, object, ready)));
            }
        }
    }
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    let clock = Clock::read(objects, now)?;
    let late: Vec<_> = waiting
        .into_iter()
        .filter(|(_, _, ready)| clock.is_late(ready.since(), &MACHINE_NOT_READY))
        .collect();
    // A cluster waits for its Machines: one finding for both.
    let name = |object: &Value, field: &str| {
        format!(
            "{}/{}",
            text(object, "/metadata/namespace"),
            text(object, field)
        )
    };
    let mut found: Vec<(String, IncidentFinding)> = Vec::new();
    for (kind, object, ready) in late {
        let cluster = match kind {
            ObjectKind::CAPI_MACHINE => name(object, "/spec/clusterName"),
            _ => name(object, "/metadata/name"),
        };
        let about = subject(object, kind.kind);
        let seen = condition_seen(&about, &ready, ready.since());
        match found.iter_mut().find(|(known, _)| *known == cluster) {
            Some((_, finding)) if finding.evidence.len() < MOST => finding.evidence.push(seen),
            Some(_) => {}
            None => {
                let mut finding = of_condition(kind.kind, object, ready);
                "It is a cluster that this Rancher makes. Fix what the message names: on its nodes, read the logs of rancher-system-agent and \
                 rke2-server."
                    .clone_into(&mut finding.advice);
                found.push((cluster, finding));
            }
        }
    }
    Ok(found.into_iter().map(|(_, finding)| finding).collect())
}
