//! Windrow's own core against the simulated node: the daemon's loop, in memory and in simulated time, with the requested faults.
//!
//! The directory and the saved ledger are the disk: only these survive a crash.

mod acting;
mod alone;
mod daemon;
mod disaster;
mod failsafe;
mod looks;
mod membership;
mod moves;
mod oracle;
mod person;
mod present;
mod probing;
mod reads;
mod reports;
#[cfg(test)]
mod tests;
mod truth;
mod waits;
mod words;
mod written;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use windrow_decide::flight::FlightLine;
use windrow_decide::settings::Settings;
use windrow_decide::{ClusterEvent, Decision, Ledger, Observation, StagingState};
use windrow_plan::rules::RuleSet;

use super::chance::Chance;
use super::charts;
use super::cluster::Snapshot;
use super::faults::{Dice, Faults};
use super::files::SimulatedDirectory;
use super::log::HappeningKind;
use super::node::{Signal, SimulatedNode};
use super::prepared::PreparedSetup;
use super::run::{DueChanges, Run, Setup};
use super::scenario::JoinRole;
use super::tape::Tape;
use super::watch::Watch;
use alone::{ended, run_alone};
pub use alone::{without_windrow, without_windrow_but_faults};
use daemon::{RETRY, SimulatedDaemon, earliest};
use probing::Probing;

/// Limit for a bootstrap; one that takes longer is reported as still under way.
const LIMIT: Duration = Duration::from_secs(12 * 3600);

/// Limit on the consecutive decisions at one instant.
const ROUNDS: usize = 20;

impl PreparedSetup {
    /// The bootstrap of the setup of these files, with Windrow.
    pub fn with_windrow(&self, setup: &Setup, seed: u64) -> Run {
        Drive::new(setup, self, Faults::NONE, seed).run()
    }

    /// The same with faults.
    pub fn with_faults(&self, setup: &Setup, faults: &Faults, seed: u64) -> Run {
        Drive::new(setup, self, *faults, seed).run()
    }

    /// The same without Windrow.
    pub fn without_windrow(&self, setup: &Setup, seed: u64) -> Run {
        run_alone(setup, self, &Faults::NONE, seed, &|| true).0
    }

