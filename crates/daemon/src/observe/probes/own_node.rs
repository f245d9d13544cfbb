//! The state of the own Node apart from being ready: its other conditions, etcd's membership and KubeVirt's label.

use std::sync::Mutex;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;
use windrow_harvester::etcd_member::{self, Vote};
use windrow_model::object::Condition;
use windrow_plan::readiness::node::ProbeOutcome;

use crate::locked::lock;

/// The conditions that are False on a healthy node: three of the kubelet's, and one of the network plug-in's.
const BAD: [&str; 4] = [
    "NetworkUnavailable",
    "DiskPressure",
    "MemoryPressure",
    "PIDPressure",
];
/// A member stays a learner until it has etcd's log. RKE2 promotes one at a time, within minutes.
const LEARNS: SignedDuration = SignedDuration::from_mins(10);

/// A kubelet renews `lastHeartbeatTime` at least every five minutes (`nodeStatusReportFrequency`).
const HEARTBEAT_STOPPED: Duration = Duration::from_secs(10 * 60);

/// The heartbeat last found, and when it was new to this process: the wall clock may be set at any time.
#[derive(Default)]
pub(super) struct HeartbeatMemory(Mutex<Option<(String, Instant)>>);

impl HeartbeatMemory {
    /// `Ready` stays True on a Node whose kubelet has stopped, if no kube-controller-manager marks it.
    pub(super) fn stopped(&self, node: &Value, now: Instant) -> Option<ProbeOutcome> {
        let heartbeat = Condition::of(node, "Ready")?.json()["lastHeartbeatTime"].as_str()?;
        let mut known = lock(&self.0);
        let since = match &*known {
            Some((last, since)) if last == heartbeat => *since,
            _ => {
                *known = Some((heartbeat.to_owned(), now));
                now
            }
        };
        (now.duration_since(since) >= HEARTBEAT_STOPPED)
            .then(|| ProbeOutcome::failed(format!("its kubelet last reported at {heartbeat}")))
    }
}

/// The outcomes of the other probes of the question `node`, from the own Node or from the reason why it is missing.
pub(super) fn others(
    found: Result<&Value, &ProbeOutcome>,
    now: Timestamp,
) -> Vec<(&'static str, ProbeOutcome)> {
    let judge = |judged: &dyn Fn(&Value) -> ProbeOutcome| match found {
        Ok(node) => judged(node),
        // A missing Node says nothing about these states.
        Err(ProbeOutcome::Failed { why, .. }) => ProbeOutcome::unknown("the own Node", why),
        Err(unknown) => unknown.clone(),
    };
    vec![
        ("etcd-member", judge(&|node| etcd_votes(node, now))),
        ("node-conditions", judge(&conditions)),
        ("virt-handler", judge(&virt_handler)),
    ]
}

/// Whether this node's etcd is a voting member.
fn etcd_votes(node: &Value, now: Timestamp) -> ProbeOutcome {
    let unknown = |why: &str| ProbeOutcome::unknown("the own Node's EtcdIsVoter", why);
    let vote = etcd_member::vote(node);
    match &vote {
        Vote::Votes => ProbeOutcome::Passed,
        Vote::Learns { since: None } => unknown("MemberIsLearner, and since when is not said"),
        Vote::Learns { since: Some(since) } => match vote.learns_for(LEARNS, now) {
            true => ProbeOutcome::failed(format!("MemberIsLearner since {since}")),
            false => ProbeOutcome::Passed,
        },
        Vote::Without { reason, .. } => ProbeOutcome::failed(reason.as_str()),
        Vote::Unknown(why) => unknown(why),
    }
}

/// Whether a condition is True that has to be False.
fn conditions(node: &Value) -> ProbeOutcome {
    let bad = BAD.iter().filter_map(|kind| {
        let is_true = Condition::of(node, kind).filter(Condition::is_true)?;
        Some(match is_true.words() {
            words if words.is_empty() => (*kind).to_owned(),
            words => format!("{kind} ({words})"),
        })
    });
    let bad: Vec<String> = bad.collect();
    match bad.is_empty() {
        true => ProbeOutcome::Passed,
        false => ProbeOutcome::failed(bad.join("; ")),
    }
}

