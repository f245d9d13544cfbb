//! The cures that change something for good: each has one request that counts.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::cell::RefCell;
use std::ops::Range;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject};
use serde_json::json;
use support::cluster::{Cluster, DEADLINE, Spec, Who, eventually};
use support::objects::{
    ADDON, BUDGET, BUNDLE, BUNDLE_DEPLOYMENT, CHART, CLUSTER_REPO, DEPLOYMENT, ENGINE, Gvk,
    INSTANCE_MANAGER, JOB, KUBEVIRT, MANAGED_CHART, NODE, NODE_DRIVER, ORPHAN, PLAN, POD, SETTING,
    UPGRADE,
};
use support::objects::{
    api, create, field, harvester, namespace, node, patch, play_kubelets, serve_published, server,
    start, status,
};

use super::{Incident, Site};
use crate::cures_in_cluster::{
    CATTLE, CONTROLLER, LONGHORN, deployment, instance_manager, orphan, plan, play_controller,
    play_longhorn, ready_pod,
};
use crate::drain_cure_in_cluster::{
    FLEET, INFRA, SYSTEM, managed_chart, pinned, play_rancher_and_fleet,
};
use crate::incidents_in_cluster::stuck_drain;
use crate::repair_webhook_in_cluster::furnish_rancher;
use crate::support;

async fn remove(client: &Client, kind: Gvk, namespace: &str, name: &str) {
    let objects = api(client, kind, namespace);
    let at_once = DeleteParams::default().grace_period(0);
    let _ = objects.delete(name, &at_once).await;
    let gone = async || objects.get_opt(name).await.unwrap().is_none().then_some(());
    eventually(&format!("{name} is gone"), DEADLINE, gone).await;
}

/// Plays cases of these kinds of an incident in a cluster.
async fn play<I: Incident>(cluster: &Cluster, incident: I, kinds: Range<usize>) -> Vec<String> {
    Site::new(cluster, incident).await.play_cases(kinds).await
}

/// Rancher's feature is off, and its driver is on.
struct Driver {
    client: Client,
    drivers: Api<DynamicObject>,
}

impl Incident for Driver {
    const CODE: &'static str = "driver-without-feature";

    async fn rebuild(&self) {
        let on = json!({"metadata": {"labels": null}, "spec": {"active": true}});
        patch(&self.client, NODE_DRIVER, "", "harvester", on).await;
    }

    async fn play(&self) {}

    fn labelled(&self) -> (Gvk, &str, &str) {
        (NODE_DRIVER, "", "harvester")
    }

    async fn fault(&self) -> Option<String> {
        None
    }

    async fn is_cured(&self) -> bool {
        field(&self.drivers, "harvester", "/spec/active").await == false
    }
}

/// An Addon failed, and its operation counts as in progress.
struct Addon {
    client: Client,
    addons: Api<DynamicObject>,
}

const IN_PROGRESS: &str = "/status/conditions/0/status";

impl Incident for Addon {
    const CODE: &'static str = "addon-stuck";

    async fn rebuild(&self) {
        remove(&self.client, ADDON, "default", "pci").await;
        let addon = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon", "metadata": {"name": "pci"},
            "spec": {"enabled": true, "chart": "pci", "repo": "http://charts.example.com", "version": "1.0.0",
                "valuesContent": ""}});
        create(&self.addons, addon).await;
        let failed = json!({"status": "AddonEnabling", "conditions": [
            {"type": "InProgress", "status": "True", "lastUpdateTime": jiff::Timestamp::now().to_string()},
            {"type": "OperationFailed", "status": "True"}]});
        status(&self.addons, "pci", failed).await;
    }

    async fn play(&self) {}

    fn labelled(&self) -> (Gvk, &str, &str) {
        (ADDON, "default", "pci")
    }

    async fn fault(&self) -> Option<String> {
        let kinds = field(&self.addons, "pci", "/status/conditions").await;
        let kinds = kinds.as_array().unwrap().len();
        (kinds != 2).then(|| format!("it has {kinds} conditions"))
    }

    async fn is_cured(&self) -> bool {
        field(&self.addons, "pci", IN_PROGRESS).await == "False"
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_and_an_addon_are_cured_or_left_whoever_goes_on_with_a_repair_that_ended() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let client = cluster.client(Who::Admin).await;
    furnish_rancher(&client).await;
    serve_published(&client, ADDON, "Namespaced").await;
    serve_published(&client, CHART, "Namespaced").await;
    harvester(&client, "v1.8.1").await;
    server(&client, "v1.35.6+rke2r1").await;
    let driver = Driver {
        client: client.clone(),
        drivers: api(&client, NODE_DRIVER, ""),
    };
    let mut failures = play(&cluster, driver, 4..6).await;
    let addon = Addon {
        addons: api(&client, ADDON, "default"),
        client,
    };
    failures.extend(play(&cluster, addon, 6..8).await);
    assert_eq!(failures, [""; 0]);
}

