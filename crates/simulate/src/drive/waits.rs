//! The oracle: is a file held as long as its deadlines say, neither shorter nor longer?

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use smol_str::SmolStr;
use windrow_decide::settings::Staging;
use windrow_decide::{FileStage, HeldFile, Status};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;
use windrow_plan::rules::{OnDeadline, Tier};
use windrow_plan::{PlanFile, Requirement, SatisfiedBy};

use super::oracle::{JudgedServer, Oracle};
use super::truth::{DirectoryView, Truth};
use crate::files::SimulatedDirectory;

/// The delay that a rejected or lost request can cause: it is sent again after five seconds.
pub(super) const SLACK: Duration = Duration::from_secs(60);

/// A process reads the cluster for this long before a deadline that ran out without it counts.
const FIRST_LOOK: Duration = Duration::from_secs(30);
/// From this start in a boot on, that time ends when the file has waited twice as long as it should.
const MOST_STARTS: u32 = 3;

/// A process of Windrow, or a boot.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Began {
    /// When it began: for a boot, when Windrow first started in it.
    pub(super) at: Option<Timestamp>,
    /// When kube-apiserver first answered in it.
    pub(super) up: Option<Timestamp>,
}

/// Since when waiting files have waited, as far as Windrow can know: a process that dies leaves only its written records.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// When the present content of each file appeared, without interruption since.
    pub(super) there: BTreeMap<ManifestPath, (SmolStr, Timestamp)>,
    pub(super) process: Began,
    /// Deadlines count within one boot, over restarts of Windrow.
    pub(super) boot: Began,
    /// How often Windrow has started in this boot.
    starts: u32,
    written: Written,
    /// When each file was last hidden.
    hidden_at: BTreeMap<ManifestPath, Timestamp>,
}

/// The knowledge of a new process.
#[derive(Debug, Default)]
struct Written {
    there: BTreeMap<ManifestPath, (SmolStr, Timestamp)>,
    boot: Began,
    starts: u32,
}

