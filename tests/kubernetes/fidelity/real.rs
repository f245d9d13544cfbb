//! The real deploy controller on a directory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Event;
use kube::Discovery;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::Value;
use tokio::sync::Barrier;

use super::directories::{Directory, Edit, Kind};
use super::{Outcome, Pass, called, is_left_alone, kinds, named, words};
use crate::support::cluster::{Cluster, DEADLINE, DeployController, Recorder, Who, eventually};
use crate::support::objects;

/// A folder under the real controller.
pub(super) struct Real<'a> {
    directory: &'a Directory,
    cluster: &'a Cluster,
    recorder: &'a Recorder,
    meeting: &'a Meeting,
    folder: PathBuf,
}

/// Where directories wait for one another, and what comes when all are there.
pub(super) struct Meeting {
    barrier: Barrier,
    kinds: Vec<Kind>,
}

impl Meeting {
    pub(super) fn of(directories: &[Directory]) -> Self {
        let edits = |directory: &Directory| directory.steps.iter().flat_map(|(edits, _)| *edits);
        let mut kinds: Vec<Kind> = Vec::new();
        let mut awaited = 0;
        for edit in directories.iter().flat_map(edits) {
            if let Edit::Bring(brought) = edit {
                awaited += 1;
                let new = brought.iter().filter(|kind| !kinds.contains(kind));
                let new: Vec<Kind> = new.copied().collect();
                kinds.extend(new);
            }
        }
        Self {
            barrier: Barrier::new(awaited),
            kinds,
        }
    }

    /// Waits until the kinds are served to every client.
    async fn bring(&self, cluster: &Cluster) {
        if self.barrier.wait().await.is_leader() {
            let client = cluster.client(Who::Admin).await;
            for kind in &self.kinds {
                let scope = if kind.namespaced {
                    "Namespaced"
                } else {
                    "Cluster"
                };
                let gvk = (kind.group, kind.version, kind.kind);
                objects::serve(&client, gvk, scope).await;
                // The deploy controller caches discovery, and notices a moment later.
                eventually("discovery lists the kind", DEADLINE, async || {
                    let all = Discovery::new(client.clone()).run_aggregated().await.ok()?;
                    let version = format!("{}/{}", kind.group, kind.version);
                    let one = client.list_api_group_resources(&version).await.ok()?;
                    let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
                    let listed = one.resources.iter().any(|one| one.kind == kind.kind);
                    (listed && all.resolve_gvk(&gvk).is_some()).then_some(())
                })
                .await;
            }
        }
        self.barrier.wait().await;
    }
}

impl<'a> Real<'a> {
    pub(super) fn new(
        directory: &'a Directory,
        cluster: &'a Cluster,
        recorder: &'a Recorder,
        meeting: &'a Meeting,
    ) -> Self {
        let folder = cluster.dir().join(directory.name).join("manifests");
        fs::create_dir_all(&folder).unwrap();
        Self {
            directory,
            cluster,
            recorder,
            meeting,
            folder,
        }
    }

    /// The result, and the objects; `None` when there is no controller here.
    pub(super) async fn run(&self) -> Option<(Outcome, BTreeMap<String, Value>)> {
        let mut controller = None;
        let mut due = 0;
        for (edits, passes) in self.directory.steps {
            for edit in *edits {
                self.edit(*edit).await;
            }
            let controller = match &controller {
                Some(running) => running,
                None => {
                    let (program, folder) = (self.program(), &self.folder);
                    controller.insert(self.cluster.deploy_pass_by_pass(&program, folder)?)
                }
            };
            due += passes;
            while over(controller) < due {
                controller.one_more_pass().await;
            }
        }
        // It writes its events asynchronously, in order; the last one is about the last file.
        let end = format!("{}-zz", self.directory.name);
        eventually(&format!("the last event of {end}"), DEADLINE, async || {
            let events = self.recorder.about(&end);
            let last = |event: &Event| event.reason.as_deref() == Some("AppliedManifest");
            events.iter().any(last).then_some(())
        })
        .await;
        let log = controller?.log();
        let found = self.objects().await;
        let objects = found
            .iter()
            .map(|(name, json)| {
                let owner = &json["metadata"]["annotations"]["objectset.rio.cattle.io/owner-name"];
                (name.clone(), owner.as_str().unwrap_or_default().to_owned())
            })
            .collect();
        let order: BTreeMap<u64, String> = found
            .iter()
            .filter(|(name, _)| is_left_alone(name.split(' ').next().unwrap()))
            .map(|(name, json)| {
                let revision = json["metadata"]["resourceVersion"].as_str().unwrap();
                (revision.parse().unwrap(), name.clone())
            })
            .collect();
        let outcome = Outcome {
            passes: self.passes(&log),
            addons: self.addons().await,
            objects,
            order: order.into_values().collect(),
            writes: self.writes(),
        };
        Some((outcome, found))
    }

