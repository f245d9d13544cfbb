//! The simulated node: API server, deploy controller, platform and controllers under one clock. With
//! several servers there is one cluster, and a deploy controller on each of them.

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
use super::known::Known;
use super::log::{Counts, Happening, What};
use super::operators;
use super::rancherd;
use super::reading::Readings;
use super::times;
use crate::manifest::{GroupKind, ObjectRef};

/// Servers that took an Addon from one another so many times will go on doing so.
const QUARREL: u32 = 6;

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// How the first node is called, where others join it.
    pub name: String,
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
    /// Objects about which a fail-closed webhook is asked.
    pub asked: BTreeMap<ObjectRef, Asked>,
    /// Does RKE2 rewrite HelmChart files when it starts? Up to 1.35 it does.
    pub rewrites_charts: bool,
    /// Restarts: how long after power-on, and of which node; 0 is the first.
    pub reboots: Vec<(Duration, usize)>,
}

/// A webhook that fails closed, as far as one object is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its configuration: while that is not there nobody is asked.
    pub webhook: ObjectRef,
    /// Whose pods answer.
    pub backend: ObjectRef,
    /// What kube-apiserver says while none of them does.
    pub refusal: String,
}

/// What a node that joins is in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A server, which joins when the first one answers.
    Server,
    /// A server once Harvester has come up and has made it one.
    Promoted,
    /// No server: nothing reads its manifests directory.
    Agent,
}

/// The manifests directories of the servers.
pub trait Disks {
    /// That of one server.
    fn of(&self, server: usize) -> &Files;
}

impl Disks for Files {
    fn of(&self, _: usize) -> &Files {
        self
    }
}

impl Disks for [Files] {
    fn of(&self, server: usize) -> &Files {
        &self[server]
    }
}

/// What whoever writes the directories has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// RKE2 starts on a server and rewrites its HelmCharts.
    Starts(usize),
    /// A server restarts: yip writes its files anew.
    Restarts(usize),
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
            name: "the first node".to_owned(),
            harvester: None,
            storage_network: None,
            start,
            arrivals: Vec::new(),
            disabled: Vec::new(),
            cannot_run: BTreeMap::new(),
            asked: BTreeMap::new(),
            rewrites_charts: false,
            reboots: Vec::new(),
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
    servers: Vec<Server>,
    platform: Platform,
    controllers: Controllers,
    readings: Readings,
    scenario: Scenario,
    begun: bool,
    signals: Vec<Signal>,
}

/// A node of the cluster.
#[derive(Debug, Clone)]
struct Server {
    name: String,
    /// None for the first one.
    role: Option<Role>,
    deploy: DeployController,
    /// Its kube-apiserver has answered, or is on its way to.
    started: bool,
}

impl Node {
    /// A node that is being switched on at `scenario.start`.
    pub fn new(scenario: Scenario, seed: u64) -> Self {
        Self::fleet(scenario, &[], seed)
    }

    /// The same with others that join it: how each is called, and what it is.
    pub fn fleet(scenario: Scenario, joins: &[(&str, Role)], seed: u64) -> Self {
        let mut cluster = Cluster::new(scenario.start, Chance::new(seed).branch(1));
        cluster.addresses = scenario.harvester.is_some();
        cluster.cannot_run = Arc::new(scenario.cannot_run.clone());
        cluster.asked = Arc::new(scenario.asked.clone());
        cluster.within(times::API_READY, Timer::ApiReady(0));
        if scenario.rewrites_charts {
            cluster.after(times::START, Timer::Start(0));
        }
        if scenario.harvester.is_some() {
            cluster.after(times::START, Timer::Rancherd(rancherd::Step::Start));
        }
        for (after, server) in &scenario.reboots {
            cluster.after(*after, Timer::Reboot(*server));
        }
        let server = |number, name: &str, role| Server {
            name: name.to_owned(),
            role,
            deploy: DeployController::new(number),
            started: number == 0,
        };
        let mut servers = vec![server(0, &scenario.name, None)];
        for (number, (name, role)) in (1..).zip(joins) {
            servers.push(server(number, name, Some(*role)));
        }
        Self {
            cluster,
            servers,
            platform: Platform::new(&scenario),
            controllers: Controllers::default(),
            readings: Readings::default(),
            scenario,
            begun: false,
            signals: Vec::new(),
        }
    }