impl Waits {
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.there.clone_from(&self.written.there);
        (self.boot, self.starts) = (self.written.boot, self.written.starts + 1);
        self.boot.at.get_or_insert(now);
        self.process = Began {
            at: Some(now),
            up: None,
        };
    }

    /// The machine boots: all deadlines begin again.
    pub(super) fn begin_boot(&mut self) {
        (self.written.boot, self.written.starts) = (Began::default(), 0);
    }

    /// The ledger is on the disk. It contains nothing about these unknown contents.
    pub(super) fn note_saved(&mut self, is_unknown: impl Fn(&ManifestPath, &SmolStr) -> bool) {
        self.written.there.clone_from(&self.there);
        self.written
            .there
            .retain(|path, (digest, _)| !is_unknown(path, digest));
        (self.written.boot, self.written.starts) = (self.boot, self.starts);
    }

    pub(super) fn forget(&mut self) {
        self.written = Written::default();
    }

    pub(super) fn began_within(&self, time: Duration, now: Timestamp) -> bool {
        let began = self.process.at;
        began.is_some_and(|began| now.duration_since(began).unsigned_abs() < time)
    }

    /// Everything begins to wait: the cluster is a different one.
    pub(super) fn enter_cluster(&mut self) {
        self.there.clear();
        (self.boot.up, self.process.up) = (None, None);
    }

    /// Records the present content of the directory, and whether kube-apiserver answers.
    pub(super) fn note(
        &mut self,
        files: &[PlanFile],
        disk: &SimulatedDirectory,
        is_up: bool,
        now: Timestamp,
    ) {
        if is_up {
            self.process.up.get_or_insert(now);
            self.boot.up.get_or_insert(now);
        }
        let is_there = |path: &ManifestPath| files.iter().any(|file| file.path == *path);
        self.there.retain(|path, _| is_there(path));
        for file in files {
            if disk.is_hidden(&file.path) {
                self.hidden_at.insert(file.path.clone(), now);
            }
            let known = self.there.get(&file.path);
            // Windrow does not handle a file that a foreign marker hides.
            if known.is_none_or(|(digest, _)| *digest != file.digest)
                || disk.skipped_by(&file.path).is_some()
            {
                let content = (file.digest.clone(), now);
                self.there.insert(file.path.clone(), content);
            }
        }
    }

    /// The latest end of a file's wait that began at `since` and may last for `longest`.
    pub(super) fn latest_end(
        &self,
        file: &PlanFile,
        since: Timestamp,
        longest: Longest,
        staging: &Staging,
    ) -> Timestamp {
        let Longest {
            held,
            released,
            after,
        } = longest;
        // A hold by hand, or a kind that nothing serves, may keep the other file for longer than this one would wait for it.
        let given = after.and_then(|other| self.hidden_at.get(&other).copied());
        let end = (since + held).max(given.unwrap_or(since));
        let Some(began) = self.process.at.filter(|_| self.is_of_earlier(file)) else {
            return end + released;
        };
        let looked = match self.process.up {
            Some(up) => up + FIRST_LOOK,
            // RKE2 may not run yet either.
            None => began + staging.blind_deadline,
        };
        let latest = if self.starts > MOST_STARTS {
            looked.min(end + held)
        } else {
            looked
        };
        end.max(latest) + released
    }

    /// Did an earlier process record that this content waits?
    fn is_of_earlier(&self, file: &PlanFile) -> bool {
        let there = self.there.get(&file.path);
        there.map(|(_, since)| *since) < self.process.at
    }

    /// When kube-apiserver first answered this process, for a file that came in it: no earlier process has checked it since.
    pub(super) fn answered_for_new(&self, file: &PlanFile) -> Option<Timestamp> {
        self.process.up.filter(|_| !self.is_of_earlier(file))
    }

    /// Has this process read the cluster before it ended a wait of an earlier one?
    fn has_looked(&self, file: &PlanFile, now: Timestamp) -> bool {
        !self.is_of_earlier(file) || self.process.up.is_some_and(|up| now >= up + FIRST_LOOK)
    }
}

/// The earliest and the latest end of a hold for one missing requirement; a kept file has no end.
pub(super) struct Bounds {
    pub(super) least: Duration,
    pub(super) most: Option<Longest>,
}

#[derive(Debug, Clone)]
pub(super) struct Longest {
    /// The limit of any file.
    held: Duration,
    /// An additional limit, from the release of the file that it comes after.
    released: Duration,
    after: Option<ManifestPath>,
}

impl From<Duration> for Longest {
    fn from(held: Duration) -> Self {
        Self {
            held,
            released: Duration::ZERO,
            after: None,
        }
    }
}

impl Bounds {
    pub(super) fn exactly(time: Duration) -> Self {
        Self {
            least: time,
            most: Some(time.into()),
        }
    }

    /// The bounds of an unmet requirement. `is_hopeless`: RKE2 could apply nothing of the file.
    pub(super) fn of(
        requirement: &Requirement,
        view: DirectoryView<'_>,
        is_hopeless: bool,
    ) -> Self {
        let staging = &view.state.settings().staging;
        let or = |usual: Duration| requirement.deadline.unwrap_or(usual);
        match (requirement.tier, requirement.inferred) {
            (Tier::Advisory, _) => Self::of_advice(requirement, view, staging),
            (Tier::Required, true) => {
                let time = match requirement.satisfied_by.is_guess() {
                    true => staging.advisory_deadline,
                    false => staging.inferred_deadline,
                };
                Self {
                    least: time,
                    most: (!is_hopeless).then_some(time.into()),
                }
            }
            (Tier::Required, false) => {
                let time = or(staging.inferred_deadline);
                let is_kept = requirement.on_deadline == OnDeadline::Keep;
                Self {
                    least: time,
                    most: (!is_kept).then_some(time.into()),
                }
            }
        }
    }

