//! A rate limit: a bucket of tokens that fills again with time. Pure: the time is passed in.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub at_once: f64,
    pub a_second: f64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    left: f64,
    at: Duration,
}

impl TokenBucket {
    pub(crate) fn full(rate: Rate, now: Duration) -> Self {
        Self {
            left: rate.at_once,
            at: now,
        }
    }

    pub(crate) fn left(&self, rate: Rate, now: Duration) -> f64 {
        let since = now.saturating_sub(self.at).as_secs_f64();
        (self.left + since * rate.a_second).min(rate.at_once)
    }

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
