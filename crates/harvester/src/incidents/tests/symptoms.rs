//! Tests the symptoms: what should work and does not, with and without a known cause. Each cluster is small, and was written after the
//! public report that its comment names.

mod aside;
mod causes;
mod crashes;
mod status;

use windrow_model::reasons::{Code, Severity};

use super::*;

const LONG_AGO: &str = "2026-05-01T06:00:00Z";
const JUST_NOW: &str = "2026-05-01T11:55:00Z";
const OLD: &str = "2026-01-01T00:00:00Z";

fn node(name: &str, conditions: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": OLD, "labels": {"node-role.kubernetes.io/control-plane": "true"}},
        "spec": {}, "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "200"}, "conditions": conditions}})
}

fn ready(name: &str) -> Value {
    node(
        name,
        json!([{"type": "Ready", "status": "True", "lastTransitionTime": OLD}]),
    )
}

fn not_ready(name: &str, since: &str) -> Value {
    let words = "Network plugin returns error: cni plugin not initialized";
    node(
        name,
        json!([{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": words, "lastTransitionTime": since}]),
    )
}

fn deployment(namespace: &str, name: &str, want: i64, have: i64, since: &str) -> Value {
    let is_available = if have == 0 { "False" } else { "True" };
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": OLD}, "spec": {"replicas": want},
        "status": {"observedGeneration": 1, "replicas": want, "updatedReplicas": want, "availableReplicas": have, "readyReplicas": have,
            "conditions": [{"type": "Available", "status": is_available, "lastTransitionTime": since}]}})
}

/// A pod of a Deployment.
fn pod(namespace: &str, deployment: &str, number: u8, node: &str, status: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{deployment}-5f7-{number}"), "namespace": namespace, "labels": {"pod-template-hash": "5f7"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": format!("{deployment}-5f7"), "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "c"}]}, "status": status})
}

fn owned(mut pod: Value, kind: &str, name: &str) -> Value {
    pod["metadata"]["ownerReferences"] = json!([{"kind": kind, "name": name, "controller": true}]);
    pod
}

fn looping(since: &str) -> Value {
    json!({"phase": "Running", "startTime": since,
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": since}],
        "containerStatuses": [{"name": "c", "restartCount": 80, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]})
}

fn creating(since: &str) -> Value {
    json!({"phase": "Pending", "startTime": since,
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": since}],
        "containerStatuses": [{"name": "c", "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]})
}

fn unscheduled(taint: &str, since: &str) -> Value {
    let words = format!("0/1 nodes are available: 1 node(s) had untolerated taint {{{taint}: }}.");
    json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": words, "lastTransitionTime": since}]})
}

fn works(since: &str) -> Value {
    json!({"phase": "Running", "startTime": since, "podIP": "10.52.0.9",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]})
}

fn warning(pod: &Value, reason: &str, message: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": reason, "message": message, "count": 512,
        "lastTimestamp": "2026-05-01T11:59:00Z",
        "metadata": {"name": format!("{}.1", pod["metadata"]["name"]), "namespace": pod["metadata"]["namespace"]},
        "involvedObject": {"kind": "Pod", "name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}})
}

fn upgrade(state: &str, node: &str, of_node: &str) -> Value {
    json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade", "metadata": {"name": "up", "namespace": "harvester-system",
            "labels": {"harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": state}},
        "status": {"nodeStatuses": {node: {"state": of_node}}}})
}

/// As saved: Events of all namespaces are one list.
fn saved(objects: impl IntoIterator<Item = Value>) -> Objects {
    let mut all = cluster([]);
    for part in [ObjectKind::POD_WARNING, ObjectKind::NODE_WARNING] {
        let elsewhere = "it is in the list of Events".to_owned();
        all.insert(part.group_kind(), KindListing::Unknown(elsewhere));
    }
    for object in objects {
        all.add(object);
    }
    all
}

fn found(objects: impl IntoIterator<Item = Value>) -> Vec<IncidentFinding> {
    diagnose(&saved(objects), now()).findings
}

fn one(objects: impl IntoIterator<Item = Value>) -> IncidentFinding {
    let mut all = found(objects);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

fn told(finding: &IncidentFinding) -> String {
    let seen: Vec<String> = finding.evidence.iter().map(ToString::to_string).collect();
    [seen, finding.affected.clone()].concat().join("\n")
}

const SYSTEM: &str = "harvester-system";

/// harvester#1340.
#[test]
fn a_webhook_whose_pods_all_crash_is_an_error_without_a_known_cause() {
    let pods =
        (1..=3).map(|number| pod(SYSTEM, "harvester-webhook", number, "n1", looping(LONG_AGO)));
    let down = deployment(SYSTEM, "harvester-webhook", 3, 0, LONG_AGO);
    let finding = one(pods.chain([ready("n1"), down]));
    assert_eq!(finding.code, Code::WorkloadNotAvailable);
    assert_eq!(finding.severity, Severity::Error);
    assert!(finding.unexplained);
    assert_eq!(
        finding.subject,
        "Deployment harvester-system/harvester-webhook"
    );
    assert!(
        finding.message.contains("0 of 3 replicas available"),
        "{}",
        finding.message
    );
    assert!(
        finding.message.contains("CrashLoopBackOff, 80 restarts"),
        "{}",
        finding.message
    );
}

#[test]
fn one_failing_pod_of_a_deployment_that_is_available_is_a_warning() {
    let finding = one([
        ready("n1"),
        deployment(SYSTEM, "harvester-webhook", 3, 2, OLD),
        pod(SYSTEM, "harvester-webhook", 1, "n1", looping(LONG_AGO)),
    ]);
    assert_eq!(finding.severity, Severity::Warning);
}

/// harvester#11470.
#[test]
fn a_pod_of_a_job_that_does_not_start_is_told_with_its_newest_warning() {
    let waiting = owned(
        pod(
            "kube-system",
            "helm-install-rke2-traefik",
            1,
            "n1",
            creating(LONG_AGO),
        ),
        "Job",
        "helm-install-rke2-traefik",
    );
    let event = warning(
        &waiting,
        "FailedMount",
        "configmap \"chart-content\" not found",
    );
    let finding = one([ready("n1"), waiting, event]);
    assert_eq!(finding.code, Code::JobNotDone);
    assert_eq!(finding.severity, Severity::Error);
    assert!(
        told(&finding).contains("FailedMount: configmap"),
        "{}",
        told(&finding)
    );
}

#[test]
fn a_node_that_was_switched_off_in_maintenance_mode_is_a_warning() {
    let mut off = not_ready("n2", LONG_AGO);
    off["metadata"]["annotations"] = json!({"harvesterhci.io/maintain-status": "completed"});
    assert_eq!(one([ready("n1"), off]).severity, Severity::Warning);
}

#[test]
fn a_node_whose_kubelet_never_reported_is_not_ready() {
    let finding = one([ready("n1"), node("n2", json!([]))]);
    assert_eq!(finding.code, Code::NodeNotReady);
    assert!(
        finding.message.contains("never reported"),
        "{}",
        finding.message
    );
}

#[test]
fn a_busy_cluster_that_has_just_booted_is_quiet() {
    let pods = (1..=3).map(|number| pod(SYSTEM, "harvester", number, "n1", creating(JUST_NOW)));
    let mut rebooted = ready("n1");
    rebooted["status"]["conditions"][0]["lastTransitionTime"] = json!(JUST_NOW);
    // It crashed before the reboot, and does not know its database yet.
    let crashing = pod("cattle-system", "rancher", 1, "n1", looping(LONG_AGO));
    let all = found(pods.chain([
        rebooted,
        not_ready("n2", JUST_NOW),
        crashing,
        deployment(SYSTEM, "harvester", 3, 0, JUST_NOW),
        deployment("cattle-system", "rancher", 1, 0, JUST_NOW),
    ]));
    assert_eq!(all, []);
}

#[test]
fn a_new_cluster_and_one_in_an_upgrade_have_an_hour() {
    let half_an_hour = "2026-05-01T11:30:00Z";
    let parts = || {
        vec![
            not_ready("n2", half_an_hour),
            pod(SYSTEM, "virt-api", 1, "n1", creating(half_an_hour)),
            deployment(SYSTEM, "virt-api", 1, 0, half_an_hour),
        ]
    };
    assert_eq!(
        found(parts().into_iter().chain([ready("n1")])).len(),
        2,
        "usually"
    );
    let mut new = ready("n1");
    new["metadata"]["creationTimestamp"] = json!("2026-05-01T11:10:00Z");
    let mut joined = parts();
    joined[0]["metadata"]["creationTimestamp"] = json!("2026-05-01T11:20:00Z");
    assert_eq!(found(joined.into_iter().chain([new])), []);
    let running = upgrade("UpgradingSystemServices", "n1", "Images preloaded");
    assert_eq!(
        found(parts().into_iter().chain([ready("n1"), running.clone()])),
        []
    );
    // But no longer: Rancher is down for six hours (`upgrade_rancher` waits for it).
    let rancher = deployment("cattle-system", "rancher", 3, 0, LONG_AGO);
    let finding = one([ready("n1"), running, rancher]);
    assert_eq!(finding.subject, "Deployment cattle-system/rancher");
}

#[test]
fn a_healthy_cluster_has_no_symptom() {
    let done = owned(
        pod(SYSTEM, "job", 1, "n1", json!({"phase": "Succeeded"})),
        "Job",
        "job",
    );
    let mut ending = pod(SYSTEM, "harvester", 2, "n1", creating(LONG_AGO));
    ending["metadata"]["deletionTimestamp"] = json!(JUST_NOW);
    let users = pod("default", "web", 1, "n1", looping(LONG_AGO));
    let evicted = pod(
        SYSTEM,
        "harvester",
        3,
        "n1",
        json!({"phase": "Failed", "reason": "Evicted"}),
    );
    let daemons = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "rke2-canal", "namespace": "kube-system", "creationTimestamp": OLD},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "updatedNumberScheduled": 1,
            "numberAvailable": 1, "numberReady": 1}});
    let all = found([
        ready("n1"),
        deployment(SYSTEM, "harvester", 1, 1, OLD),
        pod(SYSTEM, "harvester", 1, "n1", works(OLD)),
        done,
        ending,
        users,
        evicted,
        daemons,
    ]);
    assert_eq!(all, []);
}

