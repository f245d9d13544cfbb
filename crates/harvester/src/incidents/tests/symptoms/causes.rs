//! Tests which finding explains which symptom.

use super::*;

/// harvester#8160.
#[test]
fn a_node_that_is_not_ready_takes_the_pods_on_it_that_do_not_work() {
    let canal = owned(
        pod("kube-system", "rke2-canal", 1, "n2", creating(LONG_AGO)),
        "DaemonSet",
        "rke2-canal",
    );
    let finding = one([ready("n1"), not_ready("n2", LONG_AGO), canal]);
    assert_eq!(finding.code, Code::NodeNotReady);
    assert_eq!(finding.severity, Severity::Error);
    assert!(
        finding.message.contains("cni plugin not initialized"),
        "{}",
        finding.message
    );
    assert!(finding.affected[0].contains("rke2-canal"), "{finding:?}");
}

/// harvester#3227.
#[test]
fn one_full_disk_is_one_finding_whatever_waits_because_of_it() {
    let mut full = ready("n1");
    full["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "DiskPressure", "status": "True", "lastTransitionTime": LONG_AGO}));
    let taint = "node.kubernetes.io/disk-pressure";
    full["spec"]["taints"] = json!([{"key": taint, "effect": "NoSchedule"}]);
    let parts = [
        ("cattle-system", "rancher"),
        (SYSTEM, "harvester"),
        (SYSTEM, "virt-operator"),
    ];
    let waiting = parts.into_iter().flat_map(|(namespace, name)| {
        let mut waiting = pod(namespace, name, 1, "", unscheduled(taint, LONG_AGO));
        waiting["spec"].as_object_mut().unwrap().remove("nodeName");
        [waiting, deployment(namespace, name, 1, 0, LONG_AGO)]
    });
    let finding = one(waiting.chain([full]));
    assert_eq!(finding.code, Code::NodeCondition);
    assert_eq!(finding.severity, Severity::Error);
    assert_eq!(finding.affected.len(), 3, "{finding:?}");
    assert!(
        finding.advice.contains("Do not remove the taint"),
        "{}",
        finding.advice
    );
}

/// harvester#9845.
#[test]
fn a_hook_of_an_upgrade_that_no_node_takes_is_found_although_an_upgrade_runs() {
    let mut broken = ready("n1");
    broken["status"]["conditions"].as_array_mut().unwrap().push(
        json!({"type": "NetworkUnavailable", "status": "True", "reason": "JoinSubnetGatewayUnreachable", "lastTransitionTime": LONG_AGO}),
    );
    let taint = "node.kubernetes.io/network-unavailable";
    broken["spec"]["taints"] = json!([{"key": taint, "effect": "NoSchedule"}]);
    let hook = "up-post-drain-n1";
    let mut waiting = owned(
        pod(SYSTEM, hook, 1, "", unscheduled(taint, LONG_AGO)),
        "Job",
        hook,
    );
    waiting["spec"].as_object_mut().unwrap().remove("nodeName");
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": hook, "namespace": SYSTEM, "creationTimestamp": LONG_AGO}, "status": {"active": 1, "startTime": LONG_AGO}});
    let finding = one([
        broken,
        waiting,
        job,
        upgrade("UpgradingNodes", "n1", "Post-draining"),
    ]);
    assert_eq!(finding.code, Code::NodeCondition);
    assert!(finding.affected[0].contains(hook), "{finding:?}");
}

/// harvester#7471.
#[test]
fn used_up_pod_addresses_of_a_node_explain_the_deployments_that_wait_for_them() {
    let message = "plugin type=\"calico\" failed (add): failed to allocate for range 0: \
                   no IP addresses available in range set: 10.52.0.1-10.52.0.254";
    let parts = ["harvester", "virt-api"].into_iter().flat_map(|name| {
        let waiting = pod(SYSTEM, name, 1, "n1", creating(LONG_AGO));
        let event = warning(&waiting, "FailedCreatePodSandBox", message);
        [waiting, event, deployment(SYSTEM, name, 1, 0, LONG_AGO)]
    });
    let finding = one(parts.chain([ready("n1")]));
    assert_eq!(finding.code, Code::PodAddressesUsedUp);
    assert!(!finding.unexplained);
    assert!(
        finding.message.contains("10.52.0.1-10.52.0.254"),
        "{}",
        finding.message
    );
    assert_eq!(finding.affected.len(), 2, "{finding:?}");
    assert!(told(&finding).contains("512 times"), "{}", told(&finding));
}

/// harvester#6256 and harvester#9325, saved without whereabouts' pools.
#[test]
fn a_storage_network_is_judged_by_longhorns_pods_if_there_are_no_pools() {
    let setting = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting", "metadata": {"name": "storage-network"},
        "value": "{\"range\":\"198.51.100.0/24\"}", "status": {"conditions": [{"type": "configured", "status": "False",
            "message": "IP allocation failure for Longhorn Pods", "lastUpdateTime": LONG_AGO}]}});
    let manager = |node: &str, status: Value| {
        let mut manager = owned(
            pod("longhorn-system", "im", 1, node, status),
            "InstanceManager",
            node,
        );
        manager["metadata"]["name"] = json!(format!("im-{node}"));
        manager["metadata"]["labels"] = json!({"longhorn.io/component": "instance-manager"});
        manager
    };
    let look = |more: Vec<Value>| {
        let mut witness = ready("n3");
        witness["metadata"]["labels"] = json!({"node-role.harvesterhci.io/witness": "true"});
        let mut objects = saved(
            [
                vec![ready("n1"), ready("n2"), witness, setting.clone()],
                more,
            ]
            .concat(),
        );
        let none = Objects::default();
        let why = none.all(ObjectKind::IP_POOL).unwrap_err().why;
        objects.insert(ObjectKind::IP_POOL.group_kind(), KindListing::Unknown(why));
        diagnose(&objects, now())
    };
    let waiting = manager("n1", creating(LONG_AGO));
    let event = warning(
        &waiting,
        "FailedCreatePodSandBox",
        "error at storage engine: Could not allocate IP in range: ip: 198.51.100.1 / excludeRanges: [198.51.100.0/24]",
    );
    let found = look(vec![waiting, event]).findings;
    let [finding] = &found[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(
        (finding.code, finding.severity),
        (Code::StorageNetworkWaits, Severity::Error)
    );
    assert!(finding.advice.contains("`exclude`"), "{}", finding.advice);
    assert!(
        told(finding).contains("excludeRanges: [198.51.100.0/24]"),
        "{}",
        told(finding)
    );
    // The witness needs none, and Harvester waits for it all the same.
    let all = look(vec![manager("n1", works(OLD)), manager("n2", works(OLD))]);
    let codes: Vec<_> = all
        .findings
        .iter()
        .map(|one| (one.code, one.severity))
        .collect();
    assert_eq!(codes, [(Code::StorageNetworkWaits, Severity::Info)]);
    // Neither: the pools would tell.
    let unclear = look(vec![manager("n1", works(OLD))]);
    assert!(
        unclear.unknown[0].contains("IPPool"),
        "{:?}",
        unclear.unknown
    );
}

