//! The platform's own bootstrap: its order, and the points at which Harvester's start can get stuck.
//!
//! ```text
//!   RKE2's charts ── Rancher ── Harvester's CRDs ── KubeVirt, webhook ── pod creates the Settings that are missing
//!                                                                           │ before v1.5.1: storage-network is missing,
//!                                                                           │ and a machine is not Stopped
//!                                                                           v
//!                                                          refused: crash, back-off, once more
//! ```
//! The part of rancherd is in `rancherd.rs`: with it, a preset `storage-network` already exists when the pod starts. The effect
//! of its value is in `storage_network.rs`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use smol_str::SmolStr;
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::ObjectRef;
use windrow_plan::knowledge::{Brings, NodeFacts};

use super::cluster::{SimulatedCluster, StorageNetworkGuard};
use super::literals::{self, static_json};
use super::log::HappeningKind;
use super::operators;
use super::platform_steps::{BootstrapStep, HARVESTER, RKE2, StepEffect};
use super::rancherd::Rancherd;
use super::scenario::Scenario;
use super::storage_network::{self, StorageNetwork};
use super::timer::{RancherdStep, Timer};
use super::times;

/// Harvester, or RKE2 only.
#[derive(Debug, Clone)]
pub(super) struct PlatformBootstrap {
    harvester: Option<HarvesterVersion>,
    node: NodeFacts,
    storage_network: StorageNetwork,
    refusals: u32,
    /// The cluster's revision at the last rejection: as long as it stays, the next attempt is rejected too.
    refused_at: Option<u64>,
    up: bool,
    rancherd: Rancherd,
}

