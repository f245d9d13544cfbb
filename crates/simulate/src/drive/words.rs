//! The oracle: are Windrow's statements true, and would a new process make the same ones?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use windrow_decide::{Action, HeldFile, MarkerTrouble, Phase, StagingStatus, Status};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;
use windrow_plan::PlanFile;

use super::oracle::{JudgedServer, Oracle};
use super::truth::Truth;
use super::{Drive, ROUNDS};
use crate::watch::Watch;

/// Codes of files that are held for their own content, or for their marker: nothing in the cluster ends these holds.
const WAITS_FOR_NO_NEED: [Code; 5] = [
    Code::HeldRefused,
    Code::MarkerStays,
    Code::Provisional,
    Code::SameBaseName,
    Code::SpecialFile,
];

impl Oracle {
    /// Is the status true? It is judged when Windrow has nothing more to do: then the disk matches its decisions.
    pub(super) fn judge_status(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        status: &Status,
        now: Timestamp,
    ) {
        // Then the content of the directory is unknown.
        if server.reads_fail {
            return;
        }
        let staging = &status.staging;
        let knows = server.is_current && server.is_up;
        self.judge_markers(server, staging);
        if !server.is_told {
            return;
        }
        self.judge_addons(truth, server, staging, knows);
        self.judge_settled(truth, server, staging, knows);
        self.judge_times(truth, server, staging, now);
        if knows && !server.is_probed {
            self.judge_step(truth, server, status);
        }
    }

    /// Held files are hidden, and no others.
    fn judge_markers(&mut self, server: &JudgedServer<'_>, staging: &StagingStatus) {
        let hidden: BTreeSet<&str> = server.disk.hidden().collect();
        let is_hidden = |file: &ManifestPath| hidden.contains(file.name().as_str());
        let is_there = |path: &ManifestPath| {
            let below = format!("{path}/");
            let mut paths = server.disk.iter().map(|(path, _)| path);
            // An unreadable directory is listed, too.
            server.disk.get(path).is_some() || paths.any(|other| other.starts_with(&below))
        };
        for file in lists(staging, false).into_keys() {
            if !is_there(file) {
                self.untrue.insert(format!("{file} is there: it is gone"));
            }
        }
        self.judge_marks(server, staging);
        for held in &staging.held {
            if !is_hidden(&held.file) {
                let file = &held.file;
                self.untrue
                    .insert(format!("{file} is held: nothing hides it"));
            }
        }
        // Without its ledger and the marker it does not know of the hold.
        for file in self.by_hand.iter().filter(|_| server.has_ledger) {
            let fails = server.troubles.contains_key(&file.name());
            // The hold counts for the name, even if its file was moved.
            let is_there = server.disk.namesakes(&file.name()).next().is_some();
            if is_there && !is_hidden(file) && !fails {
                self.untrue
                    .insert(format!("{file} is held by hand: nothing hides it"));
            }
        }
        let let_through = staging.released.iter().chain(&staging.applied);
        for file in let_through.map(|file| &file.file) {
            let trouble = server.troubles.get(&file.name());
            let stays = matches!(trouble, Some(MarkerTrouble::NotMade(_)));
            // The marker of another file that has the same name: one of them was applied before the other came.
            let is_applied = staging.applied.iter().any(|one| one.file == *file);
            let mut held = staging.held.iter();
            let shares = is_applied && held.any(|held| held.file.name() == file.name());
            if is_hidden(file) && !stays && !shares {
                self.untrue
                    .insert(format!("{file} is let through: a marker hides it"));
            }
        }
    }

    /// Windrow's markers describe the content that they hide correctly.
    fn judge_marks(&mut self, server: &JudgedServer<'_>, staging: &StagingStatus) {
        let files = &server.plan.files;
        let marks = server.disk.iter().filter_map(|(_, entry)| entry.mark());
        let held = marks.filter(|mark| staging.held.iter().any(|held| held.file == mark.file));
        for mark in held.filter(|mark| !server.troubles.contains_key(&mark.file.name())) {
            let file = files.iter().find(|file| file.path == mark.file);
            if file.is_some_and(|file| file.digest != mark.digest) {
                let file = &mark.file;
                self.untrue.insert(format!(
                    "{file} is hidden: its marker is of another content"
                ));
            }
        }
    }