    /// The same with files that need not be read again.
    #[must_use]
    pub(super) fn knowing(mut self, known: &Known) -> Self {
        self.readings = known.readings.clone();
        self
    }

    /// When something happens next.
    pub fn next_event_at(&self) -> Option<Timestamp> {
        self.cluster.agenda.next_at()
    }

    /// Lets everything happen that is due until `now`.
    pub fn advance<D: Disks + ?Sized>(&mut self, now: Timestamp, disks: &D) {
        while let Some((at, timer)) = self.cluster.agenda.due(now) {
            self.cluster.now = at;
            self.cluster.on = 0;
            self.happen(timer, disks);
            self.controllers.look(&mut self.cluster);
        }
        self.cluster.on = 0;
        self.cluster.now = self.cluster.now.max(now);
    }

    fn happen<D: Disks + ?Sized>(&mut self, timer: Timer, disks: &D) {
        let cluster = &mut self.cluster;
        match timer {
            Timer::Start(server) => self.signals.push(Signal::Starts(server)),
            Timer::ApiReady(server) => self.api_ready(server),
            Timer::Deploy(server) => {
                cluster.on = server;
                let deploy = &mut self.servers[server].deploy;
                deploy.step(cluster, disks.of(server), &mut self.readings);
            }
            Timer::Joined(node) => {
                cluster.on = node;
                if self.scenario.harvester.is_some() {
                    cluster.tell(What::Rancherd {
                        step: rancherd::JOINS.to_owned(),
                        failed: false,
                    });
                }
                cluster.tell(What::JoinedAsAgent);
            }
            Timer::Reboot(server) => {
                self.reboot(server);
                self.signals.push(Signal::Restarts(server));
            }
            Timer::Established(id) => cluster.established(&id),
            Timer::Discovered(kind, namespaced) => cluster.discover(kind, namespaced),
            Timer::Step(number) => self.platform.step(number, cluster),
            Timer::Rancherd(step) => {
                self.platform.rancherd(step, cluster);
                // Nodes that join find the cluster by Rancher.
                if step == rancherd::Step::Rancher {
                    self.agents_join();
                }
            }
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
            Timer::SetAll => {
                self.platform.set_all(cluster);
                self.promote();
            }
            Timer::StorageNetwork => {
                self.platform.configured(cluster);
                self.promote();
            }
            Timer::Act(id, stage) => self.controllers.act(id, stage, cluster),
        }
    }

    fn api_ready(&mut self, server: usize) {
        let cluster = &mut self.cluster;
        cluster.set_up(server, true);
        cluster.on = server;
        cluster.tell(What::ApiReady);
        cluster.within(times::DEPLOY_START, Timer::Deploy(server));
        if !self.begun {
            self.begun = true;
            self.platform.begin(cluster);
            for (number, arrival) in self.scenario.arrivals.iter().enumerate() {
                cluster.after(arrival.after, Timer::Arrival(number));
            }
            self.join(Role::Server);
            if self.scenario.harvester.is_none() {
                self.agents_join();
            }
        }
    }

    /// Harvester makes servers of the nodes that joined, once it has come up.
    fn promote(&mut self) {
        if self.platform.is_up() {
            self.join(Role::Promoted);
        }
    }

    /// Nodes that are no servers, or not yet, join one after the other.
    fn agents_join(&mut self) {
        let mut after = Duration::ZERO;
        for (number, node) in self.servers.iter().enumerate() {
            if matches!(node.role, Some(Role::Agent | Role::Promoted)) {
                after += self.cluster.chance.between(times::JOIN);
                self.cluster.after(after, Timer::Joined(number));
            }
        }
    }

