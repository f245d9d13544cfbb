//! Tests the symptoms that an object's own status reports.

use super::*;

/// harvester#11440.
#[test]
fn a_vip_without_a_load_balancer_is_an_error() {
    let config = |mode: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "vip", "namespace": SYSTEM, "creationTimestamp": OLD},
        "data": {"enabled": "true", "ip": "192.0.2.10", "mode": mode, "serviceType": "LoadBalancer"}})
    };
    let service = |name: &str, kind: &str, ip: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "kube-system", "creationTimestamp": OLD},
            "spec": {"type": kind}, "status": {"loadBalancer": {"ingress": [{"ip": ip}]}}})
    };
    let expose = "ingress-expose";
    for services in [
        vec![service(expose, "ClusterIP", "")],
        vec![service(expose, "ClusterIP", "192.0.2.10")],
        vec![service(expose, "LoadBalancer", "")],
        vec![service(expose, "LoadBalancer", "192.0.2.99")],
        vec![service("another", "LoadBalancer", "192.0.2.10")],
        vec![],
    ] {
        let other = service("rke2-coredns-rke2-coredns", "ClusterIP", "");
        let finding = one(services
            .iter()
            .cloned()
            .chain([other, ready("n1"), config("static")]));
        assert_eq!(finding.code, Code::VipNotAnnounced, "{services:?}");
        assert_eq!(finding.severity, Severity::Error);
    }
    let mut off = config("static");
    off["data"]["enabled"] = json!("false");
    let mut new = service(expose, "LoadBalancer", "");
    new["metadata"]["creationTimestamp"] = json!(JUST_NOW);
    for healthy in [
        vec![
            service(expose, "LoadBalancer", "192.0.2.10"),
            config("static"),
        ],
        vec![
            service("rke2-traefik", "LoadBalancer", "192.0.2.10"),
            config("static"),
        ],
        // The lease may have another address by now.
        vec![
            service(expose, "LoadBalancer", "192.0.2.99"),
            config("dhcp"),
        ],
        vec![new, config("static")],
        vec![off],
    ] {
        let all = found(healthy.iter().cloned().chain([ready("n1")]));
        assert_eq!(all, [], "{healthy:?}");
    }
}

/// harvester#10284, harvester#6022.
#[test]
fn a_pod_of_a_user_that_does_not_end_is_an_error_if_a_drain_waits_for_it() {
    let ending = |deleted: &str| {
        let mut pod = owned(
            pod("default", "virt-launcher-vm1", 1, "n3", works(OLD)),
            "VirtualMachineInstance",
            "vm1",
        );
        pod["metadata"]["deletionTimestamp"] = json!(deleted);
        pod
    };
    let finding = one([ready("n3"), ending(LONG_AGO)]);
    assert_eq!(finding.code, Code::PodTerminating);
    assert_eq!(finding.severity, Severity::Warning);
    let mut drained = ready("n3");
    drained["spec"]["taints"] = json!([{"key": "kubevirt.io/drain", "effect": "NoSchedule"}]);
    assert_eq!(one([drained, ending(LONG_AGO)]).severity, Severity::Error);
    assert_eq!(found([ready("n3"), ending("2026-05-01T11:30:00Z")]), []);
    let all = found([not_ready("n3", LONG_AGO), ending(LONG_AGO)]);
    let codes: Vec<Code> = all.iter().map(|one| one.code).collect();
    assert_eq!(codes, [Code::NodeNotReady], "its kubelet cannot end it");
}

#[test]
fn jobs_that_failed_or_run_for_half_a_day_are_warnings() {
    let job = |status: Value, labels: Value| {
        json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "job", "namespace": SYSTEM, "creationTimestamp": OLD, "labels": labels}, "status": status})
    };
    let failed = json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": LONG_AGO}]});
    let finding = one([ready("n1"), job(failed.clone(), json!({}))]);
    assert_eq!(
        (finding.code, finding.severity),
        (Code::JobNotDone, Severity::Warning)
    );
    let of_upgrade = json!({"harvesterhci.io/upgrade": "up"});
    assert_eq!(
        found([ready("n1"), job(failed, of_upgrade)]),
        [],
        "upgrade-failed tells it"
    );
    let running = |since: &str| job(json!({"active": 1, "startTime": since}), json!({}));
    assert_eq!(one([ready("n1"), running(OLD)]).code, Code::JobNotDone);
    assert_eq!(found([ready("n1"), running(LONG_AGO)]), []);
}

