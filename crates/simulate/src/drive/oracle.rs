//! The oracle: was every file that RKE2 may read released in time?
//!
//! It judges in every build, by the content of the disk and of the simulated cluster. Windrow's events, decisions and records do
//! not count, except for the reason that it gives for a release.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use smol_str::SmolStr;
use windrow_decide::{
    Action, Cause, FileStage, Ledger, Mark, MarkerTrouble, OnFailure, StagingState,
};
use windrow_model::manifest::{BaseName, ManifestPath, MarkerPath};
use windrow_model::reasons::Code;
use windrow_plan::{Plan, PlanFile, Requirement, SatisfiedBy, rke2};

use super::reports::Reports;
use super::truth::{DirectoryView, Truth, brings_own_kind};
use super::waits::Waits;
use super::written::Unwritten;
use crate::files::{SimulatedDirectory, base_name};
use crate::run::FileRelease;

/// How long a file may be gone before a marker whose removal would do harm is removed, too.
const RETURN_GRACE: SignedDuration = SignedDuration::from_mins(10);

/// The oracle's memory of one server's directory.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// The content of every file that RKE2 may read, by path. A file that is gone stays: a release is permanent.
    pub(super) let_through: BTreeMap<ManifestPath, SmolStr>,
    /// Files whose release was right when it was decided, and whose marker still exists: a disk may take its time. By content.
    pub(super) granted: BTreeMap<ManifestPath, SmolStr>,
    /// Permanently released files, which do not rely on the files that are applied with them. By content.
    pub(super) for_good: BTreeMap<ManifestPath, SmolStr>,
    /// Files that rely on files that RKE2 applies before them, by content.
    pub(super) relied: BTreeMap<ManifestPath, SmolStr>,
    /// The content of each file that a user last released.
    pub(super) let_go: BTreeMap<ManifestPath, SmolStr>,
    /// When the ledger was last destroyed.
    pub(super) forgot_at: Option<Timestamp>,
    pub(super) by_hand: BTreeSet<ManifestPath>,
    /// When each content of a file first appeared.
    pub(super) first_seen: BTreeMap<(ManifestPath, SmolStr), Timestamp>,
    pub(super) waits: Waits,
    pub(super) boot_began: Option<Timestamp>,
    /// When kube-apiserver first answered here in this boot.
    pub(super) up_since: Option<Timestamp>,
    /// The content of each file that RKE2 applied, independent of its exact bytes.
    pub(super) taken: BTreeSet<(ManifestPath, SmolStr)>,
    pub(super) releases: Vec<FileRelease>,
    /// The wrong statements of Windrow, without duplicates.
    pub(super) untrue: BTreeSet<String>,
    /// How many passes of RKE2 were judged.
    pub(super) passes: u64,
    /// The cluster is a different one, and Windrow does not know yet: earlier releases do not count.
    pub(super) is_lost: bool,
    pub(super) reports: Reports,
    /// When Windrow first read each content of a file.
    pub(super) read_at: BTreeMap<(ManifestPath, SmolStr), Timestamp>,
    pub(super) gone_since: BTreeMap<ManifestPath, Timestamp>,
    pub(super) unwritten: Unwritten,
    /// When the disk last rejected the marker of a name.
    pub(super) not_made: BTreeMap<BaseName, Timestamp>,
}

pub(super) struct JudgedServer<'a> {
    pub(super) number: usize,
    /// The plan for the real content of its directory, including files that Windrow could not read.
    pub(super) plan: &'a Plan,
    /// Does Windrow know its cluster, and the content of each file?
    pub(super) is_told: bool,
    /// Do its reads fail now, and was nothing read since?
    pub(super) reads_fail: bool,
    /// Could the directory itself not be read at the last scan?
    pub(super) is_directory_unread: bool,
    pub(super) has_looked: bool,
    pub(super) unread: &'a BTreeSet<ManifestPath>,
    /// Since when it gets no answer any more; `None` if it does.
    pub(super) is_deaf_since: Option<Timestamp>,
    pub(super) wall: Timestamp,
    pub(super) before: &'a Ledger,
    /// Has Windrow received all events?
    pub(super) is_current: bool,
    /// Since when has it received each change immediately?
    pub(super) listed: Timestamp,
    /// Does kube-apiserver answer there?
    pub(super) is_up: bool,
    /// Is the ledger on the disk the one in force?
    pub(super) is_saved: bool,
    /// Could the ledger be read?
    pub(super) has_ledger: bool,
    /// Are its times those of the cluster?
    pub(super) is_on_time: bool,
    /// Is the node probed? Then the step is that of the whole node.
    pub(super) is_probed: bool,
    pub(super) disk: &'a SimulatedDirectory,
    /// RKE2's view of the directory itself, while its scan of the subdirectories is in progress.
    pub(super) looking: Option<&'a SimulatedDirectory>,
    pub(super) state: &'a StagingState,
    /// Markers that the disk did not accept.
    pub(super) troubles: &'a BTreeMap<BaseName, MarkerTrouble>,
}

