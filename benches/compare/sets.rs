//! The directories that are applied: made up, in the kinds, numbers and sizes of published ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use windrow_inputs::extract::extract;
use windrow_model::manifest::{self, FileContent, ReadLimits};

use crate::requests::Object;

/// Manifests by their paths below the directory.
pub(crate) type Files = BTreeMap<String, String>;

/// A directory.
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) files: Files,
    /// The configuration of the Harvester node whose files these are. Harvester is played then.
    pub(crate) harvester: Option<String>,
    /// Whether some of it can never be applied, so that a run ends by the clock.
    pub(crate) is_broken: bool,
}

impl Set {
    /// One of those by its name, or a directory of somebody's own.
    pub(crate) fn named(name: &str) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut set = Self {
            name: name.to_owned(),
            files: Files::new(),
            harvester: None,
            is_broken: false,
        };
        match name {
            "first-vm" => {
                let place = here.join("examples/first-vm/harvester-config.yaml");
                let text = fs::read_to_string(place).unwrap();
                set.files = files_of(&text);
                set.harvester = Some(text);
            }
            "rook-metallb" => set.files = read(&here.join("benches/compare/sets/rook-metallb")),
            "monitoring" => set.files = monitoring(),
            "small-files" => set.files = small_files(),
            "broken-file" => {
                set.files = small_files().into_iter().take(20).collect();
                set.files
                    .insert("010-broken.yaml".to_owned(), BROKEN.to_owned());
                set.is_broken = true;
            }
            directory => {
                set.files = read(Path::new(directory));
                let name = Path::new(directory).file_name().unwrap_or_default();
                set.name = name.to_string_lossy().into_owned();
            }
        }
        set
    }

    /// Every object that can be applied.
    pub(crate) fn objects(&self) -> Vec<Object> {
        let mut objects: Vec<Object> = self
            .files
            .iter()
            .flat_map(|(path, text)| objects_of(path, text))
            .map(|object| {
                let types = object.types.unwrap_or_default();
                let kind = GroupVersionKind::try_from(&types).unwrap();
                let resource = ApiResource::from_gvk(&kind);
                Object {
                    group: resource.group,
                    plural: resource.plural,
                    namespace: object.metadata.namespace,
                    name: object.metadata.name.unwrap_or_default(),
                }
            })
            .collect();
        objects.sort();
        objects.dedup();
        objects
    }

    /// Whether a field is set to null anywhere.
    pub(crate) fn has_nulls(&self) -> bool {
        self.files.values().any(|text| text.contains(": null"))
    }

    pub(crate) fn write(&self, directory: &Path) {
        for (name, text) in &self.files {
            let place = directory.join(name);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        }
    }
}

/// The objects of a file; none of one that cannot be read.
pub(crate) fn objects_of(path: &str, text: &str) -> Vec<DynamicObject> {
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read(path, &content, &ReadLimits::default());
    if file.refused().is_some() {
        return Vec::new();
    }
    let objects = file.objects();
    objects
        .map(|object| serde_json::from_value(object.node.to_json()).unwrap())
        .collect()
}

fn files_of(harvester_config: &str) -> Files {
    let extraction = extract(
        "harvester-config.yaml",
        harvester_config,
        &ReadLimits::default(),
    );
    let files = extraction.files.into_iter();
    files
        .map(|file| (file.path, String::from_utf8(file.content).unwrap()))
        .collect()
}

/// Every manifest below a directory.
fn read(directory: &Path) -> Files {
    let mut found = Files::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "yaml") {
                let name = path.strip_prefix(directory).unwrap().display().to_string();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    assert!(!found.is_empty(), "no manifests in {}", directory.display());
    found
}

/// A line is indented too far.
const BROKEN: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: broken
    namespace: space-0
data: {key: value}
";

/// Two hundred files whose names are in the right order: ten namespaces, and what needs no more than one of them.
fn small_files() -> Files {
    let namespaces: Vec<String> = (0..10)
        .map(|space| {
            format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: space-{space}}}\n")
        })
        .collect();
    let mut files = Files::from([("000-namespaces.yaml".to_owned(), namespaces.join("---\n"))]);
    for number in 1..200 {
        let (kind, rest) = match number % 5 {
            0 => ("Secret", "stringData: {password: made-up}"),
            1 => ("ConfigMap", "data: {key: value}"),
            2 => ("ServiceAccount", "automountServiceAccountToken: false"),
            3 => (
                "Service",
                "spec: {selector: {app: one}, ports: [{port: 80}]}",
            ),
            _ => (
                "LimitRange",
                "spec: {limits: [{type: Container, default: {memory: 64Mi}}]}",
            ),
        };
        let space = number % 10;
        files.insert(
            format!("{number:03}-one.yaml"),
            format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: one-{number}, namespace: space-{space}}}\n{rest}\n"),
        );
    }
    files
}

/// The kinds of prometheus-operator, and how large their published definitions are, in kilobytes.
const DEFINITIONS: [(&str, usize); 10] = [
    ("AlertmanagerConfig", 480),
    ("Alertmanager", 430),
    ("PodMonitor", 60),
    ("Probe", 60),
    ("Prometheus", 600),
    ("PrometheusAgent", 500),
    ("PrometheusRule", 10),
    ("ScrapeConfig", 690),
    ("ServiceMonitor", 65),
    ("ThanosRuler", 420),
];

