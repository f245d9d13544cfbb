//! Level 4: KubeVirt's own virt-controller stops and starts machines. A repair that stops machines for a while has to respect
//! what is stated here.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject};
use serde_json::{Value, json};
use support::cluster::{Cluster, DEADLINE, Spec, VirtController, Who, eventually};
use support::kubevirt::MachinesNode;
use support::objects::{VM, VMI, api, create, field, patch};

use crate::support;

/// Each machine with its strategy.
pub(crate) const MACHINES: [(&str, &str); 2] = [("db", "RerunOnFailure"), ("web", "Always")];

/// Machines under the real virt-controller, on a node that is played.
pub(crate) struct Machines {
    pub(crate) client: Client,
    pub(crate) vms: Api<DynamicObject>,
    pub(crate) node: MachinesNode,
    running: Api<DynamicObject>,
    _virt_controller: VirtController,
}

impl Machines {
    /// Installs KubeVirt; `None`, after one line, if it is not built.
    pub(crate) async fn install(cluster: &Cluster) -> Option<Self> {
        let client = cluster.client(Who::Admin).await;
        let virt_controller = cluster.virt_controller().await?;
        Some(Self {
            vms: api(&client, VM, "default"),
            node: MachinesNode::new(&client, "default").await,
            running: api(&client, VMI, "default"),
            client,
            _virt_controller: virt_controller,
        })
    }

    pub(crate) async fn status(&self, name: &str) -> Value {
        field(&self.vms, name, "/status/printableStatus").await
    }

    pub(crate) async fn strategy(&self, name: &str) -> Value {
        field(&self.vms, name, "/spec/runStrategy").await
    }

    pub(crate) async fn set_strategy(&self, name: &str, strategy: &str) {
        let spec = json!({"spec": {"runStrategy": strategy}});
        patch(&self.client, VM, "default", name, spec).await;
    }

    /// Waits until a machine has this status.
    async fn becomes(&self, name: &str, status: &str) {
        eventually(&format!("{name} is {status}"), DEADLINE, async || {
            self.node.play(0).await;
            (self.status(name).await == status).then_some(())
        })
        .await;
    }

    /// Makes new machines in place of all others, and waits until they run.
    pub(crate) async fn renew(&self) {
        for (name, _) in MACHINES {
            let _ = self.vms.delete(name, &DeleteParams::default()).await;
        }
        eventually("the machines are gone", DEADLINE, async || {
            self.node.play(0).await;
            let vms = self.vms.list(&Default::default()).await.unwrap();
            let running = self.running.list(&Default::default()).await.unwrap();
            (vms.items.is_empty() && running.items.is_empty()).then_some(())
        })
        .await;
        for (name, strategy) in MACHINES {
            let vm = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
                "metadata": {"name": name}, "spec": {"runStrategy": strategy,
                    "template": {"spec": {"terminationGracePeriodSeconds": 0,
                        "domain": {"devices": {}, "memory": {"guest": "64Mi"}}}}}});
            create(&self.vms, vm).await;
        }
        for (name, _) in MACHINES {
            self.becomes(name, "Running").await;
        }
    }
}

#[tokio::test]
async fn a_machine_stays_off_if_its_strategy_comes_back_while_it_shuts_down() {
    let Some(cluster) = Cluster::start(Spec::default()).await else {
        return;
    };
    let Some(machines) = Machines::install(&cluster).await else {
        return;
    };
    machines.renew().await;
    let (name, before) = MACHINES[0];
    // virt-controller has seen a strategy once it is in the status.
    let set = async |strategy: &str| {
        machines.set_strategy(name, strategy).await;
        eventually("virt-controller has seen it", DEADLINE, async || {
            let status = field(&machines.vms, name, "/status/runStrategy").await;
            (status == strategy).then_some(())
        })
        .await;
    };
    set("Halted").await;
    eventually("it shuts down", DEADLINE, async || {
        let running = machines.running.get(name).await.unwrap();
        running.metadata.deletion_timestamp
    })
    .await;
    set(before).await;
    // virt-controller calls it Stopped while its instance is still there.
    machines.becomes(name, "Stopped").await;
    eventually("its instance is gone", DEADLINE, async || {
        let created = field(&machines.vms, name, "/status/created").await;
        (created != true).then_some(())
    })
    .await;
    assert!(machines.running.get_opt(name).await.unwrap().is_none());
    assert_eq!(machines.strategy(name).await, before);

    // A strategy that comes back after the shutdown starts it.
    set("Halted").await;
    set(before).await;
    machines.becomes(name, "Running").await;
}
