//! Tests the reasons why an upgrade waits, each compared with a slow and a healthy state. The time is 12:00.

use super::*;

mod cures;
mod drained;
mod failed;
mod nodes;
mod pre_drain;

fn upgrade(state: &str, nodes: Value) -> Value {
    json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": {"name": "up", "namespace": "harvester-system", "creationTimestamp": at("08:00"),
            "labels": {"harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": state}},
        "status": {"nodeStatuses": nodes, "conditions": [
            {"type": "NodesPrepared", "status": "True", "lastUpdateTime": at("08:30")},
            {"type": "SystemServicesUpgraded", "status": "True", "lastUpdateTime": at("09:00")}]}
    })
}

/// An upgrade with one node in this state.
fn one(state: &str) -> Value {
    upgrade(
        "UpgradingNodes",
        json!({"n1": {"state": state}, "n2": {"state": "Images preloaded"}}),
    )
}

fn at(time: &str) -> String {
    format!("2026-05-01T{time}:00Z")
}

fn job(kind: &str, made: &str, ended: Option<&str>) -> Value {
    let status = ended.map_or(json!({"active": 1, "succeeded": 0}), |ended| {
        json!({"succeeded": 1, "completionTime": at(ended),
            "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at(ended)}]})
    });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": format!("job-{kind}"), "namespace": "harvester-system", "creationTimestamp": at(made),
            "labels": {"harvesterhci.io/upgrade": "up", "harvesterhci.io/upgradeJobType": kind, "harvesterhci.io/node": "n1"}},
        "status": status
    })
}

/// A managed node, ready since 07:00.
fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": at("06:00"), "labels": {"harvesterhci.io/managed": "true"},
            "annotations": {"cluster.x-k8s.io/machine": format!("m-{name}")}},
        "status": {"nodeInfo": {"osImage": "Harvester v1.7.0"}, "conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": at("07:00")}]}
    })
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
    object
}

/// The codes, and the evidence of the first finding.
fn told(objects: impl IntoIterator<Item = Value>) -> (Vec<&'static str>, String) {
    let objects = cluster(objects);
    let found = diagnose(&objects, now()).findings;
    let seen = found.first().map(|one| {
        let seen: Vec<String> = one.evidence.iter().map(ToString::to_string).collect();
        format!("{}\n{}", one.message, seen.join("\n"))
    });
    (codes(&objects), seen.unwrap_or_default())
}

fn nothing(objects: impl IntoIterator<Item = Value>) {
    let (codes, seen) = told(objects);
    assert_eq!(codes, [""; 0], "{seen}");
}

#[test]
fn an_upgrade_plan_is_named_and_unknown_until_it_has_ended() {
    let plan = |status: Value| {
        json!({"apiVersion": "management.harvesterhci.io/v1beta1", "kind": "UpgradePlan",
            "metadata": {"name": "to-v1.10"}, "spec": {"version": "v1.10.0"}, "status": status})
    };
    for (status, said) in [
        (json!({"currentPhase": "NodeUpgrading"}), "NodeUpgrading"),
        (json!({"currentPhase": "of tomorrow"}), "of tomorrow"),
        (json!({}), "just made"),
    ] {
        let found = diagnose(&cluster([plan(status)]), now());
        let line = format!(
            "UpgradePlan to-v1.10 to v1.10.0: {said}; Windrow does not know the reason for the wait"
        );
        assert_eq!(found.upgrade, std::slice::from_ref(&line));
        assert_eq!(found.unknown.len(), 1, "{:?}", found.unknown);
        assert!(found.unknown[0].contains(&line), "{:?}", found.unknown);
    }
    for phase in ["Succeeded", "Failed"] {
        let found = diagnose(&cluster([plan(json!({"currentPhase": phase}))]), now());
        assert_eq!((found.upgrade, found.unknown), (Vec::new(), Vec::new()));
    }
}

#[test]
fn an_upgrade_plan_that_failed_or_stays_in_a_phase_for_long_is_a_finding() {
    let plan = |phase: &str, since: &str, more: Value| {
        let mut status = json!({"currentPhase": phase,
            "phaseTransitionTimestamps": [{"phase": phase, "phaseTransitionTimestamp": since}]});
        status
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "management.harvesterhci.io/v1beta1", "kind": "UpgradePlan",
            "metadata": {"name": "up", "creationTimestamp": "2026-04-30T12:00:00Z"}, "spec": {"version": "v1.10.0"}, "status": status})
    };
    let found = |plan: Value| -> Vec<_> {
        let found = diagnose(&cluster([node("n1"), plan]), now()).findings;
        found
            .into_iter()
            .map(|one| (one.code, one.severity, one.message))
            .collect()
    };
    let (recent, old) = ("2026-05-01T11:30:00Z", "2026-05-01T06:00:00Z");
    let broken = json!({"nodeUpgradeStatuses": {"n1": {"state": "PostDrainFailed", "reason": "BackoffLimitExceeded"}}});
    for (phase, code) in [
        ("Failed", Code::UpgradeFailed),
        ("NodeUpgrading", Code::UpgradeStalled),
    ] {
        let all = found(plan(phase, recent, broken.clone()));
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(
            (all[0].0, all[0].1),
            (code, windrow_model::reasons::Severity::Error)
        );
        assert!(all[0].2.contains("BackoffLimitExceeded"), "{}", all[0].2);
    }
    let error = |since: &str| {
        json!({"conditions": [{"type": "Degraded", "status": "True", "reason": "ReconcileError",
            "message": "no such image", "lastTransitionTime": since}]})
    };
    let all = found(plan("RepoCreating", recent, error(recent)));
    assert!(all[0].2.contains("no such image"), "{all:?}");
    assert_eq!(
        found(plan("RepoCreating", recent, error("2026-05-01T11:59:00Z"))),
        []
    );
    let all = found(plan("ClusterUpgrading", old, json!({})));
    assert_eq!(
        (all[0].0, all[0].1),
        (
            Code::UpgradeStalled,
            windrow_model::reasons::Severity::Warning
        )
    );
    assert_eq!(found(plan("ClusterUpgrading", recent, json!({}))), []);
    // Nodes take hours, and a paused one waits for you.
    assert_eq!(
        found(plan("NodeUpgrading", "2026-05-01T10:00:00Z", json!({}))),
        []
    );
    let paused = json!({"nodeUpgradeStatuses": {"n1": {"state": "UpgradePaused"}}});
    assert_eq!(
        found(plan("NodeUpgrading", "2026-04-30T12:00:00Z", paused)),
        []
    );
    assert_eq!(found(plan("Succeeded", old, json!({}))), []);
}

