//! Summarizes many bootstraps.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use windrow_harvester::incidents;
use windrow_model::manifest::ManifestPath;

use super::ending::{because, ended, stays_held};
use super::prediction::Prediction;
use super::rehearsal::{
    EndCount, Ending, FileFate, RecognisedIncident, Side, Span, StillHeld, TimelineEntry, Weight,
    WorkRange,
};
use crate::{DeployCounts, HappeningKind, Run, SimulatedDirectory};

/// Number of failures per file in the timeline.
const TOLD: usize = 3;

pub(super) struct Summary {
    start: Timestamp,
    /// Index of the node; 0 is the first.
    server: usize,
    ends: Vec<EndCount>,
    files: BTreeMap<ManifestPath, FileFate>,
    machines: BTreeMap<String, BTreeMap<String, u64>>,
    work: Option<WorkRange>,
    over: Option<Span>,
    /// The end of each bootstrap, and when its manifests had all been applied, in seconds.
    overs: Vec<f64>,
    manifests: Vec<f64>,
    recognised: Vec<RecognisedIncident>,
    worst: Option<WorstRun>,
}

/// The stored parts of the first run with the worst end.
struct WorstRun {
    ended: Ending,
    seed: u64,
    timeline: Vec<TimelineEntry>,
    kept: Vec<StillHeld>,
}

impl Summary {
    pub(super) fn new(start: Timestamp, server: usize) -> Self {
        Self {
            start,
            server,
            ends: Vec::new(),
            files: BTreeMap::new(),
            machines: BTreeMap::new(),
            work: None,
            over: None,
            overs: Vec::new(),
            manifests: Vec::new(),
            recognised: Vec::new(),
            worst: None,
        }
    }

    /// Adds a run and the incidents in its final state.
    pub(super) fn take(&mut self, run: &Run, left: &[incidents::IncidentFinding]) {
        for finding in left {
            self.recognise(RecognisedIncident {
                code: finding.code,
                subject: finding.subject.clone(),
                message: finding.message.clone(),
                advice: finding.advice.clone(),
                seeds: 1,
            });
        }
        let verdict = ended(run);
        match self.ends.iter_mut().find(|end| end.verdict == verdict) {
            Some(end) => end.seeds += 1,
            None => self.ends.push(EndCount {
                verdict,
                seeds: 1,
                first_seed: run.seed,
                because: because(run),
            }),
        }
        self.fates(run);
        for (machine, state) in &run.outcome.machines {
            let state = if state.is_empty() { "no status" } else { state };
            let states = self.machines.entry(machine.clone()).or_default();
            *states.entry(state.to_owned()).or_default() += 1;
        }
        self.work = Some(match self.work {
            None => WorkRange {
                least: run.counts,
                most: run.counts,
            },
            Some(work) => WorkRange {
                least: combine(u64::min, work.least, run.counts),
                most: combine(u64::max, work.most, run.counts),
            },
        });
        if matches!(verdict, Ending::Complete | Ending::Unknown) {
            let over = run.log.last().map_or(self.start, |last| last.at);
            let over = seconds(self.start, over);
            widen(&mut self.over, over);
            self.overs.push(over);
            self.manifests.extend(self.all_applied(run));
        }
        if self
            .worst
            .as_ref()
            .is_none_or(|worst| verdict > worst.ended)
        {
            self.worst = Some(WorstRun {
                ended: verdict,
                seed: run.seed,
                timeline: timeline(run, self.server, self.start),
                kept: stays_held(run, self.server),
            });
        }
    }

    /// When the last file was first applied; `None` if none was applied.
    fn all_applied(&self, run: &Run) -> Option<f64> {
        let own = run.log.iter().filter(|one| one.server == self.server);
        let mut first: BTreeMap<&ManifestPath, Timestamp> = BTreeMap::new();
        for happening in own {
            if let HappeningKind::Applied { file } = &happening.what {
                first.entry(file).or_insert(happening.at);
            }
        }
        let last = first.into_values().max()?;
        Some(seconds(self.start, last))
    }

