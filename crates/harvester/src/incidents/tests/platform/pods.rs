//! Tests pods of the platform without an image, without a node, or with an unfinished deletion, and their owners.

use super::*;

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
    // Pods of an Addon's Job have their own incident.
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
    // The other replicas do the work.
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
    // A pod of a DaemonSet, for a node that is down.
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
    // A kubelet is newer than the kube-apiserver of the other server.
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
    let plan = json!({"apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": {"name": "rke2", "namespace": "system-upgrade"},
        "status": {"applying": ["n2"]}});
    assert_eq!(
        codes(&with(plan)),
        [""; 0],
        "system-upgrade-controller works on it"
    );
    let mut failed = upgrade("Failed");
    let both = ["mixed-versions", "upgrade-failed"];
    let findings = found(&with(failed.clone()));
    let told: Vec<&str> = findings.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(told, both);
    assert!(
        findings[0].advice.contains("upgrade-failed"),
        "{findings:?}"
    );
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

/// harvester#10447.
#[test]
fn kubevirt_that_stays_unavailable_is_an_error_that_names_the_pods_it_waits_for() {
    let kubevirt = |status: &str, since: &str| {
        json!({"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt", "namespace": "harvester-system"},
            "status": {"phase": "Deployed", "conditions": [{"type": "Available", "status": status, "reason": "DeploymentInProgress",
                "message": "Deploying version 1.7.0", "lastTransitionTime": since}]}})
    };
    let handler = |name: &str, marked: bool| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "harvester-system",
            "labels": {"kubevirt.io": "virt-handler"}}, "status": {"phase": "Running"}});
        if marked {
            pod["metadata"]["annotations"] =
                json!({"kubevirt.io/install-strategy-identifier": "9"});
        }
        pod
    };
    let long_ago = "2026-05-01T10:00:00Z";
    let late = || {
        vec![
            kubevirt("False", long_ago),
            handler("a", true),
            handler("b", false),
        ]
    };
    assert_eq!(codes(&cluster(late())), ["kubevirt-not-ready"]);
    let finding = found(&cluster(late())).remove(0);
    assert_eq!(finding.severity, Severity::Error);
    assert!(
        finding.advice.starts_with("Delete these pods"),
        "{finding:?}"
    );
    let said = told(&finding);
    assert!(
        said.contains("Pod harvester-system/b: metadata.annotations"),
        "{said}"
    );
    assert!(!said.contains("harvester-system/a:"), "{said}");
    // As virt-operator writes it at a first installation.
    let mut first = kubevirt("False", long_ago);
    let condition = &mut first["status"]["conditions"][0];
    condition["lastProbeTime"] = condition["lastTransitionTime"].take();
    assert_eq!(codes(&cluster(vec![first])), ["kubevirt-not-ready"]);
    let none = [kubevirt("False", long_ago), handler("b", false)];
    let advice = found(&cluster(none)).remove(0).advice;
    assert!(!advice.starts_with("Delete"), "{advice}");
    for objects in [
        vec![kubevirt("True", long_ago)],
        vec![kubevirt("False", "2026-05-01T11:30:00Z")],
        vec![kubevirt("False", long_ago), upgrade("UpgradingNodes")],
    ] {
        assert_eq!(codes(&cluster(objects.clone())), [""; 0], "{objects:?}");
    }
}

/// harvester#4484.
#[test]
fn a_platform_pod_that_does_not_end_is_told_an_hour_after_it_should_have() {
    let pod = |namespace: &str, deleted: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "prometheus-0", "namespace": namespace,
            "uid": "33f4", "deletionTimestamp": deleted}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})
    };
    let up = || node("n1", RKE2, "Harvester v1.7.1");
    let monitoring = "cattle-monitoring-system";
    let long_ago = "2026-05-01T10:50:00Z";
    let objects = cluster([
        pod(monitoring, long_ago),
        up(),
        upgrade("UpgradingSystemServices"),
    ]);
    assert_eq!(codes(&objects), ["platform-pod-terminating"]);
    assert!(told(&found(&objects)[0]).contains("metadata.uid: 33f4"));
    let mut down = up();
    down["status"]["conditions"][0]["status"] = json!("Unknown");
    for objects in [
        vec![pod(monitoring, LONG_AGO), up()],
        vec![pod("apps", long_ago), up()],
        vec![pod(monitoring, long_ago), down],
    ] {
        assert_eq!(codes(&cluster(objects.clone())), [""; 0], "{objects:?}");
    }
}

/// harvester#9738.
#[test]
fn a_helm_release_of_the_platform_that_was_left_half_way_is_told_with_the_way_back() {
    let revision = |name: &str, number: u32, status: &str, made: &str| {
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": format!("sh.helm.release.v1.{name}.v{number}"), "namespace": "cattle-fleet-system",
                "creationTimestamp": made,
                "labels": {"owner": "helm", "name": name, "status": status, "version": number.to_string()}}})
    };
    let with = |more: Vec<Value>| cluster([vec![chart("", LONG_AGO)], more].concat());
    let left = || {
        vec![
            revision("fleet", 9, "deployed", LONG_AGO),
            revision("fleet", 10, "pending-upgrade", LONG_AGO),
        ]
    };
    assert_eq!(codes(&with(left())), ["release-half-way"]);
    let finding = found(&with(left())).remove(0);
    assert_eq!(finding.subject, "Helm release cattle-fleet-system/fleet");
    assert!(
        finding
            .advice
            .starts_with("`helm rollback fleet 9 -n cattle-fleet-system`")
    );
    assert_eq!(finding.severity, Severity::Warning);
    // An upgrade waits for it (harvester#9374).
    let upgrade = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": {"name": "up", "namespace": "harvester-system", "labels": {
            "harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": "UpgradingSystemServices"}}});
    let waits = found(&with([left(), vec![upgrade]].concat()));
    let of_release = waits.iter().find(|one| one.code == Code::ReleaseHalfWay);
    assert_eq!(of_release.unwrap().severity, Severity::Error);
    let first = found(&with(vec![revision(
        "fleet",
        1,
        "pending-install",
        LONG_AGO,
    )]))
    .remove(0);
    assert!(first.advice.contains("helm history"), "{first:?}");
    let helm_chart = json!({"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
        "metadata": {"name": "fleet", "namespace": "cattle-fleet-system"}});
    for objects in [
        with(vec![revision("fleet", 10, "pending-upgrade", JUST_NOW)]),
        with([left(), vec![revision("fleet", 11, "deployed", LONG_AGO)]].concat()),
        with([left(), vec![helm_chart]].concat()),
        cluster(left()),
    ] {
        assert_eq!(codes(&objects), [""; 0]);
    }
}
