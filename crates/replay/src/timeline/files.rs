//! The course of each file in a boot: its waits, its release, and when RKE2 had applied it.
//!
//! The stages are the recorded ones. The reasons come from repeated decisions. If these differ, only the recorded code
//! is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use windrow_decide::flight::{RecordedDecision, RecordedStage};
use windrow_decide::{Cause, Ledger, LedgerEntry, Phase, PhaseExpectation, StagingStatus};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use super::axis::Axis;
use super::course::BootCourse;
use super::{FileTime, FileWait};
use crate::boots::{RecordedBoot, started};
use crate::{Replay, ReplayedDecision};

/// One file, as far as the boot covers it.
#[derive(Debug, Clone, Default)]
pub(super) struct FileCourse {
    pub(super) stage: Option<RecordedStage>,
    /// When it first appeared in this boot, in seconds; `None` if it existed at the beginning.
    pub(super) appeared: Option<f64>,
    pub(super) held: Option<f64>,
    pub(super) waits: Vec<FileWait>,
    pub(super) released: Option<f64>,
    pub(super) cause: Option<Cause>,
    pub(super) applied: Option<f64>,
    pub(super) failure: Option<String>,
    /// It was released in an earlier boot: nothing happened to it in this one.
    pub(super) is_old: bool,
}

impl FileCourse {
    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage, Some(RecordedStage::Held { .. }))
    }

    /// May RKE2 apply it, and has not yet?
    pub(super) fn is_released(&self) -> bool {
        self.stage == Some(RecordedStage::Released)
    }

    /// How long RKE2 took after the release and the first answer of kube-apiserver.
    pub(super) fn taken_up(&self, api: Option<f64>) -> Option<(f64, f64)> {
        let applied = self.applied?;
        let might = self.released?.max(api.unwrap_or(0.0));
        Some((might.min(applied), applied))
    }
}

#[derive(Debug, Default)]
pub(super) struct FileCourses {
    pub(super) files: BTreeMap<ManifestPath, FileCourse>,
    /// The file that the node waited for at the end, if it waited for one.
    pub(super) waits_for: Option<ManifestPath>,
    pub(super) cautions: Vec<String>,
    /// The expectation for each phase, as of its last decision.
    pub(super) expected: BTreeMap<Phase, PhaseExpectation>,
}

impl FileCourses {
    pub(super) fn read(boot: &RecordedBoot<'_>, course: &BootCourse) -> Self {
        let mut courses = Self::default();
        let mut axis = Axis::new(course.began);
        let mut left = course.moments.len();
        let mut differences = 0;
        for segment in &boot.segments {
            let mut replay = Some(Replay::new(segment));
            let decisions = RecordedBoot {
                segments: vec![*segment],
            };
            for (_, begins, decision) in decisions.decisions() {
                if left == 0 {
                    return courses.finish(differences, &course.windrow);
                }
                left -= 1;
                let again = courses.decide_again(&mut replay);
                if let Some(again) = &again {
                    courses.take_expectations(again);
                }
                differences += usize::from(again.as_ref().is_some_and(is_different));
                let (at, _) = axis.take(decision.at, started(decision), begins);
                let moment = StagingMoment {
                    at,
                    axis: &axis,
                    begins,
                    decision,
                    staging: again.as_ref().map(|again| &again.decision.status.staging),
                };
                courses.take(&moment, course);
            }
            if let Some(replay) = replay {
                let left_out = replay.left_out.iter();
                courses
                    .cautions
                    .extend(left_out.map(|file| format!("not recorded in full: {file}")));
            }
        }
        courses.finish(differences, &course.windrow)
    }

    fn finish(mut self, differences: usize, windrow: &str) -> Self {
        if differences > 0 {
            self.cautions.push(format!(
                "this version makes {differences} decisions differently from windrow {windrow}, which recorded them: the events are \
                 true, the reasons of holds may differ"
            ));
        }
        self
    }

    /// Repeats the next decision; `None` as soon as that is impossible.
    fn decide_again<'s>(
        &mut self,
        replay: &mut Option<Replay<'s>>,
    ) -> Option<ReplayedDecision<'s>> {
        match replay.as_mut()?.step() {
            Ok(again) => again,
            Err(why) => {
                self.cautions.push(format!(
                    "decisions cannot be replayed, so only the codes of holds are available: {why}"
                ));
                *replay = None;
                None
            }
        }
    }

    fn take_expectations(&mut self, again: &ReplayedDecision<'_>) {
        for phase in &again.decision.status.phases {
            if let Some(expected) = phase.expected {
                self.expected.insert(phase.name, expected);
            }
        }
    }

    pub(super) fn take(&mut self, moment: &StagingMoment<'_>, course: &BootCourse) {
        let is_first = self.files.is_empty() && moment.begins;
        for path in &moment.decision.forgotten {
            self.files.remove(path);
        }
        for (path, stage) in &moment.decision.files {
            let before = is_first
                .then(|| moment.entry_before(path))
                .flatten()
                .filter(|entry| entry.stage_before() == without_code(*stage));
            let file = self.files.entry(path.clone()).or_default();
            let is_same = file.stage.map(without_code) == Some(without_code(*stage));
            if !is_same {
                let at = match &before {
                    Some(entry) if course.is_cut => moment.axis.at(entry.since()).max(0.0),
                    _ => moment.at,
                };
                file.enter(*stage, at, !is_first);
                let is_held = matches!(stage, RecordedStage::Held { .. });
                let was_earlier =
                    |entry: &EntryBefore| !course.is_cut || entry.since() < course.began;
                file.is_old = !is_held && before.as_ref().is_some_and(was_earlier);
            }
            file.stage = Some(*stage);
        }
        for (path, file) in &mut self.files {
            file.learn(path, moment);
        }
        let held = moment.staging.map(|staging| &staging.held);
        self.waits_for = held.and_then(|held| {
            let waiting = || {
                held.iter()
                    .filter(|one| !windrow_decide::on_purpose(one.code))
            };
            let root = waiting().min_by_key(|one| {
                let mut blockers = one.blockers.iter();
                blockers.any(|blocker| blocker.brought_by.is_some())
            });
            root.map(|one| one.file.clone())
        });
    }

    pub(super) fn into_times(self, api: Option<f64>) -> Vec<FileTime> {
        let files = self.files.into_iter().filter(|(_, file)| !file.is_old);
        let mut times: Vec<FileTime> = files
            .map(|(path, file)| FileTime {
                poll_seconds: file.taken_up(api).map(|(from, to)| round(to - from)),
                file: path,
                held: file.held,
                waits: file.waits,
                released: file.released,
                cause: file.cause,
                applied: file.applied,
                failure: file.failure,
            })
            .collect();
        let key = |time: &FileTime| {
            let end = time.applied.or(time.released).unwrap_or(f64::INFINITY);
            (end, time.held.unwrap_or(0.0))
        };
        times.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        times
    }
}

