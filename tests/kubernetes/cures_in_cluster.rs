//! Level 4: `windrow repair` of a Plan that hangs and of an engine that is stale, beside healthy neighbours in the same
//! cluster. kube-apiserver, the Deployment, Job and disruption controllers and the scheduler are real;
//! system-upgrade-controller, Longhorn and the kubelets are played.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::path::Path;
use std::process::Stdio;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, eventually};
use support::objects::{
    BUDGET, DEPLOYMENT, ENGINE, Gvk, INSTANCE_MANAGER, JOB, NODE, ORPHAN, PLAN, POD, SETTING,
};
use support::objects::{
    api, field, harvester, make, namespace, node, patch, play_kubelets, start, status,
};

use crate::repair_in_cluster::{command, run};
use crate::support;

pub(crate) const CATTLE: &str = "cattle-system";
pub(crate) const LONGHORN: &str = "longhorn-system";

fn ago(minutes: i64) -> String {
    (Timestamp::now() - SignedDuration::from_mins(minutes)).to_string()
}

/// Runs a repair while `play` does what the controllers would do; its exit code, and what it said.
async fn repair_while(
    cluster: &Cluster,
    root: &Path,
    code: &str,
    mut play: impl AsyncFnMut(),
) -> (i32, String) {
    let mut repair = command(cluster, root, &["repair", code, "--yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the repair ends", DEADLINE, async || {
        play().await;
        repair.try_wait().unwrap().map(drop)
    })
    .await;
    let output = repair.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), said.into_owned())
}

async fn version(client: &Client, gvk: Gvk, namespace: &str, name: &str) -> Value {
    let version = "/metadata/resourceVersion";
    field(&api(client, gvk, namespace), name, version).await
}

/// A Deployment whose one pod runs, with this label.
pub(crate) async fn deployment(client: &Client, name: &str, label: (&str, &str)) {
    let labels = json!({label.0: label.1});
    let deployment = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}}});
    make(client, DEPLOYMENT, CATTLE, deployment).await;
    let deployments = api(client, DEPLOYMENT, CATTLE);
    eventually(&format!("{name} is available"), DEADLINE, async || {
        play_kubelets(client, CATTLE).await;
        let available = field(&deployments, name, "/status/availableReplicas").await;
        (available == 1).then_some(())
    })
    .await;
}

/// The one ready pod that has this label, and its UID.
pub(crate) async fn ready_pod(client: &Client, label: (&str, &str)) -> Option<(String, String)> {
    let labelled = ListParams::default().labels(&format!("{}={}", label.0, label.1));
    let pods = api(client, POD, CATTLE).list(&labelled).await.unwrap();
    let [pod] = &pods.items[..] else { return None };
    let is_ready = pod.data["status"]["phase"] == "Running";
    is_ready.then_some((pod.metadata.name.clone()?, pod.metadata.uid.clone()?))
}

pub(crate) const CONTROLLER: (&str, &str) =
    ("upgrade.cattle.io/controller", "system-upgrade-controller");
const NEIGHBOUR: (&str, &str) = ("app", "rancher");

/// A Plan for both nodes that resolved its version long ago.
pub(crate) async fn plan(client: &Client, name: &str, also: Value) {
    let plan = json!({"metadata": {"name": name}, "spec": {"concurrency": 1, "version": "v1",
        "nodeSelector": {"matchLabels": {"harvesterhci.io/managed": "true"}},
        "upgrade": {"image": "registry.suse.com/bci/bci-base"}}});
    make(client, PLAN, CATTLE, plan).await;
    let resolved = json!({"type": "LatestResolved", "status": "True", "lastUpdateTime": ago(20)});
    let mut plan = json!({"latestHash": "abc", "latestVersion": "v1", "conditions": [resolved]});
    for (field, value) in also.as_object().unwrap() {
        match field.as_str() {
            "condition" => plan["conditions"]
                .as_array_mut()
                .unwrap()
                .push(value.clone()),
            field => plan[field] = value.clone(),
        }
    }
    status(&api(client, PLAN, CATTLE), name, plan).await;
}

