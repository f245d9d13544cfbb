//! Level 4: what Harvester's webhook refuses, by version, as kube-apiserver passes it on: the words that Windrow's
//! cures and checks meet. The webhook is played, the kinds are the published ones.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, eventually};
use support::harvester_webhook::{play, remove};
use support::objects::{
    ADDON, HARVESTER_MACHINE, MANAGED_CHART, NODE_DRIVER, SETTING, UPGRADE, VM,
};
use support::objects::{api, make, namespace, serve_published, status};
use windrow_harvester::HarvesterVersion;

use crate::support;

/// The API server's answer to a dry run: the refusal's code and words.
async fn refusal<T>(asked: impl Future<Output = kube::Result<T>>) -> Option<(u16, String)> {
    match asked.await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some((status.code, status.message.clone())),
        Err(other) => panic!("{other}"),
    }
}

pub(crate) async fn change(
    api: &Api<DynamicObject>,
    name: &str,
    patch: Value,
) -> Option<(u16, String)> {
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    refusal(api.patch(name, &dry, &Patch::Merge(&patch))).await
}

async fn delete(api: &Api<DynamicObject>, name: &str) -> Option<(u16, String)> {
    refusal(api.delete(name, &DeleteParams::default().dry_run())).await
}

/// What there is before the webhook comes: an Addon that is busy and one that is not, and so on.
async fn furnish(client: &Client) {
    for (gvk, scope) in [
        (ADDON, "Namespaced"),
        (SETTING, "Cluster"),
        (VM, "Namespaced"),
        (UPGRADE, "Namespaced"),
        (MANAGED_CHART, "Namespaced"),
        (NODE_DRIVER, "Cluster"),
    ] {
        serve_published(client, gvk, scope).await;
    }
    namespace(client, "fleet-local").await;
    let addon = |name: &str, experimental: &str| {
        json!({"metadata": {"name": name, "labels": {"addon.harvesterhci.io/experimental": experimental}},
            "spec": {"enabled": true, "chart": name, "repo": "", "version": "1.0.0", "valuesContent": ""}})
    };
    make(client, ADDON, "default", addon("busy", "false")).await;
    make(client, ADDON, "default", addon("idle", "true")).await;
    let addons = api(client, ADDON, "default");
    let in_progress = |is: &str, state: &str| json!({"status": state, "conditions": [{"type": "InProgress", "status": is}]});
    status(&addons, "busy", in_progress("True", "AddonEnabling")).await;
    status(
        &addons,
        "idle",
        in_progress("False", "AddonDeploySuccessful"),
    )
    .await;
    let setting = json!({"metadata": {"name": "storage-network"}, "value": ""});
    make(client, SETTING, "", setting).await;
    for name in ["harvester", "rancher-logging-crd", "theirs"] {
        make(
            client,
            MANAGED_CHART,
            "fleet-local",
            json!({"metadata": {"name": name}}),
        )
        .await;
    }
    let driver = json!({"metadata": {"name": "harvester"}, "spec": {"active": true, "displayName": "harvester"}});
    make(client, NODE_DRIVER, "", driver).await;
}

