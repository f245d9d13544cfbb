//! The fail-safe: while Windrow cannot run, it removes markers if that does no harm, and records each removal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_decide::{Manual, Mark, OnFailure, OrderError};
use windrow_model::manifest::{FileContent, ManifestPath, ObjectRef};
use windrow_model::reasons::Code;

use super::Drive;

/// How long Windrow cannot run, at most: it is started again every ten minutes.
const FAILS: Duration = Duration::from_secs(10 * 60);
/// The latest time at which the requirements of the changed file are met.
const COMES: Duration = Duration::from_secs(20 * 60);
/// A file that Windrow has marked and not read yet.
const MARKED: &str = "marked.yaml";

/// The fail-safe's record of a marker that it removed: the release counts for the held content.
#[derive(Debug, Clone)]
pub(super) struct ReleaseRequest {
    file: ManifestPath,
    digest: SmolStr,
    /// Did the last attempt fail to read something? Then the record stays.
    pub(super) is_late: bool,
}

impl Drive<'_> {
    /// Windrow cannot run for a while, and the fail-safe ends the holds whose end does no harm. Now and then Windrow ends just
    /// after it has marked a new file, which is written again before Windrow runs.
    pub(super) fn fail_safe(&mut self, who: usize, now: Timestamp) {
        let until = now + self.more.up_to(FAILS);
        self.record_fault(who, &format!("Windrow cannot run until {until}"));
        // With a datastore, the requirements of the file would also be gone.
        let may_come = self.disks.len() == 1 && self.faults.replaced == 0;
        let is_marked = may_come && self.disks[who].get(MARKED).is_none();
        if is_marked && self.more.throw(2) {
            self.mark_a_file(who, now, until);
        }
        self.judge_fail_safe(who, now);
        let disk = &mut self.disks[who];
        let may_go = |mark: &Mark| mark.on_failure == OnFailure::Lift;
        let markers: Vec<(String, Mark)> = disk
            .iter()
            .filter_map(|(path, entry)| Some((path.to_owned(), entry.mark()?.clone())))
            .filter(|(_, mark)| may_go(mark))
            .collect();
        for (marker, mark) in markers {
            self.record_fault(who, &format!("the fail-safe removes {marker}"));
            self.disks[who].remove(&marker);
            let daemon = &mut self.daemons[who];
            // It counts for the present content.
            let files = daemon.true_plan.files.iter();
            let is_of = |digest: &SmolStr| mark.digest.is_empty() || *digest == mark.digest;
            let let_go = files.filter(|file| file.name == mark.file.name() && is_of(&file.digest));
            let let_go = let_go.map(|file| (file.path.clone(), file.digest.clone()));
            daemon.oracle.let_go.extend(let_go);
            daemon.requests.extend(request(&mark));
        }
        let daemon = &mut self.daemons[who];
        daemon
            .oracle
            .forget_unwritten(&self.disks[who], &daemon.saved);
        daemon.away = Some(until);
    }

    /// Is there a hold whose end would do harm, and whose marker may be removed?
    fn judge_fail_safe(&mut self, who: usize, now: Timestamp) {
        let daemon = &mut self.daemons[who];
        let plan = Arc::clone(&daemon.true_plan);
        let (oracle, truth, server) = daemon.judged(who, &self.node, &self.disks[who], now);
        let marks = server.disk.iter().filter_map(|(_, entry)| entry.mark());
        let may_go: Vec<&Mark> = marks
            .filter(|mark| mark.on_failure == OnFailure::Lift && mark.code != Code::Provisional)
            .collect();
        for file in &plan.files {
            let is_hidden_by = |mark: &&&Mark| mark.file == file.path && mark.digest == file.digest;
            let mut harms = file.requirements().filter(|one| one.harms());
            if may_go.iter().any(|mark| is_hidden_by(&mark))
                && harms.any(|one| truth.lacks(one, server.view()))
                && !oracle.is_let_through(file)
            {
                let path = &file.path;
                oracle.untrue.insert(format!(
                    "the fail-safe may lift the hold of {path}: that does harm"
                ));
            }
        }
    }

    fn mark_a_file(&mut self, who: usize, now: Timestamp, until: Timestamp) {
        let path = ManifestPath::from(MARKED);
        let map = |more: &str| {
            let text = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: marked\n  namespace: default\n{more}"
            );
            text.into_bytes()
        };
        let disk = &mut self.disks[who];
        let mark = Arc::new(Mark::provisional(&path, self.daemons[who].wall(now)));
        disk.hold(&path.marker(), &mark, now);
        disk.write(MARKED, map(""), now);
        let waits = map(
            "  annotations: {windrow.dev/depends-on: /namespaces/default/Secret/marked (exists)}\n",
        );
        let changes = now + self.more.up_to(until.duration_since(now).unsigned_abs());
        self.changes
            .add(changes, who, MARKED, Some(FileContent::Bytes(waits)));
        let secret = ObjectRef::namespaced("", "Secret", "default", "marked");
        let comes = FAILS + self.more.up_to(COMES);
        self.node.appears_after(comes, secret);
    }

    /// The daemon reads the records of the fail-safe before each decision.
    pub(super) fn take_requests(&mut self, who: usize, now: Timestamp) {
        let daemon = &mut self.daemons[who];
        let at = daemon.wall(now);
        for request in &mut daemon.requests {
            let ReleaseRequest { file, digest, .. } = request;
            let manual = Manual {
                hold: false,
                by: Manual::FAILSAFE.to_owned(),
                at,
                reason: "Windrow could not run".to_owned(),
            };
            let released = BTreeMap::from([(file.clone(), digest.to_string())]);
            let entered = daemon.state.hold_or_release(file, &released, manual, at);
            request.is_late = matches!(entered, Err(OrderError::NotNow(_)));
            // A record whose file is gone or has changed is dropped. One marker hides every file of its name.
            if matches!(entered, Err(OrderError::Refused(_))) {
                daemon.oracle.let_go.remove(&request.file);
            }
            if entered.is_ok() {
                let file = &request.file;
                let files = daemon.true_plan.files.iter();
                let let_go = files.filter(|other| other.name == file.name());
                let let_go = let_go.map(|other| (other.path.clone(), other.digest.clone()));
                daemon.oracle.let_go.extend(let_go);
            }
        }
    }
}

/// The fail-safe's record of a marker. It makes none for content that Windrow had not read.
fn request(mark: &Mark) -> Option<ReleaseRequest> {
    let is_read = !mark.digest.is_empty();
    is_read.then(|| ReleaseRequest {
        file: mark.file.clone(),
        digest: mark.digest.clone(),
        is_late: false,
    })
}
