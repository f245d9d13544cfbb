//! The first boots of a Harvester node, with the platform's own parts and in the simulation: their directories, the questions after each
//! step, and the recording of the real parts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windrow_inputs::extract::{FileKind, extract, kind_of};
use windrow_model::manifest::{self, FileContent, GroupKind, ObjectRef, ReadLimits};

/// A boot: one or more directories, none of which names an object of another.
pub(crate) struct FirstBoot {
    pub(crate) name: &'static str,
    pub(crate) directories: &'static [ManifestsDirectory],
    /// The preset of the Setting storage-network.
    pub(crate) storage_network: &'static str,
}

/// A directory of manifests.
pub(crate) struct ManifestsDirectory {
    /// Its path; the file or directory that an image builder would have.
    pub(crate) path: &'static str,
    /// The beginning of the names of its files, because other directories are in the same boot.
    pub(crate) prefix: &'static str,
    /// The files that nothing ever releases, each with the dependency that never comes.
    pub(crate) held: &'static [(&'static str, &'static str)],
    /// How often RKE2 fails with its files whatever Windrow does: a VM before its network in one file, which Harvester's webhook
    /// rejects until RKE2's next pass.
    pub(crate) fails: i32,
}

const fn case(path: &'static str, prefix: &'static str) -> ManifestsDirectory {
    ManifestsDirectory {
        path,
        prefix,
        held: &[],
        fails: 0,
    }
}

const MGMT: &str = r#"{"vlan":220,"clusterNetwork":"mgmt","range":"198.51.100.0/24"}"#;

pub(crate) const FIRST_BOOTS: &[FirstBoot] = &[
    FirstBoot {
        name: "first-vm",
        directories: &[case("examples/first-vm/harvester-config.yaml", "")],
        storage_network: r#"{"vlan":220,"clusterNetwork":"uplink","range":"198.51.100.0/24"}"#,
    },
    FirstBoot {
        name: "vms-and-charts",
        directories: &[
            case("tests/cases/first-machine/sick.yaml", "first-machine-"),
            ManifestsDirectory {
                fails: 1,
                ..case(
                    "tests/cases/machine-without-network/healthy.yaml",
                    "network-",
                )
            },
            case("tests/cases/addon-stuck/sick", "addon-stuck-"),
            case("tests/cases/chart-that-may-bring-it/healthy", "chart-"),
            case("tests/cases/kind-without-provider/healthy", "kind-"),
            ManifestsDirectory {
                held: &[("unobservable-a.yaml", "SubjectAccessReview may-we")],
                ..case("tests/cases/readiness-not-observable/sick", "unobservable-")
            },
        ],
        storage_network: MGMT,
    },
    FirstBoot {
        name: "what-never-comes",
        directories: &[
            case("tests/cases/claim-bound-before-use/healthy", "claim-"),
            ManifestsDirectory {
                // No program answers this webhook here.
                held: &[("webhook-05-pool.yaml", "Deployment pools/pools")],
                ..case("tests/cases/webhook-not-awaited/healthy.yaml", "webhook-")
            },
            case("tests/cases/cycle/sick", "cycle-"),
            case("tests/cases/rancher-feature/healthy", "feature-"),
            case("tests/cases/component-disabled/healthy.yaml", "component-"),
        ],
        storage_network: MGMT,
    },
];

impl FirstBoot {
    /// Its files by name.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        let directories = self.directories.iter();
        let files = directories.flat_map(|directory| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory.path);
            let files = manifests(&path).into_iter();
            files.map(|(name, text)| (format!("{}{name}", directory.prefix), text))
        });
        files.collect()
    }

    /// The files that nothing ever releases, each with the dependency that never comes.
    pub(crate) fn held(&self) -> BTreeMap<&'static str, &'static str> {
        let directories = self.directories.iter();
        let held = directories.flat_map(|directory| directory.held);
        held.copied().collect()
    }

    /// Every object of its files, as a request has it, with the file.
    pub(crate) fn objects(&self) -> Vec<(String, ObjectRef, Value)> {
        let mut objects = Vec::new();
        for (name, text) in self.files() {
            let content = FileContent::Bytes(text.into_bytes());
            let file = manifest::read(&name, &content, &ReadLimits::default());
            for object in file.objects() {
                let json = object.node.to_json();
                objects.push((name.clone(), object.id.clone(), json));
            }
        }
        objects
    }
}

