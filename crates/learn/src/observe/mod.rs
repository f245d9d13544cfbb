//! Turns flights into rows: phases as in the boot's timeline, objects with their providers, and refusals.

mod refusals;
mod who;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windrow_decide::FileStage;
use windrow_decide::flight::{FlightLine, RecordedConfiguration, RecordedMachine, RecordedStage};
use windrow_model::manifest::{ManifestPath, sha256_hex};
use windrow_plan::readiness::node::Phase;
use windrow_replay::{BootTimeline, Flights, RecordedBoot, boots};

use self::refusals::Refusals;
use self::who::Bringers;
use crate::bounds::{LONGEST_MS, MOST_POLLS, complaint, is_word};
use crate::row::{ObservedBoot, ObservedPhase, PhaseName, ROW_FORMAT};

/// If a flight begins this long after its process, its file was begun again during the boot.
const CUT: SignedDuration = SignedDuration::from_secs(30);
/// A smaller step of the clock is caused by slewing or rounding.
const JUMP: SignedDuration = SignedDuration::from_secs(5);
/// How many digits of a digest distinguish boots.
const ID_DIGITS: usize = 16;

/// The rows from a flight.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    pub boots: Vec<ObservedBoot>,
    /// Sentences about the boots that could not be used.
    pub refused: Vec<String>,
}

pub fn observe(flights: &Flights) -> Observed {
    let recorded = boots(flights);
    let mut observed = Observed::default();
    let mut was_installed = false;
    for (number, boot) in recorded.iter().enumerate() {
        let row = match observe_boot(boot, was_installed) {
            Ok(row) => row,
            Err(why) => {
                observed.refused.push(format!("boot {}: {why}", number + 1));
                continue;
            }
        };
        was_installed |= row.end.is_end();
        match complaint(&row) {
            Some(why) => observed.refused.push(format!("boot {}: {why}", number + 1)),
            None => observed.boots.push(row),
        }
    }
    observed
}

fn observe_boot(boot: &RecordedBoot<'_>, was_installed: bool) -> Result<ObservedBoot, String> {
    let timeline = BootTimeline::from_boot(boot, &[])?;
    let mut walk = BootWalk::default();
    for segment in &boot.segments {
        walk.segment();
        for (_, line) in &segment.lines {
            walk.take(line);
        }
    }
    let machine = walk.machine;
    let configuration = walk.configuration;
    let word = |text: Option<String>| text.filter(|text| is_word(text));
    Ok(ObservedBoot {
        format: ROW_FORMAT,
        at: timeline.began,
        id: id(boot, timeline.began),
        windrow: timeline.windrow.clone(),
        platform: configuration.and_then(|configuration| configuration.platform),
        kubernetes: word(machine.and_then(|machine| machine.kubernetes.clone())),
        harvester: word(machine.and_then(|machine| machine.harvester.clone())),
        role: machine.map(|machine| machine.role).unwrap_or_default(),
        hardware: word(machine.and_then(|machine| machine.hardware.clone())),
        installed: was_installed || walk.had_applied,
        cut: walk.is_cut,
        watched: walk.watched,
        end: timeline.end.state,
        phases: phases(&timeline),
        polls: polls(&timeline),
        brought: walk.bringers.finish(&walk.applied, walk.api),
        refusals: walk.refusals.finish(),
    })
}

/// The kernel's id of a boot is random. Without one, the beginning of the boot is used.
fn id(boot: &RecordedBoot<'_>, began: Timestamp) -> String {
    let mut id = match boot.id() {
        Some(id) => sha256_hex(id.as_bytes()),
        None => sha256_hex(began.to_string().as_bytes()),
    };
    id.truncate(ID_DIGITS);
    id
}

/// The phases of a boot. The last one, and those that only mark the end of the boot, do not count.
fn phases(timeline: &BootTimeline) -> Vec<ObservedPhase> {
    let mut phases: BTreeMap<PhaseName, (f64, bool)> = BTreeMap::new();
    for stay in &timeline.phases {
        if matches!(stay.name, Phase::Ready | Phase::Staged) {
            continue;
        }
        let (seconds, open) = phases.entry(PhaseName(stay.name)).or_default();
        *seconds += (stay.to - stay.from).max(0.0);
        *open |= !stay.ended;
    }
    let phases = phases.into_iter();
    phases
        .map(|(phase, (seconds, open))| ObservedPhase {
            phase,
            // `as` from a float to an integer stays within bounds.
            ms: (seconds * 1000.0).round() as u64,
            open,
        })
        .collect()
}

/// How long RKE2 took with each file, in milliseconds.
fn polls(timeline: &BootTimeline) -> Vec<u64> {
    let seconds = timeline.files.iter().filter_map(|file| file.poll_seconds);
    let all = seconds.map(|one| (one * 1000.0).round() as u64).collect();
    even_choice(all, MOST_POLLS)
}

/// At most this many numbers, sorted: the minimum, the maximum, and numbers at even distances between.
pub(crate) fn even_choice(mut all: Vec<u64>, most: usize) -> Vec<u64> {
    all.sort_unstable();
    let last = all.len().saturating_sub(1);
    let chosen = all.len().min(most);
    let gaps = chosen.saturating_sub(1).max(1);
    (0..chosen)
        .map(|number| all[number * last / gaps])
        .collect()
}

