//! May rke2-server of a node be restarted now? Finds the objections in the cluster's objects.
//!
//! | what | source |
//! |---|---|
//! | states of an Upgrade (`harvesterhci.io/upgradeState`): every value but `Succeeded` and `Failed` is in progress | Harvester v1.4.0, v1.6.1, v1.8.2, v1.9.0-rc6 `pkg/controller/master/upgrade/{job_controller,common}.go` |
//! | phases of an UpgradePlan | [`crate::upgrade::plans_under_way`] |
//! | `status.applying` of a Plan: the nodes that it acts on; `Complete` with its reason | system-upgrade-controller v0.13.4 to v0.20.1 `pkg/upgrade/handle_upgrade.go` |
//! | labels `component` and `tier` of the static pods, and their readiness probes | RKE2 v1.35.7+rke2r1 `pkg/podtemplate/podtemplate.go`, `pkg/executor/staticpod/staticpod.go` |

use serde_json::Value;

use crate::etcd_member::{Vote, vote};
use crate::objects::{Condition, is_true, items, named, text};
use crate::upgrade::{label, plan_in_a_line, plans_under_way};

/// The label of a Node that runs kube-apiserver.
pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
pub const ETCD: &str = "node-role.kubernetes.io/etcd";

/// The upgrade that is in progress, in a line. It checks all Upgrades of Harvester, all UpgradePlans of its upgrade-toolkit, and
/// all Plans of the system-upgrade-controller.
pub fn upgrade_in_progress(
    upgrades: &[Value],
    upgrade_plans: &[Value],
    plans: &[Value],
) -> Option<String> {
    let upgrade = upgrades.iter().find_map(upgrade_state);
    let upgrade_plan = || plans_under_way(upgrade_plans).next().map(plan_in_a_line);
    let plan = || plans.iter().find_map(plan_state);
    upgrade.or_else(upgrade_plan).or_else(plan)
}

/// The state of an Upgrade that has not ended. An older one that was given up has lost its label `latestUpgrade`; a new one has
/// no label yet.
fn upgrade_state(upgrade: &Value) -> Option<String> {
    let state = label(upgrade, "harvesterhci.io~1upgradeState");
    let is_latest = label(upgrade, "harvesterhci.io~1latestUpgrade") == "true";
    let state = match state {
        "Succeeded" | "Failed" => return None,
        "" => "not begun",
        _ if !is_latest => return None,
        state => state,
    };
    let name = named(upgrade);
    Some(format!("Upgrade {name}: {state}"))
}

/// The state of a Plan that acts on nodes, or that installs RKE2 and may act at any moment.
fn plan_state(plan: &Value) -> Option<String> {
    let name = named(plan);
    let nodes = items(plan, "/status/applying");
    if !nodes.is_empty() {
        let nodes: Vec<&str> = nodes.iter().filter_map(Value::as_str).collect();
        let nodes = nodes.join(", ");
        return Some(format!("Plan {name}: applying to {nodes}"));
    }
    let installs_rke2 = text(plan, "/spec/upgrade/image").contains("rke2-upgrade");
    // Controllers before v0.13 report no such condition.
    let complete = Condition::of(plan, "Complete").filter(|_| installs_rke2)?;
    // A Plan that is not valid acts on nothing.
    let is_idle = complete.is_true() || complete.reason == "NotReady";
    (!is_idle).then(|| format!("Plan {name}: not complete"))
}

/// The deficiencies of the other servers, each in a line: a Ready node, a ready kube-apiserver, a ready and voting etcd member.
/// `nodes` are the Nodes with one of the labels above, `pods` the Pods of `kube-system`.
pub fn servers_not_ready(own: &str, nodes: &[Value], pods: &[Value]) -> Vec<String> {
    let others = nodes
        .iter()
        .filter(|node| text(node, "/metadata/name") != own);
    others.flat_map(|node| lacks(node, pods)).collect()
}

