//! The platform's own bootstrap: what comes when, and where Harvester's start can get stuck.
//!
//! ```text
//!   RKE2's charts ── Rancher ── Harvester's CRDs ── KubeVirt, webhook ── pod creates the Settings that are missing
//!                                                                           │ before v1.5.1: storage-network is missing,
//!                                                                           │ and a machine is not Stopped
//!                                                                           v
//!                                                          refused: crash, back-off, once more
//! ```
//! What rancherd does of it is in `rancherd.rs`: a preset `storage-network` is not missing any more when the
//! pod starts. What becomes of its value is in `storage_network.rs`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use smol_str::SmolStr;
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::ObjectRef;

use super::agenda::Timer;
use super::cluster::{Cluster, Guard};
use super::log::What;
use super::node::Scenario;
use super::operators;
use super::rancherd::{self, Rancherd};
use super::storage_network::{self, StorageNetwork};
use super::{once, times};

/// One step of a platform's bootstrap, on a good day at `after` from kube-apiserver's first answer.
pub(super) struct Step {
    after: Duration,
    says: &'static str,
    namespaces: &'static [&'static str],
    kinds: &'static [Kinds],
    then: Then,
}

/// Kinds of one group; true for namespaced ones. Without the packaged component that is named first,
/// if one is, they do not come.
type Kinds = (&'static str, &'static str, &'static [(&'static str, bool)]);

/// What else a step does.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    Rancher,
    Objects,
    KubeVirt,
    Webhook,
    Pod,
}

const RKE2: &[Step] = &[Step {
    after: Duration::from_secs(60),
    says: "RKE2's packaged charts are installed",
    namespaces: &[],
    kinds: &[
        (
            "rke2-snapshot-controller-crd",
            "snapshot.storage.k8s.io",
            &[
                ("VolumeSnapshot", true),
                ("VolumeSnapshotClass", false),
                ("VolumeSnapshotContent", false),
            ],
        ),
        (
            "rke2-traefik-crd",
            "traefik.io",
            &[
                ("IngressRoute", true),
                ("Middleware", true),
                ("TLSOption", true),
            ],
        ),
    ],
    then: Then::Nothing,
}];

const HARVESTER: &[Step] = &[
    Step {
        after: Duration::from_secs(60),
        says: "RKE2's packaged charts are installed, Multus among them",
        namespaces: &[],
        kinds: &[
            (
                "rke2-multus",
                "k8s.cni.cncf.io",
                &[("NetworkAttachmentDefinition", true)],
            ),
            (
                "rke2-snapshot-controller-crd",
                "snapshot.storage.k8s.io",
                &[
                    ("VolumeSnapshot", true),
                    ("VolumeSnapshotClass", false),
                    ("VolumeSnapshotContent", false),
                ],
            ),
        ],
        then: Then::Nothing,
    },
    Step {
        after: Duration::from_secs(240),
        says: "Rancher runs",
        namespaces: &[
            "cattle-system",
            "cattle-fleet-system",
            "fleet-local",
            "fleet-default",
        ],
        kinds: &[
            (
                "",
                "management.cattle.io",
                &[
                    ("Cluster", false),
                    ("Feature", false),
                    ("ManagedChart", true),
                    ("NodeDriver", false),
                    ("Setting", false),
                ],
            ),
            (
                "",
                "catalog.cattle.io",
                &[("App", true), ("ClusterRepo", false)],
            ),
            ("", "provisioning.cattle.io", &[("Cluster", true)]),
            (
                "",
                "fleet.cattle.io",
                &[("Bundle", true), ("Cluster", true), ("GitRepo", true)],
            ),
            ("", "upgrade.cattle.io", &[("Plan", true)]),
        ],
        then: Then::Rancher,
    },
    Step {
        after: Duration::from_secs(360),
        says: "Harvester's CustomResourceDefinitions are installed",
        namespaces: &["harvester-system", "harvester-public", "longhorn-system"],
        kinds: &[
            (
                "",
                "harvesterhci.io",
                &[
                    ("Addon", true),
                    ("KeyPair", true),
                    ("Setting", false),
                    ("Upgrade", true),
                    ("VirtualMachineBackup", true),
                    ("VirtualMachineImage", true),
                    ("VirtualMachineTemplate", true),
                    ("VirtualMachineTemplateVersion", true),
                ],
            ),
            (
                "",
                "network.harvesterhci.io",
                &[
                    ("ClusterNetwork", false),
                    ("LinkMonitor", false),
                    ("VlanConfig", false),
                    ("VlanStatus", false),
                ],
            ),
            ("", "kubevirt.io", &[("KubeVirt", true)]),
            (
                "",
                "cdi.kubevirt.io",
                &[("CDI", false), ("DataVolume", true)],
            ),
            (
                "",
                "longhorn.io",
                &[("BackingImage", true), ("Setting", true), ("Volume", true)],
            ),
            ("", "node.harvesterhci.io", &[("CloudInit", false)]),
            (
                "",
                "loadbalancer.harvesterhci.io",
                &[("IPPool", false), ("LoadBalancer", true)],
            ),
        ],
        then: Then::Objects,
    },
    // Harvester's charts bring the kind KubeVirt alone; virt-operator makes the others.
    Step {
        after: Duration::from_secs(390),
        says: "virt-operator has made KubeVirt's kinds",
        namespaces: &[],
        kinds: &[(
            "",
            "kubevirt.io",
            &[
                ("VirtualMachine", true),
                ("VirtualMachineInstance", true),
                ("VirtualMachineInstanceMigration", true),
            ],
        )],
        then: Then::Nothing,
    },
    Step {
        after: Duration::from_secs(420),
        says: "KubeVirt is deployed",
        namespaces: &[],
        kinds: &[],
        then: Then::KubeVirt,
    },
    Step {
        after: Duration::from_secs(470),
        says: "Harvester's webhook answers",
        namespaces: &[],
        kinds: &[],
        then: Then::Webhook,
    },
    Step {
        after: Duration::from_secs(480),
        says: "Harvester's pod starts",
        namespaces: &[],
        kinds: &[],
        then: Then::Pod,
    },
];