#[test]
fn conditions_that_stay_false_quote_their_controller() {
    let setting = |message: &str, since: &str| {
        json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting", "metadata": {"name": "backup-target"},
        "status": {"conditions": [{"type": "configured", "status": "False", "message": message, "lastUpdateTime": since}]}})
    };
    let finding = one([ready("n1"), setting("no such host", LONG_AGO)]);
    assert_eq!(
        (finding.code, finding.severity),
        (Code::ProblemStays, Severity::Warning)
    );
    assert!(
        finding.message.contains("no such host"),
        "{}",
        finding.message
    );
    assert_eq!(
        found([ready("n1"), setting("", LONG_AGO)]),
        [],
        "it is empty"
    );
    assert_eq!(found([ready("n1"), setting("no such host", JUST_NOW)]), []);

    let image = |annotations: Value| {
        json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "VirtualMachineImage",
        "metadata": {"name": "harvester-v1.8.2", "namespace": SYSTEM, "annotations": annotations},
        "status": {"conditions": [{"type": "Imported", "status": "False", "message": "the file's sha512 does not match", "lastUpdateTime": LONG_AGO}]}})
    };
    let of_upgrade = json!({"harvesterhci.io/os-upgrade-image": "True"});
    let finding = one([ready("n1"), image(of_upgrade)]);
    assert!(finding.message.contains("sha512"), "{}", finding.message);
    assert_eq!(found([ready("n1"), image(json!({}))]), []);
}

#[test]
fn volumes_claims_and_vms_that_do_not_work_are_told() {
    let volume = |name: &str, robustness: &str, since: &str| {
        json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": name, "namespace": "longhorn-system"},
        "status": {"robustness": robustness, "lastDegradedAt": since, "kubernetesStatus": {"workloadsStatus": [{"podName": "a"}]}}})
    };
    let replica = || {
        json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Replica", "metadata": {"name": "r", "namespace": "longhorn-system"},
        "spec": {"volumeName": "pvc-1", "failedAt": LONG_AGO}})
    };
    let mut lost = volume("pvc-1", "faulted", "");
    assert_eq!(
        one([ready("n1"), lost.clone(), replica()]).severity,
        Severity::Error
    );
    lost["status"]["kubernetesStatus"]["lastPodRefAt"] = json!(LONG_AGO);
    let unused = one([ready("n1"), lost, replica()]);
    assert_eq!(unused.severity, Severity::Warning, "no pod needs it");
    let all = one([
        ready("n1"),
        volume("pvc-1", "degraded", OLD),
        volume("pvc-2", "degraded", OLD),
    ]);
    assert_eq!(all.severity, Severity::Warning);
    assert!(all.message.contains("1 more volumes"), "{}", all.message);
    // It is rebuilt.
    let young = volume("pvc-1", "degraded", "2026-05-01T08:00:00Z");
    assert_eq!(found([ready("n1"), young]), []);
    assert_eq!(found([ready("n1"), volume("pvc-1", "healthy", "")]), []);

    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": SYSTEM},
        "spec": {"volumeName": "pvc-1"}, "status": {"phase": "Lost"}});
    assert_eq!(one([ready("n1"), claim]).severity, Severity::Error);

    let vm = |name: &str, status: &str, since: &str| {
        json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name, "namespace": "default"},
        "status": {"printableStatus": status, "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": since}]}})
    };
    let finding = one([
        ready("n1"),
        vm("a", "ErrorUnschedulable", LONG_AGO),
        vm("b", "CrashLoopBackOff", LONG_AGO),
    ]);
    assert!(
        finding.message.contains("1 more VMs"),
        "{}",
        finding.message
    );
    assert_eq!(
        found([ready("n1"), vm("a", "ErrorUnschedulable", JUST_NOW)]),
        []
    );
    assert_eq!(found([ready("n1"), vm("a", "Stopped", LONG_AGO)]), []);
}

