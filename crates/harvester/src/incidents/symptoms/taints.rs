//! The taints that keep a pod away. From 1.34 on, the scheduler counts them and names none.

use serde_json::Value;
use windrow_model::findings::Evidence;

use super::subject;
use crate::incidents::platform::MOST;
use crate::schedule::{SchedulerNode, SchedulerPod};

/// The first taint of each node that the pod does not tolerate.
pub(super) fn seen(pod: &Value, nodes: &[Value]) -> Vec<Evidence> {
    let about = subject(pod, "Pod");
    let Ok(pod) = SchedulerPod::parse(pod) else {
        return Vec::new();
    };
    let nodes = nodes
        .iter()
        .filter_map(|node| SchedulerNode::parse(node).ok());
    let kept = nodes.filter_map(|node| {
        let mut taints = node.effective_taints();
        let taint = taints.find(|taint| taint.repels() && !pod.tolerates(taint))?;
        let field = format!("taint of {}", node.name);
        Some(Evidence::new(&about, field, taint.to_string()))
    });
    kept.take(MOST).collect()
}
