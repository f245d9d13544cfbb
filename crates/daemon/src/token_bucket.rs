//! How often somebody may do something: a bucket of tokens that fills again with time. Pure: the time is passed in.

use std::time::Duration;

/// How often: at once, and in each second after that.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub at_once: f64,
    pub a_second: f64,
}

/// What is left for one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    left: f64,
    at: Duration,
}

impl TokenBucket {
    /// One from which nothing was taken yet.
    pub(crate) fn full(rate: Rate, now: Duration) -> Self {
        Self {
            left: rate.at_once,
            at: now,
        }
    }

    /// What is left now.
    pub(crate) fn left(&self, rate: Rate, now: Duration) -> f64 {
        let since = now.saturating_sub(self.at).as_secs_f64();
        (self.left + since * rate.a_second).min(rate.at_once)
    }

    /// Takes one, if one is left.
    pub(crate) fn take(&mut self, rate: Rate, now: Duration) -> bool {
        let left = self.left(rate, now);
        if left < 1.0 {
            return false;
        }
        *self = Self {
            left: left - 1.0,
            at: now,
        };
        true
    }
}
