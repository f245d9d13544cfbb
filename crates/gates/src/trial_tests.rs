use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gates {
    Good,
    Fatal,
    /// It starts, and the gate is not in effect.
    Ignored,
}

/// A node: its disk, and a server that restarts on request.
#[derive(Debug)]
struct Node {
    gates: Gates,
    leased: bool,
    saved: bool,
    on_disk: OnDisk,
    queued: bool,
    restarted: bool,
    started: bool,
    /// A user has stopped the server, and it stays stopped until the next boot.
    stopped: bool,
    /// The drop-in of the running server.
    runs: OnDisk,
    /// Another program made the last change of the drop-in.
    edited: bool,
    /// Was the saved drop-in on disk at any time on the way back?
    is_back: bool,
    waited: u32,
    restarts: u32,
}

impl Node {
    fn new(gates: Gates) -> Self {
        Self {
            gates,
            leased: false,
            saved: false,
            on_disk: OnDisk::Saved,
            queued: false,
            restarted: true,
            started: false,
            stopped: false,
            runs: OnDisk::Saved,
            edited: false,
            is_back: false,
            waited: 0,
            restarts: 0,
        }
    }

    fn ready(&self) -> bool {
        !self.stopped && (self.runs != OnDisk::Asked || self.gates != Gates::Fatal)
    }

    fn seen(&self) -> TrialObservation {
        TrialObservation {
            wanted: true,
            leased: self.leased,
            saved: self.saved,
            on_disk: self.on_disk,
            restarting: self.queued,
            restarted: self.restarted,
            started: self.started || self.queued && self.on_disk == OnDisk::Asked,
            stopped: self.stopped && !self.queued,
            ready: self.ready(),
            in_effect: match (self.ready(), self.runs, self.gates) {
                (false, ..) => InEffect::Unknown,
                (true, OnDisk::Asked, Gates::Good) => InEffect::AsAsked,
                _ => InEffect::Otherwise,
            },
            refused: self.restarted && !self.stopped && !self.ready(),
            is_back: self.is_back,
            overdue: self.waited > 3,
        }
    }

    fn take(&mut self, state: TrialState, step: TrialStep) {
        match step {
            TrialStep::TakeLease => self.leased = true,
            TrialStep::ReleaseLease => self.leased = false,
            TrialStep::Save => {
                assert!(
                    self.on_disk != OnDisk::Asked,
                    "the requested content was saved as good"
                );
                (self.saved, self.on_disk) = (true, OnDisk::Saved);
            }
            TrialStep::Write => {
                assert!(self.saved, "written before it could be restored");
                self.change(OnDisk::Asked);
            }
            TrialStep::Restore => {
                assert!(
                    !(self.edited && self.is_back && self.on_disk == OnDisk::Other),
                    "a foreign change after the way back was replaced"
                );
                self.is_back = false;
                self.change(OnDisk::Saved);
            }
            TrialStep::Restart => {
                let back = state == TrialState::RollingBack;
                let meant = if back { OnDisk::Saved } else { OnDisk::Asked };
                assert_eq!(self.on_disk, meant, "restarted with something else");
                assert!(back || self.leased, "restarted without the lease");
                assert!(!back || self.started, "restarted although nothing was");
                assert!(!self.stopped, "started although it was stopped on purpose");
                self.queued = true;
                self.restarts += 1;
            }
        }
    }

    fn change(&mut self, to: OnDisk) {
        if self.on_disk != to {
            self.on_disk = to;
            (self.restarted, self.edited) = (false, false);
        }
    }

    /// Another program changes the drop-in. The start that counts is still the same.
    fn edit(&mut self, to: OnDisk) {
        (self.on_disk, self.edited) = (to, true);
    }