    /// Advice waits for a file that waits itself as long as that may wait, but not for one that is held on purpose.
    fn of_advice(requirement: &Requirement, view: DirectoryView<'_>, staging: &Staging) -> Self {
        let short = requirement.deadline.unwrap_or(staging.advisory_deadline);
        let long = short.max(staging.overdue_after);
        let SatisfiedBy::File { file, .. } = requirement.satisfied_by else {
            return Self::exactly(short);
        };
        let bringer = &view.plan.files[file].path;
        let entry = view.state.ledger().files.get(bringer);
        match entry.map(|entry| &entry.state) {
            Some(FileStage::Held { code, .. }) => match code {
                Code::HeldByAnnotation | Code::HeldByHand | Code::HeldAppliedOnce => {
                    Self::exactly(short)
                }
                _ => Self::exactly(long),
            },
            // From its release on.
            Some(_) | None => Self {
                least: Duration::ZERO,
                most: Some(Longest {
                    held: long,
                    released: short,
                    after: Some(bringer.clone()),
                }),
            },
        }
    }
}

impl Oracle {
    /// If a deadline released a file, was it the last of its deadlines?
    pub(super) fn judge_wait(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        file: &PlanFile,
        now: Timestamp,
    ) {
        let staging = &server.state.settings().staging;
        let seen = (file.path.clone(), file.digest.clone());
        let Some(seen) = self.first_seen.get(&seen).copied() else {
            return;
        };
        let seen = self.boot_began.map_or(seen, |began| began.max(seen));
        // Before kube-apiserver answers, holding does no harm.
        let waited = now.duration_since(seen.max(self.up_since.unwrap_or(now)));
        let least = match &file.refused {
            Some(_) => staging.refused_deadline,
            // A file that Windrow could not read may contain the requirements of the file: Windrow cannot know.
            None if !server.unread.is_empty() => staging.advisory_deadline,
            // If Windrow has not received an event, it may be wrong about the object: any of its requirements may be the last.
            None if !(server.is_current && server.is_up) => {
                let view = server.view();
                let waits = file
                    .requirements()
                    .filter(|requirement| requirement.takes_part())
                    .map(|requirement| Bounds::of(requirement, view, false).least);
                waits
                    .min()
                    .unwrap_or_default()
                    .max(staging.advisory_deadline)
            }
            None => {
                let view = server.view();
                let lacks = file
                    .requirements()
                    .filter(|requirement| truth.is_lacking(requirement, view));
                let waits = lacks.map(|requirement| Bounds::of(requirement, view, false).least);
                waits
                    .max()
                    .unwrap_or_default()
                    .max(staging.advisory_deadline)
            }
        };
        let is_over = waited.is_positive() && waited.unsigned_abs() >= least;
        let is_blind = now.duration_since(seen).unsigned_abs() >= staging.blind_deadline;
        let path = &file.path;
        if !is_over && !is_blind {
            self.untrue
                .insert(format!("{path} has waited long enough: for {waited:#}"));
        }
        let is_long = self.waits.starts > MOST_STARTS
            && waited.is_positive()
            && waited.unsigned_abs() >= least * 2;
        if !is_blind && !is_long && !self.waits.has_looked(file, now) {
            self.untrue.insert(format!(
                "{path} has waited long enough: this process has not looked at the cluster yet"
            ));
        }
        let mut advice = file.requirements();
        if server.is_current && !is_blind && advice.any(|one| Self::is_hasty(truth, server, one)) {
            self.untrue.insert(format!(
                "{path} has waited for what it comes after: RKE2 was just given that"
            ));
        }
    }

