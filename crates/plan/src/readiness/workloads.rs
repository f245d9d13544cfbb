//! Judges pods and workloads: the counts of kstatus, with corrections for the boot of a node.

use serde_json::Value;
use windrow_model::object::pods::container_statuses;

use super::Judgement;
use super::fields::{
    FieldResult, at, condition, failed, number, one_line, progressing, ready, says, text, unknown,
};

/// The controller writes `observedGeneration` when it first reads the object. Before that the state is unknown.
fn spoken(object: &Value) -> FieldResult<()> {
    match number(object, &["status", "observedGeneration"])? {
        Some(_) => Ok(()),
        None => Err(unknown(
            "NoStatus",
            "its controller has reported no status yet",
        )),
    }
}

fn count(object: &Value, key: &str) -> FieldResult<i64> {
    Ok(number(object, &["status", key])?.unwrap_or(0))
}

fn wanted_replicas(object: &Value) -> FieldResult<i64> {
    Ok(number(object, &["spec", "replicas"])?.unwrap_or(1))
}

fn short(reason: &'static str, what: &str, have: i64, want: i64) -> Judgement {
    progressing(reason, format!("{have} of {want} replicas {what}"))
}

pub(super) fn deployment(object: &Value) -> FieldResult<Judgement> {
    let progress = condition(object, "Progressing")?;
    if let Some(progress) = progress
        && progress.reason == "ProgressDeadlineExceeded"
    {
        return Ok(failed("ProgressDeadlineExceeded", says(&progress)));
    }
    spoken(object)?;
    let want = wanted_replicas(object)?;
    let replicas = count(object, "replicas")?;
    let updated = count(object, "updatedReplicas")?;
    let available = count(object, "availableReplicas")?;
    let running = count(object, "readyReplicas")?;
    if replicas < want {
        return Ok(short("LessReplicas", "created", replicas, want));
    }
    if updated < want {
        return Ok(short("LessUpdated", "updated", updated, want));
    }
    if replicas > want {
        return Ok(progressing(
            "ExtraPods",
            format!("{} old replicas still to be removed", replicas - want),
        ));
    }
    if available < updated {
        return Ok(short("LessAvailable", "available", available, updated));
    }
    if running < want {
        return Ok(short("LessReady", "ready", running, want));
    }
    let limited = at(object, &["spec", "progressDeadlineSeconds"]).is_some();
    let arrived = progress
        .is_some_and(|progress| progress.is_true() && progress.reason == "NewReplicaSetAvailable");
    if limited && !arrived {
        return Ok(progressing(
            "ReplicaSetNotAvailable",
            "its ReplicaSet is not available yet",
        ));
    }
    if !condition(object, "Available")?.is_some_and(|condition| condition.is_true()) {
        return Ok(progressing("DeploymentNotAvailable", "not available yet"));
    }
    Ok(ready(
        "Available",
        format!("{available} replicas available"),
    ))
}

/// With `OnDelete` kstatus is satisfied immediately. Here the pods must be ready, but their revision does not count, because
/// replacing them is up to the user.
pub(super) fn stateful_set(object: &Value) -> FieldResult<Judgement> {
    spoken(object)?;
    let want = wanted_replicas(object)?;
    let replicas = count(object, "replicas")?;
    let running = count(object, "readyReplicas")?;
    let updated = count(object, "updatedReplicas")?;
    if replicas < want {
        return Ok(short("LessReplicas", "created", replicas, want));
    }
    if running < want {
        return Ok(short("LessReady", "ready", running, want));
    }
    if replicas > want {
        return Ok(progressing(
            "ExtraPods",
            format!("{} replicas still to be removed", replicas - want),
        ));
    }
    let done = ready("AllReplicasReady", format!("{running} replicas ready"));
    if text(object, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return Ok(done);
    }
    let partition = number(
        object,
        &["spec", "updateStrategy", "rollingUpdate", "partition"],
    )?;
    if let Some(partition) = partition {
        let want = want.saturating_sub(partition);
        return Ok(if updated < want {
            short("PartitionRollout", "updated", updated, want)
        } else {
            done
        });
    }
    let current = count(object, "currentReplicas")?;
    if current < want {
        return Ok(short("LessCurrent", "current", current, want));
    }
    if text(object, &["status", "currentRevision"]) != text(object, &["status", "updateRevision"]) {
        return Ok(progressing(
            "RevisionMismatch",
            "waiting for all replicas to have the new revision",
        ));
    }
    Ok(done)
}

