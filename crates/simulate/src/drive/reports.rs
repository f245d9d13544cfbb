//! The oracle: is each event reported exactly once, and are the announcements of the status correct?
//!
//! Events must match the lists of the status, and deadlines the unmet requirements in the cluster. Windrow itself uses the ledger
//! for both: the oracle does not read it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_decide::{Event, HeldFile, Holder, StagingStatus};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;
use windrow_plan::rules::{OnDeadline, Tier};
use windrow_plan::{PlanFile, Requirement};

use super::oracle::{JudgedServer, Oracle};
use super::truth::Truth;
use super::waits::{Bounds, Longest, SLACK};

/// A released file is late when RKE2 has not applied it after this time.
const LATE: Duration = Duration::from_secs(5 * 60);

/// The list of the status that contains a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    Held,
    Released,
    Applied,
}

/// The events of a file since it entered its list.
#[derive(Debug, Clone)]
struct Reported {
    digest: SmolStr,
    listed: Listed,
    since: Timestamp,
    is_overdue: bool,
    is_gone: bool,
}

#[derive(Debug, Default)]
pub(super) struct Reports {
    files: BTreeMap<ManifestPath, Reported>,
    /// Since when the daemon has known all of its files without interruption.
    since: Option<Timestamp>,
}

impl Reports {
    /// The daemon has lost its ledger, or does not know its files: it may report everything again.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// A file was moved. The reports about a waiting file start again.
    pub(super) fn follow(&mut self, before: &ManifestPath, path: &ManifestPath) {
        let reported = self.files.get(before).cloned();
        if let Some(mut reported) = reported.filter(|reported| reported.listed != Listed::Held) {
            reported.is_gone = false;
            self.files.entry(path.clone()).or_insert(reported);
        }
    }

    /// The daemon dies between two actions: it may report again that a file has vanished, since its marker still exists.
    pub(super) fn die(&mut self) {
        self.files.retain(|_, reported| !reported.is_gone);
    }
}

/// The list of each file. A marker that the disk kept, or a foreign marker, hides the decision.
fn lists(staging: &StagingStatus) -> BTreeMap<&ManifestPath, Option<Listed>> {
    let of_held = |held: &HeldFile| match held.code {
        Code::MarkerStays | Code::Provisional => None,
        _ if held.by == Holder::Other => None,
        Code::HeldAppliedOnce => Some(Listed::Applied),
        _ => Some(Listed::Held),
    };
    let held = staging.held.iter().map(|file| (&file.file, of_held(file)));
    let listed = |list| move |file| (file, Some(list));
    let of_missing = |code: Code| match code {
        Code::HeldAppliedOnce => Listed::Applied,
        _ => Listed::Held,
    };
    let not_held = staging.not_held.iter();
    let not_held = not_held.map(|file| (&file.file, Some(of_missing(file.code))));
    let released = staging.released.iter().map(|file| &file.file);
    let failed = staging.failed.iter().map(|file| &file.file);
    let applied = staging.applied.iter().map(|file| &file.file);
    held.chain(not_held)
        .chain(released.chain(failed).map(listed(Listed::Released)))
        .chain(applied.map(listed(Listed::Applied)))
        .collect()
}

impl Oracle {
    /// Compares the events of a decision with its status.
    pub(super) fn judge_events(
        &mut self,
        server: &JudgedServer<'_>,
        events: &[Event],
        staging: &StagingStatus,
        now: Timestamp,
    ) {
        if !server.is_told || server.reads_fail {
            return self.reports.forget();
        }
        self.reports.since.get_or_insert(now);
        let lists = lists(staging);
        let of = |path: &ManifestPath| {
            let of_file = |event: &&Event| event.file.as_deref() == Some(path.as_str());
            events
                .iter()
                .filter(of_file)
                .map(|event| event.code)
                .collect::<Vec<Code>>()
        };
        let others = staging.held.iter().filter(|held| held.by == Holder::Other);
        let others: BTreeSet<&ManifestPath> = others.map(|held| &held.file).collect();
        for file in &server.plan.files {
            let path = &file.path;
            // After a foreign marker is gone, Windrow continues where it was.
            if others.contains(path) {
                continue;
            }
            let codes = of(path);
            let Some(Some(listed)) = lists.get(path).copied() else {
                self.reports.files.remove(path);
                continue;
            };
            let known = self.reports.files.get(path).cloned();
            let is_overdue = staging
                .held
                .iter()
                .any(|held| held.file == *path && held.overdue);
            if let Some(problem) = problem_of(file, known.as_ref(), listed, is_overdue, &codes) {
                self.untrue.insert(format!("{path} {problem}"));
            }
            let known = known.filter(|known| known.digest == file.digest && known.listed == listed);
            let reported = Reported {
                digest: file.digest.clone(),
                listed,
                since: known.as_ref().map_or(now, |known| known.since),
                // At first, the earlier reports are unknown.
                is_overdue: known.map_or(is_overdue, |known| known.is_overdue)
                    || codes.contains(&Code::Overdue),
                is_gone: false,
            };
            self.reports.files.insert(path.clone(), reported);
        }
        // A marker that the disk keeps counts as a change at the next scan.
        let stays = |path: &ManifestPath| server.troubles.contains_key(&path.name());
        self.reports.files.retain(|path, _| !stays(path));
        let is_there =
            |path: &ManifestPath| server.plan.files.iter().any(|file| file.path == *path);
        let untrue = &mut self.untrue;
        for (path, known) in &mut self.reports.files {
            if is_there(path) {
                continue;
            }
            let count = of(path)
                .iter()
                .filter(|code| **code == Code::Vanished)
                .count();
            let expected = usize::from(known.listed == Listed::Held && !known.is_gone);
            if count != expected {
                untrue.insert(format!("{path} has vanished: reported {count} times"));
            }
            known.is_gone = true;
        }
    }

