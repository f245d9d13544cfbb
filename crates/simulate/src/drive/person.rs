//! A user who holds files and releases them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use windrow_decide::{Manual, OrderError};
use windrow_model::manifest::{FileContent, ManifestPath};
use windrow_plan::Requirement;

use super::Drive;
use super::daemon::{RETRY, earliest};
use crate::files::base_name;

/// An order of the user. It is on the disk until it has been executed.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) file: ManifestPath,
    pub(super) hold: bool,
    /// Time by the node's clock.
    at: Timestamp,
    /// The daemon has read it, and knows the file.
    pub(super) is_taken: bool,
}

impl Order {
    fn new(file: ManifestPath, hold: bool, at: Timestamp) -> Self {
        Self {
            file,
            hold,
            at,
            is_taken: false,
        }
    }
}

impl Drive<'_> {
    /// Holds a file of this server, or releases one, preferably the held one. Files that are held on purpose do not change.
    pub(super) fn a_person_asks(&mut self, who: usize, now: Timestamp) {
        let daemon = &self.daemons[who];
        // Only a real daemon writes orders into a flight.
        if daemon.asked.is_some() || daemon.tape.is_some() {
            return;
        }
        let held = daemon.oracle.held_by_hand().next().cloned();
        let held = held.map(|file| self.place_of_moved(who, file));
        let daemon = &self.daemons[who];
        let file = held.clone().or_else(|| {
            let files = daemon.state.plan().files.iter();
            let staged = files.filter(|file| {
                file.owner.is_none() && file.hold.is_none() && !file.apply_once && !file.harmful
            });
            // A user who releases a file that does harm causes that harm.
            let staged = staged.filter(|file| {
                file.skipped.is_none() && !file.requirements().any(Requirement::harms)
            });
            // An unreadable directory may be listed as a file.
            let staged = staged.filter(|file| self.disks[who].get(&file.path).is_some());
            let paths: Vec<ManifestPath> = staged.map(|file| file.path.clone()).collect();
            self.dice.chance().pick(&paths).cloned()
        });
        if let Some(file) = file {
            // Once in four times, a waiting file may be released as well.
            let hold = held.is_none() && !self.dice.throw(4);
            let verb = if hold { "holds" } else { "releases" };
            self.record_fault(who, &format!("somebody {verb} {file}"));
            if !hold {
                self.take_namesake_away(who, &file, now);
            }
            let daemon = &mut self.daemons[who];
            daemon.oracle.forget_held_by_hand(&file.name());
            daemon.asked = Some(Order::new(file, hold, daemon.wall(now)));
            daemon.wake = Some(now);
        }
    }

    /// Every other time, another file of the name is gone at that moment, and comes back.
    fn take_namesake_away(&mut self, who: usize, file: &ManifestPath, now: Timestamp) {
        let files = self.known.disks[who].manifests();
        let is_other =
            |path: &str| path != file.as_str() && base_name(path) == file.name().as_str();
        let mut others = files.filter(|(path, _)| is_other(path));
        let other = others.find(|(path, _)| self.disks[who].get(path).is_some());
        if let Some((path, entry)) = other.filter(|_| self.dice.throw(2)) {
            let content = FileContent::clone(entry.content());
            self.record_fault(who, &format!("{path} vanishes and comes back"));
            self.disks[who].remove(path);
            self.changes.add(now + RETRY, who, path, Some(content));
        }
    }

    /// Ends every hold by hand.
    pub(super) fn release_by_hand(&mut self, who: usize, now: Timestamp) {
        let daemon = &self.daemons[who];
        let asked = daemon.asked.as_ref();
        if asked.is_some_and(|order| !order.hold) {
            return;
        }
        let held = daemon.oracle.held_by_hand().next();
        let file = held.or(asked.map(|order| &order.file)).cloned();
        if let Some(file) = file {
            self.record_fault(who, &format!("somebody releases {file}"));
            let daemon = &mut self.daemons[who];
            daemon.oracle.forget_held_by_hand(&file.name());
            daemon.asked = Some(Order::new(file, false, daemon.wall(now)));
            // A file that is being written again exists by then.
            daemon.wake = earliest([daemon.wake, Some(now + RETRY)]);
        }
    }

    /// Passes an order to the daemon, which reads orders before each decision.
    pub(super) fn take_order(&mut self, who: usize, now: Timestamp) {
        self.take_requests(who, now);
        let daemon = &mut self.daemons[who];
        let Some(order) = daemon.asked.clone() else {
            return;
        };
        let Order { file, hold, at, .. } = order.clone();
        let manual = Manual {
            hold,
            by: "somebody".to_owned(),
            at,
            reason: "not yet".to_owned(),
        };
        let nothing = BTreeMap::new();
        let now = daemon.wall(now);
        let entered = daemon.state.hold_or_release(&file, &nothing, manual, now);
        let is_taken = match entered {
            Ok(()) => true,
            // An order that cannot be read now is repeated.
            Err(OrderError::NotNow(_)) => return,
            // There is no such file. A held one is released when it exists again.
            Err(OrderError::Refused(why)) if !hold => {
                self.judge_refusal(who, &file, &why);
                false
            }
            Err(OrderError::Refused(_)) => {
                daemon.asked = None;
                // An earlier process may have recorded it.
                if order.is_taken {
                    daemon.oracle.by_hand.insert(file);
                    let (disk, saved) = (&self.disks[who], &daemon.saved);
                    daemon.oracle.forget_unwritten(disk, saved);
                }
                return;
            }
        };
        let daemon = &mut self.daemons[who];
        if is_taken && !hold {
            let plan = daemon.state.shared_plan();
            let files = plan.files.iter().filter(|one| one.name == file.name());
            let let_go = files.map(|one| (one.path.clone(), one.digest.clone()));
            daemon.oracle.let_go.extend(let_go);
        }
        daemon.asked = Some(Order { is_taken, ..order });
    }

    /// A release counts for the name: it is rejected only if no file of this name exists, or a foreign marker hides it.
    fn judge_refusal(&mut self, who: usize, file: &ManifestPath, why: &str) {
        let (daemon, disk) = (&mut self.daemons[who], &self.disks[who]);
        // It does not know the present directory.
        let has_looked = daemon.seen == Some(disk.generation()) && daemon.is_told();
        let is_there = disk.namesakes(&file.name()).next().is_some();
        if has_looked && is_there && disk.skipped_by(file).is_none() {
            let untrue = &mut daemon.oracle.untrue;
            untrue.insert(format!("the release of {file} is refused: {why}"));
        }
    }

    /// The order has been executed, and that is on the disk.
    pub(super) fn order_is_done(&mut self, who: usize) {
        let (daemon, disk) = (&mut self.daemons[who], &self.disks[who]);
        // A ledger that cannot be read yet is not written either.
        let is_saved = !daemon.unsaved && daemon.ledger_unread.is_none();
        if is_saved {
            daemon.requests.retain(|request| request.is_late);
        }
        let is_taken = daemon.asked.as_ref().is_some_and(|order| order.is_taken);
        // An unreadable file keeps its marker until it can be read.
        let is_unread = daemon.reads.look_at.is_some();
        if !is_taken || is_unread || !is_saved || !daemon.troubles.is_empty() {
            return;
        }
        let Some(order) = daemon.asked.take() else {
            return;
        };
        let file = order.file;
        if order.hold {
            daemon.oracle.by_hand.insert(file);
        } else if disk.namesakes(&file.name()).next().is_some() && disk.is_hidden(&file) {
            let untrue = &mut daemon.oracle.untrue;
            untrue.insert(format!("{file} is let go by hand: a marker hides it"));
        }
    }
}
