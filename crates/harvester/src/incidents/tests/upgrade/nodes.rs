//! Tests the time before a node is drained: Plans, Machines and turns.

use super::*;

pub(super) fn plan(status: Value) -> Value {
    json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
        "metadata": {"name": "up-prepare", "namespace": "cattle-system", "creationTimestamp": at("11:00")},
        "spec": {"nodeSelector": {"matchLabels": {"harvesterhci.io/managed": "true"}}}, "status": status
    })
}

/// The version of the Plan is resolved, and it lists the nodes that it works on.
fn resolved(applying: Value) -> Value {
    json!({"latestHash": "abc", "applying": applying,
        "conditions": [{"type": "LatestResolved", "status": "True", "lastUpdateTime": at("11:01")}]})
}

fn plan_job(parallelism: u64, active: u64) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "apply-x", "namespace": "cattle-system", "creationTimestamp": at("11:02"),
            "labels": {"upgrade.cattle.io/plan": "up-prepare", "upgrade.cattle.io/node": "n1"}},
        "spec": {"parallelism": parallelism}, "status": {"active": active}
    })
}

/// Not complete, with this reason.
fn incomplete(mut status: Value, reason: &str) -> Value {
    let held = json!({"type": "Complete", "status": "False", "reason": reason, "lastUpdateTime": at("11:05")});
    status["conditions"].as_array_mut().unwrap().push(held);
    plan(status)
}

fn held(reason: &str) -> Value {
    incomplete(resolved(json!(null)), reason)
}

fn failed_job() -> Value {
    with(
        plan_job(1, 0),
        "/status",
        json!({"failed": 1, "conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": at("11:04")}]}),
    )
}

#[test]
fn a_plan_whose_failed_job_is_gone_stays_until_the_controller_is_started_again() {
    let left = incomplete(resolved(json!(["n1"])), "JobFailed");
    let (codes, seen) = told([left.clone(), node("n1")]);
    assert_eq!(codes, ["plan-stuck"]);
    assert!(
        seen.contains("n1 is its next node, and has no Job"),
        "{seen}"
    );
    assert!(
        seen.contains("condition Complete: False, JobFailed"),
        "{seen}"
    );
    let found = diagnose(&cluster([left.clone(), node("n1")]), now());
    assert!(found.findings[0].proof[1].contains("failed and is gone"));
    assert!(found.findings[0].by_person, "it would fail again");
    let other = incomplete(resolved(json!(["n1"])), "Started");
    let found = diagnose(&cluster([other, node("n1")]), now());
    assert!(!found.findings[0].by_person);
    nothing([left, failed_job(), node("n1")]);
}

#[test]
fn a_plan_in_a_namespace_that_its_controller_does_not_watch_is_none() {
    let of = |namespace: &str| with(plan(json!({})), "/metadata/namespace", json!(namespace));
    let controller = |namespace: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "suc-1", "namespace": namespace, "uid": "u",
            "labels": {"upgrade.cattle.io/controller": "system-upgrade-controller"}}, "status": {"phase": "Running"}})
    };
    nothing([of("tenant-a"), controller("cattle-system"), node("n1")]);
    // Each of the two namespaces has its own controller, which is the one to restart.
    for namespace in ["cattle-system", "system-upgrade"] {
        let objects = cluster([of(namespace), controller(namespace), node("n1")]);
        let found = diagnose(&objects, now()).findings;
        let cure = found[0].cure.as_ref().unwrap();
        let request = cure.requests_to_try(0)[0];
        assert_eq!(
            request.path,
            format!("/api/v1/namespaces/{namespace}/pods/suc-1")
        );
    }
    let objects = cluster([
        of("system-upgrade"),
        controller("cattle-system"),
        node("n1"),
    ]);
    let found = diagnose(&objects, now()).findings;
    assert_eq!(found[0].code, Code::PlanStuck);
    assert!(found[0].cure.is_none(), "that controller does not read it");
    assert!(found[0].advice.contains(" in system-upgrade."));
}

