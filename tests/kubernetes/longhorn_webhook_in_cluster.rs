//! Level 4: what Longhorn's webhook refuses, in its own code (v1.10.0): of the objects that a file may bring, and of what Windrow's
//! cures and advice do.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, HarvesterWebhook, eventually};
use support::objects::{Gvk, api, create, namespace, status};

use crate::harvester_webhook_in_cluster::{change, refusal, refusal_of_creation};
use crate::support;

const SYSTEM: &str = "longhorn-system";
const ENGINE_IMAGE: &str = "longhornio/longhorn-engine:v1.10.0";

/// A cluster with this webhook, which answers; `None`, after one line, if it is not built.
async fn cluster_with_the_webhook() -> Option<(Cluster, Client, HarvesterWebhook)> {
    let (cluster, client) = Cluster::with_its_admin().await?;
    namespace(&client, SYSTEM).await;
    let webhook = cluster.longhorn_webhook().await?;
    eventually("the webhook answers", DEADLINE, async || {
        refusal_of_creation(&client, &setting("no-such", "1")).await
    })
    .await;
    Some((cluster, client, webhook))
}

fn all(client: &Client, kind: &'static str) -> Api<DynamicObject> {
    let gvk: Gvk = ("longhorn.io", "v1beta2", kind);
    api(client, gvk, SYSTEM)
}

fn object(kind: &str, name: &str, rest: Value) -> Value {
    let mut object = rest;
    object["apiVersion"] = json!("longhorn.io/v1beta2");
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": name, "namespace": SYSTEM});
    object
}

fn setting(name: &str, value: &str) -> Value {
    object("Setting", name, json!({"value": value}))
}

fn volume() -> Value {
    let spec = json!({"size": "1073741824", "numberOfReplicas": 1, "frontend": "blockdev", "accessMode": "rwo", "dataEngine": "v1"});
    object("Volume", "data", json!({"spec": spec}))
}

fn job(cron: &str, retain: u32) -> Value {
    let spec = json!({"name": "daily", "task": "snapshot", "cron": cron, "retain": retain, "concurrency": 1, "groups": ["default"]});
    object("RecurringJob", "daily", json!({"spec": spec}))
}

fn image(copies: u32, source: Value) -> Value {
    let spec = json!({"minNumberOfCopies": copies, "sourceType": "download", "sourceParameters": source, "dataEngine": "v1"});
    object("BackingImage", "debian", json!({"spec": spec}))
}

fn node(disks: Value) -> Value {
    let spec = json!({"name": "n1", "allowScheduling": true, "evictionRequested": false, "tags": [], "disks": disks});
    object("Node", "n1", json!({"spec": spec}))
}

fn disk(kind: &str) -> Value {
    json!({"one": {"diskType": kind, "path": "/var/lib/harvester/defaultdisk", "allowScheduling": true, "evictionRequested": false,
        "storageReserved": 0, "tags": []}})
}

fn target(url: &str) -> Value {
    let spec =
        json!({"backupTargetURL": url, "credentialSecret": "not-there", "pollInterval": "5m0s"});
    object("BackupTarget", "default", json!({"spec": spec}))
}

