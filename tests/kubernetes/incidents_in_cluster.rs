//! Level 4: each known incident is recognised in a real cluster, and its healthy and its merely slow neighbour are not.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use support::objects::{
    ADDON, BUDGET, CHART, DEPLOYMENT, EVENT, FEATURE, JOB, KUBEVIRT, NODE, NODE_DRIVER, POD,
    SETTING, UPGRADE, VM, VOLUME,
};
use support::objects::{
    api, counted, field, guarded, harvester, make, namespace, node, patch, pinned, play_kubelets,
    start, status,
};

use crate::support;

/// The answer of `windrow diagnose` about a cluster: its exit code, the codes that it found, and its output.
fn diagnose(cluster: &Cluster, root: &Path) -> (i32, Vec<String>, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .args(["diagnose", "-o", "json", "--kubeconfig"])
        .arg(cluster.kubeconfig(Who::Admin))
        .output()
        .unwrap();
    let mut said: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    // Nothing runs here, which is a symptom. These tests are about known incidents.
    let findings = said["findings"].as_array_mut().unwrap();
    findings.retain(|finding| finding["unexplained"] != true);
    assert_eq!(said["unknown"], json!([]), "{said:#}");
    let findings = said["findings"].as_array().unwrap().iter();
    let codes = findings.map(|one| one["code"].as_str().unwrap().to_owned());
    let codes = codes.collect();
    (output.status.code().unwrap(), codes, said)
}

/// The codes alone.
fn codes(cluster: &Cluster, root: &Path) -> Vec<String> {
    diagnose(cluster, root).1
}

/// The scheduler, the Job controller, the disruption controller and the deploy controller are real; Rancher,
/// Harvester, virt-operator and the kubelets are played.
#[tokio::test]
async fn each_incident_is_recognised_and_its_healthy_and_slow_neighbours_are_not() {
    let kinds = [
        (ADDON, "Namespaced"),
        (CHART, "Namespaced"),
        (SETTING, "Cluster"),
        (UPGRADE, "Namespaced"),
        (KUBEVIRT, "Namespaced"),
        (VM, "Namespaced"),
        (VOLUME, "Namespaced"),
        (FEATURE, "Cluster"),
        (NODE_DRIVER, "Cluster"),
    ];
    let Some((cluster, client)) = start(Spec::with_controllers(), &kinds).await else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    namespace(&client, "harvester-system").await;
    namespace(&client, "longhorn-system").await;
    harvester(&client, "v1.8.1").await;
    // RKE2 with a file that fails from the first pass on.
    let manifests = tempfile::tempdir().unwrap();
    let config_map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good, namespace: default}\n";
    fs::write(manifests.path().join("good.yaml"), config_map).unwrap();
    let unknown = "apiVersion: example.io/v1\nkind: Unknown\nmetadata: {name: bad}\n";
    fs::write(manifests.path().join("bad.yaml"), unknown).unwrap();
    let Some(rke2) = cluster.deploy(manifests.path()) else {
        return;
    };
    assert_eq!(codes(&cluster, root.path()), [""; 0]);

    pre_drained(&cluster, &client, root.path()).await;
    rancher(&cluster, &client, root.path()).await;
    storage(&cluster, &client, root.path()).await;
    chart(&cluster, &client, root.path()).await;

    // Two passes are just a slow start. So RKE2's own events are then changed to what they would be after some minutes.
    rke2.passed(2).await;
    assert_eq!(codes(&cluster, root.path()), [""; 0]);
    let events = api(&client, EVENT, "kube-system");
    let counted = eventually("the deploy controller has told", DEADLINE, async || {
        let all = events.list(&Default::default()).await.unwrap().items;
        let told = |name: &str, reason: &str| {
            all.iter().find(|event| {
                event.data["involvedObject"]["name"] == name && event.data["reason"] == reason
            })
        };
        let pair = told("good", "AppliedManifest").zip(told("bad", "ApplyManifestFailed"))?;
        Some([pair.0, pair.1].map(|event| event.metadata.name.clone().unwrap()))
    })
    .await;
    // Its later counts would overwrite what is written now.
    drop(rke2);
    for name in &counted {
        let later = json!({"count": 12, "lastTimestamp": Timestamp::now().to_string()});
        patch(&client, EVENT, "kube-system", name, later).await;
    }
    let (code, found, said) = diagnose(&cluster, root.path());
    assert_eq!(
        (code, found),
        (0, vec!["apply-storm".to_owned()]),
        "{said:#}"
    );
    let seen = said["findings"][0]["evidence"].to_string();
    assert!(seen.contains("Addon kube-system/bad"), "{seen}");
    assert!(seen.contains("Addon kube-system/good"), "{seen}");
}