#[test]
fn a_plan_that_lists_only_nodes_that_are_done_while_others_are_left_is_stuck() {
    let done = || {
        with(
            node("n1"),
            "/metadata/labels/plan.upgrade.cattle.io~1up-prepare",
            json!("abc"),
        )
    };
    let stale = || plan(resolved(json!(["n1"])));
    let ended = |at_time: &str| {
        with(
            plan_job(1, 0),
            "/status",
            json!({"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at(at_time)}]}),
        )
    };
    let (codes, seen) = told([stale(), ended("11:40"), done(), node("n2")]);
    assert_eq!(codes, ["plan-stuck"]);
    assert!(seen.contains("it lists n1, already done"), "{seen}");
    nothing([stale(), ended("11:57"), done(), node("n2")]);
    nothing([stale(), ended("11:40"), done()]);
    let next = with(
        plan_job(1, 1),
        "/metadata/labels/upgrade.cattle.io~1node",
        json!("n2"),
    );
    nothing([stale(), ended("11:40"), next, done(), node("n2")]);
}

#[test]
fn a_node_that_the_agents_plan_has_left_is_told_with_the_plan_and_not_as_one_without_a_machine() {
    let agent = |status: Value| {
        with(
            with(
                plan(status),
                "/metadata/name",
                json!("system-agent-upgrader"),
            ),
            "/spec/nodeSelector",
            json!({"matchLabels": {"harvesterhci.io/managed": "true"}}),
        )
    };
    let ran = |name: &str| {
        with(
            node(name),
            "/metadata/labels/plan.upgrade.cattle.io~1system-agent-upgrader",
            json!("abc"),
        )
    };
    let without = |node: Value| with(node, "/metadata/annotations", json!({}));
    let good = || machine("m-n1", "Running", "n1");
    let (codes, seen) = told([
        agent(resolved(json!(["n2"]))),
        good(),
        ran("n1"),
        without(node("n2")),
    ]);
    assert_eq!(codes, ["plan-stuck"]);
    assert!(
        seen.contains("Node n2: annotation cluster.x-k8s.io/machine: (none)"),
        "{seen}"
    );
    // The Plan ran there, but there is still no Machine.
    let (codes, _) = told([
        agent(resolved(json!(null))),
        good(),
        ran("n1"),
        without(ran("n2")),
    ]);
    assert_eq!(codes, ["machine-missing"]);
}

#[test]
fn a_plan_that_does_not_advance_is_told_in_each_of_its_ways() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "suc-1", "namespace": "cattle-system",
        "labels": {"upgrade.cattle.io/controller": "system-upgrade-controller"}}, "status": {"phase": "Running"}});
    for (objects, why) in [
        (
            vec![plan(json!({}))],
            "the controller has never looked at it",
        ),
        (
            vec![plan(resolved(json!(null)))],
            "1 nodes are left, and no Job starts",
        ),
        (
            vec![plan(resolved(json!(["n1"])))],
            "n1 is its next node, and has no Job",
        ),
        (
            vec![plan(resolved(json!(["n1"]))), plan_job(0, 0)],
            "its Job cattle-system/apply-x stays at parallelism 0",
        ),
    ] {
        let (codes, seen) = told(objects.into_iter().chain([node("n1"), pod.clone()]));
        assert_eq!(codes, ["plan-stuck"], "{why}");
        assert!(seen.contains(why), "{seen}");
        assert!(seen.contains("Pod cattle-system/suc-1"), "{seen}");
        assert!(
            seen.contains("Node n1: label plan.upgrade.cattle.io/up-prepare: (none)"),
            "{seen}"
        );
    }
}

#[test]
fn a_plan_that_works_is_done_or_is_held_by_itself_is_no_incident() {
    let done = with(
        node("n1"),
        "/metadata/labels/plan.upgrade.cattle.io~1up-prepare",
        json!("abc"),
    );
    let ended = with(
        plan_job(1, 0),
        "/status",
        json!({"conditions": [
        {"type": "Complete", "status": "True", "lastTransitionTime": at("11:58")}]}),
    );
    for objects in [
        // Loading images takes up to an hour.
        vec![plan(resolved(json!(["n1"]))), plan_job(1, 1), node("n1")],
        // The Job of another node has just ended.
        vec![plan(resolved(json!(null))), ended, node("n1")],
        vec![plan(resolved(json!(null))), done],
        // The controller keeps a failed Job for a while.
        vec![held("JobFailed"), failed_job(), node("n1")],
        vec![held("Waiting"), node("n1")],
        vec![
            with(
                plan(resolved(json!(null))),
                "/metadata/creationTimestamp",
                json!(at("11:57")),
            ),
            node("n1"),
        ],
        vec![
            with(
                plan(resolved(json!(null))),
                "/spec/nodeSelector",
                json!({"matchLabels": {"kubernetes.io/os": "windows"}}),
            ),
            node("n1"),
        ],
    ] {
        nothing(objects);
    }
}

fn machine(name: &str, phase: &str, node: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "namespace": "fleet-local", "creationTimestamp": at("06:00")},
        "status": {"phase": phase, "lastUpdated": at("06:10"), "nodeRef": {"kind": "Node", "name": node},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at("06:10")}]}
    })
}

