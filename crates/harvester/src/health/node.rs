//! Operations on a node that are in progress.

use serde_json::Value;

use crate::objects::{ObjectKind, items, text};
use crate::upgrade::has_ended;

/// The taint that Harvester sets before Rancher drains a node.
pub const DRAIN_TAINT: &str = "kubevirt.io/drain";

/// The Plan whose Job is running, among the Jobs that system-upgrade-controller created for the node. Users can create Jobs in
/// other namespaces, so the labels of those prove nothing.
pub fn plan_at_work(jobs: &Value) -> Option<String> {
    let jobs = jobs["items"].as_array()?;
    let is_its = |job: &&Value| ObjectKind::PLAN.is_in_scope(text(job, "/metadata/namespace"));
    let job = jobs.iter().filter(is_its).find(|job| !has_ended(job))?;
    job["metadata"]["labels"]["upgrade.cattle.io/plan"]
        .as_str()
        .map(str::to_owned)
}

pub fn draining(node: &Value) -> Option<String> {
    let mut taints = items(node, "/spec/taints").iter();
    let is_drained = taints.any(|taint| text(taint, "/key") == DRAIN_TAINT);
    is_drained.then(|| format!("the taint {DRAIN_TAINT}"))
}

/// Does Harvester make the node a server?
pub fn promoting(node: &Value) -> Option<String> {
    let status = node["metadata"]["annotations"]["harvesterhci.io/promote-status"].as_str()?;
    (status == "running").then(|| "Harvester's promotion job runs".to_owned())
}
