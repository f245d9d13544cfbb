//! The only place in the daemon that reads the clock.
//!
//! Two clocks are read together: the wall clock, for every reported time, and the monotonic clock, for the daemon's
//! waits. If they drift apart, the wall clock was set.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::locked::lock;

/// A smaller step of the wall clock is slewing or rounding, not a jump.
const JUMP: SignedDuration = SignedDuration::from_secs(5);

/// How long to wait before a stopped clock is checked again.
const STOPPED: Duration = Duration::from_millis(100);

/// The daemon's clock; in the sandbox it runs faster, and can be stopped. Clones are one clock.
#[derive(Debug, Clone)]
pub struct Clock {
    start: Instant,
    /// When a sped-up clock began; `None` for the real one.
    base: Option<Timestamp>,
    speed: u32,
    stops: Arc<Mutex<Stops>>,
}

/// The time for decisions: it includes a step of the wall clock only after `jumped` has reported it. Remembered times
/// are moved by that step then. A time that was taken after the step and before the report would be moved twice.
#[derive(Debug)]
pub(super) struct SteadyClock {
    clock: Clock,
    /// The wall clock at the last look, and how long the other one had run.
    last: (Timestamp, Duration),
}

#[derive(Debug, Default)]
struct Stops {
    over: Duration,
    since: Option<Instant>,
}

impl Clock {
    pub fn real() -> Self {
        Self::new(None, 1)
    }

    /// A clock that shows the time now and runs `speed` times as fast.
    pub fn sped_up(speed: u32) -> Self {
        Self::new(Some(Timestamp::now()), speed.max(1))
    }

    fn new(base: Option<Timestamp>, speed: u32) -> Self {
        let start = Instant::now();
        Self {
            start,
            base,
            speed,
            stops: Arc::default(),
        }
    }

    /// How long it has run, without the times at which it was stopped.
    fn ran(&self) -> Duration {
        let stops = lock(&self.stops);
        let until = stops.since.unwrap_or_else(Instant::now);
        until.duration_since(self.start).saturating_sub(stops.over)
    }

    pub fn stop(&self) {
        let mut stops = lock(&self.stops);
        if self.base.is_some() {
            stops.since.get_or_insert_with(Instant::now);
        }
    }

    pub fn go_on(&self) {
        let mut stops = lock(&self.stops);
        if let Some(since) = stops.since.take() {
            stops.over += since.elapsed();
        }
    }

    /// How much faster than real time it runs.
    pub fn speed(&self) -> u32 {
        self.speed
    }

    pub fn is_stopped(&self) -> bool {
        let stops = lock(&self.stops);
        stops.since.is_some()
    }

    pub fn now(&self) -> Timestamp {
        match self.base {
            None => Timestamp::now(),
            Some(base) => {
                let passed = self.ran() * self.speed;
                SignedDuration::try_from(passed)
                    .ok()
                    .and_then(|passed| base.checked_add(passed).ok())
                    .unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// When the wall clock will show `at`, unless it is set meanwhile.
    pub fn instant(&self, at: Timestamp) -> Instant {
        self.ahead(at.duration_since(self.now()))
    }

    fn ahead(&self, ahead: SignedDuration) -> Instant {
        let ahead = Duration::try_from(ahead).unwrap_or(Duration::ZERO) / self.speed;
        match self.is_stopped() {
            // That time does not come while the clock is stopped.
            true => self.after(ahead + STOPPED),
            false => self.after(ahead),
        }
    }

    pub fn after(&self, ahead: Duration) -> Instant {
        let now = Instant::now();
        now.checked_add(ahead)
            .unwrap_or(now + Duration::from_secs(86_400))
    }
}

impl SteadyClock {
    /// A steady clock that has not seen a step yet.
    pub(super) fn new(clock: Clock) -> Self {
        let last = (clock.now(), clock.ran());
        Self { clock, last }
    }

    /// The current time, without a step that `jumped` has not reported yet.
    pub(super) fn now(&self) -> Timestamp {
        let (then, _) = self.last;
        then.checked_add(self.passed()).unwrap_or(then)
    }

    /// By how much the wall clock was set since the last call, if it was.
    pub(super) fn jumped(&mut self) -> Option<SignedDuration> {
        let (expected, now) = (self.now(), self.clock.now());
        self.last = (now, self.clock.ran());
        let jump = now.duration_since(expected);
        (jump.abs() > JUMP).then_some(jump)
    }

    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        self.clock.ahead(at.duration_since(self.now()))
    }

    fn passed(&self) -> SignedDuration {
        let (_, then) = self.last;
        let passed = self.clock.ran().saturating_sub(then) * self.clock.speed;
        SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_wall_clock_is_in_no_time_before_it_was_told() {
        let hour = SignedDuration::from_hours(1);
        for step in [hour, -hour] {
            let mut clock = SteadyClock::new(Clock::real());
            // Set by a step after the last look.
            clock.last.0 -= step;
            let before = clock.now();
            let (wall, slack) = (clock.clock.now(), SignedDuration::from_mins(30));
            assert!((wall.duration_since(before) - step).abs() < slack);
            let told = clock.jumped().expect("a step");
            assert!((told - step).abs() < slack);
            assert!(clock.now().duration_since(wall).abs() < slack);
            assert_eq!(clock.jumped(), None);
        }
    }

    #[test]
    fn a_stopped_clock_stands_still_and_that_is_no_jump_of_the_wall_clock() {
        let clock = Clock::sped_up(600);
        let mut steady = SteadyClock::new(clock.clone());
        let other = clock.clone();
        other.stop();
        let stopped = clock.now();
        let real = Instant::now();
        // A tenth of a second is a minute of this clock.
        while real.elapsed() < Duration::from_millis(100) {
            assert_eq!(clock.now(), stopped);
        }
        assert!(clock.is_stopped());
        assert!(clock.instant(stopped) > Instant::now());
        other.go_on();
        assert!(!clock.is_stopped());
        assert_eq!(steady.jumped(), None);
        let real = Instant::now();
        while clock.now() == stopped {
            assert!(real.elapsed() < Duration::from_secs(60), "it stands still");
        }
    }

    #[test]
    fn the_real_clock_cannot_be_stopped() {
        let clock = Clock::real();
        clock.stop();
        assert!(!clock.is_stopped());
    }
}
