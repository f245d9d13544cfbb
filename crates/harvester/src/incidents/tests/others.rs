use super::*;

pub(super) fn machine(name: &str, status: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": "apps", "uid": format!("u-{name}")},
        "spec": {"runStrategy": "Always"}, "status": {"printableStatus": status}
    })
}

fn server(reason: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "harvester-1", "namespace": "harvester-system", "labels": {
            "app.kubernetes.io/name": "harvester", "app.kubernetes.io/component": "apiserver"}},
        "spec": {"containers": [{"name": "apiserver", "image": "rancher/harvester:v1.5.0"}]},
        "status": {"containerStatuses": [{
            "restartCount": 7, "state": {"waiting": {"reason": reason}},
            "lastState": {"terminated": {"message": "starting\nfailed to create harvester server: admission webhook denied the request: Please stop all VMs before configuring the storage-network setting"}}
        }]}
    })
}

pub(super) fn setting(condition: Value) -> Value {
    json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting",
        "metadata": {"name": "storage-network"}, "status": {"conditions": [condition]}
    })
}

#[test]
fn machines_that_keep_harvester_from_its_settings_are_named_and_can_be_stopped() {
    let objects = cluster([
        machine("db", "Running"),
        machine("web", "Stopped"),
        server("CrashLoopBackOff"),
    ]);
    assert_eq!(codes(&objects), ["machines-block-settings"]);
    let finding = diagnose(&objects, now()).findings.remove(0);
    assert!(finding.message.contains("apps/db") && !finding.message.contains("apps/web"));
    assert!(
        finding.evidence[0]
            .value
            .ends_with("before configuring the storage-network setting"),
        "{finding:?}"
    );
    let cure = finding.cure.unwrap();
    let said: Vec<&str> = cure.steps.iter().map(|step| step.say.as_str()).collect();
    assert_eq!(
        said,
        [
            "stop VirtualMachine apps/db",
            "wait until Harvester has made its Setting storage-network",
            "start VirtualMachine apps/db again, as it was",
            "wait until VirtualMachine apps/db runs again",
        ]
    );
    // A run strategy alone does not mean that a VM runs.
    let mut left = machine("db", "Stopped");
    assert!(!cure.steps[3].goal.is_reached(Some(&left)));
    left["status"]["printableStatus"] = json!("Running");
    assert!(cure.steps[3].goal.is_reached(Some(&left)));
    let body = |step: usize| cure.steps[step].request.as_ref().unwrap().body.clone();
    let replaced = |from: &str, to: &str| {
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "u-db"},
            {"op": "test", "path": "/spec/runStrategy", "value": from},
            {"op": "replace", "path": "/spec/runStrategy", "value": to}
        ])
    };
    assert_eq!(body(0), replaced("Always", "Halted"));
    assert_eq!(body(2), replaced("Halted", "Always"));
    // A strategy that is restored before the instance is gone does not start the VM again.
    let mut ends = machine("db", "Stopped");
    ends["status"]["created"] = json!(true);
    assert!(!cure.steps[0].goal.is_reached(Some(&ends)));
    ends["status"].as_object_mut().unwrap().remove("created");
    assert!(cure.steps[0].goal.is_reached(Some(&ends)));
    // Undoing the first step starts the VM.
    let Some(WayBack::Request(back)) = &cure.steps[0].way_back else {
        panic!("{cure:?}")
    };
    assert_eq!(back.body, body(2));
}

#[test]
fn a_machine_without_a_status_counts_as_running_and_one_that_was_running_is_restored_so() {
    let mut fresh = machine("db", "");
    fresh["spec"] = json!({"running": true});
    let objects = cluster([fresh, server("CrashLoopBackOff")]);
    let cure = diagnose(&objects, now()).findings.remove(0).cure.unwrap();
    let start = &cure.steps[2];
    assert_eq!(
        start.request.as_ref().unwrap().body,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "u-db"},
            {"op": "test", "path": "/spec/runStrategy", "value": "Halted"},
            {"op": "remove", "path": "/spec/runStrategy"},
            {"op": "test", "path": "/spec/running", "value": null},
            {"op": "add", "path": "/spec/running", "value": true}
        ])
    );
}

