//! Tries a change of gates on a running server: write, restart, verify, keep or roll back.
//!
//! ```text
//!   Idle ─> Leased ─> Saved ─> Written ─> Restarting ─> Verifying ─┬─> Kept
//!                                             │             │      │
//!                                             └─────────────┴──────┴─> RollingBack ─> RolledBack
//! ```
//!
//! Pure: [`next`] takes the state and an observation, and returns the next state and the steps. The state is written to
//! disk *before* the steps are taken, so after a crash the same state is reached again with the step taken, half taken
//! or not taken; every step can be taken twice. The effect of a crash:
//!
//! | in | the next start |
//! |---|---|
//! | `Idle`, `Leased` | nothing was changed; the lease is taken again |
//! | `Saved` | the drop-in may or may not be written; it is written (again), until it takes too long |
//! | `Written`, `Restarting` | once this server has the lease (again), rke2-server is restarted unless it was since the drop-in was written |
//! | `Verifying` | the verification continues until the deadline |
//! | `RollingBack` | the saved drop-in is restored (again), and rke2-server restarted unless it was since then, or never read another one |
//! | `Kept`, `RolledBack` | the trial is over; the lease is released (again) |
//!
//! rke2-server is restarted for a trial only while this server has the lease: a process that was suspended, or died and
//! came back, may have lost it, and then waits for it again or restores the drop-in. After rke2-server was restarted, a
//! lost lease stops nothing: half a change is worse, and a server that is down needs its former gates.
//!
//! Others may change the drop-in at any time: an operator removes it, or the hook removes a gate that a new version
//! refuses. A trial restarts rke2-server only with the drop-in that it tries, or with the saved one. The way back
//! replaces the changes of others by the saved drop-in, once. Later changes stay, and end the trial.
//!
//! A server that was stopped on purpose is never started for a trial. If it is started in time, the trial continues.
//! Otherwise the saved drop-in is restored, and the trial ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialState {
    /// No trial.
    #[default]
    Idle,
    /// Only this server may try; nothing is changed yet.
    Leased,
    /// The present drop-in is saved.
    Saved,
    /// The drop-in is written; the running server has not read it yet.
    Written,
    /// rke2-server is being restarted.
    Restarting,
    /// It was restarted; is it ready, with the requested gates?
    Verifying,
    /// It is ready. The trial has ended.
    Kept,
    /// It is not ready: the saved drop-in is being restored.
    RollingBack,
    /// It is restored. The trial has ended.
    RolledBack,
}

/// Each step can be taken twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrialStep {
    TakeLease,
    /// Save the present drop-in as last-known-good.
    Save,
    Write,
    /// Queue a restart of rke2-server, without waiting for it.
    Restart,
    Restore,
    ReleaseLease,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnDisk {
    /// The requested one.
    Asked,
    /// The saved one, or the former one if none is saved.
    Saved,
    Other,
}

/// The gates in effect, as kube-apiserver reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InEffect {
    /// It does not answer, or refuses.
    Unknown,
    /// The requested ones.
    AsAsked,
    Otherwise,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrialObservation {
    pub wanted: bool,
    /// Does this server hold the lease, and does nothing else prevent a restart?
    pub leased: bool,
    /// Is there a last-known-good of this trial?
    pub saved: bool,
    pub on_disk: OnDisk,
    /// Is a restart queued or in progress?
    pub restarting: bool,
    /// Was rke2-server started after the last change of the drop-in?
    pub restarted: bool,
    /// Was rke2-server started in this trial, or may it have been? Otherwise it runs with the saved drop-in.
    pub started: bool,
    /// Was rke2-server stopped, and is it not being started?
    pub stopped: bool,
    /// Does kube-apiserver report that it is ready? Active is not ready.
    pub ready: bool,
    pub in_effect: InEffect,
    /// Has kube-apiserver refused its feature gates since that start?
    pub refused: bool,
    /// On the way back: was the saved drop-in on disk in an earlier check?
    pub is_back: bool,
    /// Has this state exceeded its time limit?
    pub overdue: bool,
}

/// The next state, and the steps to take once it is on disk.
pub fn next(state: TrialState, seen: &TrialObservation) -> (TrialState, Vec<TrialStep>) {
    match state {
        TrialState::Idle if !seen.wanted => (TrialState::Idle, Vec::new()),
        TrialState::Idle if !seen.leased => (TrialState::Idle, vec![TrialStep::TakeLease]),
        TrialState::Idle => (TrialState::Leased, vec![TrialStep::Save]),
        TrialState::Leased => leased(seen),
        TrialState::Saved if seen.on_disk == OnDisk::Asked => (TrialState::Written, Vec::new()),
        // It cannot be written, and nothing was written.
        TrialState::Saved if seen.overdue && seen.on_disk == OnDisk::Saved => {
            (TrialState::RolledBack, vec![TrialStep::ReleaseLease])
        }
        TrialState::Saved if seen.overdue => (TrialState::RollingBack, vec![TrialStep::Restore]),
        // Nothing was written: nothing is lost.
        TrialState::Saved if !seen.leased && seen.on_disk == OnDisk::Saved => {
            (TrialState::Idle, Vec::new())
        }
        TrialState::Saved => (TrialState::Saved, vec![TrialStep::Write]),
        TrialState::Written => written(seen),
        TrialState::Restarting => restarting(seen),
        TrialState::Verifying => verifying(seen),
        TrialState::RollingBack => rolling_back(seen),
        TrialState::Kept | TrialState::RolledBack if seen.leased => {
            (state, vec![TrialStep::ReleaseLease])
        }
        TrialState::Kept | TrialState::RolledBack => (TrialState::Idle, Vec::new()),
    }
}

