//! The simulated node: API server, deploy controller, platform and controllers under one clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agenda::Timer;
use super::chance::Chance;
use super::cluster::Cluster;
use super::controllers::{self, Controllers};
use super::deploy::{DeployController, addon_name};
use super::files::Files;
use super::harvester::{HarvesterVersion, Platform};
use super::log::{Counts, Happening, What};
use super::reading::Readings;
use super::times;
use crate::layout::Layout;
use crate::manifest::{GroupKind, ObjectRef};

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Harvester's version; `None` for RKE2 alone.
    pub harvester: Option<HarvesterVersion>,
    /// The preset of `systemSettings.storage-network`, if there is one.
    pub storage_network: Option<String>,
    /// When the machine is switched on.
    pub start: Timestamp,
    /// What others bring beside the platform, after so long from kube-apiserver's first answer.
    pub arrivals: Vec<Arrival>,
    /// Components that RKE2's configuration disables: what they would bring does not come.
    pub disabled: Vec<String>,
    /// Objects whose pods never run, and why: an image that cannot be had.
    pub cannot_run: BTreeMap<ObjectRef, String>,
}

/// Something that somebody else brings into the cluster.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// When, from kube-apiserver's first answer.
    pub after: Duration,
    /// Kinds; true for namespaced ones.
    pub kinds: Vec<(GroupKind, bool)>,
    /// Objects, as JSON.
    pub objects: Vec<(ObjectRef, serde_json::Value)>,
}

impl Scenario {
    /// RKE2 alone.
    pub fn rke2(start: Timestamp) -> Self {
        Self {
            harvester: None,
            storage_network: None,
            start,
            arrivals: Vec::new(),
            disabled: Vec::new(),
            cannot_run: BTreeMap::new(),
        }
    }

    /// Harvester, with a preset storage network or without.
    pub fn harvester(
        version: HarvesterVersion,
        storage_network: Option<&str>,
        start: Timestamp,
    ) -> Self {
        Self {
            harvester: Some(version),
            storage_network: storage_network.map(str::to_owned),
            ..Self::rke2(start)
        }
    }
}

/// Where a bootstrap ended, or stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "is")]
pub enum Verdict {
    /// Things are still happening.
    Underway,
    /// Platform up, every file that is not hidden applied, every machine that should run does.
    Complete,
    /// Nothing can happen any more, and not everything is done.
    Stuck {
        /// What is not done.
        missing: Vec<String>,
    },
    /// Nothing can happen any more, because one thing waits for another in a circle.
    Deadlocked {
        /// The circle, one link a line.
        proof: Vec<String>,
    },
}

/// What came of a bootstrap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Where it ended.
    pub verdict: Verdict,
    /// Files that RKE2 has applied as they are now.
    pub applied: Vec<String>,
    /// Files that it has not.
    pub unapplied: Vec<String>,
    /// `printableStatus` of every virtual machine.
    pub machines: BTreeMap<String, String>,
}

/// The simulated node.
#[derive(Debug, Clone)]
pub struct Node {
    cluster: Cluster,
    deploy: DeployController,
    platform: Platform,
    controllers: Controllers,
    readings: Readings,
    scenario: Scenario,
    begun: bool,
}

impl Node {
    /// A node that is being switched on at `scenario.start`.
    pub fn new(scenario: Scenario, seed: u64) -> Self {
        let mut cluster = Cluster::new(scenario.start, Chance::new(seed).branch(1));
        cluster.addresses = scenario.harvester.is_some();
        cluster.cannot_run = Arc::new(scenario.cannot_run.clone());
        cluster.within(times::API_READY, Timer::ApiReady);
        Self {
            cluster,
            deploy: DeployController::new(&manifests_path()),
            platform: Platform::new(&scenario),
            controllers: Controllers::default(),
            readings: Readings::default(),
            scenario,
            begun: false,
        }
    }

    /// When something happens next.
    pub fn next_event_at(&self) -> Option<Timestamp> {
        self.cluster.agenda.next_at()
    }

    /// Lets everything happen that is due until `now`.
    pub fn advance(&mut self, now: Timestamp, files: &Files) {
        while let Some((at, timer)) = self.cluster.agenda.due(now) {
            self.cluster.now = at;
            self.happen(timer, files);
            self.controllers.look(&mut self.cluster);
        }
        self.cluster.now = self.cluster.now.max(now);
    }

    fn happen(&mut self, timer: Timer, files: &Files) {
        let cluster = &mut self.cluster;
        match timer {
            Timer::ApiReady => self.api_ready(),
            Timer::Deploy => self.deploy.step(cluster, files, &mut self.readings),
            Timer::Established(id) => cluster.established(&id),
            Timer::Discovered(kind, namespaced) => cluster.discover(kind, namespaced),
            Timer::Step(number) => self.platform.step(number, cluster),
            Timer::Arrival(number) => {
                if let Some(arrival) = self.scenario.arrivals.get(number) {
                    for (kind, namespaced) in &arrival.kinds {
                        cluster.discover(kind.clone(), *namespaced);
                    }
                    for (id, json) in &arrival.objects {
                        cluster.put(id.clone(), json.clone());
                    }
                }
            }
            Timer::SetAll => self.platform.set_all(cluster),
            Timer::StorageNetwork => self.platform.configured(cluster),
            Timer::Act(id, stage) => self.controllers.act(id, stage, cluster),
        }
    }

    fn api_ready(&mut self) {
        let cluster = &mut self.cluster;
        cluster.set_up(true);
        cluster.tell(What::ApiReady);
        cluster.within(times::DEPLOY_START, Timer::Deploy);
        if !self.begun {
            self.begun = true;
            self.platform.begin(cluster);
            for (number, arrival) in self.scenario.arrivals.iter().enumerate() {
                cluster.after(arrival.after, Timer::Arrival(number));
            }
        }
    }