/// Harvester, or nothing but RKE2.
#[derive(Debug, Clone)]
pub(super) struct Platform {
    harvester: Option<HarvesterVersion>,
    disabled: Vec<String>,
    storage_network: StorageNetwork,
    refusals: u32,
    /// Cluster's revision at the last refusal: as long as it stays, the next try is refused too.
    refused_at: Option<u64>,
    up: bool,
    rancherd: Rancherd,
}

impl Platform {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let preset = scenario.storage_network.as_deref().unwrap_or_default();
        Self {
            harvester: scenario.harvester,
            disabled: scenario.disabled.clone(),
            storage_network: StorageNetwork::new(preset, &scenario.name, scenario.harvester),
            refusals: 0,
            refused_at: None,
            up: scenario.harvester.is_none(),
            rancherd: Rancherd::new(preset),
        }
    }

    fn steps(&self) -> &'static [Step] {
        match self.harvester {
            Some(_) => HARVESTER,
            None => RKE2,
        }
    }

    /// Enters every step, each after the one before it.
    pub(super) fn begin(&self, cluster: &mut Cluster) {
        if self.harvester.is_some() {
            cluster.after(times::PROBES, Timer::Rancherd(rancherd::Step::Probes));
        }
        let mut late = Duration::ZERO;
        for (number, step) in self.steps().iter().enumerate() {
            late += cluster.chance.between(times::STEP_LATE);
            cluster.after(step.after + late, Timer::Step(number));
        }
    }

    pub(super) fn step(&mut self, number: usize, cluster: &mut Cluster) {
        let Some(step) = self.steps().get(number) else {
            return;
        };
        cluster.tell(What::Platform {
            step: SmolStr::new_static(step.says),
        });
        for namespace in step.namespaces {
            cluster.add_namespace(namespace);
        }
        for (component, group, kinds) in step.kinds {
            if self.disabled.iter().any(|one| one == component) {
                continue;
            }
            for (kind, namespaced) in *kinds {
                cluster.serve(once::kind(group, kind), *namespaced);
            }
        }
        match step.then {
            Then::Nothing => {}
            Then::Rancher => {
                let version = self.harvester.unwrap_or(HarvesterVersion::LATEST);
                operators::rancher(cluster, version);
                let webhook = Timer::Rancherd(rancherd::Step::Rancher);
                cluster.after(times::RANCHER_WEBHOOK, webhook);
            }
            Then::Objects => {
                objects(cluster);
                self.rancherd.platform_came(cluster);
            }
            Then::KubeVirt => cluster.put(
                once::object("kubevirt.io", "KubeVirt", Some(SYSTEM), "kubevirt"),
                once::json!({"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "spec": {},
                "status": {"phase": "Deployed", "observedGeneration": 1, "conditions": [
                    {"type": "Available", "status": "True", "reason": "AllComponentsReady"},
                    {"type": "Progressing", "status": "False"},
                    {"type": "Degraded", "status": "False"},
                ]}}),
            ),
            Then::Webhook => self.webhook(cluster),
            Then::Pod => {
                deployment(cluster, "harvester");
                cluster.within(times::SET_ALL, Timer::SetAll);
            }
        }
    }

    fn webhook(&self, cluster: &mut Cluster) {
        let version = self.harvester.unwrap_or(HarvesterVersion::LATEST);
        cluster.guard = Some(Guard {
            even_when_empty: version.checks_empty(),
        });
        deployment(cluster, "harvester-webhook");
        cluster.put(
            once::object(
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration",
                None,
                "harvester-validator",
            ),
            once::json!({"apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration", "webhooks": []}),
        );
        cluster.put(
            once::object("", "Service", Some(SYSTEM), "harvester-webhook"),
            once::json!({"apiVersion": "v1", "kind": "Service",
                "spec": {"clusterIP": "10.53.0.10", "type": "ClusterIP"},
                "status": {"loadBalancer": {}}}),
        );
        cluster.put(
            once::object("", "Endpoints", Some(SYSTEM), "harvester-webhook"),
            once::json!({"apiVersion": "v1", "kind": "Endpoints",
                "subsets": [{"addresses": [{"ip": "10.52.0.10"}], "ports": [{"port": 9443}]}]}),
        );
    }

    /// The pod creates the Settings that are missing; one refusal and it crashes. One that is there is
    /// left as it is (`SetAll` in `pkg/controller/global/settings/register.go`): it is updated only where
    /// the environment names a value, and Harvester's chart names none for the storage network.
    pub(super) fn set_all(&mut self, cluster: &mut Cluster) {
        if !cluster.has(&storage_network::SETTING) {
            let empty = once::json!({
                "apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting", "default": "", "value": ""});
            if let Err(message) = cluster.admit(&storage_network::SETTING, &empty) {
                return self.refuse(message, cluster);
            }
            cluster.put(storage_network::SETTING.clone(), empty);
        }
        for name in ["server-version", "cluster-registration-url", "ui-index"] {
            let json = once::json!({
                "apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting", "value": ""});
            cluster.put(setting(name), json);
        }
        self.refused_at = None;
        cluster.set_status(
            &SERVER_POD,
            once::json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
        );
        cluster.tell(What::Platform {
            step: SmolStr::new_static("Harvester created its Settings"),
        });
        self.up = true;
        self.storage_network.controllers_run(cluster);
    }

    fn refuse(&mut self, message: String, cluster: &mut Cluster) {
        // Its state has no part in what others do.
        if !cluster.has(&SERVER_POD) {
            cluster.put_unnoticed(SERVER_POD.clone(), server_pod());
        }
        cluster.set_status(&SERVER_POD, crash_loop(&message));
        self.refused_at = Some(cluster.revision());
        let doublings = self.refusals.min(5);
        let wait = (times::BACK_OFF * 2_u32.pow(doublings)).min(times::BACK_OFF_MAX);
        self.refusals += 1;
        cluster.tell(What::Denied { message });
        cluster.after(wait, Timer::SetAll);
    }

    /// Harvester's storage-network controller gets to its Setting.
    pub(super) fn storage_network(&mut self, cluster: &mut Cluster) {
        self.storage_network.step(cluster);
    }

    /// Will its next look end as the last one, as long as the cluster stays as it is?
    pub(super) fn storage_network_is_idle(&self, cluster: &Cluster) -> bool {
        self.storage_network.is_idle(cluster)
    }

    /// Why the preset storage network is not configured; `None` where it is, or where none is preset.
    pub(super) fn unconfigured(&self, cluster: &Cluster) -> Option<Vec<String>> {
        let mut because = self.storage_network.unconfigured(cluster)?;
        because.extend(self.rancherd.refused());
        Some(because)
    }

    /// Has Harvester come up (always true without it)?
    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    /// rancherd's next step.
    pub(super) fn rancherd(&mut self, step: rancherd::Step, cluster: &mut Cluster) {
        self.rancherd.step(step, cluster);
        self.storage_network.setting_changed(cluster);
    }

    /// Is rancherd refused, and will be as long as the cluster stays as it is?
    pub(super) fn rancherd_is_idle(&self, cluster: &Cluster) -> bool {
        self.rancherd.is_idle(cluster)
    }

    /// Will its pod's next start end as the last one, as long as the cluster stays as it is?
    pub(super) fn is_idle(&self, cluster: &Cluster) -> bool {
        self.refused_at == Some(cluster.revision())
    }

    pub(super) fn refusals(&self) -> u32 {
        self.refusals
    }
}