/// A Job of a Plan for a node, as system-upgrade-controller makes it.
async fn job(client: &Client, plan: &str, node: &str, parallelism: u32) {
    let job = json!({"metadata": {"name": format!("apply-{plan}-on-{node}"), "labels": {
            "upgrade.cattle.io/plan": plan, "upgrade.cattle.io/node": node}},
        "spec": {"parallelism": parallelism, "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "none"}]}}}});
    make(client, JOB, CATTLE, job).await;
}

/// The controller, once another pod than this one runs: it begins the node's Job, and lets it go.
pub(crate) async fn play_controller(client: &Client, before: &str) {
    let runs = ready_pod(client, CONTROLLER).await;
    if runs.is_none_or(|(_, uid)| uid == before) {
        return;
    }
    let (plans, jobs) = (api(client, PLAN, CATTLE), api(client, JOB, CATTLE));
    let name = "apply-hangs-on-n1";
    if jobs.get_opt(name).await.unwrap().is_none() {
        job(client, "hangs", "n1", 0).await;
        status(&plans, "hangs", json!({"applying": ["n1"]})).await;
    }
    if field(&jobs, name, "/spec/parallelism").await == 0 {
        let go = json!({"spec": {"parallelism": 1}});
        patch(client, JOB, CATTLE, name, go).await;
    }
}

#[tokio::test]
async fn a_plan_that_hangs_goes_on_once_its_controllers_pod_is_made_again() {
    let spec = Spec {
        arguments: vec!["--storage-media-type=application/json".to_owned()],
        ..Spec::with_controllers()
    };
    let Some((cluster, client)) = start(spec, &[(PLAN, "Namespaced")]).await else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    namespace(&client, CATTLE).await;
    for name in ["n1", "n2"] {
        let managed = json!({"harvesterhci.io/managed": "true"});
        node(&client, name, managed, json!([])).await;
    }
    deployment(&client, CONTROLLER.1, CONTROLLER).await;
    deployment(&client, "rancher", NEIGHBOUR).await;
    // One that begins no Job. Beside it one that is done, and one whose Job runs.
    plan(&client, "hangs", json!({})).await;
    let complete = json!({"type": "Complete", "status": "True"});
    plan(&client, "done", json!({"condition": complete})).await;
    plan(&client, "busy", json!({"applying": ["n2"]})).await;
    job(&client, "busy", "n2", 1).await;
    let repair = |how: &str| run(&cluster, root, &["repair", "plan-stuck", how]);
    let (code, said) = repair("--dry-run");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("Nothing to repair"), "all are young: {said}");
    for name in ["hangs", "done", "busy"] {
        let key = format!("upgrade.cattle.io/plans/{CATTLE}/{name}");
        cluster.make_older(&key, 20).await;
    }

    let healthy = async || {
        let plans = ["done", "busy"].map(|name| version(&client, PLAN, CATTLE, name));
        let [done, busy] = plans;
        (done.await, busy.await, ready_pod(&client, NEIGHBOUR).await)
    };
    let (neighbours, first) = (healthy().await, ready_pod(&client, CONTROLLER).await);
    let (name, uid) = first.clone().unwrap();
    let (code, said) = repair("--dry-run");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("Plan cattle-system/hangs"), "{said}");
    assert!(!said.contains("busy") && !said.contains("/done"), "{said}");
    let request = format!("DELETE /api/v1/namespaces/cattle-system/pods/{name}");
    assert!(said.contains(&request), "{said}");
    assert!(said.contains("1 request would be accepted"), "{said}");
    assert_eq!(ready_pod(&client, CONTROLLER).await, first);

    let (code, said) = repair_while(&cluster, root, "plan-stuck", async || {
        play_kubelets(&client, CATTLE).await;
        play_controller(&client, &uid).await;
    })
    .await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("Done, and verified"), "{said}");
    assert_eq!(healthy().await, neighbours);
    let (code, said) = run(&cluster, root, &["repair", "--undo", "--yes"]);
    assert_eq!(code, 4, "{said}");
    let why = format!("cannot be undone: delete Pod cattle-system/{name}: its Deployment makes");
    assert!(said.contains(&why), "{said}");

    // Another way to hang: the node's Job was made and not let go.
    let held = json!({"spec": {"parallelism": 0}});
    patch(&client, JOB, CATTLE, "apply-hangs-on-n1", held).await;
    let jobs = api(&client, JOB, CATTLE);
    eventually("nothing of the Job runs", DEADLINE, async || {
        play_kubelets(&client, CATTLE).await;
        let active = field(&jobs, "apply-hangs-on-n1", "/status/active").await;
        (active.is_null() || active == 0).then_some(())
    })
    .await;
    assert!(repair("--dry-run").1.contains("Nothing to repair"));
    let key = format!("jobs/{CATTLE}/apply-hangs-on-n1");
    cluster.make_older(&key, 20).await;
    let second = ready_pod(&client, CONTROLLER).await;
    let (_, uid) = second.clone().unwrap();
    let (code, said) = repair_while(&cluster, root, "plan-stuck", async || {
        play_kubelets(&client, CATTLE).await;
        play_controller(&client, &uid).await;
    })
    .await;
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("stays at parallelism 0") && said.contains("is let go"),
        "{said}"
    );
    assert_eq!(healthy().await, neighbours);
}