/// A Plan begins no Job until its controller's pod is made again.
struct Plan<'c> {
    cluster: &'c Cluster,
    client: Client,
    /// The pod of the controller before the repair.
    before: RefCell<String>,
}

impl Incident for Plan<'_> {
    const CODE: &'static str = "plan-stuck";

    async fn rebuild(&self) {
        remove(&self.client, PLAN, CATTLE, "hangs").await;
        remove(&self.client, JOB, CATTLE, "apply-hangs-on-n1").await;
        plan(&self.client, "hangs", json!({})).await;
        let key = format!("upgrade.cattle.io/plans/{CATTLE}/hangs");
        self.cluster.make_older(&key, 20).await;
        let (_, uid) = eventually("the controller runs", DEADLINE, async || {
            play_kubelets(&self.client, CATTLE).await;
            ready_pod(&self.client, CONTROLLER).await
        })
        .await;
        self.before.replace(uid);
    }

    async fn play(&self) {
        play_kubelets(&self.client, CATTLE).await;
        let before = self.before.borrow().clone();
        play_controller(&self.client, &before).await;
    }

    fn labelled(&self) -> (Gvk, &str, &str) {
        (PLAN, CATTLE, "hangs")
    }

    async fn fault(&self) -> Option<String> {
        let runs = ready_pod(&self.client, CONTROLLER).await;
        runs.is_none()
            .then(|| "the controller does not run".to_owned())
    }

    async fn is_cured(&self) -> bool {
        let jobs = api(&self.client, JOB, CATTLE);
        jobs.get_opt("apply-hangs-on-n1").await.unwrap().is_some()
    }
}

/// An engine that nothing uses runs on, and Longhorn has an Orphan of it.
struct Engine {
    client: Client,
    orphans: Api<DynamicObject>,
    managers: Api<DynamicObject>,
}

impl Incident for Engine {
    const CODE: &'static str = "engine-stale";

    async fn rebuild(&self) {
        for (kind, name) in [(POD, "im-1"), (BUDGET, "im-1"), (INSTANCE_MANAGER, "im-1")] {
            remove(&self.client, kind, LONGHORN, name).await;
        }
        remove(&self.client, NODE, "", "e1").await;
        if let Some(left) = self.orphans.get_opt("mine").await.unwrap() {
            let name = left.metadata.name.unwrap();
            let free = json!({"metadata": {"finalizers": null}});
            patch(&self.client, ORPHAN, LONGHORN, &name, free).await;
            remove(&self.client, ORPHAN, LONGHORN, &name).await;
        }
        instance_manager(&self.client, "im-1", "e1", "pvc-1-e-0").await;
        orphan(&self.client, "mine", "engine-instance", "e1", "pvc-1-e-0").await;
    }

    async fn play(&self) {
        play_longhorn(&self.client).await;
        play_kubelets(&self.client, LONGHORN).await;
    }

    fn labelled(&self) -> (Gvk, &str, &str) {
        (INSTANCE_MANAGER, LONGHORN, "im-1")
    }

    async fn fault(&self) -> Option<String> {
        let orphan = self.orphans.get_opt("mine").await.unwrap()?;
        let ends = orphan.metadata.deletion_timestamp.is_some();
        ends.then(|| "the orphan is not gone".to_owned())
    }

    async fn is_cured(&self) -> bool {
        let engines = field(&self.managers, "im-1", "/status/instanceEngines").await;
        engines.as_object().is_none_or(|engines| engines.is_empty())
    }
}

#[tokio::test]
async fn a_plan_and_an_engine_are_cured_or_left_whoever_goes_on_with_a_repair_that_ended() {
    let spec = Spec {
        arguments: vec!["--storage-media-type=application/json".to_owned()],
        ..Spec::with_controllers()
    };
    let mut kinds = vec![(SETTING, "Cluster")];
    kinds.extend([PLAN, INSTANCE_MANAGER, ENGINE, ORPHAN].map(|kind| (kind, "Namespaced")));
    let Some((cluster, client)) = start(spec, &kinds).await else {
        return;
    };
    harvester(&client, "v1.8.1").await;
    namespace(&client, CATTLE).await;
    namespace(&client, LONGHORN).await;
    for name in ["n1", "n2"] {
        let managed = json!({"harvesterhci.io/managed": "true"});
        node(&client, name, managed, json!([])).await;
    }
    deployment(&client, CONTROLLER.1, CONTROLLER).await;
    let hanging = Plan {
        cluster: &cluster,
        client: client.clone(),
        before: RefCell::default(),
    };
    let mut failures = play(&cluster, hanging, 8..9).await;
    remove(&client, PLAN, CATTLE, "hangs").await;
    let engine = Engine {
        orphans: api(&client, ORPHAN, LONGHORN),
        managers: api(&client, INSTANCE_MANAGER, LONGHORN),
        client,
    };
    failures.extend(play(&cluster, engine, 9..10).await);
    assert_eq!(failures, [""; 0]);
}