    /// systemd runs the queued job.
    fn settle(&mut self) {
        if self.queued {
            (self.queued, self.stopped) = (false, false);
            self.restarted = true;
            self.started |= self.on_disk == OnDisk::Asked;
            self.runs = self.on_disk;
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    /// A boot restarts the server.
    boots: bool,
    /// A user stops the server.
    stops: bool,
    /// Another server has the lease.
    lost: bool,
    /// Another program changes the drop-in.
    edits: Option<OnDisk>,
    /// A crash loses the steps after this many.
    taken: usize,
}

fn run(gates: Gates, turns: &[Turn]) -> (TrialState, Node) {
    let mut node = Node::new(gates);
    let mut state = TrialState::Idle;
    for turn in 0..200 {
        let turn = turns.get(turn).copied().unwrap_or(Turn {
            boots: false,
            stops: false,
            lost: false,
            edits: None,
            taken: usize::MAX,
        });
        let Turn {
            boots, lost, taken, ..
        } = turn;
        node.stopped |= turn.stops;
        node.leased &= !lost;
        // If another program writes the requested drop-in before the trial does, there is no trial.
        let is_met = |to: &OnDisk| {
            *to == OnDisk::Asked && matches!(state, TrialState::Idle | TrialState::Leased)
        };
        if let Some(to) = turn.edits.filter(|to| node.saved && !is_met(to)) {
            node.edit(to);
        }
        let (to, steps) = next(state, &node.seen());
        node.started |= matches!(to, TrialState::Restarting | TrialState::Verifying);
        node.waited = if to == state { node.waited + 1 } else { 0 };
        node.is_back |= state == TrialState::RollingBack && node.on_disk == OnDisk::Saved;
        state = to;
        if matches!(state, TrialState::Kept | TrialState::RolledBack) {
            return (state, node);
        }
        for step in steps.into_iter().take(taken) {
            if !(lost && step == TrialStep::TakeLease) {
                node.take(state, step);
            }
        }
        if boots {
            // A power cut: the queue is lost, and everything starts with the content of the disk.
            node.queued = true;
        }
        node.settle();
    }
    panic!("{gates:?} {turns:?}: no end in {state:?}, {node:?}");
}

#[test]
fn good_gates_are_kept_after_one_restart() {
    let (state, node) = run(Gates::Good, &[]);
    assert_eq!((state, node.restarts), (TrialState::Kept, 1));
    assert_eq!((node.on_disk, node.runs), (OnDisk::Asked, OnDisk::Asked));
}

#[test]
fn fatal_and_ignored_gates_are_rolled_back_with_one_more_restart() {
    for gates in [Gates::Fatal, Gates::Ignored] {
        let (state, node) = run(gates, &[]);
        assert_eq!(
            (state, node.restarts),
            (TrialState::RolledBack, 2),
            "{gates:?}"
        );
        assert_eq!((node.on_disk, node.runs), (OnDisk::Saved, OnDisk::Saved));
        assert!(node.ready());
    }
}

#[test]
fn nothing_is_done_when_nothing_is_asked_for_and_without_the_lease_only_the_lease_is() {
    let mut seen = Node::new(Gates::Good).seen();
    assert_eq!(
        next(TrialState::Idle, &seen),
        (TrialState::Idle, vec![TrialStep::TakeLease])
    );
    seen.wanted = false;
    assert_eq!(
        next(TrialState::Idle, &seen),
        (TrialState::Idle, Vec::new())
    );
    // The lease was lost before anything was changed.
    seen.wanted = true;
    assert_eq!(next(TrialState::Leased, &seen).0, TrialState::Idle);
}

#[test]
fn a_server_that_does_not_return_after_the_rollback_ends_the_trial_too() {
    let mut node = Node::new(Gates::Good);
    (node.saved, node.started) = (true, true);
    let seen = TrialObservation {
        ready: false,
        overdue: true,
        ..node.seen()
    };
    assert_eq!(
        next(TrialState::RollingBack, &seen).0,
        TrialState::RolledBack
    );
    let returned = TrialObservation {
        ready: true,
        overdue: false,
        ..node.seen()
    };
    assert_eq!(
        next(TrialState::RollingBack, &returned),
        (TrialState::RolledBack, vec![TrialStep::ReleaseLease])
    );
}

#[test]
fn a_refusal_is_not_waited_out_and_what_cannot_be_written_ends_without_a_restart() {
    let mut node = Node::new(Gates::Fatal);
    node.saved = true;
    node.on_disk = OnDisk::Asked;
    node.runs = OnDisk::Asked;
    assert_eq!(
        next(TrialState::Verifying, &node.seen()).0,
        TrialState::RollingBack
    );
    let mut seen = Node::new(Gates::Good).seen();
    seen.overdue = true;
    assert_eq!(
        next(TrialState::Saved, &seen),
        (TrialState::RolledBack, vec![TrialStep::ReleaseLease])
    );
}

#[test]
fn a_trial_that_is_over_gives_the_lease_back_before_another_may_begin() {
    for state in [TrialState::Kept, TrialState::RolledBack] {
        let mut seen = Node::new(Gates::Good).seen();
        seen.leased = true;
        assert_eq!(next(state, &seen), (state, vec![TrialStep::ReleaseLease]));
        seen.leased = false;
        assert_eq!(next(state, &seen), (TrialState::Idle, Vec::new()));
    }
}

#[test]
fn what_cannot_be_verified_in_time_is_rolled_back() {
    let mut node = Node::new(Gates::Good);
    node.on_disk = OnDisk::Asked;
    for ready in [false, true] {
        for (overdue, expected) in [
            (false, TrialState::Verifying),
            (true, TrialState::RollingBack),
        ] {
            let seen = TrialObservation {
                ready,
                refused: false,
                in_effect: InEffect::Unknown,
                overdue,
                ..node.seen()
            };
            assert_eq!(next(TrialState::Verifying, &seen).0, expected, "{seen:?}");
        }
    }
}

/// The events of a trial, with or without changes by another program.
fn turns(edits: impl Strategy<Value = Option<OnDisk>> + Clone) -> impl Strategy<Value = Vec<Turn>> {
    let turn = (
        any::<bool>(),
        prop::bool::weighted(0.1),
        any::<bool>(),
        edits,
        0usize..3,
    );
    let turn = turn.prop_map(|(boots, stops, lost, edits, taken)| Turn {
        boots,
        stops,
        lost,
        edits,
        taken,
    });
    prop::collection::vec(turn, 0..30)
}

fn edits() -> impl Strategy<Value = Option<OnDisk>> + Clone {
    let to = prop::sample::select(&[OnDisk::Asked, OnDisk::Saved, OnDisk::Other][..]);
    prop::option::weighted(0.2, to)
}

proptest! {
    #[test]
    fn crashes_boots_stops_and_lost_leases_at_any_step_end_kept_with_good_gates_and_restored_with_others(
        gates in prop::sample::select(&[Gates::Good, Gates::Fatal, Gates::Ignored][..]),
        turns in turns(Just(None)),
    ) {
        let (state, node) = run(gates, &turns);
        // A stopped server is not started; the drop-in is for its next start.
        prop_assert!(node.ready() || node.stopped);
        prop_assert!(node.on_disk == node.runs || node.stopped);
        match gates {
            // If steps are lost again and again, the time may run out: then it is rolled back, which is safe.
            Gates::Good if state == TrialState::RolledBack => prop_assert_eq!(node.on_disk, OnDisk::Saved),
            Gates::Good => prop_assert_eq!(node.on_disk, OnDisk::Asked),
            _ => prop_assert_eq!((state, node.on_disk), (TrialState::RolledBack, OnDisk::Saved)),
        }
    }

    /// [`Node::take`] has the assertions for each step.
    #[test]
    fn whoever_else_changes_the_drop_in_at_any_step_a_trial_ends_with_what_was_saved_or_what_they_put_there(
        gates in prop::sample::select(&[Gates::Good, Gates::Fatal, Gates::Ignored][..]),
        turns in turns(edits()),
    ) {
        let (state, node) = run(gates, &turns);
        match state {
            TrialState::Kept => prop_assert_eq!((gates, node.on_disk), (Gates::Good, OnDisk::Asked)),
            _ => prop_assert!(node.on_disk == OnDisk::Saved || node.edited && node.on_disk == OnDisk::Other),
        }
    }
}

#[test]
fn a_drop_in_that_is_changed_before_the_restart_is_not_tried_and_restarts_nothing() {
    for state in [TrialState::Written, TrialState::Restarting] {
        for on_disk in [OnDisk::Saved, OnDisk::Other] {
            let mut node = Node::new(Gates::Good);
            (node.saved, node.leased, node.restarted, node.on_disk) = (true, true, false, on_disk);
            let back = (TrialState::RollingBack, vec![TrialStep::Restore]);
            assert_eq!(next(state, &node.seen()), back, "{state:?} {on_disk:?}");
            node.on_disk = OnDisk::Saved;
            let over = (TrialState::RolledBack, vec![TrialStep::ReleaseLease]);
            assert_eq!(next(TrialState::RollingBack, &node.seen()), over);
        }
    }
}

#[test]
fn what_was_saved_is_saved_again_if_it_is_changed_before_anything_is_written() {
    let mut node = Node::new(Gates::Good);
    (node.saved, node.leased, node.on_disk) = (true, true, OnDisk::Other);
    let saves = (TrialState::Leased, vec![TrialStep::Save]);
    assert_eq!(next(TrialState::Leased, &node.seen()), saves);
}

#[test]
fn what_the_hook_has_put_back_is_not_put_back_again_nor_is_its_start_made_again() {
    let mut node = Node::new(Gates::Fatal);
    (node.saved, node.started) = (true, true);
    // The start that the hook ran for has read it.
    let back = (TrialState::RollingBack, Vec::new());
    assert_eq!(next(TrialState::Verifying, &node.seen()), back);
    let coming_up = TrialObservation {
        ready: false,
        ..node.seen()
    };
    assert_eq!(next(TrialState::RollingBack, &coming_up), back);
    let over = (TrialState::RolledBack, vec![TrialStep::ReleaseLease]);
    assert_eq!(next(TrialState::RollingBack, &node.seen()), over);
}

#[test]
fn what_somebody_puts_there_after_it_went_back_stays_but_what_was_tried_goes_again() {
    let mut node = Node::new(Gates::Fatal);
    (node.saved, node.started, node.is_back) = (true, true, true);
    node.on_disk = OnDisk::Other;
    let over = (TrialState::RolledBack, vec![TrialStep::ReleaseLease]);
    assert_eq!(next(TrialState::RollingBack, &node.seen()), over);
    let restores = (TrialState::RollingBack, vec![TrialStep::Restore]);
    node.is_back = false;
    assert_eq!(next(TrialState::RollingBack, &node.seen()), restores);
    (node.is_back, node.on_disk) = (true, OnDisk::Asked);
    assert_eq!(next(TrialState::RollingBack, &node.seen()), restores);
}

#[test]
fn what_could_not_be_written_in_time_is_rolled_back_without_a_restart() {
    let mut node = Node::new(Gates::Good);
    node.leased = true;
    node.saved = true;
    let overdue = |node: &Node, overdue: bool| TrialObservation {
        overdue,
        ..node.seen()
    };
    assert_eq!(
        next(TrialState::Saved, &overdue(&node, false)),
        (TrialState::Saved, vec![TrialStep::Write]),
        "there is time left"
    );
    assert_eq!(
        next(TrialState::Saved, &overdue(&node, true)),
        (TrialState::RolledBack, vec![TrialStep::ReleaseLease])
    );
    node.on_disk = OnDisk::Other;
    assert_eq!(
        next(TrialState::Saved, &overdue(&node, false)),
        (TrialState::Saved, vec![TrialStep::Write])
    );
    assert_eq!(
        next(TrialState::Saved, &overdue(&node, true)),
        (TrialState::RollingBack, vec![TrialStep::Restore])
    );
}

#[test]
fn a_restart_is_asked_for_once_and_one_that_somebody_else_made_counts() {
    let mut node = Node::new(Gates::Good);
    (node.restarted, node.started) = (false, true);
    let seen = node.seen();
    let restart = (TrialState::RollingBack, vec![TrialStep::Restart]);
    assert_eq!(next(TrialState::RollingBack, &seen), restart);
    let waits = (TrialState::RollingBack, Vec::new());
    let queued = TrialObservation {
        restarting: true,
        ..seen
    };
    assert_eq!(next(TrialState::RollingBack, &queued), waits);
    let coming_up = TrialObservation {
        restarted: true,
        ready: false,
        ..seen
    };
    assert_eq!(next(TrialState::RollingBack, &coming_up), waits);
    let restarted = TrialObservation {
        restarted: true,
        ..seen
    };
    assert_eq!(
        next(TrialState::Written, &restarted),
        (TrialState::Verifying, Vec::new())
    );
}

#[test]
fn nothing_is_restarted_for_a_trial_whose_lease_was_lost_and_what_was_never_read_goes_without_a_restart()
 {
    let mut node = Node::new(Gates::Good);
    (node.saved, node.restarted) = (true, false);
    assert_eq!(
        next(TrialState::Saved, &node.seen()),
        (TrialState::Idle, Vec::new()),
        "nothing is written"
    );
    node.on_disk = OnDisk::Asked;
    let waits = |state| (state, vec![TrialStep::TakeLease]);
    for state in [TrialState::Written, TrialState::Restarting] {
        assert_eq!(next(state, &node.seen()), waits(state));
        let back = TrialObservation {
            leased: true,
            ..node.seen()
        };
        let restarts = (TrialState::Restarting, vec![TrialStep::Restart]);
        assert_eq!(next(state, &back), restarts);
        let too_long = TrialObservation {
            overdue: true,
            ..node.seen()
        };
        let restores = (TrialState::RollingBack, vec![TrialStep::Restore]);
        assert_eq!(next(state, &too_long), restores);
    }
    node.on_disk = OnDisk::Saved;
    let over = (TrialState::RolledBack, vec![TrialStep::ReleaseLease]);
    assert_eq!(next(TrialState::RollingBack, &node.seen()), over);
}

#[test]
fn a_server_that_somebody_has_stopped_is_not_started_for_a_trial_and_what_was_saved_goes_back_in_time()
 {
    let mut node = Node::new(Gates::Good);
    (node.saved, node.leased, node.stopped, node.restarted) = (true, true, true, false);
    node.on_disk = OnDisk::Asked;
    for state in [
        TrialState::Written,
        TrialState::Restarting,
        TrialState::Verifying,
    ] {
        let (stays, steps) = next(state, &node.seen());
        assert_eq!(stays, state, "it may still be started in time");
        assert!(!steps.contains(&TrialStep::Restart), "{state:?}");
        let too_long = TrialObservation {
            overdue: true,
            ..node.seen()
        };
        let restores = (TrialState::RollingBack, vec![TrialStep::Restore]);
        assert_eq!(next(state, &too_long), restores, "{state:?}");
    }
    (node.on_disk, node.started) = (OnDisk::Saved, true);
    let over = (TrialState::RolledBack, vec![TrialStep::ReleaseLease]);
    assert_eq!(next(TrialState::RollingBack, &node.seen()), over);
}