    /// Servers of this role start, one after the other.
    fn join(&mut self, role: Role) {
        let mut after = Duration::ZERO;
        for number in 0..self.servers.len() {
            let server = &mut self.servers[number];
            if server.role != Some(role) || server.started {
                continue;
            }
            server.started = true;
            let range = match role {
                Role::Promoted => times::PROMOTE,
                Role::Server | Role::Agent => times::JOIN,
            };
            after += self.cluster.chance.between(range);
            if self.scenario.rewrites_charts {
                let before = after.saturating_sub(times::API_READY.0);
                self.cluster.after(before, Timer::Start(number));
            }
            self.cluster.after(after, Timer::ApiReady(number));
        }
    }

    /// A machine restarts now: what is in etcd stays, its deploy controller forgets everything and
    /// will apply every file anew. Nothing else goes on where it is the only one.
    pub fn reboot(&mut self, server: usize) {
        let alone = self.servers.len() == 1;
        let cluster = &mut self.cluster;
        let Some(one) = self.servers.get_mut(server) else {
            return;
        };
        if one.role == Some(Role::Agent) {
            cluster.on = server;
            cluster.tell(What::Reboot);
            cluster.within(times::REBOOT, Timer::Joined(server));
            return;
        }
        if !one.started {
            return;
        }
        one.deploy = DeployController::new(server);
        cluster.on = server;
        cluster.tell(What::Reboot);
        cluster.set_up(server, false);
        let off = cluster.chance.between(times::REBOOT);
        let start = cluster.chance.between(times::API_READY);
        let delay = if alone { off + start } else { Duration::ZERO };
        cluster.agenda.outage(delay, |timer| {
            [
                Timer::Deploy(server),
                Timer::ApiReady(server),
                Timer::Start(server),
            ]
            .contains(timer)
        });
        if self.scenario.rewrites_charts {
            cluster.after(off + times::START, Timer::Start(server));
        }
        cluster.after(off + start, Timer::ApiReady(server));
        if server == 0 && self.scenario.harvester.is_some() {
            cluster.after(off + times::START, Timer::Rancherd(rancherd::Step::Restart));
        }
    }

    /// What whoever writes the directories has not been told yet.
    pub(super) fn signals(&mut self) -> Vec<Signal> {
        std::mem::take(&mut self.signals)
    }

    /// The API server.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The first server's deploy controller.
    pub fn deploy(&self) -> &DeployController {
        &self.servers[0].deploy
    }

    /// Everything that happened so far.
    pub fn log(&self) -> &[Happening] {
        &self.cluster.log
    }

    /// How much the deploy controller did.
    pub fn counts(&self) -> Counts {
        self.cluster.counts
    }

    pub(super) fn tell(&mut self, server: usize, what: What) {
        self.cluster.on = server;
        self.cluster.tell(what);
        self.cluster.on = 0;
    }

    /// The cluster as it is, and what happened in it.
    pub(super) fn into_parts(self) -> (Vec<Happening>, Cluster) {
        self.cluster.into_log()
    }

    /// Stands for everything that a watch could tell: as long as it is the same there is no news.
    pub(super) fn pulse(&self, server: usize) -> (u64, u64, bool) {
        let cluster = &self.cluster;
        (
            cluster.revision(),
            cluster.counts.failed,
            cluster.is_up_on(server),
        )
    }

