//! Randomness that is passed in: the same seed gives the same run on every machine.

use std::time::Duration;

use windrow_plan::knowledge::LearnedTimes;

/// The resolution with which a share is drawn.
const SHARES: u64 = 1 << 32;
/// Upper limit for simulated durations, including those from a knowledge file.
const LONGEST_MILLIS: f64 = 24.0 * 60.0 * 60.0 * 1000.0;

/// A small generator (SplitMix64). Good enough to spread delays and faults, not for secrets.
#[derive(Debug, Clone)]
pub struct Chance {
    state: u64,
}

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A separate generator for one purpose, so that drawing more of one thing does not shift everything else.
    #[must_use]
    pub fn branch(&self, purpose: u64) -> Self {
        let mut branch = Self::new(self.state ^ purpose.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        branch.next_u64();
        branch
    }

    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        match bound {
            0 => 0,
            bound => self.next_u64() % bound,
        }
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A time between the two, in whole milliseconds.
    pub fn between(&mut self, range: (Duration, Duration)) -> Duration {
        let (low, high) = range;
        let span = high.saturating_sub(low).as_millis() as u64;
        low + Duration::from_millis(self.below(span + 1))
    }

    /// A time in the range of earlier boots: its logarithm is assumed to grow evenly from one learned percentile to the next. The
    /// tails are limited: at least half of `p5`, and at most twice `p95`.
    pub fn by_times(&mut self, times: &LearnedTimes) -> Duration {
        let drawn = self.below(SHARES) as f64 / SHARES as f64;
        let millis = |time: Duration| (time.as_millis() as f64).max(1.0);
        let (p5, p95) = (millis(times.p5), millis(times.p95));
        let points = [
            (0.0, p5 / 2.0),
            (0.05, p5),
            (0.25, millis(times.p25)),
            (0.5, millis(times.half)),
            (0.75, millis(times.p75)),
            (0.95, p95),
            (1.0, p95 * 2.0),
        ];
        let pairs = points.windows(2);
        let pair = pairs.rev().find(|pair| pair[0].0 <= drawn);
        let Some([(from, low), (to, high)]) = pair else {
            return times.half;
        };
        let part = (drawn - from) / (to - from);
        let millis = low * (high / low).powf(part);
        Duration::from_millis(millis.round().min(LONGEST_MILLIS) as u64)
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_seed_others() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            (0..8).map(|_| chance.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    fn times(seconds: [u64; 5]) -> LearnedTimes {
        let [p5, p25, half, p75, p95] = seconds.map(Duration::from_secs);
        LearnedTimes {
            p5,
            p25,
            half,
            p75,
            p95,
        }
    }

    #[test]
    fn times_are_drawn_as_they_were_learned_and_their_tails_are_bounded() {
        let learned = times([10, 15, 20, 30, 60]);
        let mut chance = Chance::new(3);
        let drawn: Vec<Duration> = (0..10_000).map(|_| chance.by_times(&learned)).collect();
        let share = |at_most: Duration| {
            let within = drawn.iter().filter(|time| **time <= at_most);
            within.count() as f64 / drawn.len() as f64
        };
        for (time, expected) in [
            (learned.p5, 0.05),
            (learned.p25, 0.25),
            (learned.half, 0.5),
            (learned.p75, 0.75),
            (learned.p95, 0.95),
        ] {
            let found = share(time);
            assert!((found - expected).abs() < 0.02, "{found} for {expected}");
        }
        let bounds = Duration::from_secs(5)..=Duration::from_secs(120);
        assert!(drawn.iter().all(|time| bounds.contains(time)));
    }

    #[test]
    fn absurd_times_draw_no_more_than_a_day_and_times_of_nothing_draw_nearly_none() {
        let mut chance = Chance::new(1);
        let absurd = times([0, 0, 1, u64::MAX / 4000, u64::MAX / 4000]);
        for _ in 0..1_000 {
            assert!(chance.by_times(&absurd) <= Duration::from_secs(24 * 60 * 60));
            assert!(chance.by_times(&times([0; 5])) <= Duration::from_millis(2));
        }
    }

    #[test]
    fn a_time_between_two_times_is_never_outside_of_them() {
        let mut chance = Chance::new(1);
        let range = (Duration::from_millis(5), Duration::from_millis(9));
        for _ in 0..1_000 {
            let drawn = chance.between(range);
            assert!(range.0 <= drawn && drawn <= range.1);
        }
    }
}
