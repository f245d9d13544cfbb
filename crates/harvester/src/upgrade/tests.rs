use serde_json::{Value, json};

use super::*;
use crate::objects::KindListing;

fn now() -> Timestamp {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

fn upgrade(state: &str, nodes: Value) -> Value {
    json!({
        "apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": {"name": "up", "namespace": "harvester-system", "creationTimestamp": "2026-05-01T08:00:00Z",
            "labels": {"harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": state}},
        "spec": {"version": "v1.8.2"},
        "status": {"nodeStatuses": nodes, "conditions": [
            {"type": "SystemServicesUpgraded", "status": "True", "lastUpdateTime": "2026-05-01T09:50:00Z"}]}
    })
}

/// A Job of an upgrade, with a name that no rule expects.
fn hook(upgrade: &str, kind: &str, node: &str, made: &str, ended: Option<&str>) -> Value {
    let ended = ended.map_or(json!({"active": 1}), |ended| {
        json!({"succeeded": 1, "completionTime": ended, "conditions": [{"type": "Complete", "status": "True"}]})
    });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "cut-3f2a", "namespace": "harvester-system", "creationTimestamp": made, "labels": {
            "harvesterhci.io/upgrade": upgrade, "harvesterhci.io/upgradeJobType": kind, "harvesterhci.io/node": node}},
        "status": ended
    })
}

#[test]
fn a_state_begins_with_the_job_that_its_labels_name() {
    let jobs = [
        hook(
            "up",
            "pre-drain",
            "n1",
            "2026-05-01T10:00:00Z",
            Some("2026-05-01T10:20:00Z"),
        ),
        hook("up", "pre-drain", "n2", "2026-05-01T11:40:00Z", None),
        hook(
            "old",
            "pre-drain",
            "n1",
            "2026-05-01T11:00:00Z",
            Some("2026-05-01T11:30:00Z"),
        ),
        hook(
            "up",
            "post-drain",
            "n3",
            "2026-05-01T09:00:00Z",
            Some("2026-05-01T11:55:00Z"),
        ),
    ];
    let nodes = json!({"n1": {"state": "Pre-drained"}, "n2": {"state": "Pre-draining"},
        "n3": {"state": "Waiting Reboot"}, "n4": {"state": "Images preloaded"}, "n5": {"state": "Resting"}});
    let upgrade = upgrade("UpgradingNodes", nodes);
    let read = HarvesterUpgrade::read(&upgrade, &jobs);
    let since: Vec<Option<String>> = read
        .nodes
        .iter()
        .map(|node| node.since.map(|since| since.to_string()))
        .collect();
    let at = |time: &str| Some(time.to_owned());
    assert_eq!(
        since,
        [
            at("2026-05-01T10:20:00Z"),
            at("2026-05-01T11:40:00Z"),
            at("2026-05-01T11:55:00Z"),
            None,
            None
        ]
    );
    assert_eq!(read.nodes[4].stage, NodeStage::Other);
    assert_eq!(read.since().unwrap().to_string(), "2026-05-01T09:50:00Z");
}

#[test]
fn an_upgrade_is_told_in_words_with_what_each_node_waits_for() {
    let jobs = [hook("up", "pre-drain", "n1", "2026-05-01T10:45:00Z", None)];
    let nodes = json!({"n1": {"state": "Pre-draining"}, "n2": {"state": "Images preloaded"},
        "n3": {"state": "Succeeded"}, "n4": {"state": "Node-upgrade paused"}});
    let upgrade = upgrade("UpgradingNodes", nodes);
    let read = HarvesterUpgrade::read(&upgrade, &jobs);
    assert_eq!(
        read.in_lines(now()),
        [
            "Upgrade harvester-system/up to v1.8.2: UpgradingNodes for 2 h 10 min, waits for its nodes, one after the other; 1 of 4 nodes done",
            "Node n1: Pre-draining for 1 h 15 min (longer than 60 min), waits for healthy volumes, and its VMs to leave",
            "Node n2: Images preloaded, waits for its turn",
            "Node n4: Node-upgrade paused, waits for an operator, who paused it",
        ]
    );
    assert_eq!(
        read.in_a_line(),
        "Harvester: UpgradingNodes; n1 is Pre-draining since 2026-05-01 10:45 UTC, waits for healthy volumes, and its VMs to leave"
    );
}

#[test]
fn a_line_names_few_nodes_and_one_without_nodes_says_what_the_upgrade_waits_for() {
    let many: serde_json::Map<String, Value> = (1..=5)
        .map(|number| (format!("n{number}"), json!({"state": "Images preloading"})))
        .collect();
    let many = upgrade("PreparingNodes", many.into());
    let line = HarvesterUpgrade::read(&many, &[]).in_a_line();
    assert!(line.contains("n3 is Images preloading"), "{line}");
    assert!(line.ends_with("; and 2 more nodes"), "{line}");
    let early = upgrade("PreparingRepo", json!({}));
    let line = HarvesterUpgrade::read(&early, &[]).in_a_line();
    assert_eq!(line, "Harvester: PreparingRepo, waits for its repository");
    let new = upgrade("", json!({}));
    assert_eq!(
        HarvesterUpgrade::read(&new, &[]).in_a_line(),
        "Harvester: just begun"
    );
}

