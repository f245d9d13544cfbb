//! A node during its first boot: the steps of the platform, and a look at the state after each.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use futures::FutureExt as _;
use kube::Client;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::answers::{Answers, items, text};
use crate::staging::bootstrap::{Bootstrap, Cost, Passes};
use crate::support::cluster::{KubeVirt, Spec};
use crate::support::first_boot::{ACCEPTED, FirstBoot, RecordedMoment, object_of, probes};
use crate::support::objects::{
    CHART, CLAIM, DEPLOYMENT, EVENT, Gvk, KUBEVIRT, NAMESPACE, NODE, PERSISTENT_VOLUME, PLAN, POD,
    SETTING, VM, VM_IMAGE, VOLUME, api, make, namespace, node, serve, serve_published, served,
    status,
};

const SYSTEM: &str = "harvester-system";
const LONGHORN: &str = "longhorn-system";
const LONGHORN_SETTING: Gvk = ("longhorn.io", "v1beta2", "Setting");
/// The command of virt-operator in Harvester's chart.
const VIRT_OPERATOR: &str = "virt-operator --port 8443 -v 2";
const NO_ADDRESS: &str = "IP allocation failure for Longhorn Pods";
pub(super) const WAITS: &str = "waiting for all volumes detached: ";
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
pub(super) struct Moment {
    pub(super) recorded: RecordedMoment,
    /// Files that are held only because kube-apiserver rejects them, though it would accept each of their objects.
    pub(super) needless: Vec<String>,
    /// How many of RKE2's writes were rejected since the step before.
    pub(super) refused: usize,
}

/// The result of a boot.
pub(super) struct Booted {
    pub(super) moments: Vec<Moment>,
    /// The condition of the Setting storage-network.
    pub(super) condition: Value,
    pub(super) cost: Cost,
    /// The same for each directory, by the prefix of its files.
    pub(super) costs: BTreeMap<&'static str, Cost>,
    /// RKE2's messages about each file that it could not apply.
    pub(super) failures: BTreeMap<String, BTreeSet<String>>,
    /// The missing dependencies of each held file in the end.
    pub(super) held: BTreeMap<String, Vec<String>>,
}

/// The node.
struct BootingNode {
    boot: &'static FirstBoot,
    windrow: bool,
    node: Bootstrap,
    client: Client,
    pods: KubeVirt,
    moments: Vec<Moment>,
    /// The files that were not applied at the last look, and those that were since then.
    missing: BTreeSet<String>,
    applied: Vec<String>,
}

/// Boots a node on these directories, with Windrow or without it; `None`, after one line, if the parts are not here.
pub(super) async fn boot(boot: &'static FirstBoot, windrow: bool) -> Option<Booted> {
    let spec = Spec {
        pods: true,
        ..Spec::with_controllers()
    };
    let files = boot.files();
    let missing = files.keys().cloned().collect();
    let node = Bootstrap::start_on(spec, files, windrow, Some("v1.8.2"), Passes::OnRequest).await?;
    let pods = node.cluster.kubevirt_of_chart(SYSTEM).await?;
    let mut booting = BootingNode {
        boot,
        windrow,
        client: node.client.clone(),
        node,
        pods,
        moments: Vec::new(),
        missing,
        applied: Vec::new(),
    };
    let condition = booting.boot().await?;
    Some(booting.end(condition).await)
}