impl<'a> JudgedServer<'a> {
    pub(super) fn view(&self) -> DirectoryView<'a> {
        DirectoryView {
            disk: self.disk,
            state: self.state,
            plan: self.plan,
            wall: self.wall,
            looking: self.looking,
            is_fresh: self.is_current && self.is_up,
        }
    }

    /// The present place of the file with the content for which a marker was made: a user may have moved it.
    fn file_of(&self, mark: &Mark) -> Option<&'a PlanFile> {
        let is_there = self.disk.get(&mark.file).is_some();
        let name = mark.file.name();
        let mut files = self.plan.files.iter();
        files.find(|file| {
            let is_its = file.path == mark.file || !is_there && file.name == name;
            is_its && file.digest == mark.digest
        })
    }
}

impl Oracle {
    /// Checks a decision before it is executed.
    pub(super) fn judge_decision(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        actions: &[Action],
        now: Timestamp,
    ) {
        let (disk, state) = (server.disk, server.state);
        if server.is_up {
            self.up_since.get_or_insert(now);
        }
        self.follow_moved(server);
        let (plan, ledger) = (server.plan, state.ledger());
        let has_answered = state.observation().api.first_reachable.is_some();
        self.waits
            .note(&plan.files, disk, server.is_up && has_answered, now);
        for file in &plan.files {
            // Other content starts over, regardless of the past.
            let is_other = |known: &SmolStr| *known != file.digest;
            if self.for_good.get(&file.path).is_some_and(is_other) {
                self.for_good.remove(&file.path);
            }
            if self.let_go.get(&file.path).is_some_and(is_other) {
                let dropped = self.let_go.remove_entry(&file.path);
                self.unwritten.let_go.extend(dropped);
            }
            let seen = (file.path.clone(), file.digest.clone());
            if truth.has_applied(file) && !self.taken.contains(&seen) {
                self.taken.insert(seen.clone());
            }
            if server.has_looked && !server.unread.contains(&file.path) {
                self.read_at.entry(seen.clone()).or_insert(now);
            }
            self.first_seen.entry(seen).or_insert(now);
            // A file that is held because of another file of its name is decided again together with that one.
            let entry = ledger.files.get(&file.path);
            let state = entry.map(|entry| &entry.state);
            if matches!(state, Some(FileStage::Held { code, .. }) if *code == Code::SameBaseName) {
                self.for_good.remove(&file.path);
            }
            // A file that is held again is judged again when it is released.
            if server.has_ledger && matches!(state, Some(FileStage::Held { .. })) {
                let dropped = self.granted.remove_entry(&file.path);
                self.unwritten.granted.extend(dropped);
            }
        }
        // Windrow may forget content that is gone, and then knows nothing about it when it comes back.
        self.read_at.retain(|(path, digest), _| {
            let mut files = plan.files.iter();
            match files.find(|file| file.path == *path) {
                Some(file) => file.digest == *digest,
                None => ledger
                    .files
                    .get(path)
                    .is_some_and(|entry| entry.digest == *digest),
            }
        });
        let refused = server.troubles.iter();
        let refused = refused.filter(|(_, trouble)| matches!(trouble, MarkerTrouble::NotMade(_)));
        self.not_made
            .extend(refused.map(|(name, _)| (name.clone(), now)));
        self.note_gone(server, now);
        self.judge_escaped(truth, server);
        for action in actions {
            self.judge_action(truth, server, action, now);
        }
        for file in plan.files.iter().filter(|file| has_yielded(server, file)) {
            self.judge_wait(truth, server, file, now);
        }
        for file in plan.files.iter().filter(|file| file.owner.is_none()) {
            let entry = ledger.files.get(&file.path);
            if let Some(FileStage::Released { cause }) = entry.map(|entry| &entry.state)
                && (*cause != Cause::ByHand || self.is_let_go(file))
                && self.granted.get(&file.path) != Some(&file.digest)
                && disk.is_hidden(&file.path)
                && truth.unmet(file, Some(*cause), server.view()).is_empty()
            {
                self.granted.insert(file.path.clone(), file.digest.clone());
            }
        }
    }

