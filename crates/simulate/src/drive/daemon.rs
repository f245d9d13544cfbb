//! A simulated daemon: its state, and the data that it has received and saved.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windrow_decide::{Action, Directory, Interests, Ledger, MarkerTrouble, StagingState, Status};
use windrow_model::manifest::BaseName;
use windrow_plan::Plan;

use super::failsafe::ReleaseRequest;
use super::membership::Membership;
use super::oracle::{JudgedServer, Oracle};
use super::person::Order;
use super::probing::Probing;
use super::reads::Reads;
use super::truth::{LONGEST_LOOK, Truth};
use crate::faults::{Dice, Faults};
use crate::files::SimulatedDirectory;
use crate::node::SimulatedNode;
use crate::prepared::PreparedSetup;
use crate::tape::Tape;
use crate::watch::Watch;

/// A failed action, or an interrupted watch, is tried again after this time.
pub(super) const RETRY: Duration = Duration::from_secs(5);
/// How far a clock is ahead from the start, at most.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The latest time of the last answer to a daemon that gets no more answers.
const MUTE: Duration = Duration::from_secs(20 * 60);

pub(super) struct SimulatedDaemon {
    pub(super) state: StagingState,
    pub(super) watch: Watch,
    /// The watches that the state requests.
    pub(super) interests: Arc<Interests>,
    /// The directory's generation that the state knows.
    pub(super) seen: Option<u64>,
    pub(super) saved: Arc<Ledger>,
    /// The ledger before the last decision.
    pub(super) before: Arc<Ledger>,
    /// Saving failed: the state's ledger is newer than the one on disk.
    pub(super) unsaved: bool,
    /// Markers that could not be created or removed.
    pub(super) troubles: BTreeMap<BaseName, MarkerTrouble>,
    /// Failed actions are tried again at this time, and not before.
    pub(super) again: Option<Timestamp>,
    /// The disk is read-only until then.
    pub(super) read_only: Option<Timestamp>,
    /// It does not run until then.
    pub(super) away: Option<Timestamp>,
    /// It died, and a new process makes the next decision.
    pub(super) died: bool,
    /// How much the wall clock is ahead of the true time.
    pub(super) skew: SignedDuration,
    /// Was its clock ever set? Then its times differ from those of the cluster.
    pub(super) clock_was_set: bool,
    /// The cluster's state and the requested watches at the last complete report.
    pub(super) heard: Option<((u64, u64, bool), Arc<Interests>)>,
    /// When the watch last listed everything, or had no answer.
    pub(super) listed: Timestamp,
    /// When an interrupted or rejected watch lists again.
    pub(super) relist: Option<Timestamp>,
    /// When to decide again even if nothing happens, in true time.
    pub(super) wake: Option<Timestamp>,
    pub(super) decided: Option<Timestamp>,
    pub(super) said: Option<Status>,
    pub(super) oracle: Oracle,
    /// An order of the user that is not carried out yet.
    pub(super) asked: Option<Order>,
    pub(super) decisions: u64,
    pub(super) restless: u64,
    pub(super) tape: Option<Tape>,
    /// `None` if the node is not probed.
    pub(super) probing: Option<Probing>,
    pub(super) reads: Reads,
    pub(super) membership: Membership,
    /// The plan for the real content of the directory, including files that Windrow could not read.
    pub(super) true_plan: Arc<Plan>,
    /// How long it takes to connect when kube-apiserver answers again.
    pub(super) reconnects: Option<Duration>,
    /// It receives nothing until then.
    pub(super) deaf: Option<Timestamp>,
    /// From then on it has no answer at all.
    pub(super) mute: Option<Timestamp>,
    /// When it has answers again, if ever.
    hears_from: Option<Timestamp>,
    /// The ledger could not be read at the start, and is read again at this time. It is not overwritten before.
    pub(super) ledger_unread: Option<Timestamp>,
    /// The files that the fail-safe released while it did not run.
    pub(super) requests: Vec<ReleaseRequest>,
    /// The present paths of files that a user moved, by their original path.
    pub(super) moved: BTreeMap<String, String>,
    /// How often the machine has booted, and when it last did.
    boot: (u32, Timestamp),
}