impl PlatformBootstrap {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let preset = scenario.storage_network.as_deref().unwrap_or_default();
        Self {
            harvester: scenario.harvester,
            node: scenario.node.clone(),
            storage_network: StorageNetwork::new(preset, &scenario.name, scenario.harvester),
            refusals: 0,
            refused_at: None,
            up: scenario.harvester.is_none(),
            rancherd: Rancherd::new(preset),
        }
    }

    fn steps(&self) -> &'static [BootstrapStep] {
        match self.harvester {
            Some(_) => HARVESTER,
            None => RKE2,
        }
    }

    /// Schedules every step, each after the previous one.
    pub(super) fn begin(&self, cluster: &mut SimulatedCluster) {
        if self.harvester.is_some() {
            cluster.after(times::PROBES, Timer::Rancherd(RancherdStep::Probes));
        }
        let mut late = Duration::ZERO;
        for (number, step) in self.steps().iter().enumerate() {
            late += cluster.chance.between(times::STEP_LATE);
            cluster.after(step.after + late, Timer::Step(number));
        }
    }

    pub(super) fn step(&mut self, number: usize, cluster: &mut SimulatedCluster) {
        let Some(step) = self.steps().get(number) else {
            return;
        };
        cluster.record(HappeningKind::Platform {
            step: SmolStr::new_static(step.says),
        });
        for entry in step.brings.entries(&self.node) {
            bring(&entry.brings, cluster);
        }
        match step.then {
            StepEffect::Nothing => {}
            StepEffect::Rancher => {
                let version = self.harvester.unwrap_or(HarvesterVersion::LATEST);
                operators::rancher(cluster, version);
                let webhook = Timer::Rancherd(RancherdStep::Rancher);
                cluster.after(times::RANCHER_WEBHOOK, webhook);
            }
            StepEffect::Objects => {
                objects(cluster);
                self.rancherd.platform_came(cluster);
            }
            StepEffect::KubeVirtBegins => kubevirt(cluster, "Deploying"),
            StepEffect::KubeVirt => kubevirt(cluster, "Deployed"),
            StepEffect::Webhook => self.webhook(cluster),
            StepEffect::Pod => {
                deployment(cluster, "harvester");
                cluster.within(times::SET_ALL, Timer::SetAll);
            }
        }
    }

    fn webhook(&self, cluster: &mut SimulatedCluster) {
        let version = self.harvester.unwrap_or(HarvesterVersion::LATEST);
        cluster.guard = Some(StorageNetworkGuard {
            even_when_empty: version.checks_empty(),
        });
        deployment(cluster, "harvester-webhook");
        cluster.put(
            literals::object(
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration",
                None,
                "harvester-validator",
            ),
            static_json!({"apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration", "webhooks": []}),
        );
        cluster.put(
            literals::object("", "Service", Some(SYSTEM), "harvester-webhook"),
            static_json!({"apiVersion": "v1", "kind": "Service",
                "spec": {"clusterIP": "10.53.0.10", "type": "ClusterIP"},
                "status": {"loadBalancer": {}}}),
        );
        cluster.put(
            literals::object("", "Endpoints", Some(SYSTEM), "harvester-webhook"),
            static_json!({"apiVersion": "v1", "kind": "Endpoints",
                "subsets": [{"addresses": [{"ip": "10.52.0.10"}], "ports": [{"port": 9443}]}]}),
        );
    }

    /// The pod creates the missing Settings; after one rejection it crashes. An existing one is left unchanged (`SetAll` in
    /// `pkg/controller/global/settings/register.go`): it is updated only if the environment names a value, and Harvester's chart
    /// names none for the storage network.
    pub(super) fn set_all(&mut self, cluster: &mut SimulatedCluster) {
        if !cluster.has(&storage_network::SETTING) {
            let empty = static_json!({
                "apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting", "default": "", "value": ""});
            if let Err(message) = cluster.admit(&storage_network::SETTING, &empty) {
                return self.refuse(message, cluster);
            }
            cluster.put(storage_network::SETTING.clone(), empty);
        }
        let version = self.harvester.unwrap_or(HarvesterVersion::LATEST);
        for (name, value) in [
            ("server-version", format!("v{version}")),
            ("cluster-registration-url", String::new()),
            ("ui-index", String::new()),
        ] {
            let json = json!({
                "apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting", "value": value});
            cluster.put(setting(name), json);
        }
        self.refused_at = None;
        cluster.set_status(
            &SERVER_POD,
            static_json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
        );
        cluster.record(HappeningKind::Platform {
            step: SmolStr::new_static("Harvester created its Settings"),
        });
        self.up = true;
        self.storage_network.controllers_run(cluster);
    }

    fn refuse(&mut self, message: String, cluster: &mut SimulatedCluster) {
        // Its state does not affect others.
        if !cluster.has(&SERVER_POD) {
            cluster.put_unnoticed(SERVER_POD.clone(), server_pod());
        }
        cluster.set_status(&SERVER_POD, crash_loop(&message));
        self.refused_at = Some(cluster.revision());
        let doublings = self.refusals.min(5);
        let wait = (times::BACK_OFF * 2_u32.pow(doublings)).min(times::BACK_OFF_MAX);
        self.refusals += 1;
        cluster.record(HappeningKind::Denied { message });
        cluster.after(wait, Timer::SetAll);
    }

    /// Harvester's storage-network controller handles its Setting.
    pub(super) fn storage_network(&mut self, cluster: &mut SimulatedCluster) {
        self.storage_network.step(cluster);
    }

    /// Will its next attempt end like the last one, as long as the cluster stays the same?
    pub(super) fn storage_network_is_idle(&self, cluster: &SimulatedCluster) -> bool {
        self.storage_network.is_idle(cluster)
    }

    /// Why the preset storage network is not configured; `None` if it is, or if none is preset.
    pub(super) fn unconfigured(&self, cluster: &SimulatedCluster) -> Option<Vec<String>> {
        let mut because = self.storage_network.unconfigured(cluster)?;
        because.extend(self.rancherd.refused());
        Some(because)
    }

    /// Has Harvester come up (always true without it)?
    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    pub(super) fn rancherd(&mut self, step: RancherdStep, cluster: &mut SimulatedCluster) {
        self.rancherd.step(step, cluster);
        self.storage_network.setting_changed(cluster);
    }

    /// Is rancherd rejected, and will it be as long as the cluster stays the same?
    pub(super) fn rancherd_is_idle(&self, cluster: &SimulatedCluster) -> bool {
        self.rancherd.is_idle(cluster)
    }

    /// Will its pod's next start end like the last one, as long as the cluster stays the same?
    pub(super) fn is_idle(&self, cluster: &SimulatedCluster) -> bool {
        self.refused_at == Some(cluster.revision())
    }

    pub(super) fn refusals(&self) -> u32 {
        self.refusals
    }
}

