//! Tests upgrades that have failed, are about to fail, or do not react.

use super::*;

fn failed(services: &str, nodes: Value) -> Value {
    let mut upgrade = upgrade("Failed", nodes);
    upgrade["spec"] = json!({"version": "v1.8.2"});
    upgrade["status"]["conditions"] = json!([
        {"type": "SystemServicesUpgraded", "status": services, "lastUpdateTime": at("09:00"),
            "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}]);
    upgrade
}

fn job_that_failed(kind: &str) -> Value {
    let failed = json!({"failed": 1, "conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded",
        "message": "Job was active longer than specified deadline", "lastTransitionTime": at("11:00")}]});
    with(job(kind, "10:00", None), "/status", failed)
}

#[test]
fn an_upgrade_that_failed_is_told_with_its_node_its_job_and_what_is_not_to_be_done() {
    let advice = |objects: Vec<Value>| diagnose(&cluster(objects), now()).findings.remove(0).advice;
    let nodes = json!({"n1": {"state": "Failed", "reason": "DeadlineExceeded", "message": "too long"},
        "n2": {"state": "Succeeded"}});
    let objects = || {
        vec![
            failed("True", nodes.clone()),
            job_that_failed("post-drain"),
            node("n1"),
        ]
    };
    let (codes, seen) = told(objects());
    assert_eq!(codes, ["upgrade-failed"]);
    assert!(
        seen.contains("status.nodeStatuses[n1]: Failed, DeadlineExceeded, too long"),
        "{seen}"
    );
    assert!(
        seen.contains(
            "Job harvester-system/job-post-drain: condition Failed: True, DeadlineExceeded"
        ),
        "{seen}"
    );
    assert!(advice(objects()).contains("Do not restart it"));

    let waits = json!({"n1": {"state": "Images preloaded"}, "n2": {"state": "Images preloaded"}});
    let objects = || vec![failed("False", waits.clone()), node("n1")];
    let (codes, seen) = told(objects());
    assert_eq!(codes, ["upgrade-failed"]);
    assert!(
        seen.contains("condition SystemServicesUpgraded: False, BackoffLimitExceeded"),
        "{seen}"
    );
    assert!(!advice(objects()).contains("phase 4"));
}

#[test]
fn a_failed_upgrade_that_was_dismissed_followed_or_finished_by_hand_is_over() {
    let nodes = json!({"n1": {"state": "Failed"}});
    let label = |key: &str, value: &str| {
        let mut upgrade = failed("True", nodes.clone());
        upgrade["metadata"]["labels"][key] = json!(value);
        upgrade
    };
    nothing([label("harvesterhci.io/read-message", "true"), node("n1")]);
    nothing([label("harvesterhci.io/latestUpgrade", ""), node("n1")]);
    let done = with(
        node("n1"),
        "/status/nodeInfo/osImage",
        json!("Harvester v1.8.2"),
    );
    nothing([failed("True", nodes), done]);
}

#[test]
fn a_job_whose_pods_fail_again_and_again_is_told_before_it_fails_for_good() {
    let trying = |failed: u64, made: &str| {
        with(
            job("post-drain", made, None),
            "/status",
            json!({"active": 1, "failed": failed}),
        )
    };
    let (codes, seen) = told([
        one("Post-draining"),
        trying(5, "11:00"),
        node("n1"),
        repository(),
    ]);
    assert_eq!(codes, ["upgrade-stalled"]);
    assert!(
        seen.contains("Job harvester-system/job-post-drain: status.failed: 5"),
        "{seen}"
    );
    nothing([
        one("Post-draining"),
        trying(2, "11:00"),
        node("n1"),
        repository(),
    ]);
    nothing([
        one("Post-draining"),
        trying(5, "11:45"),
        node("n1"),
        repository(),
    ]);
}

/// The working repository of the upgrade.
fn repository() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "upgrade-repo-up", "namespace": "harvester-system"},
        "status": {"conditions": [{"type": "Available", "status": "True", "lastTransitionTime": at("08:00")}]}})
}

#[test]
fn a_node_that_stays_pre_drained_after_its_post_drain_job_is_told() {
    let drained = |ended: &str| {
        [
            one("Pre-drained"),
            job("pre-drain", "10:00", Some("10:10")),
            job("post-drain", "11:00", Some(ended)),
            node("n1"),
        ]
    };
    let (codes, seen) = told(drained("11:30"));
    assert_eq!(codes, ["upgrade-stalled"]);
    assert!(seen.contains("its post-drain Job is complete"), "{seen}");
    let lines = upgrade_in_words(&cluster(drained("11:30")), now());
    assert!(
        lines[1].contains("its post-drain Job is complete, waits for Harvester"),
        "{lines:?}"
    );
    nothing(drained("11:50"));
}