/// Whether virt-handler has reported from this node. It sets the label to true as long as it runs, and virt-controller
/// sets it to false when it is silent.
fn virt_handler(node: &Value) -> ProbeOutcome {
    match node["metadata"]["labels"]["kubevirt.io/schedulable"].as_str() {
        Some("true") => ProbeOutcome::Passed,
        Some(other) => ProbeOutcome::failed(format!(
            "label kubevirt.io/schedulable={}",
            windrow_model::redact::quoted(other)
        )),
        None => ProbeOutcome::failed("the Node has no label kubevirt.io/schedulable yet"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windrow_model::reasons::Code;

    use super::*;

    fn etcd(status: &str, reason: &str, etcd: bool) -> Value {
        json!({
            "metadata": {"labels": {"node-role.kubernetes.io/etcd": etcd.to_string()}},
            "status": {"conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "EtcdIsVoter", "status": status, "reason": reason,
                 "lastTransitionTime": "2026-11-22T10:00:00Z"},
            ]},
        })
    }

    fn at(time: &str) -> Timestamp {
        format!("2026-11-22T{time}Z").parse().unwrap()
    }

    #[test]
    fn a_heartbeat_that_does_not_change_for_ten_minutes_has_stopped_whatever_the_clock_says() {
        let memory = HeartbeatMemory::default();
        let node = |at: &str| json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": at}]}});
        let start = Instant::now();
        let at = |minutes: u64| start + Duration::from_secs(minutes * 60);
        let old = node("2020-01-01T00:00:00Z");
        assert_eq!(memory.stopped(&old, at(0)), None, "the clock was set");
        assert_eq!(memory.stopped(&old, at(9)), None);
        let stopped = ProbeOutcome::failed("its kubelet last reported at 2020-01-01T00:00:00Z");
        assert_eq!(memory.stopped(&old, at(10)), Some(stopped));
        assert_eq!(memory.stopped(&node("2020-01-01T00:05:00Z"), at(11)), None);
        assert_eq!(memory.stopped(&json!({}), at(60)), None);
    }

    #[test]
    fn a_learner_is_believed_to_learn_for_ten_minutes() {
        let learner = etcd("False", "MemberIsLearner", true);
        assert_eq!(etcd_votes(&learner, at("10:09:59")), ProbeOutcome::Passed);
        assert_eq!(
            etcd_votes(&learner, at("10:10:00")),
            ProbeOutcome::failed("MemberIsLearner since 2026-11-22T10:00:00Z")
        );
        let voter = etcd("True", "MemberNotLearner", true);
        assert_eq!(etcd_votes(&voter, at("23:00:00")), ProbeOutcome::Passed);
    }

    #[test]
    fn a_node_without_the_condition_or_without_etcd_is_not_said_to_be_at_fault() {
        let unknown = |node: Value| {
            let outcome = etcd_votes(&node, at("23:00:00"));
            matches!(outcome, ProbeOutcome::Unknown { .. })
        };
        assert!(unknown(json!({})));
        assert!(unknown(etcd("False", "NotAMember", false)));
        assert!(unknown(etcd("Unknown", "NodeStatusUnknown", true)));
        assert_eq!(
            etcd_votes(&etcd("False", "NotAMember", true), at("10:00:00")),
            ProbeOutcome::failed("NotAMember")
        );
        assert_eq!(
            etcd_votes(&etcd("False", "Unhealthy", true), at("10:00:00")),
            ProbeOutcome::failed("Unhealthy")
        );
    }

    #[test]
    fn a_condition_that_has_to_be_false_is_told_with_the_kubelets_reason() {
        let with = |network: &str, disk: &str| {
            conditions(&json!({"status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady"},
                {"type": "NetworkUnavailable", "status": network},
                {"type": "DiskPressure", "status": disk, "reason": "KubeletHasDiskPressure",
                 "message": "kubelet has disk pressure"},
            ]}}))
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
            virt_handler(&labels)
        };
        assert_eq!(node("true"), ProbeOutcome::Passed);
        assert_eq!(
            node("false"),
            ProbeOutcome::failed("label kubevirt.io/schedulable=`false`")
        );
        let none = virt_handler(&json!({}));
        assert!(matches!(none, ProbeOutcome::Failed { .. }));
    }

    #[test]
    fn a_node_that_could_not_be_read_says_why_of_each_probe() {
        let refused = ProbeOutcome::Unknown {
            asked: "the own Node".to_owned(),
            why: "forbidden".to_owned(),
            code: Some(Code::ProbeRefused),
        };
        let absent = ProbeOutcome::failed("there is no Node n1 yet");
        let unknown = ProbeOutcome::unknown("the own Node", "there is no Node n1 yet");
        for (found, said) in [(&refused, &refused), (&absent, &unknown)] {
            let names: Vec<&str> = others(Err(found), at("10:00:00"))
                .into_iter()
                .map(|(probe, outcome)| {
                    assert_eq!(outcome, *said, "{probe}");
                    probe
                })
                .collect();
            assert_eq!(names, ["etcd-member", "node-conditions", "virt-handler"]);
        }
    }
}