#[test]
fn no_machine_is_stopped_if_one_of_them_would_not_start_again() {
    for (strategy, is_offered) in [
        ("Always", true),
        ("RerunOnFailure", true),
        ("Halted", true),
        ("Manual", false),
        ("Once", false),
        ("WaitAsReceiver", false),
        ("Unheard", false),
    ] {
        let mut other = machine("web", "Running");
        other["spec"]["runStrategy"] = json!(strategy);
        let objects = cluster([machine("db", "Running"), other, server("CrashLoopBackOff")]);
        let finding = diagnose(&objects, now()).findings.remove(0);
        assert_eq!(finding.cure.is_some(), is_offered, "{strategy}");
        if !is_offered {
            let named = format!("apps/web has runStrategy {strategy}");
            assert!(finding.advice.contains(&named), "{}", finding.advice);
        }
    }
}

#[test]
fn a_machine_that_is_asked_to_stop_is_waited_for_and_not_started() {
    let mut stopping = machine("db", "Stopping");
    stopping["spec"] = json!({"running": false});
    let objects = cluster([stopping, server("CrashLoopBackOff")]);
    let cure = diagnose(&objects, now()).findings.remove(0).cure.unwrap();
    let requests = cure.steps.iter().filter(|step| step.request.is_some());
    assert_eq!(requests.count(), 0, "{:?}", cure.steps);
    assert_eq!(cure.steps.len(), 2);
}

#[test]
fn no_machine_is_stopped_for_a_release_that_accepts_the_setting_or_was_not_read() {
    for (image, why) in [
        ("rancher/harvester:v1.8.2", "accepts the empty Setting"),
        ("rancher/harvester:v1.5.1", "accepts the empty Setting"),
        ("rancher/harvester:v1.5.0-rc3", "v1.5.0-rc3 were not read"),
        (
            "rancher/harvester:master-head",
            "version of Harvester is unknown",
        ),
    ] {
        let mut pod = server("CrashLoopBackOff");
        pod["spec"]["containers"][0]["image"] = json!(image);
        let objects = cluster([machine("db", "Running"), pod]);
        assert_eq!(codes(&objects), ["machines-block-settings"], "{image}");
        let finding = diagnose(&objects, now()).findings.remove(0);
        assert!(finding.cure.is_none(), "{image}");
        assert!(finding.advice.contains(why), "{image}: {}", finding.advice);
    }
}

/// The tags are those of Harvester's releases. The chart does not set `terminationMessagePolicy`, so the pod often has no
/// message.
#[test]
fn a_crash_without_words_is_this_incident_only_before_the_release_that_mended_it() {
    for (image, found) in [
        ("rancher/harvester:v1.4.3", true),
        ("rancher/harvester:v1.5.0", true),
        ("registry.example:5000/rancher/harvester:v1.5.0-rc3", true),
        ("rancher/harvester:v1.5.1", false),
        ("rancher/harvester:v1.5.1-rc2", false),
        ("rancher/harvester:v1.8.2", false),
        ("rancher/harvester:master-head", false),
        ("registry.example:5000/rancher/harvester", false),
        ("", false),
    ] {
        let mut pod = server("CrashLoopBackOff");
        pod["spec"] = json!({"containers": [{"name": "apiserver", "image": image}]});
        pod["status"]["containerStatuses"][0]["lastState"] = json!({});
        let objects = cluster([machine("db", "Running"), pod]);
        let expected: &[&str] = if found {
            &["machines-block-settings"]
        } else {
            &[]
        };
        assert_eq!(codes(&objects), expected, "{image}");
    }
}

#[test]
fn harvester_on_its_way_or_with_its_settings_is_no_incident() {
    for objects in [
        vec![machine("db", "Running"), server("ContainerCreating")],
        vec![machine("db", "Stopped"), server("CrashLoopBackOff")],
        vec![
            machine("db", "Running"),
            server("CrashLoopBackOff"),
            setting(json!({})),
        ],
    ] {
        assert_eq!(codes(&cluster(objects)), [""; 0]);
    }
}