    /// Are the announced times of the status correct?
    pub(super) fn judge_times(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        staging: &StagingStatus,
        now: Timestamp,
    ) {
        let knows = server.is_up && server.is_current && server.is_deaf_since.is_none();
        let Some(up) = self.waits.process.up.filter(|_| knows && server.is_on_time) else {
            return;
        };
        for held in &staging.held {
            if held
                .deadline
                .is_some_and(|deadline| deadline <= server.wall)
            {
                let path = &held.file;
                self.untrue
                    .insert(format!("{path} is held: its deadline is over"));
            }
            let mut files = server.plan.files.iter();
            let file = files.find(|file| file.path == held.file);
            if let Some(file) = file.filter(|_| waits_for_needs(held)) {
                self.judge_hold_times(truth, server, held, file, now);
            }
        }
        for released in &staging.released {
            let path = &released.file;
            let mut files = server.plan.files.iter();
            let Some(file) = files.find(|file| file.path == *path) else {
                continue;
            };
            let mut others = server.plan.files.iter().filter(|other| other.path != *path);
            if others.any(|other| other.addon == file.addon) {
                continue;
            }
            let Some(known) = self.reports.files.get(path) else {
                continue;
            };
            let began = self.waits.process.at.map_or(up, |began| began.max(up));
            let since = |from: Timestamp| now.duration_since(from.max(began)).unsigned_abs();
            let waited = since(known.since);
            // Files that were released before the records began may have been released for long.
            let is_since = Some(known.since) != self.reports.since;
            let most = since(if is_since { known.since } else { began });
            if released.late.is_some() && most + SLACK < LATE {
                self.untrue
                    .insert(format!("{path} is late: it was released {most:?} ago"));
            }
            if released.late.is_none() && waited > LATE + SLACK {
                self.untrue.insert(format!(
                    "{path} is not late: it was released {waited:?} ago"
                ));
            }
        }
    }

