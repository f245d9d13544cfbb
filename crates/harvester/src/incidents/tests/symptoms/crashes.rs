//! Tests since when a pod crashes again and again, and which findings explain it.

use super::*;

/// A pod that waits after a crash: its newest run, and the words of the kubelet.
fn crashed(restarts: u64, run: [&str; 2], words: &str, not_ready: &str) -> Value {
    json!({"phase": "Running", "startTime": OLD,
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": not_ready}],
        "containerStatuses": [{"name": "c", "restartCount": restarts,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": words}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": run[0], "finishedAt": run[1]}}}]})
}

fn webhook(status: Value) -> [Value; 3] {
    [
        ready("n1"),
        deployment(SYSTEM, "harvester-webhook", 1, 0, JUST_NOW),
        pod(SYSTEM, "harvester-webhook", 1, "n1", status),
    ]
}

const SHORT_RUN: [&str; 2] = ["2026-05-01T11:57:00Z", "2026-05-01T11:58:00Z"];

#[test]
fn one_crash_after_months_is_no_loop_although_there_were_restarts_before() {
    let run = [OLD, "2026-05-01T11:58:00Z"];
    let pause = "back-off 10s restarting failed container=c";
    let crash = crashed(9, run, pause, "2026-05-01T11:58:00Z");
    assert_eq!(found(webhook(crash)), []);
    // The kubelet's pause is still short: it is a new loop.
    let pause = "back-off 40s restarting failed container=c";
    let young = crashed(9, SHORT_RUN, pause, "2026-05-01T11:56:00Z");
    assert_eq!(found(webhook(young)), []);
}

#[test]
fn a_loop_is_told_with_its_newest_exit_also_if_each_run_becomes_ready() {
    let pause = "back-off 5m0s restarting failed container=c";
    let finding = one(webhook(crashed(80, SHORT_RUN, pause, SHORT_RUN[1])));
    assert_eq!(finding.severity, Severity::Error);
    let words = "CrashLoopBackOff, 80 restarts, last exit 2026-05-01T11:58:00Z";
    assert!(finding.message.contains(words), "{}", finding.message);
    // The kubelet's longest pause can be a shorter one.
    let pause = "back-off 30s restarting failed container=c";
    let finding = one(webhook(crashed(80, SHORT_RUN, pause, SHORT_RUN[1])));
    assert_eq!(finding.severity, Severity::Error);
    // After a long run too, if it has not been Ready for long.
    let run = ["2026-05-01T11:00:00Z", "2026-05-01T11:58:00Z"];
    let finding = one(webhook(crashed(
        5,
        run,
        "back-off 10s restarting failed container=c",
        LONG_AGO,
    )));
    assert!(finding.message.contains(LONG_AGO), "{}", finding.message);
}

#[test]
fn a_pod_whose_sandbox_is_made_again_is_not_as_old_as_its_start() {
    let mut again = creating(OLD);
    again["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Ready", "status": "False", "lastTransitionTime": JUST_NOW}));
    assert_eq!(found(webhook(again)), []);
}

/// One replica more than the cluster has nodes is a known state without harm.
#[test]
fn a_finding_about_another_pod_of_its_deployment_does_not_hide_a_crash_loop() {
    let words = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.";
    let mut spare = pod(
        SYSTEM,
        "harvester",
        2,
        "",
        json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words, "lastTransitionTime": LONG_AGO}]}),
    );
    spare["spec"] =
        json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "64"}}}]});
    let pause = "back-off 5m0s restarting failed container=c";
    let crashing = pod(
        SYSTEM,
        "harvester",
        1,
        "n1",
        crashed(80, SHORT_RUN, pause, LONG_AGO),
    );
    let all = found([
        ready("n1"),
        deployment(SYSTEM, "harvester", 2, 1, OLD),
        crashing,
        spare,
    ]);
    let codes: Vec<_> = all.iter().map(|one| (one.code, one.unexplained)).collect();
    let expected = [
        (Code::WorkloadNotAvailable, true),
        (Code::PlatformPodPending, false),
    ];
    assert_eq!(codes, expected, "{all:#?}");
}

#[test]
fn a_stalled_upgrade_does_not_explain_the_full_disk_of_its_node() {
    let mut full = ready("n1");
    full["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "DiskPressure", "status": "True", "lastTransitionTime": LONG_AGO}));
    full["status"]["nodeInfo"] = json!({"kubeletVersion": "v1.33.5+rke2r1"});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "up-post-drain-n1", "namespace": SYSTEM, "creationTimestamp": OLD, "labels": {
            "harvesterhci.io/upgrade": "up", "harvesterhci.io/node": "n1", "harvesterhci.io/upgradeJobType": "post-drain"}},
        "status": {"startTime": OLD, "completionTime": LONG_AGO, "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": LONG_AGO}]}});
    let all = found([full, job, upgrade("UpgradingNodes", "n1", "Pre-drained")]);
    let codes: Vec<_> = all.iter().map(|one| one.code).collect();
    assert!(codes.contains(&Code::UpgradeStalled), "{codes:?}");
    assert!(codes.contains(&Code::NodeCondition), "{codes:?}");
}