fn feature(name: &str, value: Value, default: bool) -> Value {
    json!({
        "apiVersion": "management.cattle.io/v3", "kind": "Feature", "metadata": {"name": name},
        "spec": {"value": value}, "status": {"default": default, "dynamic": true}
    })
}

fn driver(active: bool) -> Value {
    json!({
        "apiVersion": "management.cattle.io/v3", "kind": "NodeDriver", "metadata": {"name": "harvester"},
        "spec": {"active": active, "url": "https://releases.example/driver.tar.gz"},
        "status": {"conditions": [{"type": "Downloaded", "status": "False", "message": "dial tcp: no route to host"}]}
    })
}

#[test]
fn a_driver_that_outlives_its_feature_is_named_with_what_is_set() {
    let objects = cluster([
        feature("harvester", json!(false), true),
        feature("harvester-baremetal-container-workload", json!(null), false),
        driver(true),
        version("v1.8.2"),
    ]);
    assert_eq!(codes(&objects), ["driver-without-feature"]);
    let finding = diagnose(&objects, now()).findings.remove(0);
    assert!(
        finding.message.contains("no route to host"),
        "{}",
        finding.message
    );
    assert_eq!(
        finding.evidence[0].value,
        "false (locked unset, spec false, default true)"
    );
    assert!(
        finding.proof[0].starts_with("Rancher before v2.11.0"),
        "{:?}",
        finding.proof
    );
    // Off by default: no version of Rancher changes the driver then.
    let by_default = cluster([feature("harvester", json!(null), false), driver(true)]);
    let finding = diagnose(&by_default, now()).findings.remove(0);
    assert!(
        finding.proof[0].ends_with("and it has none"),
        "{:?}",
        finding.proof
    );
}

#[test]
fn a_driver_that_follows_its_feature_is_no_incident() {
    let mut locked = feature("harvester", json!(false), true);
    locked["status"]["lockedValue"] = json!(true);
    for objects in [
        vec![feature("harvester", json!(false), true), driver(false)],
        vec![feature("harvester", json!(null), true), driver(true)],
        vec![locked, driver(true)],
        vec![feature("harvester", json!(false), true)],
    ] {
        assert_eq!(codes(&cluster(objects)), [""; 0]);
    }
}

#[test]
fn a_driver_that_is_off_and_in_use_names_the_pools_and_one_that_nobody_uses_is_no_incident() {
    let cluster_of = |config: &str| {
        json!({
            "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
            "metadata": {"name": "guests", "namespace": "fleet-default"}, "spec": {"rkeConfig": {"machinePools": [
                {"name": "workers", "machineConfigRef": {"kind": config, "name": "nc-guests-workers"}}]}}
        })
    };
    let on = || feature("harvester", json!(null), true);
    let objects = cluster([on(), driver(false), cluster_of("HarvesterConfig")]);
    assert_eq!(codes(&objects), ["driver-in-use"]);
    let seen = diagnose(&objects, now()).findings.remove(0).evidence;
    assert_eq!(
        seen[1].to_string(),
        "Cluster fleet-default/guests: machinePools[workers].machineConfigRef: HarvesterConfig nc-guests-workers"
    );
    for objects in [
        vec![on(), driver(true), cluster_of("HarvesterConfig")],
        vec![on(), driver(false), cluster_of("Amazonec2Config")],
        vec![on(), driver(false)],
        vec![driver(false), cluster_of("HarvesterConfig")],
    ] {
        assert_eq!(codes(&cluster(objects)), [""; 0]);
    }
}