/// Two nodes, the one server among them cordoned, and KubeVirt's pods pinned to it. The first of them is evicted.
pub(crate) async fn stuck_drain(client: &Client) {
    let server = json!({"node-role.kubernetes.io/control-plane": "true"});
    node(client, "n1", server, json!([])).await;
    let system = "harvester-system";
    guarded(client, system, "virt-api", "kubevirt.io", 2, pinned()).await;
    let kubevirt = json!({"metadata": {"name": "kubevirt"}, "spec": {"infra": {"nodePlacement": {
        "nodeSelector": {"node-role.kubernetes.io/control-plane": "true"}}}}});
    make(client, KUBEVIRT, system, kubevirt).await;
    let upgrade = json!({"metadata": {"name": "up", "labels": {"harvesterhci.io/latestUpgrade": "true"}}, "spec": {}});
    make(client, UPGRADE, system, upgrade).await;
    let budgets = api(client, BUDGET, system);
    counted(client, system, "virt-api", 2).await;
    node(client, "n2", json!({}), json!([])).await;
    // As Rancher drains: cordoned, and the first pod goes. What replaces it finds no node.
    patch(
        client,
        NODE,
        "",
        "n1",
        json!({"spec": {"unschedulable": true}}),
    )
    .await;
    let pods = api(client, POD, system);
    let first = pods.list(&Default::default()).await.unwrap().items;
    let first = first[0].metadata.name.clone().unwrap();
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete(&first, &at_once).await.unwrap();
    eventually("the budget allows nothing more", DEADLINE, async || {
        let allowed = field(&budgets, "virt-api-pdb", "/status/disruptionsAllowed").await;
        (allowed == 0).then_some(())
    })
    .await;
}

/// C: KubeVirt's pods are pinned to the one server, and its drain can never finish.
async fn pre_drained(cluster: &Cluster, client: &Client, root: &Path) {
    let system = "harvester-system";
    stuck_drain(client).await;
    let upgrades = api(client, UPGRADE, system);
    let state = |state: &str| json!({"nodeStatuses": {"n1": {"state": state}}});
    // The node is not yet drained: no finding.
    status(&upgrades, "up", state("Pre-draining")).await;
    assert_eq!(codes(cluster, root), [""; 0]);
    status(&upgrades, "up", state("Pre-drained")).await;
    let (code, found, said) = diagnose(cluster, root);
    assert_eq!(
        (code, found),
        (4, vec!["drain-blocked".to_owned()]),
        "{said:#}"
    );
    let proof = said["findings"][0]["proof"].to_string();
    assert!(proof.contains("harvester-system/virt-api-"), "{proof}");
    assert!(proof.contains("n2"), "the other node is named: {proof}");

    let repair = Command::new(env!("CARGO_BIN_EXE_windrow"))
        .arg("--root")
        .arg(root)
        .args(["repair", "drain-blocked", "--yes", "--kubeconfig"])
        .arg(cluster.kubeconfig(Who::Admin))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let kubevirts = api(client, KUBEVIRT, system);
    let mut repair = Some(repair);
    let mut rolled_out = false;
    let output = eventually("the repair ends", DEADLINE, async || {
        // virt-operator: rolls out again what may run anywhere, until one of its pods has left the server.
        let placement = field(&kubevirts, "kubevirt", "/spec/infra/nodePlacement").await;
        if placement == json!({}) && !rolled_out {
            let anywhere = json!({"spec": {"template": {"spec": {"affinity": null}}}});
            patch(client, DEPLOYMENT, system, "virt-api", anywhere).await;
            rolled_out = true;
        }
        play_kubelets(client, system).await;
        repair.as_mut()?.try_wait().unwrap()?;
        repair.take().map(|ended| ended.wait_with_output().unwrap())
    })
    .await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Done, and verified"), "{said}");
    assert!(rolled_out);
    assert_eq!(codes(cluster, root), [""; 0]);
}

