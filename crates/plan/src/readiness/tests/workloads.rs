use super::table::{check, with_status};
use super::*;
use Verdict::{Failed, Progressing, Ready, Unknown};

#[test]
fn the_rows_of_deployments() {
    let done = json!({
        "metadata": {"generation": 2},
        "spec": {"replicas": 3, "progressDeadlineSeconds": 600},
        "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3,
            "availableReplicas": 3, "conditions": [
                {"type": "Available", "status": "True"},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]},
    });
    let kind = "apps/Deployment";
    let with = |changes: Value| with_status(&done, changes);
    check(
        vec![
            ("all replicas", kind, done.clone(), Ready, "Available"),
            (
                "all replicas, old group",
                "extensions/Deployment",
                done.clone(),
                Ready,
                "Available",
            ),
            (
                "older generation",
                kind,
                with(json!({"observedGeneration": 1})),
                Progressing,
                "LatestGenerationNotObserved",
            ),
            (
                "fewer replicas",
                kind,
                with(json!({"replicas": 2})),
                Progressing,
                "LessReplicas",
            ),
            (
                "fewer updated",
                kind,
                with(json!({"updatedReplicas": 2})),
                Progressing,
                "LessUpdated",
            ),
            (
                "old pods left",
                kind,
                with(json!({"replicas": 4})),
                Progressing,
                "ExtraPods",
            ),
            (
                "fewer available",
                kind,
                with(json!({"availableReplicas": 2})),
                Progressing,
                "LessAvailable",
            ),
            (
                "fewer ready",
                kind,
                with(json!({"readyReplicas": 2})),
                Progressing,
                "LessReady",
            ),
            (
                "new ReplicaSet not there",
                kind,
                with(json!({"conditions": [
                {"type": "Available", "status": "True"},
                {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}]})),
                Progressing,
                "ReplicaSetNotAvailable",
            ),
            (
                "not available",
                kind,
                with(json!({"conditions": [
                {"type": "Available", "status": "False"},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]})),
                Progressing,
                "DeploymentNotAvailable",
            ),
            (
                "deadline exceeded",
                kind,
                with(json!({"conditions": [
                {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]})),
                Failed,
                "ProgressDeadlineExceeded",
            ),
            (
                "one replica by default",
                kind,
                json!({"spec": {}, "status": {"observedGeneration": 1}}),
                Progressing,
                "LessReplicas",
            ),
            (
                "no deadline, no Progressing",
                kind,
                json!({"spec": {"replicas": 0}, "status": {"observedGeneration": 1,
                "conditions": [{"type": "Available", "status": "True"}]}}),
                Ready,
                "Available",
            ),
            (
                "nobody looked yet",
                kind,
                json!({"spec": {"replicas": 0}}),
                Unknown,
                "NoStatus",
            ),
        ],
        &World::default(),
    );
}

#[test]
fn the_rows_of_stateful_sets() {
    let done = json!({
        "spec": {"replicas": 3, "updateStrategy": {"type": "RollingUpdate"}},
        "status": {"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "currentReplicas": 3,
            "updatedReplicas": 3, "currentRevision": "a", "updateRevision": "a"},
    });
    let kind = "apps/StatefulSet";
    let with = |changes: Value| with_status(&done, changes);
    let strategy = |object: Value, strategy: Value| {
        let mut object = object;
        object["spec"]["updateStrategy"] = strategy;
        object
    };
    let partition = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    check(
        vec![
            (
                "all replicas",
                kind,
                done.clone(),
                Ready,
                "AllReplicasReady",
            ),
            (
                "fewer replicas",
                kind,
                with(json!({"replicas": 2})),
                Progressing,
                "LessReplicas",
            ),
            (
                "fewer ready",
                kind,
                with(json!({"readyReplicas": 2})),
                Progressing,
                "LessReady",
            ),
            (
                "too many",
                kind,
                with(json!({"replicas": 4})),
                Progressing,
                "ExtraPods",
            ),
            (
                "fewer current",
                kind,
                with(json!({"currentReplicas": 2})),
                Progressing,
                "LessCurrent",
            ),
            (
                "two revisions",
                kind,
                with(json!({"updateRevision": "b"})),
                Progressing,
                "RevisionMismatch",
            ),
            (
                "partition reached",
                kind,
                strategy(
                    with(json!({"updatedReplicas": 1, "updateRevision": "b"})),
                    partition.clone(),
                ),
                Ready,
                "AllReplicasReady",
            ),
            (
                "partition not reached",
                kind,
                strategy(with(json!({"updatedReplicas": 0})), partition),
                Progressing,
                "PartitionRollout",
            ),
            (
                "OnDelete with an old revision",
                kind,
                strategy(
                    with(json!({"updateRevision": "b"})),
                    json!({"type": "OnDelete"}),
                ),
                Ready,
                "AllReplicasReady",
            ),
            (
                "OnDelete without pods is not ready",
                kind,
                strategy(
                    with(json!({"readyReplicas": 0})),
                    json!({"type": "OnDelete"}),
                ),
                Progressing,
                "LessReady",
            ),
            (
                "nobody looked yet",
                kind,
                json!({"spec": {}}),
                Unknown,
                "NoStatus",
            ),
        ],
        &World::default(),
    );
}

