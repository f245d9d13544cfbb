//! Level 4: what keeps an upgrade of Harvester waiting, on objects that a real kube-apiserver took, live and saved. Harvester,
//! Rancher, Longhorn and the kubelets are played; no controller runs, so that a status may be of any time.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};
use support::cluster::{Cluster, Spec, Who};
use support::objects::{
    BUDGET, CLAIM, DEPLOYMENT, ENGINE, Gvk, INSTANCE_MANAGER, JOB, MACHINE, MANAGED_CHART, NODE,
    ORPHAN, PLAN, POD, RANCHER_CLUSTER, UPGRADE, VM, VMI, VMI_MIGRATION, VOLUME,
};
use support::objects::{api, make, namespace, node, patch, start, status};

use crate::support;

const CONTROL_PLANE: Gvk = ("rke.cattle.io", "v1", "RKEControlPlane");
const SHARE_MANAGER: Gvk = ("longhorn.io", "v1beta2", "ShareManager");
const SYSTEM: &str = "harvester-system";

/// The kinds that no kube-apiserver brings.
const SERVED: [Gvk; 14] = [
    UPGRADE,
    PLAN,
    MACHINE,
    CONTROL_PLANE,
    RANCHER_CLUSTER,
    MANAGED_CHART,
    ENGINE,
    INSTANCE_MANAGER,
    ORPHAN,
    SHARE_MANAGER,
    VOLUME,
    VM,
    VMI,
    VMI_MIGRATION,
];
const BUILT_IN: [Gvk; 6] = [NODE, POD, JOB, BUDGET, DEPLOYMENT, CLAIM];

struct Site {
    cluster: Cluster,
    client: Client,
    root: tempfile::TempDir,
}

impl Site {
    /// Two managed nodes in an upgrade.
    async fn start() -> Option<Self> {
        let kinds = SERVED.map(|kind| (kind, "Namespaced"));
        let (cluster, client) = start(Spec::default(), &kinds).await?;
        for name in [SYSTEM, "longhorn-system", "cattle-system", "fleet-local"] {
            namespace(&client, name).await;
        }
        for name in ["n1", "n2"] {
            let labels = json!({"harvesterhci.io/managed": "true"});
            node(&client, name, labels, json!([])).await;
        }
        let upgrade = json!({"metadata": {"name": "up", "labels": {
            "harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": "UpgradingNodes"}}, "spec": {}});
        make(&client, UPGRADE, SYSTEM, upgrade).await;
        let root = tempfile::tempdir().unwrap();
        Some(Self {
            cluster,
            client,
            root,
        })
    }

    /// What Harvester says of the first node; the second one waits for its turn.
    async fn state(&self, first: &str) {
        let upgraded = json!({"nodeStatuses": {"n1": {"state": first}, "n2": {"state": "Images preloaded"}},
            "conditions": [{"type": "SystemServicesUpgraded", "status": "True", "lastUpdateTime": ago(130)}]});
        status(&api(&self.client, UPGRADE, SYSTEM), "up", upgraded).await;
    }

    async fn conditions(&self, conditions: Value) {
        let conditions = json!({"conditions": conditions});
        status(&api(&self.client, NODE, ""), "n1", conditions).await;
    }

    /// A Job of one of the upgrade's hooks.
    async fn hook(&self, kind: &str) {
        let job = json!({"metadata": {"name": kind, "labels": {"harvesterhci.io/upgrade": "up",
            "harvesterhci.io/upgradeJobType": kind, "harvesterhci.io/node": "n1"}}, "spec": job_spec()});
        make(&self.client, JOB, SYSTEM, job).await;
    }

    /// The codes that `windrow diagnose` finds, and all that it says.
    fn diagnose(&self, more: &[&OsStr]) -> (Vec<String>, Value) {
        let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .arg("--root")
            .arg(self.root.path())
            .args(["diagnose", "-o", "json"])
            .args(more)
            .output()
            .unwrap();
        let mut said: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        // Nothing runs here, which is a symptom. These tests are about known incidents.
        let findings = said["findings"].as_array_mut().unwrap();
        findings.retain(|finding| finding["unexplained"] != true);
        let findings = said["findings"].as_array().unwrap().iter();
        let codes = findings.map(|one| one["code"].as_str().unwrap().to_owned());
        (codes.collect(), said)
    }

    fn live(&self) -> (Vec<String>, Value) {
        let kubeconfig = self.cluster.kubeconfig(Who::Admin);
        let (codes, said) = self.diagnose(&["--kubeconfig".as_ref(), kubeconfig.as_os_str()]);
        assert_eq!(said["unknown"], json!([]), "{said:#}");
        (codes, said)
    }

