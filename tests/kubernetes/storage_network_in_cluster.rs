//! Level 4: a storage network with Harvester's own controller and webhook, from unset to configured, and what Windrow says of each
//! state. Longhorn and whereabouts are played.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, eventually};
use support::objects::{
    Gvk, NODE, SETTING, VM, VOLUME, api, create, field, make, namespace, patch, serve,
    serve_published, status,
};
use windrow::observe::objects::diagnosed;
use windrow_harvester::health::storage_network;
use windrow_model::manifest::ObjectRef;
use windrow_plan::readiness::node::ProbeOutcome;
use windrow_simulate::{Setup, without_windrow};

use crate::harvester_webhook_in_cluster::change;
use crate::support;

const LONGHORN: &str = "longhorn-system";
const NETWORK: &str = r#"{"vlan":220,"clusterNetwork":"mgmt","range":"198.51.100.0/28"}"#;
const LONGHORN_SETTING: Gvk = ("longhorn.io", "v1beta2", "Setting");
const POOL: Gvk = ("whereabouts.cni.cncf.io", "v1alpha1", "IPPool");
/// What the controller lists besides the kinds of the webhook.
const LISTED: [Gvk; 4] = [
    LONGHORN_SETTING,
    POOL,
    ("monitoring.coreos.com", "v1", "Prometheus"),
    ("monitoring.coreos.com", "v1", "Alertmanager"),
];
const WAITS: &str = "waiting for all volumes detached: ";
const NO_ADDRESS: &str = "IP allocation failure for Longhorn Pods";
const STOP_VMS: &str = "Please stop all VMs before configuring the storage-network setting";

/// The Setting, and each state of its condition since the watch began.
struct StorageNetwork {
    client: Client,
    settings: Api<DynamicObject>,
    states: Arc<Mutex<Vec<String>>>,
}

fn record(states: &mut Vec<String>, setting: &DynamicObject) {
    let condition = &setting.data["status"]["conditions"][0];
    let state = match condition["status"].as_str().unwrap_or("none") {
        "False" => condition["message"].as_str().unwrap(),
        other => other,
    };
    if states.last().is_none_or(|last| last != state) {
        states.push(state.to_owned());
    }
}

impl Drop for StorageNetwork {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("states that no step expected: {:?}", self.states);
        }
    }
}

impl StorageNetwork {
    /// Records the states of the Setting's condition: its status, or its message while it is False.
    async fn watch(client: &Client) -> Self {
        let settings = api(client, SETTING, "");
        let states = Arc::new(Mutex::new(Vec::new()));
        let name = "metadata.name=storage-network";
        let own = ListParams::default().fields(name);
        let listed = settings.list(&own).await.unwrap();
        record(&mut states.lock().unwrap(), &listed.items[0]);
        let since = listed.metadata.resource_version.unwrap();
        let own = WatchParams::default().fields(name);
        let mut changes = settings.watch(&own, &since).await.unwrap().boxed();
        let seen = states.clone();
        tokio::spawn(async move {
            while let Some(change) = changes.next().await {
                match change.unwrap() {
                    WatchEvent::Modified(setting) => record(&mut seen.lock().unwrap(), &setting),
                    WatchEvent::Error(error) => panic!("{error:?}"),
                    _ => {}
                }
            }
        });
        Self {
            client: client.clone(),
            settings,
            states,
        }
    }

    /// Waits for a state, and returns those before it since the last call.
    async fn reaches(&self, state: &str) -> Vec<String> {
        eventually(
            &format!("the storage network is at {state:?}"),
            DEADLINE,
            async || {
                let mut states = self.states.lock().unwrap();
                let at = states.iter().position(|one| one == state)?;
                let mut before: Vec<String> = states.drain(..=at).collect();
                before.pop();
                Some(before)
            },
        )
        .await
    }

    /// What Windrow's probe says of the Setting as it is now.
    async fn probed(&self) -> ProbeOutcome {
        let setting = self.settings.get("storage-network").await.unwrap();
        storage_network(&serde_json::to_value(setting).unwrap())
    }

