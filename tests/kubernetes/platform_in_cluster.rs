//! Level 4: what goes wrong with the platform's own parts, recognised in a real cluster, live and from a report, and its healthy and
//! slow neighbours. The scheduler and the Deployment controller are real; Fleet, Harvester and the kubelets are played.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use support::objects::{
    ADDON, BUNDLE_DEPLOYMENT, DEPLOYMENT, FEATURE, MANAGED_CHART, NODE, NODE_DRIVER, PLAN, POD,
    RANCHER_CLUSTER, UPGRADE,
};
use support::objects::{api, field, make, namespace, node, patch, play_kubelets, start, status};
use windrow::observe::objects::{Room, diagnosed, look_in_rounds, on_this_thread};
use windrow_harvester::incidents::{Diagnosis, look, summed_up};
use windrow_harvester::objects::{ObjectKind, Objects};

use crate::support;

const FLEETS: &str = "cluster-fleet-local-local-1a3d67d0a899";

fn codes(found: &Diagnosis) -> Vec<String> {
    assert_eq!(found.unknown, [""; 0]);
    let findings = found.findings.iter();
    findings.map(|one| one.code.to_string()).collect()
}

/// As a person asks.
async fn by_person(client: &Client, at: Timestamp) -> Diagnosis {
    diagnosed(client, at).await
}

/// As the daemon asks: for what it has a reason to. And whether it has asked for all pods.
async fn by_daemon(client: &Client, at: Timestamp) -> (Diagnosis, bool) {
    let (objects, mut room) = (Objects::to_be_asked(), Room::of_the_daemon());
    let judge = on_this_thread(|objects| look(objects, at));
    let (objects, looked) = look_in_rounds(client, objects, &mut room, judge).await;
    (summed_up(looked, at), objects.all(ObjectKind::POD).is_ok())
}

#[tokio::test]
async fn what_is_wrong_with_the_platform_is_told_once_it_lasts() {
    let kinds = [
        (ADDON, "Namespaced"),
        (UPGRADE, "Namespaced"),
        (PLAN, "Namespaced"),
        (FEATURE, "Cluster"),
        (NODE_DRIVER, "Cluster"),
        (MANAGED_CHART, "Namespaced"),
        (BUNDLE_DEPLOYMENT, "Namespaced"),
        (RANCHER_CLUSTER, "Namespaced"),
    ];
    let Some((cluster, client)) = start(Spec::with_controllers(), &kinds).await else {
        return;
    };
    for name in ["cattle-system", "fleet-local", "fleet-default", FLEETS] {
        namespace(&client, name).await;
    }
    node(&client, "n1", json!({}), json!([])).await;
    versions(&client, "n1", "v1.34.3+rke2r3", "Harvester v1.7.1").await;
    let (found, all_pods) = by_daemon(&client, Timestamp::now()).await;
    assert_eq!(codes(&found), [""; 0]);
    assert!(
        !all_pods,
        "a healthy cluster gives no reason to list all pods"
    );

    pending(&client).await;
    images(&client).await;
    charts(&cluster, &client).await;
    driver(&client).await;
    mixed(&client).await;
}

/// As of now, and two hours later: nothing of what is looked for is written by a clock that a test can turn.
async fn slow_then(client: &Client, code: &str) -> Diagnosis {
    let now = Timestamp::now();
    assert_eq!(
        codes(&by_person(client, now).await),
        [""; 0],
        "{code} is young"
    );
    let later = now + SignedDuration::from_hours(2);
    let found = by_person(client, later).await;
    assert_eq!(codes(&found), [code]);
    assert_eq!(codes(&by_daemon(client, later).await.0), [code]);
    found
}

async fn versions(client: &Client, name: &str, kubelet: &str, system: &str) {
    let info = json!({"nodeInfo": {"kubeletVersion": kubelet, "osImage": system}});
    status(&api(client, NODE, ""), name, info).await;
}