    fn recognise(&mut self, more: RecognisedIncident) {
        let known = self.recognised.iter_mut();
        let same =
            |one: &&mut RecognisedIncident| (one.code, &one.subject) == (more.code, &more.subject);
        match known.into_iter().find(same) {
            Some(one) => one.seeds += more.seeds,
            None => self.recognised.push(more),
        }
    }

    /// Adds the summary of later seeds.
    pub(super) fn merge(&mut self, later: Self) {
        for end in later.ends {
            match self.ends.iter_mut().find(|one| one.verdict == end.verdict) {
                Some(one) => one.seeds += end.seeds,
                None => self.ends.push(end),
            }
        }
        for more in later.recognised {
            self.recognise(more);
        }
        for (path, fate) in later.files {
            let one = self.files.entry(path).or_default();
            one.applied_in += fate.applied_in;
            one.held_in += fate.held_in;
            one.failures = one.failures.max(fate.failures);
            one.failed_in += fate.failed_in;
            one.error = fate.error.or(one.error.take());
            for (span, more) in [
                (&mut one.applied, fate.applied),
                (&mut one.released, fate.released),
            ] {
                for at in more.iter().flat_map(|more| [more.from, more.to]) {
                    widen(span, at);
                }
            }
        }
        for (machine, states) in later.machines {
            let known = self.machines.entry(machine).or_default();
            for (state, count) in states {
                *known.entry(state).or_default() += count;
            }
        }
        self.work = match (self.work, later.work) {
            (Some(one), Some(more)) => Some(WorkRange {
                least: combine(u64::min, one.least, more.least),
                most: combine(u64::max, one.most, more.most),
            }),
            (one, more) => one.or(more),
        };
        self.overs.extend(later.overs);
        self.manifests.extend(later.manifests);
        for at in later.over.iter().flat_map(|over| [over.from, over.to]) {
            widen(&mut self.over, at);
        }
        if let Some(worst) = later.worst
            && self
                .worst
                .as_ref()
                .is_none_or(|known| worst.ended > known.ended)
        {
            self.worst = Some(worst);
        }
    }

    pub(super) fn worst(&self) -> Ending {
        self.worst
            .as_ref()
            .map_or(Ending::Complete, |worst| worst.ended)
    }

    fn fates(&mut self, run: &Run) {
        let Some((applied, unapplied, _)) = run.results_of(self.server) else {
            return;
        };
        for path in applied.iter().chain(unapplied) {
            self.files.entry(path.clone()).or_default();
        }
        for path in applied {
            if let Some(fate) = self.files.get_mut(path) {
                fate.applied_in += 1;
            }
        }
        let mut seen: BTreeMap<ManifestPath, (bool, bool, bool, u64)> = BTreeMap::new();
        let own = run.log.iter().filter(|one| one.server == self.server);
        for happening in own {
            let at = seconds(self.start, happening.at);
            match &happening.what {
                HappeningKind::Applied { file } => {
                    let first = &mut seen.entry(file.clone()).or_default().0;
                    if !std::mem::replace(first, true) {
                        let fate = self.files.entry(file.clone()).or_default();
                        widen(&mut fate.applied, at);
                    }
                }
                HappeningKind::ApplyFailed { file, message, .. } => {
                    let failures = &mut seen.entry(file.clone()).or_default().3;
                    *failures += 1;
                    let first = u64::from(*failures == 1);
                    let fate = self.files.entry(file.clone()).or_default();
                    fate.failures = fate.failures.max(*failures);
                    fate.failed_in += first;
                    fate.error = Some(message.clone());
                }
                HappeningKind::Held { marker, .. } => {
                    let first = &mut seen.entry(marker.file()).or_default().1;
                    if !std::mem::replace(first, true) {
                        let fate = self.files.entry(marker.file()).or_default();
                        fate.held_in += 1;
                    }
                }
                HappeningKind::Lifted { marker } => {
                    let first = &mut seen.entry(marker.file()).or_default().2;
                    if !std::mem::replace(first, true) {
                        let fate = self.files.entry(marker.file()).or_default();
                        widen(&mut fate.released, at);
                    }
                }
                _ => {}
            }
        }
    }