    async fn incidents(&self) -> Vec<String> {
        let later = Timestamp::now() + SignedDuration::from_mins(11);
        let found = diagnosed(&self.client, later).await;
        found
            .findings
            .iter()
            .map(|one| one.code.to_string())
            .collect()
    }

    async fn is_refused_with(&self, value: &str, words: &str) {
        let (_, said) = eventually("the webhook refuses the change", DEADLINE, async || {
            change(&self.settings, "storage-network", json!({"value": value})).await
        })
        .await;
        assert!(said.contains(words), "{said}");
    }

    async fn set(&self, value: &str) {
        // What the webhook read of VMs and volumes may be older than they are.
        eventually("the webhook accepts the change", DEADLINE, async || {
            change(&self.settings, "storage-network", json!({"value": value}))
                .await
                .is_none()
                .then_some(())
        })
        .await;
        patch(
            &self.client,
            SETTING,
            "",
            "storage-network",
            json!({"value": value}),
        )
        .await;
    }
}

async fn furnish(client: &Client) {
    namespace(client, LONGHORN).await;
    namespace(client, "harvester-system").await;
    let nodes = api(client, NODE, "");
    for name in ["n1", "n2"] {
        create(
            &nodes,
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}),
        )
        .await;
    }
    let network = json!({"metadata": {"name": "storage-network"}, "value": ""});
    make(client, LONGHORN_SETTING, LONGHORN, network).await;
    // The webhook's mutator of VMs reads it.
    let overcommit = json!({"metadata": {"name": "overcommit-config"}, "value": ""});
    make(client, SETTING, "", overcommit).await;
    let vm = json!({"metadata": {"name": "db"}, "spec": {"runStrategy": "RerunOnFailure", "template": {"spec": {
        "terminationGracePeriodSeconds": 1, "domain": {"devices": {}, "memory": {"guest": "64Mi"},
            "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}}}}});
    make(client, VM, "default", vm).await;
    status(
        &api(client, VM, "default"),
        "db",
        json!({"printableStatus": "Running"}),
    )
    .await;
    make(
        client,
        VOLUME,
        LONGHORN,
        json!({"metadata": {"name": "pvc-1"}}),
    )
    .await;
    let attached = json!({"state": "attached", "currentNodeID": "n1"});
    status(&api(client, VOLUME, LONGHORN), "pvc-1", attached).await;
}

/// Whereabouts has given this many addresses of the range.
async fn allocate(client: &Client, addresses: usize) {
    let allocation = |index: usize| {
        let pod = format!("longhorn-system/instance-manager-{index}");
        ((index + 1).to_string(), json!({"id": pod, "podref": pod}))
    };
    let allocations: serde_json::Map<String, Value> = (0..addresses).map(allocation).collect();
    let spec = json!({"range": "198.51.100.0/28", "allocations": allocations});
    patch(
        client,
        POOL,
        "kube-system",
        "198.51.100.0-28",
        json!({"spec": spec}),
    )
    .await;
}

/// What the Setting's condition says in the end where the simulation boots with a preset storage network and a VM.
fn simulated() -> Vec<Value> {
    let start = "2026-11-21T20:00:00Z".parse().unwrap();
    let setup = Setup::first_vm(start);
    let setting = ObjectRef::cluster("harvesterhci.io", "Setting", "storage-network");
    let runs = (1..=20).map(|seed| without_windrow(&setup, seed));
    runs.map(|run| run.cluster.get(&setting).unwrap()["status"]["conditions"][0].clone())
        .collect()
}

#[tokio::test]
async fn windrow_reads_each_state_of_a_storage_network_as_harvesters_own_controller_writes_it() {
    let Some((cluster, client)) = Cluster::with_its_admin().await else {
        return;
    };
    cluster.serve_kinds_of_harvesters_webhook().await;
    for gvk in LISTED {
        match gvk.0 {
            "monitoring.coreos.com" => serve(&client, gvk, "Namespaced").await,
            _ => serve_published(&client, gvk, "Namespaced").await,
        }
    }
    furnish(&client).await;
    // As rancherd writes it before there is a webhook.
    let preset = json!({"metadata": {"name": "storage-network"}, "value": NETWORK});
    make(&client, SETTING, "", preset).await;
    let network = StorageNetwork::watch(&client).await;
    assert!(
        matches!(network.probed().await, ProbeOutcome::Failed { .. }),
        "no condition yet"
    );
    let Some(_controllers) = cluster.harvester_controllers(&["storagenetwork"]) else {
        return;
    };

    // Preset, while the VM has its disk attached: Harvester counts any state but detached.
    let waits = format!("{WAITS}pvc-1");
    assert_eq!(network.reaches(&waits).await, ["none", "create NAD"]);
    assert!(matches!(
        network.probed().await,
        ProbeOutcome::Failed { .. }
    ));
    assert_eq!(network.incidents().await, ["storage-network-waits"]);
    let condition = field(&network.settings, "storage-network", "/status/conditions/0").await;
    let volumes = api(&client, VOLUME, LONGHORN);
    status(&volumes, "pvc-1", json!({"state": "detaching"})).await;
    assert_eq!(network.incidents().await, ["storage-network-waits"]);

    let Some(_webhook) = cluster.harvester_webhook().await else {
        return;
    };
    network
        .is_refused_with(
            &NETWORK.replace("220", "221"),
            "it is still being configured",
        )
        .await;
    network.is_refused_with("", STOP_VMS).await;

    // Detached: Longhorn gets the network, and its pods want addresses.
    status(&volumes, "pvc-1", json!({"state": "detached"})).await;
    let steps = network.reaches(NO_ADDRESS).await;
    assert_eq!(steps, ["Update Longhorn setting"]);
    let pool = json!({"metadata": {"name": "198.51.100.0-28"}, "spec": {"range": "198.51.100.0/28", "allocations": {}}});
    make(&client, POOL, "kube-system", pool).await;
    allocate(&client, 1).await;
    let ProbeOutcome::Failed { why, .. } = network.probed().await else {
        panic!("one address for two nodes is too few");
    };
    assert_eq!(why, format!("In Progress: {NO_ADDRESS}"));
    assert_eq!(network.incidents().await, ["storage-network-waits"]);
    allocate(&client, 2).await;
    assert_eq!(network.reaches("True").await, [""; 0]);
    assert_eq!(network.probed().await, ProbeOutcome::Passed);
    assert_eq!(network.incidents().await, [""; 0]);
    let configured = field(&network.settings, "storage-network", "/status/conditions/0").await;

    // A VM that is not stopped keeps it as it is.
    network.is_refused_with("", STOP_VMS).await;
    let halted = json!({"spec": {"runStrategy": "Halted"}});
    patch(&client, VM, "default", "db", halted).await;
    status(
        &api(&client, VM, "default"),
        "db",
        json!({"printableStatus": "Stopped"}),
    )
    .await;
    network.set("").await;
    // The probe asks for nothing then, although Harvester still has work with it.
    assert_eq!(network.probed().await, ProbeOutcome::Passed);
    network.reaches("create NAD").await;
    assert_eq!(network.reaches("True").await, ["Update Longhorn setting"]);
    let longhorn = api(&client, LONGHORN_SETTING, LONGHORN);
    assert_eq!(field(&longhorn, "storage-network", "/value").await, "");

    // The simulation ends with the same conditions, whichever is first.
    let mut seen = [false; 2];
    for simulated in simulated() {
        let is_configured = simulated["status"] == "True";
        let real = if is_configured {
            &configured
        } else {
            &condition
        };
        assert_eq!(simulated["reason"], real["reason"]);
        assert_eq!(simulated["status"], real["status"]);
        let message = simulated["message"].as_str().unwrap_or_default();
        assert!(is_configured || message.starts_with(WAITS), "{message}");
        seen[usize::from(is_configured)] = true;
    }
    assert_eq!(seen, [true; 2]);
}