/// D: the feature is off, and its driver is not.
async fn rancher(cluster: &Cluster, client: &Client, root: &Path) {
    let feature = json!({"metadata": {"name": "harvester"}, "spec": {"value": true}});
    make(client, FEATURE, "", feature).await;
    let baremetal =
        json!({"metadata": {"name": "harvester-baremetal-container-workload"}, "spec": {}});
    make(client, FEATURE, "", baremetal).await;
    let url = "https://releases.rancher.com/harvester-node-driver";
    let driver = json!({"metadata": {"name": "harvester"}, "spec": {"active": true, "url": url}});
    make(client, NODE_DRIVER, "", driver).await;
    assert_eq!(codes(cluster, root), [""; 0], "on, with its driver");
    patch(
        client,
        FEATURE,
        "",
        "harvester",
        json!({"spec": {"value": false}}),
    )
    .await;
    let drivers = api(client, NODE_DRIVER, "");
    let retries = json!({"conditions": [{"type": "Downloaded", "status": "False",
        "message": "dial tcp: lookup releases.rancher.com: no such host"}]});
    status(&drivers, "harvester", retries).await;
    let (code, found, said) = diagnose(cluster, root);
    assert_eq!(
        (code, found),
        (0, vec!["driver-without-feature".to_owned()]),
        "{said:#}"
    );
    assert!(said.to_string().contains("no such host"), "{said:#}");
    patch(
        client,
        NODE_DRIVER,
        "",
        "harvester",
        json!({"spec": {"active": false}}),
    )
    .await;
    assert_eq!(codes(cluster, root), [""; 0], "its driver follows");
}

/// The storage network waits for a volume.
async fn storage(cluster: &Cluster, client: &Client, root: &Path) {
    let setting = json!({"metadata": {"name": "storage-network"}, "value": "{}"});
    make(client, SETTING, "", setting).await;
    make(
        client,
        VOLUME,
        "longhorn-system",
        json!({"metadata": {"name": "pvc-1"}}),
    )
    .await;
    let settings = api(client, SETTING, "");
    let volumes = api(client, VOLUME, "longhorn-system");
    status(
        &volumes,
        "pvc-1",
        json!({"state": "attached", "currentNodeID": "n1"}),
    )
    .await;
    let waits = |since: Timestamp| {
        json!({"conditions": [{"type": "configured", "status": "False", "reason": "In Progress",
            "message": "waiting for all volumes detached: pvc-1", "lastUpdateTime": since.to_string()}]})
    };
    status(&settings, "storage-network", waits(Timestamp::now())).await;
    assert_eq!(codes(cluster, root), [""; 0], "it has only just begun");
    let long_ago = Timestamp::now() - SignedDuration::from_mins(30);
    status(&settings, "storage-network", waits(long_ago)).await;
    assert_eq!(codes(cluster, root), ["storage-network-waits"]);
    status(&volumes, "pvc-1", json!({"state": "detached"})).await;
    assert_eq!(codes(cluster, root), [""; 0]);
}

/// A chart whose Job fails again and again; the Job controller counts.
async fn chart(cluster: &Cluster, client: &Client, root: &Path) {
    make(
        client,
        CHART,
        "default",
        json!({"metadata": {"name": "db"}}),
    )
    .await;
    let charts = api(client, CHART, "default");
    status(&charts, "db", json!({"jobName": "helm-install-db"})).await;
    let job = json!({"metadata": {"name": "helm-install-db"}, "spec": {
        "backoffLimit": 1000, "parallelism": 6, "completions": 6, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "helm", "image": "klipper-helm"}]}}}});
    make(client, JOB, "default", job).await;
    let (jobs, pods) = (api(client, JOB, "default"), api(client, POD, "default"));
    let fail = async |most: usize| {
        let all = pods.list(&Default::default()).await.unwrap().items;
        let running = all
            .iter()
            .filter(|pod| pod.data["status"]["phase"] != "Failed");
        for pod in running.take(most) {
            let name = pod.metadata.name.as_deref().unwrap();
            let failed = json!({"status": {"phase": "Failed"}});
            let merge = PatchParams::default();
            let _ = pods
                .patch_status(name, &merge, &Patch::Merge(&failed))
                .await;
        }
    };
    let counted = async |least: u64| {
        eventually("the Job controller has counted", DEADLINE, async || {
            let failed = field(&jobs, "helm-install-db", "/status/failed").await;
            (failed.as_u64().unwrap_or_default() >= least).then_some(())
        })
        .await;
    };
    eventually("the Job has its pods", DEADLINE, async || {
        let all = pods.list(&Default::default()).await.unwrap().items;
        (all.len() >= 6).then_some(())
    })
    .await;
    fail(2).await;
    counted(2).await;
    assert_eq!(
        codes(cluster, root),
        [""; 0],
        "one that is tried again is on its way"
    );
    fail(6).await;
    counted(5).await;
    let (code, found, said) = diagnose(cluster, root);
    assert_eq!(
        (code, found),
        (0, vec!["chart-retries".to_owned()]),
        "{said:#}"
    );
    jobs.delete("helm-install-db", &Default::default())
        .await
        .unwrap();
    charts.delete("db", &Default::default()).await.unwrap();
}
