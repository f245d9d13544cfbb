//! Is what was learned true? Each boot is left out, predicted from the others and compared; and each is predicted from the older ones
//! alone, as it would have been.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_decide::flight::Appeared;
use windrow_plan::knowledge::{LearnedTimes, Seen};
use windrow_plan::readiness::node::NodeRole;

use crate::boot_set::BootSet;
use crate::row::{ObservedBoot, thing_words};
use crate::summary::{
    BootDeeds, LearnedEntry, Outcome, PhaseEntry, Summary, VersionSpan, attribute, numbers,
};

/// Most cases of a sort that are listed; all are counted.
const MOST_CASES: usize = 1000;

/// How true predictions are of boots that they were not made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backtest {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Backtest`
    pub kind: String,
    /// How many boots there are.
    pub boots: usize,
    /// Each boot predicted from all others.
    pub leave_one_out: BacktestRound,
    /// Each boot predicted from the older ones.
    pub by_older: BacktestRound,
}

/// One way to leave boots out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BacktestRound {
    /// How many boots something was predicted of.
    pub predicted: usize,
    /// All times together, and then each sort by itself.
    pub coverage: Vec<Coverage>,
    /// Things that enough boots say come, so that a plan counts on them, and that came from nobody.
    pub wrong_verdicts: Vec<Miss>,
    /// Things that came from somebody else.
    pub wrong_providers: Vec<Miss>,
    /// Things that were said to come, by however few boots, and came from nobody.
    pub did_not_come: Vec<Miss>,
    /// How many things came as it was said.
    pub came: usize,
    /// How many things came of which nothing was said.
    pub not_predicted: usize,
    /// Times with the intervals that they were predicted to fall into.
    pub cases: Vec<BacktestCase>,
}

/// How often a time fell into its intervals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// What was predicted: `all`, `phase api`, `the chart widgets`.
    pub of: String,
    /// How many times.
    pub cases: usize,
    /// How many of them fell between `p25` and `p75`.
    pub in_half: usize,
    /// How many of them fell between `p5` and `p95`.
    pub in_most: usize,
}

/// Something that was predicted and was otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Miss {
    /// The boot that was left out.
    pub boot: String,
    /// What.
    pub what: String,
    /// Who was said to bring it.
    pub by: String,
    /// On how many boots.
    pub boots: u32,
    /// Of how many.
    pub of: u32,
    /// From whom it came; absent where it did not come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came_from: Option<String>,
}

/// A time and its intervals, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BacktestCase {
    /// The boot that was left out.
    pub boot: String,
    /// What was predicted.
    pub of: String,
    /// How long it took.
    pub seconds: f64,
    /// From how many boots it was predicted.
    pub boots: u32,
    /// The bounds of the intervals: `p5`, `p25`, the middle, `p75`, `p95`.
    pub predicted: [f64; 5],
}

impl Backtest {
    /// Of these boots. `progress` is called before each prediction, with its number and how many there are.
    pub fn run(set: &BootSet, mut progress: impl FnMut(usize, usize)) -> Self {
        let boots = set.boots();
        let total = boots.len() * 2;
        let (mut all, mut older) = (BacktestRound::default(), BacktestRound::default());
        for (number, held) in boots.iter().enumerate() {
            progress(number * 2, total);
            let others = boots.iter().filter(|boot| boot.id != held.id);
            let others: Vec<&ObservedBoot> = others.copied().collect();
            all.compare(held, &Summary::of_rows(&others));
            progress(number * 2 + 1, total);
            older.compare(held, &Summary::of_rows(&boots[..number]));
        }
        all.sort_out();
        older.sort_out();
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "Backtest".to_owned(),
            boots: boots.len(),
            leave_one_out: all,
            by_older: older,
        }
    }
}

impl BacktestRound {
    fn compare(&mut self, held: &ObservedBoot, known: &Summary) {
        let before = self.counts();
        self.compare_phases(held, known);
        let boot = attribute(&[held]);
        let boot = [&*boot[0]];
        let deeds = BootDeeds::of(&boot);
        for deed in &deeds.deeds {
            let entries = known.entries.iter().filter(|entry| {
                entry.by.is_same(&deed.provider) && entry.versions.includes(deed.version)
            });
            let entries: Vec<&LearnedEntry> = entries.collect();
            for entry in &entries {
                self.compare_entry(held, entry, deeds.outcomes(deed, entry));
            }
            let is_said = |what: &Appeared| entries.iter().any(|entry| entry.things.contains(what));
            let (said, unsaid) = deed.count(is_said);
            self.came += said;
            self.not_predicted += unsaid;
        }
        self.predicted += usize::from(before != self.counts());
    }

