//! Tests the time from the drain to the reboot.

use super::*;
use crate::system_image::{ImageFile, SystemImages};

pub(super) fn cordoned(since: &str) -> Value {
    with(
        node("n1"),
        "/spec",
        json!({"unschedulable": true, "taints": [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": at(since)}]}),
    )
}

pub(super) fn manager() -> Value {
    json!({"apiVersion": "longhorn.io/v1beta2", "kind": "InstanceManager",
        "metadata": {"name": "im-1", "namespace": "longhorn-system"}, "spec": {"nodeID": "n1", "type": "aio"},
        "status": {"currentState": "running", "instanceEngines": {
            "pvc-1-e-0": {"spec": {"name": "pvc-1-e-0"}, "status": {"state": "running"}}}}})
}

pub(super) fn budget() -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "im-1", "namespace": "longhorn-system"}, "spec": {"minAvailable": 1}})
}

#[test]
fn a_stale_engine_on_a_cordoned_node_is_told_with_its_orphan() {
    let orphan = json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Orphan",
        "metadata": {"name": "orphan-1", "namespace": "longhorn-system"},
        "spec": {"nodeID": "n1", "orphanType": "engine-instance", "parameters": {"InstanceName": "pvc-1-e-0"}}});
    let (codes, seen) = told([cordoned("11:40"), manager(), budget(), orphan]);
    assert_eq!(codes, ["engine-stale"]);
    assert!(seen.contains("InstanceManager longhorn-system/im-1: status.instanceEngines[pvc-1-e-0].status.state: running; Engine pvc-1-e-0 does not exist"), "{seen}");
    assert!(seen.contains("Orphan longhorn-system/orphan-1"), "{seen}");
}

#[test]
fn an_engine_that_runs_a_node_that_is_not_cordoned_and_a_budget_that_is_gone_are_no_incident() {
    let runs = json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Engine",
        "metadata": {"name": "pvc-1-e-0", "namespace": "longhorn-system"}, "spec": {"nodeID": "n1", "volumeName": "pvc-1"},
        "status": {"currentState": "running", "instanceManagerName": "im-1"}});
    nothing([cordoned("11:40"), manager(), budget(), runs]);
    nothing([node("n1"), manager(), budget()]);
    nothing([cordoned("11:55"), manager(), budget()]);
    nothing([cordoned("11:40"), manager()]);
}

fn conditions(ready: &str, voter: &str, reason: &str, since: &str) -> Value {
    with(
        node("n1"),
        "/status/conditions",
        json!([
        {"type": "Ready", "status": ready, "reason": "KubeletNotReady", "lastTransitionTime": at(since)},
        {"type": "EtcdIsVoter", "status": voter, "reason": reason, "lastTransitionTime": at(since)}]),
    )
}

#[test]
fn a_server_that_stays_a_learner_is_told_and_one_that_votes_or_has_just_begun_is_not() {
    let drained = || [one("Pre-drained"), job("pre-drain", "11:00", Some("11:10"))];
    let with_node = |node: Value| drained().into_iter().chain([node]);
    let (codes, seen) = told(with_node(conditions(
        "Unknown",
        "False",
        "MemberIsLearner",
        "11:30",
    )));
    assert_eq!(codes, ["etcd-learner"]);
    assert!(
        seen.contains("condition EtcdIsVoter: False, MemberIsLearner"),
        "{seen}"
    );
    nothing(with_node(conditions(
        "Unknown",
        "False",
        "MemberIsLearner",
        "11:53",
    )));
    nothing(with_node(conditions(
        "True",
        "True",
        "MemberNotLearner",
        "11:30",
    )));
    // Without an upgrade, for example after a join, a ready node counts too, but later.
    for ready in ["Unknown", "True"] {
        let (codes, _) = told([conditions(ready, "False", "MemberIsLearner", "11:29")]);
        assert_eq!(codes, ["etcd-learner"], "{ready}");
    }
    nothing([conditions("Unknown", "False", "MemberIsLearner", "11:31")]);
    nothing([conditions("Unknown", "False", "NotAMember", "11:00")]);
    // It is not a learner, so RKE2 itself does not start.
    let (codes, seen) = told(with_node(conditions(
        "False",
        "True",
        "MemberNotLearner",
        "11:30",
    )));
    assert_eq!(codes, ["upgrade-stalled"]);
    assert!(
        seen.contains("condition Ready: False, KubeletNotReady"),
        "{seen}"
    );
    nothing([
        one("Images preloaded"),
        job("pre-drain", "11:50", None),
        conditions("False", "False", "MemberIsLearner", "11:30"),
    ]);
}

