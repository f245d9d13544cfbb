//! Other names for the same manifests, or documents in other files, played beside what was given. What is not better in every seed is not
//! advised.

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

/// What has to be spared in every seed, in seconds: less is no pass.
const LEAST: f64 = 1.0;

/// Most objects that a proposal names.
const NAMED: usize = 20;

/// A file that is called otherwise, or documents of it that stand in another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutMove {
    /// The file.
    pub from: ManifestPath,
    /// The path of what moves.
    pub to: ManifestPath,
    /// The lines of the objects that move; empty where the whole file does.
    pub lines: BTreeSet<u32>,
    /// The objects that move, for people; empty where the whole file does.
    objects: Vec<String>,
}

/// Names and files with which RKE2 may need fewer passes on a fresh node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutProposal {
    /// What changes, in the order in which RKE2 then applies it.
    pub moves: Vec<LayoutMove>,
    /// The files whose needs the directory itself meets.
    watched: Vec<ManifestPath>,
}

impl LayoutProposal {
    /// What is worth trying for a plan, the smallest change first.
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

    /// The same setup with it; `None` where it cannot be: servers have other files of these names, or a document cannot be parted.
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

    /// The files that are watched once it is carried out.
    fn watched_then(&self) -> Vec<ManifestPath> {
        let whole = |path: &&ManifestPath| {
            let mut moves = self.moves.iter();
            !moves.any(|one| one.is_whole() && one.from == **path)
        };
        let stay = self.watched.iter().filter(whole).cloned();
        stay.chain(self.moves.iter().map(|one| one.to.clone()))
            .collect()
    }

    /// What is to be said of it, once it was played and found better.
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
    /// A file that is called otherwise.
    pub fn whole(from: impl Into<ManifestPath>, to: impl Into<ManifestPath>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            lines: BTreeSet::new(),
            objects: Vec::new(),
        }
    }

    /// Does the whole file get another name?
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

    /// Where a person finds what moves.
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

/// What a path is, at power-on or once it is written.
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

/// What playing a proposal came to, beside what was given.
#[derive(Debug, Clone, PartialEq)]
pub struct LayoutTrial {
    /// How many seeds were played.
    seeds: u64,
    /// Was it better in each of them?
    is_better: bool,
    /// The seconds that it saved.
    saved: Option<Span>,
    /// The most passes without it and with it.
    passes: usize,
    passes_then: usize,
}

impl LayoutTrial {
    /// Plays both by these seeds, with Windrow, for as long as that is wanted and the proposal is better.
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

    /// Takes in what a seed came to; true where something was spared.
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

    /// Takes in what was played of other seeds.
    pub fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.is_better &= other.is_better;
        self.passes = self.passes.max(other.passes);
        self.passes_then = self.passes_then.max(other.passes_then);
        if let Some(saved) = other.saved {
            self.widen(saved);
        }
    }

    /// Was it better in each of this many seeds?
    pub fn is_better_in_all(&self, seeds: u64) -> bool {
        self.is_better && self.seeds == seeds
    }

    /// The least that it saved, in seconds.
    pub fn least_saved(&self) -> f64 {
        self.saved.map_or(0.0, |saved| saved.from)
    }

    /// What it saved, in words.
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

/// How RKE2's first passes on the first server went.
#[derive(Debug, Clone, Copy, PartialEq)]
struct FirstPasses {
    /// From the first one's beginning until each of some files was applied.
    seconds: f64,
    /// How many had begun by then.
    passes: usize,
}

impl FirstPasses {
    /// `None` where one of the files was not applied.
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
