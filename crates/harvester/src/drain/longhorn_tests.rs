use jiff::Timestamp;
use serde_json::{Value, json};

use super::longhorn::{Release, release};
use super::{Drain, KINDS, check};
use crate::objects::{KindListing, ObjectKind, Objects};

const POLICY: &str = "block-if-contains-last-replica";
const STOPPED_MAY_GO: &str = "allow-if-replica-is-stopped";

fn now() -> Timestamp {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

/// Two nodes with an instance manager each; the test drains n1.
struct Cluster(Objects);

impl Cluster {
    fn new(policy: &str) -> Self {
        let mut objects = Objects::default();
        for kind in KINDS {
            objects.insert(kind.group_kind(), KindListing::Objects(Vec::new()));
        }
        let mut cluster = Self(objects);
        for node in ["n1", "n2"] {
            cluster
                .node(node, false)
                .manager(node, json!({}))
                .budget(node);
        }
        cluster.longhorn("Setting", "node-drain-policy", json!({"value": policy}));
        cluster
    }

    fn longhorn(&mut self, kind: &str, name: &str, rest: Value) -> &mut Self {
        let mut object = json!({"apiVersion": "longhorn.io/v1beta2", "kind": kind,
            "metadata": {"name": name, "namespace": "longhorn-system"}});
        for (key, value) in rest.as_object().unwrap() {
            object[key] = value.clone();
        }
        self.put(object)
    }

    /// Adds an object, or replaces the one of the same name.
    fn put(&mut self, object: Value) -> &mut Self {
        let (version, kind) = (&object["apiVersion"], &object["kind"]);
        let kind = ObjectKind::ALL
            .iter()
            .find(|one| json!(one.api_version()) == *version && json!(one.kind) == *kind)
            .unwrap();
        let mut all = self.0.all(*kind).unwrap().to_vec();
        all.retain(|one| one["metadata"]["name"] != object["metadata"]["name"]);
        all.push(object);
        self.0.insert(kind.group_kind(), KindListing::Objects(all));
        self
    }

    fn node(&mut self, name: &str, cordoned: bool) -> &mut Self {
        self.put(json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"unschedulable": cordoned}, "status": {"allocatable": {"pods": "110"}}}))
    }

    fn manager(&mut self, node: &str, engines: Value) -> &mut Self {
        self.longhorn(
            "InstanceManager",
            &format!("im-{node}"),
            json!({
            "spec": {"nodeID": node, "type": "aio"},
            "status": {"currentState": "running", "instanceEngines": engines}}),
        )
    }

    fn budget(&mut self, node: &str) -> &mut Self {
        self.put(
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("im-{node}"), "namespace": "longhorn-system"},
            "spec": {"maxUnavailable": 0}}),
        )
    }

    fn without_budget(&mut self, node: &str) -> &mut Self {
        let kind = ObjectKind::BUDGET;
        let mut all = self.0.all(kind).unwrap().to_vec();
        all.retain(|one| one["metadata"]["name"] != format!("im-{node}"));
        self.0.insert(kind.group_kind(), KindListing::Objects(all));
        self
    }

    fn pod(&mut self) -> &mut Self {
        self.put(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "im-n1", "namespace": "longhorn-system", "labels": {"longhorn.io/node": "n1"},
                "ownerReferences": [{"kind": "InstanceManager", "name": "im-n1", "controller": true}]},
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}))
    }

    /// A budget that never allows the eviction of one pod of n1.
    fn strict_budget(&mut self, name: &str) -> &mut Self {
        self.put(
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "longhorn-system"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"longhorn.io/node": "n1"}}},
            "status": {"expectedPods": 1, "desiredHealthy": 1}}),
        )
    }

    fn engine(&mut self, name: &str, node: &str) -> &mut Self {
        self.longhorn(
            "Engine",
            name,
            json!({"spec": {"nodeID": node, "volumeName": "v"},
            "status": {"currentState": "running"}}),
        )
    }

    /// A replica: healthy since, failed since, desired state, current state.
    fn replica(&mut self, on: &str, [healthy, failed, desired, state]: [&str; 4]) -> &mut Self {
        self.longhorn("Replica", &format!("v-{on}"), json!({
            "spec": {"volumeName": "v", "nodeID": on, "healthyAt": healthy, "failedAt": failed, "desireState": desired},
            "status": {"currentState": state}}))
    }

    #[track_caller]
    fn is(&self, verdict: &str, words: &str) {
        let found = release(&self.0, "n1", "im-n1", now());
        let (is, said) = match &found {
            Release::Released(why) => ("released", why.clone()),
            Release::Kept(why) => ("kept", why.join("\n")),
            Release::Unknown(why) => ("unknown", why.clone()),
        };
        assert_eq!(is, verdict, "{found:?}");
        assert!(said.contains(words), "{found:?}");
    }
}

