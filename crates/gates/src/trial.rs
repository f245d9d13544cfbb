//! A change of gates on a running server, tried: write, restart, verify, keep or roll back.
//!
//! ```text
//!   Idle ─> Leased ─> Saved ─> Written ─> Restarting ─> Verifying ─┬─> Kept
//!                                             │             │      │
//!                                             └─────────────┴──────┴─> RollingBack ─> RolledBack
//! ```
//!
//! Pure: [`next`] takes the state and what is seen, and gives the next state and what to do. The state
//! is written to disk *before* the steps are taken, so after a crash the same state is met again with
//! the step taken, half taken or not taken; every step can be taken twice. What a crash leads to:
//!
//! | in | the next start |
//! |---|---|
//! | `Idle`, `Leased` | nothing was changed; the lease is taken again |
//! | `Saved` | the drop-in may or may not be written; it is written (again), until it takes too long |
//! | `Written`, `Restarting` | once the lease is ours (again), rke2-server is restarted unless it was since the drop-in was written |
//! | `Verifying` | verified on, until the deadline |
//! | `RollingBack` | what was saved is restored (again), and rke2-server restarted unless it was since, or never read anything else |
//! | `Kept`, `RolledBack` | it is over; the lease is given back (again) |
//!
//! rke2-server is restarted for a trial only while the lease is ours: a process that stood still, or died and came back, may
//! have lost it, and then waits for it again or puts the drop-in back. Once rke2-server was restarted a lost lease stops
//! nothing: half a change is worse, and a server that is down needs what it had.
//!
//! Others may change the drop-in at any time: an operator removes it, or the hook takes a gate out that a new version refuses. A trial
//! restarts rke2-server only with the drop-in that it tries, or with the saved one. The way back replaces the changes of others by the
//! saved drop-in, once. Later changes stay, and end the trial.
//!
//! A server that a person has stopped is never started for a trial: whoever starts it goes on with the trial, and when nobody
//! does in time, what was saved is restored, and that is the end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a trial stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialState {
    /// No trial.
    #[default]
    Idle,
    /// This server alone may try; nothing is changed yet.
    Leased,
    /// What works now is saved.
    Saved,
    /// The drop-in is written; what runs does not know it yet.
    Written,
    /// rke2-server is on its way.
    Restarting,
    /// It was restarted; is it ready, with the gates that were asked for?
    Verifying,
    /// It is. The end.
    Kept,
    /// It is not: what was saved goes back.
    RollingBack,
    /// It is back. The end.
    RolledBack,
}

/// Something to do. Each can be done twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrialStep {
    /// Try to get the cluster's lease.
    TakeLease,
    /// Save the drop-in as it is as last-known-good.
    Save,
    /// Write the drop-in that is asked for.
    Write,
    /// Queue a restart of rke2-server, without waiting for it.
    Restart,
    /// Put back what was saved.
    Restore,
    /// Give the lease back.
    ReleaseLease,
}

/// What the drop-in on disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnDisk {
    /// What is asked for.
    Asked,
    /// What was saved, or what was there before.
    Saved,
    /// Neither.
    Other,
}

/// What kube-apiserver says is in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InEffect {
    /// Not known: it does not answer, or refuses to say.
    Unknown,
    /// What is asked for.
    AsAsked,
    /// Something else.
    Otherwise,
}

/// What is seen of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrialObservation {
    /// Is a change asked for?
    pub wanted: bool,
    /// Does this server hold the lease, and does nothing else speak against a restart?
    pub leased: bool,
    /// Is there a last-known-good of this trial?
    pub saved: bool,
    /// What the drop-in is.
    pub on_disk: OnDisk,
    /// Is a restart queued or under way?
    pub restarting: bool,
    /// Was rke2-server started after the drop-in was last changed?
    pub restarted: bool,
    /// Was rke2-server started in this trial, or may it have been? Otherwise it runs with what was saved.
    pub started: bool,
    /// Was rke2-server stopped, and is nobody starting it?
    pub stopped: bool,
    /// Does kube-apiserver say that it is ready? Active is not ready.
    pub ready: bool,
    /// What is in effect.
    pub in_effect: InEffect,
    /// Has kube-apiserver said since that start that it does not take its feature gates?
    pub refused: bool,
    /// While it goes back: was the saved drop-in on the disk at an earlier look?
    pub is_back: bool,
    /// Has this state lasted longer than it may?
    pub overdue: bool,
}

/// The next state, and what to do once it is on disk.
pub fn next(state: TrialState, seen: &TrialObservation) -> (TrialState, Vec<TrialStep>) {
    match state {
        TrialState::Idle if !seen.wanted => (TrialState::Idle, Vec::new()),
        TrialState::Idle if !seen.leased => (TrialState::Idle, vec![TrialStep::TakeLease]),
        TrialState::Idle => (TrialState::Leased, vec![TrialStep::Save]),
        TrialState::Leased => leased(seen),
        TrialState::Saved if seen.on_disk == OnDisk::Asked => (TrialState::Written, Vec::new()),
        // It cannot be written, and nothing was.
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
        // By somebody else, who has not waited for us.
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
        // The restart was lost with whoever was to queue it.
        (TrialState::Restarting, vec![TrialStep::Restart])
    } else {
        (TrialState::Restarting, vec![TrialStep::TakeLease])
    }
}

fn verifying(seen: &TrialObservation) -> (TrialState, Vec<TrialStep>) {
    let back = (TrialState::RollingBack, vec![TrialStep::Restore]);
    match (seen.on_disk, seen.ready, seen.in_effect) {
        // Changed under the trial: what is in effect says nothing about what was asked for. If the hook has put back what was saved,
        // the start that it ran for has read that: to put it back once more would hide this.
        (OnDisk::Saved, ..) => (TrialState::RollingBack, Vec::new()),
        (OnDisk::Other, ..) => back,
        (OnDisk::Asked, true, InEffect::AsAsked) => {
            (TrialState::Kept, vec![TrialStep::ReleaseLease])
        }
        (OnDisk::Asked, true, InEffect::Otherwise) => back,
        // It will not come by waiting.
        (OnDisk::Asked, false, _) if seen.refused => back,
        (OnDisk::Asked, ..) if seen.overdue => back,
        (OnDisk::Asked, ..) => (TrialState::Verifying, Vec::new()),
    }
}

fn rolling_back(seen: &TrialObservation) -> (TrialState, Vec<TrialStep>) {
    let over = (TrialState::RolledBack, vec![TrialStep::ReleaseLease]);
    match seen.on_disk {
        // It was back, and what lies there now is somebody else's.
        OnDisk::Other if seen.is_back => over,
        OnDisk::Asked | OnDisk::Other => (TrialState::RollingBack, vec![TrialStep::Restore]),
        OnDisk::Saved if !seen.started => over,
        OnDisk::Saved if seen.restarted && seen.ready => over,
        // It does not come back with what worked before either: the cause is not this trial.
        OnDisk::Saved if seen.restarted && seen.overdue => over,
        OnDisk::Saved if seen.restarted || seen.restarting => (TrialState::RollingBack, Vec::new()),
        // Whoever starts it again starts it with what was saved.
        OnDisk::Saved if seen.stopped => over,
        OnDisk::Saved => (TrialState::RollingBack, vec![TrialStep::Restart]),
    }
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
