//! The simulated node: API server, deploy controller, platform and controllers under one clock. Several servers form one cluster,
//! with a deploy controller on each of them.

mod members;
mod outcome;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_harvester::versions::Fact;

use super::chance::Chance;
use super::cluster::SimulatedCluster;
use super::controllers::Controllers;
use super::deploy::DeployController;
use super::files::SimulatedDirectory;
use super::harvester::PlatformBootstrap;
use super::log::{DeployCounts, Happening, HappeningKind};
use super::rancherd;
use super::scenario::{JoinRole, Scenario, Supply};
use super::timer::{RancherdStep, Timer};
use super::times;

pub use outcome::{BootstrapOutcome, BootstrapVerdict};

pub trait Disks {
    fn disk_of(&self, server: usize) -> &SimulatedDirectory;
}

impl Disks for SimulatedDirectory {
    fn disk_of(&self, _: usize) -> &SimulatedDirectory {
        self
    }
}

impl Disks for [SimulatedDirectory] {
    fn disk_of(&self, server: usize) -> &SimulatedDirectory {
        &self[server]
    }
}

/// An event that affects the writer of the directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// RKE2 starts on a server and rewrites its HelmCharts.
    Starts(usize),
    /// A server restarts: yip writes its files again.
    Restarts(usize),
}

#[derive(Debug, Clone)]
pub struct SimulatedNode {
    cluster: SimulatedCluster,
    servers: Vec<ServerNode>,
    platform: PlatformBootstrap,
    controllers: Controllers,
    scenario: Scenario,
    begun: bool,
    signals: Vec<Signal>,
}

#[derive(Debug, Clone)]
struct ServerNode {
    name: String,
    /// `None` for the first one.
    role: Option<JoinRole>,
    deploy: DeployController,
    /// Its kube-apiserver has answered, or is about to.
    started: bool,
}

impl SimulatedNode {
    /// A node that is being switched on at `scenario.start`.
    pub fn new(scenario: Scenario, seed: u64) -> Self {
        Self::fleet(scenario, &[], seed)
    }

    /// The same with other nodes that join it, each with its name and role.
    pub fn fleet(mut scenario: Scenario, joins: &[(&str, JoinRole)], seed: u64) -> Self {
        let mut cluster = SimulatedCluster::new(scenario.start, Chance::new(seed).branch(1));
        cluster.addresses = scenario.harvester.is_some();
        cluster.image_class_by_uid = scenario
            .harvester
            .is_some_and(|version| Fact::ImageClassByUid.holds(version).assumed());
        cluster.cannot_run = Arc::new(std::mem::take(&mut scenario.cannot_run));
        cluster.makes_namespaces = scenario.makes_namespaces.as_deref().map(Arc::from);
        cluster.asked = Arc::new(std::mem::take(&mut scenario.asked));
        cluster.refused = Arc::new(std::mem::take(&mut scenario.refused));
        cluster.may_bring = Arc::new(std::mem::take(&mut scenario.may_bring));
        cluster.brings = Arc::new(std::mem::take(&mut scenario.brings));
        cluster.assumed = Arc::new(std::mem::take(&mut scenario.assumed));
        cluster.made_elsewhere = Arc::new(std::mem::take(&mut scenario.made_elsewhere));
        cluster.node = Arc::new(scenario.node.clone());
        cluster.slow_definitions = scenario.slow_definitions;
        cluster.slow_walks = scenario.slow_walks;
        match scenario.api_ready {
            Some(learned) => {
                let after = cluster.chance.by_times(&learned);
                cluster.after(after, Timer::ApiReady(0));
            }
            None => cluster.within(times::API_READY, Timer::ApiReady(0)),
        }
        if scenario.rewrites_charts {
            cluster.after(times::START, Timer::Start(0));
        }
        if scenario.harvester.is_some() {
            cluster.after(times::START, Timer::Rancherd(RancherdStep::Start));
        }
        for (after, server) in &scenario.reboots {
            cluster.after(*after, Timer::Reboot(*server));
        }
        let server = |number, name: &str, role| ServerNode {
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
            platform: PlatformBootstrap::new(&scenario),
            controllers: Controllers::default(),
            scenario,
            begun: false,
            signals: Vec::new(),
        }
    }