#[test]
fn a_node_and_a_machine_that_do_not_match_are_told_before_an_upgrade_too() {
    let good = || machine("m-n1", "Running", "n1");
    for (objects, subject, why) in [
        (
            vec![good(), node("n1"), node("n2")],
            "Node n2",
            "its Machine fleet-local/m-n2 does not exist",
        ),
        (
            vec![
                good(),
                node("n1"),
                with(node("n2"), "/metadata/annotations", json!({})),
            ],
            "Node n2",
            "it names no Machine",
        ),
        (
            vec![
                good(),
                node("n1"),
                with(
                    node("n2"),
                    "/metadata/annotations/cluster.x-k8s.io~1machine",
                    json!("m-n1"),
                ),
            ],
            "Node n2",
            "is that of n1",
        ),
        (
            vec![machine("m-n1", "Running", ""), node("n1")],
            "Machine fleet-local/m-n1",
            "it has no node",
        ),
        (
            vec![machine("m-n1", "Provisioning", "n1"), node("n1")],
            "Machine fleet-local/m-n1",
            "`Provisioning`, not Running",
        ),
    ] {
        let (codes, seen) = told(objects);
        assert_eq!(codes, ["machine-missing"], "{why}");
        assert!(seen.contains(subject) && seen.contains(why), "{seen}");
    }
}

#[test]
fn a_node_that_joins_or_that_harvester_does_not_manage_needs_no_machine_yet() {
    let good = || machine("m-n1", "Running", "n1");
    nothing([good(), node("n1")]);
    let joins = with(
        node("n2"),
        "/metadata/creationTimestamp",
        json!(at("11:45")),
    );
    nothing([good(), node("n1"), joins]);
    let begun = with(
        machine("m-n2", "Provisioning", ""),
        "/status/lastUpdated",
        json!(at("11:50")),
    );
    nothing([good(), node("n1"), begun]);
    let unmanaged = with(node("n2"), "/metadata/labels", json!({}));
    nothing([good(), node("n1"), unmanaged]);
    // RKE2 without Harvester.
    nothing([node("n1")]);
}

fn waiting_nodes(first: &str) -> Value {
    upgrade(
        "UpgradingNodes",
        json!({"n1": {"state": first}, "n2": {"state": "Images preloaded"}}),
    )
}

#[test]
fn an_upgrade_whose_nodes_all_wait_for_their_turn_quotes_what_rancher_waits_for() {
    let plane = json!({"apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane",
        "metadata": {"name": "local", "namespace": "fleet-local"},
        "status": {"conditions": [{"type": "Reconciled", "status": "Unknown", "lastUpdateTime": at("10:00"),
            "message": "configuring etcd node(s) custom-1: waiting for probes: etcd"}]}});
    let (codes, seen) = told([
        waiting_nodes("Images preloaded"),
        node("n1"),
        node("n2"),
        plane,
    ]);
    assert_eq!(codes, ["node-not-upgraded"]);
    assert!(
        seen.contains(
            "RKEControlPlane fleet-local/local: condition Reconciled: Unknown, configuring etcd"
        ),
        "{seen}"
    );

    let held = job("restore-vm", "10:00", None);
    let unanswered = with(
        node("n1"),
        "/metadata/annotations/harvesterhci.io~1pendingOSImage",
        json!("Harvester v1.8.2"),
    );
    let (codes, seen) = told([waiting_nodes("Succeeded"), held, unanswered, node("n2")]);
    assert_eq!(codes, ["node-not-upgraded"]);
    assert!(
        seen.contains("Job harvester-system/job-restore-vm: status.succeeded: 0"),
        "{seen}"
    );
    assert!(seen.contains("pendingOSImage: Harvester v1.8.2"), "{seen}");

    let (_, seen) = told([waiting_nodes("Succeeded"), node("n1"), node("n2")]);
    assert!(
        seen.contains("Rancher has begun none since 2026-05-01T09:00:00Z"),
        "{seen}"
    );
}

