//! Tests what a cordon, maintenance mode and an upgrade of a node imply, and what nobody waits for any more.

use super::*;

fn in_maintenance(mut node: Value) -> Value {
    node["metadata"]["annotations"] = json!({"harvesterhci.io/maintain-status": "completed"});
    node["spec"]["unschedulable"] = json!(true);
    node
}

fn daemon_set(name: &str, want: i64, have: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "creationTimestamp": OLD},
        "spec": {}, "status": {"observedGeneration": 1, "desiredNumberScheduled": want, "currentNumberScheduled": want,
            "updatedNumberScheduled": want, "numberAvailable": have, "numberReady": have}})
}

fn unready(since: &str) -> Value {
    let mut status = works(OLD);
    status["conditions"][0] =
        json!({"type": "Ready", "status": "False", "lastTransitionTime": since});
    status
}

fn waits_for_a_cordon() -> Value {
    let words = "0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 1 node(s) were unschedulable.";
    json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": words, "lastTransitionTime": LONG_AGO}]})
}

#[test]
fn what_a_node_in_maintenance_implies_is_no_error() {
    let off = in_maintenance(not_ready("n2", LONG_AGO));
    let canal = owned(
        pod("kube-system", "rke2-canal", 1, "n2", unready(LONG_AGO)),
        "DaemonSet",
        "rke2-canal",
    );
    let mut waiting = pod(SYSTEM, "harvester", 1, "", waits_for_a_cordon());
    waiting["spec"] = json!({});
    let down = deployment(SYSTEM, "harvester", 1, 0, LONG_AGO);
    let volume = json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": "pvc-1", "namespace": "longhorn-system"},
        "status": {"robustness": "faulted", "kubernetesStatus": {"workloadsStatus": [{"podName": "a"}]}}});
    let replica = json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Replica", "metadata": {"name": "r", "namespace": "longhorn-system"},
        "spec": {"volumeName": "pvc-1", "failedAt": LONG_AGO, "nodeID": "n2"}});
    let parts = || {
        vec![
            canal.clone(),
            waiting.clone(),
            down.clone(),
            volume.clone(),
            replica.clone(),
        ]
    };
    let worst = |node: &Value| {
        let all = found(parts().into_iter().chain([ready("n1"), node.clone()]));
        all.iter().map(|one| one.severity).max()
    };
    assert_eq!(worst(&off), Some(Severity::Warning));
    assert_eq!(worst(&not_ready("n2", LONG_AGO)), Some(Severity::Error));
}

#[test]
fn a_part_that_waits_for_a_node_in_an_upgrade_is_no_error() {
    let mut cordoned = ready("n2");
    cordoned["spec"]["unschedulable"] = json!(true);
    let mut waiting = pod(SYSTEM, "image-cache", 1, "", waits_for_a_cordon());
    waiting["spec"] = json!({});
    let down = deployment(SYSTEM, "image-cache", 1, 0, LONG_AGO);
    let parts = || vec![ready("n1"), cordoned.clone(), down.clone(), waiting.clone()];
    let severity = |more: Vec<Value>| {
        let all = found([parts(), more].concat());
        let own = all.iter().find(|one| one.subject.contains("image-cache"));
        own.map(|one| one.severity)
    };
    assert_eq!(severity(Vec::new()), Some(Severity::Error));
    let works_on = |node: &str| vec![upgrade("UpgradingNodes", node, "Pre-draining")];
    assert_eq!(severity(works_on("n2")), Some(Severity::Warning));
    // It works on another node.
    assert_eq!(severity(works_on("n1")), Some(Severity::Error));
}

#[test]
fn an_update_that_a_cordon_holds_for_long_is_a_warning() {
    let mut cordoned = ready("n2");
    cordoned["spec"]["unschedulable"] = json!(true);
    let mut waiting = pod(SYSTEM, "harvester", 3, "", waits_for_a_cordon());
    waiting["spec"] = json!({});
    let mut half = deployment(SYSTEM, "harvester", 2, 2, OLD);
    half["status"]["replicas"] = json!(3);
    half["status"]["updatedReplicas"] = json!(1);
    let finding = one([ready("n1"), cordoned.clone(), half.clone(), waiting.clone()]);
    assert_eq!(finding.code, Code::WorkloadNotAvailable);
    assert_eq!(finding.severity, Severity::Warning);
    // More replicas than nodes, and no update.
    half["status"]["updatedReplicas"] = json!(3);
    assert_eq!(found([ready("n1"), cordoned, half, waiting]), []);
}

#[test]
fn pods_that_wait_for_you_to_delete_the_earlier_ones_are_a_warning_after_a_day() {
    let waits = |strategy: &str, created: &str| {
        let mut set = daemon_set("rke2-canal", 3, 3);
        set["metadata"]["creationTimestamp"] = json!(created);
        set["spec"] = json!({"updateStrategy": {"type": strategy}});
        set["status"]["updatedNumberScheduled"] = json!(1);
        set
    };
    let finding = one([ready("n1"), waits("OnDelete", OLD)]);
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.message.contains("2 of 3"), "{}", finding.message);
    assert!(finding.advice.contains("OnDelete"), "{}", finding.advice);
    assert_eq!(found([ready("n1"), waits("OnDelete", LONG_AGO)]), []);
}