#[test]
fn the_rows_of_daemon_sets_and_replica_sets() {
    let daemons = json!({"status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2,
        "updatedNumberScheduled": 2, "numberAvailable": 2, "numberReady": 2}});
    let replicas = json!({"spec": {"replicas": 2}, "status": {"observedGeneration": 1, "replicas": 2,
        "fullyLabeledReplicas": 2, "availableReplicas": 2, "readyReplicas": 2}});
    let daemon = |changes: Value| with_status(&daemons, changes);
    let replica = |changes: Value| with_status(&replicas, changes);
    let (ds, rs) = ("apps/DaemonSet", "apps/ReplicaSet");
    check(
        vec![
            (
                "on all nodes",
                ds,
                daemons.clone(),
                Ready,
                "AllReplicasReady",
            ),
            (
                "no node to be on",
                ds,
                json!({"status": {"observedGeneration": 1, "desiredNumberScheduled": 0}}),
                Ready,
                "AllReplicasReady",
            ),
            (
                "not counted",
                ds,
                json!({"status": {"observedGeneration": 1}}),
                Progressing,
                "NoDesiredNumber",
            ),
            (
                "no generation seen",
                ds,
                json!({"status": {"desiredNumberScheduled": 0}}),
                Unknown,
                "NoStatus",
            ),
            (
                "fewer scheduled",
                ds,
                daemon(json!({"currentNumberScheduled": 1})),
                Progressing,
                "LessCurrent",
            ),
            (
                "fewer updated",
                ds,
                daemon(json!({"updatedNumberScheduled": 1})),
                Progressing,
                "LessUpdated",
            ),
            (
                "fewer available",
                ds,
                daemon(json!({"numberAvailable": 1})),
                Progressing,
                "LessAvailable",
            ),
            (
                "fewer ready",
                ds,
                daemon(json!({"numberReady": 1})),
                Progressing,
                "LessReady",
            ),
            (
                "all replicas",
                rs,
                replicas.clone(),
                Ready,
                "AllReplicasReady",
            ),
            (
                "all replicas of a controller",
                "ReplicationController",
                replicas.clone(),
                Ready,
                "AllReplicasReady",
            ),
            (
                "fewer labelled",
                rs,
                replica(json!({"fullyLabeledReplicas": 1})),
                Progressing,
                "LessLabelled",
            ),
            (
                "fewer available",
                rs,
                replica(json!({"availableReplicas": 1})),
                Progressing,
                "LessAvailable",
            ),
            (
                "fewer ready",
                rs,
                replica(json!({"readyReplicas": 1})),
                Progressing,
                "LessReady",
            ),
            (
                "too many",
                rs,
                replica(json!({"replicas": 3})),
                Progressing,
                "ExtraPods",
            ),
            (
                "cannot make pods",
                rs,
                replica(json!({"conditions": [{"type": "ReplicaFailure", "status": "True"}]})),
                Progressing,
                "ReplicaFailure",
            ),
            ("nobody looked yet", rs, json!({}), Unknown, "NoStatus"),
        ],
        &World::default(),
    );
}

#[test]
fn the_rows_of_pods_and_jobs() {
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    let (pod, job) = ("Pod", "batch/Job");
    let condition = |kind: &str| json!({"status": {"startTime": "t", "conditions": [{"type": kind, "status": "True"}]}});
    check(
        vec![
            ("succeeded", pod, phase("Succeeded"), Ready, "PodCompleted"),
            (
                "failed is failed",
                pod,
                phase("Failed"),
                Failed,
                "PodFailed",
            ),
            ("pending", pod, phase("Pending"), Progressing, "PodPending"),
            (
                "running",
                pod,
                phase("Running"),
                Progressing,
                "PodRunningNotReady",
            ),
            ("no phase", pod, json!({}), Unknown, "NoStatus"),
            (
                "node lost",
                pod,
                phase("Unknown"),
                Unknown,
                "PodPhaseUnknown",
            ),
            (
                "running and ready",
                pod,
                json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
                Ready,
                "PodReady",
            ),
            (
                "crashing",
                pod,
                json!({"status": {"phase": "Running", "containerStatuses": [
                {"name": "a", "state": {"running": {}}}, {"name": "b", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}),
                Failed,
                "ContainerCrashLooping",
            ),
            (
                "image missing",
                pod,
                json!({"status": {"phase": "Pending", "initContainerStatuses": [
                {"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}),
                Progressing,
                "PodPending",
            ),
            (
                "unschedulable goes on waiting",
                pod,
                json!({"status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]}}),
                Progressing,
                "PodUnschedulable",
            ),
            ("complete", job, condition("Complete"), Ready, "JobComplete"),
            ("failed", job, condition("Failed"), Failed, "JobFailed"),
            (
                "suspended",
                job,
                condition("Suspended"),
                Progressing,
                "JobSuspended",
            ),
            (
                "to be suspended",
                job,
                json!({"spec": {"suspend": true}}),
                Progressing,
                "JobSuspended",
            ),
            (
                "merely started is not ready",
                job,
                json!({"status": {"startTime": "t", "active": 1}}),
                Progressing,
                "JobRunning",
            ),
            (
                "not started",
                job,
                json!({"status": {"uncountedTerminatedPods": {}}}),
                Progressing,
                "JobNotStarted",
            ),
            ("nobody looked yet", job, json!({}), Unknown, "NoStatus"),
        ],
        &World::default(),
    );
}