/// Two replicas that must not share the one node.
async fn pending(client: &Client) {
    let labels = json!({"app": "rancher"});
    let deployment = json!({"metadata": {"name": "rancher"}, "spec": {"replicas": 2,
        "strategy": {"rollingUpdate": {"maxUnavailable": 1}}, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                    "labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}]}},
                "containers": [{"name": "c", "image": "none"}]}}}});
    make(client, DEPLOYMENT, "cattle-system", deployment).await;
    let (deployments, pods) = (
        api(client, DEPLOYMENT, "cattle-system"),
        api(client, POD, "cattle-system"),
    );
    eventually("one runs and one waits", DEADLINE, async || {
        play_kubelets(client, "cattle-system").await;
        let all = pods.list(&Default::default()).await.unwrap().items;
        let waits = all
            .iter()
            .any(|pod| pod.data["status"].to_string().contains("Unschedulable"));
        let available = field(&deployments, "rancher", "/status/availableReplicas").await;
        (waits && available == 1).then_some(())
    })
    .await;
    let found = slow_then(client, "platform-pod-pending").await;
    let finding = serde_json::to_value(&found.findings[0]).unwrap();
    assert_eq!(finding["subject"], "Deployment cattle-system/rancher");
    assert_eq!(finding["severity"], "info", "it is available: {finding:#}");
    let proof = finding["proof"].to_string();
    assert!(
        proof.contains("n1 does not take it: anti-affinity"),
        "{proof}"
    );
    let seen = finding["evidence"].to_string();
    assert!(
        seen.contains("0/1 nodes are available"),
        "the scheduler's own words: {seen}"
    );

    // A node that is only cordoned would take it.
    node(client, "n2", json!({}), json!([])).await;
    versions(client, "n2", "v1.34.3+rke2r3", "Harvester v1.7.1").await;
    patch(
        client,
        NODE,
        "",
        "n2",
        json!({"spec": {"unschedulable": true}}),
    )
    .await;
    let later = Timestamp::now() + SignedDuration::from_hours(2);
    assert_eq!(codes(&by_person(client, later).await), [""; 0]);
    deployments
        .delete("rancher", &Default::default())
        .await
        .unwrap();
    eventually("its pods are gone", DEADLINE, async || {
        play_kubelets(client, "cattle-system").await;
        pods.list(&Default::default())
            .await
            .unwrap()
            .items
            .is_empty()
            .then_some(())
    })
    .await;
}

