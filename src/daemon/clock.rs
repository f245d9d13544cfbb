//! The one place in the daemon that reads the clock.
//!
//! Two clocks are read together: the wall clock, in which every time is reported, and the monotonic clock, in which the
//! daemon waits. Where they drift apart, the wall clock was set.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A smaller step of the wall clock is slewing or rounding, not a jump.
const JUMP: SignedDuration = SignedDuration::from_secs(5);

/// The daemon's clock; in the sandbox it runs faster.
#[derive(Debug, Clone)]
pub struct Clock {
    start: Instant,
    /// When a sped-up clock began; `None` for the real one.
    base: Option<Timestamp>,
    speed: u32,
    last: (Timestamp, Instant),
}

impl Clock {
    /// The node's own clock.
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
            last: (base.unwrap_or_else(Timestamp::now), start),
        }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match self.base {
            None => Timestamp::now(),
            Some(base) => {
                let passed = self.start.elapsed() * self.speed;
                SignedDuration::try_from(passed)
                    .ok()
                    .and_then(|passed| base.checked_add(passed).ok())
                    .unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// By how much the wall clock was set since the last call, if it was.
    pub fn jumped(&mut self) -> Option<SignedDuration> {
        let (before, then) = self.last;
        let now = self.now();
        self.last = (now, Instant::now());
        let waited = SignedDuration::try_from(then.elapsed() * self.speed).ok()?;
        let jump = now.duration_since(before).checked_sub(waited)?;
        (jump.abs() > JUMP).then_some(jump)
    }

    /// When the wall clock will show `at`, unless it is set meanwhile.
    pub fn instant(&self, at: Timestamp) -> Instant {
        let ahead = at.duration_since(self.now());
        let ahead = Duration::try_from(ahead).unwrap_or(Duration::ZERO) / self.speed;
        self.after(ahead)
    }

    /// A point in real time, this much later.
    pub fn after(&self, ahead: Duration) -> Instant {
        let now = Instant::now();
        now.checked_add(ahead)
            .unwrap_or(now + Duration::from_secs(86_400))
    }
}