/// The namespace of Harvester itself.
const SYSTEM: &str = "harvester-system";

/// The pod of Harvester's server, which shows its crash loop.
static SERVER_POD: ObjectRef = literals::object("", "Pod", Some(SYSTEM), "harvester-0");

const fn setting(name: &'static str) -> ObjectRef {
    literals::object("harvesterhci.io", "Setting", None, name)
}

fn server_pod() -> Arc<Value> {
    static_json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {
        "app.kubernetes.io/name": "harvester", "app.kubernetes.io/component": "apiserver"}}})
}

fn crash_loop(message: &str) -> Value {
    json!({"phase": "Running", "containerStatuses": [{"name": "apiserver", "ready": false,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"reason": "Error", "exitCode": 1, "message": message}}}]})
}

/// The objects of Harvester's charts, except for kinds and workloads.
fn objects(cluster: &mut SimulatedCluster) {
    cluster.put(
        literals::object("network.harvesterhci.io", "ClusterNetwork", None, "mgmt"),
        static_json!({"apiVersion": "network.harvesterhci.io/v1beta1", "kind": "ClusterNetwork",
            "status": {"conditions": [{"type": "ready", "status": "True"}]}}),
    );
}

/// KubeVirt in the state that virt-operator reports (`pkg/virt-operator/util/client.go`, v1.7.0).
fn kubevirt(cluster: &mut SimulatedCluster, phase: &str) {
    let is_deployed = phase == "Deployed";
    let (reason, message) = match is_deployed {
        true => ("AllComponentsReady", "All components are ready."),
        false => (
            "DeploymentInProgress",
            "Deploying version v1.7.0 with registry registry.suse.com/suse/sles/15.7",
        ),
    };
    let conditions = [
        ("Available", is_deployed),
        ("Progressing", !is_deployed),
        ("Degraded", false),
    ];
    let conditions = conditions.map(|(kind, holds)| {
        let status = if holds { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": reason, "message": message})
    });
    cluster.put(
        literals::object("kubevirt.io", "KubeVirt", Some(SYSTEM), "kubevirt"),
        json!({"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "spec": {},
            "status": {"phase": phase, "observedGeneration": 1, "conditions": conditions}}),
    );
}

/// Adds the known results of a chart, except for those that another part of this model creates.
fn bring(brings: &Brings, cluster: &mut SimulatedCluster) {
    for known in &brings.kinds {
        cluster.serve(known.kind.clone(), known.namespaced);
    }
    for object in &brings.objects {
        if object.kind == "Namespace" {
            cluster.create_namespace(object.name.clone());
        } else if object.kind.ends_with("Class") && object.kind != "StorageClass" {
            cluster.appears(object.clone());
        } else if !has_a_maker(object) && !cluster.has(object) {
            cluster.put_unnoticed(object.clone(), at_work(object));
        }
    }
    for class in &brings.classes {
        let id = ObjectRef::cluster("storage.k8s.io", "StorageClass", class.name.clone());
        cluster.put(
            id,
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                "provisioner": class.provisioner}),
        );
    }
}

/// Does another step, or the pod, create it?
fn has_a_maker(object: &ObjectRef) -> bool {
    matches!(
        (object.kind.as_str(), object.name.as_str()),
        (
            "ClusterNetwork" | "KubeVirt" | "Setting" | "ValidatingWebhookConfiguration",
            _
        ) | ("Deployment", "harvester")
            | (_, "harvester-webhook")
    )
}

fn deployment(cluster: &mut SimulatedCluster, name: &'static str) {
    let object = literals::object("apps", "Deployment", Some(SYSTEM), name);
    let json = at_work(&object);
    cluster.put(object, json);
}