    /// The status of each file matches RKE2's Addons and the cluster's objects.
    fn judge_addons(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        staging: &StagingStatus,
        knows: bool,
    ) {
        let plan = server.plan;
        for applied in &staging.applied {
            let file = &applied.file;
            if !truth.has_addon(file) {
                self.untrue
                    .insert(format!("{file} is applied: RKE2 never took it"));
            }
        }
        if !knows {
            return;
        }
        let has_applied = |path: &ManifestPath| {
            let mut files = plan.files.iter().filter(|file| file.path == *path);
            files.any(|file| truth.has_applied(file))
        };
        let released = staging.released.iter().map(|one| &one.file);
        let failed = staging.failed.iter().map(|one| &one.file);
        for file in released.chain(failed).filter(|file| has_applied(file)) {
            self.untrue
                .insert(format!("{file} is not applied yet: RKE2 took it"));
        }
        for failed in &staging.failed {
            if truth.failed_with_other(&failed.file) {
                let file = &failed.file;
                self.untrue
                    .insert(format!("{file} failed: that was another file of its Addon"));
            }
            let file = plan.files.iter().find(|file| file.path == failed.file);
            let seen = file.map(|file| (file.path.clone(), file.digest.clone()));
            let seen = seen.and_then(|seen| self.first_seen.get(&seen));
            // A new list contains old failures, which may appear new if the clock was set.
            let is_exact = |seen: &&Timestamp| server.is_on_time || **seen > server.listed;
            let seen = seen.filter(is_exact);
            if seen.is_some_and(|seen| truth.failed_at(&failed.file) < Some(*seen)) {
                let file = &failed.file;
                self.untrue
                    .insert(format!("{file} failed: that was another content"));
            }
        }
        for held in &staging.held {
            let path = &held.file;
            let file = plan.files.iter().find(|file| file.path == *path);
            let lacks = file.into_iter().flat_map(|file| file.requirements());
            let lacks: Vec<_> = lacks
                .filter(|one| truth.lacks(one, server.view()))
                .collect();
            if lacks.is_empty() && !held.blockers.is_empty() {
                self.untrue
                    .insert(format!("{path} waits: all that it needs is there"));
            }
            // Others end by a deadline, or are met in the pass that applies the file.
            let kept = lacks.iter().filter(|one| one.harms() && !one.at_once);
            let kept: BTreeSet<_> = kept.map(|one| one.need).collect();
            let waits = held.waits() && !WAITS_FOR_NO_NEED.contains(&held.code);
            if waits && held.blockers.len() < kept.len().max(1) {
                self.untrue
                    .insert(format!("{path} waits: not all that it waits for is said"));
            }
        }
    }

    /// Everything is settled when there is nothing left to do, and only then.
    fn judge_settled(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        staging: &StagingStatus,
        knows: bool,
    ) {
        let hidden: BTreeSet<&str> = server.disk.hidden().collect();
        let unhidden = || {
            let ours = server.plan.files.iter();
            let ours = ours.filter(|file| file.owner.is_none());
            ours.filter(|file| !hidden.contains(file.path.name().as_str()))
        };
        if staging.settled && server.is_current && !server.is_up {
            let what = "all is settled: kube-apiserver does not answer";
            self.untrue.insert(what.to_owned());
        }
        let mut lacks = unhidden().filter(|file| !truth.has_addon(&file.path));
        if staging.settled
            && let Some(file) = lacks.next()
        {
            let file = &file.path;
            self.untrue
                .insert(format!("all is settled: RKE2 never took {file}"));
        }
        if !knows {
            return;
        }
        let lacks = unhidden().filter(|file| !truth.is_overtaken(file));
        for file in lacks.filter(|_| staging.settled) {
            let (path, digest) = (&file.path, &file.digest);
            if !self.taken.contains(&(path.clone(), digest.clone())) {
                self.untrue
                    .insert(format!("all is settled: RKE2 never took what is in {path}"));
            }
        }
        let is_done = staging.released.is_empty()
            && staging.failed.is_empty()
            && staging.not_held.is_empty()
            && !staging.held.iter().any(HeldFile::waits);
        if staging.settled && staging.held.iter().any(HeldFile::waits) {
            let what = "all is settled: a file waits";
            self.untrue.insert(what.to_owned());
        }
        if is_done && !staging.settled {
            let what = "not all is settled: there is nothing left to do";
            self.untrue.insert(what.to_owned());
        }
    }
}