    fn judge_action(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        action: &Action,
        now: Timestamp,
    ) {
        let (Action::Hold { path, .. } | Action::Lift { path }) = action else {
            return;
        };
        if server.disk.is_foreign(path) {
            self.untrue
                .insert(format!("{path} is Windrow's: somebody else made it"));
        }
        let Action::Hold { mark, .. } = action else {
            return self.judge_goes(truth, server, path, now);
        };
        self.judge_hold_again(truth, server, mark);
        self.judge_once(truth, server, path, mark);
        if rke2::owner(&mark.file).is_some() {
            self.untrue
                .insert(format!("{} is Windrow's to hold: it is not", mark.file));
        }
        let again = self.for_good.get(&mark.file) == Some(&mark.digest);
        if again && server.has_ledger && !on_purpose(mark.code) {
            self.untrue
                .insert(format!("{} is held again: {}", mark.file, mark.why));
        }
        let is_let_go = self.let_go.get(&mark.file) == Some(&mark.digest);
        if is_let_go && server.has_ledger && !on_purpose(mark.code) {
            let file = &mark.file;
            self.untrue
                .insert(format!("{file} is held again: a person let it go"));
        }
        // A file that a user holds starts over: a user may release the name while a file of it is gone.
        if mark.code == Code::HeldByHand {
            let name = mark.file.name();
            self.for_good.retain(|file, _| file.name() != name);
            let let_go = std::mem::take(&mut self.let_go).into_iter();
            let (held, kept) = let_go.partition(|(file, _)| file.name() == name);
            self.let_go = kept;
            self.unwritten.let_go.extend::<BTreeMap<_, _>>(held);
        }
    }

    fn judge_goes(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        marker: &MarkerPath,
        now: Timestamp,
    ) {
        let name = marker.hides();
        if let Some(file) = self.by_hand.iter().find(|file| file.name() == name) {
            self.untrue
                .insert(format!("{marker} may go: a person holds {file}"));
        }
        let Some(mark) = server.disk.get(marker).and_then(|entry| entry.mark()) else {
            return;
        };
        let gone = self.gone_since.get(&mark.file);
        if mark.on_failure == OnFailure::Keep
            && !matches!(mark.code, Code::HeldAppliedOnce | Code::HeldByHand)
            && gone.is_some_and(|gone| now.duration_since(*gone) < RETURN_GRACE)
            && !server
                .disk
                .manifests()
                .any(|(path, _)| base_name(path) == name.as_str())
            // The marker may be left from a release that a full disk interrupted.
            && !self.is_content_let_through(&mark.file, &mark.digest)
        {
            let file = &mark.file;
            self.untrue
                .insert(format!("{marker} may go: {file} is gone for a moment only"));
        }
        let file = server.file_of(mark);
        let is_once = mark.code == Code::HeldAppliedOnce;
        let stays = |file: &&PlanFile| is_once && !self.is_let_go(file) && truth.has_applied(file);
        if let Some(file) = file.filter(stays) {
            let file = &file.path;
            self.untrue
                .insert(format!("{marker} may go: {file} was applied once"));
        }
    }

    /// The marker of a file that is applied once says so as long as the cluster has it: its release would apply the file again.
    fn judge_once(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        marker: &MarkerPath,
        mark: &Mark,
    ) {
        let before = server.disk.get(marker).and_then(|entry| entry.mark());
        let once =
            |mark: &Mark| [Code::HeldAppliedOnce, Code::OnceUnconfirmed].contains(&mark.code);
        // The file may have been moved since this marker was written.
        let of = |mark: &Mark| server.file_of(mark).map(|file| &file.path);
        let was_once = before.filter(|before| {
            once(before) && before.digest == mark.digest && of(before) == Some(&mark.file)
        });
        let is_let_go = self.let_go.get(&mark.file) == Some(&mark.digest);
        if was_once.is_some_and(|before| truth.has_taken(&before.file))
            && !once(mark)
            && mark.code != Code::HeldByHand
            && !is_let_go
        {
            let (file, code) = (&mark.file, mark.code);
            self.untrue
                .insert(format!("{file} is held for {code:?}: it was applied once"));
        }
    }

