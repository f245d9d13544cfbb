//! Limits each user's calls over the bus. Pure: the time is passed in.
//!
//! Every user may read, and a user may have 256 connections, so users are counted, not connections. root is not
//! counted: it can stop the daemon anyway. One user who asks all the time still leaves room for the others.

use std::collections::HashMap;
use std::time::Duration;

use crate::token_bucket::{Rate, TokenBucket};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallCost {
    /// A property, the introspection, a ping.
    Little,
    /// The status document, or a part of it.
    Document,
    /// Hold or release files: PolicyKit decides, and may ask the user.
    Order,
}

impl CallCost {
    /// How many calls a user may make at once, and then per second. All users together may make three times as many.
    const fn share(self) -> (u32, u32) {
        match self {
            CallCost::Little => (200, 100),
            CallCost::Document => (20, 10),
            CallCost::Order => (10, 2),
        }
    }

    pub(super) fn refusal(self) -> String {
        let (at_once, in_a_second) = self.share();
        let what = match self {
            CallCost::Little => "calls",
            CallCost::Document => "calls of Status and Why",
            CallCost::Order => "calls of Hold and Release",
        };
        format!(
            "too many {what}: a user may make {at_once} at once and {in_a_second} in a second. Try again in a \
             second; to follow the node, wait for the signal PropertiesChanged, or read \
             /run/windrow/status.json, instead of asking again"
        )
    }
}

#[derive(Debug, Default)]
pub(super) struct CallLimits {
    users: HashMap<u32, [Option<TokenBucket>; 3]>,
    all: [Option<TokenBucket>; 3],
}

const USERS: usize = 256;
/// All users together may make as many calls as this number of single users.
const ALL: f64 = 3.0;

impl CallLimits {
    /// Whether this user may make this call now. `now` is the time since some start.
    pub(super) fn admit(&mut self, uid: u32, cost: CallCost, now: Duration) -> bool {
        if uid == 0 {
            return true;
        }
        if self.users.len() >= USERS && !self.users.contains_key(&uid) {
            self.users.clear();
        }
        let (at_once, a_second) = cost.share();
        let [share, of_all] = [1.0, ALL].map(|shares| Rate {
            at_once: f64::from(at_once) * shares,
            a_second: f64::from(a_second) * shares,
        });
        let take = |bucket: &mut Option<TokenBucket>, rate| {
            let bucket = bucket.get_or_insert(TokenBucket::full(rate, now));
            bucket.take(rate, now)
        };
        let kind = cost as usize;
        let own = self.users.entry(uid).or_default();
        // A user who has nothing left takes nothing from the others.
        take(&mut own[kind], share) && take(&mut self.all[kind], of_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(100);

    fn admitted(limits: &mut CallLimits, uid: u32, cost: CallCost, now: Duration) -> usize {
        (0..1_000).filter(|_| limits.admit(uid, cost, now)).count()
    }

    #[test]
    fn a_user_has_a_share_that_comes_back_with_time_and_root_has_no_limit() {
        let mut limits = CallLimits::default();
        let second = Duration::from_secs(1);
        assert_eq!(admitted(&mut limits, 1000, CallCost::Document, START), 20);
        assert_eq!(
            admitted(&mut limits, 1000, CallCost::Document, START + second),
            10
        );
        let later = START + second * 60;
        assert_eq!(admitted(&mut limits, 1000, CallCost::Document, later), 20);
        assert_eq!(admitted(&mut limits, 1000, CallCost::Little, START), 200);
        assert_eq!(admitted(&mut limits, 0, CallCost::Document, START), 1_000);
    }

    #[test]
    fn one_who_asks_without_end_leaves_the_others_their_share() {
        let mut limits = CallLimits::default();
        assert_eq!(admitted(&mut limits, 65534, CallCost::Document, START), 20);
        assert_eq!(admitted(&mut limits, 1000, CallCost::Document, START), 20);
        // All together have three shares, for any number of users.
        let more: usize = (2000..3000)
            .map(|uid| admitted(&mut limits, uid, CallCost::Document, START))
            .sum();
        assert_eq!(more, 20);
        assert!(limits.users.len() <= USERS);
    }
}
