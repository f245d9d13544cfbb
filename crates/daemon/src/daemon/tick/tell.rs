//! How a tick reports: the status document and the journal.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use windrow_decide::Event;
use windrow_model::reasons::Code;

use super::{Daemon, WithheldEvent};
use crate::files::is_no_space;
use crate::observe::management::host_name_of;
use crate::report::journal;
use windrow_model::text::lasted;

impl Daemon {
    /// Reports late changes: the marker has been made, or removed, after all.
    pub(super) fn tell_withheld(&mut self) {
        let troubles = self.executor.marker_troubles();
        let mut withheld = std::mem::take(&mut self.withheld);
        withheld.retain(|file, WithheldEvent { event, since }| {
            let name = &file.name();
            if troubles.contains_key(name) || self.stays_for_writing(name) {
                return true;
            }
            let hidden = self.state.hides(name);
            if hidden == (event.code == Code::Held) {
                let mut event = event.clone();
                let stayed = i64::try_from(since.elapsed().as_secs()).unwrap_or(i64::MAX);
                if !hidden && stayed > 0 {
                    let longer = format!("; its marker stayed {} longer", lasted(stayed));
                    event.message.push_str(&longer);
                }
                self.tell_of_file(event);
            }
            false
        });
        self.withheld = withheld;
    }

    pub(super) fn publish(&mut self, mut status: windrow_decide::Status, now: jiff::Timestamp) {
        status.host = host_name_of(&self.layout).unwrap_or_default();
        let other = self.node_name.as_ref().filter(|name| **name != status.host);
        status.node_name = other.cloned();
        if let Some(view) = &*self.gates.borrow() {
            status.gates = Some(view.section.clone());
        }
        status
            .webhooks
            .clone_from(&self.webhooks.borrow_and_update());
        status.server = self.server.borrow_and_update().status().cloned();
        match self.publisher.publish(status, now) {
            Ok(changed) => {
                self.untell("the status");
                self.full_disks.set("status", BTreeSet::new());
                if changed && let Some(status) = self.publisher.current() {
                    self.manager.status(&status);
                }
            }
            Err(error) => {
                let directory = self.layout.status().parent().map(Path::to_owned);
                let is_full = is_no_space(&error);
                let full = directory.into_iter().filter(|_| is_full).collect();
                self.full_disks.set("status", full);
                let what = format!("write {}", self.layout.status().display());
                let line =
                    Code::ActionFailed.say(&[("what", &what), ("error", &error.to_string())]);
                self.tell_once("the status", Code::ActionFailed, line);
                self.retry_after(Duration::from_secs(5));
            }
        }
    }

    /// The journal reports the node's state once the status document can be read.
    pub(super) fn tell_transitions(&mut self, now: jiff::Timestamp) {
        let Some(status) = self.publisher.current() else {
            return;
        };
        let news = self.transitions.changes(&status, now);
        for probe in &news.probes {
            journal::write_probe_change(probe);
        }
        for change in news.node.iter().chain(&news.boot) {
            journal::write_readiness_change(change);
        }
    }

    /// Writes an event about a file, or counts it if there are too many of its kind.
    pub(super) fn tell_of_file(&mut self, event: Event) {
        if let Some(event) = self.events.take(event, Instant::now()) {
            journal::write_event(&event);
        }
    }

    /// Reports the directories in which Windrow finds no space, or finds space again.
    pub(super) fn tell_full_disks(&mut self) {
        let found = self.full_disks.findings();
        let found: BTreeSet<String> = found.into_iter().map(|full| full.message).collect();
        let known = std::mem::replace(&mut self.reported_full, found.clone());
        for full in found.difference(&known) {
            self.tell_event(Code::DiskFull, full.clone());
        }
        for full in known.difference(&found) {
            let line = Code::FindingResolved.say(&[("what", full)]);
            self.tell_event(Code::FindingResolved, line);
        }
    }

    pub(super) fn tell_event(&self, code: Code, message: String) {
        journal::write_event(&Event::new(code, message));
    }

    pub(super) fn tell_once(&mut self, about: &str, code: Code, message: String) {
        if self.told.insert(about.to_owned()) {
            self.tell_event(code, message);
        }
    }

    pub(super) fn untell(&mut self, about: &str) {
        self.told.remove(about);
    }
}