const HEALTHY: [&str; 4] = ["2026-01-01T00:00:00Z", "", "running", "running"];
const FAILED: [&str; 4] = [
    "2026-01-01T00:00:00Z",
    "2026-01-02T00:00:00Z",
    "stopped",
    "stopped",
];
const STOPPED: [&str; 4] = ["2026-01-01T00:00:00Z", "", "stopped", "stopped"];
const STOPPING: [&str; 4] = ["2026-01-01T00:00:00Z", "", "stopped", "running"];
const UNUSED: [&str; 4] = ["", "", "stopped", "stopped"];
const REBUILT: [&str; 4] = ["", "", "running", "running"];

#[test]
fn a_healthy_copy_on_another_node_lets_it_go_only_while_a_budget_keeps_that_one() {
    let mut cluster = Cluster::new(POLICY);
    cluster.replica("n1", HEALTHY).replica("n2", HEALTHY);
    cluster.is("released", "removes its budget");
    cluster
        .node("n2", true)
        .is("unknown", "n2, which is cordoned");
    cluster.node("n2", false).without_budget("n2");
    cluster.is("unknown", "not kept by a budget");
    cluster.budget("n2").is("released", "");
}

#[test]
fn the_only_healthy_copy_keeps_it_and_so_does_a_failed_one_without_any() {
    for here in [HEALTHY, FAILED] {
        let mut cluster = Cluster::new(POLICY);
        cluster
            .replica("n1", here)
            .is("kept", "volume v: no healthy replica but on n1");
        cluster.replica("n2", FAILED).is("kept", "volume v");
        // A rebuild is slow, but no proof.
        cluster
            .replica("n2", REBUILT)
            .is("unknown", "is being rebuilt");
        cluster.replica("n2", HEALTHY).is("released", "");
    }
    Cluster::new(POLICY)
        .replica("n1", UNUSED)
        .is("released", "");
    Cluster::new(POLICY).is("released", "");
}

#[test]
fn a_stopped_copy_may_go_where_the_policy_says_so() {
    let stopped = |here, policy| {
        let mut cluster = Cluster::new(policy);
        cluster.replica("n1", here);
        cluster
    };
    stopped(STOPPED, STOPPED_MAY_GO).is("released", "");
    stopped(STOPPED, POLICY).is("kept", "");
    // It has to be stopped, and that has to be its desired state.
    stopped(STOPPING, STOPPED_MAY_GO).is("kept", "");
    stopped(HEALTHY, STOPPED_MAY_GO).is("kept", "");
    // If attached here, it may stop when the drain detaches it.
    let mut attached = stopped(HEALTHY, STOPPED_MAY_GO);
    attached
        .engine("v-e-0", "n1")
        .is("unknown", "whether it stops");
    stopped(HEALTHY, "always-allow").is("released", "");
}

#[test]
fn replicas_that_longhorn_moves_away_first_make_it_unknown() {
    let mut cluster = Cluster::new("block-for-eviction");
    cluster.is("released", "");
    cluster.replica("n1", HEALTHY).replica("n2", HEALTHY);
    cluster.is("unknown", "moves replicas away");
    let mut cluster = Cluster::new("block-for-eviction-if-contains-last-replica");
    cluster
        .replica("n1", HEALTHY)
        .is("unknown", "moves replicas away");
    cluster.replica("n2", HEALTHY).is("released", "");
}

#[test]
fn a_listed_engine_goes_first_and_one_that_is_not_there_keeps_the_budget() {
    let mut cluster = Cluster::new(POLICY);
    cluster
        .manager("n1", json!({"v-e-0": {"status": {"state": "running"}}}))
        .is("unknown", "Engine v-e-0 does not exist");
    cluster
        .engine("v-e-0", "n1")
        .is("released", "once these engines are gone: v-e-0");
    // During a migration the volume has an engine on either node.
    cluster.engine("v-e-1", "n2").is("released", "v-e-0");
    cluster
        .manager("n1", json!({}))
        .is("released", "removes its budget");
}