impl Oracle {
    /// The step is the staging of manifests as long as one of them waits, fails or is to be applied, and no longer.
    fn judge_step(&mut self, truth: &Truth<'_>, server: &JudgedServer<'_>, status: &Status) {
        let staging = &status.staging;
        let files = &server.plan.files;
        // RKE2 has the objects of another file of the same Addon, and applies this one when it is written again.
        let is_overtaken = |path: &ManifestPath| {
            let mut others = files.iter().filter(|other| other.path != *path);
            // It may have been moved since.
            let has = |other: &PlanFile| truth.is_last_applied(other) || truth.has_applied(other);
            others.any(|other| other.addon == path.addon() && has(other))
        };
        let is_left = staging.released.iter().any(|one| !is_overtaken(&one.file))
            || !staging.failed.is_empty()
            || !staging.not_held.is_empty()
            || staging.held.iter().any(HeldFile::waits);
        let step = if is_left {
            Phase::Staging
        } else {
            Phase::Staged
        };
        if status.phase != step {
            let said = status.phase;
            self.untrue
                .insert(format!("the step is {said:?}: it is {step:?}"));
        }
    }
}

impl Drive<'_> {
    /// At the end: a new process of Windrow, with the same disk and cluster, has nothing to do and makes the same statements.
    pub(super) fn judge_restarts(&mut self, now: Timestamp) {
        for who in 0..self.daemons.len() {
            let daemon = &mut self.daemons[who];
            let Some(before) = daemon.status() else {
                continue;
            };
            // A new process would have no answer either.
            if daemon.mute.is_some() {
                continue;
            }
            let at = daemon.wall(now);
            let clock_was_set = daemon.clock_was_set;
            let saved = daemon.enter_boot(Arc::clone(&daemon.saved), now);
            let mut state = self.known.states[who].restarted(saved, at);
            state.take_directory(self.disks[who].look(None));
            let mut watch = Watch::for_server(who);
            for _ in 0..ROUNDS {
                let events = watch.poll(self.node.cluster(), &state.interests());
                if events.is_empty() {
                    break;
                }
                for event in events {
                    state.take_event(event, at);
                }
            }
            let decision = state.decide(at);
            let untrue = &mut self.daemons[who].oracle.untrue;
            for action in &decision.actions {
                if let Action::Hold { path, .. } | Action::Lift { path } = action {
                    untrue.insert(format!("nothing is left to do: a restart changes {path}"));
                }
            }
            let (before, after) = (&before.staging, &decision.status.staging);
            // Failures have the cluster's time. If the clock was set, Windrow cannot tell whether they were before a release.
            let lists = |staging| lists(staging, clock_was_set);
            let has_failed = !before.failed.is_empty() || !after.failed.is_empty();
            let settles = before.settled == after.settled || (clock_was_set && has_failed);
            if lists(before) != lists(after) || !settles {
                untrue.insert(format!(
                    "a restart changes nothing: {:?} were {:?}",
                    lists(after),
                    lists(before)
                ));
            }
        }
    }
}

/// The list of each file.
fn lists(staging: &StagingStatus, clock_was_set: bool) -> BTreeMap<&ManifestPath, &'static str> {
    let failed = if clock_was_set { "released" } else { "failed" };
    let mut lists = BTreeMap::new();
    lists.extend(staging.held.iter().map(|one| (&one.file, "held")));
    lists.extend(staging.not_held.iter().map(|one| (&one.file, "not held")));
    lists.extend(staging.released.iter().map(|one| (&one.file, "released")));
    lists.extend(staging.applied.iter().map(|one| (&one.file, "applied")));
    lists.extend(staging.failed.iter().map(|one| (&one.file, failed)));
    lists
}