/// An instance manager on a node that was cordoned half an hour ago, with its pod and Longhorn's budget, and one engine that it
/// lists.
pub(crate) async fn instance_manager(client: &Client, name: &str, on: &str, engine: &str) {
    node(client, on, json!({}), json!([])).await;
    let cordoned = json!({"spec": {"unschedulable": true, "taints": [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": ago(30)}]}});
    patch(client, NODE, "", on, cordoned).await;
    let labels = json!({"longhorn.io/instance-manager": name});
    let pod = json!({"metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": on, "containers": [{"name": "c", "image": "none"}]}});
    make(client, POD, LONGHORN, pod).await;
    let budget = json!({"metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}});
    make(client, BUDGET, LONGHORN, budget).await;
    let manager = json!({"metadata": {"name": name},
        "spec": {"nodeID": on, "type": "aio", "dataEngine": "v1", "image": "longhornio/longhorn-instance-manager:v1.10.0"}});
    make(client, INSTANCE_MANAGER, LONGHORN, manager).await;
    let lists = json!({"currentState": "running", "instanceEngines": {engine: {
        "spec": {"name": engine, "dataEngine": "v1"}, "status": {"state": "running"}}}});
    status(&api(client, INSTANCE_MANAGER, LONGHORN), name, lists).await;
    let budgets = api(client, BUDGET, LONGHORN);
    eventually("the budget lets nothing go", DEADLINE, async || {
        play_kubelets(client, LONGHORN).await;
        let healthy = field(&budgets, name, "/status/currentHealthy").await;
        let allowed = field(&budgets, name, "/status/disruptionsAllowed").await;
        (healthy == 1 && allowed == 0).then_some(())
    })
    .await;
}

/// Longhorn's record of something that nothing uses.
pub(crate) async fn orphan(client: &Client, name: &str, kind: &str, on: &str, of: &str) {
    let parameters = match kind {
        "engine-instance" => {
            json!({"InstanceName": of, "InstanceManager": "im-1", "InstanceUUID": "u"})
        }
        _ => json!({"DataName": of, "DiskName": "d"}),
    };
    let orphan = json!({"metadata": {"name": name, "finalizers": ["longhorn.io"]},
        "spec": {"nodeID": on, "orphanType": kind, "dataEngine": "v1", "parameters": parameters}});
    make(client, ORPHAN, LONGHORN, orphan).await;
}

/// Longhorn: the process of an orphan that is deleted ends, and an instance manager without engines needs no budget.
pub(crate) async fn play_longhorn(client: &Client) {
    let (orphans, managers) = (
        api(client, ORPHAN, LONGHORN),
        api(client, INSTANCE_MANAGER, LONGHORN),
    );
    let all = orphans.list(&ListParams::default()).await.unwrap();
    for orphan in all.items {
        let parameters = &orphan.data["spec"]["parameters"];
        let engine = parameters["InstanceName"].as_str();
        let (Some(_), Some(engine)) = (&orphan.metadata.deletion_timestamp, engine) else {
            continue;
        };
        let manager = parameters["InstanceManager"].as_str().unwrap();
        status(
            &managers,
            manager,
            json!({"instanceEngines": {engine: null}}),
        )
        .await;
        let left = field(&managers, manager, "/status/instanceEngines").await;
        if left.as_object().is_none_or(|left| left.is_empty()) {
            let budgets = api(client, BUDGET, LONGHORN);
            // It may be gone already.
            let _ = budgets.delete(manager, &DeleteParams::default()).await;
        }
        let ended = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let name = orphan.metadata.name.unwrap();
        let merge = PatchParams::default();
        orphans.patch(&name, &merge, &ended).await.unwrap();
    }
}

#[tokio::test]
async fn a_stale_engines_process_is_ended_by_its_orphan_and_what_is_live_is_left_alone() {
    let spec = Spec::with_controllers();
    let mut kinds = vec![(SETTING, "Cluster")];
    kinds.extend([INSTANCE_MANAGER, ENGINE, ORPHAN].map(|kind| (kind, "Namespaced")));
    let Some((cluster, client)) = start(spec, &kinds).await else {
        return;
    };
    harvester(&client, "v1.8.1").await;
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    namespace(&client, LONGHORN).await;
    instance_manager(&client, "im-1", "n1", "pvc-1-e-0").await;
    // The neighbour's engine is attached there.
    instance_manager(&client, "im-2", "n2", "pvc-2-e-0").await;
    let engine =
        json!({"metadata": {"name": "pvc-2-e-0"}, "spec": {"nodeID": "n2", "volumeName": "pvc-2"}});
    make(&client, ENGINE, LONGHORN, engine).await;
    let runs = json!({"currentState": "running", "instanceManagerName": "im-2"});
    status(&api(&client, ENGINE, LONGHORN), "pvc-2-e-0", runs).await;
    // What is orphaned on these nodes and has nothing to do with it: data of a replica, and another engine.
    orphan(&client, "data", "replica-data", "n1", "pvc-1").await;
    orphan(&client, "other", "engine-instance", "n2", "pvc-1-e-0").await;

    // Longhorn before 1.9 has no record of the engine: nothing is offered, and nothing done.
    let (code, said) = run(&cluster, root, &["repair", "engine-stale", "--yes"]);
    assert_eq!(code, 4, "{said}");
    assert!(
        said.contains("InstanceManager longhorn-system/im-1"),
        "{said}"
    );
    assert!(said.contains("Windrow has no fix for it"), "{said}");
    assert!(!said.contains("im-2"), "{said}");

    orphan(&client, "mine", "engine-instance", "n1", "pvc-1-e-0").await;
    let neighbours = async || {
        let orphan = |name| version(&client, ORPHAN, LONGHORN, name);
        let manager = version(&client, INSTANCE_MANAGER, LONGHORN, "im-2").await;
        let engine = version(&client, ENGINE, LONGHORN, "pvc-2-e-0").await;
        [orphan("data").await, orphan("other").await, manager, engine]
    };
    let (before, mine) = (
        neighbours().await,
        version(&client, ORPHAN, LONGHORN, "mine").await,
    );
    let (code, said) = run(&cluster, root, &["repair", "engine-stale", "--dry-run"]);
    assert_eq!(code, 0, "{said}");
    let request = "DELETE /apis/longhorn.io/v1beta2/namespaces/longhorn-system/orphans/mine";
    assert!(said.contains(request), "{said}");
    assert!(said.contains("1 request would be accepted"), "{said}");
    assert_eq!(version(&client, ORPHAN, LONGHORN, "mine").await, mine);
    assert!(!root.join("var/lib/rancher/windrow/repairs").exists());

    let (code, said) = repair_while(&cluster, root, "engine-stale", async || {
        play_longhorn(&client).await;
        play_kubelets(&client, LONGHORN).await;
    })
    .await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("Done, and verified"), "{said}");
    assert_eq!(neighbours().await, before);
    let budgets = api(&client, BUDGET, LONGHORN);
    assert!(budgets.get_opt("im-2").await.unwrap().is_some());
    let (code, said) = run(&cluster, root, &["repair", "--undo", "--yes"]);
    assert_eq!(code, 4, "{said}");
    let why = "cannot be undone: delete Orphan longhorn-system/mine: the process is ended";
    assert!(said.contains(why), "{said}");
}