/// A kubelet that cannot have an image.
async fn images(client: &Client) {
    let image = "rancher/rancher-webhook:v0.9.1";
    let pod = json!({"metadata": {"name": "rancher-webhook-1"}, "spec": {"nodeName": "n1",
        "containers": [{"name": "webhook", "image": image, "imagePullPolicy": "IfNotPresent"}]}});
    make(client, POD, "cattle-system", pod).await;
    let waits = json!({"phase": "Pending", "startTime": Timestamp::now().to_string(), "containerStatuses": [{
        "name": "webhook", "image": image, "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}}]});
    let pods = api(client, POD, "cattle-system");
    status(&pods, "rancher-webhook-1", waits).await;
    let has = json!({"images": [{"names": [format!("docker.io/{image}")], "sizeBytes": 7}]});
    status(&api(client, NODE, ""), "n2", has).await;
    let found = slow_then(client, "platform-image-missing").await;
    let seen = serde_json::to_string(&found.findings[0].evidence).unwrap();
    assert!(seen.contains("ImagePullBackOff on n1"), "{seen}");
    assert!(seen.contains("Node n2"), "who has the image: {seen}");
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete("rancher-webhook-1", &at_once).await.unwrap();
}

/// A chart that somebody changed; live, and from a report.
async fn charts(cluster: &Cluster, client: &Client) {
    let chart = json!({"metadata": {"name": "harvester"}, "spec": {"paused": false}});
    make(client, MANAGED_CHART, "fleet-local", chart).await;
    let deployment = json!({"metadata": {"name": "mcc-harvester", "labels": {
        "fleet.cattle.io/bundle-name": "mcc-harvester", "fleet.cattle.io/bundle-namespace": "fleet-local"}},
        "spec": {"deploymentID": "s-1"}});
    make(client, BUNDLE_DEPLOYMENT, FLEETS, deployment).await;
    let modified = |kind: &str, name: &str| {
        json!({"kind": kind, "apiVersion": "v1", "namespace": "harvester-system", "name": name,
            "patch": "{\"data\":{\"tls.key\":\"Pl4ntedInAPatch\"}}"})
    };
    let installed = json!({"appliedDeploymentID": "s-1", "modifiedStatus": [
        modified("Secret", "webhook-tls"), {"kind": "Deployment", "apiVersion": "apps/v1", "namespace": "longhorn-system",
            "name": "longhorn-ui", "patch": "{\"spec\":{\"replicas\":2}}"}]});
    status(
        &api(client, BUNDLE_DEPLOYMENT, FLEETS),
        "mcc-harvester",
        installed,
    )
    .await;
    let unready = |since: Timestamp| {
        json!({"display": {"state": "Modified"}, "conditions": [{"type": "Ready", "status": "False",
            "lastUpdateTime": since.to_string(),
            "message": "Modified(1) [Cluster fleet-local/local]; secret.v1 a/b modified {\"data\":{\"x\":\"Pl4ntedInAPatch\"}}"}]})
    };
    let managed = api(client, MANAGED_CHART, "fleet-local");
    status(&managed, "harvester", unready(Timestamp::now())).await;
    let found = slow_then(client, "chart-modified").await;
    let said = serde_json::to_string(&found).unwrap();
    assert!(
        said.contains("Deployment longhorn-system/longhorn-ui"),
        "{said}"
    );
    assert!(!said.contains("Pl4nted"), "{said}");

    let long_ago = Timestamp::now() - SignedDuration::from_hours(1);
    status(&managed, "harvester", unready(long_ago)).await;
    let (code, said) = from_report(cluster);
    assert_eq!(code, 0, "a warning: {said}");
    assert!(said.contains("chart-modified"), "{said}");
    assert!(said.contains("Looked for"), "{said}");
    assert!(!said.contains("Pl4nted"), "{said}");
    let paused = json!({"spec": {"paused": true}});
    patch(client, MANAGED_CHART, "fleet-local", "harvester", paused).await;
    assert_eq!(
        codes(&by_person(client, Timestamp::now()).await),
        ["chart-paused"]
    );
    let goes_on = json!({"spec": {"paused": false}});
    patch(client, MANAGED_CHART, "fleet-local", "harvester", goes_on).await;
    let ready = json!({"conditions": [{"type": "Ready", "status": "True", "lastUpdateTime": Timestamp::now().to_string()}]});
    status(&managed, "harvester", ready).await;
}

/// What `windrow diagnose` says of the report of a server.
fn from_report(cluster: &Cluster) -> (i32, String) {
    let root = tempfile::tempdir().unwrap();
    let kubeconfig = cluster.kubeconfig(Who::Admin);
    let archive = root.path().join("report.tar.gz");
    let windrow = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command
            .arg("--root")
            .arg(root.path())
            .args(arguments)
            .arg(&archive);
        command.output().unwrap()
    };
    let output = windrow(&[
        "report",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--output-file",
    ]);
    assert!(output.status.success(), "{output:?}");
    let output = windrow(&["diagnose", "--from"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap(), said)
}

/// A node driver that is off while a cluster uses it.
async fn driver(client: &Client) {
    let object = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    make(
        client,
        FEATURE,
        "",
        object("harvester", json!({"value": true})),
    )
    .await;
    make(
        client,
        NODE_DRIVER,
        "",
        object("harvester", json!({"active": true})),
    )
    .await;
    let pools = json!({"rkeConfig": {"machinePools": [
        {"name": "workers", "machineConfigRef": {"kind": "HarvesterConfig", "name": "nc-1"}}]}});
    make(
        client,
        RANCHER_CLUSTER,
        "fleet-default",
        object("guests", pools),
    )
    .await;
    let now = Timestamp::now();
    assert_eq!(codes(&by_person(client, now).await), [""; 0]);
    let active = |active: bool| json!({"spec": {"active": active}});
    patch(client, NODE_DRIVER, "", "harvester", active(false)).await;
    assert_eq!(codes(&by_daemon(client, now).await.0), ["driver-in-use"]);
    patch(client, NODE_DRIVER, "", "harvester", active(true)).await;
}

/// A node that an upgrade has left behind.
async fn mixed(client: &Client) {
    versions(client, "n2", "v1.33.5+rke2r1", "Harvester v1.6.1").await;
    let found = slow_then(client, "mixed-versions").await;
    let seen = serde_json::to_string(&found.findings[0].evidence).unwrap();
    assert!(seen.contains("v1.33.5+rke2r1, Harvester v1.6.1"), "{seen}");
    let upgrade = json!({"metadata": {"name": "up", "labels": {
        "harvesterhci.io/latestUpgrade": "true", "harvesterhci.io/upgradeState": "UpgradingNodes"}}, "spec": {}});
    namespace(client, "harvester-system").await;
    make(client, UPGRADE, "harvester-system", upgrade).await;
    let later = Timestamp::now() + SignedDuration::from_hours(2);
    assert_eq!(codes(&by_person(client, later).await), [""; 0]);
}
