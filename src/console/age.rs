//! Ages that know when their text changes, so that the screen is redrawn then and not sooner.

use std::cell::Cell;

use jiff::{SignedDuration, Timestamp};

use crate::render::lasted;

/// Formats durations, and remembers when the first of the texts will change.
pub(super) struct Ages {
    now: Timestamp,
    next: Cell<Option<Timestamp>>,
}

impl Ages {
    pub(super) fn at(now: Timestamp) -> Self {
        Self {
            now,
            next: Cell::new(None),
        }
    }

    /// The time for which the ages hold.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.next.get()
    }

    /// How long since `from`: `12s`, `4m10s`, `2h05m`, `3d4h`.
    pub(super) fn since(&self, from: Timestamp) -> String {
        let seconds = self.now.duration_since(from).as_secs().max(0);
        let (tick, step) = self.tick(seconds);
        if step == 1 {
            self.again(from.saturating_add(SignedDuration::from_secs(seconds + 1)));
            return lasted(seconds);
        }
        // An age in finer steps must not go back to an earlier tick: it starts with the first coarse step.
        let (least, most) = match step {
            10 => (60, 3_600),
            60 => (3_600, 86_400),
            _ => (86_400, i64::MAX),
        };
        if most < i64::MAX {
            self.again(from.saturating_add(SignedDuration::from_secs(most)));
        }
        lasted(tick.duration_since(from).as_secs().max(least))
    }

    /// How long until `to`; `None` once that has passed. Rounded up, because users wait for it.
    pub(super) fn until(&self, to: Timestamp) -> Option<String> {
        let left = to.duration_since(self.now);
        if left <= SignedDuration::ZERO {
            return None;
        }
        let (tick, _) = self.tick(left.as_secs());
        let left = to.duration_since(tick);
        Some(lasted(left.as_secs() + i64::from(left.subsec_nanos() > 0)))
    }

    /// The last tick of the clock at which ages of this length change, and the seconds between ticks. All ages of a
    /// length change at the same tick, so that the console wakes no more often for many of them than for one.
    fn tick(&self, seconds: i64) -> (Timestamp, i64) {
        let step = match seconds {
            ..60 => 1,
            60..3_600 => 10,
            3_600..86_400 => 60,
            _ => 3_600,
        };
        let now = self.now.as_second();
        let tick = now - now.rem_euclid(step);
        self.again(Timestamp::from_second(tick + step));
        (Timestamp::from_second(tick).unwrap_or(self.now), step)
    }

    fn again(&self, at: Result<Timestamp, jiff::Error>) {
        // A time that a timestamp cannot hold never comes.
        let Ok(at) = at else { return };
        // The clock was set back: the text stays until the clock gets there.
        let at = at.max(self.now);
        self.next
            .set(Some(self.next.get().map_or(at, |next| next.min(at))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn an_age_stands_until_the_next_tick_and_not_for_long() {
        let begin = 1_000_000_000;
        for seconds in [0, 12, 59, 60, 64, 252, 3_599, 3_600, 7_500, 86_399, 273_600] {
            let now = begin + seconds * 1_000 + 300;
            let ages = Ages::at(at(now));
            let text = (ages.since(at(begin)), ages.until(at(begin + 900_000_000)));
            let next = ages.next().unwrap().as_millisecond();
            assert!(next > now);
            let before = Ages::at(at(next - 1));
            let again = (
                before.since(at(begin)),
                before.until(at(begin + 900_000_000)),
            );
            assert_eq!(again, text);
        }
    }

    #[test]
    fn ages_of_more_than_a_minute_change_together_every_ten_seconds() {
        let now = at(1_000_007_000);
        let ages = Ages::at(now);
        for ago in 61..600 {
            ages.since(at(1_000_007_000 - ago * 1_000));
            ages.until(at(1_000_007_000 + ago * 1_000));
        }
        assert_eq!(ages.next(), Some(at(1_000_010_000)));
    }

    #[test]
    fn what_is_left_is_never_shown_too_short() {
        for left in [1, 12, 59, 60, 61, 64, 252, 3_600] {
            let now = at(1_000_003_300);
            let ages = Ages::at(now);
            let text = ages.until(at(1_000_003_300 + left * 1_000)).unwrap();
            assert!(text != lasted(left - 1), "{left}: {text}");
        }
        assert_eq!(Ages::at(at(0)).until(at(0)), None);
        assert_eq!(Ages::at(at(0)).until(at(61_000)).as_deref(), Some("1m01s"));
    }

    #[test]
    fn a_time_that_is_still_to_come_is_no_age() {
        let ages = Ages::at(at(0));
        assert_eq!(ages.since(at(100_000)), "0s");
    }
}
