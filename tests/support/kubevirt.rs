//! A node for the machines of KubeVirt: the kubelet and virt-handler are played, since a machine cannot run here.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::objects::{NODE, POD, VMI, api, make, served};

const NAME: &str = "n1";

/// The node, on which machines of one namespace run.
pub(crate) struct MachinesNode {
    pods: Api<DynamicObject>,
    machines: Api<DynamicObject>,
    /// How often each machine that shuts down was looked at, by its UID.
    shuts_down: RefCell<BTreeMap<String, usize>>,
}

impl MachinesNode {
    pub(crate) async fn new(client: &Client, namespace: &str) -> Self {
        // virt-controller takes machines from a node whose virt-handler has been silent for five minutes.
        let node = json!({"metadata": {"name": NAME, "labels": {"kubevirt.io/schedulable": "true"},
            "annotations": {"kubevirt.io/heartbeat": "2099-01-01T00:00:00Z"}}});
        make(client, NODE, "", node).await;
        served(client, VMI).await;
        Self {
            pods: api(client, POD, namespace),
            machines: api(client, VMI, namespace),
            shuts_down: RefCell::default(),
        }
    }

    /// Lets the kubelet and virt-handler act once. A guest shuts down within this number of looks.
    pub(crate) async fn play(&self, looks: usize) {
        for pod in self.pods.list(&ListParams::default()).await.unwrap().items {
            play_kubelet(&self.pods, pod).await;
        }
        let machines = self.machines.list(&ListParams::default()).await.unwrap();
        for machine in machines.items {
            let phase = machine.data["status"]["phase"].as_str();
            let next = match phase.unwrap_or_default() {
                "Succeeded" | "Failed" => continue,
                _ if machine.metadata.deletion_timestamp.is_some() => {
                    let uid = machine.metadata.uid.unwrap();
                    let mut all = self.shuts_down.borrow_mut();
                    let looked = all.entry(uid).or_default();
                    *looked += 1;
                    if *looked < looks {
                        continue;
                    }
                    "Succeeded"
                }
                "Scheduled" => "Running",
                _ => continue,
            };
            let name = machine.metadata.name.unwrap();
            // Without the time of its phase Running, a machine that ends counts as a failed start.
            let times = &machine.data["status"]["phaseTransitionTimestamps"];
            let mut times = times.as_array().cloned().unwrap_or_default();
            let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            times.push(json!({"phase": next, "phaseTransitionTimestamp": now}));
            let status = json!({"phase": next, "phaseTransitionTimestamps": times});
            let next = Patch::Merge(json!({"status": status}));
            // It may be gone meanwhile.
            let _ = self
                .machines
                .patch(&name, &PatchParams::default(), &next)
                .await;
        }
    }
}

async fn play_kubelet(pods: &Api<DynamicObject>, pod: DynamicObject) {
    let name = pod.metadata.name.unwrap();
    // In each of these steps the pod may be gone meanwhile.
    if pod.metadata.deletion_timestamp.is_some() {
        let at_once = DeleteParams::default().grace_period(0);
        let _ = pods.delete(&name, &at_once).await;
        return;
    }
    if pod.data["spec"]["nodeName"].is_null() {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NAME}});
        let once = PostParams::default();
        let bound = pods.create_subresource::<Value, Value>("binding", &name, &once, &binding);
        let _ = bound.await;
    }
    if pod.data["status"]["phase"] != "Pending" {
        return;
    }
    let containers = pod.data["spec"]["containers"].as_array().unwrap().iter();
    let containers: Vec<Value> = containers
        .map(|container| {
            json!({"name": container["name"], "image": "", "imageID": "", "restartCount": 0,
                "ready": true, "state": {"running": {}}})
        })
        .collect();
    let runs = json!({"phase": "Running", "containerStatuses": containers,
        "conditions": [{"type": "Ready", "status": "True"}]});
    let runs = Patch::Merge(json!({"status": runs}));
    let _ = pods
        .patch_status(&name, &PatchParams::default(), &runs)
        .await;
}
