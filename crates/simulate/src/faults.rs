//! The faults, by seed: how often each one happens, and until when.

use std::time::Duration;

use windrow_decide::ClusterEvent;

use super::chance::Chance;
use super::scenario::SlowDefinitions;
use super::times;

/// How often each fault happens: once in this many times; 0 is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// Faults stop at this time after the start: from then on everything must recover.
    pub until: Duration,
    /// Windrow dies before an action.
    pub crash: u64,
    /// ... and its ledger is destroyed at its next start (once in this many crashes).
    pub ledger_lost: u64,
    /// An action fails: the disk is full.
    pub disk_full: u64,
    /// The disk is read-only for some minutes: no action succeeds.
    pub read_only: u64,
    /// Windrow does not run for up to half an hour, as after a `systemctl stop`.
    pub away: u64,
    /// Another version of Windrow takes over: it only has the bytes on the disk.
    pub upgrade: u64,
    /// A batch of events is lost, until the watch is interrupted and lists again.
    pub lost: u64,
    /// A watch ends within a batch: the first events arrive, and the rest comes when it lists again.
    pub truncated: u64,
    /// An event is reported twice.
    pub repeated: u64,
    /// The events of a batch come in another order.
    pub reordered: u64,
    /// Every request is rejected (401, 403, 429, 500, a time-out).
    pub refused: u64,
    /// The wall clock is set, forward or back, by up to a day.
    pub clock: u64,
    pub reboot: u64,
    /// The node restarts, and RKE2's unit is masked for up to an hour.
    pub masked: u64,
    /// kube-apiserver takes long to establish a definition (once in this many definitions), each time when the definition is
    /// created.
    pub slow_definitions: u64,
    /// RKE2 takes up to nine seconds from the manifests directory itself to those below it (once in this many looks).
    pub slow_walks: u64,
    /// A file is written again, with the same bytes or others, is truncated for a while, or goes and comes back; or its marker is
    /// removed.
    pub files: u64,
    /// RKE2 restarts, and Windrow does not.
    pub rke2: u64,
    /// RKE2 does not scan its manifests directory for up to 15 minutes, while its kube-apiserver answers.
    pub stalls: u64,
    /// A probe has no answer, or a late one. 0: the node is not probed at all.
    pub unanswered: u64,
    /// A user holds a file, or releases the one that is held in this way.
    pub by_hand: u64,
    /// A server's member of etcd is removed: its cluster starts empty, or is restored from a snapshot if it is the only server
    /// and runs RKE2 only.
    pub replaced: u64,
    /// The same, and the server joins its own cluster again.
    pub rejoins: u64,
    /// Reads of the directory fail for a while, and the daemon reads then.
    pub unread: u64,
    /// The ledger cannot be read at a start (once in this many starts).
    pub ledger_unread: u64,
    /// The fail-safe ends holds that it may end, while Windrow cannot run.
    pub failsafe: u64,
    /// A file whose release would do harm is gone for some minutes, while its marker stays.
    pub gone: u64,
    /// A daemon's clock is ahead from the start (once in this many daemons).
    pub ahead: u64,
    /// From the start or from some time on, a daemon has no answer from kube-apiserver (once in this many daemons).
    pub mute: u64,
    /// A user moves a file to another directory below the manifests directory, or back, or deletes one of two files that have the
    /// same name.
    pub moved: u64,
}

impl Faults {
    pub const NONE: Self = Self {
        until: Duration::ZERO,
        crash: 0,
        ledger_lost: 0,
        disk_full: 0,
        read_only: 0,
        away: 0,
        upgrade: 0,
        lost: 0,
        truncated: 0,
        repeated: 0,
        reordered: 0,
        refused: 0,
        clock: 0,
        reboot: 0,
        masked: 0,
        slow_definitions: 0,
        slow_walks: 0,
        files: 0,
        rke2: 0,
        stalls: 0,
        unanswered: 0,
        by_hand: 0,
        replaced: 0,
        rejoins: 0,
        unread: 0,
        ledger_unread: 0,
        failsafe: 0,
        gone: 0,
        ahead: 0,
        mute: 0,
        moved: 0,
    };

    /// Every fault happens now and then, except for those with separate bootstraps below: clusters, reads, the fail-safe and
    /// moved files.
    pub const ALL: Self = Self {
        until: Duration::from_secs(30 * 60),
        crash: 6,
        ledger_lost: 4,
        disk_full: 8,
        read_only: 120,
        away: 150,
        upgrade: 100,
        lost: 8,
        truncated: 8,
        repeated: 4,
        reordered: 4,
        refused: 12,
        clock: 25,
        reboot: 200,
        masked: 400,
        slow_definitions: 6,
        slow_walks: 2,
        files: 40,
        rke2: 200,
        stalls: 150,
        unanswered: 0,
        by_hand: 60,
        gone: 120,
        ahead: 8,
        mute: 12,
        ..Self::NONE
    };