impl BootingNode {
    /// Waits for something while the kubelet acts. With Windrow, RKE2 makes a pass for each look, so that it meets as many states as
    /// possible: a file that is applied already costs nothing there.
    async fn until<T>(&mut self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let controller = self.windrow.then_some(&self.node.controller);
        self.pods
            .until(what, async || {
                if let Some(controller) = controller {
                    controller.one_more_pass().await;
                }
                look().await
            })
            .await
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.node.says()).unwrap_or_default()
    }

    /// Waits until each reason for a hold in Windrow's status is true.
    async fn settle(&mut self) {
        if !self.windrow {
            return;
        }
        let client = self.client.clone();
        let node = &self.node;
        let mut last = Vec::new();
        let waiting = self.pods.until("Windrow's reasons are true", async || {
            let status: Value = serde_json::from_str(&node.says()).unwrap_or_default();
            let untrue = Answers::now(&client).await.untrue(&status).await;
            if untrue != last {
                eprintln!("{}: not true (yet): {untrue:#?}", self.boot.name);
                last.clone_from(&untrue);
            }
            untrue.is_empty().then_some(())
        });
        waiting.await;
    }

    /// RKE2 makes passes until one of them applies nothing new. The simulated parts act after each.
    async fn pass(&mut self) {
        for pass in 1.. {
            self.settle().await;
            self.node.controller.one_more_pass().await;
            self.play().await;
            let missing = self.node.missing().await;
            let new: Vec<String> = self.missing.difference(&missing).cloned().collect();
            let is_done = new.is_empty();
            self.applied.extend(new);
            self.missing = missing;
            if is_done && pass >= 2 {
                return;
            }
        }
    }

    /// The objects of a kind; none if the kind is not served.
    async fn list(&self, gvk: Gvk, namespace: &str) -> Vec<DynamicObject> {
        let objects = api(&self.client, gvk, namespace);
        let list = objects.list(&ListParams::default()).await;
        list.into_iter().flatten().collect()
    }

    /// Plays helm-controller, as far as a chart brings its namespace, the provisioner of the class `late`, and Harvester's download of
    /// images.
    async fn play(&self) {
        for image in self.list(VM_IMAGE, "").await {
            let namespace = image.metadata.namespace.unwrap();
            let images = api(&self.client, VM_IMAGE, &namespace);
            let imported = json!({"progress": 100, "conditions": [
                {"type": "Initialized", "status": "True"}, {"type": "Imported", "status": "True"}]});
            if image.data["status"]["progress"] != 100 {
                status(&images, &image.metadata.name.unwrap(), imported).await;
            }
        }
        for chart in self.list(CHART, "").await {
            let name = text(&chart.data["spec"]["targetNamespace"]);
            let namespaces = api(&self.client, NAMESPACE, "");
            if !name.is_empty() && namespaces.get_opt(&name).await.unwrap().is_none() {
                namespace(&self.client, &name).await;
            }
        }
        for claim in self.list(CLAIM, "").await {
            let spec = &claim.data["spec"];
            let name = claim.metadata.name.unwrap();
            let volumes = api(&self.client, PERSISTENT_VOLUME, "");
            if spec["storageClassName"] != "late" || volumes.get_opt(&name).await.unwrap().is_some()
            {
                continue;
            }
            let volume = json!({"metadata": {"name": name}, "spec": {
                "accessModes": spec["accessModes"], "storageClassName": "late",
                "capacity": spec["resources"]["requests"],
                "claimRef": {"namespace": claim.metadata.namespace, "name": name, "uid": claim.metadata.uid},
                "hostPath": {"path": "/none"}}});
            make(&self.client, PERSISTENT_VOLUME, "", volume).await;
        }
    }

    /// Looks at the state after a step, once RKE2 has applied what it can.
    async fn look(&mut self, step: &'static str) {
        self.pass().await;
        let refused: usize = self.moments.iter().map(|moment| moment.refused).sum();
        let writes = self.node.cluster.writes().into_iter();
        let of_rke2 = writes.filter(|write| write.program == "deploy-controller" && !write.done());
        let refused = of_rke2.count() - refused;
        let status = self.status();
        let answers = Answers::now(&self.client).await;
        let mut recorded = RecordedMoment {
            step: step.to_owned(),
            applied: std::mem::take(&mut self.applied),
            facts: answers.facts().await,
            ..RecordedMoment::default()
        };
        let held = items(&status["staging"]["held"]);
        recorded.held = held
            .map(|held| (text(&held["file"]), text(&held["why"])))
            .collect();
        let mut needless = Vec::new();
        if self.windrow {
            let objects = self.boot.objects();
            for (_, object, json) in &objects {
                let answer = answers.try_object(object, json).await;
                recorded.tried.insert(object.to_string(), answer);
            }
            for json in probes() {
                let object = object_of(&json);
                let answer = answers.try_object(&object, &json).await;
                recorded.tried.insert(object.to_string(), answer);
            }
            for held in items(&status["staging"]["held"]) {
                let file = text(&held["file"]);
                let mut of_file = objects.iter().filter(|(name, _, _)| *name == file);
                let is_inferred =
                    |blocker: &Value| text(&blocker["origin"]["rule"]).starts_with("inferred/");
                if items(&held["blockers"]).all(is_inferred)
                    && of_file.all(|(_, object, _)| recorded.tried[&object.to_string()] == ACCEPTED)
                {
                    needless.push(format!("{file}: {}", text(&held["why"])));
                }
            }
        }
        eprintln!("{} ({}): {step}", self.boot.name, self.windrow);
        self.moments.push(Moment {
            recorded,
            needless,
            refused,
        });
    }

    async fn end(self, condition: Value) -> Booted {
        let mut failures: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for event in self.list(EVENT, "kube-system").await {
            if text(&event.data["reason"]).ends_with("ManifestFailed") {
                let addon = text(&event.data["involvedObject"]["name"]);
                let message = text(&event.data["message"]);
                failures.entry(addon).or_default().insert(message);
            }
        }
        let mut costs = BTreeMap::new();
        for directory in self.boot.directories {
            costs.insert(directory.prefix, self.node.cost(directory.prefix).await);
        }
        let status = self.status();
        let held = items(&status["staging"]["held"]).map(|held| {
            let blockers = items(&held["blockers"]);
            let waits = blockers.map(|blocker| text(&blocker["what"])).collect();
            (text(&held["file"]), waits)
        });
        Booted {
            condition,
            cost: self.node.cost("").await,
            costs,
            failures,
            held: held.collect(),
            moments: self.moments,
        }
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

    /// Longhorn attaches the disk of a VM once its pod wants it.
    async fn attach(&mut self) {
        let pods = ListParams::default().labels("kubevirt.io=virt-launcher");
        let pods = api(&self.client, POD, "").list(&pods).await.unwrap();
        for pod in pods {
            let vm = text(&json!(pod.metadata.labels)["vm.kubevirt.io/name"]);
            let name = format!("pvc-{vm}");
            make(
                &self.client,
                VOLUME,
                LONGHORN,
                json!({"metadata": {"name": name}}),
            )
            .await;
            let attached = json!({"state": "attached", "currentNodeID": "n1"});
            status(&api(&self.client, VOLUME, LONGHORN), &name, attached).await;
        }
    }

    /// Returns the condition of the Setting storage-network in the end.
    async fn boot(&mut self) -> Option<Value> {
        self.look("kube-apiserver answers").await;
        self.before_harvester().await;
        self.look("RKE2's charts and Rancher are there").await;

        self.install("harvester-crd", &json!({})).await?;
        served(&self.client, SETTING).await;
        let preset = self.boot.storage_network;
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