/// The namespace of Harvester's own.
const SYSTEM: &str = "harvester-system";

/// The pod of Harvester's server, by which its crash loop is recognised.
static SERVER_POD: ObjectRef = once::object("", "Pod", Some(SYSTEM), "harvester-0");

const fn setting(name: &'static str) -> ObjectRef {
    once::object("harvesterhci.io", "Setting", None, name)
}

fn server_pod() -> Arc<Value> {
    once::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {
        "app.kubernetes.io/name": "harvester", "app.kubernetes.io/component": "apiserver"}}})
}

fn crash_loop(message: &str) -> Value {
    json!({"phase": "Running", "containerStatuses": [{"name": "apiserver", "ready": false,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"reason": "Error", "exitCode": 1, "message": message}}}]})
}

/// What Harvester's charts bring beside kinds and workloads.
fn objects(cluster: &mut Cluster) {
    cluster.put(
        once::object("network.harvesterhci.io", "ClusterNetwork", None, "mgmt"),
        once::json!({"apiVersion": "network.harvesterhci.io/v1beta1", "kind": "ClusterNetwork",
            "status": {"conditions": [{"type": "ready", "status": "True"}]}}),
    );
    for class in [
        "harvester-longhorn",
        "longhorn-static",
        "vmstate-persistence",
    ] {
        cluster.put(
            once::object("storage.k8s.io", "StorageClass", None, class),
            once::json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                "provisioner": "driver.longhorn.io"}),
        );
    }
}