#[test]
fn a_chart_that_fails_again_and_again_is_named_and_one_that_failed_twice_is_not() {
    let chart = json!({
        "apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
        "metadata": {"name": "metallb", "namespace": "kube-system"}, "status": {"jobName": "helm-install-metallb"}
    });
    let job = |failed: i64, complete: &str| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "helm-install-metallb", "namespace": "kube-system"},
            "status": {"failed": failed, "conditions": [{"type": "Complete", "status": complete}]}
        })
    };
    assert_eq!(
        codes(&cluster([chart.clone(), job(6, "False")])),
        ["chart-retries"]
    );
    assert_eq!(codes(&cluster([chart.clone(), job(2, "False")])), [""; 0]);
    assert_eq!(codes(&cluster([chart.clone(), job(6, "True")])), [""; 0]);
    // helm-controller's Jobs fail like this: the container restarts, and the Job does not count it.
    let pod = |restarts: u64| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "helm-install-metallb-x", "namespace": "kube-system",
                "labels": {"batch.kubernetes.io/job-name": "helm-install-metallb"}},
            "status": {"phase": "Running", "containerStatuses": [{"name": "helm", "image": "klipper-helm", "restartCount": restarts,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}
        })
    };
    let looping = cluster([chart.clone(), job(0, "False"), pod(6)]);
    assert_eq!(codes(&looping), ["chart-retries"]);
    let finding = diagnose(&looping, now()).findings.remove(0);
    let seen: Vec<String> = finding.evidence.iter().map(ToString::to_string).collect();
    assert_eq!(
        seen,
        [
            "Pod kube-system/helm-install-metallb-x: restartCount: 6",
            "Pod kube-system/helm-install-metallb-x: waiting: CrashLoopBackOff (klipper-helm)",
            "Pod kube-system/helm-install-metallb-x: lastState.terminated: exit code 1 (Error)",
        ]
    );
    let twice = [chart.clone(), job(0, "False"), pod(2)];
    assert_eq!(codes(&cluster(twice)), [""; 0]);
    // Pods of another Job, and of a Job with the same name in another namespace, do not belong to this chart.
    for (field, other) in [
        ("/metadata/labels/batch.kubernetes.io~1job-name", "backup"),
        ("/metadata/namespace", "elsewhere"),
    ] {
        let mut pod = pod(6);
        *pod.pointer_mut(field).unwrap() = json!(other);
        let others = [chart.clone(), job(0, "False"), pod];
        assert_eq!(codes(&cluster(others)), [""; 0], "{field}");
    }
    // The chart of an Addon gives up at the fifth failure, so it is reported while it can still be fixed.
    let limited = |limit: u64, failed: i64| {
        let mut job = job(failed, "False");
        job["spec"] = json!({"backoffLimit": limit});
        diagnose(&cluster([chart.clone(), job]), now()).findings
    };
    assert_eq!(limited(5, 2), []);
    let told = &limited(5, 3)[0].message;
    assert!(
        told.ends_with("failed 3 times, and gives up at 5"),
        "{told}"
    );
    assert_eq!(limited(1000, 4), []);
    assert_eq!(limited(1000, 5).len(), 1);
}

#[test]
fn a_driver_is_switched_off_only_while_no_machine_was_made_with_it() {
    let feature = json!({"apiVersion": "management.cattle.io/v3", "kind": "Feature",
        "metadata": {"name": "harvester"}, "spec": {"value": false}});
    let driver = json!({"apiVersion": "management.cattle.io/v3", "kind": "NodeDriver",
        "metadata": {"name": "harvester", "uid": "d1"}, "spec": {"active": true}});
    let machine = |name: &str, kind: &str| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": {"name": name},
            "spec": {"infrastructureRef": {"kind": kind}}})
    };
    let found = |machines: &[Value]| {
        let mut objects = cluster([feature.clone(), driver.clone(), version("v1.8.2")]);
        machines.iter().for_each(|one| objects.add(one.clone()));
        diagnose(&objects, now()).findings.remove(0)
    };
    let custom = machine("c", "CustomMachine");
    let cure = found(std::slice::from_ref(&custom)).cure.unwrap();
    assert_eq!(cure.requests_to_try(0)[0].body[2]["value"], false);
    let used = found(&[
        custom,
        machine("a", "HarvesterMachine"),
        machine("b", "HarvesterMachine"),
    ]);
    assert!(used.cure.is_none());
    assert!(
        used.advice.contains("in use by 2 machines"),
        "{}",
        used.advice
    );
    // Its machines do not exist yet.
    let pool = json!({"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "metadata": {"name": "c"},
        "spec": {"rkeConfig": {"machinePools": [{"machineConfigRef": {"kind": "HarvesterConfig"}}]}}});
    let wanted = found(&[pool]);
    assert!(wanted.cure.is_none());
    assert!(
        wanted.advice.contains("1 machine pools"),
        "{}",
        wanted.advice
    );
}
