//! The flight lines of a tick for learning: the machine, its versions, and new objects in the cluster.

use jiff::Timestamp;
use windrow_decide::Status;
use windrow_plan::rules::Platform;

use super::Daemon;
use crate::observe::appearances::Sighting;
use crate::observe::rke2::harvester;

impl Daemon {
    pub(in crate::daemon) fn saw(&mut self, seen: Vec<Sighting>) {
        let now = self.clock.now();
        let lines = self.appearances.lines(seen, self.state.observation(), now);
        self.flight.seen(lines, now);
    }

    /// Begins or ends the watch for new objects in the cluster; records the facts about the machine.
    pub(super) fn look_at_appearances(&mut self, status: &Status, now: Timestamp) {
        let recorded = self.flight.is_on();
        let api = &self.state.observation().api;
        self.appearances.want(recorded, status, api, now);
        let is_harvester = status.platform == Some(Platform::Harvester);
        if recorded && is_harvester && self.harvester.is_none() {
            self.harvester = harvester(&self.layout);
        }
        let harvester = self.harvester.clone();
        if recorded && let Some(machine) = self.appearances.machine(status.role, harvester, now) {
            self.flight.machine(machine);
        }
    }
}
