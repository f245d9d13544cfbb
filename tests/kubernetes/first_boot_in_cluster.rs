//! Level 4: the first boot of a Harvester node, with the platform's own code, beside Windrow and without it.
//!
//! Real are etcd, kube-apiserver, kube-controller-manager, kube-scheduler, Harvester's charts and the Helm that installs them, KubeVirt's
//! operator, API and controller, Harvester's webhook and its storage-network controller, and the program. The deploy controller is
//! that of `tests/cluster/node`. Rancher, the kubelet, Longhorn's manager and whereabouts are played. The steps come in the order of a
//! real node, each after two of RKE2's passes, so that every half-made state meets the manifests.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::pin::pin;

use futures::FutureExt as _;
use kube::Client;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::cluster::{KubeVirt, Spec};
use support::objects::{
    DEPLOYMENT, Gvk, KUBEVIRT, NODE, PLAN, POD, SETTING, VM, VOLUME, api, make, namespace, node,
    serve, serve_published, status,
};
use windrow_model::manifest::ReadLimits;
use windrow_model::manifest::extract::extract;
use windrow_simulate::{FIRST_VM, Setup};

use crate::staging::bootstrap::{Bootstrap, Cost};
use crate::staging::print as print_costs;
use crate::support;

const SYSTEM: &str = "harvester-system";
const LONGHORN: &str = "longhorn-system";
const LONGHORN_SETTING: Gvk = ("longhorn.io", "v1beta2", "Setting");
/// The command of virt-operator in Harvester's chart.
const VIRT_OPERATOR: &str = "virt-operator --port 8443 -v 2";
const NO_ADDRESS: &str = "IP allocation failure for Longhorn Pods";
const WAITS: &str = "waiting for all volumes detached: ";
const POOL: Gvk = ("whereabouts.cni.cncf.io", "v1alpha1", "IPPool");
/// The kinds that are there before Harvester's charts: those of RKE2's Multus and of Rancher, its monitoring and its logging.
const BEFORE: &[(Gvk, &str)] = &[
    (
        ("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition"),
        "Namespaced",
    ),
    (PLAN, "Namespaced"),
    (("management.cattle.io", "v3", "ManagedChart"), "Namespaced"),
    (("management.cattle.io", "v3", "Feature"), "Cluster"),
    (("cluster.x-k8s.io", "v1beta1", "Cluster"), "Namespaced"),
    (("cluster.x-k8s.io", "v1beta1", "Machine"), "Namespaced"),
    (("fleet.cattle.io", "v1alpha1", "Cluster"), "Namespaced"),
    (("logging.banzaicloud.io", "v1beta1", "Flow"), "Namespaced"),
    (
        ("logging.banzaicloud.io", "v1beta1", "Output"),
        "Namespaced",
    ),
    (
        ("logging.banzaicloud.io", "v1beta1", "ClusterFlow"),
        "Namespaced",
    ),
    (
        ("logging.banzaicloud.io", "v1beta1", "ClusterOutput"),
        "Namespaced",
    ),
    (
        ("monitoring.coreos.com", "v1", "PrometheusRule"),
        "Namespaced",
    ),
    (
        ("monitoring.coreos.com", "v1", "ServiceMonitor"),
        "Namespaced",
    ),
    (("monitoring.coreos.com", "v1", "Prometheus"), "Namespaced"),
    (
        ("monitoring.coreos.com", "v1", "Alertmanager"),
        "Namespaced",
    ),
];

/// The values that Harvester's installer gives the chart, as far as they matter here, and one replica of KubeVirt's programs.
fn values() -> Value {
    json!({
        "service": {"vip": {"enabled": true, "mode": "static", "ip": "192.0.2.10"}},
        "containers": {"apiserver": {"hciMode": true}},
        "rancherEmbedded": true,
        "longhorn": {"enabled": true},
        "kubevirt": {"spec": {"infra": {"replicas": 1}, "configuration": {"commonInstancetypesDeployment": {"enabled": false}}}},
        "kubevirt-operator": {"replicas": 1},
        "harvester-network-controller": {"enabled": true, "vipEnabled": true},
        "harvester-networkfs-manager": {"enabled": true},
        "harvester-node-disk-manager": {"enabled": true},
        "harvester-load-balancer": {"enabled": true},
        "kube-vip": {"enabled": true},
        "promote": {"clusterPodCIDR": "10.52.0.0/16", "clusterServiceCIDR": "10.53.0.0/16", "clusterDNS": "10.53.0.10"},
    })
}