/// A time of the node's clock, and how often the clock was set before it. Two times are compared only if the clock was
/// not set between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockTime {
    at: Timestamp,
    set: u32,
}

impl ClockTime {
    /// The time after another one, in milliseconds. `None` if it is unknown, or impossible.
    pub(crate) fn since(self, earlier: Self) -> Option<u64> {
        /// Times of two programs differ by this much.
        const SLACK: SignedDuration = SignedDuration::from_secs(2);
        if self.set != earlier.set {
            return None;
        }
        let passed = self.at.duration_since(earlier.at);
        if passed < -SLACK {
            return None;
        }
        let ms = u64::try_from(passed.as_millis()).unwrap_or(0);
        (ms <= LONGEST_MS).then_some(ms)
    }

    pub(crate) fn at(self) -> Timestamp {
        self.at
    }

    /// Another time of the same clock.
    pub(crate) fn with(self, at: Timestamp) -> Self {
        Self { at, ..self }
    }
}

/// One walk through the lines of a boot.
#[derive(Debug, Default)]
struct BootWalk<'f> {
    configuration: Option<&'f RecordedConfiguration>,
    machine: Option<&'f RecordedMachine>,
    /// When kube-apiserver first answered.
    api: Option<ClockTime>,
    /// When RKE2 had applied each file, if that was in this boot.
    applied: BTreeMap<ManifestPath, Option<ClockTime>>,
    bringers: Bringers<'f>,
    refusals: Refusals,
    /// How often the clock was set.
    set: u32,
    started: Option<Timestamp>,
    last: Option<Timestamp>,
    /// False before the first decision.
    has_begun: bool,
    is_cut: bool,
    /// A file was applied before this boot.
    had_applied: bool,
    watched: bool,
}

impl<'f> BootWalk<'f> {
    /// Another process, or another file: its times are not compared with earlier ones.
    fn segment(&mut self) {
        self.started = None;
    }

    fn take(&mut self, line: &'f FlightLine) {
        match line {
            FlightLine::Flight(_) | FlightLine::Repair(_) => {}
            FlightLine::Configuration(configuration) => self.configuration = Some(configuration),
            FlightLine::Files(files) => self.bringers.take_files(files),
            FlightLine::Machine(machine) => {
                self.watched = true;
                // A known value stays known.
                let before = self.machine.replace(machine);
                if let Some(before) = before
                    && (machine.kubernetes.is_none() && before.kubernetes.is_some())
                {
                    self.machine = Some(before);
                }
            }
            FlightLine::Appeared(appearance) => {
                self.watched = true;
                let at = self.time(appearance.at);
                self.bringers.take_appearance(appearance, at);
            }
            FlightLine::Release(release) => {
                self.watched = true;
                // The times of all lines show whether the clock was set.
                self.time(release.at);
                self.bringers.take_release(release);
            }
            FlightLine::Decision(decision) => self.take_decision(decision),
        }
    }

    fn time(&mut self, at: Timestamp) -> ClockTime {
        if self
            .last
            .is_some_and(|last| last.duration_since(at) >= JUMP)
        {
            self.set += 1;
        }
        self.last = Some(at);
        ClockTime { at, set: self.set }
    }

    fn take_decision(&mut self, decision: &windrow_decide::flight::RecordedDecision) {
        let api = decision.facts.get("api").and_then(Value::as_object);
        let field = |name: &str| -> Option<Timestamp> {
            api.and_then(|api| api.get(name)?.as_str()?.parse().ok())
        };
        if let Some(now) = field("started") {
            // The process reports its start, and that time moves when the clock is set.
            let moved = |before: Timestamp| now.duration_since(before).abs() >= JUMP;
            if self.started.is_some_and(moved) {
                self.set += 1;
                self.last = None;
            }
            self.started = Some(now);
        }
        let at = self.time(decision.at);
        let is_first = !self.has_begun;
        if is_first {
            self.has_begun = true;
            let process = self.started.unwrap_or(decision.at);
            self.is_cut = decision.at.duration_since(process) > CUT;
            let ledger = decision.ledger.iter();
            let mut entries = ledger.flat_map(|ledger| ledger.files.values());
            let began = decision.at.min(process);
            self.had_applied = entries.any(|entry| {
                matches!(entry.state, FileStage::Applied { .. }) && entry.since < began
            });
        }
        if let Some(answered) = field("firstReachable") {
            self.api.get_or_insert(at.with(answered));
        }
        for path in &decision.forgotten {
            self.applied.remove(path);
        }
        for (path, stage) in &decision.files {
            match stage {
                RecordedStage::Applied => {
                    // Facts in the first decision were true before it.
                    let when = (!is_first).then_some(at);
                    self.applied.entry(path.clone()).or_insert(when);
                }
                RecordedStage::Held { .. } | RecordedStage::Released => {
                    self.applied.remove(path);
                }
            }
        }
        self.refusals.take(&decision.facts);
    }
}
