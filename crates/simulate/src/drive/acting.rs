//! The disk operations of a simulated daemon, and the errors of the disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_decide::{Action, MarkerTrouble};
use windrow_model::manifest::{BaseName, ManifestPath};

use super::super::log::HappeningKind;
use super::Drive;
use super::daemon::{RETRY, earliest};

/// The name of the file that an action's marker hides.
fn marker_of(action: &Action) -> Option<BaseName> {
    match action {
        Action::Hold { path, .. } | Action::Lift { path } => Some(path.hides()),
        Action::SaveLedger(_) => None,
    }
}

fn is_same(trouble: &MarkerTrouble, action: &Action) -> bool {
    matches!(
        (trouble, action),
        (MarkerTrouble::NotMade(_), Action::Hold { .. })
            | (MarkerTrouble::NotRemoved(_), Action::Lift { .. })
    )
}

impl Drive<'_> {
    /// Executes actions like the daemon's executor: a failed one does not stop those after it. False if Windrow died.
    pub(super) fn act(
        &mut self,
        who: usize,
        actions: Vec<Action>,
        done: &mut Vec<Action>,
        now: Timestamp,
    ) -> bool {
        let daemon = &self.daemons[who];
        let saves = |action: &Action| matches!(action, Action::SaveLedger(_));
        let is_kept = daemon.ledger_unread.is_some();
        let left = daemon.unsaved && !is_kept && !actions.iter().any(saves);
        let left = left.then(|| Action::SaveLedger(Arc::clone(daemon.state.ledger())));
        let before = std::mem::take(&mut self.daemons[who].troubles);
        let mut troubles = BTreeMap::new();
        let mut failed = false;
        for action in actions.into_iter().chain(left) {
            // A ledger that could not be read is not overwritten.
            if is_kept && saves(&action) {
                continue;
            }
            let name = marker_of(&action);
            let known = name.as_ref().and_then(|name| before.get(name));
            let known = known.filter(|known| is_same(known, &action));
            if self.daemons[who].is_put_off(known.is_some(), &action, now) {
                troubles.extend(name.zip(known.cloned()));
                continue;
            }
            if !self.is_racing(who, &action) && self.dice.throw(self.faults.crash) {
                self.crash(who, now);
                return false;
            }
            match self.disk_error(who, &action, now) {
                None => {
                    self.carry_out(who, &action, now);
                    done.push(action);
                }
                Some(why) => {
                    failed = true;
                    self.record_fault(who, why);
                    let why = why.to_owned();
                    match action {
                        Action::Hold { path, .. } => {
                            troubles.insert(path.hides(), MarkerTrouble::NotMade(why));
                        }
                        Action::Lift { path } => {
                            troubles.insert(path.hides(), MarkerTrouble::NotRemoved(why));
                        }
                        Action::SaveLedger(_) => self.daemons[who].unsaved = true,
                    }
                }
            }
        }
        let daemon = &mut self.daemons[who];
        if failed {
            daemon.again = Some(now + RETRY);
        }
        let fails = daemon.unsaved || !troubles.is_empty();
        if !fails {
            daemon.again = None;
        }
        daemon.troubles = troubles;
        daemon.wake = earliest([daemon.wake, daemon.again]);
        true
    }

    /// Whether a late marker is too late depends on RKE2's poll, not on Windrow. While RKE2 runs, only a disk that rejects writes
    /// delays a marker.
    fn is_racing(&self, who: usize, action: &Action) -> bool {
        matches!(action, Action::Hold { .. }) && self.node.cluster().is_up_on(who)
    }

    fn disk_error(&mut self, who: usize, action: &Action, now: Timestamp) -> Option<&'static str> {
        let read_only = &mut self.daemons[who].read_only;
        *read_only = read_only.filter(|until| now < *until);
        if read_only.is_some() {
            return Some("the disk is read-only");
        }
        let is_full = !self.is_racing(who, action) && self.dice.throw(self.faults.disk_full);
        is_full.then_some("the disk is full")
    }

    fn carry_out(&mut self, who: usize, action: &Action, now: Timestamp) {
        let (daemon, disk) = (&mut self.daemons[who], &mut self.disks[who]);
        let before = disk.generation();
        match action {
            Action::Hold { path, mark } => {
                if disk.is_foreign(path) {
                    return;
                }
                let held = HappeningKind::Held {
                    marker: path.clone(),
                    why: mark.why.to_string(),
                };
                self.node.record(who, held);
                disk.hold(path, mark, now);
            }
            Action::SaveLedger(ledger) => {
                daemon.saved = Arc::clone(ledger);
                daemon.unsaved = false;
                let reads = &daemon.reads;
                // A marker that this process could not read yet may have another owner, and a file behind a foreign marker is not
                // entered.
                let is_unread = |path: &ManifestPath| {
                    !reads.has_looked
                        || reads.unread.contains(path)
                        || !reads.has_read_markers && disk.is_hidden(path)
                        || disk.skipped_by(path).is_some()
                };
                let is_unknown = |path: &ManifestPath, digest: &SmolStr| {
                    let entry = ledger.files.get(path);
                    is_unread(path) && entry.is_none_or(|entry| entry.digest != *digest)
                };
                daemon.oracle.note_saved(is_unknown);
                if let Some(probing) = &mut daemon.probing {
                    probing.saved();
                }
            }
            Action::Lift { path } => {
                if disk.is_foreign(path) || !disk.remove(path) {
                    return;
                }
                if !daemon.unsaved && daemon.ledger_unread.is_none() {
                    let plan = &daemon.true_plan;
                    daemon
                        .oracle
                        .judge_lift(path, plan, &daemon.state, &daemon.saved);
                }
                // The watch reports the removal, and the next scan finds a second marker of the name.
                if disk.is_hidden(&path.hides()) {
                    daemon.reads.look_at = Some(now);
                }
                let lifted = HappeningKind::Lifted {
                    marker: path.clone(),
                };
                self.node.record(who, lifted);
            }
        }
        daemon.state.record_done(action);
        // Its own changes need no scan of the directory.
        if daemon.seen == Some(before) {
            daemon.seen = Some(disk.generation());
        }
    }
}