/// The manifests of a directory, or of a file that brings them or is one: names and texts.
pub(crate) fn manifests(path: &Path) -> Vec<(String, String)> {
    if path.is_dir() {
        return entries(path)
            .iter()
            .flat_map(|path| manifests(path))
            .collect();
    }
    let text = fs::read_to_string(path).unwrap();
    if kind_of(&text) == FileKind::Manifests {
        let name = path.file_name().unwrap().to_str().unwrap();
        return vec![(name.to_owned(), text)];
    }
    let extraction = extract("", &text, &ReadLimits::default());
    let files = extraction.files.into_iter();
    files
        .map(|file| (file.path, String::from_utf8(file.content).unwrap()))
        .collect()
}

/// The content of a directory, in order.
pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Objects that are tried after each step in addition to those of the directory.
pub(crate) fn probes() -> Vec<Value> {
    let vm = |name: &str, strategy: &str, networks: Value| {
        serde_json::json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"runStrategy": strategy, "template": {"spec": {
                "domain": {"devices": {}, "memory": {"guest": "1Gi"}}, "networks": networks}}}})
    };
    let cluster_wide = |version: &str, kind: &str, spec: Value| serde_json::json!({"apiVersion": version, "kind": kind, "metadata": {"name": "tried"}, "spec": spec});
    vec![
        vm("tried-halted", "Halted", serde_json::json!([])),
        cluster_wide(
            "instancetype.kubevirt.io/v1beta1",
            "VirtualMachineClusterInstancetype",
            serde_json::json!({"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}}),
        ),
        cluster_wide(
            "migrations.kubevirt.io/v1alpha1",
            "MigrationPolicy",
            serde_json::json!({"selectors": {"namespaceSelector": {}}}),
        ),
        serde_json::json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon",
            "metadata": {"name": "tried", "namespace": "default"},
            "spec": {"enabled": false, "chart": "tried", "repo": "http://tried", "version": "1.0.0",
                "valuesContent": ""}}),
        serde_json::json!({"apiVersion": "harvesterhci.io/v1beta1", "kind": "VirtualMachineImage",
            "metadata": {"name": "tried", "namespace": "default"},
            "spec": {"displayName": "tried", "sourceType": "download", "url": "http://192.0.2.10/tried"}}),
    ]
}

/// The name of an object of which this is the JSON.
pub(crate) fn object_of(json: &Value) -> ObjectRef {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&json["apiVersion"]);
    let (group, _) = api_version.split_once('/').unwrap_or_default();
    let (kind, name) = (text(&json["kind"]), text(&json["metadata"]["name"]));
    match json["metadata"]["namespace"].as_str() {
        Some(namespace) => ObjectRef::namespaced(group, kind, namespace, name),
        None => ObjectRef::cluster(group, kind, name),
    }
}

/// The kinds that are looked for after each step.
pub(crate) const KINDS: &[(&str, &str)] = &[
    ("helm.cattle.io", "HelmChart"),
    ("harvesterhci.io", "Addon"),
    ("harvesterhci.io", "Setting"),
    ("harvesterhci.io", "VirtualMachineImage"),
    ("network.harvesterhci.io", "ClusterNetwork"),
    ("k8s.cni.cncf.io", "NetworkAttachmentDefinition"),
    ("snapshot.storage.k8s.io", "VolumeSnapshotClass"),
    ("management.cattle.io", "Feature"),
    ("longhorn.io", "Volume"),
    ("cdi.kubevirt.io", "DataVolume"),
    ("kubevirt.io", "KubeVirt"),
    ("kubevirt.io", "VirtualMachine"),
    ("kubevirt.io", "VirtualMachineInstance"),
    (
        "instancetype.kubevirt.io",
        "VirtualMachineClusterInstancetype",
    ),
    ("migrations.kubevirt.io", "MigrationPolicy"),
];

