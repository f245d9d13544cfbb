//! Does a server's etcd vote? etcd's leader writes the answer into the Node's condition `EtcdIsVoter` (`setEtcdStatusCondition`
//! in k3s `pkg/etcd/etcd.go`), which is True when all is well:
//!
//! | status | reason | it is |
//! |---|---|---|
//! | True | `MemberNotLearner` | a voting member |
//! | False | `MemberIsLearner` | a member that has not etcd's log yet |
//! | False | `Unhealthy` | a member that does not answer the leader |
//! | False | `NotAMember` | not a member |
//!
//! Each caller decides how long a member may be a learner. k3s promotes one at a time, and removes one that makes no progress for
//! five minutes (`learnerMaxStallTime`).

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::objects::{Condition, text};

const CONDITION: &str = "EtcdIsVoter";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vote {
    Votes,
    Learns {
        /// `None` if the condition has no time.
        since: Option<Timestamp>,
    },
    /// The member does not vote for another reason.
    Without {
        /// The reason of k3s.
        reason: String,
        /// `None` if the condition has no time.
        since: Option<Timestamp>,
    },
    /// Why Windrow cannot tell.
    Unknown(String),
}

impl Vote {
    /// Has the member been a learner for this long?
    pub fn learns_for(&self, patience: SignedDuration, now: Timestamp) -> bool {
        matches!(self, Vote::Learns { since: Some(since) } if now.duration_since(*since) >= patience)
    }
}

pub fn vote(node: &Value) -> Vote {
    let Some(condition) = condition(node) else {
        return Vote::Unknown("the Node has no such condition".to_owned());
    };
    let since = condition.since();
    match (condition.status, condition.reason) {
        ("True", _) => Vote::Votes,
        ("False", "MemberIsLearner") => Vote::Learns { since },
        ("False", "NotAMember") if !is_member(node) => {
            Vote::Unknown("NotAMember, and the Node has no role etcd".to_owned())
        }
        ("False", reason) => Vote::Without {
            reason: reason.to_owned(),
            since,
        },
        (status, reason) => Vote::Unknown(format!("it is {status} ({reason})")),
    }
}

/// The condition itself, as evidence.
pub(crate) fn condition(node: &Value) -> Option<Condition<'_>> {
    Condition::of(node, CONDITION)
}

/// Does k3s keep a member of etcd on this node? k3s sets a label for that.
pub fn is_member(node: &Value) -> bool {
    text(node, "/metadata/labels/node-role.kubernetes.io~1etcd") == "true"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SINCE: &str = "2026-11-22T10:00:00Z";

    fn at(time: &str) -> Timestamp {
        format!("2026-11-22T{time}Z").parse().unwrap()
    }

    fn voted(status: &str, reason: &str, etcd: bool) -> Vote {
        vote(&json!({
            "metadata": {"labels": {"node-role.kubernetes.io/etcd": etcd.to_string()}},
            "status": {"conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": CONDITION, "status": status, "reason": reason, "lastTransitionTime": SINCE},
            ]},
        }))
    }

    #[test]
    fn each_reason_of_k3s_is_known_and_any_other_status_is_no_answer() {
        let since = Some(SINCE.parse().unwrap());
        assert_eq!(voted("True", "MemberNotLearner", true), Vote::Votes);
        let learns = Vote::Learns { since };
        assert_eq!(voted("False", "MemberIsLearner", true), learns);
        for word in ["Unhealthy", "NotAMember"] {
            let reason = word.to_owned();
            assert_eq!(voted("False", word, true), Vote::Without { reason, since });
        }
        for (status, reason, etcd) in [
            ("False", "NotAMember", false),
            ("Unknown", "NodeStatusUnknown", true),
        ] {
            let vote = voted(status, reason, etcd);
            assert!(matches!(vote, Vote::Unknown(_)), "{status} {reason}");
        }
        assert!(matches!(vote(&json!({})), Vote::Unknown(_)));
    }

    #[test]
    fn a_learner_is_given_the_time_that_its_caller_has() {
        let patience = SignedDuration::from_mins(10);
        let learns = voted("False", "MemberIsLearner", true);
        assert!(!learns.learns_for(patience, at("10:09:59")));
        assert!(learns.learns_for(patience, at("10:10:00")));
        let unhealthy = voted("False", "Unhealthy", true);
        assert!(!unhealthy.learns_for(patience, at("23:00:00")));
        let timeless = Vote::Learns { since: None };
        assert!(!timeless.learns_for(patience, at("23:00:00")));
    }
}
