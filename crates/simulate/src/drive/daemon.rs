//! One simulated daemon: its state, and what it has heard and saved.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windrow_decide::{Action, Interests, Ledger, MarkerTrouble, StagingState, Status};
use windrow_model::manifest::BaseName;

use super::oracle::{JudgedServer, Oracle};
use super::person::Order;
use super::probing::Probing;
use super::truth::{LONGEST_LOOK, Truth};
use crate::files::SimulatedDirectory;
use crate::node::SimulatedNode;
use crate::prepared::PreparedSetup;
use crate::tape::Tape;
use crate::watch::Watch;

/// A failed action, or a watch that was cut, is tried again after this long.
pub(super) const RETRY: Duration = Duration::from_secs(5);

/// One daemon.
pub(super) struct SimulatedDaemon {
    pub(super) state: StagingState,
    pub(super) watch: Watch,
    /// What the state asks to be watched.
    pub(super) interests: Arc<Interests>,
    /// The directory's generation that the state knows.
    pub(super) seen: Option<u64>,
    /// The ledger on disk.
    pub(super) saved: Arc<Ledger>,
    /// The ledger before the last decision.
    pub(super) before: Arc<Ledger>,
    /// The state's ledger is newer than the one on disk: saving it failed.
    pub(super) unsaved: bool,
    /// Markers that could not be made or removed.
    pub(super) troubles: BTreeMap<BaseName, MarkerTrouble>,
    /// What failed is tried again then, and not before.
    pub(super) again: Option<Timestamp>,
    /// The disk is read-only until then.
    pub(super) read_only: Option<Timestamp>,
    /// It does not run until then.
    pub(super) away: Option<Timestamp>,
    /// It died, and the next decision is that of another process.
    pub(super) died: bool,
    /// How much the wall clock is ahead of the true time.
    pub(super) skew: SignedDuration,
    /// Was its clock ever set? Then its times are not the cluster's.
    pub(super) clock_was_set: bool,
    /// The cluster's state and what was asked when the watch last reported all it could.
    pub(super) heard: Option<((u64, u64, bool), Arc<Interests>)>,
    /// When the watch last listed all, or had no answer.
    pub(super) listed: Timestamp,
    /// When a watch that was cut or refused lists again.
    pub(super) relist: Option<Timestamp>,
    /// When to decide again though nothing happens, in true time.
    pub(super) wake: Option<Timestamp>,
    /// When it last decided, by its wall clock.
    pub(super) decided: Option<Timestamp>,
    /// What it said last.
    pub(super) said: Option<Status>,
    pub(super) oracle: Oracle,
    /// What a person asked for and was not carried out yet.
    pub(super) asked: Option<Order>,
    pub(super) decisions: u64,
    pub(super) restless: u64,
    pub(super) tape: Option<Tape>,
    /// `None` where it is not probed.
    pub(super) probing: Option<Probing>,
}

impl SimulatedDaemon {
    pub(super) fn new(server: usize, known: &PreparedSetup, start: Timestamp) -> Self {
        Self {
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
        }
    }

    /// Nothing but the disk can wake it.
    pub(super) fn is_quiet(&self) -> bool {
        self.wake.is_none() && self.relist.is_none() && self.away.is_none()
    }

    /// When it does something though nothing happens.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        match self.away {
            Some(away) => Some(away),
            None => {
                let asks = self.probing.as_ref().map(Probing::next_at);
                earliest([self.wake, self.relist, asks])
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

    /// The oracle of this server, and what it judges by.
    pub(super) fn judged<'a>(
        &'a mut self,
        number: usize,
        node: &'a SimulatedNode,
        disk: &'a SimulatedDirectory,
        now: Timestamp,
    ) -> (&'a mut Oracle, Truth<'a>, JudgedServer<'a>) {
        // Without its ledger it does not know what it let through a moment ago.
        let forgot = self.oracle.forgot_at;
        let knows = forgot.is_none_or(|at| now.duration_since(at).unsigned_abs() > LONGEST_LOOK);
        let truth = Truth::new(node.cluster(), self.state.rules());
        let server = JudgedServer {
            wall: self.wall(now),
            before: &self.before,
            is_current: self.relist.is_none(),
            listed: self.listed,
            is_up: node.cluster().is_up_on(number),
            is_saved: !self.unsaved,
            is_on_time: !self.clock_was_set,
            is_probed: self.probing.is_some(),
            disk,
            looking: node.deploy_of(number).looking().filter(|_| knows),
            state: &self.state,
            troubles: &self.troubles,
        };
        (&mut self.oracle, truth, server)
    }

    /// Its last word. Deciding what is decided changes nothing, so this is what the last decision said.
    pub(super) fn status(&mut self) -> Option<Status> {
        self.decided.map(|at| self.state.decide(at).status)
    }

    /// The time as Windrow's wall clock has it.
    pub(super) fn wall(&self, now: Timestamp) -> Timestamp {
        match self.skew.is_zero() {
            true => now,
            false => now.saturating_add(self.skew).unwrap_or(now),
        }
    }

    /// Asks the state what has to be watched now.
    pub(super) fn refresh_interests(&mut self) {
        let interests = self.state.interests();
        if *self.interests != interests {
            self.interests = Arc::new(interests);
        }
    }

    /// What was not heard now is reported again a little later.
    pub(super) fn listen_again(&mut self, now: Timestamp) {
        self.heard = None;
        self.relist = earliest([self.relist, Some(now + RETRY)]);
    }
}

/// The earliest of these times.
pub(super) fn earliest<const N: usize>(times: [Option<Timestamp>; N]) -> Option<Timestamp> {
    times.into_iter().flatten().min()
}
