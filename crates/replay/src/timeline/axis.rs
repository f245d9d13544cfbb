//! The time axis of a boot: seconds from its beginning, without the jumps of the node's clock.

use jiff::{SignedDuration, Timestamp};

use crate::boots::is_same_process;

/// A smaller step is caused by slewing or rounding.
const JUMP: SignedDuration = SignedDuration::from_secs(5);

/// Converts times of the node's clock to seconds from the beginning.
#[derive(Debug)]
pub(super) struct Axis {
    began: Timestamp,
    /// When the current process started, according to its latest line. Moves when the clock is set.
    started: Option<Timestamp>,
    /// The sum of all clock changes since the beginning.
    shift: SignedDuration,
    /// The latest time so far, in seconds.
    last: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ClockNews {
    None,
    /// The clock was set by this difference.
    Set(SignedDuration),
    /// The time is earlier than the one before it, and the size of the clock change is unknown.
    Back(SignedDuration),
}

impl Axis {
    pub(super) fn new(began: Timestamp) -> Self {
        Self {
            began,
            started: None,
            shift: SignedDuration::ZERO,
            last: 0.0,
        }
    }

    /// The time of a line. `started` is the start of its process, if the line has it; `begins` is true for the first
    /// line of a segment.
    pub(super) fn take(
        &mut self,
        at: Timestamp,
        started: Option<Timestamp>,
        begins: bool,
    ) -> (f64, ClockNews) {
        let mut news = ClockNews::None;
        if let Some(now) = started {
            if !begins && let Some(before) = self.started {
                let jump = now.duration_since(before);
                if jump.abs() >= JUMP {
                    self.shift = self.shift.saturating_add(jump);
                    news = ClockNews::Set(jump);
                }
            }
            self.started = Some(now);
        }
        let seconds = self.at(at);
        if seconds >= self.last {
            self.last = seconds;
            return (seconds, news);
        }
        let behind = SignedDuration::try_from_secs_f64(self.last - seconds).unwrap_or_default();
        self.shift = self.shift.saturating_sub(behind);
        if behind >= JUMP {
            news = ClockNews::Back(behind);
        }
        (self.last, news)
    }

    /// Another time of the clock, without a correction.
    pub(super) fn at(&self, at: Timestamp) -> f64 {
        let passed = at.duration_since(self.began).saturating_sub(self.shift);
        (passed.as_secs_f64() * 1000.0).round() / 1000.0
    }

    /// Did another process write this line?
    pub(super) fn is_new_process(&self, started: Option<Timestamp>) -> bool {
        self.started.is_some() && !is_same_process(self.started, started)
    }
}
