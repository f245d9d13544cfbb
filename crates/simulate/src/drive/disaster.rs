//! The faults around Windrow, and Windrow's own death.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windrow_decide::{Ledger, Mark, OnFailure};
use windrow_model::manifest::{FileContent, ManifestPath};
use windrow_model::reasons::Code;

use super::super::log::HappeningKind;
use super::Drive;
use super::daemon::RETRY;

/// How long a disk stays read-only, Windrow stopped, and RKE2's unit masked, at most.
const READ_ONLY: Duration = Duration::from_secs(5 * 60);
const AWAY: Duration = Duration::from_secs(30 * 60);
const MASKED: Duration = Duration::from_secs(60 * 60);
/// How long RKE2 does not scan the directory, at most.
const STALLS: Duration = Duration::from_secs(15 * 60);
/// How long a file is gone whose marker stays ten minutes.
const GONE: Duration = Duration::from_secs(8 * 60);
/// A file that a user holds is gone for this much longer: its marker stays.
const GONE_BY_HAND: Duration = Duration::from_secs(11 * 60);
/// Length of a file whose writing was interrupted: every document that RKE2 accepts is longer.
const CUT: usize = 10;

impl Drive<'_> {
    pub(super) fn crash(&mut self, who: usize, now: Timestamp) {
        self.record_fault(who, "Windrow dies");
        self.daemons[who].oracle.reports.die();
        // Then Windrow cannot know that the next datastore is not the first one.
        let is_between = self.daemons[who].membership.is_between();
        if self.dice.throw(self.faults.ledger_lost) && !is_between {
            self.record_fault(who, "the ledger is destroyed");
            let daemon = &mut self.daemons[who];
            daemon.saved = Arc::default();
            daemon.oracle.forget(now);
        }
        let daemon = &mut self.daemons[who];
        daemon
            .oracle
            .forget_unwritten(&self.disks[who], &daemon.saved);
        self.restart_daemon(who, now);
        let daemon = &mut self.daemons[who];
        (daemon.wake, daemon.died) = (Some(now + RETRY), true);
    }

    pub(super) fn disaster(&mut self, who: usize, now: Timestamp) {
        if self.dice.throw(self.faults.clock) {
            let day = 24 * 3600;
            let seconds = self.dice.chance().below(2 * day) as i64 - day as i64;
            let by = SignedDuration::from_secs(seconds);
            self.record_fault(who, &format!("the wall clock jumps by {by:#}"));
            let daemon = &mut self.daemons[who];
            daemon.skew += by;
            daemon.clock_was_set = true;
            daemon.state.shift_clock(by);
            daemon.wake = Some(now);
        }
        if self.dice.throw(self.faults.reboot) {
            self.reboot(who, Duration::ZERO, now);
        }
        if self.dice.throw(self.faults.rke2) {
            self.record_fault(who, "RKE2 restarts");
            self.node.reboot_later(who, Duration::ZERO);
        }
        if self.dice.throw(self.faults.masked) {
            let masked = self.dice.up_to(MASKED);
            self.record_fault(who, &format!("RKE2's unit is masked for {masked:?}"));
            self.reboot(who, masked, now);
        }
        // If RKE2 gets a file while Windrow cannot hold it, that is not Windrow's fault.
        let is_held = now > self.whole_at && self.daemons[who].troubles.is_empty();
        if is_held && self.dice.throw(self.faults.read_only) {
            let until = now + self.dice.up_to(READ_ONLY);
            self.record_fault(who, &format!("the disk is read-only until {until}"));
            self.daemons[who].read_only = Some(until);
        }
        if is_held && self.dice.throw(self.faults.away) {
            let until = now + self.dice.up_to(AWAY);
            self.record_fault(who, &format!("Windrow is stopped until {until}"));
            self.daemons[who].away = Some(until);
        }
        if self.dice.throw(self.faults.upgrade) {
            self.upgrade(who, now);
        }
        if self.daemons[who].away.is_none() && self.dice.throw(self.faults.by_hand) {
            self.a_person_asks(who, now);
        }
        if self.dice.throw(self.faults.files) {
            self.touch_a_file(who, now);
        }
        self.more_disasters(who, now);
    }

    /// Clocks that are ahead from the start.
    pub(super) fn record_skews(&mut self) {
        for who in 0..self.daemons.len() {
            let skew = self.daemons[who].skew;
            if !skew.is_zero() {
                self.record_fault(who, &format!("the wall clock is ahead by {skew:#}"));
            }
            if let Some(mute) = self.daemons[who].mute {
                let fault = format!("kube-apiserver does not answer Windrow from {mute} on");
                self.record_fault(who, &fault);
            }
        }
    }

    fn more_disasters(&mut self, who: usize, now: Timestamp) {
        let loses = self.more.throw(self.faults.replaced) | self.more.throw(self.faults.rejoins);
        if loses {
            self.lose_datastore(who, now);
        }
        let deploy = self.node.deploy_of(who);
        if deploy.is_between_passes() && self.more.throw(self.faults.stalls) {
            let length = self.more.up_to(STALLS);
            self.record_fault(who, &format!("RKE2 looks at no file for {length:?}"));
            self.node.stall(who, length);
        }
        let is_alive = self.daemons[who].away.is_none();
        if is_alive && self.more.throw(self.faults.unread) {
            self.fail_reads(who, now);
        }
        let is_held = now > self.whole_at && self.daemons[who].troubles.is_empty();
        if is_alive && is_held && self.more.throw(self.faults.gone) {
            self.take_away(who, now);
        }
        if is_alive && is_held && self.more.throw(self.faults.failsafe) {
            self.fail_safe(who, now);
        }
        if self.more.throw(self.faults.moved) {
            self.move_a_file(who);
        }
    }

    /// A file with a hold whose end would do harm is gone for some minutes.
    fn take_away(&mut self, who: usize, now: Timestamp) {
        let disk = &self.disks[who];
        let marks = disk.iter().filter_map(|(_, entry)| entry.mark());
        let kept = marks.filter(|mark| mark.on_failure == OnFailure::Keep);
        let is_by_hand = |mark: &Mark| mark.code == Code::HeldByHand;
        let kept = kept.map(|mark| (mark.file.clone(), is_by_hand(mark)));
        let kept: Vec<(ManifestPath, bool)> = kept.collect();
        let Some((path, is_by_hand)) = self.more.chance().pick(&kept) else {
            return;
        };
        let Some(entry) = self.disks[who].get(path) else {
            return;
        };
        let content = FileContent::clone(entry.content());
        let longer = if *is_by_hand {
            GONE_BY_HAND
        } else {
            Duration::ZERO
        };
        let back = now + RETRY + longer + self.more.up_to(GONE);
        self.record_fault(who, &format!("{path} vanishes until {back}"));
        self.disks[who].remove(path);
        self.changes.add(back, who, path, Some(content));
    }

    fn reboot(&mut self, who: usize, masked: Duration, now: Timestamp) {
        self.node.reboot_later(who, masked);
        self.daemons[who].begin_boot(now);
        self.crash(who, now);
        // yip writes its files again at every boot. A file that a user removed stays away here.
        let (disk, moved) = (&mut self.disks[who], &self.daemons[who].moved);
        for (path, file) in self.known.disks[who].iter() {
            let is_moved = moved.get(path).is_some_and(|place| place != path);
            let is_of_other = moved
                .iter()
                .any(|(first, place)| place == path && first != path);
            if disk.get(path).is_some() && !is_moved && !is_of_other {
                disk.put_again(path, file, now);
            }
        }
    }

    /// Another version takes over. It only has the ledger and the markers in their written form.
    fn upgrade(&mut self, who: usize, now: Timestamp) {
        self.record_fault(who, "Windrow is upgraded");
        let disk = &mut self.disks[who];
        let ours = disk.iter().filter(|(_, file)| file.is_ours());
        let written: Vec<(String, FileContent)> = ours
            .map(|(path, file)| (path.to_owned(), FileContent::clone(file.content())))
            .collect();
        for (path, content) in written {
            disk.put(path, content, now);
        }
        let saved = &mut self.daemons[who].saved;
        let text = serde_json::to_vec(&**saved).unwrap_or_default();
        // An unreadable one counts as missing.
        *saved = serde_json::from_slice::<Ledger>(&text)
            .unwrap_or_default()
            .into();
        self.daemons[who].oracle.reports.forget();
        // It reads every file itself.
        self.daemons[who].state = self.known.states[who].clone();
        self.restart_daemon(who, now);
        self.daemons[who].wake = Some(now);
    }

    fn touch_a_file(&mut self, who: usize, now: Timestamp) {
        let files = &self.known.disks[who];
        let moved = self.daemons[who].moved.clone();
        // A permanently removed file does not come back.
        let firsts = files.manifests().map(|(path, _)| path);
        let places = firsts.map(|first| (first, moved.get(first).map_or(first, String::as_str)));
        let is_there = |(_, path): &(&str, &str)| self.disks[who].get(path).is_some();
        let places: Vec<(&str, &str)> = places.filter(is_there).collect();
        let paths: Vec<&str> = places.iter().map(|(_, path)| *path).collect();
        // A file that a user holds is changed more often than others.
        let held = self.daemons[who].oracle.held_by_hand().next();
        let held = held.and_then(|held| paths.iter().find(|path| **path == held.as_str()).copied());
        let held = held.filter(|_| self.dice.throw(2));
        let Some(path) = held.or_else(|| self.dice.chance().pick(&paths).copied()) else {
            return;
        };
        let first = places.iter().find(|(_, place)| *place == path);
        let Some(original) = first.and_then(|(first, _)| files.get(first)) else {
            return;
        };
        let content = FileContent::clone(original.content());
        let daemon = &self.daemons[who];
        let can_hold = daemon.away.is_none() && daemon.read_only.is_none_or(|until| until <= now);
        match (self.dice.chance().below(5), content) {
            // Servers whose files differ take an Addon from one another, over and over.
            (1, FileContent::Bytes(mut bytes)) if self.disks.len() == 1 => {
                self.record_fault(who, &format!("{path} gets a comment"));
                bytes.extend_from_slice(b"\n# touched\n");
                self.disks[who].write(path, bytes, now);
            }
            (2, FileContent::Bytes(bytes)) if can_hold => {
                self.whole_at = now + RETRY;
                self.record_fault(who, &format!("{path} is cut off, and whole a little later"));
                let cut = bytes.get(..CUT).unwrap_or_default().to_vec();
                self.disks[who].write(path, cut, now);
                let whole = Some(FileContent::Bytes(bytes));
                self.changes.add(now + RETRY, who, path, whole);
            }
            (3, _) if can_hold => {
                let marker = self.marker_beside(who, path);
                if let Some(marker) = &marker {
                    self.record_fault(who, &format!("somebody removes {marker}"));
                    self.disks[who].remove(marker);
                    let daemon = &mut self.daemons[who];
                    // A process that has read it remembers its content.
                    if daemon.seen.is_none() {
                        let oracle = &mut daemon.oracle;
                        oracle.forget_unwritten(&self.disks[who], &daemon.saved);
                    }
                }
            }
            (4, content) if can_hold => {
                self.whole_at = now + RETRY;
                self.record_fault(who, &format!("{path} vanishes and comes back"));
                if self.faults.rke2 > 0 && self.dice.throw(4) {
                    self.record_fault(who, "RKE2 restarts");
                    self.node.reboot_later(who, Duration::ZERO);
                }
                self.disks[who].remove(path);
                self.changes.add(now + RETRY, who, path, Some(content));
            }
            (_, content) => {
                self.record_fault(who, &format!("{path} is written again"));
                self.disks[who].put(path, content, now);
            }
        }
    }

    pub(super) fn record_fault(&mut self, who: usize, fault: &str) {
        let fault = fault.to_owned();
        self.node.record(who, HappeningKind::Fault { fault });
    }
}
