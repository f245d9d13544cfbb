//! Does a part of the platform work, according to its object? The rules are the same for Harvester v1.4.0 to v1.8.2. Callers
//! decide about a missing object.

mod fleet;
mod longhorn;
mod node;

use serde_json::Value;
use windrow_plan::readiness::node::ProbeOutcome;

use crate::objects::Condition;

pub use self::fleet::{bundle_faults, chart_fault, provisioned};
pub use self::longhorn::usable_disks;
pub use self::node::DRAIN_TAINT;
pub use self::node::{draining, plan_at_work, promoting};

/// A condition that has to be True; `None` if the object has no condition of this type.
pub fn judge_condition(object: &Value, kind: &str) -> Option<ProbeOutcome> {
    Condition::of(object, kind).map(require_true)
}

fn require_true(condition: Condition<'_>) -> ProbeOutcome {
    if condition.is_true() {
        return ProbeOutcome::Passed;
    }
    let why = match condition.words() {
        words if words.is_empty() => format!("{} is {}", condition.name, condition.status.trim()),
        words => words,
    };
    ProbeOutcome::failed(why.replace('\n', " "))
}

/// Checks the setting of the storage network: it has to be configured, unless the setting is empty.
pub fn storage_network(setting: &Value) -> ProbeOutcome {
    if setting["value"].as_str().is_none_or(str::is_empty) {
        return ProbeOutcome::Passed;
    }
    judge_condition(setting, "configured")
        .unwrap_or_else(|| ProbeOutcome::failed("Harvester has reported no status yet"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_ready_by_its_condition_and_not_by_being_there() {
        let node = |status: &str| {
            json!({"status": {"conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": status, "reason": "KubeletNotReady",
                 "message": "cni plugin not initialized"},
            ]}})
        };
        assert_eq!(
            judge_condition(&node("True"), "Ready"),
            Some(ProbeOutcome::Passed)
        );
        for status in ["False", "Unknown"] {
            assert_eq!(
                judge_condition(&node(status), "Ready"),
                Some(ProbeOutcome::failed(
                    "KubeletNotReady: cni plugin not initialized"
                ))
            );
        }
        assert_eq!(judge_condition(&json!({"status": {}}), "Ready"), None);
    }
}