fn deployment(cluster: &mut Cluster, name: &'static str) {
    cluster.put(
        once::object("apps", "Deployment", Some(SYSTEM), name),
        once::json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1},
        "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": 1, "availableReplicas": 1, "conditions": [
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
            ]}}),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pod before rancherd: the Setting is there and empty, and the webhook answers.
    fn pod_first(version: HarvesterVersion) -> (Platform, Cluster) {
        let start = jiff::Timestamp::UNIX_EPOCH;
        let mut cluster = Cluster::new(start, super::super::chance::Chance::new(1));
        cluster.serve(once::kind("harvesterhci.io", "Setting"), false);
        cluster.serve(once::kind("kubevirt.io", "VirtualMachine"), true);
        cluster.guard = Some(Guard {
            even_when_empty: version.checks_empty(),
        });
        let machine = once::object("kubevirt.io", "VirtualMachine", Some("default"), "vm");
        let running =
            json!({"spec": {"runStrategy": "Always"}, "status": {"printableStatus": "Running"}});
        cluster.put(machine, running);
        let mut platform = Platform::new(&Scenario::harvester(version, Some("{}"), start));
        platform.set_all(&mut cluster);
        (platform, cluster)
    }

    /// `validateUpdateStorageNetwork` of v1.5.1 checks for machines; rancherd's `retry` goes on every 15 s.
    #[test]
    fn a_pod_that_is_first_comes_up_and_only_rancherd_goes_round_until_the_machine_is_stopped() {
        let (mut platform, mut cluster) = pod_first(HarvesterVersion::new(1, 5, 1));
        assert!(platform.is_up() && platform.refusals() == 0);
        for tries in 1..=2 {
            platform.rancherd(rancherd::Step::Apply, &mut cluster);
            let because = platform.unconfigured(&cluster).unwrap();
            let says = format!("storage-network is refused (refused {tries} times)");
            assert!(
                because.iter().any(|line| line.contains(&says)),
                "{because:#?}"
            );
        }
        let again = Timer::Rancherd(rancherd::Step::Apply);
        assert!(platform.is_up() && cluster.agenda.any(|timer| *timer == again));
        assert!(!cluster.agenda.any(|timer| *timer == Timer::StorageNetwork));

        let machine = once::object("kubevirt.io", "VirtualMachine", Some("default"), "vm");
        cluster.set_status(&machine, json!({"printableStatus": "Stopped"}));
        platform.rancherd(rancherd::Step::Apply, &mut cluster);
        assert_eq!(
            cluster.get(&storage_network::SETTING).unwrap()["value"],
            "{}"
        );
        assert!(cluster.agenda.any(|timer| *timer == Timer::StorageNetwork));
    }

    #[test]
    fn before_v1_5_1_a_pod_that_is_first_crashes() {
        let (platform, cluster) = pod_first(HarvesterVersion::new(1, 5, 0));
        assert!(!platform.is_up() && platform.refusals() == 1);
        assert!(!cluster.has(&storage_network::SETTING));
    }
}