    /// The same live and from the archive that `windrow report` makes at that moment.
    fn live_and_reported(&self) -> (Vec<String>, Value) {
        let (codes, said) = self.live();
        let file = self.root.path().join("report.tar.gz");
        let made = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .arg("--root")
            .arg(self.root.path())
            .args(["report", "--kubeconfig"])
            .arg(self.cluster.kubeconfig(Who::Admin))
            .arg("--output-file")
            .arg(&file)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let (reported, told) = self.diagnose(&["--from".as_ref(), file.as_os_str()]);
        assert_eq!(reported, codes, "{told:#}");
        assert_eq!(told["unknown"], json!([]), "{told:#}");
        assert_eq!(
            told["findings"][0]["message"],
            said["findings"][0]["message"]
        );
        (codes, said)
    }

    /// The same from lists as `kubectl get -o json` writes them, saved as many minutes later: kube-apiserver alone says
    /// when an object was made.
    async fn saved(&self, later: i64) -> (Vec<String>, Value) {
        let directory = tempfile::tempdir().unwrap();
        for gvk in SERVED.into_iter().chain(BUILT_IN) {
            save(&self.client, gvk, later, directory.path()).await;
        }
        // Lists are as old as their newest time.
        let event =
            json!({"metadata": {"name": "now", "namespace": "default"}, "lastTimestamp": ago(0)});
        let events = json!({"apiVersion": "v1", "kind": "EventList", "items": [event]});
        fs::write(directory.path().join("events.json"), events.to_string()).unwrap();
        self.diagnose(&["--from".as_ref(), directory.path().as_os_str()])
    }
}

async fn save(client: &Client, gvk: Gvk, later: i64, directory: &Path) {
    let (group, version, kind) = gvk;
    let version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    let all = api(client, gvk, "")
        .list(&Default::default())
        .await
        .unwrap();
    let items: Vec<Value> = all
        .items
        .into_iter()
        .map(|item| {
            let mut item = serde_json::to_value(item).unwrap();
            let made: Timestamp = item["metadata"]["creationTimestamp"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            let made = made - SignedDuration::from_mins(later);
            item["metadata"]["creationTimestamp"] = json!(made.to_string());
            item
        })
        .collect();
    let list = json!({"apiVersion": version, "kind": format!("{kind}List"), "items": items});
    fs::write(
        directory.join(format!("{group}_{kind}.json")),
        list.to_string(),
    )
    .unwrap();
}

fn ago(minutes: i64) -> String {
    (Timestamp::now() - SignedDuration::from_mins(minutes)).to_string()
}

fn machine(name: &str) -> Value {
    json!({"metadata": {"name": name},
        "spec": {"clusterName": "local", "bootstrap": {}, "infrastructureRef": {"kind": "CustomMachine"}}})
}

fn job_spec() -> Value {
    json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}})
}

fn condition(name: &str, status: &str, reason: &str, since: i64) -> Value {
    json!({"type": name, "status": status, "reason": reason, "message": "", "lastHeartbeatTime": ago(0),
        "lastTransitionTime": ago(since)})
}