    /// A file that was released because RKE2 applies its requirements first is not held again after RKE2 has applied those: RKE2
    /// is about to reach the file.
    fn judge_hold_again(&mut self, truth: &Truth<'_>, server: &JudgedServer<'_>, mark: &Mark) {
        if self.relied.get(&mark.file) != Some(&mark.digest) || on_purpose(mark.code) {
            return;
        }
        let plan = server.plan;
        let Some(file) = plan.files.iter().find(|file| file.path == mark.file) else {
            return;
        };
        let is_under_way = |requirement: &Requirement| match requirement.satisfied_by {
            SatisfiedBy::File { file, .. } => {
                let bringer = &plan.files[file];
                truth.has_applied(bringer)
                    && server.view().lets_bringer_through(requirement)
                    && !server.disk.is_hidden(&bringer.path)
            }
            _ => false,
        };
        let mut lacks = file
            .requirements()
            .filter(|one| truth.lacks(one, server.view()));
        let knows = server.is_current && server.is_up;
        // After a failure, Windrow may wait for the file's requirements.
        let seen = self
            .first_seen
            .get(&(mark.file.clone(), mark.digest.clone()));
        let has_failed = seen.is_some_and(|seen| truth.failed_at(&mark.file) >= Some(*seen));
        if knows && !has_failed && lacks.all(is_under_way) {
            let file = &file.path;
            self.untrue
                .insert(format!("{file} is held again: RKE2 is on its way to it"));
        }
    }

    /// When a marker is removed, does the ledger record the release of its file?
    pub(super) fn judge_lift(
        &mut self,
        marker: &MarkerPath,
        plan: &Plan,
        state: &StagingState,
        saved: &Ledger,
    ) {
        let name = marker.hides();
        for file in plan.files.iter().filter(|file| file.name == name) {
            let in_force = state.ledger().files.get(&file.path);
            // An order of a user is on the disk until it has been executed.
            if in_force.is_some_and(|entry| entry.manual.is_some()) {
                continue;
            }
            let entry = saved.files.get(&file.path);
            let is_held = entry.is_none_or(|entry| {
                entry.digest != file.digest || matches!(entry.state, FileStage::Held { .. })
            });
            if file.owner.is_none() && is_held {
                let file = &file.path;
                self.untrue.insert(format!(
                    "{file} is let through: the ledger on the disk does not say so"
                ));
            }
        }
    }

    pub(super) fn has_read(&self, file: &PlanFile) -> bool {
        let content = (file.path.clone(), file.digest.clone());
        self.read_at.contains_key(&content)
    }

    fn is_let_go(&self, file: &PlanFile) -> bool {
        self.let_go.get(&file.path) == Some(&file.digest)
    }

    /// Could a file not be read, and does the ledger not have its content? RKE2 may apply it until Windrow reads it.
    pub(super) fn is_unknown(&self, server: &JudgedServer<'_>, file: &PlanFile) -> bool {
        let entry = server.state.ledger().files.get(&file.path);
        let is_unread = !self.has_read(file)
            || server.unread.contains(&file.path)
            || server.is_directory_unread;
        is_unread && entry.is_none_or(|entry| entry.digest != file.digest)
    }

    pub(super) fn held_by_hand(&self) -> impl Iterator<Item = &ManifestPath> {
        self.by_hand.iter()
    }

    /// A user releases a name: a hold by hand counts for all files of it.
    pub(super) fn forget_held_by_hand(&mut self, name: &BaseName) {
        self.by_hand.retain(|file| file.name() != *name);
    }

    pub(super) fn restart(&mut self, now: Timestamp) {
        self.waits.restart(now);
        self.relied.clear();
        self.recall_written();
    }

    pub(super) fn begin_boot(&mut self, now: Timestamp) {
        (self.boot_began, self.up_since) = (Some(now), None);
        self.waits.begin_boot();
    }

    pub(super) fn forget(&mut self, now: Timestamp) {
        self.forgot_at = Some(now);
        self.waits.forget();
        self.for_good.clear();
        self.let_go.clear();
        self.unwritten = Unwritten::default();
    }

    /// A process or a marker is gone: then only the ledger on the disk and the markers tell which files a user holds.
    pub(super) fn forget_unwritten(&mut self, disk: &SimulatedDirectory, saved: &Ledger) {
        let written = |file: ManifestPath| {
            let entry = saved.files.get(&file);
            let manual = entry.and_then(|entry| entry.manual.as_ref());
            if manual.is_some_and(|manual| manual.hold) {
                return Some(file);
            }
            // One marker hides every file of its name, and names one of them.
            let mut marks = disk.iter().filter_map(|(_, marker)| marker.mark());
            let by_hand =
                marks.find(|mark| mark.code == Code::HeldByHand && mark.file.name() == file.name());
            by_hand.map(|mark| mark.file.clone())
        };
        let by_hand = std::mem::take(&mut self.by_hand);
        self.by_hand = by_hand.into_iter().filter_map(written).collect();
    }