/// In the shape of kube-prometheus' `manifests`: a file for each object, named after its component, and what all the others need, the
/// namespace and the kinds, in the folder `setup`, which comes last.
fn monitoring() -> Files {
    let mut files = Files::new();
    files.insert(
        "setup/namespace.yaml".to_owned(),
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: monitoring}\n".to_owned(),
    );
    for (kind, size) in DEFINITIONS {
        files.insert(
            format!("setup/0{kind}CustomResourceDefinition.yaml"),
            definition(kind, size * 1000),
        );
    }
    let components = [
        "alertmanager",
        "blackboxExporter",
        "grafana",
        "kubeStateMetrics",
        "nodeExporter",
        "prometheus",
        "prometheusAdapter",
        "prometheusOperator",
    ];
    for component in components {
        for (kind, text) in component_files(&component.to_lowercase()) {
            files.insert(format!("{component}-{kind}.yaml"), text);
        }
    }
    for (file, kind) in [
        ("alertmanager-alertmanager", "Alertmanager"),
        ("prometheus-prometheus", "Prometheus"),
    ] {
        files.insert(format!("{file}.yaml"), monitor(kind, "main", "replicas: 2"));
    }
    for name in ["kubePrometheus", "kubernetesControlPlane"] {
        let text = monitor("PrometheusRule", &name.to_lowercase(), &rules(80_000));
        files.insert(format!("{name}-prometheusRule.yaml"), text);
    }
    for part in [
        "Apiserver",
        "CoreDNS",
        "KubeControllerManager",
        "KubeScheduler",
        "Kubelet",
    ] {
        let name = part.to_lowercase();
        files.insert(
            format!("kubernetesControlPlane-serviceMonitor{part}.yaml"),
            monitor("ServiceMonitor", &name, "endpoints: [{port: metrics}]"),
        );
    }
    let boards = (0..25).map(|number| {
        let board = "x".repeat(30_000);
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: dashboard-{number}, namespace: monitoring}}\ndata: {{board: {board}}}\n")
    });
    let boards = boards.collect::<Vec<_>>().join("---\n");
    files.insert("grafana-dashboardDefinitions.yaml".to_owned(), boards);
    // RKE2 takes no capitals.
    let files = files.into_iter();
    files
        .map(|(name, text)| (name.to_lowercase(), text))
        .collect()
}

/// What every component has.
fn component_files(name: &str) -> Vec<(&'static str, String)> {
    let of = |version: &str, kind: &str, rest: &str| {
        format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}, namespace: monitoring}}\n{rest}\n"
        )
    };
    let labels = format!("{{app: {name}}}");
    let rbac = "rbac.authorization.k8s.io/v1";
    let subject =
        format!("subjects: [{{kind: ServiceAccount, name: {name}, namespace: monitoring}}]");
    let role = format!(
        "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {name}}}"
    );
    let everywhere = |kind: &str, rest: &str| {
        format!("apiVersion: {rbac}\nkind: {kind}\nmetadata: {{name: monitoring-{name}}}\n{rest}\n")
    };
    vec![
        (
            "serviceAccount",
            of(
                "v1",
                "ServiceAccount",
                "automountServiceAccountToken: false",
            ),
        ),
        (
            "clusterRole",
            everywhere(
                "ClusterRole",
                "rules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]",
            ),
        ),
        (
            "clusterRoleBinding",
            everywhere("ClusterRoleBinding", &format!("{role}\n{subject}")),
        ),
        (
            "config",
            of("v1", "Secret", "stringData: {config: made-up}"),
        ),
        (
            "service",
            of(
                "v1",
                "Service",
                &format!("spec: {{selector: {labels}, ports: [{{name: metrics, port: 9090}}]}}"),
            ),
        ),
        (
            "networkPolicy",
            of(
                "networking.k8s.io/v1",
                "NetworkPolicy",
                &format!("spec: {{podSelector: {{matchLabels: {labels}}}}}"),
            ),
        ),
        (
            "deployment",
            of(
                "apps/v1",
                "Deployment",
                &format!(
                    "spec:\n  selector: {{matchLabels: {labels}}}\n  template:\n    metadata: {{labels: {labels}}}\n    spec: {{serviceAccountName: {name}, containers: [{{name: main, image: \"made-up.invalid/{name}:1\"}}]}}"
                ),
            ),
        ),
        (
            "serviceMonitor",
            monitor("ServiceMonitor", name, "endpoints: [{port: metrics}]"),
        ),
        (
            "prometheusRule",
            monitor("PrometheusRule", name, &rules(10_000)),
        ),
    ]
}

/// Rules of about this size.
fn rules(bytes: usize) -> String {
    let text = "x".repeat(bytes);
    format!(
        "groups: [{{name: made-up, rules: [{{alert: MadeUp, expr: vector(1), annotations: {{description: {text}}}}}]}}]"
    )
}

fn monitor(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: monitoring.coreos.com/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: monitoring}}\nspec: {{{spec}}}\n"
    )
}

/// A definition of about this size.
fn definition(kind: &str, bytes: usize) -> String {
    let plural =
        ApiResource::from_gvk(&GroupVersionKind::gvk("monitoring.coreos.com", "v1", kind)).plural;
    let mut text = format!(
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.monitoring.coreos.com}}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {{kind: {kind}, plural: {plural}}}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties:
"
    );
    let mut number = 0;
    while text.len() < bytes {
        text += &format!(
            "              made-up-{number}: {{type: object, x-kubernetes-preserve-unknown-fields: true, description: \"A field that is made up, and is described in a line or two as published ones are. It does nothing.\"}}\n"
        );
        number += 1;
    }
    text
}
