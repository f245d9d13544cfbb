//! Simulates other names for the same manifests, or documents in other files, in addition to the given files. A layout is advised
//! only if it is better in every seed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::Timestamp;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{FileContent, ManifestPath, ReadLimits};
use windrow_model::reasons::Code;
use windrow_plan::{FileId, Plan};

use super::Progress;
use super::cut::cut;
use super::ending::ended;
use super::rehearsal::Span;
use crate::{DirectoryChange, HappeningKind, PreparedSetup, Run, Setup, SimulatedDirectory};

/// Required saving in every seed, in seconds. A smaller one does not save a pass.
const LEAST: f64 = 1.0;

/// Maximum number of objects in a proposal.
const NAMED: usize = 20;

/// A renamed file, or documents that move to another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutMove {
    pub from: ManifestPath,
    pub to: ManifestPath,
    /// The lines of the moved objects; empty for a whole file.
    pub lines: BTreeSet<u32>,
    /// The moved objects for users; empty for a whole file.
    objects: Vec<String>,
}

/// Names and files with which RKE2 may need fewer passes on a fresh node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutProposal {
    /// The changes, in the order in which RKE2 then applies the files.
    pub moves: Vec<LayoutMove>,
    /// The files whose requirements are in the directory itself.
    watched: Vec<ManifestPath>,
}

impl LayoutProposal {
    /// The proposals for a plan, the smallest change first.
    pub fn all(plan: &Plan) -> Vec<Self> {
        let path = |file: FileId| plan.files[file].path.clone();
        let renames = plan.names.renames.iter();
        let whole = renames.map(|rename| LayoutMove::whole(path(rename.file), rename.to.clone()));
        let parts = plan.advise_split().into_iter().map(|part| {
            let documents = plan.files[part.file].documents.iter();
            let moving = documents.filter(|document| part.lines.contains(&document.line));
            LayoutMove {
                from: path(part.file),
                to: part.to,
                objects: moving.map(|one| one.object.to_string()).collect(),
                lines: part.lines,
            }
        });
        let watched: Vec<ManifestPath> = plan.files_met_by_files().map(path).collect();
        let proposals = [whole.collect(), parts.collect()].into_iter();
        proposals
            .filter(|moves: &Vec<LayoutMove>| !moves.is_empty())
            .map(|moves| Self {
                moves,
                watched: watched.clone(),
            })
            .collect()
    }

    /// The setup with the proposal. `None` if it is impossible, because servers have other files with these names, or because a
    /// document cannot be split.
    pub fn lay_out(&self, setup: &Setup, limits: &ReadLimits) -> Option<Setup> {
        let mut other = setup.clone();
        for one in &self.moves {
            let mut found: Option<FileContent> = None;
            let joins = other.joins.iter_mut();
            let joins = joins.map(|join| (&mut join.files, &mut join.changes));
            let first = (&mut other.files, &mut other.changes);
            for (files, changes) in std::iter::once(first).chain(joins) {
                let Some(content) = content_of(&one.from, files, changes) else {
                    continue;
                };
                if found.as_ref().is_some_and(|found| *found != content)
                    || content_of(&one.to, files, changes).is_some()
                    || files.get(&one.to.marker()).is_some()
                {
                    return None;
                }
                one.carry_out(&content, files, changes, limits)?;
                found = Some(content);
            }
            found?;
        }
        Some(other)
    }

    /// The files to watch after the change.
    fn watched_then(&self) -> Vec<ManifestPath> {
        let whole = |path: &&ManifestPath| {
            let mut moves = self.moves.iter();
            !moves.any(|one| one.is_whole() && one.from == **path)
        };
        let stay = self.watched.iter().filter(whole).cloned();
        stay.chain(self.moves.iter().map(|one| one.to.clone()))
            .collect()
    }