    /// Checks the directory after a decision was executed: which files may RKE2 read that it could not read before?
    pub(super) fn judge_releases(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        now: Timestamp,
    ) {
        // Releases in another cluster are judged when Windrow learns of the change.
        if self.is_lost {
            return;
        }
        let (disk, state) = (server.disk, server.state);
        let (plan, ledger) = (server.plan, state.ledger());
        let hidden: Vec<&str> = disk.hidden().collect();
        for file in plan.files.iter().filter(|file| file.owner.is_none()) {
            if disk.get(&file.path).is_none() {
                continue;
            }
            let entry = ledger.files.get(&file.path);
            if hidden.contains(&file.name.as_str()) {
                self.let_through.remove(&file.path);
                continue;
            }
            if self.let_through.get(&file.path) != Some(&file.digest)
                && self.is_unknown(server, file)
            {
                continue;
            }
            // Its marker was removed, and Windrow cannot scan the directory to restore it.
            let is_held = entry.is_some_and(|entry| {
                entry.digest == file.digest && matches!(entry.state, FileStage::Held { .. })
            });
            if server.is_directory_unread && is_held {
                continue;
            }
            // Windrow tried to hold it, and failed.
            let trouble = server.troubles.get(&file.name);
            if matches!(trouble, Some(MarkerTrouble::NotMade(_))) {
                continue;
            }
            let known = self
                .let_through
                .insert(file.path.clone(), file.digest.clone());
            let was_let_through = known.as_ref() == Some(&file.digest);
            let cause = entry.and_then(|entry| match entry.state {
                FileStage::Released { cause } | FileStage::Applied { cause } => Some(cause),
                FileStage::Held { .. } => None,
            });
            // The file that it relies on may be hidden or gone again: then it has to be held, too.
            let relies = entry.is_some_and(|entry| {
                let cause = Cause::SamePass;
                entry.state == FileStage::Released { cause }
            });
            match relies {
                true => self.relied.insert(file.path.clone(), file.digest.clone()),
                false => self.relied.remove(&file.path),
            };
            // A release is permanent, even if a process that could not read the ledger held the file in between.
            let was_for_good = self.for_good.get(&file.path) == Some(&file.digest);
            // Windrow may not have read the present content.
            let is_released =
                cause.is_some() && entry.is_some_and(|entry| entry.digest == file.digest);
            if is_released && !relies && server.is_saved {
                self.for_good.insert(file.path.clone(), file.digest.clone());
            }
            if was_let_through && !relies {
                continue;
            }
            // RKE2 has it: from before the ledger was lost, while Windrow did not run, or from another server.
            if truth.has_applied(file) {
                continue;
            }
            let view = DirectoryView {
                is_fresh: server.view().is_fresh && !was_let_through,
                ..server.view()
            };
            if file.refused.is_some()
                && matches!(cause, Some(Cause::Free | Cause::Met | Cause::SamePass))
            {
                let file = &file.path;
                self.untrue
                    .insert(format!("{file} may go: RKE2 refuses it"));
            }
            let is_granted =
                !relies && (was_for_good || self.granted.get(&file.path) == Some(&file.digest));
            let unmet = match is_granted {
                true => Vec::new(),
                // A file without a release has no reason at all.
                false => {
                    let counts = |cause: &Cause| *cause != Cause::ByHand || self.is_let_go(file);
                    truth.unmet(file, cause.filter(counts), view)
                }
            };
            if was_let_through && unmet.is_empty() {
                continue;
            }
            self.releases.push(FileRelease {
                at: now,
                file: file.path.clone(),
                cause,
                unmet,
                fails_first: file.requirements().any(|one| one.yields)
                    || brings_own_kind(disk, &file.path),
            });
        }
    }
}

/// Does a deadline release a file that was held before?
fn has_yielded(server: &JudgedServer<'_>, file: &PlanFile) -> bool {
    let state = |ledger: &Ledger| {
        let entry = ledger.files.get(&file.path);
        let entry = entry.filter(|entry| entry.digest == file.digest);
        entry.map(|entry| entry.state.clone())
    };
    let cause = Cause::Yielded;
    let (before, after) = (state(server.before), state(server.state.ledger()));
    after == Some(FileStage::Released { cause }) && before != after
}

/// Is a file held on purpose, or with another file of its name?
fn on_purpose(code: Code) -> bool {
    let codes = [
        Code::HeldByHand,
        Code::HeldAppliedOnce,
        Code::OnceUnconfirmed,
        Code::SameBaseName,
    ];
    codes.contains(&code)
}