    /// The bootstrap with Windrow, while `go_on` returns true at each step; `None` if it was stopped before the end.
    pub fn with_windrow_while(
        &self,
        setup: &Setup,
        seed: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Option<Run> {
        let (run, _, ended) = Drive::new(setup, self, Faults::NONE, seed).fly(go_on);
        ended.then_some(run)
    }

    /// The bootstrap without Windrow, under the same condition.
    pub fn without_windrow_while(
        &self,
        setup: &Setup,
        seed: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Option<Run> {
        let (run, ended) = run_alone(setup, self, &Faults::NONE, seed, go_on);
        ended.then_some(run)
    }
}

/// The bootstrap with Windrow, started before RKE2 as its unit is.
pub fn with_windrow(setup: &Setup, faults: &Faults, seed: u64) -> Run {
    Drive::new(setup, &PreparedSetup::read(setup), *faults, seed).run()
}

/// The same, with the output of the flight recorder. `packs` are the setup's rules as texts.
pub fn recorded(
    setup: &Setup,
    packs: &[(String, String)],
    faults: &Faults,
    seed: u64,
) -> (Run, Vec<FlightLine>) {
    let known = PreparedSetup::read(setup);
    let mut drive = Drive::new(setup, &known, faults.recorded(), seed);
    let mut tape = Tape::new(packs);
    tape.begin(setup, setup.scenario.start);
    drive.daemons[0].tape = Some(tape);
    let (run, lines, _) = drive.fly(&|| true);
    (run, lines)
}

fn fleet(setup: &Setup, faults: &Faults, seed: u64) -> SimulatedNode {
    let joins: Vec<(&str, JoinRole)> = setup
        .joins
        .iter()
        .map(|join| (join.name.as_str(), join.role))
        .collect();
    let mut scenario = setup.scenario.clone();
    scenario.slow_definitions = scenario.slow_definitions.or(faults.slow_definitions());
    scenario.slow_walks = scenario.slow_walks.max(faults.slow_walks);
    SimulatedNode::fleet(scenario, &joins, seed)
}

/// The files that yip writes at every boot, and the HelmCharts that RKE2 rewrites when it starts.
fn write_again(
    known: &PreparedSetup,
    signal: Signal,
    node: &mut SimulatedNode,
    disks: &mut [SimulatedDirectory],
    now: Timestamp,
) {
    match signal {
        Signal::Restarts(server) => {
            for (path, file) in known.disks[server].iter() {
                disks[server].put_again(path, file, now);
            }
        }
        Signal::Starts(server) => {
            for (path, content) in charts::rewritten(&disks[server]) {
                node.record(
                    server,
                    HappeningKind::Written {
                        file: path.clone(),
                        by: "RKE2 (spec.set.global of its HelmCharts)".to_owned(),
                    },
                );
                disks[server].put(path, content, now);
            }
        }
    }
}

/// Corrupts a decision, as a planted fault.
type Spoil = fn(&mut Decision, &Observation);

struct Drive<'a> {
    setup: &'a Setup,
    known: &'a PreparedSetup,
    faults: Faults,
    dice: Dice,
    /// For faults that were added later, so that the draws of the others stay the same.
    more: Dice,
    seed: u64,
    node: SimulatedNode,
    /// The last snapshot of etcd.
    snapshot: Option<Snapshot>,
    disks: Vec<SimulatedDirectory>,
    changes: DueChanges,
    daemons: Vec<SimulatedDaemon>,
    /// When all files that are being written are complete.
    whole_at: Timestamp,
    /// A fault that the oracle has to find, in its own tests.
    planted: Option<Spoil>,
}

impl<'a> Drive<'a> {
    fn new(setup: &'a Setup, known: &'a PreparedSetup, faults: Faults, seed: u64) -> Self {
        let start = setup.scenario.start;
        let mut daemons: Vec<SimulatedDaemon> = (0..=setup.joins.len())
            .map(|server| SimulatedDaemon::new(server, known, start))
            .collect();
        let first = daemons.first_mut().filter(|_| faults.unanswered > 0);
        if let Some(first) = first {
            first.probing = Some(Probing::new(setup.platform(), seed, start));
        }
        let mut more = Dice::new(Chance::new(seed).branch(5));
        for daemon in &mut daemons {
            daemon.begin_with(&faults, &mut more, start);
        }
        Self {
            setup,
            known,
            faults,
            dice: Dice::new(Chance::new(seed).branch(2)),
            more,
            seed,
            node: fleet(setup, &faults, seed),
            snapshot: None,
            disks: known.disks.clone(),
            changes: DueChanges::new(setup, &mut Chance::new(seed).branch(3)),
            daemons,
            whole_at: start,
            planted: None,
        }
    }

    fn run(self) -> Run {
        self.fly(&|| true).0
    }