pub(super) struct StagingMoment<'a> {
    pub(super) at: f64,
    pub(super) axis: &'a Axis,
    /// Is it the first of its segment?
    pub(super) begins: bool,
    pub(super) decision: &'a RecordedDecision,
    /// The same decision, repeated.
    pub(super) staging: Option<&'a StagingStatus>,
}

/// The ledger's entry of a file before the first decision.
struct EntryBefore(Arc<LedgerEntry>);

impl EntryBefore {
    fn stage_before(&self) -> RecordedStage {
        use windrow_decide::FileStage;
        match &self.0.state {
            FileStage::Held { code, .. } => without_code(RecordedStage::Held { code: *code }),
            FileStage::Released { .. } => RecordedStage::Released,
            FileStage::Applied { .. } => RecordedStage::Applied,
        }
    }

    fn since(&self) -> Timestamp {
        self.0.since
    }
}

impl StagingMoment<'_> {
    fn entry_before(&self, path: &ManifestPath) -> Option<EntryBefore> {
        let ledger: &Ledger = self.decision.ledger.as_ref()?;
        ledger.files.get(path).cloned().map(EntryBefore)
    }
}

impl FileCourse {
    /// Notes that the file reached a stage. New content restarts its course.
    fn enter(&mut self, stage: RecordedStage, at: f64, is_late: bool) {
        match stage {
            RecordedStage::Held { .. } => {
                *self = Self {
                    held: Some(at),
                    ..Self::default()
                };
                self.appeared = is_late.then_some(at);
            }
            RecordedStage::Released => {
                if self.held.is_none() || self.released.is_some() {
                    *self = Self::default();
                    self.appeared = is_late.then_some(at);
                }
                self.end_wait(at);
                self.released = Some(at);
            }
            RecordedStage::Applied => {
                if self.stage.is_none() {
                    self.appeared = is_late.then_some(at);
                }
                self.end_wait(at);
                self.released.get_or_insert(at);
                self.applied = Some(at);
            }
        }
    }

    fn end_wait(&mut self, at: f64) {
        if self.is_held()
            && let Some(wait) = self.waits.last_mut()
        {
            wait.to = at;
        }
    }

    fn learn(&mut self, path: &ManifestPath, moment: &StagingMoment<'_>) {
        match self.stage {
            Some(RecordedStage::Held { code }) => self.learn_wait(path, code, moment),
            Some(RecordedStage::Released | RecordedStage::Applied) => {
                let Some(staging) = moment.staging else {
                    return;
                };
                let free = staging.released.iter().chain(&staging.applied);
                if let Some(status) = free.into_iter().find(|status| status.file == *path) {
                    self.cause = Some(status.cause);
                }
                if let Some(failed) = staging.failed.iter().find(|one| one.file == *path) {
                    self.failure = Some(format!("{}: {}", failed.reason, failed.message));
                }
            }
            None => {}
        }
    }

    fn learn_wait(&mut self, path: &ManifestPath, code: Code, moment: &StagingMoment<'_>) {
        let again = moment.staging.and_then(|staging| {
            let mut held = staging.held.iter();
            held.find(|held| held.file == *path && held.code == code)
        });
        let (why, brought_by) = match again {
            Some(held) => {
                let mut blockers = held.blockers.iter();
                let first = blockers.find(|blocker| blocker.message == held.why.as_str());
                let brought_by = first.and_then(|blocker| blocker.brought_by.clone());
                (held.why.to_string(), brought_by)
            }
            None => (format!("({code})"), None),
        };
        match self.waits.last_mut() {
            Some(last) if last.code == code && (last.why == why || again.is_none()) => {
                last.to = moment.at;
            }
            last => {
                let from = match last {
                    Some(last) => {
                        last.to = moment.at;
                        moment.at
                    }
                    None => self.held.unwrap_or(moment.at),
                };
                self.waits.push(FileWait {
                    from,
                    to: moment.at,
                    code,
                    why,
                    brought_by,
                });
            }
        }
    }
}

/// Did a repeated decision give other results for files?
fn is_different(again: &ReplayedDecision<'_>) -> bool {
    !again.differences.is_empty()
}

fn without_code(stage: RecordedStage) -> RecordedStage {
    match stage {
        RecordedStage::Held { .. } => RecordedStage::Held { code: Code::Held },
        other => other,
    }
}

fn round(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// Paths that were already followed: a cycle of files ends there.
pub(super) type Followed = BTreeSet<ManifestPath>;
