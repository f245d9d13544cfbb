//! Pauses between tries: they double up to a longest one, and are spread so that many tries do not coincide.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// A watch that held for longer was a success.
const HELD: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// It worked: the next failure starts from the beginning.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// A watch ended. One that held for a while was a success; if watches break at once the pauses go on growing.
    pub(crate) fn reset_if_held(&mut self, held: Duration) {
        if held > HELD {
            self.reset();
        }
    }

    pub(crate) fn at_most(&mut self, pause: Duration) {
        self.next = self.next.min(pause);
    }

    /// Waits for the next pause. If it is cancelled, the pause counts as waited.
    pub async fn wait(&mut self) {
        let pause = self.next;
        self.next = (self.next * 2).min(self.longest);
        tokio::time::sleep(spread(pause)).await;
    }
}

/// A number that differs from that of other processes. Not a secret.
pub fn random() -> u64 {
    // The standard library seeds its hashers at random: enough to spread requests.
    RandomState::new().build_hasher().finish()
}

/// The pause, or up to a quarter less.
pub(crate) fn spread(pause: Duration) -> Duration {
    pause - pause / 1024 * u32::try_from(random() % 256).unwrap_or_default()
}

/// A part of this time, at random.
pub(crate) fn up_to(time: Duration) -> Duration {
    time / 1024 * u32::try_from(random() % 1024).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_held_for_a_while_lets_the_pauses_begin_again_and_one_that_broke_at_once_does_not()
     {
        let second = Duration::from_secs(1);
        let mut pauses = Backoff::new(second, second * 30);
        pauses.next = second * 8;
        pauses.reset_if_held(second);
        assert_eq!(pauses.next, second * 8);
        pauses.reset_if_held(second * 11);
        assert_eq!(pauses.next, second);
    }
}