    /// The run, the output of the flight recorder, and whether the run was played to its end.
    fn fly(mut self, go_on: &dyn Fn() -> bool) -> (Run, Vec<FlightLine>, bool) {
        let mut now = self.setup.scenario.start;
        let end = now + LIMIT;
        let calm = now + self.faults.until;
        self.record_skews();
        self.turns(now);
        let mut at_end = true;
        loop {
            let daemons = self.daemons.iter().filter_map(SimulatedDaemon::next_at);
            let next = earliest([
                self.node.next_event_at(),
                self.changes.next_at(),
                daemons.min(),
            ]);
            let Some(next) = next.filter(|next| *next < end) else {
                break;
            };
            if !go_on() {
                at_end = false;
                break;
            }
            now = now.max(next);
            self.node.advance(now, &self.disks[..]);
            self.signals(now);
            self.changes.make(now, &mut self.disks, &mut self.node);
            for who in 0..self.daemons.len() {
                self.judge_look(who, now);
                self.write_identity(who, now);
            }
            if now < calm {
                self.take_snapshot();
                for who in 0..self.daemons.len() {
                    self.disaster(who, now);
                }
            } else {
                self.faults = Faults {
                    until: self.faults.until,
                    ..Faults::NONE
                };
                for who in 0..self.daemons.len() {
                    self.release_by_hand(who, now);
                }
            }
            self.turns(now);
            let is_there = |daemon: &SimulatedDaemon| {
                daemon.relist.or(daemon.away).is_none()
                    && daemon.is_told()
                    && daemon.membership.next_at().is_none()
            };
            let is_over = now >= calm
                && self.changes.next_at().is_none()
                && self.daemons.iter().all(is_there);
            if is_over && self.node.is_settled(&self.disks[..]) {
                self.judge_probed(now);
            }
            let quiet = self.daemons.iter().all(SimulatedDaemon::is_quiet)
                && self.changes.next_at().is_none();
            if quiet && now >= calm && self.node.is_settled(&self.disks[..]) {
                self.judge_restarts(now);
                break;
            }
        }
        let mut run = ended(self.seed, self.node, self.disks);
        run.ended = now;
        run.decisions = self.daemons.iter().map(|daemon| daemon.decisions).sum();
        run.restless = self.daemons.iter().map(|daemon| daemon.restless).sum();
        let mut daemons = self.daemons.into_iter();
        let mut lines = Vec::new();
        if let Some(mut first) = daemons.next() {
            run.status = first.status();
            run.ledger = Arc::unwrap_or_clone(first.saved);
            run.releases = first.oracle.releases;
            run.untrue = first.oracle.untrue.into_iter().collect();
            lines = first.tape.map(Tape::into_lines).unwrap_or_default();
        }
        for (joined, mut daemon) in run.joined.iter_mut().zip(daemons) {
            joined.status = daemon.status();
            joined.releases = daemon.oracle.releases;
            joined.untrue = daemon.oracle.untrue.into_iter().collect();
        }
        (run, lines, at_end)
    }

    /// Applies the node's changes to the disks. When the machine restarts, Windrow does too.
    fn signals(&mut self, now: Timestamp) {
        for signal in self.node.signals() {
            write_again(self.known, signal, &mut self.node, &mut self.disks, now);
            if let Signal::Restarts(server) = signal {
                self.daemons[server].begin_boot(now);
                self.restart_daemon(server, now);
                if let Some(probing) = &mut self.daemons[server].probing {
                    probing.reboot();
                }
                // Its unit is ordered before RKE2's.
                self.daemons[server].wake = Some(now);
            }
        }
    }

    fn turns(&mut self, now: Timestamp) {
        for who in 0..self.daemons.len() {
            self.turn(who, now);
        }
    }

    /// Decides and acts until nothing changes any more.
    fn turn(&mut self, who: usize, now: Timestamp) {
        let daemon = &mut self.daemons[who];
        if daemon.away.is_some_and(|until| now < until) {
            return;
        }
        if daemon.away.is_some() {
            self.restart_daemon(who, now);
            self.daemons[who].wake = Some(now);
        }
        let daemon = &mut self.daemons[who];
        if daemon.relist.is_some_and(|at| at <= now) {
            daemon.relist = None;
            daemon.heard = None;
        }
        daemon.hear_again(now);
        self.read_ledger_again(who, now);
        let daemon = &mut self.daemons[who];
        let mut again = daemon.wake.is_some_and(|wake| wake <= now);
        // Decisions change the set of watched objects, and watches change decisions: repeat.
        let mut rounds = 0;
        while rounds < ROUNDS {
            let news = self.scan(who, now) | self.listen(who, now) | self.probe(who, now);
            if !news && !again {
                return self.judge_status(who, now);
            }
            again = self.decide(who, now);
            // A dead process has not continued.
            let died = std::mem::take(&mut self.daemons[who].died);
            rounds = if died { 0 } else { rounds + 1 };
        }
        self.daemons[who].restless += 1;
    }