#[tokio::test]
async fn what_keeps_an_upgrade_waiting_is_recognised_live_and_what_is_slow_is_not() {
    let Some(site) = Site::start().await else {
        return;
    };
    let client = &site.client;

    // Nobody's turn, and then a node that has just come back.
    let plane = json!({"metadata": {"name": "local"}});
    make(client, CONTROL_PLANE, "fleet-local", plane).await;
    let waits = json!({"conditions": [{"type": "Reconciled", "status": "Unknown", "lastUpdateTime": ago(100),
        "message": "configuring etcd node(s) custom-1: waiting for probes: etcd"}]});
    status(&api(client, CONTROL_PLANE, "fleet-local"), "local", waits).await;
    site.state("Images preloaded").await;
    let (codes, said) = site.live_and_reported();
    assert_eq!(codes, ["node-not-upgraded"], "{said:#}");
    assert!(
        said["findings"][0]["message"]
            .to_string()
            .contains("waiting for probes: etcd"),
        "{said:#}"
    );
    let words = said["upgrade"][0].as_str().unwrap();
    assert!(words.contains("UpgradingNodes for 2 h 1"), "{words}");
    assert_eq!(
        said["upgrade"][2],
        "Node n2: Images preloaded, waits for its turn"
    );
    site.conditions(json!([condition("Ready", "True", "KubeletReady", 10)]))
        .await;
    assert_eq!(site.live().0, [""; 0], "it came back");
    // Rancher waits for it no more.
    let reconciled =
        json!({"conditions": [{"type": "Reconciled", "status": "True", "lastUpdateTime": ago(1)}]});
    status(
        &api(client, CONTROL_PLANE, "fleet-local"),
        "local",
        reconciled,
    )
    .await;

    // A learner that does not vote, and one that has just begun.
    site.state("Pre-drained").await;
    let learner = |since| {
        json!([
            condition("Ready", "Unknown", "NodeStatusUnknown", since),
            condition("EtcdIsVoter", "False", "MemberIsLearner", since)
        ])
    };
    site.conditions(learner(5)).await;
    assert_eq!(site.live().0, [""; 0], "it catches up");
    site.conditions(learner(20)).await;
    let (codes, said) = site.live_and_reported();
    assert_eq!(codes, ["etcd-learner"], "{said:#}");

    // A node that does not boot its new image, and one that still boots.
    site.state("Waiting Reboot").await;
    site.hook("post-drain").await;
    let jobs = api(client, JOB, SYSTEM);
    let ended = |minutes: i64| {
        let condition = |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": ago(minutes)});
        json!({"startTime": ago(90), "completionTime": ago(minutes), "succeeded": 1,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]})
    };
    status(&jobs, "post-drain", ended(40)).await;
    let pending = json!({"metadata": {"annotations": {"harvesterhci.io/pendingOSImage": "Harvester v1.8.2"}}});
    patch(client, NODE, "", "n1", pending).await;
    let (codes, said) = site.live_and_reported();
    assert_eq!(codes, ["reboot-waits"], "{said:#}");
    assert_eq!(
        said["upgrade"][1],
        "Node n1: Waiting Reboot for 40 min (longer than 30 min), waits for its reboot into the new system image"
    );
    let booted = json!({"nodeInfo": {"osImage": "Harvester v1.8.2"}});
    status(&api(client, NODE, ""), "n1", booted).await;
    assert_eq!(site.live().0, [""; 0], "it runs the new image");

    harvester_down(&site).await;
    stale_engine(&site).await;
}

/// Harvester itself is down.
async fn harvester_down(site: &Site) {
    let client = &site.client;
    site.state("Pre-draining").await;
    let labels = json!({"app": "harvester"});
    let harvester = json!({"metadata": {"name": "harvester"}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}}});
    make(client, DEPLOYMENT, SYSTEM, harvester).await;
    let deployments = api(client, DEPLOYMENT, SYSTEM);
    let available = |state: &str, since| json!({"conditions": [condition("Available", state, "MinimumReplicasUnavailable", since)]});
    let without_heartbeat = |mut status: Value| {
        status["conditions"][0]
            .as_object_mut()
            .unwrap()
            .remove("lastHeartbeatTime");
        status
    };
    for (state, since, found) in [
        ("False", 10, true),
        ("False", 2, false),
        ("True", 10, false),
    ] {
        status(
            &deployments,
            "harvester",
            without_heartbeat(available(state, since)),
        )
        .await;
        let (codes, said) = site.live();
        assert_eq!(codes == ["upgrade-stalled"], found, "{said:#}");
    }
}

/// A stale engine on a node that is to be drained.
async fn stale_engine(site: &Site) {
    let client = &site.client;
    let cordon = |since| {
        json!({"spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable",
            "effect": "NoSchedule", "timeAdded": ago(since)}]}})
    };
    patch(client, NODE, "", "n1", cordon(30)).await;
    let manager = json!({"metadata": {"name": "im-1"}, "spec": {"nodeID": "n1", "type": "aio"}});
    make(client, INSTANCE_MANAGER, "longhorn-system", manager).await;
    let budget = json!({"metadata": {"name": "im-1"}, "spec": {"minAvailable": 1}});
    make(client, BUDGET, "longhorn-system", budget).await;
    assert_eq!(site.live().0, [""; 0], "no engine is listed");
    let listed = json!({"currentState": "running", "instanceEngines": {
        "pvc-1-e-0": {"spec": {"name": "pvc-1-e-0"}, "status": {"state": "running"}}}});
    let managers = api(client, INSTANCE_MANAGER, "longhorn-system");
    status(&managers, "im-1", listed).await;
    let (codes, said) = site.live_and_reported();
    assert_eq!(codes, ["engine-stale"], "{said:#}");
    patch(client, NODE, "", "n1", cordon(3)).await;
    assert_eq!(site.live().0, [""; 0], "it is only just cordoned");
    patch(client, NODE, "", "n1", cordon(30)).await;
    let engine =
        json!({"metadata": {"name": "pvc-1-e-0"}, "spec": {"nodeID": "n1", "volumeName": "pvc-1"}});
    make(client, ENGINE, "longhorn-system", engine).await;
    let runs = json!({"currentState": "running", "instanceManagerName": "im-1"});
    status(&api(client, ENGINE, "longhorn-system"), "pvc-1-e-0", runs).await;
    assert_eq!(site.live().0, [""; 0], "it is attached here");
}

