//! What goes wrong around Windrow, and Windrow's own death.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use windrow_model::manifest::FileContent;

use super::super::log::HappeningKind;
use super::Drive;
use super::daemon::RETRY;

impl Drive<'_> {
    /// Windrow dies and is started again.
    pub(super) fn crash(&mut self, who: usize, now: Timestamp) {
        self.record_fault(who, "Windrow dies");
        if self.dice.throw(self.faults.ledger_lost) {
            self.record_fault(who, "the ledger is destroyed");
            self.daemons[who].saved = Arc::default();
        }
        self.restart_daemon(who, now);
        self.daemons[who].wake = Some(now + RETRY);
    }

    /// What goes wrong around Windrow.
    pub(super) fn disaster(&mut self, who: usize, now: Timestamp) {
        if self.dice.throw(self.faults.clock) {
            let day = 24 * 3600;
            let seconds = self.dice.chance().below(2 * day) as i64 - day as i64;
            let by = SignedDuration::from_secs(seconds);
            self.record_fault(who, &format!("the wall clock jumps by {by:#}"));
            let daemon = &mut self.daemons[who];
            daemon.skew += by;
            daemon.state.shift_clock(by);
            daemon.wake = Some(now);
        }
        if self.dice.throw(self.faults.reboot) {
            self.node.reboot(who);
            self.crash(who, now);
            // yip writes its files again at every boot. What a person took away stays away here.
            let disk = &mut self.disks[who];
            for (path, file) in self.known.disks[who].iter() {
                if disk.get(path).is_some() {
                    disk.put_again(path, file, now);
                }
            }
        }
        if self.dice.throw(self.faults.files) {
            self.touch_a_file(who, now);
        }
    }

    fn touch_a_file(&mut self, who: usize, now: Timestamp) {
        let files = &self.known.disks[who];
        let paths: Vec<&str> = files.manifests().map(|(path, _)| path).collect();
        let Some(path) = self.dice.chance().pick(&paths).copied() else {
            return;
        };
        let Some(original) = files.get(path) else {
            return;
        };
        let content = FileContent::clone(original.content());
        match (self.dice.chance().below(3), content) {
            (0, content) => {
                self.record_fault(who, &format!("{path} is written again"));
                self.disks[who].put(path, content, now);
            }
            (1, FileContent::Bytes(mut bytes)) => {
                self.record_fault(who, &format!("{path} gets a comment"));
                bytes.extend_from_slice(b"\n# touched\n");
                self.disks[who].write(path, bytes, now);
            }
            (_, content) => {
                self.record_fault(who, &format!("{path} vanishes and comes back"));
                self.disks[who].remove(path);
                self.changes.add(now + RETRY, who, path, Some(content));
            }
        }
    }

    pub(super) fn record_fault(&mut self, who: usize, fault: &str) {
        let fault = fault.to_owned();
        self.node.record(who, HappeningKind::Fault { fault });
    }
}
