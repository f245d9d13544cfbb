//! A tick scans: the manifests directory, in parts if it is large, and the spools.

use std::sync::Arc;
use std::time::Duration;

use windrow_decide::Directory;
use windrow_model::findings::Finding;
use windrow_model::manifest;
use windrow_model::reasons::Code;

use super::super::manifest_scanner::ScanOutcome;
use super::super::repairs;
use super::Daemon;
use crate::observe::platform;
use crate::report::journal;

/// Most parts of a large directory in one look: 256 MiB with the default of `staging.limits.directoryBytes`.
const MOST_PARTS: usize = 8;

impl Daemon {
    /// Scans the manifests directory and the spools, and takes in their content.
    pub(super) fn scan(&mut self) {
        self.find_platform();
        let staging = &self.state.settings().staging;
        let (limits, rescan) = (staging.limits.clone(), staging.rescan);
        let path = self.layout.manifests().display().to_string();
        // A large directory is read in parts, and no decision is made before all of them were read once.
        for _ in 0..MOST_PARTS {
            self.scan_part(&limits, rescan, &path);
            if !self.scanner.is_partial() {
                break;
            }
            self.feed_watchdog();
        }
        self.tell_of_watch(&path);
        let manifests = self.layout.manifests();
        let are_files_known = self.is_directory_read();
        let taken = self.requests.take_spooled(
            &mut self.state,
            (&manifests, are_files_known),
            self.clock.now(),
        );
        for event in taken.events {
            journal::write_event(&event);
        }
        for request in taken.repairs {
            match repairs::note(&self.layout, &request) {
                Ok(repaired) => {
                    self.tell_event(repaired.event, repaired.message.clone());
                    self.flight.repaired(repaired);
                }
                Err(why) => {
                    let what = format!("record the repair {}", request.file);
                    let line = Code::ActionFailed.say(&[("what", &what), ("error", &why)]);
                    self.tell_event(Code::ActionFailed, line);
                }
            }
        }
        if taken.about_gates {
            // An operator who edits the configuration and then requests its gates expects the current content of the
            // files.
            self.reloading.begin(&self.root, false);
        }
    }

    /// Without events a new file is seen at the next scan, which can be too late.
    fn tell_of_watch(&mut self, path: &str) {
        let code = Code::ManifestsNotWatched;
        let finding = self.scanner.trouble().map(|why| Finding {
            incident: None,
            code,
            severity: code.severity(),
            message: code.say(&[("path", path), ("why", why)]),
            at: Vec::new(),
        });
        match &finding {
            Some(finding) => self.tell_once("the watch", code, finding.message.clone()),
            None => self.untell("the watch"),
        }
        self.state.set_findings("watch", finding.as_slice());
    }

    /// Makes no new plan if nothing has changed in the directory.
    fn publish_plan(&self) {
        let plan = self.state.shared_plan();
        self.plans.send_if_modified(|known| {
            let is_new = !Arc::ptr_eq(known, &plan);
            *known = plan;
            is_new
        });
    }

    /// Checks which cluster the node belongs to. Nothing changes if that cannot be read, or if the directory is
    /// missing: RKE2's data may be on a disk that is not mounted.
    pub(super) fn look_at_cluster(&mut self) {
        if !self.is_directory_read() {
            return;
        }
        let identity = platform::identity(&self.layout).ok();
        if let Some(event) = identity.and_then(|identity| self.state.set_cluster(identity)) {
            journal::write_event(&event);
        }
    }

    /// Whether RKE2 is stopped on a server that has its own datastore. The datastore may be replaced then.
    pub(super) fn cluster_may_change(&self) -> bool {
        let ledger = self.state.ledger();
        let has_datastore = ledger.datastore.is_some() || ledger.datastore_removed;
        has_datastore && self.state.observation().api.unreachable.is_some()
    }

    fn is_directory_read(&self) -> bool {
        let states = ["the directory", "the missing directory"];
        !states.iter().any(|state| self.told.contains(*state))
    }

    fn scan_part(&mut self, limits: &manifest::ReadLimits, rescan: Duration, path: &str) {
        match self.scanner.scan(limits, rescan, self.clock.now()) {
            ScanOutcome::Directory(directory) => {
                let directory = self.state.keep_unread(directory);
                self.flight.scanned(&directory, self.clock.now());
                self.state.take_kept(directory);
                self.publish_plan();
                self.untell("the directory");
                self.untell("the missing directory");
                self.look_at_cluster();
            }
            ScanOutcome::Missing => {
                self.flight.scanned(&Directory::default(), self.clock.now());
                self.state.take_missing();
                let line = Code::DirectoryMissing.say(&[("path", path)]);
                self.untell("the directory");
                self.tell_once("the missing directory", Code::DirectoryMissing, line);
            }
            ScanOutcome::Unreadable(error) => {
                let code = Code::ManifestsUnreadable;
                let line = code.say(&[("path", path), ("error", &error)]);
                self.state.keep_directory(path, &error, self.clock.now());
                self.untell("the missing directory");
                self.tell_once("the directory", code, line);
            }
        }
    }
}
