//! One bootstrap on its own cluster, with Windrow or without it, and its cost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::cluster::{AuditLog, Cluster, DeployController, Spec, Who, Write, eventually};

/// Far longer than any bootstrap here takes.
const END: Duration = Duration::from_secs(3600);

/// The cost.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    /// Files taken up, counted each time.
    pub(crate) applies: i32,
    /// Those that failed.
    pub(crate) failed: i32,
    /// Those that repeated what was applied already.
    pub(crate) repeated: i32,
    /// The deploy controller's writes without events, and how many of them were refused.
    pub(crate) writes: usize,
    pub(crate) refused: usize,
    /// Events written.
    pub(crate) events: usize,
    /// How far etcd's revision advanced.
    pub(crate) revisions: u64,
    /// From the deploy controller's start until every file was applied.
    pub(crate) time: Duration,
    /// From the beginning of its first pass until then.
    pub(crate) time_of_passes: Duration,
    /// How many of its passes that took.
    pub(crate) passes: usize,
    /// How many files were held when it started.
    pub(crate) held: usize,
    /// What the deploy controller created, in order: resource and name.
    pub(crate) created: Vec<(String, String)>,
}

/// When the deploy controller makes its passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passes {
    /// As often as RKE2's.
    AsOften,
    /// When the test requests one.
    OnRequest,
}

/// A node during its bootstrap.
pub(crate) struct Bootstrap {
    // Declared in the order in which they must end.
    daemon: Option<Daemon>,
    pub(crate) controller: DeployController,
    pub(crate) cluster: Cluster,
    pub(crate) client: kube::Client,
    kubelet: Option<JoinHandle<()>>,
    files: BTreeMap<String, String>,
    began: Instant,
    revision: u64,
    held: usize,
}

impl Bootstrap {
    /// Starts a node on these files; `None`, after one line that says why, when the parts are not here. `harvester` leaves
    /// the sign of a Harvester node.
    pub(crate) async fn start(
        files: BTreeMap<String, String>,
        windrow: bool,
        harvester: bool,
    ) -> Option<Self> {
        let spec = Spec {
            controller_manager: true,
            ..Spec::default()
        };
        let release = harvester.then_some("v1.6.0");
        let mut node = Self::start_on(spec, files, windrow, release, Passes::AsOften).await?;
        node.kubelet = Some(kubelet(node.client.clone()));
        Some(node)
    }

    /// The same on a cluster of this kind, where no pod runs by itself.
    pub(crate) async fn start_on(
        spec: Spec,
        files: BTreeMap<String, String>,
        windrow: bool,
        harvester: Option<&str>,
        passes: Passes,
    ) -> Option<Self> {
        let spec = Spec {
            audit: AuditLog::Writes,
            ..spec
        };
        let cluster = Cluster::start(spec).await?;
        let client = cluster.client(Who::Admin).await;
        let root = cluster.dir().join("root");
        let manifests = root.join("var/lib/rancher/rke2/server/manifests");
        fs::create_dir_all(&manifests).unwrap();
        if let Some(release) = harvester {
            fs::create_dir_all(root.join("etc")).unwrap();
            let text = format!("harvester: {release}\n");
            fs::write(root.join("etc/harvester-release.yaml"), text).unwrap();
        }
        for (name, text) in &files {
            fs::write(manifests.join(name), text).unwrap();
        }
        let daemon = match windrow {
            true => {
                let program = Path::new(env!("CARGO_BIN_EXE_windrowd"));
                Some(Daemon::start(program, &root, &cluster.kubeconfig(Who::Admin)).await)
            }
            false => None,
        };
        let held = files.keys();
        let held = held.filter(|name| manifests.join(format!("{name}.skip")).exists());
        let held = held.count();
        let began = Instant::now();
        let revision = revision(&client).await;
        let controller = match passes {
            Passes::AsOften => cluster.deploy(&manifests)?,
            Passes::OnRequest => cluster.deploy_pass_by_pass("deploy-controller", &manifests)?,
        };
        Some(Self {
            cluster,
            client,
            controller,
            daemon,
            kubelet: None,
            files,
            began,
            revision,
            held,
        })
    }

