//! Could a pod be scheduled, and if not, why does every node reject it? Implements the filters of kube-scheduler's default
//! profile, as a pure function of nodes and pods.
//!
//! Modelled: cordons, taints, node selectors and affinity, resources, host ports, affinity and anti-affinity between pods,
//! topology spread, volumes that some nodes cannot reach, and room that preemption could make. Not modelled, and then Unknown:
//! other schedulers, claimed devices. Not modelled, and assumed to be sufficient: limits on the number of attached volumes.
//!
//! Source of the rules: kube-scheduler's plugins (`pkg/scheduler/framework/plugins`), Kubernetes 1.36;
//! `tests/kubernetes/drain_in_cluster.rs` compares the answers with the real scheduler's.

mod affinity;
mod node;
mod place;
mod pod;
mod read;
mod selector;
#[cfg(test)]
mod tests;

pub use node::{SchedulerNode, Taint};
pub use place::{NodeRefusal, Placement, SchedulerView};
pub use pod::SchedulerPod;
pub(crate) use read::SCHEDULER_KINDS;
pub use selector::NodeSelector;