    /// Another cluster replaces the one of the running daemon, or the server joins its own again.
    pub const CLUSTERS: Self = Self {
        until: Self::ALL.until,
        crash: 6,
        replaced: 60,
        rejoins: 60,
        ..Self::NONE
    };

    /// Files on the disk cannot be read now and then.
    pub const READS: Self = Self {
        until: Self::ALL.until,
        crash: 6,
        unread: 20,
        ledger_unread: 3,
        ..Self::NONE
    };

    /// Windrow cannot run now and then, and the fail-safe does.
    pub const FAILSAFE: Self = Self {
        until: Self::ALL.until,
        failsafe: 60,
        ..Self::NONE
    };

    /// The clock is set while files are gone for a moment, or is ahead from the start.
    pub const CLOCKS: Self = Self {
        until: Self::ALL.until,
        clock: 25,
        gone: 60,
        ahead: 2,
        ..Self::NONE
    };

    /// Files are moved, and some of them are held or released by hand.
    pub const MOVES: Self = Self {
        until: Self::ALL.until,
        crash: 6,
        by_hand: 20,
        moved: 20,
        ..Self::NONE
    };

    /// kube-apiserver never answers Windrow, or stops at some time. RKE2 reaches it.
    pub const MUTE: Self = Self {
        mute: 1,
        ..Self::NONE
    };

    /// All of [`Self::ALL`], and reads fail.
    pub const ALL_AND_READS: Self = Self {
        unread: Self::READS.unread,
        ledger_unread: Self::READS.ledger_unread,
        ..Self::ALL
    };

    /// All of [`Self::ALL`], and the cluster is replaced or joined again.
    pub const ALL_AND_CLUSTERS: Self = Self {
        replaced: Self::CLUSTERS.replaced,
        rejoins: Self::CLUSTERS.rejoins,
        ..Self::ALL
    };

    /// All of [`Self::ALL`], and the fail-safe runs.
    pub const ALL_AND_FAILSAFE: Self = Self {
        failsafe: Self::FAILSAFE.failsafe,
        ..Self::ALL
    };

    /// All of [`Self::ALL`], and files are moved.
    pub const ALL_AND_MOVES: Self = Self {
        moved: Self::MOVES.moved,
        ..Self::ALL
    };

    /// All of [`Self::ALL`] on a node that is probed.
    pub const ALL_AND_PROBES: Self = Self {
        unanswered: 6,
        ..Self::ALL
    };
}

impl Faults {
    /// The faults that a flight can have: the others affect parts that it does not record.
    pub(super) fn recorded(&self) -> Self {
        Self {
            replaced: 0,
            rejoins: 0,
            unread: 0,
            ledger_unread: 0,
            failsafe: 0,
            ahead: 0,
            mute: 0,
            ..*self
        }
    }

    /// The faults of the cluster itself, which RKE2 also meets without Windrow.
    pub(super) fn slow_definitions(&self) -> Option<SlowDefinitions> {
        (self.slow_definitions > 0).then_some(SlowDefinitions {
            one_in: self.slow_definitions,
            delay: times::SLOW_DEFINITION,
        })
    }
}

#[derive(Debug)]
pub(super) struct Dice {
    chance: Chance,
}

impl Dice {
    pub(super) fn new(chance: Chance) -> Self {
        Self { chance }
    }

    /// Does an event happen that happens once in `n` times?
    pub(super) fn throw(&mut self, n: u64) -> bool {
        n != 0 && self.chance.one_in(n)
    }

    pub(super) fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    /// The message of a server that answers with an error.
    pub(super) fn refusal(&mut self) -> &'static str {
        const REFUSALS: [&str; 5] = [
            "401 Unauthorized",
            "403 Forbidden",
            "429 Too Many Requests",
            "500 Internal Server Error",
            "no answer within 10 s",
        ];
        self.chance.pick(&REFUSALS).copied().unwrap_or(REFUSALS[0])
    }

    /// A time of up to this much.
    pub(super) fn up_to(&mut self, most: Duration) -> Duration {
        self.chance.between((Duration::ZERO, most))
    }

    /// Repeats and reorders. A watch never reports an object's older state after its newer one, and a batch has one event per
    /// object.
    pub(super) fn disturb(&mut self, events: &mut Vec<ClusterEvent>, faults: &Faults) {
        if self.throw(faults.repeated)
            && let Some(event) = self.chance.pick(events).cloned()
        {
            events.push(event);
        }
        if self.throw(faults.reordered) {
            for place in (1..events.len()).rev() {
                let other = self.chance.below(place as u64 + 1) as usize;
                events.swap(place, other);
            }
        }
    }
}
