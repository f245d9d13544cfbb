//! Level 4: what Harvester's webhook refuses, by version, as kube-apiserver passes it on: the words that Windrow's
//! cures and checks meet. The webhook is played; for the newest release it is compared with Harvester's own.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, eventually};
use support::harvester_webhook::{play, remove};
use support::objects::{
    ADDON, CAPI_CLUSTER, HARVESTER_MACHINE, MANAGED_CHART, NODE_DRIVER, SETTING, UPGRADE, VERSION,
    VM, VM_BACKUP,
};
use support::objects::{api, create, make, namespace, resource, serve_published, status};
use windrow_harvester::HarvesterVersion;
use windrow_inputs::extract::extract;
use windrow_model::manifest::{ReadLimits, yaml};
use windrow_preflight::installer::findings;
use windrow_simulate::{FIRST_VM, Setup};

use crate::support;

/// The API server's answer to a dry run: the refusal's code and words.
pub(crate) async fn refusal<T>(
    asked: impl Future<Output = kube::Result<T>>,
) -> Option<(u16, String)> {
    match asked.await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some((status.code, status.message.clone())),
        Err(other) => panic!("{other}"),
    }
}

/// The answer to the creation of an object, as a dry run.
pub(crate) async fn refusal_of_creation(client: &Client, object: &Value) -> Option<(u16, String)> {
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let asked = serde_json::from_value(object.clone()).unwrap();
    refusal(objects_of(client, object).create(&dry, &asked)).await
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
}

#[tokio::test]
async fn harvesters_webhook_refuses_what_its_version_does() {
    let Some((_cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    for (gvk, scope) in [
        (ADDON, "Namespaced"),
        (SETTING, "Cluster"),
        (VM, "Namespaced"),
        (UPGRADE, "Namespaced"),
        (MANAGED_CHART, "Namespaced"),
        (NODE_DRIVER, "Cluster"),
    ] {
        serve_published(&client, gvk, scope).await;
    }
    furnish(&client).await;
    let driver = json!({"metadata": {"name": "harvester"}, "spec": {"active": true, "displayName": "harvester"}});
    make(&client, NODE_DRIVER, "", driver).await;
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
    let upgrade = json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Upgrade",
        "metadata": {"name": "up", "namespace": "default"},
        "spec": {"version": "v1.8.2", "logEnabled": false}});
    refusal_of_creation(client, &upgrade).await
}