#[tokio::test]
async fn longhorn_takes_its_settings_nodes_jobs_images_and_targets_as_soon_as_it_answers() {
    let Some((_cluster, client, _own)) = cluster_with_the_webhook().await else {
        return;
    };
    let url = json!({"url": "http://192.0.2.10/debian.qcow2"});
    for (object, refused) in [
        (setting("storage-over-provisioning-percentage", "200"), None),
        (setting("default-replica-count", "1"), None),
        (setting("replica-replenishment-wait-interval", "600"), None),
        (
            setting("storage-network", "harvester-system/storagenetwork-x"),
            None,
        ),
        (
            setting("node-drain-policy", "allow-if-replica-is-stopped"),
            None,
        ),
        (setting("default-engine-image", ENGINE_IMAGE), None),
        (
            setting("no-such", "1"),
            Some("setting no-such does not exist"),
        ),
        // Of Longhorn 1.11, with Harvester 1.8.
        (
            setting("endpoint-network-for-rwx-volume", ""),
            Some("does not exist"),
        ),
        (
            setting("backup-target", "s3://backups@region/"),
            Some("setting backup-target does not exist"),
        ),
        (
            setting("storage-over-provisioning-percentage", "many"),
            Some("failed to parse single int value many"),
        ),
        (
            setting("priority-class", "longhorn-critical"),
            Some("priorityclass.scheduling.k8s.io \"longhorn-critical\" not found"),
        ),
        (job("0 3 * * *", 3), None),
        (job("every day", 3), Some("invalid cron format(every day)")),
        (
            job("0 3 * * *", 300),
            Some("retain value should be less than or equal to 100"),
        ),
        (image(1, url.clone()), None),
        (image(0, url), None),
        (
            image(1, json!({})),
            Some("invalid parameter map[] for source type download"),
        ),
        (node(json!({})), None),
        (node(disk("filesystem")), None),
        (
            node(disk("block")),
            Some("is not supported since v2 data engine is disabled"),
        ),
        (target("nfs://192.0.2.10:/backups"), None),
        (target("s3://backups@region/"), None),
    ] {
        let answer = refusal_of_creation(&client, &object).await;
        match (&answer, refused) {
            (None, None) => {}
            (Some((422, words)), Some(why)) if words.contains(why) => {}
            _ => panic!("{object}: {answer:?}"),
        }
    }
}

/// Longhorn's settings that a volume needs, as its manager makes them at its start.
async fn make_settings(client: &Client) {
    for (name, value) in [
        ("default-engine-image", ENGINE_IMAGE),
        ("backup-compression-method", "lz4"),
        ("default-data-locality", "disabled"),
        ("snapshot-max-count", "250"),
    ] {
        create(&all(client, "Setting"), setting(name, value)).await;
    }
}

/// The engine image of the settings, which is deployed nowhere yet.
async fn make_engine_image(client: &Client) {
    let engine = object(
        "EngineImage",
        "ei-1",
        json!({"spec": {"image": ENGINE_IMAGE}}),
    );
    create(&all(client, "EngineImage"), engine).await;
}

/// Longhorn's manager makes it at its start, without a URL.
async fn make_backup_target(client: &Client) {
    create(&all(client, "BackupTarget"), target("")).await;
}

/// Waits until the webhook refuses the volume with `words`. Until it has heard of the last object, it says `before`.
async fn refused_with(client: &Client, words: &str, before: &str) {
    eventually(words, DEADLINE, async || {
        let (code, said) = refusal_of_creation(client, &volume()).await?;
        assert_eq!(code, 422, "{said}");
        assert!(said.contains(words) || said.contains(before), "{said}");
        said.contains(words).then_some(())
    })
    .await;
}

/// Waits until the webhook accepts the volume.
async fn accepted_after(client: &Client, before: &str) {
    eventually("the volume is accepted", DEADLINE, async || {
        let refused = refusal_of_creation(client, &volume()).await;
        let said = refused.as_ref().map_or(before, |(_, said)| said);
        assert!(said.contains(before), "{said}");
        refused.is_none().then_some(())
    })
    .await;
}

const NO_SETTING: &str = "invalid empty setting";
const NO_ENGINE: &str = "cannot find engine image by longhornio/longhorn-engine:v1.10.0";
const NO_TARGET: &str = "failed to get backup target default";

#[tokio::test]
async fn longhorn_refuses_a_volume_until_its_settings_engine_image_and_backup_target_exist() {
    let Some((_cluster, client, _own)) = cluster_with_the_webhook().await else {
        return;
    };
    refused_with(&client, NO_SETTING, NO_SETTING).await;
    make_settings(&client).await;
    refused_with(&client, NO_ENGINE, NO_SETTING).await;
    make_engine_image(&client).await;
    refused_with(&client, NO_TARGET, NO_ENGINE).await;
    make_backup_target(&client).await;
    accepted_after(&client, NO_TARGET).await;
}

