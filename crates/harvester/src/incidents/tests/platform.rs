use windrow_model::reasons::{Code, Severity};

use super::*;

const LONG_AGO: &str = "2026-05-01T11:00:00Z";
const JUST_NOW: &str = "2026-05-01T11:58:00Z";

fn found(objects: &Objects) -> Vec<IncidentFinding> {
    diagnose(objects, now()).findings
}

/// What was seen, and what is said to it.
fn told(finding: &IncidentFinding) -> String {
    let seen: Vec<String> = finding.evidence.iter().map(ToString::to_string).collect();
    [seen, finding.proof.clone()].concat().join("\n")
}

fn upgrade(state: &str) -> Value {
    json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade", "metadata": {"name": "up", "namespace": "harvester-system",
        "labels": {"harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": state}}})
}

fn chart(state: &str, since: &str) -> Value {
    let ready = if state.is_empty() { "True" } else { "False" };
    json!({"apiVersion": "management.cattle.io/v3", "kind": "ManagedChart", "metadata": {"name": "harvester", "namespace": "fleet-local"},
        "spec": {}, "status": {"conditions": [{"type": "Ready", "status": ready, "lastUpdateTime": since,
            "message": "Modified(1) [Cluster fleet-local/local]; secret.v1 a/b modified {\"data\":{\"x\":\"s3cret\"}}"}],
            "display": {"state": state}}})
}

fn bundle_deployment(name: &str, status: Value) -> Value {
    json!({"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment",
        "metadata": {"name": name, "namespace": "cluster-fleet-local-local-1a3d67d0a899", "labels": {
            "fleet.cattle.io/bundle-name": name, "fleet.cattle.io/bundle-namespace": "fleet-local"}},
        "spec": {"deploymentID": "s-1"}, "status": status})
}

