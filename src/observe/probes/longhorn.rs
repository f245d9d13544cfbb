//! Longhorn on this node, by its own object of the node: one request answers both probes.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use windrow_plan::readiness::node::ProbeOutcome;

use super::cluster::{condition, condition_in};
use super::context::ProbeContext;
use super::kubernetes::{Ask, items};

/// Shorter than the period of the probes.
const FRESH: Duration = Duration::from_secs(20);

/// What Longhorn's object of the node says.
#[derive(Debug, Clone)]
struct LonghornAnswers {
    node: ProbeOutcome,
    disks: ProbeOutcome,
}

/// The answers of the last request. Who asks second waits for the first one's answer.
#[derive(Default)]
pub(super) struct LonghornMemory(Mutex<Option<(Instant, LonghornAnswers)>>);

impl LonghornMemory {
    /// Is Longhorn ready on this node? That nothing new is scheduled on a node that is drained is no fault.
    pub(super) async fn node(&self, context: &ProbeContext, node: &str) -> ProbeOutcome {
        self.answers(context, node).await.node
    }

    /// Can it use the node's disks?
    pub(super) async fn disks(&self, context: &ProbeContext, node: &str) -> ProbeOutcome {
        self.answers(context, node).await.disks
    }

    async fn answers(&self, context: &ProbeContext, node: &str) -> LonghornAnswers {
        let mut known = self.0.lock().await;
        if let Some((at, answers)) = &*known
            && at.elapsed() < FRESH
        {
            return answers.clone();
        }
        let found = items(&context.kubernetes, Ask::LonghornNode, node).await;
        let answers = match found.as_deref() {
            Ok([found, ..]) => LonghornAnswers {
                node: condition(found, "Ready").unwrap_or_else(|| {
                    ProbeOutcome::failed("longhorn-manager has not reported yet")
                }),
                disks: usable_disks(&found["status"]),
            },
            Ok([]) => LonghornAnswers::both(&ProbeOutcome::failed(
                "Longhorn does not know this node yet",
            )),
            Err(unknown) => LonghornAnswers::both(unknown),
        };
        *known = Some((Instant::now(), answers.clone()));
        answers
    }
}

impl LonghornAnswers {
    fn both(outcome: &ProbeOutcome) -> Self {
        Self {
            node: outcome.clone(),
            disks: outcome.clone(),
        }
    }
}

/// Every disk has to be ready and to have room. A node may do without disks for Longhorn.
fn usable_disks(status: &Value) -> ProbeOutcome {
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

/// A disk is not schedulable for many reasons, on purpose too: only want of space is a fault.
fn fault(disk: &Value) -> Option<String> {
    match condition_in(disk, "Ready") {
        // Longhorn v1.11 says so of every disk of a node that is not ready, which the other probe tells.
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
