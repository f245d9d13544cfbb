//! Level 4: a drain that KubeVirt's pods block is cured through the values of Harvester's chart, and that is undone. The
//! scheduler and the disruption controller are real; Rancher, Fleet, virt-operator and the kubelets are played.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::process::Stdio;

use kube::Client;
use serde_json::{Value, json};
use support::cluster::{DEADLINE, Spec, eventually};
use support::objects::{
    BUNDLE, BUNDLE_DEPLOYMENT, CLUSTER_REPO, DEPLOYMENT, KUBEVIRT, MANAGED_CHART, SETTING, UPGRADE,
};
use support::objects::{
    api, field, harvester, make, namespace, patch, play_kubelets, start, status,
};

use crate::incidents_in_cluster::stuck_drain;
use crate::repair_in_cluster::{command, run};
use crate::support;

pub(crate) const SYSTEM: &str = "harvester-system";
pub(crate) const FLEET: &str = "fleet-local";
/// Where Fleet has what it installs in the cluster of `fleet-local`.
const LOCAL_CLUSTER: &str = "cluster-fleet-local-local-1a3d67d0a899";
pub(crate) const INFRA: &str = "/spec/values/kubevirt/spec/infra";

pub(crate) fn pinned() -> Value {
    json!({"nodePlacement": {"nodeSelector": {"node-role.kubernetes.io/control-plane": "true"}}})
}

/// Harvester's chart as Rancher and Fleet have it, with an admin's pin in its values.
pub(crate) async fn managed_chart(client: &Client) {
    namespace(client, FLEET).await;
    namespace(client, LOCAL_CLUSTER).await;
    let values = json!({"kubevirt": {"spec": {"infra": pinned(), "configuration": {"a": "kept"}}}});
    let chart = json!({"metadata": {"name": "harvester"}, "spec": {"values": values}});
    make(client, MANAGED_CHART, FLEET, chart).await;
    let bundle =
        json!({"metadata": {"name": "mcc-harvester"}, "spec": {"helm": {"values": values}}});
    make(client, BUNDLE, FLEET, bundle).await;
    let deployment = json!({"metadata": {"name": "mcc-harvester"}});
    make(client, BUNDLE_DEPLOYMENT, LOCAL_CLUSTER, deployment).await;
    make(
        client,
        CLUSTER_REPO,
        "",
        json!({"metadata": {"name": "harvester-charts"}}),
    )
    .await;
    let downloaded = json!({"conditions": [{"type": "Downloaded", "status": "True"}]});
    status(
        &api(client, CLUSTER_REPO, ""),
        "harvester-charts",
        downloaded,
    )
    .await;
}

/// Rancher and Fleet: the values of the ManagedChart go to the Bundle, and its value of KubeVirt to KubeVirt.
pub(crate) async fn play_rancher_and_fleet(client: &Client) {
    let charts = api(client, MANAGED_CHART, FLEET);
    let bundles = api(client, BUNDLE, FLEET);
    let infra = field(&charts, "harvester", INFRA).await;
    let there = "/spec/helm/values/kubevirt/spec/infra";
    if field(&bundles, "mcc-harvester", there).await != infra {
        let mut nodes = infra.clone();
        // A merge patch: what is not there any more is taken out by null.
        if nodes["nodePlacement"]["nodeSelector"].is_null() {
            nodes["nodePlacement"]["nodeSelector"] = Value::Null;
        }
        let values =
            json!({"spec": {"helm": {"values": {"kubevirt": {"spec": {"infra": nodes}}}}}});
        patch(client, BUNDLE, FLEET, "mcc-harvester", values).await;
        let kubevirt = json!({"spec": {"infra": nodes}});
        patch(client, KUBEVIRT, SYSTEM, "kubevirt", kubevirt).await;
    }
    let generation = field(&bundles, "mcc-harvester", "/metadata/generation").await;
    let ready = json!({"observedGeneration": generation,
        "conditions": [{"type": "Ready", "status": "True"}]});
    status(&bundles, "mcc-harvester", ready).await;
}

#[tokio::test]
async fn a_drain_that_kubevirts_pods_block_is_cured_through_the_charts_values_and_that_is_undone() {
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
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    namespace(&client, SYSTEM).await;
    managed_chart(&client).await;
    stuck_drain(&client).await;
    let pre_drained = json!({"nodeStatuses": {"n1": {"state": "Pre-drained"}}});
    status(&api(&client, UPGRADE, SYSTEM), "up", pre_drained).await;

    // Paused, as while Harvester upgrades its system services: the chart is left alone.
    let paused = |paused: bool| json!({"spec": {"paused": paused}});
    patch(&client, MANAGED_CHART, FLEET, "harvester", paused(true)).await;
    let repair = ["repair", "drain-blocked"];
    let (code, said) = run(&cluster, root, &[&repair[..], &["--yes"]].concat());
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("fleet-local/harvester is paused"), "{said}");
    patch(&client, MANAGED_CHART, FLEET, "harvester", paused(false)).await;

    let repair = command(&cluster, root, &[&repair[..], &["--yes"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let kubevirts = api(&client, KUBEVIRT, SYSTEM);
    let mut repair = Some(repair);
    let mut rolled_out = false;
    let output = eventually("the repair ends", DEADLINE, async || {
        play_rancher_and_fleet(&client).await;
        // virt-operator: rolls out again what may run anywhere.
        let placement = field(&kubevirts, "kubevirt", "/spec/infra/nodePlacement").await;
        if placement == json!({}) && !rolled_out {
            let anywhere = json!({"spec": {"template": {"spec": {"affinity": null}}}});
            patch(&client, DEPLOYMENT, SYSTEM, "virt-api", anywhere).await;
            rolled_out = true;
        }
        play_kubelets(&client, SYSTEM).await;
        repair.as_mut()?.try_wait().unwrap()?;
        repair.take().map(|ended| ended.wait_with_output().unwrap())
    })
    .await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(" would be accepted"), "{said}");
    let charts = api(&client, MANAGED_CHART, FLEET);
    let kubevirt = field(&charts, "harvester", "/spec/values/kubevirt/spec").await;
    let freed = json!({"infra": {"nodePlacement": {}}, "configuration": {"a": "kept"}});
    assert_eq!(kubevirt, freed, "the other values stay");

    let (code, said) = run(&cluster, root, &["repair", "--undo", "--yes"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(field(&charts, "harvester", INFRA).await, pinned());
}
