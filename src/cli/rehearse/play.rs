//! All seeds of a setup, on every processor, within a time limit, and with progress on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use windrow_simulate::rehearse::layout::{LayoutProposal, LayoutTrial};
use windrow_simulate::rehearse::{PartialRehearsal, Progress};
use windrow_simulate::{PreparedSetup, Setup};

/// Shorter simulations show no progress.
const SILENT: Duration = Duration::from_secs(1);

/// Simulates the seeds within the time limit. The result is the same on any number of processors.
pub(super) fn play(
    setup: &Setup,
    known: &PreparedSetup,
    seeds: u64,
    timeout: Duration,
) -> PartialRehearsal {
    let part = |range, progress: &Progress<'_>| {
        PartialRehearsal::play_while((setup, known), range, progress)
    };
    let played = in_parallel(seeds, timeout, part, PartialRehearsal::merge);
    played.unwrap_or_else(|| PartialRehearsal::play(setup, 1..=seeds))
}

/// Simulates a proposal and the given files within the time limit.
pub(super) fn try_layout(
    proposal: &LayoutProposal,
    (given, known, other): (&Setup, &PreparedSetup, &Setup),
    seeds: u64,
    timeout: Duration,
) -> Option<LayoutTrial> {
    let known_other = PreparedSetup::read(other);
    let setups = ((given, known), (other, &known_other));
    let part =
        |range, progress: &Progress<'_>| LayoutTrial::play_while(proposal, setups, range, progress);
    in_parallel(seeds, timeout, part, LayoutTrial::merge)
}

/// Simulates a part of the seeds on every processor, and joins the parts in the order of the seeds.
fn in_parallel<Part: Send>(
    seeds: u64,
    timeout: Duration,
    part: impl Fn(RangeInclusive<u64>, &Progress<'_>) -> Part + Sync,
    merge: impl Fn(&mut Part, Part),
) -> Option<Part> {
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let each = seeds.div_ceil(workers).max(1);
    let ranges: Vec<_> = (0..workers)
        .map(|worker| worker * each + 1..=((worker + 1) * each).min(seeds))
        .filter(|range| !range.is_empty())
        .collect();
    let clock = RehearsalClock::new(seeds, timeout);
    let played = std::thread::scope(|scope| {
        let (part, clock) = (&part, &clock);
        let parts: Vec<_> = ranges
            .into_iter()
            .map(|range| {
                scope.spawn(move || {
                    let asked = Progress {
                        go_on: &|| clock.goes_on(),
                        played: &|| clock.seed_played(),
                    };
                    part(range, &asked)
                })
            })
            .collect();
        let mut all: Option<Part> = None;
        for part in parts {
            let part = match part.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            match &mut all {
                Some(all) => merge(all, part),
                None => all = Some(part),
            }
        }
        all
    });
    clock.clear();
    played
}

struct RehearsalClock {
    began: Instant,
    timeout: Duration,
    seeds: u64,
    played: AtomicU64,
    shown: AtomicBool,
    terminal: bool,
}

impl RehearsalClock {
    fn new(seeds: u64, timeout: Duration) -> Self {
        Self {
            began: Instant::now(),
            timeout,
            seeds,
            played: AtomicU64::new(0),
            shown: AtomicBool::new(false),
            terminal: std::io::stderr().is_terminal(),
        }
    }

    fn goes_on(&self) -> bool {
        self.began.elapsed() < self.timeout
    }

    fn seed_played(&self) {
        let played = self.played.fetch_add(1, Ordering::Relaxed) + 1;
        if self.terminal && self.began.elapsed() >= SILENT {
            self.shown.store(true, Ordering::Relaxed);
            let seeds = self.seeds;
            self.write(&format!("\rwindrow: simulating: {played} of {seeds} boots"));
        }
    }

    fn clear(&self) {
        if self.shown.load(Ordering::Relaxed) {
            self.write("\r\u{1b}[K");
        }
    }

    fn write(&self, text: &str) {
        // Progress that cannot be shown is not an error.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}
