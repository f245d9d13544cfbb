//! Servers whose member of etcd is removed: the cluster starts empty, is restored from a snapshot, or takes the server in again.

use std::time::Duration;

use super::super::cluster::Snapshot;
use super::super::controllers::Controllers;
use super::super::deploy::DeployController;
use super::super::log::HappeningKind;
use super::super::timer::Timer;
use super::super::times;
use super::SimulatedNode;

/// The minimum time that an operator needs from the stop of RKE2 to its start.
const BRISK: Duration = Duration::from_secs(5);

impl SimulatedNode {
    /// Is it a cluster of one server that runs RKE2 only?
    pub(crate) fn is_alone(&self) -> bool {
        self.servers.len() == 1 && self.scenario.harvester.is_none()
    }

    /// `rm -rf server/db` on the only server, or a restored snapshot. RKE2 starts after the returned time.
    pub(crate) fn replace_datastore(&mut self, snapshot: Option<Snapshot>) -> Duration {
        let (off, start) = self.draw_outage();
        self.cluster.replace_datastore(snapshot, off + start);
        self.controllers = Controllers::default();
        self.begun = false;
        self.start_again(0, off, start);
        off
    }

    /// `rm -rf server/db` on a server whose cluster continues without it and takes it in again. RKE2 starts after the returned
    /// time.
    pub(crate) fn rejoin(&mut self, server: usize) -> Duration {
        let (off, start) = self.draw_outage();
        self.cluster.agenda.outage(Duration::ZERO, |timer| {
            [
                Timer::Deploy(server),
                Timer::ApiReady(server),
                Timer::Start(server),
            ]
            .contains(timer)
        });
        self.start_again(server, off, start);
        off
    }

    /// How long RKE2 is stopped, and how long its start takes.
    fn draw_outage(&mut self) -> (Duration, Duration) {
        let chance = &mut self.cluster.chance;
        let range = if chance.one_in(2) {
            times::REBOOT
        } else {
            (BRISK, BRISK)
        };
        (chance.between(range), chance.between(times::API_READY))
    }

    fn start_again(&mut self, server: usize, off: Duration, start: Duration) {
        self.servers[server].deploy = DeployController::new(server);
        self.record(server, HappeningKind::Reboot);
        let cluster = &mut self.cluster;
        cluster.set_up(server, false);
        if self.scenario.rewrites_charts {
            cluster.after(off + times::START, Timer::Start(server));
        }
        cluster.after(off + start, Timer::ApiReady(server));
    }

    /// An object that something outside the manifests creates after a while.
    pub(crate) fn appears_after(
        &mut self,
        after: Duration,
        object: windrow_model::manifest::ObjectRef,
    ) {
        self.cluster.after(after, Timer::Appears(Box::new(object)));
    }
}