    /// The summary of this node, which started with these files.
    pub(super) fn side(mut self, files: &SimulatedDirectory) -> Side {
        for (path, fate) in &mut self.files {
            fate.skipped = files.skipped_by(path);
        }
        self.ends
            .sort_by_key(|end| std::cmp::Reverse((end.seeds, end.verdict)));
        self.recognised
            .sort_by_key(|one| std::cmp::Reverse(one.seeds));
        let (seed, timeline, stays_held) = match self.worst {
            None => Default::default(),
            Some(worst) => (worst.seed, worst.timeline, worst.kept),
        };
        Side {
            ends: self.ends,
            files: self.files,
            machines: self.machines,
            work: self.work.unwrap_or_default(),
            over: self.over,
            over_in: Prediction::new(self.overs),
            manifests_in: Prediction::new(self.manifests),
            stays_held,
            recognised: self.recognised,
            seed,
            timeline,
        }
    }
}

fn combine(choose: fn(u64, u64) -> u64, one: DeployCounts, other: DeployCounts) -> DeployCounts {
    DeployCounts {
        passes: choose(one.passes, other.passes),
        applies: choose(one.applies, other.applies),
        failed: choose(one.failed, other.failed),
        repeated: choose(one.repeated, other.repeated),
        events: choose(one.events, other.events),
        writes: choose(one.writes, other.writes),
    }
}

fn widen(span: &mut Option<Span>, at: f64) {
    *span = Some(match *span {
        None => Span { from: at, to: at },
        Some(span) => Span {
            from: span.from.min(at),
            to: span.to.max(at),
        },
    });
}

/// The events that a user wants to see: the first failures of each file, and no passes.
fn timeline(run: &Run, server: usize, start: Timestamp) -> Vec<TimelineEntry> {
    let mut failures: BTreeMap<&str, usize> = BTreeMap::new();
    let mut denied = 0;
    let mut moments = Vec::new();
    for happening in &run.log {
        // The first node's timeline contains the events of the whole cluster. Every node's timeline contains the steps of the
        // platform.
        let everywhere = matches!(happening.what, HappeningKind::Platform { .. });
        if happening.server != server && !(everywhere && happening.server == 0) {
            continue;
        }
        let (weight, file) = match &happening.what {
            HappeningKind::PassBegan { .. } | HappeningKind::PassEnded { .. } => continue,
            HappeningKind::Served { .. } | HappeningKind::Pruned { .. } => (Weight::Small, None),
            HappeningKind::ApiReady
            | HappeningKind::Platform { .. }
            | HappeningKind::Reboot
            | HappeningKind::JoinedAsAgent => (Weight::Step, None),
            HappeningKind::Applied { file } => {
                // Applied repeatedly while another file fails.
                let count = failures.entry(file).or_default();
                *count += 1;
                if *count > TOLD {
                    continue;
                }
                (Weight::Good, Some(file.clone()))
            }
            HappeningKind::Became { .. } => (Weight::Good, None),
            HappeningKind::Written { file, .. } => (Weight::Small, Some(file.as_str().into())),
            HappeningKind::ApplyFailed { file, .. } => {
                let count = failures.entry(file).or_default();
                *count += 1;
                if *count > TOLD {
                    continue;
                }
                (Weight::Bad, Some(file.clone()))
            }
            HappeningKind::Rancherd { failed, .. } => match failed {
                true => (Weight::Bad, None),
                false => (Weight::Step, None),
            },
            HappeningKind::NotConfigured { .. } => (Weight::Bad, None),
            HappeningKind::Hung { file } => (Weight::Bad, Some(file.clone())),
            HappeningKind::Denied { .. } => {
                denied += 1;
                if denied > TOLD {
                    continue;
                }
                (Weight::Bad, None)
            }
            HappeningKind::PassAborted { .. } | HappeningKind::Fault { .. } => (Weight::Bad, None),
            HappeningKind::Held { marker, .. } | HappeningKind::Lifted { marker } => {
                (Weight::Staging, Some(marker.file()))
            }
        };
        moments.push(TimelineEntry {
            at: seconds(start, happening.at),
            what: happening.what.to_string(),
            weight,
            file,
        });
    }
    moments
}

fn seconds(start: Timestamp, at: Timestamp) -> f64 {
    Duration::try_from(at.duration_since(start)).map_or(0.0, |passed| passed.as_secs_f64())
}
