//! What else the own Node says, beside being ready: its other conditions, etcd's membership and KubeVirt's label. The probe `node` reads it
//! anyway; nothing is asked for a second time.

use std::sync::Mutex;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;
use windrow_harvester::etcd_member::{self, Vote};
use windrow_harvester::objects::condition;
use windrow_plan::readiness::node::ProbeOutcome;

use crate::locked::lock;

/// The conditions that are False on a healthy node: three of the kubelet's, and one of the network plug-in's.
const BAD: [&str; 4] = [
    "NetworkUnavailable",
    "DiskPressure",
    "MemoryPressure",
    "PIDPressure",
];
/// What was read longer ago tells nothing. The probe `node` rests less than a minute.
const FRESH: Duration = Duration::from_secs(120);
/// A member stays a learner until it has etcd's log. RKE2 promotes one at a time, within minutes.
const LEARNS: SignedDuration = SignedDuration::from_mins(10);

/// The own Node as it was last read.
#[derive(Default)]
pub(super) struct OwnNodeMemory(Mutex<Option<(Instant, OwnNodeSigns)>>);

/// What of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OwnNodeSigns {
    /// Does its etcd vote?
    vote: Vote,
    /// Label `kubevirt.io/schedulable`.
    schedulable: Option<String>,
    /// Those of [`BAD`] that are True, with the reason.
    bad: Vec<String>,
}

impl OwnNodeMemory {
    pub(super) fn remember(&self, node: &Value) {
        *lock(&self.0) = Some((Instant::now(), OwnNodeSigns::read(node)));
    }

    fn recall(&self) -> Result<OwnNodeSigns, ProbeOutcome> {
        let known = lock(&self.0).clone();
        known
            .filter(|(at, _)| at.elapsed() < FRESH)
            .map(|(_, signs)| signs)
            .ok_or_else(|| ProbeOutcome::unknown("the own Node", "it has not been read lately"))
    }

    /// Is this node's etcd a voting member?
    pub(super) fn etcd_votes(&self, now: Timestamp) -> ProbeOutcome {
        self.recall()
            .map_or_else(|none| none, |signs| signs.votes(now))
    }

    /// Is a condition True that has to be False?
    pub(super) fn conditions(&self) -> ProbeOutcome {
        match self.recall() {
            Err(none) => none,
            Ok(signs) if signs.bad.is_empty() => ProbeOutcome::Passed,
            Ok(signs) => ProbeOutcome::failed(signs.bad.join("; ")),
        }
    }

    /// Has virt-handler reported from this node?
    pub(super) fn virt_handler(&self) -> ProbeOutcome {
        self.recall()
            .map_or_else(|none| none, |signs| signs.handles_machines())
    }
}

impl OwnNodeSigns {
    fn read(node: &Value) -> Self {
        let labels = &node["metadata"]["labels"];
        let bad = BAD.iter().filter_map(|kind| {
            let is_true = condition(node, kind).filter(|one| one["status"] == "True")?;
            let text = |key: &str| is_true[key].as_str().unwrap_or_default().trim();
            Some(match (text("reason"), text("message")) {
                ("", "") => (*kind).to_owned(),
                ("", said) | (said, "") => format!("{kind} ({said})"),
                (reason, message) => format!("{kind} ({reason}: {message})"),
            })
        });
        Self {
            bad: bad.collect(),
            vote: etcd_member::vote(node),
            schedulable: labels["kubevirt.io/schedulable"]
                .as_str()
                .map(str::to_owned),
        }
    }

    fn votes(&self, now: Timestamp) -> ProbeOutcome {
        let unknown = |why: &str| ProbeOutcome::unknown("the own Node's EtcdIsVoter", why);
        match &self.vote {
            Vote::Votes => ProbeOutcome::Passed,
            Vote::Learns { since: None } => unknown("MemberIsLearner, and since when is not said"),
            Vote::Learns { since: Some(since) } => match self.vote.learns_for(LEARNS, now) {
                true => ProbeOutcome::failed(format!("MemberIsLearner since {since}")),
                false => ProbeOutcome::Passed,
            },
            Vote::Without { reason, .. } => ProbeOutcome::failed(reason.as_str()),
            Vote::Unknown(why) => unknown(why),
        }
    }