#[tokio::test]
async fn what_an_upgrade_waits_for_is_recognised_from_saved_lists_once_it_takes_too_long() {
    let Some(site) = Site::start().await else {
        return;
    };
    let client = &site.client;
    // The Plan begins no Job, and a Machine of a node is not there.
    site.state("Images preloading").await;
    let plan = json!({"metadata": {"name": "up-prepare"}, "spec": {"upgrade": {"image": "none"},
        "nodeSelector": {"matchLabels": {"harvesterhci.io/managed": "true"}}}});
    make(client, PLAN, "cattle-system", plan).await;
    make(client, MACHINE, "fleet-local", machine("m1")).await;
    let running = json!({"phase": "Running", "nodeRef": {"name": "n1"}});
    status(&api(client, MACHINE, "fleet-local"), "m1", running).await;
    let of_n1 = json!({"metadata": {"annotations": {"cluster.x-k8s.io/machine": "m1"}}});
    patch(client, NODE, "", "n1", of_n1).await;
    assert_eq!(site.live().0, [""; 0], "all is new");
    let (codes, said) = site.saved(60).await;
    assert_eq!(codes, ["plan-stuck", "machine-missing"], "{said:#}");
    assert_eq!(said["findings"][1]["subject"], "Node n2");
    // system-upgrade-controller works, and the other node has its Machine.
    let job = json!({"metadata": {"name": "apply", "labels": {"upgrade.cattle.io/plan": "up-prepare",
        "upgrade.cattle.io/node": "n1"}}, "spec": job_spec()});
    make(client, JOB, "cattle-system", job).await;
    let resolved = json!({"latestHash": "abc", "applying": ["n1"],
        "conditions": [{"type": "LatestResolved", "status": "True", "lastUpdateTime": ago(0)}]});
    status(&api(client, PLAN, "cattle-system"), "up-prepare", resolved).await;
    make(client, MACHINE, "fleet-local", machine("m2")).await;
    let running = json!({"phase": "Running", "nodeRef": {"name": "n2"}});
    status(&api(client, MACHINE, "fleet-local"), "m2", running).await;
    let of_n2 = json!({"metadata": {"annotations": {"cluster.x-k8s.io/machine": "m2"}}});
    patch(client, NODE, "", "n2", of_n2).await;
    let (codes, said) = site.saved(60).await;
    assert_eq!(codes, [""; 0], "{said:#}");

    // A machine does not leave; then it moves.
    site.state("Pre-draining").await;
    site.hook("pre-drain").await;
    let machine = json!({"metadata": {"name": "db", "labels": {"kubevirt.io/nodeName": "n1"}},
        "spec": {"domain": {"devices": {}}}});
    make(client, VMI, "default", machine).await;
    let (codes, said) = site.saved(70).await;
    assert_eq!(codes, ["pre-drain-waits"], "{said:#}");
    assert_eq!(site.saved(50).await.0, [""; 0], "an hour is usual");
    make(
        client,
        VMI_MIGRATION,
        "default",
        json!({"metadata": {"name": "evac"}, "spec": {"vmiName": "db"}}),
    )
    .await;
    let moves = json!({"phase": "Running"});
    status(&api(client, VMI_MIGRATION, "default"), "evac", moves).await;
    assert_eq!(site.saved(70).await.0, [""; 0], "it is on its way");

    // The repository is down; then it is back.
    site.state("Post-draining").await;
    site.hook("post-drain").await;
    let labels = json!({"app": "repo"});
    let repository = json!({"metadata": {"name": "upgrade-repo-up"}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}}});
    make(client, DEPLOYMENT, SYSTEM, repository).await;
    let deployments = api(client, DEPLOYMENT, SYSTEM);
    let available = |state: &str| json!({"conditions": [{"type": "Available", "status": state, "lastTransitionTime": ago(20)}]});
    status(&deployments, "upgrade-repo-up", available("False")).await;
    let (codes, said) = site.saved(40).await;
    assert_eq!(codes, ["upgrade-repo-down"], "{said:#}");
    status(&deployments, "upgrade-repo-up", available("True")).await;
    assert_eq!(site.saved(40).await.0, [""; 0]);
}