/// Pre-drained with the new RKE2 or another one, with this message of Rancher since this time.
fn upgraded(rke2: &str, since: &str, message: &str) -> Vec<Value> {
    let upgrade = with(
        with(
            one("Pre-drained"),
            "/status/previousVersion",
            json!("v1.4.0"),
        ),
        "/status/repoInfo",
        json!("release:\n  harvester: v1.4.1\n  kubernetes: v1.30.7+rke2r1\n"),
    );
    let plane = json!({"apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane",
        "metadata": {"name": "local", "namespace": "fleet-local"},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Waiting", "message": message,
            "lastUpdateTime": at(since)}]}});
    vec![
        upgrade,
        job("pre-drain", "10:00", Some("10:10")),
        with(node("n1"), "/status/nodeInfo/kubeletVersion", json!(rke2)),
        plane,
    ]
}

#[test]
fn a_node_whose_new_rke2_runs_while_rancher_asks_for_nothing_is_told_with_ranchers_words() {
    let (new, old) = ("v1.30.7+rke2r1", "v1.29.9+rke2r1");
    let (codes, seen) = told(upgraded(new, "11:00", "draining etcd node(s) custom-1"));
    assert_eq!(codes, ["upgrade-stalled"]);
    assert!(seen.contains("its new RKE2 runs"), "{seen}");
    assert!(seen.contains("draining etcd node(s) custom-1"), "{seen}");
    // For the first node of an upgrade whose repository does not contain it, the release is known.
    let mut first = upgraded(new, "11:00", "draining etcd node(s) custom-1");
    first[0]["status"]["repoInfo"] = json!("");
    first[0]["spec"] = json!({"version": "v1.4.1"});
    assert_eq!(told(first).0, ["upgrade-stalled"]);
    // Rancher acted just now; or it has not upgraded the node yet, which only the text mentions.
    nothing(upgraded(new, "11:50", "draining etcd node(s) custom-1"));
    let slow = upgraded(old, "11:00", "draining etcd node(s) custom-1");
    nothing(slow.clone());
    let slow = cluster(slow);
    let lines = upgrade_in_words(&slow, now()).join("\n");
    assert!(
        lines.contains("Rancher says: RKEControlPlane fleet-local/local: condition Ready: Unknown, Waiting, draining etcd"),
        "{lines}"
    );
    let (asked, _) = rounds(&slow);
    assert_eq!(upgrade_in_words(&asked, now()).join("\n"), lines);
}

#[test]
fn a_probe_that_rancher_waits_for_is_told_after_half_an_hour() {
    let message = "configuring bootstrap node(s) custom-1: waiting for probes: kube-scheduler";
    let (codes, seen) = told(upgraded("v1.29.9+rke2r1", "11:20", message));
    assert_eq!(codes, ["upgrade-stalled"]);
    assert!(
        seen.contains("waiting for probes: kube-scheduler"),
        "{seen}"
    );
    nothing(upgraded("v1.29.9+rke2r1", "11:45", message));
    let mut services = upgraded("v1.29.9+rke2r1", "11:20", message);
    services[0] = upgrade("UpgradingSystemServices", json!({}));
    assert_eq!(told(services).0, ["upgrade-stalled"]);
}

#[test]
fn a_job_of_another_namespace_is_no_hook_of_the_upgrade() {
    let foreign = |job: Value| with(job, "/metadata/namespace", json!("tenant-a"));
    let drained = || job("pre-drain", "11:00", Some("11:55"));
    let complete = || job("post-drain", "11:00", Some("11:10"));
    let (codes, seen) = told([one("Pre-drained"), drained(), complete(), node("n1")]);
    assert_eq!(codes, ["upgrade-stalled"]);
    assert!(
        seen.contains("Job harvester-system/job-post-drain: status.completionTime"),
        "{seen}"
    );
    nothing([
        one("Pre-drained"),
        drained(),
        foreign(complete()),
        node("n1"),
    ]);
    // A newer Job does not change the time since which the node waits.
    let upgrade = one("Pre-drained");
    let jobs = [
        job("pre-drain", "08:00", Some("08:05")),
        foreign(job("pre-drain", "11:56", Some("11:58"))),
    ];
    let read = HarvesterUpgrade::read(&upgrade, &jobs);
    assert_eq!(read.nodes[0].since, Some(at("08:05").parse().unwrap()));
    let loads = one("Images preloading");
    let jobs = [foreign(job_of_plan("11:58"))];
    assert_eq!(HarvesterUpgrade::read(&loads, &jobs).nodes[0].since, None);
    // A failing Job like this does not belong to a failed upgrade.
    let failed = failed("True", json!({"n1": {"state": "Failed"}}));
    let (_, seen) = told([failed, foreign(job_that_failed("post-drain")), node("n1")]);
    assert!(!seen.contains("tenant-a"), "{seen}");
}

/// A Job that loads images, with the labels of system-upgrade-controller.
fn job_of_plan(made: &str) -> Value {
    let labels = json!({"upgrade.cattle.io/plan": "up-prepare", "upgrade.cattle.io/node": "n1"});
    with(job("", made, Some(made)), "/metadata/labels", labels)
}