    pub fn next_event_at(&self) -> Option<Timestamp> {
        self.cluster.agenda.next_at()
    }

    /// Processes all events that are due until `now`.
    pub fn advance<D: Disks + ?Sized>(&mut self, now: Timestamp, disks: &D) {
        while let Some((at, timer)) = self.cluster.agenda.due(now) {
            self.cluster.now = at;
            self.cluster.on = 0;
            self.happen(timer, disks);
            self.controllers.take_up_changes(&mut self.cluster);
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
                deploy.step(cluster, disks.disk_of(server));
            }
            Timer::Joined(node) => {
                cluster.on = node;
                if self.scenario.harvester.is_some() {
                    cluster.record(HappeningKind::Rancherd {
                        step: SmolStr::new_static(rancherd::JOINS),
                        failed: false,
                    });
                }
                cluster.record(HappeningKind::JoinedAsAgent);
            }
            Timer::Reboot(server) => {
                self.reboot(server);
                self.signals.push(Signal::Restarts(server));
            }
            Timer::Established(definition) => cluster.established(&definition),
            Timer::Discovered(kind, namespaced) => cluster.discover(*kind, namespaced),
            Timer::Appears(object) => cluster.appears(*object),
            Timer::Step(number) => self.platform.step(number, cluster),
            Timer::Rancherd(step) => {
                self.platform.rancherd(step, cluster);
                // Nodes that join find the cluster through Rancher.
                if step == RancherdStep::Rancher {
                    self.agents_join();
                }
            }
            Timer::Arrival(number) => {
                if let Some(arrival) = self.scenario.arrivals.get(number) {
                    cluster.last_moved = Some(cluster.now);
                    for (kind, namespaced) in &arrival.kinds {
                        cluster.discover(kind.clone(), *namespaced);
                    }
                    for (kind, namespaced) in &arrival.moved {
                        cluster.move_kind(kind.clone(), *namespaced);
                    }
                    for (id, json) in &arrival.objects {
                        cluster.put(id.clone(), json.clone());
                    }
                    for id in &arrival.gone {
                        cluster.delete(id);
                    }
                }
            }
            Timer::SetAll => {
                self.platform.set_all(cluster);
                self.promote();
            }
            Timer::StorageNetwork => self.platform.storage_network(cluster),
            Timer::Act(id, stage) => {
                cluster.last_moved = Some(cluster.now);
                self.controllers.act(id, stage, cluster);
            }
        }
    }

    fn api_ready(&mut self, server: usize) {
        let cluster = &mut self.cluster;
        cluster.set_up(server, true);
        cluster.on = server;
        cluster.record(HappeningKind::ApiReady);
        cluster.within(times::DEPLOY_START, Timer::Deploy(server));
        if !self.begun {
            self.begun = true;
            self.platform.begin(cluster);
            cluster.supply(&self.scenario.provided, times::PROVIDED);
            let elsewhere = Supply::made_elsewhere(&cluster.made_elsewhere);
            cluster.supply(&elsewhere, times::PROVIDED);
            for supply in &self.scenario.provided_in_time {
                cluster.supply(supply, times::PROVIDED);
            }
            for (number, arrival) in self.scenario.arrivals.iter().enumerate() {
                cluster.after(arrival.after, Timer::Arrival(number));
            }
            self.join(JoinRole::Server);
            if self.scenario.harvester.is_none() {
                self.agents_join();
            }
        }
    }

    /// Harvester promotes the nodes that joined to servers, after it has come up.
    fn promote(&mut self) {
        if self.platform.is_up() {
            self.join(JoinRole::Promoted);
        }
    }

    /// Nodes that are not servers, or not yet, join in parallel: no agent waits for another.
    fn agents_join(&mut self) {
        for (number, node) in self.servers.iter().enumerate() {
            if node.role.is_some_and(|role| role != JoinRole::Server) {
                let after = self.cluster.chance.between(times::JOIN);
                self.cluster.after(after, Timer::Joined(number));
            }
        }
    }

    /// Servers of this role start, one after the other: etcd accepts one new member at a time (etcd v3.5, membership
    /// `DefaultMaxLearners`).
    fn join(&mut self, role: JoinRole) {
        let mut after = Duration::ZERO;
        for number in 0..self.servers.len() {
            let server = &mut self.servers[number];
            if server.role != Some(role) || server.started {
                continue;
            }
            server.started = true;
            let range = match role {
                JoinRole::Promoted => times::PROMOTE,
                JoinRole::Server | JoinRole::Witness | JoinRole::Agent => times::JOIN,
            };
            after += self.cluster.chance.between(range);
            if self.scenario.rewrites_charts {
                let before = after.saturating_sub(times::API_READY.0);
                self.cluster.after(before, Timer::Start(number));
            }
            self.cluster.after(after, Timer::ApiReady(number));
        }
    }

    /// A machine restarts now: the content of etcd stays, and its deploy controller forgets everything and will apply every file
    /// again. If it is the only server, everything else stops.
    pub fn reboot(&mut self, server: usize) {
        self.reboot_later(server, Duration::ZERO);
    }

    /// The same, but RKE2 starts only this long after the machine.
    pub(super) fn reboot_later(&mut self, server: usize, masked: Duration) {
        let alone = self.servers.len() == 1;
        let cluster = &mut self.cluster;
        let Some(one) = self.servers.get_mut(server) else {
            return;
        };
        if one.role.is_some_and(|role| !role.applies_manifests()) {
            cluster.on = server;
            cluster.record(HappeningKind::Reboot);
            let off = cluster.chance.between(times::REBOOT);
            cluster.after(off + masked, Timer::Joined(server));
            return;
        }
        if !one.started {
            return;
        }
        one.deploy = DeployController::new(server);
        cluster.on = server;
        cluster.record(HappeningKind::Reboot);
        cluster.set_up(server, false);
        let off = cluster.chance.between(times::REBOOT) + masked;
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
            cluster.after(off + times::START, Timer::Rancherd(RancherdStep::Restart));
        }
    }

    /// Postpones RKE2's next scan of its manifests directory.
    pub(super) fn stall(&mut self, server: usize, length: Duration) {
        let cluster = &mut self.cluster;
        cluster
            .agenda
            .postpone(length, |timer| *timer == Timer::Deploy(server));
    }

    /// Takes the pending signals.
    pub(super) fn signals(&mut self) -> Vec<Signal> {
        std::mem::take(&mut self.signals)
    }

    pub fn cluster(&self) -> &SimulatedCluster {
        &self.cluster
    }

    /// The first server's deploy controller.
    pub fn deploy(&self) -> &DeployController {
        &self.servers[0].deploy
    }

    pub(crate) fn deploy_of(&self, server: usize) -> &DeployController {
        &self.servers[server].deploy
    }

    pub fn log(&self) -> &[Happening] {
        &self.cluster.log
    }

    pub fn counts(&self) -> DeployCounts {
        self.cluster.counts
    }

    pub(super) fn record(&mut self, server: usize, what: HappeningKind) {
        self.cluster.on = server;
        self.cluster.record(what);
        self.cluster.on = 0;
    }

    /// The cluster in its present state, and its log.
    pub(super) fn into_parts(self) -> (Vec<Happening>, SimulatedCluster) {
        self.cluster.into_log()
    }

    /// Changes whenever a watch could report something: an equal value means no news.
    pub(super) fn pulse(&self, server: usize) -> (u64, u64, bool) {
        let cluster = &self.cluster;
        (
            cluster.revision(),
            cluster.counts.failed,
            cluster.is_up_on(server),
        )
    }
}