    /// The machine restarts now: what is in etcd stays, the deploy controller forgets everything
    /// and will apply every file anew.
    pub fn reboot(&mut self) {
        let cluster = &mut self.cluster;
        cluster.tell(What::Reboot);
        cluster.set_up(false);
        let off = cluster.chance.between(times::REBOOT);
        let start = cluster.chance.between(times::API_READY);
        cluster.agenda.outage(off + start, |timer| {
            matches!(timer, Timer::Deploy | Timer::ApiReady)
        });
        cluster.after(off + start, Timer::ApiReady);
        self.deploy = DeployController::new(&manifests_path());
    }

    /// The API server.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The deploy controller.
    pub fn deploy(&self) -> &DeployController {
        &self.deploy
    }

    /// Everything that happened so far.
    pub fn log(&self) -> &[Happening] {
        &self.cluster.log
    }

    /// How much the deploy controller did.
    pub fn counts(&self) -> Counts {
        self.cluster.counts
    }

    pub(super) fn tell(&mut self, what: What) {
        self.cluster.tell(what);
    }

    /// Stands for everything that a watch could tell: as long as it is the same there is no news.
    pub(super) fn pulse(&self) -> (u64, u64, bool) {
        let cluster = &self.cluster;
        (cluster.revision(), cluster.counts.failed, cluster.is_up())
    }

    /// Can nothing change any more as long as nobody touches the files? All that is left are things
    /// that are tried over and over, and each was tried since the last change.
    pub fn is_settled(&self, files: &Files) -> bool {
        let progress = self
            .cluster
            .agenda
            .any(|timer| !matches!(timer, Timer::Deploy | Timer::SetAll));
        let starting = self.cluster.agenda.any(|timer| *timer == Timer::SetAll);
        !progress
            && self.deploy.is_idle(&self.cluster, files)
            && (!starting || self.platform.is_idle(&self.cluster))
    }

    /// Has RKE2 applied this file as it is now?
    pub fn has_applied(&mut self, path: &str, files: &Files) -> bool {
        let Some(file) = files.get(path) else {
            return false;
        };
        let reading = self.readings.read(path, &file.content);
        self.cluster
            .addons
            .get(addon_name(path))
            .is_some_and(|addon| addon.seen.checksum == reading.sha256)
    }

    /// What came of it so far.
    pub fn outcome(&mut self, files: &Files) -> Outcome {
        let paths: Vec<String> = files.manifests().map(|(path, _)| path.to_owned()).collect();
        let (applied, unapplied): (Vec<_>, Vec<_>) = paths
            .into_iter()
            .partition(|path| self.has_applied(path, files));
        let machines: BTreeMap<String, String> = self
            .cluster
            .list("kubevirt.io", "VirtualMachine")
            .map(|(id, vm)| {
                let state = vm["status"]["printableStatus"].as_str().unwrap_or("");
                (id.to_string(), state.to_owned())
            })
            .collect();
        let mut missing: Vec<String> = unapplied
            .iter()
            .filter(|path| !files.is_hidden(path))
            .map(|path| self.why_unapplied(path))
            .collect();
        missing.extend(
            self.cluster
                .list("kubevirt.io", "VirtualMachine")
                .filter(|(_, vm)| {
                    controllers::starts(vm) && vm["status"]["printableStatus"] != "Running"
                })
                .map(|(id, _)| format!("{id} does not run")),
        );
        missing.extend(
            self.cluster
                .cannot_run
                .iter()
                .filter(|(id, _)| self.cluster.get(id).is_some())
                .map(|(id, why)| format!("{id} does not run: {why}")),
        );
        if !self.platform.is_up() {
            missing.push("Harvester has not come up".to_owned());
        }
        let verdict = match (missing.is_empty(), self.is_settled(files)) {
            (true, true) => Verdict::Complete,
            (_, false) => Verdict::Underway,
            (false, true) => match self.platform.is_idle(&self.cluster) {
                true => Verdict::Deadlocked {
                    proof: self.proof(),
                },
                false => Verdict::Stuck { missing },
            },
        };
        Outcome {
            verdict,
            applied,
            unapplied,
            machines,
        }
    }

    fn why_unapplied(&self, path: &str) -> String {
        match self.cluster.failures.get(addon_name(path)) {
            Some(failure) => format!("{path} is not applied: {}", failure.message),
            None => format!("{path} is not applied"),
        }
    }

    /// The circle in which Harvester and a machine wait for each other.
    fn proof(&self) -> Vec<String> {
        let machines: Vec<String> = self
            .cluster
            .list("kubevirt.io", "VirtualMachine")
            .filter(|(_, vm)| vm["status"]["printableStatus"] != "Stopped")
            .map(|(id, vm)| {
                let state = vm["status"]["printableStatus"].as_str().unwrap_or("");
                let state = if state.is_empty() { "none yet" } else { state };
                format!("{id} is not Stopped (its printableStatus: {state})")
            })
            .collect();
        let mut proof = machines;
        proof.push(format!(
            "so Harvester's webhook refuses the setting storage-network (refused {} times)",
            self.platform.refusals()
        ));
        proof.push("so Harvester's pod crashes at its start, over and over".to_owned());
        proof
            .push("so nothing imports images, binds their volumes or stops the machine".to_owned());
        proof.push("nothing else is under way: this can never end by itself".to_owned());
        proof
    }
}

/// RKE2's own name of the directory, for its messages.
fn manifests_path() -> String {
    format!("{}/server/manifests", Layout::RKE2_DATA_DIR)
}