#[test]
fn a_daemon_set_that_serves_one_address_is_an_error_only_without_a_working_pod() {
    let ingress = |have: i64, number: u8| {
        let name = "rke2-ingress-nginx-controller";
        let broken = owned(
            pod("kube-system", name, number, "n1", unready(LONG_AGO)),
            "DaemonSet",
            name,
        );
        let works = owned(
            pod("kube-system", name, 9, "n2", works(OLD)),
            "DaemonSet",
            name,
        );
        let parts = vec![ready("n1"), ready("n2"), daemon_set(name, 2, have), broken];
        match have {
            0 => parts,
            _ => [parts, vec![works]].concat(),
        }
    };
    assert_eq!(one(ingress(1, 1)).severity, Severity::Warning);
    assert_eq!(one(ingress(0, 1)).severity, Severity::Error);
    // One that every node needs is an error on each node.
    let canal = owned(
        pod("kube-system", "rke2-canal", 1, "n1", unready(LONG_AGO)),
        "DaemonSet",
        "rke2-canal",
    );
    let all = [
        ready("n1"),
        ready("n2"),
        daemon_set("rke2-canal", 2, 1),
        canal,
    ];
    assert_eq!(one(all).severity, Severity::Error);
    // Without a single pod, too.
    let none = one([ready("n1"), daemon_set("kube-vip", 1, 0)]);
    assert_eq!(none.severity, Severity::Error);
}

#[test]
fn a_failed_job_of_a_cron_job_whose_later_job_succeeded_is_no_finding() {
    let job = |name: &str, created: &str, condition: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": "longhorn-system", "creationTimestamp": created,
                "ownerReferences": [{"kind": "CronJob", "name": "snapshots", "controller": true}]},
            "status": {"startTime": created, "conditions": [
                {"type": condition, "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": created}]}})
    };
    let failed = || job("snapshots-1", "2026-05-01T05:00:00Z", "Failed");
    assert_eq!(one([ready("n1"), failed()]).code, Code::JobNotDone);
    let later = job("snapshots-2", LONG_AGO, "Complete");
    assert_eq!(found([ready("n1"), failed(), later.clone()]), []);
    // The newest counts.
    let newest = job("snapshots-3", "2026-05-01T07:00:00Z", "Failed");
    let finding = one([ready("n1"), failed(), later.clone(), newest]);
    assert!(
        finding.subject.ends_with("snapshots-3"),
        "{}",
        finding.subject
    );
    let mut of_another = later;
    of_another["metadata"]["ownerReferences"][0]["name"] = json!("backups");
    assert_eq!(found([ready("n1"), failed(), of_another]).len(), 1);
}

#[test]
fn a_faulted_volume_without_its_replicas_is_told() {
    let faulted = json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": "pvc-1", "namespace": "longhorn-system"},
        "status": {"robustness": "faulted", "kubernetesStatus": {"workloadsStatus": [{"podName": "a"}]}}});
    assert_eq!(
        one([ready("n1"), faulted.clone()]).severity,
        Severity::Error
    );
    let mut young = faulted.clone();
    young["status"]["lastDegradedAt"] = json!(JUST_NOW);
    assert_eq!(found([ready("n1"), young]), []);
    // harvester#9230: larger than all disks.
    let mut large = faulted;
    large["status"] = json!({"robustness": "faulted", "conditions": [{"type": "Scheduled", "status": "False",
        "reason": "ReplicaSchedulingFailure", "message": "insufficient storage", "lastTransitionTime": LONG_AGO}]});
    let finding = one([ready("n1"), large]);
    assert_eq!(finding.severity, Severity::Warning);
    assert!(
        told(&finding).contains("insufficient storage"),
        "{}",
        told(&finding)
    );
}

#[test]
fn silent_kubelets_are_unknown_if_nothing_shows_for_how_long() {
    let mut node = not_ready("n1", "2026-05-01T11:59:00Z");
    node["status"]["conditions"][0]["status"] = json!("Unknown");
    let mut objects = Objects::default();
    objects.add(node.clone());
    objects.insert(
        ObjectKind::UPGRADE.group_kind(),
        KindListing::Objects(Vec::new()),
    );
    let is_told = |objects: &Objects| {
        let unknown = diagnose(objects, now()).unknown;
        unknown
            .iter()
            .any(|line| line.contains("no kubelet reports"))
    };
    assert!(is_told(&objects));
    objects.insert(
        ObjectKind::LEASE.group_kind(),
        KindListing::Objects(Vec::new()),
    );
    assert!(!is_told(&objects));
    let mut live = Objects::default();
    live.add(node);
    live.add(ready("n2"));
    assert!(!is_told(&live), "one kubelet reports");
}