/// The state after a step.
struct Moment {
    step: &'static str,
    /// Why each held file is held.
    held: BTreeMap<String, String>,
    /// Is the VM in the cluster?
    has_vm: bool,
    /// What was refused since the step before, in kube-apiserver's words.
    refused: usize,
}

/// A node during its first boot.
struct FirstBoot {
    node: Bootstrap,
    client: Client,
    pods: KubeVirt,
    moments: Vec<Moment>,
}

impl FirstBoot {
    async fn start(files: BTreeMap<String, String>, windrow: bool) -> Option<Self> {
        let spec = Spec {
            pods: true,
            ..Spec::with_controllers()
        };
        let node = Bootstrap::start_on(spec, files, windrow, Some("v1.8.2")).await?;
        let pods = node.cluster.kubevirt_of_chart(SYSTEM).await?;
        let client = node.client.clone();
        Some(Self {
            node,
            client,
            pods,
            moments: Vec::new(),
        })
    }

    /// Waits for something while the kubelet acts.
    async fn until<T>(&mut self, what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
        self.pods.until(what, look).await
    }

    /// Looks at the state after a step, once RKE2 has had two passes for it.
    async fn look(&mut self, step: &'static str) {
        let controller = &self.node.controller;
        let begun = controller.log().matches("pass begins").count();
        let ended = async || {
            let log = controller.log();
            (log.matches("pass ended").count() >= begun + 2).then_some(())
        };
        self.pods.until("two passes of RKE2", ended).await;
        let vms = api(&self.client, VM, "orchard").get_opt("registry").await;
        let told: usize = self.moments.iter().map(|moment| moment.refused).sum();
        let writes = self.node.cluster.writes().into_iter();
        let refused = writes.filter(|write| write.program == "deploy-controller" && !write.done());
        self.moments.push(Moment {
            step,
            held: self.node.held(),
            has_vm: vms.is_ok_and(|vm| vm.is_some()),
            refused: refused.count() - told,
        });
    }