#[test]
fn a_cordoned_node_whose_budget_is_gone_has_been_let_go() {
    let mut cluster = Cluster::new(POLICY);
    cluster
        .replica("n1", HEALTHY)
        .node("n1", true)
        .is("kept", "");
    cluster
        .without_budget("n1")
        .is("released", "has removed its budget");
    // On a schedulable node Longhorn creates the budget again.
    cluster.node("n1", false).is("kept", "");
}

#[test]
fn a_drain_shows_what_becomes_of_the_instance_manager() {
    let mut cluster = Cluster::new(POLICY);
    cluster.pod().replica("n1", HEALTHY);
    let checked = check(&cluster.0, "n1", now());
    assert_eq!(checked.drain, Drain::Blocked, "{checked:?}");
    assert!(
        checked.pods[0].because[0].contains("volume v"),
        "{checked:?}"
    );
    cluster.replica("n2", HEALTHY);
    assert_eq!(check(&cluster.0, "n1", now()).drain, Drain::Finishes);
    // An unlisted kind gives no answer.
    let kind = ObjectKind::INSTANCE_MANAGER.group_kind();
    cluster
        .0
        .insert(kind, KindListing::Unknown("403".to_owned()));
    assert_eq!(check(&cluster.0, "n1", now()).drain, Drain::Unknown);
}

#[test]
fn the_budget_of_another_nodes_manager_that_selects_the_pod_blocks_the_drain() {
    // Its own budget selects it and is removed.
    let mut cluster = Cluster::new(POLICY);
    cluster.pod().strict_budget("im-n1");
    assert_eq!(check(&cluster.0, "n1", now()).drain, Drain::Finishes);
    // Its own budget is gone, and that of n2 selects its pod.
    let mut cluster = Cluster::new(POLICY);
    cluster.pod().node("n1", true).without_budget("n1");
    assert_eq!(check(&cluster.0, "n1", now()).drain, Drain::Finishes);
    cluster.strict_budget("im-n2");
    let checked = check(&cluster.0, "n1", now());
    assert_eq!(checked.drain, Drain::Blocked, "{checked:?}");
    let pod = &checked.pods[0];
    assert_eq!(pod.budget.as_deref(), Some("longhorn-system/im-n2"));
    assert!(
        pod.because[1].contains("is the budget of the instance manager of n2"),
        "{checked:?}"
    );
    // A budget that was not counted yet proves nothing.
    cluster.put(
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "im-n2", "namespace": "longhorn-system"},
        "spec": {"selector": {"matchLabels": {"longhorn.io/node": "n1"}}}}),
    );
    assert_eq!(check(&cluster.0, "n1", now()).drain, Drain::Unknown);
}

#[test]
fn longhorn_does_not_look_at_the_budget_of_a_manager_that_does_not_run() {
    for state in ["error", "unknown", "stopped", "starting"] {
        let mut cluster = Cluster::new("always-allow");
        cluster.longhorn(
            "InstanceManager",
            "im-n1",
            json!({"spec": {"nodeID": "n1", "type": "aio"}, "status": {"currentState": state}}),
        );
        cluster.is("unknown", &format!("its instance manager is `{state}`"));
        // There is nothing to remove.
        cluster.without_budget("n1").is("released", "");
    }
}

#[test]
fn a_budget_that_stays_long_after_the_cordon_is_not_said_to_go() {
    let cordoned = |since: &str| {
        let mut cluster = Cluster::new(POLICY);
        cluster.put(json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
            "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable",
                "effect": "NoSchedule", "timeAdded": since}]},
            "status": {"allocatable": {"pods": "110"}}}));
        cluster
    };
    cordoned("2026-05-01T11:55:00Z").is("released", "removes its budget");
    cordoned("2026-05-01T10:31:00Z").is("unknown", "Longhorn has not removed it");
    // An engine explains it, and a last copy is a proof.
    let mut late = cordoned("2026-05-01T10:31:00Z");
    late.engine("v-e-0", "n1")
        .manager("n1", json!({"v-e-0": {"status": {"state": "running"}}}))
        .is("released", "v-e-0");
    let mut late = cordoned("2026-05-01T10:31:00Z");
    late.replica("n1", HEALTHY).is("kept", "volume v");
}