    /// The files that are not applied in their current form. Until Addons can be listed, none is known to be applied.
    pub(crate) async fn missing(&self) -> BTreeSet<String> {
        let kind = GroupVersionKind::gvk("k3s.cattle.io", "v1", "Addon");
        let addons: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            "kube-system",
            &ApiResource::from_gvk(&kind),
        );
        let list = addons.list(&ListParams::default()).await;
        let applied: BTreeMap<String, String> = list
            .into_iter()
            .flatten()
            .filter_map(|addon| {
                let sum = addon.data["spec"]["checksum"].as_str()?.to_owned();
                Some((addon.metadata.name?, sum))
            })
            .collect();
        let files = self.files.iter().filter(|(name, text)| {
            let addon = name.split('.').next().unwrap();
            applied.get(addon) != Some(&hex(text.as_bytes()))
        });
        files.map(|(name, _)| name.clone()).collect()
    }

    /// Waits until every file is applied in its current form, and returns the cost.
    pub(crate) async fn end(self) -> Cost {
        let until = self.began + END;
        loop {
            // The list is of one moment; the next look comes with the next pass.
            let missing = self.missing().await;
            if missing.is_empty() {
                break;
            }
            assert!(
                Instant::now() < until,
                "never applied: {missing:?}; {}",
                self.says()
            );
            let now = self.passes();
            self.controller.passed(now + 1).await;
        }
        let time = self.began.elapsed();
        let passes = self.passes();
        let time_of_passes = time_of_passes(&self.controller.log(), passes);
        // An idle pass: all events of the last one are written, and no more come.
        self.controller.next_pass().await;
        Cost {
            time,
            time_of_passes,
            passes,
            ..self.cost("").await
        }
    }

    /// Is there a marker beside this file?
    pub(crate) fn is_held(&self, name: &str) -> bool {
        let root = self.cluster.dir().join("root");
        let manifests = root.join("var/lib/rancher/rke2/server/manifests");
        manifests.join(format!("{name}.skip")).exists()
    }

    /// How many passes of the deploy controller are over.
    fn passes(&self) -> usize {
        self.controller.log().matches("pass ended").count()
    }

    /// Windrow's status document, if it runs.
    pub(crate) fn says(&self) -> String {
        let status = self.daemon.as_ref().and_then(|daemon| {
            fs::read_to_string(daemon.root.join("run/windrow/status.json")).ok()
        });
        status.unwrap_or_default()
    }

    /// What the files cost until now whose names begin with this. What is not counted by file is that of all.
    pub(crate) async fn cost(&self, prefix: &str) -> Cost {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "kube-system");
        let mut by_addon: BTreeMap<(String, String), i32> = BTreeMap::new();
        for event in events.list(&ListParams::default()).await.unwrap() {
            let component = event.source.as_ref().and_then(|by| by.component.as_deref());
            let addon = event.involved_object.name.as_deref().unwrap_or_default();
            if component == Some("deploy") && addon.starts_with(prefix) {
                let key = (
                    event.reason.unwrap_or_default(),
                    event.involved_object.name.unwrap_or_default(),
                );
                *by_addon.entry(key).or_default() += event.count.unwrap_or(1);
            }
        }
        let sum = |test: &dyn Fn(&str) -> bool| -> i32 {
            by_addon
                .iter()
                .filter(|((reason, _), _)| test(reason))
                .map(|(_, count)| count)
                .sum()
        };
        let failed = sum(&|reason| reason.ends_with("ManifestFailed"));
        let writes: Vec<Write> = self
            .cluster
            .writes()
            .into_iter()
            .filter(|write| write.program == "deploy-controller")
            .filter(|write| !write.name.ends_with(".cattle.io"))
            .collect();
        let (said, written): (Vec<_>, Vec<_>) =
            writes.iter().partition(|write| write.resource == "events");
        let (done, refused): (Vec<&Write>, Vec<&Write>) =
            written.into_iter().partition(|write| write.done());
        Cost {
            applies: sum(&|reason| reason == "AppliedManifest") + failed,
            failed,
            repeated: by_addon
                .iter()
                .filter(|((reason, _), _)| reason == "AppliedManifest")
                .map(|(_, count)| count - 1)
                .sum(),
            held: self.held,
            passes: self.passes(),
            writes: done.len(),
            refused: refused.len(),
            events: said.len(),
            revisions: revision(&self.client).await - self.revision,
            created: done
                .iter()
                .filter(|write| write.verb == "create" && write.resource != "addons")
                .map(|write| (write.resource.clone(), write.name.clone()))
                .collect(),
            ..Cost::default()
        }
    }
}