fn leased(seen: &TrialObservation) -> (TrialState, Vec<TrialStep>) {
    match (seen.wanted && seen.leased, seen.saved) {
        // Nothing was changed: nothing is lost.
        (false, _) => (TrialState::Idle, vec![TrialStep::ReleaseLease]),
        (true, false) => (TrialState::Leased, vec![TrialStep::Save]),
        // Changed since it was saved.
        (true, true) if seen.on_disk == OnDisk::Other => {
            (TrialState::Leased, vec![TrialStep::Save])
        }
        (true, true) => (TrialState::Saved, vec![TrialStep::Write]),
    }
}

fn written(seen: &TrialObservation) -> (TrialState, Vec<TrialStep>) {
    if seen.restarted {
        (TrialState::Verifying, Vec::new())
    } else if seen.restarting {
        // Another program restarts it, without waiting for the lease.
        (TrialState::Restarting, Vec::new())
    } else if seen.on_disk != OnDisk::Asked {
        // A restart would not try it.
        (TrialState::RollingBack, vec![TrialStep::Restore])
    } else if seen.leased && !seen.stopped {
        (TrialState::Restarting, vec![TrialStep::Restart])
    } else if seen.overdue {
        (TrialState::RollingBack, vec![TrialStep::Restore])
    } else {
        (TrialState::Written, vec![TrialStep::TakeLease])
    }
}

fn restarting(seen: &TrialObservation) -> (TrialState, Vec<TrialStep>) {
    if seen.restarted {
        (TrialState::Verifying, Vec::new())
    } else if seen.overdue {
        (TrialState::RollingBack, vec![TrialStep::Restore])
    } else if seen.restarting {
        (TrialState::Restarting, Vec::new())
    } else if seen.on_disk != OnDisk::Asked {
        (TrialState::RollingBack, vec![TrialStep::Restore])
    } else if seen.stopped {
        (TrialState::Restarting, Vec::new())
    } else if seen.leased {
        // The restart was lost with the process that should have queued it.
        (TrialState::Restarting, vec![TrialStep::Restart])
    } else {
        (TrialState::Restarting, vec![TrialStep::TakeLease])
    }
}

fn verifying(seen: &TrialObservation) -> (TrialState, Vec<TrialStep>) {
    let back = (TrialState::RollingBack, vec![TrialStep::Restore]);
    match (seen.on_disk, seen.ready, seen.in_effect) {
        // Changed during the trial: the gates in effect are no evidence about the requested ones. If the hook has
        // restored the saved drop-in, its start has read that: to restore it once more would hide this.
        (OnDisk::Saved, ..) => (TrialState::RollingBack, Vec::new()),
        (OnDisk::Other, ..) => back,
        (OnDisk::Asked, true, InEffect::AsAsked) => {
            (TrialState::Kept, vec![TrialStep::ReleaseLease])
        }
        (OnDisk::Asked, true, InEffect::Otherwise) => back,
        // Waiting does not help.
        (OnDisk::Asked, false, _) if seen.refused => back,
        (OnDisk::Asked, ..) if seen.overdue => back,
        (OnDisk::Asked, ..) => (TrialState::Verifying, Vec::new()),
    }
}

fn rolling_back(seen: &TrialObservation) -> (TrialState, Vec<TrialStep>) {
    let over = (TrialState::RolledBack, vec![TrialStep::ReleaseLease]);
    match seen.on_disk {
        // It was restored, and the present one is from another writer.
        OnDisk::Other if seen.is_back => over,
        OnDisk::Asked | OnDisk::Other => (TrialState::RollingBack, vec![TrialStep::Restore]),
        OnDisk::Saved if !seen.started => over,
        OnDisk::Saved if seen.restarted && seen.ready => over,
        // It does not come back with the working drop-in either: the cause is not this trial.
        OnDisk::Saved if seen.restarted && seen.overdue => over,
        OnDisk::Saved if seen.restarted || seen.restarting => (TrialState::RollingBack, Vec::new()),
        // The next start uses the saved drop-in.
        OnDisk::Saved if seen.stopped => over,
        OnDisk::Saved => (TrialState::RollingBack, vec![TrialStep::Restart]),
    }
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