/// An answer to each request that is asked of both webhooks.
type Answers = Vec<(&'static str, Option<(u16, String)>)>;

/// A storage network on the management network, which needs no other object.
const NETWORK: &str = r#"{"vlan":220,"clusterNetwork":"mgmt","range":"198.51.100.0/24"}"#;

/// What is refused of the same requests, each as a dry run.
async fn answers(client: &Client) -> Answers {
    let (addons, vms) = (api(client, ADDON, "default"), api(client, VM, "default"));
    let (charts, settings) = (
        api(client, MANAGED_CHART, "fleet-local"),
        api(client, SETTING, ""),
    );
    let off = json!({"spec": {"enabled": false}});
    let chart = json!({"spec": {"chart": "another"}});
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let network = json!({"value": NETWORK});
    let halt = json!({"spec": {"runStrategy": "Halted"}});
    vec![
        ("busy off", change(&addons, "busy", off.clone()).await),
        ("idle off", change(&addons, "idle", off).await),
        ("another chart", change(&addons, "idle", chart).await),
        ("busy deleted", delete(&addons, "busy").await),
        ("idle deleted", delete(&addons, "idle").await),
        ("harvester deleted", delete(&charts, "harvester").await),
        ("crd deleted", delete(&charts, "rancher-logging-crd").await),
        ("theirs deleted", delete(&charts, "theirs").await),
        (
            "a network",
            change(&settings, "storage-network", network).await,
        ),
        (
            "a label",
            change(&settings, "storage-network", labelled).await,
        ),
        (
            "network deleted",
            delete(&settings, "storage-network").await,
        ),
        (
            "stopped in a backup",
            change(&vms, "saved", halt.clone()).await,
        ),
        ("stopped", change(&vms, "db", halt).await),
        ("an upgrade", upgrade(client).await),
    ]
}

/// Both answers, each before and while Harvester configures a storage network.
async fn all_answers(client: &Client) -> [Answers; 2] {
    // Until a webhook is known to kube-apiserver, and has heard of all objects, the answers are others.
    let mut before = answers(client).await;
    eventually("the webhook answers", DEADLINE, async || {
        let again = answers(client).await;
        let settled = again == before && again.iter().any(|(_, answer)| answer.is_some());
        before = again;
        settled.then_some(())
    })
    .await;
    let settings = api(client, SETTING, "");
    let busy = json!({"conditions": [{"type": "configured", "status": "False", "reason": "In Progress", "message": "x"}]});
    status(&settings, "storage-network", busy).await;
    let during = answers(client).await;
    status(&settings, "storage-network", json!({"conditions": []})).await;
    [before, during]
}

#[tokio::test]
async fn the_played_webhook_of_the_newest_release_answers_as_harvesters_own() {
    let Some((cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    cluster.serve_kinds_of_harvesters_webhook().await;
    furnish(&client).await;
    for name in ["upgrade-config", "overcommit-config"] {
        let setting = json!({"metadata": {"name": name}, "value": ""});
        make(&client, SETTING, "", setting).await;
    }
    let version =
        json!({"metadata": {"name": "v1.8.2"}, "spec": {"isoURL": "http://192.0.2.1/x.iso"}});
    make(&client, VERSION, "default", version).await;
    let local = json!({"metadata": {"name": "local"}});
    make(&client, CAPI_CLUSTER, "fleet-local", local).await;
    let provisioned = json!({"phase": "Provisioned"});
    status(
        &api(&client, CAPI_CLUSTER, "fleet-local"),
        "local",
        provisioned,
    )
    .await;
    for (name, strategy) in [("db", "RerunOnFailure"), ("saved", "Always")] {
        let vm = json!({"metadata": {"name": name}, "spec": {"runStrategy": strategy, "template": {"spec": {
            "terminationGracePeriodSeconds": 1, "domain": {"devices": {}, "memory": {"guest": "64Mi"},
                "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}}}}});
        make(&client, VM, "default", vm).await;
    }
    let backup = json!({"metadata": {"name": "b"}, "spec": {"type": "snapshot",
        "source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "saved"}}});
    make(&client, VM_BACKUP, "default", backup).await;
    let uid = api(&client, VM, "default")
        .get("saved")
        .await
        .unwrap()
        .metadata
        .uid;
    let of_it = json!({"sourceUID": uid, "readyToUse": false, "error": {"message": "x", "time": "2026-11-21T20:00:00Z"}});
    status(&api(&client, VM_BACKUP, "default"), "b", of_it).await;

    let played = play(&client, HarvesterVersion::LATEST).await;
    let by_played = all_answers(&client).await;
    remove(&client, played).await;
    let Some(_own) = cluster.harvester_webhook().await else {
        return;
    };
    let by_own = all_answers(&client).await;
    for (played, own) in by_played.iter().flatten().zip(by_own.iter().flatten()) {
        assert_eq!(played, own);
    }
}

#[tokio::test]
async fn harvesters_own_webhook_takes_each_object_of_the_example_and_the_machine_only_after_its_network()
 {
    let Some((cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    cluster.serve_kinds_of_harvesters_webhook().await;
    // As rancherd writes it before there is a webhook.
    let preset = Setup::preset_storage_network(FIRST_VM).unwrap();
    let setting = json!({"metadata": {"name": "storage-network"}, "value": preset});
    make(&client, SETTING, "", setting).await;
    for name in ["overcommit-config", "upgrade-config"] {
        let setting = json!({"metadata": {"name": name}, "value": ""});
        make(&client, SETTING, "", setting).await;
    }
    let Some(_own) = cluster.harvester_webhook().await else {
        return;
    };
    let storage = api(&client, SETTING, "");
    eventually("the webhook answers", DEADLINE, async || {
        delete(&storage, "storage-network").await
    })
    .await;

    let objects = objects_of_the_example();
    assert_eq!(objects.len(), 8);
    let (machine, others) = objects.split_last().unwrap();
    let (network, others) = others.split_last().unwrap();
    for object in others {
        create(&objects_of(&client, object), object.clone()).await;
    }
    let machines = objects_of(&client, machine);
    let asked = serde_json::from_value(machine.clone()).unwrap();
    let (code, words) = refusal_of_creation(&client, machine).await.unwrap();
    assert_eq!(code, 500);
    assert_eq!(
        words,
        "admission webhook \"mutator.harvesterhci.io\" denied the request: \
         network-attachment-definitions.k8s.cni.cncf.io \"servers\" not found"
    );
    create(&objects_of(&client, network), network.clone()).await;
    // The webhook hears of the network a moment later.
    eventually("the machine is taken", DEADLINE, async || {
        machines.create(&PostParams::default(), &asked).await.ok()
    })
    .await;
}

/// The machine last, and its network before it; namespaces first.
pub(crate) fn objects_of_the_example() -> Vec<Value> {
    let mut objects = Vec::new();
    for file in extract("first.yaml", FIRST_VM, &ReadLimits::default()).files {
        let text = String::from_utf8(file.content).unwrap();
        for document in text.split("\n---\n") {
            let node = yaml::parse_configuration(document).unwrap().unwrap();
            objects.push(node.to_json());
        }
    }
    objects.sort_by_key(|object| match object["kind"].as_str().unwrap() {
        "Namespace" => 0,
        "NetworkAttachmentDefinition" => 2,
        "VirtualMachine" => 3,
        _ => 1,
    });
    objects
}

/// The objects of an object's kind and namespace.
pub(crate) fn objects_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let version = object["apiVersion"].as_str().unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = resource((group, version, object["kind"].as_str().unwrap()));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Does Windrow's check of the installer's configuration say that Harvester never configures this preset?
fn is_found(preset: &str) -> bool {
    let configuration =
        json!({"install": {"mode": "create"}, "systemSettings": {"storage-network": preset}});
    let text = configuration.to_string();
    let found = findings("config.yaml", &text, Some(HarvesterVersion::LATEST));
    found
        .iter()
        .any(|finding| finding.message.contains("never configures"))
}

#[tokio::test]
async fn a_preset_storage_network_that_windrow_finds_is_one_that_harvesters_own_webhook_refuses() {
    let Some((cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    cluster.serve_kinds_of_harvesters_webhook().await;
    let setting = json!({"metadata": {"name": "storage-network"}, "value": ""});
    make(&client, SETTING, "", setting).await;
    let Some(_own) = cluster.harvester_webhook().await else {
        return;
    };
    let settings = api(&client, SETTING, "");
    eventually("the webhook answers", DEADLINE, async || {
        delete(&settings, "storage-network").await
    })
    .await;
    let network = |fields: &str| format!("{{\"clusterNetwork\":\"mgmt\",{fields}}}");
    for (preset, refused) in [
        (NETWORK.to_owned(), false),
        (
            network(r#""vlan":220,"range":"198.51.100.0/24","exclude":["198.51.100.0/28"]"#),
            false,
        ),
        (
            network(r#""VLAN":220,"Range":"198.51.100.0/24","exclude":null,"x":1"#),
            false,
        ),
        ("vlan: 220".to_owned(), true),
        ("[]".to_owned(), true),
        ("null".to_owned(), true),
        (network(r#""vlan":"220","range":"198.51.100.0/24""#), true),
        (network(r#""vlan":220.5,"range":"198.51.100.0/24""#), true),
        (network(r#""vlan":4095,"range":"198.51.100.0/24""#), true),
        (network(r#""vlan":70000,"range":"198.51.100.0/24""#), true),
        (network(r#""vlan":220"#), true),
        (network(r#""vlan":220,"range":7"#), true),
        (network(r#""vlan":220,"range":"198.51.100.0""#), true),
        (network(r#""vlan":220,"range":"198.51.100.0/33""#), true),
        (network(r#""vlan":220,"range":"198.51.100.7/24""#), true),
        (
            network(r#""vlan":220,"range":"198.51.100.0/24","exclude":"198.51.100.1/32""#),
            true,
        ),
        (
            network(r#""vlan":220,"range":"198.51.100.0/24","exclude":["198.51.100.1"]"#),
            true,
        ),
        (r#"{"vlan":220,"range":"198.51.100.0/24"}"#.to_owned(), true),
    ] {
        let answer = change(&settings, "storage-network", json!({"value": preset})).await;
        assert_eq!(answer.is_some(), refused, "{preset}: {answer:?}");
        assert_eq!(is_found(&preset), refused, "{preset}");
    }
}