#[test]
fn a_single_node_is_at_work_while_its_one_job_runs() {
    let nodes = json!({"n1": {"state": "Images preloaded"}});
    let upgrade = upgrade("UpgradingNodes", nodes);
    let jobs = [hook("up", SINGLE_NODE, "n1", "2026-05-01T11:00:00Z", None)];
    let line = HarvesterUpgrade::read(&upgrade, &jobs).in_a_line();
    assert!(
        line.ends_with("n1 is Images preloaded, its upgrade runs"),
        "{line}"
    );
    let ended = [hook(
        "up",
        SINGLE_NODE,
        "n1",
        "2026-05-01T11:00:00Z",
        Some("2026-05-01T11:50:00Z"),
    )];
    assert!(!HarvesterUpgrade::read(&upgrade, &ended).nodes[0].runs_alone);
}

#[test]
fn only_the_newest_upgrade_counts_and_only_until_it_is_over() {
    let found = |upgrade: Value| {
        let mut objects = Objects::default();
        objects.insert(
            ObjectKind::JOB.group_kind(),
            KindListing::Objects(Vec::new()),
        );
        objects.add(upgrade);
        HarvesterUpgrade::under_way(&objects).unwrap().is_some()
    };
    assert!(found(upgrade("UpgradingNodes", json!({}))));
    assert!(found(upgrade("", json!({}))), "not labelled yet");
    assert!(!found(upgrade("Succeeded", json!({}))));
    assert!(!found(upgrade("Failed", json!({}))));
    let mut old = upgrade("UpgradingNodes", json!({}));
    old["metadata"]["labels"]["harvesterhci.io/latestUpgrade"] = json!("false");
    assert!(!found(old));
}

#[test]
fn an_upgrade_is_on_a_node_while_its_own_stage_goes_on_and_begins_with_that_stage() {
    let jobs = [
        hook("up", "pre-drain", "n1", "2026-05-01T11:50:00Z", None),
        hook("up", "post-drain", "n2", "2026-05-01T08:30:00Z", None),
    ];
    let nodes = json!({"n1": {"state": "Pre-draining"}, "n2": {"state": "Succeeded"},
        "n3": {"state": "Images preloaded"}, "n4": {"state": "Node-upgrade paused"}, "n5": {"state": "Waiting Reboot"}});
    let object = upgrade("UpgradingNodes", nodes);
    let read = HarvesterUpgrade::read(&object, &jobs);
    let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
    let effect = |is_on_node, since| UpgradeEffect { is_on_node, since };
    let drain = at("2026-05-01T11:50:00Z");
    assert_eq!(read.effect_on("n1"), effect(true, drain));
    for node in ["n2", "n3", "n4", "n6"] {
        assert_eq!(read.effect_on(node), effect(false, drain), "{node}");
    }
    // If no Job shows it, the step of the whole upgrade does.
    let step = at("2026-05-01T09:50:00Z");
    assert_eq!(read.effect_on("n5"), effect(true, step));
    let object = upgrade("", json!({}));
    let read = HarvesterUpgrade::read(&object, &[]);
    assert_eq!(
        read.effect_on("n1"),
        effect(false, at("2026-05-01T08:00:00Z"))
    );
}

#[test]
fn an_upgrade_plan_is_on_the_nodes_whose_state_goes_on() {
    let plan = json!({"status": {
        "nodeUpgradeStatuses": {"n1": {"state": "PostDraining"}, "n2": {"state": "PostDrained"}},
        "phaseTransitionTimestamps": [
            {"phase": "NodeUpgrading", "phaseTransitionTimestamp": "2026-05-01T11:00:00Z"},
            {"phase": "ImagePreloaded", "phaseTransitionTimestamp": "2026-05-01T10:00:00Z"}]}});
    let effect = |is_on_node, since| UpgradeEffect { is_on_node, since };
    assert_eq!(plan_effect_on(&plan, "n1"), effect(true, None));
    let phase = "2026-05-01T11:00:00Z".parse().ok();
    assert_eq!(plan_effect_on(&plan, "n2"), effect(false, phase));
    assert_eq!(plan_effect_on(&json!({}), "n1"), effect(false, None));
}

#[test]
fn an_upgrade_excuses_a_node_for_as_long_as_its_stages_usually_take() {
    let patience = windrow_plan::readiness::node::Transition::Upgrade.patience();
    assert_eq!(patience.as_mins(), usual_minutes_of_a_node());
}
