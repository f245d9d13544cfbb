//! The state of many nodes on one page, from their events, status documents and Node objects.
//!
//! ```text
//!   CloudEvents ───────┐
//!   status documents ──┼──> NodeReport ──> NodeRecord: a join ──┐
//!   Node objects ──────┘    (bounded)                           ├──> RackView: rows, the most urgent first
//!   inventory ──> Inventory: expected nodes ────────────────────┘
//! ```
//!
//! The record of a node is the join of its reports, so neither their order nor their number matters. The clock of a node is not
//! trusted: times come from the receiver, and durations from the uptime of the node.
//!
//! Nodes may send false data. Every text is limited in length and has no control characters, and the number of nodes is limited
//! too.
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