impl Drop for Bootstrap {
    fn drop(&mut self) {
        if let Some(kubelet) = &self.kubelet {
            kubelet.abort();
        }
    }
}

/// The daemon on a root. It ends with the value.
pub(crate) struct Daemon {
    root: PathBuf,
    pub(crate) child: Child,
}

impl Daemon {
    /// Starts it and waits for its first look, as systemd does before it starts RKE2.
    pub(crate) async fn start(program: &Path, root: &Path, kubeconfig: &Path) -> Self {
        let place = root.join("etc/rancher/rke2/rke2.yaml");
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(kubeconfig, place).unwrap();
        let child = Command::new(program)
            .arg("--root")
            .arg(root)
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stderr(fs::File::create(root.join("windrow.log")).unwrap())
            .spawn()
            .unwrap();
        let daemon = Self {
            root: root.to_owned(),
            child,
        };
        let status = root.join("run/windrow/status.json");
        eventually("the daemon's first status", END, async || {
            status.exists().then_some(())
        })
        .await;
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays the kubelet: every pod runs and is ready as soon as it exists.
pub(crate) fn kubelet(client: kube::Client) -> JoinHandle<()> {
    let pods: Api<Pod> = Api::all(client.clone());
    let mut changes = watcher(pods, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    tokio::spawn(async move {
        while let Some(change) = changes.next().await {
            let pod = match change {
                Ok(pod) => pod,
                Err(error) => {
                    eprintln!("the kubelet's watch: {error}");
                    continue;
                }
            };
            let phase = pod.status.and_then(|status| status.phase);
            let (Some(namespace), Some(name)) = (pod.metadata.namespace, pod.metadata.name) else {
                continue;
            };
            if phase.as_deref() == Some("Running") {
                continue;
            }
            let status = json!({"status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]}});
            let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            let (params, patch) = (PatchParams::default(), Patch::Merge(status));
            if let Err(error) = pods.patch_status(&name, &params, &patch).await {
                eprintln!("the kubelet's word about {namespace}/{name}: {error}");
            }
        }
    })
}

/// From the beginning of the deploy controller's first pass to the end of this one, counted from 1, as its log says.
fn time_of_passes(log: &str, passes: usize) -> Duration {
    let at = |line: &str| -> Option<Duration> {
        let (time, _) = line.split_once(' ')?;
        let time = time.parse::<jiff::civil::Time>().ok()?;
        time.duration_since(jiff::civil::Time::midnight())
            .try_into()
            .ok()
    };
    let first = log.lines().find(|line| line.contains("pass begins"));
    let mut ends = log.lines().filter(|line| line.contains("pass ended"));
    let last = ends.nth(passes.saturating_sub(1));
    let (first, last) = (first.and_then(at), last.and_then(at));
    let day = Duration::from_secs(24 * 3600);
    // The log has the time of day alone.
    first.zip(last).map_or(Duration::ZERO, |(first, last)| {
        last.checked_sub(first).unwrap_or((last + day) - first)
    })
}

/// etcd's revision: every list has it.
pub(crate) async fn revision(client: &kube::Client) -> u64 {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let list = pods.list(&ListParams::default()).await.unwrap();
    list.metadata.resource_version.unwrap().parse().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