#[tokio::test]
async fn longhorn_keeps_its_settings_and_a_node_whose_disks_it_has_not_seen() {
    let Some((_cluster, client, _own)) = cluster_with_the_webhook().await else {
        return;
    };
    let settings = all(&client, "Setting");
    let written = create(&settings, setting("default-replica-count", "1")).await;
    assert_eq!(written.data["value"], r#"{"v1":"1","v2":"1"}"#);
    create(&settings, setting("current-longhorn-version", "v1.10.0")).await;
    let dry = DeleteParams::default().dry_run();
    let (_, words) = refusal(settings.delete("default-replica-count", &dry))
        .await
        .unwrap();
    assert!(words.contains("can be modified but not deleted"), "{words}");
    let (_, words) = change(
        &settings,
        "current-longhorn-version",
        json!({"value": "v1.11.0"}),
    )
    .await
    .unwrap();
    assert!(words.contains("is read-only"), "{words}");

    let nodes = all(&client, "Node");
    create(&nodes, node(disk("filesystem"))).await;
    let tags = json!({"spec": {"tags": ["fast"]}});
    let (code, words) = change(&nodes, "n1", tags.clone()).await.unwrap();
    assert_eq!(code, 403);
    assert!(
        words.contains("spec and status of disks on node n1 are being syncing"),
        "{words}"
    );
    status(&nodes, "n1", json!({"diskStatus": {"one": {}}})).await;
    assert_eq!(change(&nodes, "n1", tags).await, None);
    let evicted = json!({"spec": {"evictionRequested": true}});
    let (_, words) = change(&nodes, "n1", evicted).await.unwrap();
    assert!(
        words.contains("need to disable scheduling on node n1"),
        "{words}"
    );
    assert!(refusal(nodes.delete("n1", &dry)).await.is_some());
}

#[tokio::test]
async fn longhorn_lets_an_orphan_go_and_never_the_last_good_replica() {
    let Some((_cluster, client, _own)) = cluster_with_the_webhook().await else {
        return;
    };
    let orphans = all(&client, "Orphan");
    let parameters =
        json!({"InstanceName": "data-e-0", "InstanceUUID": "u", "InstanceManager": "im-1"});
    let spec = json!({"nodeID": "n1", "orphanType": "engine-instance", "dataEngine": "v1", "parameters": parameters});
    create(
        &orphans,
        object("Orphan", "orphan-1", json!({"spec": spec})),
    )
    .await;
    let dry = DeleteParams::default().dry_run();
    assert_eq!(
        refusal(orphans.delete("orphan-1", &dry)).await,
        None,
        "Windrow's cure does that"
    );

    make_settings(&client).await;
    make_engine_image(&client).await;
    make_backup_target(&client).await;
    eventually("the volume is accepted", DEADLINE, async || {
        let refused = refusal_of_creation(&client, &volume()).await;
        refused.is_none().then_some(())
    })
    .await;
    create(&all(&client, "Volume"), volume()).await;
    let replicas = all(&client, "Replica");
    let replica = |name: &str, node: &str, healthy: &str| {
        let spec = json!({"volumeName": "data", "nodeID": node, "dataEngine": "v1", "healthyAt": healthy, "failedAt": ""});
        object("Replica", name, json!({"spec": spec}))
    };
    create(&replicas, replica("r-1", "n1", "2026-11-30T00:00:00Z")).await;
    let last = eventually("the last good one is kept", DEADLINE, async || {
        refusal(replicas.delete("r-1", &dry)).await
    });
    let (_, words) = last.await;
    assert!(
        words.contains("no other healthy replica available for volume data"),
        "{words}"
    );
    create(&replicas, replica("r-2", "n2", "")).await;
    assert!(refusal(replicas.delete("r-1", &dry)).await.is_some());
    assert_eq!(
        refusal(replicas.delete("r-2", &dry)).await,
        None,
        "it is not good"
    );
    create(&replicas, replica("r-3", "n3", "2026-11-30T00:00:00Z")).await;
    eventually("a good one may go", DEADLINE, async || {
        refusal(replicas.delete("r-1", &dry))
            .await
            .is_none()
            .then_some(())
    })
    .await;
}