/// Post-draining since this time, with the repository of Harvester v1.7 and later.
fn post_draining(since: &str, available: &str, down: &str) -> Vec<Value> {
    vec![
        one("Post-draining"),
        job("post-drain", since, None),
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "upgrade-repo-up", "namespace": "harvester-system"},
            "spec": {"selector": {"matchLabels": {"app": "repo"}}},
            "status": {"conditions": [{"type": "Available", "status": available, "lastTransitionTime": at(down)}]}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "repo-1", "namespace": "harvester-system", "labels": {"app": "repo"}},
            "status": {"phase": "Pending", "containerStatuses": [{"image": "nginx", "state": {"waiting": {"reason": "ContainerCreating"}}}]}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "up", "namespace": "harvester-system"},
            "spec": {"volumeName": "pvc-9"}}),
        json!({"apiVersion": "longhorn.io/v1beta2", "kind": "ShareManager", "metadata": {"name": "pvc-9", "namespace": "longhorn-system"},
            "status": {"state": "starting"}}),
        json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Engine", "metadata": {"name": "pvc-9-e-0", "namespace": "longhorn-system"},
            "spec": {"volumeName": "pvc-9"}, "status": {"currentState": "stopped"}}),
    ]
}

#[test]
fn a_repository_that_is_down_is_told_with_its_pods_and_its_volume() {
    let (codes, seen) = told(post_draining("11:30", "False", "11:35"));
    assert_eq!(codes, ["upgrade-repo-down"]);
    for line in [
        "Deployment harvester-system/upgrade-repo-up: condition Available: False",
        "Pod harvester-system/repo-1: status: Pending, ContainerCreating (nginx)",
        "ShareManager longhorn-system/pvc-9: status.state: starting",
        "Engine longhorn-system/pvc-9-e-0: status.currentState: stopped",
    ] {
        assert!(seen.contains(line), "{line}: {seen}");
    }
    nothing(post_draining("11:30", "True", "11:35"));
    nothing(post_draining("11:30", "False", "11:55"));
    nothing(post_draining("11:50", "False", "11:35"));
}

/// The volume with its state, the address of its share, and the nodes with its replicas.
fn its_volume(state: &str, endpoint: &str, replicas: &[(&str, &str)]) -> Vec<Value> {
    let longhorn = |kind: &str, name: &str, rest: Value| {
        let mut object = json!({"apiVersion": "longhorn.io/v1beta2", "kind": kind,
            "metadata": {"name": name, "namespace": "longhorn-system"}});
        for (key, value) in rest.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    };
    let mut objects = vec![
        longhorn("Volume", "pvc-9", json!({"status": {"state": state}})),
        longhorn(
            "Setting",
            "endpoint-network-for-rwx-volume",
            json!({"value": ""}),
        ),
        longhorn(
            "ShareManager",
            "pvc-9",
            json!({"status": {"state": "running", "endpoint": endpoint}}),
        ),
        longhorn(
            "Engine",
            "pvc-9-e-0",
            json!({"spec": {"volumeName": "pvc-9"}, "status": {"currentState": "running"}}),
        ),
    ];
    objects.extend(replicas.iter().map(|(node, failed)| {
        let spec = json!({"volumeName": "pvc-9", "nodeID": node, "healthyAt": at("08:00"), "failedAt": failed});
        longhorn("Replica", &format!("r-{node}"), json!({"spec": spec}))
    }));
    objects
}