    /// How much was predicted so far.
    fn counts(&self) -> [usize; 4] {
        let (others, missing) = (self.wrong_providers.len(), self.did_not_come.len());
        [self.coverage.len(), self.came, others, missing]
    }

    fn compare_phases(&mut self, held: &ObservedBoot, known: &Summary) {
        let version = VersionSpan::only(numbers(held.platform_version()));
        for phase in held.phases.iter().filter(|phase| !phase.open && !held.cut) {
            let is_of = |entry: &&PhaseEntry| {
                entry.phase == phase.phase.0
                    && Some(entry.platform) == held.platform
                    && entry.versions == version
                    && entry.installed == held.installed
            };
            let find = |role: Option<NodeRole>, hardware: &Option<String>| {
                let mut entries = known.phases.iter().filter(is_of);
                entries.find(|entry| entry.role == role && entry.hardware == *hardware)
            };
            // As a node takes them: its own class before any.
            let of = |role| find(role, &held.hardware).or_else(|| find(role, &None));
            let entry = of(held.known_role()).or_else(|| of(None));
            if let Some(entry) = entry {
                let of = format!("phase {}", phase.phase.0.as_str());
                self.count(held, of, phase.ms, &entry.times, entry.seen.boots);
            }
        }
    }

    fn compare_entry(&mut self, held: &ObservedBoot, entry: &LearnedEntry, outcome: Outcome) {
        let miss = |what, came_from| Miss {
            boot: held.id.clone(),
            what: thing_words(what),
            by: entry.by.words(),
            boots: entry.seen.boots,
            of: entry.seen.of,
            came_from,
        };
        match outcome {
            Outcome::Came(Some(ms)) => {
                if let Some((times, timed)) = entry.times_on(held.hardware.as_deref()) {
                    let timed = u32::try_from(timed).unwrap_or(u32::MAX);
                    self.count(held, entry.by.words(), ms, &times, timed);
                }
            }
            Outcome::Came(None) | Outcome::NotKnown => {}
            Outcome::Missed(what) => {
                if Seen::is_firm(&entry.seen) {
                    self.wrong_verdicts.push(miss(&what, None));
                }
                self.did_not_come.push(miss(&what, None));
            }
            Outcome::FromOther(what, from) => self.wrong_providers.push(miss(&what, Some(from))),
        }
    }

    fn count(
        &mut self,
        held: &ObservedBoot,
        of: String,
        ms: u64,
        times: &LearnedTimes,
        boots: u32,
    ) {
        let time = Duration::from_millis(ms);
        // One row a case; they are summed up at the end.
        self.coverage.push(Coverage {
            of: of.clone(),
            cases: 1,
            in_half: usize::from((times.p25..=times.p75).contains(&time)),
            in_most: usize::from((times.p5..=times.p95).contains(&time)),
        });
        if self.cases.len() < MOST_CASES {
            let bounds = [times.p5, times.p25, times.half, times.p75, times.p95];
            self.cases.push(BacktestCase {
                boot: held.id.clone(),
                of,
                seconds: time.as_secs_f64(),
                boots,
                predicted: bounds.map(|bound| bound.as_secs_f64()),
            });
        }
    }

    fn sort_out(&mut self) {
        let mut sums: BTreeMap<String, Coverage> = BTreeMap::new();
        let mut all = Coverage {
            of: "all".to_owned(),
            ..Coverage::default()
        };
        for one in self.coverage.drain(..) {
            all.add(&one);
            let of = one.of.clone();
            let sum = sums.entry(of.clone()).or_insert_with(|| Coverage {
                of,
                ..Coverage::default()
            });
            sum.add(&one);
        }
        self.coverage.push(all);
        self.coverage.extend(sums.into_values());
        for misses in [
            &mut self.wrong_verdicts,
            &mut self.wrong_providers,
            &mut self.did_not_come,
        ] {
            misses.truncate(MOST_CASES);
        }
    }
}

impl Coverage {
    fn add(&mut self, one: &Self) {
        self.cases += one.cases;
        self.in_half += one.in_half;
        self.in_most += one.in_most;
    }
}