#[test]
fn workloads_that_do_not_get_their_pods_are_told_by_their_own_status() {
    let daemons = |want: i64, created: &str| {
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "rke2-canal", "namespace": "kube-system", "creationTimestamp": created},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": want, "currentNumberScheduled": 1, "updatedNumberScheduled": 1,
            "numberAvailable": 1, "numberReady": 1}})
    };
    assert_eq!(
        one([ready("n1"), daemons(2, OLD)]).subject,
        "DaemonSet kube-system/rke2-canal"
    );
    assert_eq!(found([ready("n1"), daemons(2, JUST_NOW)]), []);
    assert_eq!(found([ready("n1"), daemons(1, OLD)]), []);
    let sets = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "prometheus", "namespace": "cattle-monitoring-system", "creationTimestamp": OLD},
        "spec": {"replicas": 1}, "status": {"observedGeneration": 1, "replicas": 0}});
    assert_eq!(one([ready("n1"), sets]).severity, Severity::Warning);
    let down = deployment(SYSTEM, "harvester", 1, 0, LONG_AGO);
    assert_eq!(one([ready("n1"), down]).severity, Severity::Error);
}

#[test]
fn monitoring_and_logging_are_never_an_error() {
    let crashing = pod(
        "cattle-monitoring-system",
        "prometheus",
        1,
        "n1",
        looping(LONG_AGO),
    );
    assert_eq!(one([ready("n1"), crashing]).severity, Severity::Warning);
}