/// harvester#2191.
#[test]
fn a_machine_that_is_being_deleted_is_told_with_its_finalizers() {
    let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": {"name": "custom-1", "namespace": "fleet-local", "creationTimestamp": OLD, "deletionTimestamp": LONG_AGO,
            "finalizers": ["machine.cluster.x-k8s.io"]},
        "status": {"phase": "Deleting", "nodeRef": {"name": "n1"}}});
    let mut node = ready("n1");
    node["metadata"]["annotations"] = json!({"cluster.x-k8s.io/machine": "custom-1"});
    let finding = one([node, machine]);
    assert_eq!(finding.code, Code::MachineMissing);
    assert!(
        told(&finding).contains("metadata.finalizers: machine.cluster.x-k8s.io"),
        "{}",
        told(&finding)
    );
    assert!(finding.advice.contains("finalizer"), "{}", finding.advice);
}

#[test]
fn a_chart_that_waits_for_a_part_that_is_down_is_no_second_finding() {
    let reported = json!({"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "BundleDeployment",
        "metadata": {"name": "mcc-harvester", "namespace": "cluster-fleet-local-local-1a3d67d0a899", "labels": {
            "fleet.cattle.io/bundle-name": "mcc-harvester", "fleet.cattle.io/bundle-namespace": "fleet-local"}},
        "spec": {"deploymentID": "s-1"}, "status": {"appliedDeploymentID": "s-1", "nonReadyStatus": [
            {"kind": "Deployment", "apiVersion": "apps/v1", "namespace": SYSTEM, "name": "harvester", "summary": {"state": "in-progress"}}]}});
    let chart = json!({"apiVersion": "management.cattle.io/v3", "kind": "ManagedChart",
        "metadata": {"name": "harvester", "namespace": "fleet-local"}, "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "False", "lastUpdateTime": LONG_AGO, "message": "NotReady(1)"}],
            "display": {"state": "NotReady"},
            "summary": {"nonReadyResources": [{"bundleState": "NotReady", "nonReadyStatus": [
                {"kind": "Deployment", "apiVersion": "apps/v1", "namespace": SYSTEM, "name": "harvester", "summary": {"message": ["x"]}}]}]}}});
    let down = deployment(SYSTEM, "harvester", 1, 0, LONG_AGO);
    let finding = one([ready("n1"), down, chart, reported]);
    assert_eq!(finding.code, Code::WorkloadNotAvailable);
    assert!(
        finding.affected[0].contains("fleet-local/harvester"),
        "{finding:?}"
    );
}

#[test]
fn a_cause_explains_only_the_symptoms_of_its_own_objects() {
    let ending = || {
        let mut pod = pod(SYSTEM, "harvester", 1, "n1", works(OLD));
        pod["metadata"]["deletionTimestamp"] = json!(LONG_AGO);
        pod
    };
    let down = deployment("cattle-system", "rancher", 3, 0, LONG_AGO);
    let all = found([ready("n1"), ending(), down]);
    let known: Vec<(Code, bool)> = all.iter().map(|one| (one.code, one.unexplained)).collect();
    assert_eq!(
        known,
        [
            (Code::WorkloadNotAvailable, true),
            (Code::PlatformPodTerminating, false)
        ]
    );
}
