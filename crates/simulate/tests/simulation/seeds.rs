//! The seeds that a test tries.
//!
//! A failing seed is printed with how to replay it. `WINDROW_SEEDS=20000` tries more seeds, `WINDROW_SEEDS=20000..40000` these,
//! and `WINDROW_SEED=4711` just one.

use windrow_simulate::{Faults, Run, Setup, with_windrow};

use crate::bootstraps::timeline;
use crate::rules::{check, check_oracle};

#[allow(
    clippy::disallowed_methods,
    reason = "a test takes its seeds from whoever runs it"
)]
pub(crate) fn seeds() -> std::ops::Range<u64> {
    let number = |text: &str| text.parse::<u64>().expect("a number");
    if let Ok(seed) = std::env::var("WINDROW_SEED") {
        let seed = number(&seed);
        return seed..seed + 1;
    }
    let seeds = std::env::var("WINDROW_SEEDS").unwrap_or_else(|_| "60".to_owned());
    let (from, to) = seeds.split_once("..").unwrap_or(("0", &seeds));
    number(from)..number(to)
}

/// Runs with every fault.
pub(crate) fn try_seed(
    name: &str,
    setup: &Setup,
    kept: &[String],
    seed: u64,
) -> Result<(), BrokenRule> {
    judge(name, setup, kept, with_windrow(setup, &Faults::ALL, seed))
}

pub(crate) fn judge(
    name: &str,
    setup: &Setup,
    kept: &[String],
    run: Run,
) -> Result<(), BrokenRule> {
    let broken = |problem| BrokenRule {
        problem: format!("{name}, seed {}: {problem}", run.seed),
        timeline: timeline(&run),
    };
    check(setup, kept, &run).map_err(broken)
}

/// The same for a run that cannot be complete: only the findings of the oracle count.
pub(crate) fn judge_oracle(name: &str, run: Run) -> Result<(), BrokenRule> {
    let broken = |problem| BrokenRule {
        problem: format!("{name}, seed {}: {problem}", run.seed),
        timeline: timeline(&run),
    };
    check_oracle(&run).map_err(broken)
}

/// The same, and a problem that the test itself has found.
pub(crate) fn judge_with(name: &str, run: Run, problem: Option<String>) -> Result<(), BrokenRule> {
    match problem {
        Some(problem) => Err(BrokenRule {
            problem: format!("{name}, seed {}: {problem}", run.seed),
            timeline: timeline(&run),
        }),
        None => judge_oracle(name, run),
    }
}

/// A broken rule, and the run that broke it.
pub(crate) struct BrokenRule {
    problem: String,
    timeline: String,
}

/// Tries every seed, and then reports all that break a rule: the run of the first, and how to replay it.
pub(crate) fn for_all_seeds(mut test: impl FnMut(u64) -> Result<(), BrokenRule>) {
    const MOST: usize = 20;
    let broken = seeds().filter_map(|seed| test(seed).err());
    let broken: Vec<BrokenRule> = broken.take(MOST).collect();
    let problems: Vec<&str> = broken.iter().map(|one| one.problem.as_str()).collect();
    if let Some(first) = broken.first() {
        panic!(
            "{}\n\nthe first:\n{}\nreplay: WINDROW_SEED=n cargo test -p windrow-simulate --test simulation",
            problems.join("\n"),
            first.timeline
        );
    }
}