fn down_with(volume: Vec<Value>) -> IncidentFinding {
    let mut objects = post_draining("11:30", "False", "11:35");
    objects.retain(|one| one["apiVersion"] != "longhorn.io/v1beta2");
    diagnose(&cluster(objects.into_iter().chain(volume)), now())
        .findings
        .remove(0)
}

/// harvester#9597.
#[test]
fn a_repository_whose_volume_stays_attaching_is_helped_by_a_replica_but_never_the_last_one() {
    let finding = down_with(its_volume("attaching", "", &[("n1", ""), ("n2", "")]));
    assert!(
        finding
            .message
            .ends_with("Volume longhorn-system/pvc-9 stays attaching"),
        "{finding:?}"
    );
    let advice = &finding.advice;
    assert!(
        advice.starts_with("Delete Longhorn's Replica longhorn-system/r-n1"),
        "{advice}"
    );
    for others in [vec![], vec![("n2", "2026-05-01T11:00:00Z")]] {
        let replicas: Vec<_> = [("n1", "")].into_iter().chain(others).collect();
        let advice = down_with(its_volume("attaching", "", &replicas)).advice;
        assert!(advice.starts_with("Do not delete Replica"), "{advice}");
    }
    let elsewhere = down_with(its_volume("attaching", "", &[("n2", "")])).advice;
    assert!(!elsewhere.contains("elete"), "{elsewhere}");
}

/// harvester#10532.
#[test]
fn a_repository_that_is_shared_at_no_address_is_told_so_and_not_that_its_engine_runs() {
    let finding = down_with(its_volume("attached", "nfs://None/pvc-9", &[]));
    assert!(
        finding.message.contains("`nfs://None/pvc-9`"),
        "{finding:?}"
    );
    assert!(
        finding
            .message
            .ends_with("endpoint-network-for-rwx-volume is empty")
    );
    assert!(
        finding.advice.contains("share-manager-pvc-9"),
        "{finding:?}"
    );
    // The volume is in order, so the pod is the reason.
    let finding = down_with(its_volume("attached", "nfs://10.52.0.9/pvc-9", &[]));
    assert!(
        finding
            .message
            .ends_with("Pending, ContainerCreating (nginx)"),
        "{finding:?}"
    );
}

#[test]
fn up_to_v1_6_the_repository_is_a_machine_and_none_at_all_is_told_too() {
    let machine = |ready: &str, since: &str| {
        json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": {"name": "upgrade-repo-up", "namespace": "harvester-system"},
            "status": {"printableStatus": "Stopped", "conditions": [
                {"type": "Ready", "status": ready, "reason": "VMINotExists", "lastTransitionTime": at(since)}]}})
    };
    let begun = || [one("Post-draining"), job("post-drain", "11:30", None)];
    let (codes, seen) = told(begun().into_iter().chain([machine("False", "11:35")]));
    assert_eq!(codes, ["upgrade-repo-down"]);
    assert!(seen.contains("its status is \"Stopped\""), "{seen}");
    nothing(begun().into_iter().chain([machine("False", "11:55")]));
    nothing(begun().into_iter().chain([machine("True", "11:35")]));
    assert!(told(begun()).1.contains("nor a VM of its name exists"));
}

/// A node that has been waiting for its reboot since its Job ended.
fn waits(ended: &str) -> [Value; 2] {
    [
        one("Waiting Reboot"),
        job("post-drain", "10:30", Some(ended)),
    ]
}

/// A node that is to boot a new image.
fn pending(ready: &str, since: &str) -> Value {
    let node = with(
        node("n1"),
        "/metadata/annotations",
        json!({"harvesterhci.io/pendingOSImage": "Harvester v1.8.2"}),
    );
    let node = with(node, "/status/conditions/0/status", json!(ready));
    with(
        node,
        "/status/conditions/0/lastTransitionTime",
        json!(at(since)),
    )
}