#[test]
fn kinds_that_are_not_in_the_input_are_named_once_with_the_number_of_checks() {
    let mut objects = Objects::default();
    for kind in ObjectKind::ALL {
        let absent = [ObjectKind::POD, ObjectKind::SERVICE, ObjectKind::DAEMON_SET];
        if !absent.contains(kind) {
            objects.insert(kind.group_kind(), KindListing::Objects(Vec::new()));
        }
    }
    let found = diagnose(&objects, now());
    let [pods] = &found.unknown[..] else {
        panic!("{:?}", found.unknown);
    };
    assert!(
        pods.ends_with("checks skipped: Pod is not in the input"),
        "{pods}"
    );
    assert_eq!(
        found.skipped,
        ["1 check skipped: DaemonSet.apps is not in the input"]
    );
    assert_eq!(found.findings, []);
}

#[test]
fn every_patience_names_its_source_and_is_not_shorter_in_an_upgrade() {
    for patience in super::super::symptoms::ALL {
        assert!(!patience.source.is_empty());
        assert!(patience.changing >= patience.usual, "{}", patience.source);
    }
}

#[test]
fn pods_alone_are_judged_as_if_an_upgrade_ran() {
    let look = |since: &str| {
        let mut objects = Objects::default();
        objects.add(pod(SYSTEM, "harvester-webhook", 1, "n1", creating(since)));
        diagnose(&objects, now()).findings
    };
    let found = look(LONG_AGO);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].code, Code::WorkloadNotAvailable);
    assert_eq!(look("2026-05-01T11:30:00Z"), []);
}

#[test]
fn without_a_node_of_harvester_no_upgrade_explains_a_pod_that_does_not_work() {
    let look = |label: &str| {
        let mut objects = Objects::default();
        let mut node = ready("n1");
        node["metadata"]["labels"][label] = json!("true");
        objects.add(node);
        let since = "2026-05-01T11:20:00Z";
        objects.add(pod(
            "kube-system",
            "rke2-metrics-server",
            1,
            "n1",
            looping(since),
        ));
        diagnose(&objects, now()).findings.len()
    };
    assert_eq!(look("a"), 1);
    // Harvester's upgrades are not in the input: one may run.
    assert_eq!(look("harvesterhci.io/managed"), 0);
}

/// rke2#10346: the scheduler only counts taints.
#[test]
fn the_taint_that_keeps_a_pod_away_is_named_although_the_scheduler_does_not_name_it() {
    let taint = "node.cloudprovider.kubernetes.io/uninitialized";
    let mut node = ready("n1");
    node["spec"]["taints"] = json!([{"key": taint, "value": "true", "effect": "NoSchedule"}]);
    let mut waits = pod(
        SYSTEM,
        "harvester-webhook",
        1,
        "",
        unscheduled("", LONG_AGO),
    );
    waits["spec"]["tolerations"] = json!([{"key": "a", "operator": "Exists"}]);
    let finding = one([node, waits.clone()]);
    let value = format!("{taint}=true:NoSchedule");
    assert!(
        finding.evidence.iter().any(|seen| seen.value == value),
        "{finding:?}"
    );
    waits["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    let tolerant = one([ready("n1"), waits]);
    assert!(!tolerant.evidence.iter().any(|seen| seen.value == value));
}