    /// Can nothing change any more as long as nobody touches the files? All that is left are things
    /// that are tried over and over, and each was tried since the last change.
    pub fn is_settled<D: Disks + ?Sized>(&self, disks: &D) -> bool {
        let idle = self.servers.iter().enumerate().all(|(number, server)| {
            !server.started || server.deploy.is_idle(&self.cluster, disks.of(number))
        });
        if !idle && self.quarrels().is_empty() {
            return false;
        }
        let agenda = &self.cluster.agenda;
        let tried_again = |timer: &Timer| {
            matches!(
                timer,
                Timer::Deploy(_) | Timer::SetAll | Timer::Rancherd(rancherd::Step::Apply)
            )
        };
        if agenda.any(|timer| !tried_again(timer)) {
            return false;
        }
        let starting = agenda.any(|timer| *timer == Timer::SetAll);
        let applying = agenda.any(|timer| matches!(timer, Timer::Rancherd(_)));
        let in_vain = (!starting || self.platform.is_idle(&self.cluster))
            && (!applying || self.platform.rancherd_is_idle(&self.cluster));
        in_vain || !self.quarrels().is_empty()
    }

    /// Addons that servers go on taking from one another.
    fn quarrels(&self) -> Vec<&str> {
        let taken = self.cluster.taken.iter();
        taken
            .filter(|(_, times)| **times >= QUARREL)
            .map(|(addon, _)| addon.as_str())
            .collect()
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
    pub fn outcome<D: Disks + ?Sized>(&mut self, disks: &D) -> Outcome {
        let (applied, unapplied) = self.applied(disks.of(0));
        let mut missing = Vec::new();
        for number in 0..self.servers.len() {
            missing.extend(self.missing_on(number, disks.of(number)));
        }
        for addon in self.quarrels() {
            missing.push(format!(
                "servers take the Addon {addon} from one another, over and over: their files differ"
            ));
        }
        let machines: BTreeMap<String, String> = self
            .cluster
            .list("kubevirt.io", "VirtualMachine")
            .map(|(id, vm)| {
                let state = vm["status"]["printableStatus"].as_str().unwrap_or("");
                (id.to_string(), state.to_owned())
            })
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
        missing.extend(operators::unsettled(&self.cluster));
        let verdict = match (missing.is_empty(), self.is_settled(disks)) {
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

    /// Files that RKE2 has applied as they are in this directory, and those that it has not.
    pub(super) fn applied(&mut self, files: &Files) -> (Vec<String>, Vec<String>) {
        let paths: Vec<String> = files.manifests().map(|(path, _)| path.to_owned()).collect();
        paths
            .into_iter()
            .partition(|path| self.has_applied(path, files))
    }

    /// What is not done of what a node has to do.
    fn missing_on(&mut self, number: usize, files: &Files) -> Vec<String> {
        let Server {
            name,
            role,
            started,
            ..
        } = &self.servers[number];
        let (name, started) = (name.clone(), *started);
        if *role == Some(Role::Agent) {
            // What lies on a server as well is applied from there.
            let (_, unread) = self.applied(files);
            return unread
                .iter()
                .map(|path| {
                    format!(
                        "{path} of {name} is not applied: {name} is an agent, and nothing reads an \
                         agent's manifests directory"
                    )
                })
                .collect();
        }
        if !started {
            return vec![format!("{name} has not become a server")];
        }
        let (_, unapplied) = self.applied(files);
        unapplied
            .iter()
            .filter(|path| !files.is_hidden(path))
            .map(|path| {
                let addon = self.cluster.addons.get(addon_name(path));
                let other = addon.map(|addon| addon.by).filter(|by| *by != number);
                match other.and_then(|by| self.servers.get(by)) {
                    Some(other) => format!(
                        "{path} of {name} is not applied: that of {} took its place",
                        other.name
                    ),
                    None if number == 0 => self.why_unapplied(path),
                    None => format!("{name}: {}", self.why_unapplied(path)),
                }
            })
            .collect()
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
        if self.platform.rancherd_is_refused() {
            proof.push("so rancherd's bootstrap manifests are never all applied".to_owned());
        }
        proof
            .push("so nothing imports images, binds their volumes or stops the machine".to_owned());
        proof.push("nothing else is under way: this can never end by itself".to_owned());
        proof
    }
}