    /// Do the deadline and `overdue` match the missing requirements of the file?
    fn judge_hold_times(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        held: &HeldFile,
        file: &PlanFile,
        now: Timestamp,
    ) {
        let view = server.view();
        let staging = &server.state.settings().staging;
        let seen = (file.path.clone(), file.digest.clone());
        let first = self.first_seen.get(&seen).copied();
        let there = self.waits.there.get(&file.path).map(|(_, since)| *since);
        let there = there.max(self.reports.since);
        let earliest = [first, self.up_since, self.boot_began];
        let earliest = earliest.into_iter().flatten().max().unwrap_or(now);
        let answered = self.waits.answered_for_new(file);
        let latest = [there, self.waits.boot.up, self.waits.boot.at, answered];
        let latest = latest.into_iter().flatten().max().unwrap_or(now);
        let latest_end = |wait: Longest| self.waits.latest_end(file, latest, wait, staging) + SLACK;
        let lacks: Vec<&Requirement> = file
            .requirements()
            .filter(|requirement| truth.lacks(requirement, view))
            .collect();
        let keeps = |requirement: &&&Requirement| {
            requirement.tier == Tier::Required
                && !requirement.inferred
                && requirement.on_deadline == OnDeadline::Keep
        };
        let kept: Vec<Duration> = lacks
            .iter()
            .filter(keeps)
            .map(|requirement| requirement.deadline.unwrap_or(staging.overdue_after))
            .collect();
        // Whether RKE2 could apply a part of the file also depends on the other files of the same pass.
        let may_be_hopeless = Truth::is_each_lacking(file, |one| truth.lacks(one, view));
        let path = &file.path;
        let mut problems: BTreeSet<String> = BTreeSet::new();
        if !kept.is_empty() && held.deadline.is_some() {
            problems.insert(format!("{path} has a deadline: it is kept"));
        }
        if kept.is_empty() && !may_be_hopeless {
            let bounds = match file.refused {
                Some(_) => vec![Bounds::exactly(staging.refused_deadline)],
                None => lacks
                    .iter()
                    .map(|requirement| Bounds::of(requirement, view, false))
                    .collect(),
            };
            // Requirements that come in the same pass add nothing.
            let surely = bounds.iter().zip(&lacks).filter(|(_, one)| !one.at_once);
            let least = match file.refused {
                Some(_) => Some(staging.refused_deadline),
                None => surely.map(|(bounds, _)| bounds.least).max(),
            };
            let ends = bounds.iter().filter_map(|bounds| bounds.most.clone());
            let end = ends.map(latest_end).max();
            match held.deadline {
                None => {
                    problems.insert(format!("{path} has no deadline: nothing keeps it"));
                }
                Some(deadline) => {
                    let left = deadline.duration_since(server.wall).unsigned_abs();
                    let at = now + left;
                    if least.is_some_and(|least| at + SLACK < earliest + least) {
                        problems.insert(format!("{path} goes at {at}: that is too early"));
                    }
                    if end.is_some_and(|end| at > end) {
                        problems.insert(format!("{path} goes at {at}: that is too late"));
                    }
                }
            }
        }
        let hopeless = may_be_hopeless.then_some(staging.overdue_after);
        let least = kept.iter().copied().chain(hopeless).min();
        let most = kept.iter().copied().min();
        let is_early = least.is_none_or(|least| now + SLACK < earliest + least);
        if held.overdue && is_early {
            problems.insert(format!("{path} is overdue: its time is not over"));
        }
        if !held.overdue && most.is_some_and(|most| now > latest_end(most.into())) {
            problems.insert(format!("{path} is not overdue: its time is over"));
        }
        self.untrue.extend(problems);
    }
}

/// Is a file held for a missing requirement, or for a rejection by RKE2?
fn waits_for_needs(held: &HeldFile) -> bool {
    let others = [
        Code::MarkerStays,
        Code::OnceUnconfirmed,
        Code::Provisional,
        Code::SameBaseName,
        Code::SpecialFile,
    ];
    held.waits() && !others.contains(&held.code) && !held.blockers.is_empty()
        || held.code == Code::HeldRefused
}

fn problem_of(
    file: &PlanFile,
    known: Option<&Reported>,
    listed: Listed,
    is_overdue: bool,
    codes: &[Code],
) -> Option<String> {
    let count = |wanted: &[Code]| codes.iter().filter(|code| wanted.contains(code)).count();
    let held = count(&[Code::Held]);
    let released = count(&[Code::Released, Code::Yielded]);
    let applied = count(&[Code::Applied, Code::Escaped]);
    let same = known.filter(|known| known.digest == file.digest && !known.is_gone);
    let was = same.map(|known| known.listed);
    if held + released + applied > 1 {
        return Some(format!("has several events of one decision: {codes:?}"));
    }
    let is_right = match (was, listed) {
        // Nothing was held before, or the earlier reports are unknown.
        (None, Listed::Held) => released + applied == 0,
        (None, Listed::Released) => held + applied == 0,
        (None, Listed::Applied) => held + released == 0,
        (Some(was), _) if was == listed => held + released + applied == 0,
        (Some(_), Listed::Held) => held == 1,
        (Some(Listed::Held), Listed::Released) => released == 1,
        // A failure, or an order by hand, may take it back.
        (Some(_), Listed::Released) => held + applied == 0,
        (Some(_), Listed::Applied) => applied == 1,
    };
    if !is_right {
        return Some(format!("is {listed:?} and was {was:?}: reported {codes:?}"));
    }
    let was_overdue = same.is_some_and(|known| known.listed == listed && known.is_overdue);
    match count(&[Code::Overdue]) {
        0 if is_overdue && same.is_some() && !was_overdue => {
            Some("is overdue: that is not reported".to_owned())
        }
        0 => None,
        1 if is_overdue && !was_overdue => None,
        _ => Some("is overdue: that is reported again, or is not so".to_owned()),
    }
}
