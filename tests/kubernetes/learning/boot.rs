//! One boot, recorded: the real kube-apiserver, Job controller, helm-controller and deploy controller, and the daemon itself.
//! What Helm and an operator do in their pods is played, after the times of the boot's world.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jiff::Timestamp;
use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::world::{Part, World};
use crate::support::cluster::{Cluster, DEADLINE, HelmVersion, Spec, Who, eventually};
use crate::support::helm::Helm;
use crate::support::objects::{CHART, DEFINITION, DEPLOYMENT, Gvk, NAMESPACE, api, patch, served};

const SECRET: Gvk = ("", "v1", "Secret");
const CLASS: Gvk = ("storage.k8s.io", "v1", "StorageClass");
const SYSTEM: &str = "kube-system";
/// The version of the chart widgets.
const WIDGETS: &str = "1.4.2";
/// The operator's Deployment and field manager.
pub(super) const OPERATOR: &str = "spring-operator";

/// What lies in the directory. The objects sort before what brings their kinds.
pub(super) fn manifests() -> Vec<(&'static str, String)> {
    let chart = |name: &str, version: &str| {
        format!(
            "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {{name: {name}, namespace: {SYSTEM}}}\n\
             spec: {{chart: {name}, version: {version}, repo: \"https://charts.example.com\"}}\n"
        )
    };
    let object = |group: &str, kind: &str| {
        format!(
            "apiVersion: {group}.example.com/v1\nkind: {kind}\nmetadata: {{name: first, namespace: default}}\n"
        )
    };
    let operator = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {OPERATOR}, namespace: default}}\nspec:\n  \
         selector: {{matchLabels: {{app: {OPERATOR}}}}}\n  template:\n    metadata: {{labels: {{app: {OPERATOR}}}}}\n    \
         spec: {{containers: [{{name: operator, image: \"registry.example.com/operator:1\"}}]}}\n"
    );
    vec![
        ("10-widget.yaml", object("widgets", "Widget")),
        ("20-gadget.yaml", object("gadgets", "Gadget")),
        ("30-spring.yaml", object("springs", "Spring")),
        ("40-widgets-chart.yaml", chart("widgets", WIDGETS)),
        ("50-gadgets-chart.yaml", chart("gadgets", "0.9.1")),
        ("60-operator.yaml", operator),
    ]
}

/// Plays the boot, and puts its flight into `collected`. Nothing comes of it where the parts are not here.
pub(super) async fn record(world: &World, collected: &Path) -> Option<PathBuf> {
    let spec = Spec {
        controller_manager: true,
        ..Spec::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let folder = root.join("var/lib/rancher/rke2/server/manifests");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in manifests() {
        fs::write(folder.join(name), text).unwrap();
    }
    machine(root, world);
    let mut daemon = Daemon::start(root);
    daemon.holds("10-widget.yaml", &folder).await;
    let cluster = Cluster::start(spec).await?;
    let client = cluster.client(Who::Admin).await;
    let kubeconfig = root.join("etc/rancher/rke2/rke2.yaml");
    fs::create_dir_all(kubeconfig.parent().unwrap()).unwrap();
    fs::copy(cluster.kubeconfig(Who::Admin), kubeconfig).unwrap();
    let _helm_controller = cluster.helm_controller(HelmVersion::V0_17)?;
    // In RKE2 one process makes the kinds of both; two at once may refuse each other's.
    served(&client, CHART).await;
    let _rke2 = cluster.deploy(&folder)?;
    let files = manifests();
    tokio::join!(
        play_widgets(&client, world),
        play_gadgets(&client, world),
        play_operator(&client, world),
        daemon.applies(root, &files),
    );
    daemon.end();
    let flight = root.join("var/lib/rancher/windrow/flight.jsonl");
    let place = collected.join(format!("boot-{:03}.jsonl", world.number));
    fs::write(
        &place,
        on_its_hardware(&fs::read_to_string(flight).unwrap()),
    )
    .unwrap();
    Some(place)
}

/// The daemon below another root does not read this machine's hardware: what it would have written of the boot's own.
fn on_its_hardware(flight: &str) -> String {
    let lines = flight.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["is"] == "machine" {
            line["hardware"] = json!("16cpu-64g-nvme");
        }
        format!("{line}\n")
    });
    lines.collect()
}

/// What the daemon reads of the machine: another boot of another node each time.
fn machine(root: &Path, world: &World) {
    let boot = format!("00000000-0000-4000-8000-{:012}\n", world.number);
    for (place, text) in [
        ("proc/sys/kernel/random/boot_id", boot.as_str()),
        ("etc/hostname", &format!("node{}\n", world.number % 10)),
        // There is no systemd and no kubelet: what is learned is of the manifests.
        (
            "etc/windrow/conf.d/00-test.yaml",
            "probes: {enabled: false}\n",
        ),
    ] {
        let place = root.join(place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }
}

/// A chart with its kinds among its templates: Helm writes on each who brought it.
async fn play_widgets(client: &Client, world: &World) {
    let release = Release::begin(client, "widgets").await;
    sleep(world.takes(Part::Widgets)).await;
    release.bring(&["Widget"], WIDGETS).await;
    sleep(world.takes(Part::WidgetsDone)).await;
    let class = json!({"metadata": release.metadata("widgets", Some(WIDGETS)), "provisioner": "widgets.example.com"});
    make_as(client, CLASS, "", "helm", class).await;
    release.end().await;
}

/// A chart with its kinds below `crds/`, on which Helm writes nothing, and with a namespace. Helm makes those kinds before it
/// writes down that it begins (helm v3, `pkg/action/install.go`).
async fn play_gadgets(client: &Client, world: &World) {
    Helm::new(client, SYSTEM).job("helm-install-gadgets").await;
    sleep(world.takes(Part::Gadgets)).await;
    make_as(
        client,
        DEFINITION,
        "",
        "helm",
        definition("Gadget", json!({})),
    )
    .await;
    let release = Release::begin(client, "gadgets").await;
    let space = json!({"metadata": release.metadata("gadgets-system", Some("0.9.1"))});
    make_as(client, NAMESPACE, "", "helm", space).await;
    release.end().await;
}

/// An operator that makes its kind itself when its Deployment is there.
async fn play_operator(client: &Client, world: &World) {
    let deployments = api(client, DEPLOYMENT, "default");
    eventually("the operator's Deployment is there", DEADLINE, async || {
        deployments.get_opt(OPERATOR).await.unwrap()
    })
    .await;
    sleep(world.takes(Part::Springs)).await;
    let definition = definition("Spring", json!({}));
    make_as(client, DEFINITION, "", OPERATOR, definition).await;
}

/// A release while Helm works on it.
struct Release<'c> {
    client: &'c Client,
    name: &'static str,
}

impl<'c> Release<'c> {
    /// helm-controller has made the Job, and Helm in its pod has written down that it begins.
    async fn begin(client: &'c Client, name: &'static str) -> Self {
        let helm = Helm::new(client, SYSTEM);
        helm.job(&format!("helm-install-{name}")).await;
        let labels =
            json!({"owner": "helm", "name": name, "status": "pending-install", "version": "1"});
        let secret = json!({"metadata": {"name": secret(name), "labels": labels}, "type": "helm.sh/release.v1",
            "stringData": {"release": "-"}});
        make_as(client, SECRET, SYSTEM, "helm", secret).await;
        Self { client, name }
    }

    /// Kinds that are among the chart's templates.
    async fn bring(&self, kinds: &[&str], version: &str) {
        for kind in kinds {
            let metadata = self.metadata(self.name, Some(version));
            make_as(
                self.client,
                DEFINITION,
                "",
                "helm",
                definition(kind, metadata),
            )
            .await;
        }
    }

    /// As Helm and its usual templates write it.
    fn metadata(&self, name: &str, version: Option<&str>) -> Value {
        let mut labels = json!({"app.kubernetes.io/managed-by": "Helm"});
        if let Some(version) = version {
            labels["helm.sh/chart"] = json!(format!("{}-{version}", self.name));
        }
        json!({"name": name, "labels": labels, "annotations": {
            "meta.helm.sh/release-name": self.name, "meta.helm.sh/release-namespace": SYSTEM}})
    }

    async fn end(self) {
        let modified = Timestamp::now().as_second().to_string();
        let labels = json!({"status": "deployed", "modifiedAt": modified});
        patch(
            self.client,
            SECRET,
            SYSTEM,
            &secret(self.name),
            json!({"metadata": {"labels": labels}}),
        )
        .await;
        let helm = Helm::new(self.client, SYSTEM);
        helm.succeed(&format!("helm-install-{}", self.name)).await;
    }
}

fn secret(release: &str) -> String {
    format!("sh.helm.release.v1.{release}.v1")
}

/// A kind `Widget` of the group widgets.example.com.
fn definition(kind: &str, mut metadata: Value) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let group = format!("{plural}.example.com");
    metadata["name"] = json!(format!("{plural}.{group}"));
    json!({"metadata": metadata, "spec": {"group": group, "scope": "Namespaced",
        "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

/// Makes an object as a program of this name does.
async fn make_as(client: &Client, gvk: Gvk, namespace: &str, manager: &str, mut object: Value) {
    let (group, version, kind) = gvk;
    object["apiVersion"] = match group {
        "" => json!(version),
        group => json!(format!("{group}/{version}")),
    };
    object["kind"] = json!(kind);
    let parameters = PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    };
    let body = serde_json::to_vec(&object).unwrap();
    let address = api(client, gvk, namespace).resource_url().to_owned();
    let request = Request::new(address).create(&parameters, body).unwrap();
    let _made: Value = client.request(request).await.unwrap();
}

/// The program itself.
struct Daemon(Child);

impl Daemon {
    fn start(root: &Path) -> Self {
        let log = fs::File::create(root.join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_windrowd"))
            .arg("--root")
            .arg(root)
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self(child)
    }

    async fn holds(&self, file: &str, folder: &Path) {
        let marker = folder.join(format!("{file}.skip"));
        eventually("the file is held", DEADLINE, async || {
            marker.exists().then_some(())
        })
        .await;
    }

    async fn applies(&self, root: &Path, files: &[(&str, String)]) {
        let place = root.join("run/windrow/status.json");
        eventually("every manifest is applied", DEADLINE, async || {
            let status: Value = serde_json::from_slice(&fs::read(&place).ok()?).ok()?;
            let applied = status["staging"]["applied"].as_array()?;
            let is_applied = |name: &str| applied.iter().any(|one| one["file"] == name);
            files.iter().all(|(name, _)| is_applied(name)).then_some(())
        })
        .await;
    }

    /// Ends it as systemd does: the last lines of the flight are on the disk then.
    fn end(&mut self) {
        let id = Pid::from_raw(self.0.id().cast_signed());
        kill(id, Signal::SIGTERM).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