    /// Its last status is published now.
    fn judge_status(&mut self, who: usize, now: Timestamp) {
        let daemon = &mut self.daemons[who];
        let Some(status) = daemon.said.take() else {
            return;
        };
        let (oracle, truth, server) = daemon.judged(who, &self.node, &self.disks[who], now);
        oracle.judge_status(&truth, &server, &status, now);
        oracle.judge_long_waits(&truth, &server, &status, now);
        let is_heard = server.is_current && truth.cluster.is_up_on(who);
        let SimulatedDaemon {
            probing, oracle, ..
        } = daemon;
        if let Some(probing) = probing {
            probing.judge(&status, is_heard, now, &mut oracle.untrue);
        }
    }

    fn scan(&mut self, who: usize, now: Timestamp) -> bool {
        let (daemon, disk) = (&mut self.daemons[who], &self.disks[who]);
        let is_due = daemon.reads.is_due(now);
        if daemon.seen == Some(disk.generation()) && !is_due {
            return false;
        }
        let at = daemon.wall(now);
        if let Some(tape) = &mut daemon.tape {
            tape.scanned(disk, self.setup, at);
        }
        let Some(directory) = daemon.look(disk, now) else {
            let why = "Input/output error (os error 5)";
            daemon.state.keep_directory("the directory", why, at);
            return false;
        };
        daemon.state.take_directory(directory);
        daemon.seen = Some(disk.generation());
        daemon.true_plan = daemon.plan_of(disk, &self.known.states[who]);
        daemon.refresh_interests();
        self.tell_identity(who, now);
        true
    }

    fn listen(&mut self, who: usize, now: Timestamp) -> bool {
        let daemon = &mut self.daemons[who];
        let interests = Arc::clone(&daemon.interests);
        let asks = Some((self.node.pulse(who), Arc::clone(&interests)));
        if daemon.heard == asks {
            return false;
        }
        daemon.heard = asks;
        let cluster = self.node.cluster();
        if daemon.is_deaf(cluster.is_up_on(who), now) {
            let at = daemon.wall(now);
            let events = daemon
                .watch
                .hears_nothing(&interests, daemon.mute.is_some());
            let news = !events.is_empty();
            for event in events {
                daemon.state.take_event(event, at);
            }
            return news;
        }
        let mut events = match cluster.is_up_on(who) && self.dice.throw(self.faults.refused) {
            true => {
                let why = self.dice.refusal();
                daemon.listen_again(now);
                daemon.watch.refused(&interests, why)
            }
            false => {
                if !daemon.watch.is_following(&interests) {
                    daemon.listed = now;
                }
                daemon.watch.poll(cluster, &interests)
            }
        };
        // The begin of a session is not a message of kube-apiserver, so it cannot be lost.
        let begins = |event: &mut ClusterEvent| matches!(event, ClusterEvent::SessionBegins { .. });
        let at = daemon.wall(now);
        for event in events.extract_if(.., begins) {
            daemon.state.take_event(event, at);
        }
        if !events.is_empty() && self.dice.throw(self.faults.lost) {
            daemon.watch.cut();
            daemon.listen_again(now);
            return false;
        }
        if events.len() > 1 && self.dice.throw(self.faults.truncated) {
            let first = 1 + self.dice.chance().below(events.len() as u64 - 1);
            events.truncate(first as usize);
            daemon.watch.cut();
            daemon.listen_again(now);
            self.record_fault(who, "a watch ends within a batch");
        }
        self.dice.disturb(&mut events, &self.faults);
        let news = !events.is_empty();
        if events.contains(&ClusterEvent::ApiReachable) {
            self.tell_identity(who, now);
        }
        let daemon = &mut self.daemons[who];
        let wall = daemon.wall(now);
        for event in events {
            daemon.state.take_event(event, wall);
        }
        if news {
            daemon.refresh_interests();
        }
        news
    }