    async fn edit(&self, edit: Edit) {
        let path = |name: &str| {
            let path = self.folder.join(named(name, self.directory));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        match edit {
            Edit::Write(name, content) => {
                let temporary = self.folder.join(".new.tmp");
                fs::write(&temporary, named(content, self.directory)).unwrap();
                fs::rename(&temporary, path(name)).unwrap();
            }
            Edit::Remove(name) => fs::remove_file(path(name)).unwrap(),
            Edit::Dangle(name) => symlink("nowhere", path(name)).unwrap(),
            Edit::Bring(_) => self.meeting.bring(self.cluster).await,
        }
    }

    /// The path below the folder.
    fn below(&self, path: &str) -> String {
        let path = Path::new(path).strip_prefix(&self.folder).unwrap();
        path.display().to_string()
    }

    /// The passes by the controller's log, and in each the events of its time. Passes are 15 s apart, and events have
    /// whole seconds.
    fn passes(&self, log: &str) -> Vec<Pass> {
        let mut passes: Vec<(u64, Pass)> = Vec::new();
        for line in log.lines() {
            if line.ends_with("pass begins: everything=true")
                || line.ends_with("pass begins: everything=false")
            {
                passes.push((second_of_day(line), Pass::default()));
            } else if let Some((_, why)) = line.split_once("failed to process ") {
                let (path, _) = why.split_once(": ").unwrap();
                let (_, pass) = passes.last_mut().unwrap();
                pass.failed.insert(self.below(path), String::new());
            } else if let Some((_, why)) = line.split_once("Failed to process config: ") {
                let (_, pass) = passes.last_mut().unwrap();
                pass.aborted = Some(self.without_folder(why));
            }
        }
        let prefix = format!("{}-", self.directory.name);
        for event in self.recorder.about(&prefix) {
            let at = event.last_timestamp.as_ref().unwrap().0.as_second() as u64 % DAY;
            let message = event.message.unwrap_or_default();
            let file = self.below(message.split('"').nth(1).unwrap());
            let (_, pass) = passes
                .iter_mut()
                .rev()
                .find(|(begun, _)| *begun <= at)
                .unwrap();
            let reason = event.reason.unwrap_or_default();
            if let Some(failed) = pass.failed.get_mut(&file) {
                *failed = words(&reason, &self.without_folder(&message));
            }
            pass.events.push(format!("{file} {reason}"));
        }
        let mut passes: Vec<Pass> = passes.into_iter().map(|(_, pass)| pass).collect();
        passes.dedup_by(|one, before| one.aborted.is_some() && one.aborted == before.aborted);
        passes
    }

    /// A message as RKE2 would write it: its directory is a different one.
    fn without_folder(&self, message: &str) -> String {
        let folder = self.folder.display().to_string();
        message.replace(&folder, "/var/lib/rancher/rke2/server/manifests")
    }

    async fn addons(&self) -> BTreeMap<String, (String, String)> {
        let addon = GroupVersionKind::gvk("k3s.cattle.io", "v1", "Addon");
        let all = self.list(&addon).await;
        let prefix = format!("{}-", self.directory.name);
        all.into_iter()
            .filter_map(|addon| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let name = addon
                    .metadata
                    .name
                    .filter(|name| name.starts_with(&prefix))?;
                let spec = &addon.data["spec"];
                Some((
                    name,
                    (text(&spec["checksum"]), self.below(&text(&spec["source"]))),
                ))
            })
            .collect()
    }

    async fn objects(&self) -> BTreeMap<String, Value> {
        let mut found = BTreeMap::new();
        for kind in kinds(self.directory) {
            for object in self.list(&kind).await {
                let json = serde_json::to_value(&object).unwrap();
                let owner = &json["metadata"]["annotations"]["objectset.rio.cattle.io/owner-name"];
                let prefix = format!("{}-", self.directory.name);
                if owner
                    .as_str()
                    .is_some_and(|owner| owner.starts_with(&prefix))
                {
                    found.insert(called(&kind.kind, &json["metadata"]), json);
                }
            }
        }
        found
    }

    /// Every object of a kind; none when the kind does not exist.
    async fn list(&self, kind: &GroupVersionKind) -> Vec<DynamicObject> {
        let client = self.cluster.client(Who::Admin).await;
        let resource = objects::resource((&kind.group, &kind.version, &kind.kind));
        let api: Api<DynamicObject> = Api::all_with(client, &resource);
        match api.list(&ListParams::default()).await {
            Ok(list) => list.items,
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            Err(error) => panic!("{}: {error}", kind.kind),
        }
    }

    /// The name of this folder's controller in its messages.
    fn program(&self) -> String {
        format!("deploy-{}", self.directory.name)
    }

    fn writes(&self) -> usize {
        let writes = self.cluster.writes();
        writes
            .iter()
            .filter(|write| write.program == self.program() && write.done())
            .filter(|write| write.resource != "events")
            // RKE2's own definitions, which it registers before its first pass.
            .filter(|write| !write.name.ends_with(".cattle.io"))
            .count()
    }
}

/// How many passes are over. Consecutive passes that do nothing for the same reason count as one.
fn over(controller: &DeployController) -> usize {
    let (mut passes, mut aborted, mut before) = (0, None, None);
    for line in controller.log().lines() {
        if let Some((_, why)) = line.split_once("Failed to process config: ") {
            aborted = (!why.starts_with("failed to process ")).then(|| why.to_owned());
        } else if line.contains("pass ended: ") {
            passes += usize::from(aborted.is_none() || aborted != before);
            before = aborted.take();
        }
    }
    passes
}

const DAY: u64 = 24 * 3600;

/// `10:20:30.000000 …` of the controller's log.
fn second_of_day(line: &str) -> u64 {
    let mut parts = line[..8]
        .split(':')
        .map(|part| part.parse::<u64>().unwrap());
    parts.by_ref().fold(0, |sum, part| sum * 60 + part)
}