    /// Is it advice on a file that RKE2 just got? Windrow does not wait for objects of the same pass, nor for those in a file
    /// that it could not read.
    fn is_hasty(truth: &Truth<'_>, server: &JudgedServer<'_>, one: &Requirement) -> bool {
        let staging = &server.state.settings().staging;
        let short = one.deadline.unwrap_or(staging.advisory_deadline);
        let SatisfiedBy::File { file, .. } = one.satisfied_by else {
            return false;
        };
        let bringer = &server.plan.files[file].path;
        if server.unread.contains(bringer) {
            return false;
        }
        let was_given = server.before.files.get(bringer).is_some_and(|entry| {
            let for_as_long = server.wall.duration_since(entry.since).unsigned_abs();
            !matches!(entry.state, FileStage::Held { .. }) && for_as_long < short
        });
        one.tier == Tier::Advisory
            && !one.at_once
            && !one.may_come_first
            && was_given
            && truth.lacks(one, server.view())
    }

    /// Is a file held longer than all of its deadlines allow?
    pub(super) fn judge_long_waits(
        &mut self,
        truth: &Truth<'_>,
        server: &JudgedServer<'_>,
        status: &Status,
        now: Timestamp,
    ) {
        let staging = &server.state.settings().staging;
        // An unreadable file keeps its marker for a while.
        if server.reads_fail {
            return;
        }
        // It knows the answers of earlier requests.
        let is_deaf = server.is_deaf_since.is_some();
        let has_answer = self.waits.process.up.is_some();
        if has_answer && !(server.is_up && server.is_current) && !is_deaf {
            return;
        }
        let knows = has_answer && !is_deaf;
        // The knowledge of earlier processes of this boot is not recorded, and a ledger may not be read yet.
        let begins_again = !knows && self.waits.boot.up.is_some() || !server.has_ledger;
        let process = self.waits.process.at.filter(|_| begins_again);
        let is_judged = |held: &&HeldFile| {
            held.waits() && held.code != Code::SameBaseName && held.code != Code::MarkerStays
        };
        for held in status.staging.held.iter().filter(is_judged) {
            let files = &server.plan.files;
            let Some(file) = files.iter().find(|file| file.path == held.file) else {
                continue;
            };
            if server.troubles.contains_key(&file.name) {
                continue;
            }
            let Some(waits) = truth.longest_waits(file, server.view(), knows) else {
                continue;
            };
            let (least, from) = match self.waits.boot.up.filter(|_| knows) {
                Some(up) => (Duration::ZERO, Some(up)),
                None => (staging.blind_deadline, server.is_deaf_since),
            };
            let there = self.waits.there.get(&file.path).map(|(_, since)| *since);
            // Files that were unreadable at first wait from the time when they were read.
            let content = (file.path.clone(), file.digest.clone());
            let read = self.read_at.get(&content).copied();
            let answered = self.waits.answered_for_new(file);
            let from = [there, read, from, process, answered, self.waits.boot.at];
            let Some(since) = from.into_iter().flatten().max() else {
                continue;
            };
            let ends = waits.into_iter().map(|wait| {
                let held = wait.held.max(least);
                let wait = Longest { held, ..wait };
                self.waits.latest_end(file, since, wait, staging)
            });
            if ends.max().is_some_and(|end| now > end + SLACK) {
                let (path, waited) = (&file.path, now.duration_since(since));
                self.untrue.insert(format!(
                    "{path} waits: its time is over, it waited {waited:#}"
                ));
            }
        }
    }
}

impl Truth<'_> {
    /// How long each missing requirement may hold a file at most, if Windrow `knows` the present objects; `None` if one of them
    /// keeps the file.
    fn longest_waits(
        &self,
        file: &PlanFile,
        view: DirectoryView<'_>,
        knows: bool,
    ) -> Option<Vec<Longest>> {
        if file.refused.is_some() {
            return Some(vec![view.state.settings().staging.refused_deadline.into()]);
        }
        // Before kube-apiserver answers, all objects are unknown.
        let lacks = |one: &Requirement| match knows {
            true => self.lacks(one, view),
            false => one.takes_part(),
        };
        // Then no part of a file is certainly hopeless either.
        let is_hopeless = knows && Self::is_each_lacking(file, lacks);
        let lacks = file.requirements().filter(|one| lacks(one));
        lacks
            .map(|requirement| Bounds::of(requirement, view, is_hopeless).most)
            .collect()
    }
}