#[tokio::test]
async fn harvesters_webhook_refuses_what_its_version_does() {
    let Some((_cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    furnish(&client).await;
    let (addons, settings) = (api(&client, ADDON, "default"), api(&client, SETTING, ""));
    let charts = api(&client, MANAGED_CHART, "fleet-local");
    let drivers = api(&client, NODE_DRIVER, "");
    let off = json!({"spec": {"enabled": false}});

    let older = play(&client, HarvesterVersion::new(1, 6, 1)).await;
    let busy = eventually("the webhook is asked", DEADLINE, async || {
        change(&addons, "busy", off.clone()).await
    })
    .await;
    assert_eq!(
        busy,
        (400, "admission webhook \"validator.harvesterhci.io\" denied the request: cannot perform operation, as an \
               existing operation is in progress on addon busy".to_owned())
    );
    assert_eq!(change(&addons, "idle", off.clone()).await, None);
    assert_eq!(delete(&addons, "busy").await, None, "up to v1.6");
    let prohibited = delete(&charts, "harvester").await.unwrap();
    assert_eq!(prohibited.0, 422);
    assert_eq!(
        delete(&charts, "rancher-logging-crd").await,
        None,
        "up to v1.6"
    );
    // Its status is not the webhook's business.
    let ended = json!({"conditions": [{"type": "InProgress", "status": "False"}]});
    status(&addons, "busy", ended).await;
    assert_eq!(change(&addons, "busy", off.clone()).await, None);
    let begun = upgrade(&client).await;
    assert_eq!(begun, None, "Addons are looked at from v1.7.0 on");
    remove(&client, older).await;
    let _newer = play(&client, HarvesterVersion::LATEST).await;
    let (code, words) = eventually("the webhook is asked", DEADLINE, async || {
        // Until the other is forgotten its silence is an answer, too.
        let answer = delete(&addons, "busy").await;
        answer.filter(|(code, _)| *code == 400)
    })
    .await;
    assert!(
        words.ends_with("default/busy addon cannot be deleted"),
        "{code} {words}"
    );
    assert_eq!(delete(&addons, "idle").await, None, "it is experimental");
    assert_eq!(delete(&charts, "rancher-logging-crd").await.unwrap().0, 422);
    assert_eq!(delete(&charts, "theirs").await, None);
    let (code, words) = upgrade(&client).await.unwrap();
    assert_eq!(code, 400);
    assert!(
        words.contains("addon default/busy is enabled but still on status"),
        "{words}"
    );

    let network = json!({"value": "{\"vlan\": 1}"});
    assert_eq!(
        change(&settings, "storage-network", network.clone()).await,
        None
    );
    let vm = json!({"metadata": {"name": "db"}, "spec": {"runStrategy": "RerunOnFailure",
        "template": {"spec": {"domain": {"devices": {}}}}}});
    make(&client, VM, "default", vm).await;
    let (code, words) = change(&settings, "storage-network", network.clone())
        .await
        .unwrap();
    assert_eq!(code, 422);
    assert!(words.contains("Please stop all VMs"), "{words}");
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(change(&settings, "storage-network", labelled).await, None);
    assert_eq!(delete(&settings, "storage-network").await.unwrap().0, 405);
    let busy =
        json!({"conditions": [{"type": "configured", "status": "False", "reason": "In Progress"}]});
    status(&settings, "storage-network", busy).await;
    assert_eq!(
        change(&settings, "storage-network", network)
            .await
            .unwrap()
            .0,
        409
    );

    serve_published(&client, HARVESTER_MACHINE, "Namespaced").await;
    let inactive = json!({"spec": {"active": false}});
    assert_eq!(change(&drivers, "harvester", inactive.clone()).await, None);
    make(
        &client,
        HARVESTER_MACHINE,
        "default",
        json!({"metadata": {"name": "m"}}),
    )
    .await;
    // Rancher's refusal has no code, and the API server gives it one.
    let (code, words) = change(&drivers, "harvester", inactive).await.unwrap();
    assert_eq!(code, 400);
    assert!(
        words.contains("This driver is in use by existing nodes"),
        "{words}"
    );
    assert_eq!(delete(&drivers, "harvester").await.unwrap().0, 400);
}

/// Asks for an Upgrade, as a dry run.
async fn upgrade(client: &Client) -> Option<(u16, String)> {
    let upgrade = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade", "metadata": {"name": "up"},
        "spec": {"version": "v1.8.2", "logEnabled": false}});
    let upgrade = serde_json::from_value(upgrade).unwrap();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let upgrades = api(client, UPGRADE, "default");
    refusal(upgrades.create(&dry, &upgrade)).await
}
