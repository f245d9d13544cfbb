//! Machines that keep Harvester from making its Setting: KubeVirt's own virt-controller stops and starts them.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::cell::Cell;

use kube::api::{Api, DeleteParams, DynamicObject};
use serde_json::json;
use support::cluster::{Cluster, Spec};
use support::objects::{Gvk, POD, SETTING, VM, api, make, namespace, serve_published};

use super::{Incident, Site};
use crate::repair_in_cluster::crash_harvester;
use crate::support;
use crate::virt_controller::{MACHINES, Machines};

/// A machine takes so long to shut down that a successor meets it there.
const SHUTDOWN: usize = 15;
const BLOCKED: &str = "storage-network";

struct BlockedSetting {
    machines: Machines,
    settings: Api<DynamicObject>,
    /// An operator has decided about the first machine, which was off.
    is_decided: Cell<bool>,
}

impl BlockedSetting {
    async fn install(cluster: &Cluster) -> Option<Self> {
        let machines = Machines::install(cluster).await?;
        let client = &machines.client;
        serve_published(client, SETTING, "Cluster").await;
        namespace(client, "harvester-system").await;
        let pod = json!({"metadata": {"name": "harvester-1", "labels": {
                "app.kubernetes.io/name": "harvester", "app.kubernetes.io/component": "apiserver"}},
            "spec": {"containers": [{"name": "apiserver", "image": "rancher/harvester:v1.4.3"}]}});
        make(client, POD, "harvester-system", pod).await;
        crash_harvester(client).await;
        Some(Self {
            settings: api(client, SETTING, ""),
            is_decided: Cell::new(false),
            machines,
        })
    }
}

impl Incident for BlockedSetting {
    const CODE: &'static str = "machines-block-settings";

    async fn rebuild(&self) {
        let gone = DeleteParams::default();
        let _ = self.settings.delete(BLOCKED, &gone).await;
        self.is_decided.set(false);
        self.machines.renew().await;
    }

    async fn play(&self) {
        self.machines.node.play(SHUTDOWN).await;
        // Harvester makes its settings once its webhook allows it.
        for (name, _) in MACHINES {
            if self.machines.status(name).await != "Stopped" {
                return;
            }
        }
        if !self.is_cured().await {
            let setting = json!({"metadata": {"name": BLOCKED}});
            make(&self.machines.client, SETTING, "", setting).await;
        }
    }

    fn labelled(&self) -> (Gvk, &str, &str) {
        (VM, "default", MACHINES[1].0)
    }

    async fn decide_by_operator(&self) {
        let first = MACHINES[0].0;
        if self.machines.strategy(first).await == "Halted" {
            self.machines.set_strategy(first, "Manual").await;
            self.is_decided.set(true);
        }
    }

    async fn fault(&self) -> Option<String> {
        for (number, (name, before)) in MACHINES.into_iter().enumerate() {
            let is_decided = number == 0 && self.is_decided.get();
            let expected = if is_decided { "Manual" } else { before };
            let strategy = self.machines.strategy(name).await;
            let status = self.machines.status(name).await;
            if strategy != expected {
                return Some(format!(
                    "{name} has {strategy}, not {expected}; it is {status}"
                ));
            }
            if !is_decided && status != "Running" {
                return Some(format!("{name} has {strategy} and is {status}"));
            }
        }
        None
    }

    async fn is_cured(&self) -> bool {
        self.settings.get_opt(BLOCKED).await.unwrap().is_some()
    }
}

#[tokio::test]
async fn machines_run_again_whoever_goes_on_with_a_repair_that_ended_at_any_request() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let Some(incident) = BlockedSetting::install(&cluster).await else {
        return;
    };
    let site = Site::new(&cluster, incident).await;
    assert_eq!(site.play_cases(0..4).await, [""; 0]);
}
