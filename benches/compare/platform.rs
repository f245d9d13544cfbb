//! Plays Harvester by the clock: what a first virtual machine needs comes in three steps.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::support::cluster::{DEADLINE, eventually};
use crate::support::objects::{self, Gvk};

/// When its kinds are served, when its settings and KubeVirt are there, and when all of it works; from the first apply on. A real one
/// takes ten times as long; who applies what too early does so all the same.
const STEPS: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(25),
    Duration::from_secs(40),
];

const NETWORK: &str = "network.harvesterhci.io";
const ENDPOINTS: Gvk = ("", "v1", "Endpoints");
const SERVICE: Gvk = ("", "v1", "Service");
const IMAGE: Gvk = ("harvesterhci.io", "v1beta1", "VirtualMachineImage");

/// Does its steps, and says when the last one was done: no machine should be there before.
pub(crate) async fn harvester(client: Client, began: Instant) -> Timestamp {
    let client = &client;
    sleep_until(began + STEPS[0]).await;
    let kinds = [
        (objects::SETTING, "Cluster"),
        (IMAGE, "Namespaced"),
        ((NETWORK, "v1beta1", "ClusterNetwork"), "Cluster"),
        ((NETWORK, "v1beta1", "VlanConfig"), "Cluster"),
        (
            ("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition"),
            "Namespaced",
        ),
        (objects::KUBEVIRT, "Namespaced"),
        (objects::VM, "Namespaced"),
    ];
    for (kind, scope) in kinds {
        objects::serve(client, kind, scope).await;
    }
    let system = "harvester-system";
    make(
        client,
        objects::NAMESPACE,
        "",
        json!({"metadata": {"name": system}}),
    )
    .await;

    sleep_until(began + STEPS[1]).await;
    let preset = r#"{"vlan":220,"clusterNetwork":"uplink","range":"198.51.100.0/24"}"#;
    let setting = json!({"metadata": {"name": "storage-network"}, "value": preset});
    make(client, objects::SETTING, "", setting).await;
    make(
        client,
        objects::KUBEVIRT,
        system,
        json!({"metadata": {"name": "kubevirt"}}),
    )
    .await;
    let validator = json!({"metadata": {"name": "harvester-validator"}, "webhooks": []});
    make(client, objects::VALIDATION, "", validator).await;
    let webhook =
        json!({"metadata": {"name": "harvester-webhook"}, "spec": {"ports": [{"port": 443}]}});
    make(client, SERVICE, system, webhook).await;

    sleep_until(began + STEPS[2]).await;
    let answers = json!({"metadata": {"name": "harvester-webhook"},
        "subsets": [{"addresses": [{"ip": "10.52.0.9"}], "ports": [{"port": 9443}]}]});
    make(client, ENDPOINTS, system, answers).await;
    let deployed = json!({"phase": "Deployed"});
    objects::status(
        &objects::api(client, objects::KUBEVIRT, system),
        "kubevirt",
        deployed,
    )
    .await;
    let configured = json!({"conditions": [
        {"type": "configured", "status": "True", "reason": "Completed"}]});
    objects::status(
        &objects::api(client, objects::SETTING, ""),
        "storage-network",
        configured,
    )
    .await;
    let ready = Timestamp::now();

    let images = objects::api(client, IMAGE, "orchard");
    eventually("the image is there", DEADLINE, async || {
        images.get_opt("bookworm").await.ok().flatten()
    })
    .await;
    let imported = json!({"progress": 100, "conditions": [{"type": "Imported", "status": "True"}]});
    objects::status(&images, "bookworm", imported).await;
    ready
}

async fn make(client: &Client, kind: Gvk, namespace: &str, object: serde_json::Value) {
    objects::make(client, kind, namespace, object).await;
}