/// An object of the platform in its working state: no controller of this model handles it.
fn at_work(object: &ObjectRef) -> Arc<Value> {
    match object.kind.as_str() {
        "Deployment" => {
            static_json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1},
            "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
                "readyReplicas": 1, "availableReplicas": 1, "conditions": [
                    {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                    {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
                ]}})
        }
        "DaemonSet" => static_json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 1,
            "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 1,
            "numberAvailable": 1}}),
        kind => json!({"kind": kind, "status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "Simulated"}]}})
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pod before rancherd: the Setting exists and is empty, and the webhook answers.
    fn pod_first(version: HarvesterVersion) -> (PlatformBootstrap, SimulatedCluster) {
        let start = jiff::Timestamp::UNIX_EPOCH;
        let mut cluster = SimulatedCluster::new(start, super::super::chance::Chance::new(1));
        cluster.serve(literals::kind("harvesterhci.io", "Setting"), false);
        cluster.serve(literals::kind("kubevirt.io", "VirtualMachine"), true);
        cluster.guard = Some(StorageNetworkGuard {
            even_when_empty: version.checks_empty(),
        });
        let machine = literals::object("kubevirt.io", "VirtualMachine", Some("default"), "vm");
        let running =
            json!({"spec": {"runStrategy": "Always"}, "status": {"printableStatus": "Running"}});
        cluster.put(machine, running);
        let mut platform = PlatformBootstrap::new(&Scenario::harvester(version, Some("{}"), start));
        platform.set_all(&mut cluster);
        (platform, cluster)
    }

    /// `validateUpdateStorageNetwork` of v1.5.1 checks for VMs; rancherd's `retry` continues every 15 s.
    #[test]
    fn a_pod_that_is_first_comes_up_and_only_rancherd_goes_round_until_the_machine_is_stopped() {
        let (mut platform, mut cluster) = pod_first(HarvesterVersion::new(1, 5, 1));
        assert!(platform.is_up() && platform.refusals() == 0);
        for tries in 1..=2 {
            platform.rancherd(RancherdStep::Apply, &mut cluster);
            let because = platform.unconfigured(&cluster).unwrap();
            let says = format!("storage-network is refused (refused {tries} times)");
            assert!(
                because.iter().any(|line| line.contains(&says)),
                "{because:#?}"
            );
        }
        let again = Timer::Rancherd(RancherdStep::Apply);
        assert!(platform.is_up() && cluster.agenda.any(|timer| *timer == again));
        assert!(!cluster.agenda.any(|timer| *timer == Timer::StorageNetwork));

        let machine = literals::object("kubevirt.io", "VirtualMachine", Some("default"), "vm");
        cluster.set_status(&machine, json!({"printableStatus": "Stopped"}));
        platform.rancherd(RancherdStep::Apply, &mut cluster);
        assert_eq!(
            cluster.get(&storage_network::SETTING).unwrap()["value"],
            "{}"
        );
        assert!(cluster.agenda.any(|timer| *timer == Timer::StorageNetwork));
    }

    /// The messages of v1.8.2, which `tests/kubernetes/harvester_webhook_in_cluster.rs` gets from the webhook itself.
    #[test]
    fn a_machine_is_refused_as_long_as_a_network_that_it_names_is_not_there() {
        let (_, mut cluster) = pod_first(HarvesterVersion::LATEST);
        let machine = literals::object("kubevirt.io", "VirtualMachine", Some("default"), "web");
        let on = |name: &str| {
            let networks =
                json!([{"name": "a", "pod": {}}, {"name": "b", "multus": {"networkName": name}}]);
            json!({"spec": {"template": {"spec": {"networks": networks}}}})
        };
        let refusal = "admission webhook \"mutator.harvesterhci.io\" denied the request: \
            network-attachment-definitions.k8s.cni.cncf.io \"servers\" not found";
        for name in ["servers", "default/servers", "nets/servers"] {
            assert_eq!(cluster.admit(&machine, &on(name)).unwrap_err(), refusal);
        }
        let kind = ("k8s.cni.cncf.io", "NetworkAttachmentDefinition");
        let network = ObjectRef::namespaced(kind.0, kind.1, "default", "servers");
        cluster.put(network, json!({}));
        for name in ["servers", "default/servers", ""] {
            assert_eq!(cluster.admit(&machine, &on(name)), Ok(()));
        }
        assert!(cluster.admit(&machine, &on("nets/servers")).is_err());
        cluster.guard = None;
        let unseen = cluster.admit(&machine, &on("nets/servers"));
        assert_eq!(unseen, Ok(()), "there is no webhook yet");
    }

    #[test]
    fn before_v1_5_1_a_pod_that_is_first_crashes() {
        let (platform, cluster) = pod_first(HarvesterVersion::new(1, 5, 0));
        assert!(!platform.is_up() && platform.refusals() == 1);
        assert!(!cluster.has(&storage_network::SETTING));
    }
}