    /// What RKE2's charts and Rancher bring, and what rancherd makes before Harvester.
    async fn before_harvester(&mut self) {
        let labels =
            json!({"kubernetes.io/os": "linux", "node-role.kubernetes.io/control-plane": "true"});
        node(&self.client, "n1", labels, json!([])).await;
        let room =
            json!({"status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}}});
        let nodes = api(&self.client, NODE, "");
        let (params, patch) = (PatchParams::default(), Patch::Merge(&room));
        nodes.patch_status("n1", &params, &patch).await.unwrap();
        for (gvk, scope) in BEFORE {
            match gvk.0 {
                "monitoring.coreos.com" => serve(&self.client, *gvk, scope).await,
                _ => serve_published(&self.client, *gvk, scope).await,
            }
        }
        for name in ["cattle-system", "cattle-monitoring-system", "fleet-local"] {
            namespace(&self.client, name).await;
        }
    }

    async fn install(&mut self, chart: &str, values: &Value) -> Option<()> {
        let installing = self.node.cluster.install_harvesters_chart(chart, values);
        let mut installing = pin!(installing.fuse());
        // Helm waits for the Jobs that are hooks of the chart.
        let installed = self.pods.until("the chart is installed", async || {
            installing.as_mut().now_or_never()
        });
        assert_eq!(installed.await?, Ok(()), "{chart}");
        Some(())
    }

    /// Pods with this command run from now on; waits until virt-operator has made this Deployment.
    async fn run(&mut self, command: &'static str, then: &str) {
        self.pods.run(command);
        let deployments = api(&self.client, DEPLOYMENT, SYSTEM);
        self.until(&format!("{then} is wanted"), async || {
            deployments.get_opt(then).await.unwrap()
        })
        .await;
    }

    /// Longhorn attaches the disk of the VM once its pod wants it.
    async fn attach(&mut self) {
        let pods = api(&self.client, POD, "orchard");
        let pods = pods.list(&ListParams::default()).await.unwrap();
        if pods.items.is_empty() {
            return;
        }
        let volume = json!({"metadata": {"name": "pvc-registry"}});
        make(&self.client, VOLUME, LONGHORN, volume).await;
        let attached = json!({"state": "attached", "currentNodeID": "n1"});
        let volumes = api(&self.client, VOLUME, LONGHORN);
        status(&volumes, "pvc-registry", attached).await;
    }

    /// Returns the condition of the Setting storage-network in the end.
    async fn boot(&mut self) -> Option<Value> {
        self.look("kube-apiserver answers").await;
        self.before_harvester().await;
        self.look("RKE2's charts and Rancher are there").await;

        self.install("harvester-crd", &json!({})).await?;
        let preset = Setup::preset_storage_network(FIRST_VM).unwrap();
        let setting = json!({"metadata": {"name": "storage-network"}, "value": preset});
        make(&self.client, SETTING, "", setting).await;
        for name in ["overcommit-config", "upgrade-config"] {
            let setting = json!({"metadata": {"name": name}, "value": ""});
            make(&self.client, SETTING, "", setting).await;
        }
        self.look("chart harvester-crd is installed").await;

        self.pods.run("harvester-cdi-namespace-modify");
        self.install("harvester", &values()).await?;
        self.look("chart harvester is installed").await;

        for container in ["apiserver", "harvester-webhook"] {
            self.pods.run(container);
        }
        let webhook = self.node.cluster.start_harvester_webhook()?;
        self.look("the pod of Harvester's webhook runs").await;

        self.pods.run(VIRT_OPERATOR);
        self.pods.run(KubeVirt::STRATEGY);
        let client = self.client.clone();
        let vms = api(&client, VM, "");
        self.until("VMs are served", async || {
            vms.list(&ListParams::default()).await.ok().map(drop)
        })
        .await;
        self.run(KubeVirt::STRATEGY, "virt-api").await;
        self.look("virt-operator has made KubeVirt's kinds").await;

        self.run("virt-api", "virt-controller").await;
        self.look("virt-api runs").await;

        for program in ["virt-controller", "virt-handler"] {
            self.pods.run(program);
        }
        let kubevirts = api(&client, KUBEVIRT, SYSTEM);
        self.until("KubeVirt is deployed", async || {
            let kubevirt = kubevirts.get("kubevirt").await.unwrap();
            (kubevirt.data["status"]["phase"] == "Deployed").then_some(())
        })
        .await;
        self.look("KubeVirt is deployed").await;

        webhook.registered(&client).await;
        self.look("Harvester's webhook is registered").await;

        self.attach().await;
        let network = json!({"metadata": {"name": "storage-network"}, "value": ""});
        make(&client, LONGHORN_SETTING, LONGHORN, network).await;
        let _controllers = self
            .node
            .cluster
            .harvester_controllers(&["storagenetwork"])?;
        let condition = self.storage_network_ends().await;
        self.look("Harvester has dealt with the storage network")
            .await;
        Some(condition)
    }

    /// Waits until Harvester has configured the storage network, or waits for volumes. Returns the condition of the Setting.
    async fn storage_network_ends(&mut self) -> Value {
        let client = self.client.clone();
        let wanted = self.storage_network_is(&["True", NO_ADDRESS, WAITS]).await;
        if wanted["message"] != NO_ADDRESS {
            return wanted;
        }
        // An address for the only instance manager.
        let id = format!("{LONGHORN}/instance-manager-1");
        let range = "198.51.100.0/24";
        let pool = json!({"metadata": {"name": range.replace('/', "-")}, "spec": {"range": range,
            "allocations": {"1": {"id": id, "podref": id}}}});
        make(&client, POOL, "kube-system", pool).await;
        self.storage_network_is(&["True", WAITS]).await
    }

    /// Waits until the condition of the Setting storage-network has one of these statuses, or its message begins with one.
    async fn storage_network_is(&mut self, words: &[&str]) -> Value {
        let settings = api(&self.client, SETTING, "");
        self.until("Harvester deals with the storage network", async || {
            let setting: DynamicObject = settings.get("storage-network").await.unwrap();
            let condition = &setting.data["status"]["conditions"][0];
            let is_one = |words: &&str| {
                let message = condition["message"].as_str().unwrap_or_default();
                condition["status"] == **words || message.starts_with(*words)
            };
            words.iter().any(is_one).then(|| condition.clone())
        })
        .await
    }
}

fn manifests() -> BTreeMap<String, String> {
    let found = extract("first.yaml", FIRST_VM, &ReadLimits::default()).files;
    let files = found.into_iter().map(|file| {
        let name = file.path.to_string();
        (name, String::from_utf8(file.content).unwrap())
    });
    files.collect()
}

/// What came of a boot.
struct Booted {
    moments: Vec<Moment>,
    /// The condition of the Setting storage-network.
    condition: Value,
    cost: Cost,
}

async fn boot(windrow: bool) -> Option<Booted> {
    let mut boot = FirstBoot::start(manifests(), windrow).await?;
    let condition = boot.boot().await?;
    Some(Booted {
        moments: boot.moments,
        condition,
        cost: boot.node.end().await,
    })
}

fn print(with: &Booted, without: &Booted) {
    let mut text = String::new();
    for (with, without) in with.moments.iter().zip(&without.moments) {
        let vm = |moment: &Moment| {
            if moment.has_vm {
                "the VM is there"
            } else {
                "no VM"
            }
        };
        let _ = writeln!(
            text,
            "{}\n    with Windrow: {} refused, {}",
            with.step,
            with.refused,
            vm(with)
        );
        for (file, why) in &with.held {
            let _ = writeln!(text, "        holds {file}: {why}");
        }
        let (refused, vm) = (without.refused, vm(without));
        let _ = writeln!(text, "    without:      {refused} refused, {vm}");
    }
    let _ = writeln!(
        text,
        "the storage network\n    with Windrow: {}\n    without:      {}",
        with.condition, without.condition
    );
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    print_costs(
        "a first boot with Harvester's own charts",
        &with.cost,
        &without.cost,
    );
}

/// Runs on request: it takes five minutes of processor time.
#[tokio::test]
async fn a_first_boot_with_the_platforms_own_code_needs_no_second_try() {
    const HELD: &str = "00-registry.yaml";
    if std::env::var_os("WINDROW_FIRST_BOOT").is_none() {
        return;
    }
    let (Some(with), Some(without)) = tokio::join!(boot(true), boot(false)) else {
        return;
    };
    print(&with, &without);
    let cost = &with.cost;
    assert_eq!((cost.failed, cost.repeated, cost.refused), (0, 0, 0));
    assert!(without.cost.failed > 0 && without.cost.refused > 0);

    // With Windrow the VM comes last, and everybody can read what it waits for.
    let (last, before) = with.moments.split_last().unwrap();
    assert!(last.has_vm && last.held.is_empty());
    let words = before.iter().map(|moment| {
        assert!(!moment.has_vm, "{}", moment.step);
        moment.held[HELD].split(['(', ':']).next().unwrap().trim()
    });
    let words: Vec<&str> = words.collect();
    let (unset, unconfigured) = words.split_at(2);
    for why in unset {
        assert_eq!(
            *why,
            "Harvester has not made the setting storage-network yet"
        );
    }
    for why in unconfigured {
        assert_eq!(*why, "Harvester has not configured the storage network yet");
    }
    assert_eq!(with.condition["status"], "True");
    // Without it the VM has its disk before Harvester comes to the storage network.
    assert_eq!(without.condition["status"], "False");
    let message = without.condition["message"].as_str().unwrap();
    assert!(message.starts_with(WAITS), "{message}");
}