/// KubeVirt's pods keep the one server from being drained.
struct Drain {
    client: Client,
    charts: Api<DynamicObject>,
}

impl Drain {
    async fn deployed_anywhere(&self) -> bool {
        let deployments = api(&self.client, DEPLOYMENT, SYSTEM);
        let pinned = field(&deployments, "virt-api", "/spec/template/spec/affinity").await;
        pinned.is_null()
    }
}

impl Incident for Drain {
    const CODE: &'static str = "drain-blocked";

    async fn rebuild(&self) {
        for (kind, name) in [
            (DEPLOYMENT, "virt-api"),
            (BUDGET, "virt-api-pdb"),
            (KUBEVIRT, "kubevirt"),
            (UPGRADE, "up"),
        ] {
            remove(&self.client, kind, SYSTEM, name).await;
        }
        let pods = api(&self.client, POD, SYSTEM);
        eventually("the pods are gone", DEADLINE, async || {
            play_kubelets(&self.client, SYSTEM).await;
            let left = pods.list(&Default::default()).await.unwrap();
            left.items.is_empty().then_some(())
        })
        .await;
        for name in ["n1", "n2"] {
            remove(&self.client, NODE, "", name).await;
        }
        let values = json!({"metadata": {"labels": null}, "spec": {"values": {"kubevirt": {"spec": {"infra": pinned()}}}}});
        patch(&self.client, MANAGED_CHART, FLEET, "harvester", values).await;
        stuck_drain(&self.client).await;
        play_rancher_and_fleet(&self.client).await;
        let pre_drained = json!({"nodeStatuses": {"n1": {"state": "Pre-drained"}}});
        status(&api(&self.client, UPGRADE, SYSTEM), "up", pre_drained).await;
    }

    async fn play(&self) {
        play_rancher_and_fleet(&self.client).await;
        // virt-operator: rolls out again what may run anywhere.
        let kubevirts = api(&self.client, KUBEVIRT, SYSTEM);
        let placement = field(&kubevirts, "kubevirt", "/spec/infra/nodePlacement").await;
        if placement == json!({}) && !self.deployed_anywhere().await {
            let anywhere = json!({"spec": {"template": {"spec": {"affinity": null}}}});
            patch(&self.client, DEPLOYMENT, SYSTEM, "virt-api", anywhere).await;
        }
        play_kubelets(&self.client, SYSTEM).await;
    }

    fn labelled(&self) -> (Gvk, &str, &str) {
        (MANAGED_CHART, FLEET, "harvester")
    }

    async fn fault(&self) -> Option<String> {
        let infra = field(&self.charts, "harvester", INFRA).await;
        let is_known = infra == pinned() || infra == json!({"nodePlacement": {}});
        let values = field(
            &self.charts,
            "harvester",
            "/spec/values/kubevirt/spec/configuration",
        )
        .await;
        let is_whole = is_known && values == json!({"a": "kept"});
        (!is_whole).then(|| format!("the chart has {infra} and {values}"))
    }

    async fn is_cured(&self) -> bool {
        field(&self.charts, "harvester", INFRA).await != pinned()
    }
}

#[tokio::test]
async fn a_drain_is_cured_or_left_whoever_goes_on_with_a_repair_that_ended() {
    let kinds = [
        (UPGRADE, "Namespaced"),
        (KUBEVIRT, "Namespaced"),
        (MANAGED_CHART, "Namespaced"),
        (BUNDLE, "Namespaced"),
        (BUNDLE_DEPLOYMENT, "Namespaced"),
        (CLUSTER_REPO, "Cluster"),
        (SETTING, "Cluster"),
    ];
    let Some((cluster, client)) = start(Spec::with_controllers(), &kinds).await else {
        return;
    };
    harvester(&client, "v1.8.1").await;
    namespace(&client, SYSTEM).await;
    managed_chart(&client).await;
    let drain = Drain {
        charts: api(&client, MANAGED_CHART, FLEET),
        client,
    };
    assert_eq!(play(&cluster, drain, 10..11).await, [""; 0]);
}