pub(super) fn daemon_set(object: &Value) -> FieldResult<Judgement> {
    spoken(object)?;
    let Some(want) = number(object, &["status", "desiredNumberScheduled"])? else {
        return Ok(progressing(
            "NoDesiredNumber",
            "the number of its nodes is not counted yet",
        ));
    };
    for (key, reason, what) in [
        ("currentNumberScheduled", "LessCurrent", "scheduled"),
        ("updatedNumberScheduled", "LessUpdated", "updated"),
        ("numberAvailable", "LessAvailable", "available"),
        ("numberReady", "LessReady", "ready"),
    ] {
        let have = count(object, key)?;
        if have < want {
            return Ok(short(reason, what, have, want));
        }
    }
    Ok(ready("AllReplicasReady", format!("ready on {want} nodes")))
}

pub(super) fn replica_set(object: &Value) -> FieldResult<Judgement> {
    spoken(object)?;
    if let Some(failure) = condition(object, "ReplicaFailure")?
        && failure.is_true()
    {
        return Ok(progressing("ReplicaFailure", says(&failure)));
    }
    let want = wanted_replicas(object)?;
    for (key, reason, what) in [
        ("fullyLabeledReplicas", "LessLabelled", "labelled"),
        ("availableReplicas", "LessAvailable", "available"),
        ("readyReplicas", "LessReady", "ready"),
    ] {
        let have = count(object, key)?;
        if have < want {
            return Ok(short(reason, what, have, want));
        }
    }
    let replicas = count(object, "replicas")?;
    if replicas > want {
        return Ok(progressing(
            "ExtraPods",
            format!("{} replicas still to be removed", replicas - want),
        ));
    }
    Ok(ready("AllReplicasReady", format!("{want} replicas ready")))
}

/// A pod in the phase Failed has failed (kstatus: current), and an unschedulable pod keeps waiting, which is normal while a node
/// boots.
pub(super) fn pod(object: &Value) -> FieldResult<Judgement> {
    match text(object, &["status", "phase"]) {
        "Succeeded" => Ok(ready("PodCompleted", "completed")),
        "Failed" => Ok(failed(
            "PodFailed",
            match text(object, &["status", "message"]) {
                "" => "the pod failed".to_owned(),
                message => one_line(message),
            },
        )),
        "Running" => {
            if condition(object, "Ready")?.is_some_and(|condition| condition.is_true()) {
                return Ok(ready("PodReady", "running and ready"));
            }
            Ok(match waiting(object) {
                Some((container, "CrashLoopBackOff")) => failed(
                    "ContainerCrashLooping",
                    format!("container {container} crashes again and again"),
                ),
                Some((container, reason)) => progressing(
                    "PodRunningNotReady",
                    format!("container {container} waits: {reason}"),
                ),
                None => progressing("PodRunningNotReady", "running and not ready yet"),
            })
        }
        "Pending" => {
            if let Some(scheduled) = condition(object, "PodScheduled")?
                && scheduled.is_false()
            {
                return Ok(progressing("PodUnschedulable", says(&scheduled)));
            }
            Ok(match waiting(object) {
                Some((container, reason)) => progressing(
                    "PodPending",
                    format!("container {container} waits: {reason}"),
                ),
                None => progressing("PodPending", "not started yet"),
            })
        }
        "" => Ok(unknown("NoStatus", "the pod has no phase yet")),
        _ => Ok(unknown("PodPhaseUnknown", "its node does not answer")),
    }
}

/// The first waiting container, and its reason.
fn waiting(object: &Value) -> Option<(&str, &str)> {
    container_statuses(object)
        .map(|container| {
            (
                text(container, &["name"]),
                text(container, &["state", "waiting", "reason"]),
            )
        })
        .find(|(_, reason)| !reason.is_empty())
}

/// Ready when it completes. A mere start, as in kstatus, proves nothing yet.
pub(super) fn job(object: &Value) -> FieldResult<Judgement> {
    if condition(object, "Complete")?.is_some_and(|condition| condition.is_true()) {
        return Ok(ready("JobComplete", "completed"));
    }
    if let Some(failure) = condition(object, "Failed")?
        && failure.is_true()
    {
        return Ok(failed("JobFailed", says(&failure)));
    }
    let suspended = condition(object, "Suspended")?.is_some_and(|condition| condition.is_true());
    if suspended || at(object, &["spec", "suspend"]) == Some(&Value::Bool(true)) {
        return Ok(progressing("JobSuspended", "suspended"));
    }
    if at(object, &["status", "startTime"]).is_none() {
        return Ok(if super::fields::has_status(object) {
            progressing("JobNotStarted", "not started yet")
        } else {
            unknown("NoStatus", "its controller has reported no status yet")
        });
    }
    let active = count(object, "active")?;
    let attempts = count(object, "failed")?;
    Ok(progressing(
        "JobRunning",
        format!("running: {active} pods active, {attempts} failed"),
    ))
}