/// The objects that are looked for after each step: group, kind, namespace (empty if it has none) and name.
pub(crate) const OBJECTS: &[(&str, &str, &str, &str)] = &[
    ("", "Namespace", "", "harvester-system"),
    ("", "Namespace", "", "longhorn-system"),
    ("storage.k8s.io", "StorageClass", "", "harvester-longhorn"),
    ("network.harvesterhci.io", "ClusterNetwork", "", "mgmt"),
    ("apps", "Deployment", "harvester-system", "harvester"),
    (
        "apps",
        "Deployment",
        "harvester-system",
        "harvester-webhook",
    ),
    ("apps", "Deployment", "harvester-system", "virt-operator"),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "",
        "harvester-validator",
    ),
    ("harvesterhci.io", "Setting", "", "storage-network"),
    ("harvesterhci.io", "Setting", "", "server-version"),
    ("kubevirt.io", "KubeVirt", "harvester-system", "kubevirt"),
];

/// An object of [`OBJECTS`].
pub(crate) fn object_ref(
    (group, kind, namespace, name): (&'static str, &'static str, &'static str, &'static str),
) -> ObjectRef {
    match namespace {
        "" => ObjectRef::cluster(group, kind, name),
        namespace => ObjectRef::namespaced(group, kind, namespace, name),
    }
}

/// The state of a cluster, a line for each of the kinds and objects above.
pub(crate) fn facts(
    serves: impl Fn(&GroupKind) -> bool,
    get: &BTreeMap<ObjectRef, Value>,
) -> BTreeSet<String> {
    let kinds = KINDS
        .iter()
        .map(|(group, kind)| GroupKind::new(*group, *kind));
    let served = kinds.filter(|kind| serves(kind));
    let mut facts: BTreeSet<String> = served.map(|kind| format!("serves {kind}")).collect();
    for (object, json) in get {
        facts.insert(format!("has {object}"));
        if object.kind == "KubeVirt" {
            let phase = json["status"]["phase"].as_str().unwrap_or("none");
            facts.insert(format!("KubeVirt's phase is {phase}"));
        }
        if object.name == "storage-network" {
            let has_value = json["value"]
                .as_str()
                .is_some_and(|value| !value.is_empty());
            let condition = &json["status"]["conditions"][0];
            let status = condition["status"].as_str().unwrap_or("not reported");
            facts.insert(format!("storage-network has a value: {has_value}"));
            facts.insert(format!("storage-network's condition configured: {status}"));
        }
    }
    facts
}

/// The answer when an object is tried whose kind is not served.
pub(crate) const NOT_SERVED: &str = "its kind is not served";
/// The answer when it is in the cluster already.
pub(crate) const IS_THERE: &str = "it is there";
pub(crate) const ACCEPTED: &str = "accepted";

/// The state after a step with Windrow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedMoment {
    pub(crate) step: String,
    /// The files that RKE2 applied since the step before, in order.
    pub(crate) applied: Vec<String>,
    /// Why each held file is held.
    pub(crate) held: BTreeMap<String, String>,
    pub(crate) facts: BTreeSet<String>,
    /// kube-apiserver's answer to the creation (on trial) of each object.
    pub(crate) tried: BTreeMap<String, String>,
}

/// A difference between the simulation and the real parts that stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KnownDifference {
    /// Which lines of the comparison: they have this text in them.
    pub(crate) lines: String,
    pub(crate) why: String,
}

/// The data file: the boots of the real parts, and the differences of the simulation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recording {
    /// By the name of the boot.
    pub(crate) boots: BTreeMap<String, Vec<RecordedMoment>>,
    pub(crate) differences: Vec<KnownDifference>,
}

impl Recording {
    fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/first-boot.json")
    }

    pub(crate) fn load() -> Self {
        let text = fs::read_to_string(Self::path()).unwrap_or_else(|_| "{}".to_owned());
        let json: Value = serde_json::from_str(&text).unwrap();
        match json["boots"].is_null() {
            true => Self::default(),
            false => serde_json::from_value(json).unwrap(),
        }
    }

    pub(crate) fn save(&self) {
        let text = serde_json::to_string_pretty(self).unwrap() + "\n";
        fs::write(Self::path(), text).unwrap();
    }
}
