//! Level 4: the daemon stages a Harvester node's manifests completely on a real API server; the same without it.
//!
//! Real are etcd, kube-apiserver, kube-controller-manager and the program; the deploy controller is that of
//! `tests/cluster/node` (`docs/dev/testing.md`). The test plays the rest: the kubelet, and Harvester, which brings its
//! kinds, settings and webhooks one step after each of RKE2's passes. The costs of the two runs are printed beside each
//! other.
//!
//! `WINDROW_REAL_MANIFESTS` names a directory of published manifests (Rook, MetalLB) to measure in the same way.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

pub(crate) mod bootstrap;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use bootstrap::{Bootstrap, Cost};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use support::cluster::{self, DEADLINE, Minor, eventually};
use windrow_model::manifest::{self, FileContent, ReadLimits};

use crate::support;

/// A definition with nothing in it but what makes the kind known.
fn definition(group: &str, version: &str, kind: &str, scope: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    format!(
        "---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.{group}}}
spec:
  group: {group}
  scope: {scope}
  names: {{kind: {kind}, plural: {plural}}}
  versions:
    - name: {version}
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"
    )
}

/// An operator as they are published: an account and a Deployment.
fn operator(name: &str) -> String {
    format!(
        "apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}, namespace: {name}-system}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}-operator, namespace: {name}-system}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      serviceAccountName: {name}
      containers: [{{name: operator, image: \"operator.invalid/{name}:1\"}}]
"
    )
}

fn namespace(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

/// An image builder's directory: its names say nothing about what needs what.
fn harvester_node() -> BTreeMap<String, String> {
    let files = [
        (
            "00-registry.yaml",
            "apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: registry, namespace: orchard}
spec:
  runStrategy: RerunOnFailure
  template:
    spec:
      domain: {devices: {}}
      volumes: [{name: init, cloudInitNoCloud: {secretRef: {name: registry-init}}}]
"
            .to_owned(),
        ),
        (
            "05-image.yaml",
            "apiVersion: harvesterhci.io/v1beta1
kind: VirtualMachineImage
metadata: {name: base, namespace: orchard}
spec: {displayName: base, sourceType: download, url: \"http://images.invalid/base.img\"}
"
            .to_owned(),
        ),
        (
            "06-settings.yaml",
            "apiVersion: harvesterhci.io/v1beta1
kind: Setting
metadata: {name: overcommit-config}
value: '{\"cpu\":400,\"memory\":150,\"storage\":200}'
"
            .to_owned(),
        ),
        (
            "07-backups.yaml",
            "apiVersion: longhorn.io/v1beta2
kind: RecurringJob
metadata: {name: nightly, namespace: longhorn-system}
spec: {cron: \"0 3 * * *\", task: backup, retain: 3, concurrency: 1}
"
            .to_owned(),
        ),
        (
            "10-cache.yaml",
            "apiVersion: cache.example.com/v1
kind: Cache
metadata:
  name: images
  namespace: cache-system
  annotations: {windrow.dev/depends-on: apps/namespaces/cache-system/Deployment/cache-operator}
spec: {size: 10Gi}
"
            .to_owned(),
        ),
        ("20-operator.yaml", operator("cache")),
        (
            "30-crds.yaml",
            namespace("cache-system")
                + &definition("cache.example.com", "v1", "Cache", "Namespaced"),
        ),
        // As Rook's examples are named.
        (
            "cluster.yaml",
            "apiVersion: rook.example.com/v1
kind: CephCluster
metadata: {name: rook, namespace: rook-system}
spec: {mon: {count: 3}}
"
            .to_owned(),
        ),
        ("common.yaml", namespace("rook-system")),
        (
            "crds.yaml",
            definition("rook.example.com", "v1", "CephCluster", "Namespaced")
                + &definition("rook.example.com", "v1", "CephBlockPool", "Namespaced"),
        ),
        ("operator.yaml", operator("rook")),
        (
            "pool.yaml",
            "apiVersion: rook.example.com/v1
kind: CephBlockPool
metadata: {name: replicated, namespace: rook-system}
spec: {replicated: {size: 3}}
"
            .to_owned(),
        ),
        (
            "secret.yaml",
            "apiVersion: v1
kind: Secret
metadata: {name: registry-init, namespace: orchard}
stringData: {userdata: \"#cloud-config\"}
"
            .to_owned(),
        ),
        ("space.yaml", namespace("orchard")),
    ];
    files.map(|(name, text)| (name.to_owned(), text)).into()
}

/// Plays Harvester: a step after each pass. True when the machine came before the storage network.
async fn harvester(node: &Bootstrap) -> bool {
    let client = &node.client;
    node.controller.passed(1).await;
    let kinds = namespace("harvester-system")
        + &namespace("longhorn-system")
        + &definition("harvesterhci.io", "v1beta1", "Setting", "Cluster")
        + &definition(
            "harvesterhci.io",
            "v1beta1",
            "VirtualMachineImage",
            "Namespaced",
        )
        + &definition("kubevirt.io", "v1", "KubeVirt", "Namespaced")
        + &definition("kubevirt.io", "v1", "VirtualMachine", "Namespaced")
        + &definition("longhorn.io", "v1beta2", "RecurringJob", "Namespaced");
    create(client, &kinds).await;

    node.controller.passed(2).await;
    let settings = "apiVersion: harvesterhci.io/v1beta1
kind: Setting
metadata: {name: storage-network}
value: '{\"vlan\":100,\"clusterNetwork\":\"mgmt\",\"range\":\"10.10.0.0/24\"}'
---
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: harvester-system}
status: {phase: Deploying}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: harvester-validator}
webhooks: []
---
apiVersion: v1
kind: Service
metadata: {name: harvester-webhook, namespace: harvester-system}
spec: {ports: [{port: 443}]}
";
    create(client, settings).await;

    node.controller.passed(3).await;
    let machine = (
        "kubevirt.io",
        "v1",
        "VirtualMachine",
        Some("orchard"),
        "registry",
    );
    let early = api(client, machine)
        .get_opt(machine.4)
        .await
        .unwrap()
        .is_some();
    let endpoints = "apiVersion: v1
kind: Endpoints
metadata: {name: harvester-webhook, namespace: harvester-system}
subsets: [{addresses: [{ip: 10.52.0.9}], ports: [{port: 9443}]}]
";
    create(client, endpoints).await;
    let kubevirt = (
        "kubevirt.io",
        "v1",
        "KubeVirt",
        Some("harvester-system"),
        "kubevirt",
    );
    set(client, kubevirt, json!({"status": {"phase": "Deployed"}})).await;
    let setting = (
        "harvesterhci.io",
        "v1beta1",
        "Setting",
        None,
        "storage-network",
    );
    let configured = json!({"status": {"conditions": [
        {"type": "configured", "status": "True", "reason": "Completed"}]}});
    set(client, setting, configured).await;
    early
}

/// Group, version, kind, namespace and name.
type Which = (
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static str,
);

fn api(client: &Client, (group, version, kind, namespace, _): Which) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn set(client: &Client, which: Which, what: Value) {
    let (params, patch) = (PatchParams::default(), Patch::Merge(what));
    let api = api(client, which);
    api.patch(which.4, &params, &patch).await.unwrap();
}

/// Creates the objects of a text; each as soon as its kind and namespace are there.
async fn create(client: &Client, text: &str) {
    let content = FileContent::Bytes(text.as_bytes().to_vec());
    let file = manifest::read("played.yaml", &content, &ReadLimits::default());
    assert_eq!(file.problems, []);
    for object in file.objects() {
        let id = &object.id;
        let kind = GroupVersionKind::gvk(&id.group, &object.version, &id.kind);
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match &id.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let object: DynamicObject = serde_json::from_value(object.node.to_json()).unwrap();
        eventually(&format!("{id} can be created"), DEADLINE, async || {
            api.create(&PostParams::default(), &object).await.ok()
        })
        .await;
    }
}

/// Prints both costs beside each other; the line must show without `--nocapture`.
pub(crate) fn print(title: &str, with: &Cost, without: &Cost) {
    let mut text = format!("{title:<44}{:>14}{:>14}\n", "with Windrow", "without");
    let mut row = |name: &str, of: &dyn Fn(&Cost) -> String| {
        let _ = writeln!(text, "{name:<44}{:>14}{:>14}", of(with), of(without));
    };
    row("files taken up", &|cost| cost.applies.to_string());
    row("of these failed", &|cost| cost.failed.to_string());
    row("applied again without a change", &|cost| {
        cost.repeated.to_string()
    });
    row("RKE2's API writes without events", &|cost| {
        cost.writes.to_string()
    });
    row("RKE2's API writes that were refused", &|cost| {
        cost.refused.to_string()
    });
    row("RKE2's events", &|cost| cost.events.to_string());
    row("revisions of etcd, all writers", &|cost| {
        cost.revisions.to_string()
    });
    row("files held when RKE2 starts", &|cost| cost.held.to_string());
    row("RKE2's passes", &|cost| cost.passes.to_string());
    row("from the first pass to the end of the last", &|cost| {
        format!("{:.1} s", cost.time_of_passes.as_secs_f64())
    });
    row("until everything is applied", &|cost| {
        format!("{:.1} s", cost.time.as_secs_f64())
    });
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn windrow_stages_a_harvester_node_to_the_end_and_no_apply_fails_or_repeats() {
    let run = async |windrow: bool| {
        let node = Bootstrap::start(harvester_node(), windrow, true).await?;
        let early = harvester(&node).await;
        Some((node.end().await, early))
    };
    let (Some((with, early)), Some((without, early_without))) = tokio::join!(run(true), run(false))
    else {
        return;
    };
    print("a Harvester node, 14 files", &with, &without);
    assert_eq!((with.failed, with.repeated), (0, 0), "{with:#?}");
    assert_eq!(with.applies, 14);
    assert!(without.failed > 0, "{without:#?}");

    assert!(!early, "the machine came before the storage network");
    assert!(early_without, "the storage network came first by itself");
    let place = |resource: &str| with.created.iter().position(|(one, _)| one == resource);
    // The cache waits for its own operator alone: on a slow machine it may come after the virtual machine.
    let mut others = with.created.iter().filter(|(one, _)| one != "caches");
    let last = others.next_back().map(|(one, _)| one.as_str());
    assert_eq!(last, Some("virtualmachines"), "{:#?}", with.created);
    assert!(
        place("caches") > place("deployments"),
        "{:#?}",
        with.created
    );
}

/// A chart and what needs what it brings, in one file as images for the edge have it.
const CHART: &str = "apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata: {name: metallb, namespace: kube-system}
spec: {chart: metallb, targetNamespace: metallb-system, createNamespace: true}
";
const POOL: &str = "apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: ingress, namespace: metallb-system}
spec: {addresses: [192.0.2.10/32]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: ingress, namespace: metallb-system}
spec: {ipAddressPools: [ingress]}
";

/// Plays helm-controller, which installs the chart as soon as it is there.
async fn helm_controller(node: &Bootstrap) {
    let chart = (
        "helm.cattle.io",
        "v1",
        "HelmChart",
        Some("kube-system"),
        "metallb",
    );
    let charts = api(&node.client, chart);
    eventually("the chart is applied", DEADLINE, async || {
        charts.get_opt(chart.4).await.ok().flatten()
    })
    .await;
    let brought = namespace("metallb-system")
        + &definition("metallb.io", "v1beta1", "IPAddressPool", "Namespaced")
        + &definition("metallb.io", "v1beta1", "L2Advertisement", "Namespaced");
    create(&node.client, &brought).await;
}

#[tokio::test]
async fn a_chart_beside_its_custom_objects_is_no_later_than_without_windrow() {
    let together = [("metallb.yaml", [CHART, POOL].join("---\n"))];
    let apart = [
        ("metallb.yaml", CHART.to_owned()),
        ("metallb-objects.yaml", POOL.to_owned()),
    ];
    let run = async |files: &[(&str, String)], windrow: bool| {
        let files = files.iter().cloned();
        let files = files.map(|(name, text)| (name.to_owned(), text)).collect();
        let node = Bootstrap::start(files, windrow, false).await?;
        assert!(!node.is_held("metallb.yaml"), "RKE2's first pass takes it");
        helm_controller(&node).await;
        Some(node.end().await)
    };
    let (with, without, split) = tokio::join!(
        run(&together, true),
        run(&together, false),
        run(&apart, true)
    );
    let (Some(with), Some(without), Some(split)) = (with, without, split) else {
        return;
    };
    print(
        "a chart and its custom objects in one file",
        &with,
        &without,
    );
    print("the same in two files", &split, &without);
    // One more pass: the chart's objects come at some moment of a pass, and the release can come just after RKE2's look
    // at the directory.
    for cost in [&with, &split] {
        assert!(cost.passes <= without.passes + 1, "{cost:#?}\n{without:#?}");
    }
    assert!(without.failed > 0, "{without:#?}");
    assert_eq!(split.failed, 0, "{split:#?}");
}

#[tokio::test]
async fn what_a_deployment_names_may_come_behind_it_and_costs_no_pass() {
    let mut named = String::from(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: web-system}\n---\n",
    );
    let whole = operator("web");
    let (account, deployment) = whole.split_once("---\n").unwrap();
    named += account;
    let files = [
        ("10-operator.yaml", deployment.to_owned()),
        ("20-account.yaml", named),
        ("90-namespace.yaml", namespace("web-system")),
    ];
    let files: BTreeMap<String, String> = files
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text))
        .collect();
    let run = async |windrow: bool| {
        let node = Bootstrap::start(files.clone(), windrow, false).await?;
        Some(node.end().await)
    };
    let (Some(with), Some(without)) = tokio::join!(run(true), run(false)) else {
        return;
    };
    print("an operator before its account", &with, &without);
    assert_eq!((with.failed, with.repeated), (0, 0), "{with:#?}");
    assert!(with.passes <= without.passes, "{with:#?}\n{without:#?}");
    let place = |resource: &str| with.created.iter().position(|(one, _)| one == resource);
    assert!(
        place("deployments") < place("configmaps"),
        "{:#?}",
        with.created
    );
}

#[tokio::test]
async fn published_manifests_are_staged_without_one_failed_apply() {
    let Some(dir) = std::env::var_os("WINDROW_REAL_MANIFESTS") else {
        return;
    };
    if cluster::skipped(Minor::V1_36) {
        return;
    }
    let mut files = BTreeMap::new();
    collect(Path::new(&dir), &mut files);
    assert!(!files.is_empty(), "no manifests in {}", dir.display());
    let run = async |windrow: bool| {
        let node = Bootstrap::start(files.clone(), windrow, false).await?;
        Some(node.end().await)
    };
    let (Some(with), Some(without)) = tokio::join!(run(true), run(false)) else {
        return;
    };
    print(&format!("{} published files", files.len()), &with, &without);
    assert_eq!((with.failed, with.repeated), (0, 0), "{with:#?}");
}

/// Every manifest below a directory, by its base name.
fn collect(dir: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "yaml") {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}