#[test]
fn of_its_own_reboot_a_node_knows_the_time_the_image_and_the_space() {
    let seen = |name: &str, booted_at: &str| {
        let objects = cluster(waits("11:00").into_iter().chain([pending("True", "11:15")]));
        let mut looked = look(&objects, now());
        let own = OwnNode {
            name: name.to_owned(),
            images: Some(SystemImages {
                capacity: 15 << 30,
                free: 1 << 30,
                passive: Some(ImageFile {
                    length: 3072 << 20,
                    allocated: 3100 << 20,
                }),
                booted: Some("/cOS/passive.img".to_owned()),
                booted_at: Some(at(booted_at).parse().unwrap()),
            }),
            ..OwnNode::default()
        };
        add_own(&mut looked, &own, &objects, now());
        let found = summed_up(looked, now()).findings.remove(0);
        let seen: Vec<String> = found.evidence.iter().map(ToString::to_string).collect();
        format!("{}\n{}", found.message, seen.join("\n"))
    };
    let back = seen("n1", "11:10");
    for part in [
        "it has booted /cOS/passive.img since its Job ended; it has Harvester v1.7.0, not Harvester v1.8.2",
        "Node n1: free on COS_STATE: 1024 MiB of 15360 MiB",
        "Node n1: passive.img takes: 3100 MiB of 3072 MiB",
        "Node n1: booted at: 2026-05-01T11:10:00Z",
    ] {
        assert!(back.contains(part), "{back}");
    }
    let stayed = seen("n1", "07:00");
    assert!(
        stayed.contains("it has not booted since its Job ended"),
        "{stayed}"
    );
    // It has no evidence about other nodes.
    let other = seen("n2", "11:10");
    assert!(
        other.contains("it came back after its Job ended"),
        "{other}"
    );
    assert!(!other.contains("COS_STATE"), "{other}");
}

#[test]
fn a_node_that_does_not_boot_its_new_image_is_told_after_half_an_hour() {
    for (ready, since, why) in [
        ("True", "07:00", "it has not left since its Job ended"),
        ("True", "11:15", "it came back after its Job ended"),
        ("False", "11:05", "it is not ready"),
    ] {
        let (codes, seen) = told(waits("11:00").into_iter().chain([pending(ready, since)]));
        assert_eq!(codes, ["reboot-waits"], "{why}");
        assert!(seen.contains(why), "{seen}");
        assert!(
            seen.contains("it has Harvester v1.7.0, not Harvester v1.8.2"),
            "{seen}"
        );
    }
    nothing(
        waits("11:45")
            .into_iter()
            .chain([pending("Unknown", "11:46")]),
    );
    let booted = with(
        pending("True", "11:15"),
        "/status/nodeInfo/osImage",
        json!("Harvester v1.8.2"),
    );
    nothing(waits("11:00").into_iter().chain([booted]));
}

#[test]
fn of_a_node_whose_kubelet_is_silent_since_the_reboot_the_image_is_not_known() {
    let advice = |node: Value| {
        let objects = cluster(waits("11:00").into_iter().chain([node]));
        let found = diagnose(&objects, now()).findings.remove(0);
        (found.message, found.advice)
    };
    let silent = with(
        pending("Unknown", "11:05"),
        "/status/conditions/0/lastHeartbeatTime",
        json!(at("11:04")),
    );
    let (message, told) = advice(silent);
    assert!(
        message.contains(
            "has not reported since 2026-05-01T11:04:00Z, so Windrow cannot tell whether it has Harvester v1.8.2"
        ),
        "{message}"
    );
    assert!(!message.contains("Harvester v1.7.0"), "{message}");
    // Without a heartbeat, the finding shows when the failure was noticed.
    let (message, _) = advice(pending("Unknown", "11:05"));
    assert!(
        message.contains("has not reported since 2026-05-01T11:05:00Z"),
        "{message}"
    );
    assert!(told.contains("console") && told.contains("DHCP"), "{told}");
    assert!(!told.contains("no space"), "{told}");
    // The node came back with the old image.
    let (_, told) = advice(pending("True", "11:15"));
    assert!(told.contains("no space"), "{told}");
}
