//! One simulated daemon: its state, and what it has heard and saved.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windrow_decide::{Interests, Ledger, StagingState, Status};

use super::oracle::Oracle;
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
    /// The state's ledger is newer than the one on disk: saving it failed.
    pub(super) unsaved: bool,
    /// How much the wall clock is ahead of the true time.
    pub(super) skew: SignedDuration,
    /// The cluster's state and what was asked when the watch last reported all it could.
    pub(super) heard: Option<((u64, u64, bool), Arc<Interests>)>,
    /// When a watch that was cut or refused lists again.
    pub(super) relist: Option<Timestamp>,
    /// When to decide again though nothing happens, in true time.
    pub(super) wake: Option<Timestamp>,
    /// When it last decided, by its wall clock.
    pub(super) decided: Option<Timestamp>,
    pub(super) oracle: Oracle,
    pub(super) decisions: u64,
    pub(super) restless: u64,
    pub(super) tape: Option<Tape>,
}

impl SimulatedDaemon {
    pub(super) fn new(server: usize, known: &PreparedSetup, start: Timestamp) -> Self {
        Self {
            state: known.states[server].restarted(Ledger::default(), start),
            interests: Arc::default(),
            watch: Watch::for_server(server),
            seen: None,
            saved: Arc::default(),
            unsaved: false,
            skew: SignedDuration::ZERO,
            heard: None,
            relist: None,
            wake: Some(start),
            decided: None,
            oracle: Oracle::default(),
            decisions: 0,
            restless: 0,
            tape: None,
        }
    }

    /// Nothing but the disk can wake it.
    pub(super) fn is_quiet(&self) -> bool {
        self.wake.is_none() && self.relist.is_none()
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