/// As in harvester#7996 and #7800.
fn modified() -> Value {
    bundle_deployment(
        "mcc-harvester",
        json!({"appliedDeploymentID": "s-1", "modifiedStatus": [
            {"kind": "Secret", "apiVersion": "v1", "namespace": "kube-system", "name": "snapshot-validation-webhook-tls",
                "patch": "{\"data\":{\"tls.crt\":\"s3cret\"}}"},
            {"kind": "Deployment", "apiVersion": "apps/v1", "namespace": "longhorn-system", "name": "longhorn-ui",
                "patch": "{\"spec\":{\"replicas\":2,\"password\":\"hunter2\"}}"},
            {"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "name": "harvester-longhorn", "missing": true}
        ]}),
    )
}

#[test]
fn a_chart_that_was_changed_shows_which_objects_differ_and_of_a_secret_nothing() {
    let objects = cluster([chart("Modified", LONG_AGO), modified()]);
    assert_eq!(codes(&objects), ["chart-modified"]);
    let finding = found(&objects).remove(0);
    assert_eq!(finding.subject, "ManagedChart fleet-local/harvester");
    assert_eq!(finding.severity, Severity::Warning);
    let told = told(&finding);
    assert!(
        told.contains("Deployment longhorn-system/longhorn-ui: modified: {\"spec\""),
        "{told}"
    );
    assert!(
        told.contains("StorageClass harvester-longhorn: missing"),
        "{told}"
    );
    assert!(
        told.contains("snapshot-validation-webhook-tls: modified: its data is not shown"),
        "{told}"
    );
    assert!(told.contains("begins no upgrade"), "{told}");
    assert!(
        !told.contains("s3cret") && !told.contains("hunter2"),
        "{told}"
    );
}

#[test]
fn a_chart_that_is_ready_paused_or_changed_a_moment_ago_is_no_incident() {
    let mut paused = chart("Modified", LONG_AGO);
    paused["spec"]["paused"] = json!(true);
    // The new version is not applied yet: what is told is of the one before.
    let mut replaced = modified();
    replaced["spec"]["deploymentID"] = json!("s-2");
    let mut recently = chart("Modified", "2026-05-01T11:45:00Z");
    recently["metadata"]["generation"] = json!(7);
    for objects in [
        vec![chart("", LONG_AGO), modified()],
        vec![chart("Modified", JUST_NOW), modified()],
        vec![paused, modified()],
        vec![recently, replaced],
        // Not a Harvester: somebody else's bundles.
        vec![modified()],
    ] {
        assert_eq!(codes(&cluster(objects.clone())), [""; 0], "{objects:?}");
    }
}

/// As in harvester#7461.
#[test]
fn a_chart_that_rolls_out_is_given_half_an_hour_and_none_at_all_while_an_upgrade_runs() {
    let rolls = |name: &str| {
        bundle_deployment(
            name,
            json!({"appliedDeploymentID": "s-1", "nonReadyStatus": [{"kind": "Deployment", "apiVersion": "apps/v1",
            "namespace": "harvester-system", "name": "harvester-webhook", "summary": {"state": "updating",
                "message": ["Deployment does not have minimum availability.", "Available: 0/1"]}}]}),
        )
    };
    let slow = cluster([
        chart("NotReady", "2026-05-01T11:40:00Z"),
        rolls("mcc-harvester"),
    ]);
    assert_eq!(codes(&slow), [""; 0]);
    let objects = [chart("NotReady", LONG_AGO), rolls("mcc-harvester")];
    assert_eq!(
        codes(&cluster(objects.clone())),
        ["managed-chart-not-ready"]
    );
    let finding = found(&cluster(objects.clone())).remove(0);
    assert!(
        told(&finding)
            .contains("updating: Deployment does not have minimum availability., Available: 0/1")
    );
    let [chart, deployment] = objects;
    let running = cluster([chart.clone(), deployment.clone(), upgrade("UpgradingNodes")]);
    assert_eq!(codes(&running), [""; 0]);
    let over = cluster([chart, deployment, upgrade("Failed")]);
    assert_eq!(codes(&over), ["upgrade-failed", "managed-chart-not-ready"]);
}

#[test]
fn a_chart_that_cannot_be_applied_is_an_error_with_helms_words() {
    let failed = bundle_deployment(
        "mcc-harvester",
        json!({"appliedDeploymentID": "s-1", "conditions": [
        {"type": "Deployed", "status": "False", "message": "release: not found"}]}),
    );
    let finding = found(&cluster([chart("ErrApplied", LONG_AGO), failed])).remove(0);
    assert_eq!(finding.code, Code::ManagedChartNotReady);
    assert_eq!(finding.severity, Severity::Error);
    assert!(
        told(&finding).contains("condition Deployed: release: not found"),
        "{finding:?}"
    );
}

/// harvester#9065: an upgrade waits for it.
#[test]
fn a_bundle_of_ranchers_own_is_told_in_an_upgrade_too() {
    let agent = bundle_deployment(
        "local-managed-system-agent",
        json!({
        "appliedDeploymentID": "s-1", "display": {"state": "Modified"},
        "conditions": [{"type": "Ready", "status": "False", "reason": "Error", "lastUpdateTime": LONG_AGO}],
        "modifiedStatus": [{"kind": "Plan", "apiVersion": "upgrade.cattle.io/v1", "namespace": "cattle-system",
            "name": "system-agent-upgrader", "patch": "{\"spec\":{\"nodeSelector\":{}}}"}]}),
    );
    let objects = cluster([
        chart("", LONG_AGO),
        agent,
        upgrade("UpgradingSystemServices"),
    ]);
    assert_eq!(codes(&objects), ["chart-modified"]);
    let finding = found(&objects).remove(0);
    assert!(
        finding.subject.ends_with("/local-managed-system-agent"),
        "{finding:?}"
    );
    assert!(told(&finding).contains("Plan cattle-system/system-agent-upgrader: modified"));
    assert!(told(&finding).contains("waits for Rancher's own bundles"));
}

#[test]
fn a_list_that_cannot_be_had_is_not_taken_for_an_empty_one() {
    let mut objects = cluster([chart("Modified", LONG_AGO)]);
    for kind in [
        ObjectKind::BUNDLE_DEPLOYMENT,
        ObjectKind::POD,
        ObjectKind::NODE,
    ] {
        objects.insert(kind.group_kind(), KindListing::Unknown("403".to_owned()));
    }
    let unknown = diagnose(&objects, now()).unknown;
    for name in [
        "charts of Harvester that are not Ready: BundleDeployment",
        "images that platform pods cannot have: Pod",
        "platform pods that no node takes: Pod",
        "nodes of different versions: Node",
    ] {
        assert!(
            unknown.iter().any(|one| one.starts_with(name)),
            "{name}: {unknown:?}"
        );
    }
}

fn image_pod(name: &str, namespace: &str, reason: &str, since: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "rancher/shell:v0.4.1", "imagePullPolicy": "Always"}]},
        "status": {"phase": "Pending", "startTime": since, "containerStatuses": [{"name": "c", "image": "rancher/shell:v0.4.1",
            "state": {"waiting": {"reason": reason}}}]}})
}

fn node(name: &str, kubelet: &str, system: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": name, "node-role.kubernetes.io/control-plane": "true"}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "nodeInfo": {"kubeletVersion": kubelet, "osImage": system},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO.replace("11:", "09:")}]}})
}

