//! Longhorn's disks of a node.

use serde_json::Value;
use windrow_plan::readiness::node::ProbeOutcome;

use super::require_true;
use crate::objects::Condition;

/// Every disk has to be ready and to have free space. A node can have no disks for Longhorn.
pub fn usable_disks(status: &Value) -> ProbeOutcome {
    let Some(disks) = status["diskStatus"].as_object() else {
        return ProbeOutcome::unknown("the disks of Longhorn's node", "it names none");
    };
    let wrong: Vec<String> = disks
        .iter()
        .filter_map(|(name, disk)| Some(format!("{name}: {}", fault(disk)?)))
        .collect();
    match wrong.is_empty() {
        true => ProbeOutcome::Passed,
        false => ProbeOutcome::failed(wrong.join("; ")),
    }
}

fn condition_in(disk: &Value, kind: &str) -> Option<ProbeOutcome> {
    let mut conditions = Condition::in_status(disk);
    conditions
        .find(|condition| condition.name == kind)
        .map(require_true)
}

/// A disk can be unschedulable for many reasons, also deliberately: only lack of space is a fault.
fn fault(disk: &Value) -> Option<String> {
    match condition_in(disk, "Ready") {
        // Longhorn v1.11 reports this for every disk of a node that is not ready, which the other probe reports.
        Some(ProbeOutcome::Failed { why, .. }) if why.starts_with("NodeNotReady") => return None,
        Some(ProbeOutcome::Failed { why, .. }) => return Some(why),
        _ => {}
    }
    match condition_in(disk, "Schedulable") {
        Some(ProbeOutcome::Failed { why, .. }) if why.starts_with("DiskPressure") => Some(why),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn disk(ready: &str, schedulable: &str, reason: &str) -> Value {
        json!({"conditions": [
            {"type": "Ready", "status": ready, "reason": "NoDiskInfo", "message": "mount lost"},
            {"type": "Schedulable", "status": schedulable, "reason": reason},
        ]})
    }

    #[test]
    fn a_disk_that_is_gone_or_full_is_named_and_one_that_is_closed_on_purpose_is_not() {
        let status = |disks: Value| usable_disks(&json!({"diskStatus": disks}));
        assert_eq!(
            status(
                json!({"a": disk("True", "True", ""), "b": disk("True", "False", "DiskNotSchedulable")})
            ),
            ProbeOutcome::Passed
        );
        assert_eq!(
            status(
                json!({"a": disk("False", "True", ""), "b": disk("True", "False", "DiskPressure")})
            ),
            ProbeOutcome::failed("a: NoDiskInfo: mount lost; b: DiskPressure")
        );
        assert_eq!(status(json!({})), ProbeOutcome::Passed);
        let waits = json!({"conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady",
            "message": "Waiting for disk a (/) on node n1 to be ready"}]});
        assert_eq!(status(json!({"a": waits})), ProbeOutcome::Passed);
        let none = usable_disks(&json!({}));
        assert!(matches!(none, ProbeOutcome::Unknown { .. }));
    }
}