fn lacks(node: &Value, pods: &[Value]) -> Vec<String> {
    let name = text(node, "/metadata/name");
    if !is_true(node, "Ready") {
        return vec![format!("node {name} is not Ready")];
    }
    let has_role = |role: &str| label(node, &role.replace('/', "~1")) == "true";
    let runs = |component: &str| {
        pods.iter().any(|pod| {
            text(pod, "/spec/nodeName") == name
                && label(pod, "component") == component
                && is_true(pod, "Ready")
        })
    };
    let mut lacks = Vec::new();
    if has_role(CONTROL_PLANE) && !runs("kube-apiserver") {
        lacks.push(format!("kube-apiserver of {name} is not ready"));
    }
    if has_role(ETCD) {
        if !runs("etcd") {
            lacks.push(format!("etcd of {name} is not ready"));
        } else if matches!(vote(node), Vote::Learns { .. } | Vote::Without { .. }) {
            lacks.push(format!("etcd of {name} does not vote"));
        }
    }
    lacks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn upgrade(labels: Value) -> Value {
        json!({"metadata": {"namespace": "harvester-system", "name": "up", "labels": labels}})
    }

    #[test]
    fn every_state_of_an_upgrade_but_its_two_last_ones_is_in_progress() {
        let state = |state: &str| {
            let labels = json!({"harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": state});
            upgrade_in_progress(&[upgrade(labels)], &[], &[])
        };
        for progress in [
            "Pending",
            "CreatingUpgradeImage",
            "PreparingLoggingInfra",
            "LoggingInfraPrepared",
            "PreparingRepo",
            "RepoPrepared",
            "PreparingNodes",
            "UpgradingSystemServices",
            "UpgradingNodes",
            "a state of tomorrow",
        ] {
            let expected = format!("Upgrade harvester-system/up: {progress}");
            assert_eq!(state(progress), Some(expected));
        }
        assert_eq!(state("Succeeded"), None);
        assert_eq!(state("Failed"), None);
        let new = upgrade_in_progress(&[upgrade(json!({}))], &[], &[]);
        assert_eq!(
            new.as_deref(),
            Some("Upgrade harvester-system/up: not begun")
        );
        let given_up = upgrade(json!({"harvesterhci.io/upgradeState": "UpgradingNodes"}));
        assert_eq!(upgrade_in_progress(&[given_up], &[], &[]), None);
    }

    #[test]
    fn an_upgrade_plan_is_in_progress_until_it_has_ended() {
        let plan = |phase: &str| json!({"metadata": {"name": "to-1.10"}, "spec": {"version": "v1.10.0"}, "status": {"currentPhase": phase}});
        let found = upgrade_in_progress(&[], &[plan("NodeUpgrading")], &[]);
        assert!(found.unwrap().starts_with("UpgradePlan to-1.10"));
        assert_eq!(upgrade_in_progress(&[], &[plan("Succeeded")], &[]), None);
    }

    #[test]
    fn a_plan_is_in_progress_while_it_acts_on_nodes_and_one_of_rke2_until_it_is_complete() {
        let plan = |image: &str, status: Value| {
            let plan = json!({"metadata": {"namespace": "cattle-system", "name": "p"},
                "spec": {"upgrade": {"image": image}}, "status": status});
            upgrade_in_progress(&[], &[], &[plan])
        };
        let complete = |status: &str, reason: &str| json!({"conditions": [{"type": "Complete", "status": status, "reason": reason}]});
        let rke2 = "rancher/rke2-upgrade";
        for image in [rke2, "rancher/harvester-upgrade"] {
            let applies = plan(image, json!({"applying": ["n1", "n2"]}));
            assert_eq!(
                applies.as_deref(),
                Some("Plan cattle-system/p: applying to n1, n2")
            );
            assert_eq!(plan(image, json!({})), None, "an old controller is idle");
            assert_eq!(plan(image, complete("True", "Complete")), None);
        }
        assert!(plan(rke2, complete("False", "SyncJob")).is_some());
        assert!(plan(rke2, complete("False", "Waiting")).is_some());
        assert_eq!(plan(rke2, complete("False", "NotReady")), None);
        assert_eq!(plan("other", complete("False", "SyncJob")), None);
    }

    fn node(name: &str, is_ready: &str, vote: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {CONTROL_PLANE: "true", ETCD: "true"}},
            "status": {"conditions": [{"type": "Ready", "status": is_ready},
                {"type": "EtcdIsVoter", "status": vote, "reason": "Unhealthy"}]}})
    }

    fn pod(node: &str, component: &str, is_ready: &str) -> Value {
        json!({"metadata": {"labels": {"component": component}}, "spec": {"nodeName": node},
            "status": {"conditions": [{"type": "Ready", "status": is_ready}]}})
    }

    #[test]
    fn another_server_is_ready_with_its_node_its_kube_apiserver_and_its_etcd_member() {
        let own = node("n1", "False", "False");
        let judge = |node: Value, apiserver: &str, etcd: &str| {
            let pods = [
                pod("n2", "kube-apiserver", apiserver),
                pod("n2", "etcd", etcd),
            ];
            let own = own.clone();
            servers_not_ready("n1", &[own, node], &pods)
        };
        let ready = || node("n2", "True", "True");
        assert!(judge(ready(), "True", "True").is_empty());
        assert_eq!(
            judge(node("n2", "Unknown", "True"), "True", "True"),
            ["node n2 is not Ready"]
        );
        assert_eq!(
            judge(ready(), "False", "True"),
            ["kube-apiserver of n2 is not ready"]
        );
        assert_eq!(judge(ready(), "True", "False"), ["etcd of n2 is not ready"]);
        assert_eq!(
            judge(node("n2", "True", "False"), "True", "True"),
            ["etcd of n2 does not vote"]
        );
        // Without its pods nothing shows that it serves.
        assert_eq!(servers_not_ready("n1", &[ready()], &[]).len(), 2);
    }

    #[test]
    fn of_a_witness_the_etcd_member_alone_counts() {
        let mut witness = node("n3", "True", "True");
        witness["metadata"]["labels"] = json!({ETCD: "true"});
        let pods = [pod("n3", "etcd", "True")];
        assert!(servers_not_ready("n1", &[witness], &pods).is_empty());
    }
}