#[test]
fn a_node_past_the_drain_that_harvester_waits_for_is_told_by_its_rke2_and_its_hooks() {
    let with_rke2 =
        |name: &str, rke2: &str| with(node(name), "/status/nodeInfo/kubeletVersion", json!(rke2));
    let upgrade = || {
        with(
            waiting_nodes("Succeeded"),
            "/status/previousVersion",
            json!("v1.4.0"),
        )
    };
    let (codes, seen) = told([
        upgrade(),
        with_rke2("n1", "v1.30.7+rke2r1"),
        with_rke2("n2", "v1.30.7+rke2r1"),
    ]);
    assert_eq!(codes, ["node-not-upgraded"]);
    assert!(
        seen.contains("Node n2: status.nodeInfo.kubeletVersion: v1.30.7+rke2r1, the new one"),
        "{seen}"
    );
    assert!(seen.contains("n2 is past its drain already"), "{seen}");
    // It has the old version, or both releases have the same version.
    let (_, seen) = told([
        upgrade(),
        with_rke2("n1", "v1.30.7+rke2r1"),
        with_rke2("n2", "v1.29.9+rke2r1"),
    ]);
    assert!(seen.contains("Rancher has begun none since"), "{seen}");
    let (_, seen) = told([
        upgrade(),
        with_rke2("n1", "v1.29.9+rke2r1"),
        with_rke2("n2", "v1.29.9+rke2r1"),
    ]);
    assert!(seen.contains("Rancher has begun none since"), "{seen}");

    let hook = |answer: &str, asked: &str| {
        json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "m-n2-machine-plan", "namespace": "fleet-local",
                "labels": {"rke.cattle.io/machine-name": "m-n2"},
                "annotations": {"harvesterhci.io/pre-hook": answer, "rke.cattle.io/pre-drain": asked}}})
    };
    let told = |secret: Value| {
        let objects = cluster([upgrade(), node("n1"), node("n2"), secret]);
        let found = diagnose(&objects, now()).findings.remove(0);
        let first = found.evidence[0].to_string();
        (format!("{}\n{first}", found.message), found.advice)
    };
    let (message, advice) = told(hook("{\"a\":1}", ""));
    assert!(
        message.contains("Secret fleet-local/m-n2-machine-plan"),
        "{message}"
    );
    assert!(advice.contains("pre-hook"), "{advice}");
    // Rancher has asked and Harvester has not answered yet, but is about to.
    let (message, _) = told(hook("", "{\"a\":1}"));
    assert!(message.contains("has begun none"), "{message}");
}

#[test]
fn an_upgrade_in_which_something_moves_or_a_person_holds_a_node_is_on_its_way() {
    let nodes = || [node("n1"), node("n2")];
    for (upgrade, more) in [
        (waiting_nodes("Node-upgrade paused"), vec![]),
        (waiting_nodes("Pre-draining"), vec![]),
        (
            upgrade(
                "PreparingNodes",
                json!({"n1": {"state": "Images preloaded"}}),
            ),
            vec![],
        ),
        (
            waiting_nodes("Succeeded"),
            vec![job("post-drain", "10:00", Some("11:45"))],
        ),
        (
            upgrade(
                "UpgradingNodes",
                json!({"n1": {"state": "Images preloaded"}}),
            ),
            vec![job("single-node-upgrade", "10:00", None)],
        ),
        (
            upgrade(
                "UpgradingNodes",
                json!({"n1": {"state": "Succeeded"}, "n2": {"state": "Succeeded"}}),
            ),
            vec![],
        ),
    ] {
        nothing(nodes().into_iter().chain([upgrade]).chain(more));
    }
    // It rebooted a moment ago.
    let back = with(
        node("n1"),
        "/status/conditions/0/lastTransitionTime",
        json!(at("11:50")),
    );
    nothing([waiting_nodes("Succeeded"), back, node("n2")]);
}

/// harvester#8236: the node was deleted, but its Machine was not.
#[test]
fn a_machine_whose_node_does_not_exist_any_more_is_told() {
    let machine = |phase: &str, changed: &str, healthy: Option<&str>| {
        let conditions: Vec<Value> = healthy
            .map(|since| json!({"type": "NodeHealthy", "status": "False", "reason": "NodeNotFound", "lastTransitionTime": at(since)}))
            .into_iter()
            .collect();
        json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
            "metadata": {"name": "m-gone", "namespace": "fleet-local", "creationTimestamp": at("06:00")},
            "status": {"phase": phase, "nodeRef": {"name": "gone"}, "lastUpdated": at(changed), "conditions": conditions}})
    };
    let (codes, seen) = told([machine("Running", "07:00", Some("11:00"))]);
    assert_eq!(codes, ["machine-missing"]);
    assert!(seen.contains("its node gone does not exist"), "{seen}");
    assert!(
        seen.contains("condition NodeHealthy: False, NodeNotFound"),
        "{seen}"
    );
    nothing([machine("Running", "07:00", Some("11:45"))]);
    nothing([machine("Running", "11:45", None)]);
    let there = with(
        node("gone"),
        "/metadata/annotations",
        json!({"cluster.x-k8s.io/machine": "m-gone"}),
    );
    nothing([machine("Running", "07:00", None), there]);
}