    /// Decides and acts; true if that may cause another decision at once.
    fn decide(&mut self, who: usize, now: Timestamp) -> bool {
        self.take_order(who, now);
        let daemon = &mut self.daemons[who];
        daemon.decisions += 1;
        let at = daemon.wall(now);
        if let Some(tape) = &mut daemon.tape {
            tape.before(&daemon.state);
        }
        daemon.before = Arc::clone(daemon.state.ledger());
        let mut decision = daemon.state.decide(at);
        if let Some(spoil) = self.planted {
            spoil(&mut decision, daemon.state.observation());
        }
        if let Some(tape) = &mut daemon.tape {
            tape.decided(at, &decision, &daemon.state);
        }
        daemon.refresh_interests();
        daemon.decided = Some(at);
        daemon.wake = earliest([decision.next_wake, decision.late_from])
            .map(|wake| wake.saturating_sub(daemon.skew).unwrap_or(wake).max(now));
        let (oracle, truth, server) = daemon.judged(who, &self.node, &self.disks[who], now);
        oracle.judge_decision(&truth, &server, &decision.actions, now);
        oracle.judge_events(&server, &decision.events, &decision.status.staging, now);
        if let Some(probing) = &mut daemon.probing {
            probing.decided(decision.status.readiness);
        }
        let mut done = Vec::new();
        let lives = self.act(who, decision.actions, &mut done, now);
        if let Some(tape) = &mut self.daemons[who].tape {
            tape.acted(&done, &[]);
        }
        if !lives {
            return false;
        }
        let daemon = &mut self.daemons[who];
        let news = daemon.state.set_marker_troubles(daemon.troubles.clone());
        daemon.said = Some(decision.status);
        // An action that the disk rejected is decided again at once.
        if news {
            return true;
        }
        let (oracle, truth, server) = daemon.judged(who, &self.node, &self.disks[who], now);
        oracle.judge_releases(&truth, &server, now);
        self.order_is_done(who);
        !done.is_empty()
    }

    fn configuration(&self, who: usize) -> (Arc<Settings>, Arc<RuleSet>) {
        let join = who
            .checked_sub(1)
            .and_then(|join| self.setup.joins.get(join));
        let (settings, rules) = match join {
            Some(join) => (&join.settings, &join.rules),
            None => (&self.setup.settings, &self.setup.rules),
        };
        (Arc::clone(settings), Arc::clone(rules))
    }

    /// A new process of Windrow starts. It only has the files on the disk.
    fn restart_daemon(&mut self, who: usize, now: Timestamp) {
        let daemon = &mut self.daemons[who];
        let at = daemon.wall(now);
        daemon.oracle.restart(now);
        // Unsaved decisions are made and reported again.
        if daemon.saved != *daemon.state.ledger() {
            daemon.oracle.reports.forget();
        }
        let is_unread = self.more.throw(self.faults.ledger_unread);
        if is_unread {
            self.record_fault(who, "the ledger cannot be read at first");
        }
        let (settings, rules) = self.configuration(who);
        let platform = Some(self.setup.platform());
        let daemon = &mut self.daemons[who];
        daemon.ledger_unread = is_unread.then(|| now + RETRY);
        let saved = match is_unread {
            true => Arc::default(),
            false => Arc::clone(&daemon.saved),
        };
        if daemon.reads.fail(now) {
            let state = StagingState::new(settings, rules, platform, Ledger::default(), at);
            daemon.state = state;
        }
        daemon.start_process(saved, now);
        daemon.reads.restart();
        // It connects at once.
        daemon.deaf = None;
        if let Some(tape) = &mut daemon.tape {
            tape.begin(self.setup, at);
        }
        daemon.watch = Watch::for_server(who);
        daemon.heard = None;
        daemon.seen = None;
        daemon.unsaved = false;
        daemon.troubles.clear();
        (daemon.again, daemon.away) = (None, None);
        if let Some(probing) = &mut daemon.probing {
            probing.restart(now, *daemon.saved != Ledger::default());
        }
    }
}
