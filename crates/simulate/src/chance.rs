//! Randomness that is passed in: the same seed gives the same run on every machine.

use std::time::Duration;

/// A small generator (SplitMix64). Good enough to spread delays and faults, not for secrets.
#[derive(Debug, Clone)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// A generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator of its own for one purpose, so that drawing more of one thing does not shift
    /// everything else.
    #[must_use]
    pub fn branch(&self, purpose: u64) -> Self {
        let mut branch = Self::new(self.state ^ purpose.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        branch.next_u64();
        branch
    }

    /// The next 64 bits.
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

    /// One of the items; `None` when there are none.
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