impl SimulatedDaemon {
    pub(super) fn new(server: usize, known: &PreparedSetup, start: Timestamp) -> Self {
        let mut daemon = Self {
            state: known.states[server].restarted(Ledger::default(), start),
            interests: Arc::default(),
            watch: Watch::for_server(server),
            seen: None,
            saved: Arc::default(),
            before: Arc::default(),
            unsaved: false,
            troubles: BTreeMap::new(),
            again: None,
            read_only: None,
            away: None,
            died: false,
            skew: SignedDuration::ZERO,
            clock_was_set: false,
            heard: None,
            listed: start,
            relist: None,
            wake: Some(start),
            decided: None,
            said: None,
            oracle: Oracle::default(),
            asked: None,
            decisions: 0,
            restless: 0,
            tape: None,
            probing: None,
            reads: Reads::default(),
            membership: Membership::default(),
            true_plan: known.states[server].shared_plan(),
            reconnects: None,
            deaf: None,
            mute: None,
            hears_from: None,
            ledger_unread: None,
            requests: Vec::new(),
            moved: BTreeMap::new(),
            boot: (0, start),
        };
        daemon.begin_boot(start);
        daemon.oracle.restart(start);
        daemon.start_process(Arc::default(), start);
        daemon
    }

    pub(super) fn begin_boot(&mut self, now: Timestamp) {
        self.boot = (self.boot.0 + 1, now);
        self.oracle.begin_boot(now);
    }

    /// A process starts with this ledger. Reading a file again gives the same result.
    pub(super) fn start_process(&mut self, ledger: Arc<Ledger>, now: Timestamp) {
        let ledger = self.enter_boot(ledger, now);
        self.state = self.state.restarted(ledger, self.wall(now));
        // The disk does not have this boot yet.
        self.state.save_ledger();
    }

    /// A ledger that was loaded from the disk, in the present boot.
    pub(super) fn enter_boot(&self, ledger: Arc<Ledger>, now: Timestamp) -> Ledger {
        let mut ledger = Arc::unwrap_or_clone(ledger);
        let (number, booted) = self.boot;
        ledger.enter_boot(&number.to_string(), self.wall(booted), self.wall(now));
        ledger
    }

    /// Its clock may be ahead, and it may get no answer from kube-apiserver at all.
    pub(super) fn begin_with(&mut self, faults: &Faults, more: &mut Dice, start: Timestamp) {
        if more.throw(faults.ahead) {
            self.skew = SignedDuration::from_secs(more.up_to(DAY).as_secs() as i64);
            self.clock_was_set = true;
            self.start_process(Arc::default(), start);
        }
        if more.throw(faults.mute) {
            let late = if more.throw(2) {
                Duration::ZERO
            } else {
                more.up_to(MUTE)
            };
            self.mute = Some(start + late);
            // In runs with other faults, it ends with them.
            self.hears_from = Some(start + faults.until).filter(|end| *end > start);
        }
    }

    pub(super) fn knows_cluster(&self) -> bool {
        let ledger = self.state.ledger();
        let known = (&ledger.cluster, &ledger.datastore);
        let identity = &self.membership.identity;
        // A flight has no identities.
        self.tape.is_some() || known == (&identity.ca, &identity.datastore)
    }

    /// Does it know its cluster, and all of its files?
    pub(super) fn is_told(&self) -> bool {
        self.knows_cluster() && self.reads.unread.is_empty() && self.ledger_unread.is_none()
    }

    /// The result of a scan of its directory; `None` if the directory cannot be read.
    pub(super) fn look(&mut self, disk: &SimulatedDirectory, now: Timestamp) -> Option<Directory> {
        let mut directory = disk.look(self.seen);
        for file in &mut directory.files {
            if file.content.is_none() && self.reads.reads_again(&file.path) {
                file.content = disk
                    .get(&file.path)
                    .map(|entry| Arc::clone(entry.content()));
            }
        }
        self.reads.look(directory, now)
    }

    /// The plan for the content of a directory. `first` knows the files in their original state.
    pub(super) fn plan_of(&self, disk: &SimulatedDirectory, first: &StagingState) -> Arc<Plan> {
        if self.reads.unread.is_empty() {
            return self.state.shared_plan();
        }
        let mut state = first.clone();
        state.take_directory(disk.look(None));
        state.shared_plan()
    }

    /// Does it receive nothing although kube-apiserver may answer?
    pub(super) fn is_deaf(&mut self, is_up: bool, now: Timestamp) -> bool {
        if is_up && let Some(late) = self.reconnects.take() {
            self.deaf = Some(now + late);
        }
        self.deaf.is_some_and(|until| now < until) || self.mute.is_some_and(|from| from <= now)
    }