/// As in rancher#52855 and harvester#3246.
#[test]
fn an_image_that_platform_pods_cannot_have_is_told_once_with_who_has_it() {
    let mut full = node("n1", "v1.34.3+rke2r1", "Harvester v1.7.1");
    let pressure =
        json!({"type": "DiskPressure", "status": "True", "lastTransitionTime": LONG_AGO});
    full["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(pressure);
    let mut has = node("n2", "v1.34.3+rke2r1", "Harvester v1.7.1");
    has["status"]["images"] = json!([{"names": ["docker.io/rancher/shell:v0.4.1"]}]);
    let objects = cluster([
        image_pod("a", "cattle-system", "ImagePullBackOff", LONG_AGO),
        image_pod("b", "cattle-turtles-system", "ErrImagePull", LONG_AGO),
        full,
        has,
    ]);
    assert_eq!(codes(&objects), ["platform-image-missing"]);
    let finding = found(&objects).remove(0);
    assert_eq!(finding.subject, "Image rancher/shell:v0.4.1");
    let told = told(&finding);
    assert!(
        told.contains("Pod cattle-system/a: container c: waiting: ImagePullBackOff on n1"),
        "{told}"
    );
    assert!(
        told.contains("Node n1: condition DiskPressure: True"),
        "{told}"
    );
    assert!(
        told.contains("Node n2: status.images: it has the image"),
        "{told}"
    );
    assert!(told.contains("imagePullPolicy is Always"), "{told}");
}

#[test]
fn a_pull_that_is_young_or_anothers_is_no_incident() {
    let pull =
        |namespace: &str, reason: &str, since: &str| image_pod("a", namespace, reason, since);
    let mut retried = pull("cattle-system", "ErrImagePull", LONG_AGO);
    let unready =
        json!([{"type": "ContainersReady", "status": "False", "lastTransitionTime": JUST_NOW}]);
    retried["status"]["conditions"] = unready;
    for pod in [
        pull("cattle-system", "ErrImagePull", JUST_NOW),
        pull("cattle-system", "ContainerCreating", LONG_AGO),
        pull("apps", "ImagePullBackOff", LONG_AGO),
        retried,
    ] {
        assert_eq!(codes(&cluster([pod.clone()])), [""; 0], "{pod}");
    }
    // Those of an Addon's Job have an incident of their own.
    let mut job = pull("cattle-monitoring-system", "ImagePullBackOff", LONG_AGO);
    job["metadata"]["labels"] = json!({"helmcharts.helm.cattle.io/chart": "rancher-monitoring"});
    assert_eq!(codes(&cluster([job.clone()])), ["platform-image-missing"]);
    let addon = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon",
        "metadata": {"name": "rancher-monitoring", "namespace": "cattle-monitoring-system"}, "spec": {"enabled": false}});
    assert_eq!(codes(&cluster([job, addon])), [""; 0]);
}

fn unplaced(name: &str, namespace: &str, since: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace,
            "labels": {"app": "rancher", "pod-template-hash": "5f7"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "rancher-5f7"}]},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "lastTransitionTime": since, "message": "0/1 nodes are available: 1 Insufficient cpu."}]}})
}

fn busy(node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("busy-{node}"), "namespace": "apps"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
        "status": {"phase": "Running"}})
}

fn rancher(available: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "rancher", "namespace": "cattle-system"},
        "status": {"conditions": [{"type": "Available", "status": available}]}})
}

const RKE2: &str = "v1.34.3+rke2r1";

#[test]
fn a_platform_pod_that_no_node_takes_is_told_with_every_nodes_reason() {
    let objects = |available: &str| {
        cluster([
            unplaced("rancher-5f7-a", "cattle-system", LONG_AGO),
            unplaced("rancher-5f7-b", "cattle-system", LONG_AGO),
            node("n1", RKE2, "Harvester v1.7.1"),
            node("n2", RKE2, "Harvester v1.7.1"),
            busy("n1"),
            busy("n2"),
            rancher(available),
        ])
    };
    assert_eq!(codes(&objects("False")), ["platform-pod-pending"]);
    let finding = found(&objects("False")).remove(0);
    assert_eq!(finding.subject, "Deployment cattle-system/rancher");
    assert_eq!(finding.severity, Severity::Error);
    let told = told(&finding);
    assert!(
        told.contains("condition PodScheduled: 0/1 nodes are available"),
        "{told}"
    );
    assert!(
        told.contains("n1 does not take it: too little cpu"),
        "{told}"
    );
    assert!(
        told.contains("n2 does not take it: too little cpu"),
        "{told}"
    );
    // The others of its replicas do the work.
    assert_eq!(found(&objects("True"))[0].severity, Severity::Info);
}