#[test]
fn an_api_that_its_server_does_not_serve_is_an_error_unless_it_is_of_metrics() {
    let api = |group: &str, service: Value, since: &str| {
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("v1.{group}"), "creationTimestamp": OLD}, "spec": {"group": group, "service": service},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "FailedDiscoveryCheck",
                "message": "no response from https://10.53.0.9:443", "lastTransitionTime": since}]}})
    };
    let of_kubevirt = json!({"namespace": SYSTEM, "name": "virt-api"});
    let subresources = api("subresources.kubevirt.io", of_kubevirt.clone(), LONG_AGO);
    let finding = one([ready("n1"), subresources.clone()]);
    assert_eq!(finding.code, Code::ProblemStays);
    assert_eq!(finding.severity, Severity::Error);
    assert!(
        finding.message.contains("FailedDiscoveryCheck"),
        "{}",
        finding.message
    );
    let of_metrics = json!({"namespace": "kube-system", "name": "rke2-metrics-server"});
    let metrics = api("metrics.k8s.io", of_metrics, LONG_AGO);
    assert_eq!(one([ready("n1"), metrics]).severity, Severity::Warning);
    let of_user = json!({"namespace": "default", "name": "api"});
    let users = api("example.com", of_user, LONG_AGO);
    assert_eq!(one([ready("n1"), users]).severity, Severity::Warning);
    assert_eq!(
        found([ready("n1"), api("a.kubevirt.io", of_kubevirt, JUST_NOW)]),
        []
    );
    let local = api("apps", json!(null), LONG_AGO);
    assert_eq!(found([ready("n1"), local]), []);
    // Its Deployment is the symptom that explains it.
    let down = deployment(SYSTEM, "virt-api", 2, 0, LONG_AGO);
    let finding = one([ready("n1"), subresources, down]);
    assert_eq!(finding.code, Code::WorkloadNotAvailable);
    assert!(finding.affected[0].contains("subresources"), "{finding:?}");
}

#[test]
fn a_machine_that_rancher_waits_for_is_told_with_its_words() {
    let waits = |kind: &str, since: &str| {
        let version = match kind {
            "Machine" => "cluster.x-k8s.io/v1beta1",
            _ => "rke.cattle.io/v1",
        };
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": "local", "namespace": "fleet-local", "creationTimestamp": OLD},
            "status": {"phase": "Running", "nodeRef": {"name": "n1"}, "conditions": [{"type": "Ready", "status": "Unknown", "reason": "Waiting",
                "message": "waiting for probes: etcd", "lastUpdateTime": since}]}})
    };
    let mut node = ready("n1");
    node["metadata"]["annotations"] = json!({"cluster.x-k8s.io/machine": "local"});
    for kind in ["RKEControlPlane", "Machine"] {
        let look = |since: &str| found([node.clone(), waits(kind, since)]);
        let told = look(LONG_AGO);
        let own = told.iter().filter(|one| one.code == Code::ProblemStays);
        let own: Vec<_> = own.collect();
        assert_eq!(own.len(), 1, "{told:#?}");
        let message = &own[0].message;
        assert!(message.contains("waiting for probes: etcd"), "{message}");
        assert_eq!(own[0].severity, Severity::Warning);
        let young = look(JUST_NOW);
        assert!(young.iter().all(|one| one.code != Code::ProblemStays));
    }
}

#[test]
fn certificates_that_end_within_a_month_are_told_as_rke2_tells_them() {
    let event = |end: &str, last: &str| {
        let message = format!(
            "Node certificates require attention - restart rke2 on this node to trigger automatic rotation: \
             scheduler/kube-scheduler.crt: certificate CN=kube-scheduler will expire within 120 days at {end}\n\
             kubelet/client-kubelet.crt: certificate CN=system:node:n1,O=system:nodes will expire within 120 days at 2026-08-20T12:00:00Z"
        );
        json!({"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "CertificateExpirationWarning", "message": message,
            "metadata": {"name": format!("n1.{last}"), "namespace": "default"}, "lastTimestamp": last,
            "involvedObject": {"kind": "Node", "name": "n1"}})
    };
    let (earlier, later) = ("2026-05-01T11:10:00Z", "2026-05-01T11:40:00Z");
    for (end, severity) in [
        ("2026-05-20T12:00:00Z", Severity::Warning),
        ("2026-05-05T12:00:00Z", Severity::Error),
        ("2026-04-30T12:00:00Z", Severity::Error),
    ] {
        let finding = one([ready("n1"), event(end, later)]);
        assert_eq!(finding.severity, severity, "{end}");
        assert!(finding.message.contains(end), "{}", finding.message);
    }
    let far = event("2026-07-20T12:00:00Z", later);
    assert_eq!(found([ready("n1"), far.clone()]), []);
    // They were renewed since the earlier Event.
    let old = event("2026-05-20T12:00:00Z", earlier);
    assert_eq!(found([ready("n1"), old, far]), []);
}
