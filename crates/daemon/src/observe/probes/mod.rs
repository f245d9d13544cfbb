//! Probes the node: each question at its own pace, independent of the others, all answers as events.
//!
//! ```text
//!   Interests (on? platform? day 0 over?) ─┐
//!   role, node name (read again) ──────────┴─> one task per question ──> ClusterEvent::Node
//! ```
//!
//! `schedule` decides when to ask a question, which may answer several probes; `ask` finds the code that answers it. A
//! probe uses a [`ProbeContext`]; its memory is a separate type, and `ask` keeps it. `requests` lists every request to
//! kube-apiserver.

mod addons;
mod answer;
mod ask;
mod bus;
mod certificates;
mod cluster;
mod components;
mod context;
mod current_layout;
mod custom;
mod hardware;
mod harvester;
mod host;
mod http;
mod kubernetes;
mod longhorn;
mod looks;
mod own_node;
mod platform;
mod rancherd;
mod requests;
mod role;
mod schedule;
#[cfg(test)]
mod tests;
mod unit;
mod upgrade;
mod webhooks;

pub use certificates::not_after;
pub use components::etcd_answers;
pub use context::{Endpoints, ProbeContext};
pub use role::{disabled_components, next_node_name, role_and_name};
pub use schedule::probe;

/// Whether systemd reports that the clock is synchronised.
///
/// # Errors
///
/// Why there is no answer.
pub async fn clock_is_synchronised() -> Result<bool, String> {
    bus::Bus::new(None).synchronised().await
}