#[test]
fn what_an_upgrade_explains_is_no_finding_while_an_upgrade_plan_is_under_way() {
    let older = with(
        node("n2"),
        "/status/nodeInfo/kubeletVersion",
        json!("v1.34.9+rke2r1"),
    );
    let newer = with(
        node("n1"),
        "/status/nodeInfo/kubeletVersion",
        json!("v1.35.6+rke2r1"),
    );
    let plan = json!({"apiVersion": "management.harvesterhci.io/v1beta1", "kind": "UpgradePlan",
        "metadata": {"name": "up"}, "status": {"currentPhase": "NodeUpgrading"}});
    let codes = |objects: Vec<Value>| -> Vec<&str> {
        let found = diagnose(&cluster(objects), now()).findings;
        found
            .iter()
            .map(|one| one.code.as_str())
            .filter(|code| *code == "mixed-versions")
            .collect()
    };
    assert_eq!(
        codes(vec![older.clone(), newer.clone()]),
        ["mixed-versions"]
    );
    assert_eq!(codes(vec![older, newer, plan]), [""; 0]);
}

#[test]
fn harvester_that_is_down_holds_every_upgrade_and_only_then() {
    let harvester = |since: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "harvester", "namespace": "harvester-system"},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
                "message": "Deployment does not have minimum availability.", "lastTransitionTime": at(since)}]}})
    };
    let (codes, seen) = told([
        one("Images preloaded"),
        job("pre-drain", "11:40", None),
        harvester("11:50"),
    ]);
    assert_eq!(codes, ["upgrade-stalled"]);
    assert!(
        seen.contains("condition Available: False, MinimumReplicasUnavailable"),
        "{seen}"
    );
    // Just now; while the machine boots; and without an upgrade.
    let running = || [one("Images preloaded"), job("pre-drain", "11:40", None)];
    nothing(running().into_iter().chain([harvester("11:57")]));
    let boots = [
        one("Waiting Reboot"),
        job("post-drain", "11:30", Some("11:45")),
    ];
    nothing(boots.into_iter().chain([harvester("11:50")]));
    nothing([harvester("08:00")]);
}

#[test]
fn a_chart_that_is_not_ready_is_told_once_the_step_that_waits_for_it_is_late() {
    let chart = |status: &str, since: &str, paused: bool| {
        json!({"apiVersion": "management.cattle.io/v3", "kind": "ManagedChart",
            "metadata": {"name": "harvester", "namespace": "fleet-local"}, "spec": {"paused": paused},
            "status": {"conditions": [{"type": "Ready", "status": status, "lastUpdateTime": at(since),
                "message": "NotReady(1) [Cluster fleet-local/local]; deployment.apps harvester-system/harvester unavailable"}]}})
    };
    let services = || upgrade("UpgradingSystemServices", json!({}));
    let (codes, seen) = told([services(), chart("False", "10:00", false)]);
    assert_eq!(codes, ["upgrade-stalled"]);
    assert!(
        seen.contains("ManagedChart fleet-local/harvester"),
        "{seen}"
    );
    assert!(
        seen.contains("harvester-system/harvester unavailable"),
        "{seen}"
    );
    nothing([services(), chart("False", "11:30", false)]);
    nothing([services(), chart("False", "10:00", true)]);
    nothing([services(), chart("True", "10:00", false)]);
    nothing([
        one("Images preloaded"),
        job("pre-drain", "11:40", None),
        chart("False", "10:00", false),
    ]);
}

/// Simulates the requests, which ask only for the wanted kinds in several rounds. Returns the final objects and the number of
/// rounds.
fn rounds(objects: &Objects) -> (Objects, usize) {
    let mut asked = Objects::to_be_asked();
    for round in 0.. {
        let kinds = wanted(&look(&asked, now()));
        if kinds.is_empty() {
            return (asked, round);
        }
        for kind in kinds {
            let listed = objects.all(kind).unwrap().to_vec();
            asked.insert(kind.group_kind(), KindListing::Objects(listed));
        }
    }
    unreachable!()
}

#[test]
fn it_is_asked_often_enough_for_everything_that_an_upgrade_is_judged_by() {
    let drained = cluster([
        one("Pre-drained"),
        job("pre-drain", "11:00", Some("11:10")),
        node("n1"),
        node("n2"),
    ]);
    let waits = cluster(pre_drain::pre_draining([]));
    for objects in [drained, waits] {
        let asked = rounds(&objects).1;
        assert!(asked <= MOST_ROUNDS, "{asked}");
    }
    assert!(
        rounds(&cluster([])).1 < 4,
        "a healthy cluster is asked little"
    );
}
