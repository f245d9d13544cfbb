//! Longhorn on this node, by its own object of the node.

use windrow_harvester::health::{judge_condition, usable_disks};
use windrow_plan::readiness::node::ProbeOutcome;

use super::answer::ProbeAnswer;
use super::context::ProbeContext;
use super::kubernetes::{Ask, items};

/// Whether Longhorn is ready on this node, and can use the node's disks. On a drained node it is normal that nothing
/// new is scheduled.
pub(super) async fn node(context: &ProbeContext, node: &str) -> ProbeAnswer {
    let found = items(&context.kubernetes, Ask::LonghornNode, node).await;
    match found.as_deref() {
        Ok([found, ..]) => ProbeAnswer {
            outcome: judge_condition(found, "Ready")
                .unwrap_or_else(|| ProbeOutcome::failed("longhorn-manager has not reported yet")),
            events: Vec::new(),
            others: vec![("longhorn-disks", usable_disks(&found["status"]))],
        },
        Ok([]) => {
            let absent = ProbeOutcome::failed("Longhorn does not know this node yet");
            ProbeAnswer {
                outcome: absent.clone(),
                events: Vec::new(),
                others: vec![("longhorn-disks", absent)],
            }
        }
        Err(unknown) => unknown.clone().into(),
    }
}