    /// The finding about a proposal that was simulated and found better.
    pub fn finding(
        &self,
        trial: &LayoutTrial,
        files: &BTreeMap<ManifestPath, Location>,
    ) -> Finding {
        let code = match self.moves.iter().all(|one| one.is_whole()) {
            true => Code::NameSparesPass,
            false => Code::SplitSparesPass,
        };
        let words = [("change", &*self.describe(trial)), ("time", &trial.saves())];
        Finding {
            incident: None,
            code,
            severity: code.severity(),
            message: code.say(&words),
            at: self
                .moves
                .iter()
                .filter_map(|one| one.place(files))
                .collect(),
        }
    }

    fn describe(&self, trial: &LayoutTrial) -> String {
        let passes = |count: usize| match count {
            1 => "one pass".to_owned(),
            more => format!("{more} passes"),
        };
        let instead = || {
            let (then, now) = (passes(trial.passes_then), trial.passes);
            format!("RKE2 needs {then} instead of {now}")
        };
        match &self.moves[..] {
            [one] if one.is_whole() && trial.passes_then == 1 => {
                let LayoutMove { from, to, .. } = one;
                format!("{from}: named {to} it is applied in RKE2's first pass")
            }
            moves => {
                let moves: Vec<String> = moves.iter().map(LayoutMove::describe).collect();
                format!("{}: {}", moves.join(", "), instead())
            }
        }
    }
}

impl LayoutMove {
    /// A renamed file.
    pub fn whole(from: impl Into<ManifestPath>, to: impl Into<ManifestPath>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            lines: BTreeSet::new(),
            objects: Vec::new(),
        }
    }

    pub fn is_whole(&self) -> bool {
        self.lines.is_empty()
    }

    fn describe(&self) -> String {
        let Self { from, to, .. } = self;
        match &self.objects[..] {
            [] => format!("{from} named {to}"),
            objects if objects.len() <= NAMED => {
                format!("{} moved from {from} to {to}", objects.join(", "))
            }
            objects => {
                let (named, more) = (objects[..NAMED].join(", "), objects.len() - NAMED);
                format!("{named} and {more} more moved from {from} to {to}")
            }
        }
    }

    /// The position of the moved text for the user.
    fn place(&self, files: &BTreeMap<ManifestPath, Location>) -> Option<Location> {
        files.get(&self.from).cloned()
    }

    fn carry_out(
        &self,
        content: &FileContent,
        files: &mut SimulatedDirectory,
        changes: &mut Vec<DirectoryChange>,
        limits: &ReadLimits,
    ) -> Option<()> {
        let (stays, moves) = match self.is_whole() {
            true => (None, content.clone()),
            false => {
                let FileContent::Bytes(bytes) = content else {
                    return None;
                };
                let (stays, moves) = cut(&self.from, bytes, &self.lines, limits)?;
                let content = |text: String| FileContent::Bytes(text.into_bytes());
                (Some(content(stays)), content(moves))
            }
        };
        if let Some(entry) = files.get(&self.from) {
            let written = entry.mtime;
            match stays {
                Some(stays) => files.put(self.from.as_str(), stays, written),
                None => {
                    files.remove(&self.from);
                }
            }
            files.put(self.to.as_str(), moves, written);
            return Some(());
        }
        let late = changes
            .iter_mut()
            .find(|change| self.from == *change.path)?;
        let mut second = late.clone();
        second.path = self.to.to_string();
        second.content = Some(moves);
        match stays {
            Some(stays) => {
                late.content = Some(stays);
                changes.push(second);
            }
            None => *late = second,
        }
        Some(())
    }
}

/// The content of a path, at power-on or once it is written.
fn content_of(
    path: &ManifestPath,
    files: &SimulatedDirectory,
    changes: &[DirectoryChange],
) -> Option<FileContent> {
    let there = files.get(path).map(|entry| (**entry.content()).clone());
    there.or_else(|| {
        let mut later = changes.iter().filter(|change| *path == *change.path);
        later.find_map(|change| change.content.clone())
    })
}

/// The comparison of a proposal with the given files.
#[derive(Debug, Clone, PartialEq)]
pub struct LayoutTrial {
    seeds: u64,
    /// Whether it was better in each of them.
    is_better: bool,
    /// The saving in seconds.
    saved: Option<Span>,
    /// The largest number of passes without it and with it.
    passes: usize,
    passes_then: usize,
}

