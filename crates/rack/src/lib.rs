//! Many nodes on one page: what their events, status documents and Node objects say of them.
//!
//! ```text
//!   CloudEvents ───────┐
//!   status documents ──┼──> NodeReport ──> NodeRecord: a join ──┐
//!   Node objects ──────┘    (bounded)                           ├──> RackView: rows, who needs a person first
//!   inventory ──> Inventory: who is expected ───────────────────┘
//! ```
//!
//! The record of a node is the join of its reports: in whatever order they come, and however often, it is the same. No
//! node's clock is trusted: times are those of the receiver, and spans those of the node's uptime.
//!
//! Nodes lie. Every text is bounded and has no control characters, and how many nodes there can be is bounded too.
//!
//! May know: the crates `model`, `plan` and `harvester`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails so"))]

mod announced;
mod event;
mod fields;
mod group;
mod identity;
mod inventory;
mod node_object;
mod rack;
mod record;
mod report;
mod row;
mod status_document;
mod text;
mod view;

#[cfg(test)]
mod tests;

pub use announced::{AnnouncedServer, announced_server};
pub use event::read_event;
pub use identity::NodeIdentity;
pub use inventory::{ExpectedNode, Inventory, InventoryError};
pub use node_object::{Heartbeat, read_node};
pub use rack::{MOST_RECORD_BYTES, MOST_UNKNOWN, Rack, Refused};
pub use record::NodeRecord;
pub use report::{
    BlockingFile, FileCounts, LARGEST_REPORT, NodeFinding, NodeReport, NodeState, PhaseReport,
    ReportSource, StatusServer,
};
pub use row::{Attention, NodeRow, PhaseSpan, RackWord};
pub use status_document::{ReadDocument, read_document};
pub use view::{RackCounts, RackNotice, RackView};