#[test]
fn a_pod_that_waits_for_a_drain_an_upgrade_or_its_own_node_is_no_incident() {
    let pod = || unplaced("rancher-5f7-a", "cattle-system", LONG_AGO);
    let small = || node("n1", RKE2, "Harvester v1.7.1");
    let with = |pod: Value, nodes: Vec<Value>| cluster([vec![pod, busy("n1")], nodes].concat());
    assert_eq!(codes(&with(pod(), vec![small()])), ["platform-pod-pending"]);
    assert_eq!(
        codes(&with(unplaced("a", "apps", LONG_AGO), vec![small()])),
        [""; 0]
    );
    assert_eq!(
        codes(&with(
            unplaced("a", "cattle-system", JUST_NOW),
            vec![small()]
        )),
        [""; 0]
    );
    assert_eq!(
        codes(&with(pod(), vec![small(), upgrade("UpgradingNodes")])),
        [""; 0]
    );
    // It would fit on a node that is cordoned, or in maintenance.
    let mut cordoned = node("n2", RKE2, "Harvester v1.7.1");
    cordoned["spec"] = json!({"unschedulable": true});
    assert_eq!(codes(&with(pod(), vec![small(), cordoned])), [""; 0]);
    let mut maintained = node("n2", RKE2, "Harvester v1.7.1");
    maintained["spec"] = json!({"taints": [{"key": "kubevirt.io/drain", "value": "draining", "effect": "NoSchedule"}]});
    assert_eq!(codes(&with(pod(), vec![small(), maintained])), [""; 0]);
    // Of a DaemonSet, for a node that is down.
    let mut agent = pod();
    agent["metadata"]["ownerReferences"] = json!([{"kind": "DaemonSet", "name": "x"}]);
    agent["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}});
    assert_eq!(
        codes(&with(agent.clone(), vec![small()])),
        ["platform-pod-pending"]
    );
    let mut down = small();
    down["status"]["conditions"][0]["status"] = json!("Unknown");
    assert_eq!(codes(&with(agent, vec![down])), [""; 0]);
}

#[test]
fn nodes_that_stay_on_different_versions_are_told_with_each_nodes() {
    let (old, new) = ("v1.33.5+rke2r1", "v1.34.3+rke2r3");
    let mixed = || {
        vec![
            node("n1", new, "Harvester v1.7.1"),
            node("n2", old, "Harvester v1.6.1"),
        ]
    };
    let objects = cluster(mixed());
    assert_eq!(codes(&objects), ["mixed-versions"]);
    let finding = found(&objects).remove(0);
    assert!(told(&finding).contains(
        "Node n2: status.nodeInfo.{kubeletVersion,osImage}: v1.33.5+rke2r1, Harvester v1.6.1"
    ));
    // A kubelet is newer than the other server's kube-apiserver.
    assert_eq!(finding.severity, Severity::Error);
    let mut agent = mixed();
    agent[1]["metadata"]["labels"] = json!({});
    assert_eq!(
        found(&cluster(agent))[0].severity,
        Severity::Warning,
        "an agent may be older"
    );
    let mut far = mixed();
    far[1] = node("n2", "v1.30.1+rke2r1", "Harvester v1.6.1");
    far[1]["metadata"]["labels"] = json!({});
    assert_eq!(
        found(&cluster(far))[0].severity,
        Severity::Error,
        "not by four minors"
    );

    let with = |more: Value| cluster([mixed(), vec![more]].concat());
    assert_eq!(codes(&with(upgrade("UpgradingNodes"))), [""; 0]);
    let plan = json!({"apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": {"name": "rke2", "namespace": "x"},
        "status": {"applying": ["n2"]}});
    assert_eq!(
        codes(&with(plan)),
        [""; 0],
        "system-upgrade-controller works on it"
    );
    let mut failed = upgrade("Failed");
    let both = ["mixed-versions", "upgrade-failed"];
    assert_eq!(codes(&with(failed.clone())), both);
    failed["status"] = json!({"conditions": [{"type": "Completed", "lastUpdateTime": JUST_NOW}]});
    let ended = codes(&with(failed));
    assert_eq!(ended, ["upgrade-failed"], "it ended a moment ago");
    let mut joined = mixed();
    joined[1]["metadata"]["creationTimestamp"] = json!("2026-05-01T11:30:00Z");
    assert_eq!(codes(&cluster(joined)), [""; 0], "it has just joined");
    let same = [
        node("n1", new, "Harvester v1.7.1"),
        node("n2", new, "Harvester v1.7.1"),
    ];
    assert_eq!(codes(&cluster(same)), [""; 0]);
    let other_systems = [
        node("n1", new, "SLE Micro 6.0"),
        node("n2", new, "Ubuntu 24.04"),
    ];
    assert_eq!(codes(&cluster(other_systems)), [""; 0], "RKE2 alone");
}
