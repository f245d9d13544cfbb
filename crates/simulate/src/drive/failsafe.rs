//! The fail-safe: while Windrow cannot run, it lifts what may be lifted and lays down that it did.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_decide::{Manual, Mark, OnFailure, OrderError};
use windrow_model::manifest::{FileContent, ManifestPath, ObjectRef};
use windrow_model::reasons::Code;

use super::Drive;

/// How long Windrow cannot run, at most: it is tried again every ten minutes.
const FAILS: Duration = Duration::from_secs(10 * 60);
/// After how long at most what the changed file waits for comes.
const COMES: Duration = Duration::from_secs(20 * 60);
/// A file that Windrow has marked and not read yet.
const MARKED: &str = "marked.yaml";

/// What the fail-safe lays down of a marker that it removed: the release counts for the held content.
#[derive(Debug, Clone)]
pub(super) struct ReleaseRequest {
    file: ManifestPath,
    digest: SmolStr,
    /// Could something not be read when it was last tried? Then it stays.
    pub(super) is_late: bool,
}

impl Drive<'_> {
    /// Windrow cannot run for a while, and the fail-safe lifts the holds that do no harm. Now and then Windrow ends just after it has marked a
    /// new file, which is written again before it runs.
    pub(super) fn fail_safe(&mut self, who: usize, now: Timestamp) {
        let until = now + self.more.up_to(FAILS);
        self.record_fault(who, &format!("Windrow cannot run until {until}"));
        // What the file waits for would be gone with a datastore.
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
            // It counts for what lies there now.
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

    /// Is there a hold that would do harm if it went, and whose marker may go?
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

    /// The daemon takes what the fail-safe laid down, before each decision.
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
            // One whose file is gone or has changed is dropped. One marker hides every file of its name.
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

/// What the fail-safe lays down of a marker. Nothing is laid down of content that Windrow had not read.
fn request(mark: &Mark) -> Option<ReleaseRequest> {
    let is_read = !mark.digest.is_empty();
    is_read.then(|| ReleaseRequest {
        file: mark.file.clone(),
        digest: mark.digest.clone(),
        is_late: false,
    })
}