    /// virt-handler sets the label to true as long as it runs, and virt-controller sets it to false when it is silent.
    fn handles_machines(&self) -> ProbeOutcome {
        match self.schedulable.as_deref() {
            Some("true") => ProbeOutcome::Passed,
            Some(other) => ProbeOutcome::failed(format!(
                "label kubevirt.io/schedulable={}",
                windrow_model::redact::quoted(other)
            )),
            None => ProbeOutcome::failed("the Node has no label kubevirt.io/schedulable yet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn signs(status: &str, reason: &str, etcd: bool) -> OwnNodeSigns {
        OwnNodeSigns::read(&json!({
            "metadata": {"labels": {"node-role.kubernetes.io/etcd": etcd.to_string()}},
            "status": {"conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "EtcdIsVoter", "status": status, "reason": reason,
                 "lastTransitionTime": "2026-11-22T10:00:00Z"},
            ]},
        }))
    }

    fn at(time: &str) -> Timestamp {
        format!("2026-11-22T{time}Z").parse().unwrap()
    }

    #[test]
    fn a_learner_is_believed_to_learn_for_ten_minutes() {
        let learner = signs("False", "MemberIsLearner", true);
        assert_eq!(learner.votes(at("10:09:59")), ProbeOutcome::Passed);
        assert_eq!(
            learner.votes(at("10:10:00")),
            ProbeOutcome::failed("MemberIsLearner since 2026-11-22T10:00:00Z")
        );
        let voter = signs("True", "MemberNotLearner", true);
        assert_eq!(voter.votes(at("23:00:00")), ProbeOutcome::Passed);
    }

    #[test]
    fn a_node_without_the_condition_or_without_etcd_is_not_said_to_be_at_fault() {
        let unknown = |signs: OwnNodeSigns| {
            let outcome = signs.votes(at("23:00:00"));
            matches!(outcome, ProbeOutcome::Unknown { .. })
        };
        assert!(unknown(OwnNodeSigns::read(&json!({}))));
        assert!(unknown(signs("False", "NotAMember", false)));
        assert!(unknown(signs("Unknown", "NodeStatusUnknown", true)));
        assert_eq!(
            signs("False", "NotAMember", true).votes(at("10:00:00")),
            ProbeOutcome::failed("NotAMember")
        );
        assert_eq!(
            signs("False", "Unhealthy", true).votes(at("10:00:00")),
            ProbeOutcome::failed("Unhealthy")
        );
    }

    #[test]
    fn a_condition_that_has_to_be_false_is_told_with_the_kubelets_reason() {
        let memory = OwnNodeMemory::default();
        assert!(matches!(memory.conditions(), ProbeOutcome::Unknown { .. }));
        let with = |network: &str, disk: &str| {
            memory.remember(&json!({"status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady"},
                {"type": "NetworkUnavailable", "status": network},
                {"type": "DiskPressure", "status": disk, "reason": "KubeletHasDiskPressure",
                 "message": "kubelet has disk pressure"},
            ]}}));
            memory.conditions()
        };
        assert_eq!(with("False", "False"), ProbeOutcome::Passed);
        // The kubelet is silent: condition Ready says so.
        assert_eq!(with("False", "Unknown"), ProbeOutcome::Passed);
        let disk = "DiskPressure (KubeletHasDiskPressure: kubelet has disk pressure)";
        assert_eq!(with("False", "True"), ProbeOutcome::failed(disk));
        let both = format!("NetworkUnavailable; {disk}");
        assert_eq!(with("True", "True"), ProbeOutcome::failed(both));
    }

    #[test]
    fn virt_handler_is_there_as_long_as_it_keeps_its_label() {
        let node = |label: &str| {
            let labels = json!({"metadata": {"labels": {"kubevirt.io/schedulable": label}}});
            OwnNodeSigns::read(&labels).handles_machines()
        };
        assert_eq!(node("true"), ProbeOutcome::Passed);
        assert_eq!(
            node("false"),
            ProbeOutcome::failed("label kubevirt.io/schedulable=`false`")
        );
        let none = OwnNodeSigns::read(&json!({})).handles_machines();
        assert!(matches!(none, ProbeOutcome::Failed { .. }));
    }

    #[test]
    fn a_node_that_was_not_read_tells_nothing() {
        let memory = OwnNodeMemory::default();
        assert!(matches!(
            memory.virt_handler(),
            ProbeOutcome::Unknown { .. }
        ));
        memory.remember(&json!({"metadata": {"labels": {"kubevirt.io/schedulable": "true"}}}));
        assert_eq!(memory.virt_handler(), ProbeOutcome::Passed);
    }
}