impl LayoutTrial {
    /// Plays both setups with these seeds and with Windrow, while `go_on` allows it and the proposal is better.
    pub fn play_while(
        proposal: &LayoutProposal,
        (given, other): ((&Setup, &PreparedSetup), (&Setup, &PreparedSetup)),
        seeds: RangeInclusive<u64>,
        progress: &Progress<'_>,
    ) -> Self {
        let mut trial = Self {
            seeds: 0,
            is_better: true,
            saved: None,
            passes: 0,
            passes_then: 0,
        };
        let watched_then = proposal.watched_then();
        for seed in seeds {
            let played = given
                .1
                .with_windrow_while(given.0, seed, progress.go_on)
                .zip(other.1.with_windrow_while(other.0, seed, progress.go_on));
            let Some((before, after)) = played else {
                break;
            };
            trial.seeds += 1;
            (progress.played)();
            let measured = FirstPasses::measure(&before, &proposal.watched)
                .zip(FirstPasses::measure(&after, &watched_then));
            let is_no_worse = ended(&after) <= ended(&before)
                && after.counts.failed <= before.counts.failed
                && after.counts.repeated <= before.counts.repeated;
            trial.is_better = match measured {
                Some((before, after)) if is_no_worse => trial.take(before, after),
                _ => false,
            };
            if !trial.is_better {
                break;
            }
        }
        trial
    }

    /// Adds a seed; true if it saved time.
    fn take(&mut self, before: FirstPasses, after: FirstPasses) -> bool {
        let saved = before.seconds - after.seconds;
        self.widen(Span {
            from: saved,
            to: saved,
        });
        self.passes = self.passes.max(before.passes);
        self.passes_then = self.passes_then.max(after.passes);
        saved >= LEAST
    }

    fn widen(&mut self, more: Span) {
        let known = self.saved.unwrap_or(more);
        self.saved = Some(Span {
            from: known.from.min(more.from),
            to: known.to.max(more.to),
        });
    }

    /// Adds the results of other seeds.
    pub fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.is_better &= other.is_better;
        self.passes = self.passes.max(other.passes);
        self.passes_then = self.passes_then.max(other.passes_then);
        if let Some(saved) = other.saved {
            self.widen(saved);
        }
    }

    /// Whether it was better in each of this number of seeds.
    pub fn is_better_in_all(&self, seeds: u64) -> bool {
        self.is_better && self.seeds == seeds
    }

    /// The smallest saving in seconds.
    pub fn least_saved(&self) -> f64 {
        self.saved.map_or(0.0, |saved| saved.from)
    }

    /// The saving in words.
    fn saves(&self) -> String {
        let Some(Span { from, to }) = self.saved else {
            return "nothing".to_owned();
        };
        match (from.round(), to.round()) {
            (from, to) if from == to => format!("{from} s"),
            (from, to) => format!("{from} to {to} s"),
        }
    }
}

/// The first passes of RKE2 on the first server.
#[derive(Debug, Clone, Copy, PartialEq)]
struct FirstPasses {
    /// From the start of the first pass until all of these files were applied.
    seconds: f64,
    /// Number of passes that had begun by then.
    passes: usize,
}

impl FirstPasses {
    /// `None` if one of the files was not applied.
    fn measure(run: &Run, files: &[ManifestPath]) -> Option<Self> {
        let mut missing: BTreeSet<&ManifestPath> = files.iter().collect();
        let mut began: Option<Timestamp> = None;
        let mut passes = 0;
        for one in run.log.iter().filter(|one| one.server == 0) {
            match &one.what {
                HappeningKind::PassBegan { .. } => {
                    began.get_or_insert(one.at);
                    passes += 1;
                }
                HappeningKind::Applied { file } => {
                    missing.remove(file);
                    if missing.is_empty() {
                        let passed = Duration::try_from(one.at.duration_since(began?)).ok()?;
                        let seconds = passed.as_secs_f64();
                        return Some(Self { seconds, passes });
                    }
                }
                _ => {}
            }
        }
        None
    }
}