    /// It receives events again, or no more.
    pub(super) fn hear_again(&mut self, now: Timestamp) {
        let ends = |until: &mut Timestamp| *until <= now;
        if self.hears_from.take_if(ends).is_some() {
            self.mute = None;
            self.heard = None;
            self.watch.cut();
        }
        if self.deaf.is_some_and(|until| until <= now) {
            self.deaf = None;
            self.heard = None;
            self.watch.cut();
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        let asks = [
            self.wake,
            self.relist,
            self.away,
            self.deaf,
            self.hears_from,
            self.reads.look_at,
            self.ledger_unread,
        ];
        asks.iter().all(Option::is_none) && self.membership.next_at().is_none()
    }

    /// When it acts even if nothing happens.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        match self.away {
            Some(away) => earliest([Some(away), self.membership.next_at()]),
            None => {
                let asks = self.probing.as_ref().map(Probing::next_at);
                let looks = [
                    self.reads.look_at,
                    self.membership.next_at(),
                    self.ledger_unread,
                ];
                let looks = earliest(looks);
                earliest([
                    self.wake,
                    self.relist,
                    self.deaf,
                    self.hears_from,
                    looks,
                    asks,
                ])
            }
        }
    }

    /// Has this failed, and is its pause not over?
    pub(super) fn is_put_off(&self, is_trouble: bool, action: &Action, now: Timestamp) -> bool {
        let failed = match action {
            Action::Hold { .. } | Action::Lift { .. } => is_trouble,
            Action::SaveLedger(_) => self.unsaved,
        };
        failed && self.again.is_some_and(|again| now < again)
    }

    /// The oracle of this server, and its input.
    pub(super) fn judged<'a>(
        &'a mut self,
        number: usize,
        node: &'a SimulatedNode,
        disk: &'a SimulatedDirectory,
        now: Timestamp,
    ) -> (&'a mut Oracle, Truth<'a>, JudgedServer<'a>) {
        // Without its ledger it forgets which files it just released.
        let forgot = self.oracle.forgot_at;
        let knows = forgot.is_none_or(|at| now.duration_since(at).unsigned_abs() > LONGEST_LOOK);
        let truth = Truth::new(node.cluster(), self.state.rules());
        let server = JudgedServer {
            wall: self.wall(now),
            before: &self.before,
            number,
            plan: &self.true_plan,
            is_told: self.is_told(),
            is_directory_unread: self.reads.is_directory_unread,
            reads_fail: self.reads.fail(now) || self.reads.look_at.is_some(),
            has_looked: self.reads.has_looked,
            unread: &self.reads.unread,
            is_deaf_since: self.mute.filter(|from| *from <= now),
            is_current: self.relist.or(self.deaf).is_none()
                && self.reconnects.is_none()
                && !self.membership.is_losing()
                && self.mute.is_none_or(|from| now < from),
            listed: self.listed,
            is_up: node.cluster().is_up_on(number),
            is_saved: !self.unsaved && self.ledger_unread.is_none(),
            has_ledger: self.ledger_unread.is_none(),
            is_on_time: !self.clock_was_set,
            is_probed: self.probing.is_some(),
            disk,
            looking: node.deploy_of(number).looking().filter(|_| knows),
            state: &self.state,
            troubles: &self.troubles,
        };
        (&mut self.oracle, truth, server)
    }

    /// Its last status. Repeating a decision changes nothing, so this is the status of the last decision.
    pub(super) fn status(&mut self) -> Option<Status> {
        self.decided.map(|at| self.state.decide(at).status)
    }

    pub(super) fn wall(&self, now: Timestamp) -> Timestamp {
        match self.skew.is_zero() {
            true => now,
            false => now.saturating_add(self.skew).unwrap_or(now),
        }
    }

    pub(super) fn refresh_interests(&mut self) {
        let interests = self.state.interests();
        if *self.interests != interests {
            self.interests = Arc::new(interests);
        }
    }

    /// Missed events are reported again a little later.
    pub(super) fn listen_again(&mut self, now: Timestamp) {
        self.heard = None;
        self.relist = earliest([self.relist, Some(now + RETRY)]);
    }
}

pub(super) fn earliest<const N: usize>(times: [Option<Timestamp>; N]) -> Option<Timestamp> {
    times.into_iter().flatten().min()
}
