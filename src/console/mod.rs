//! The full-screen view for a terminal: a client of the status document, with no permissions.
//!
//! ```text
//! status, host, the operator's choices ──draw──> cells ──paint──> bytes ──> terminal
//!                                   keys <─────────────────────────────────────────┘
//! ```
//!
//! `draw` and `paint` are pure: the same scene at the same time on the same size is the same screen. The terminal, the
//! host's name and addresses, and the journal are adapters. The loop that connects them is in the verb. Knows the
//! status types and the reason table, but nothing of observing, deciding or acting.

mod age;
mod draw;
mod facts;
pub(crate) mod host;
pub(crate) mod journal;
mod keys;
mod machine;
mod paint;
mod panes;
mod steps;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod theme;
mod view;
mod words;

use jiff::Timestamp;

pub(crate) use draw::render;
pub(crate) use host::Host;
pub(crate) use keys::{KeyPress, KeyReader};
pub(crate) use paint::paint;
pub(crate) use theme::Theme;
pub(crate) use view::{Extent, KeyAction, OperatorView, Overlay};

use windrow_decide::{Status, sentence};
use windrow_host::HostFacts;

#[derive(Debug, Clone)]
pub(crate) struct Scene {
    /// The document to show: current, or one that says Unknown and why.
    pub(crate) status: Status,
    /// The last document of a daemon that does not run (any more).
    pub(crate) last: Option<Status>,
    pub(crate) host: Host,
    pub(crate) machine: HostFacts,
}

impl Scene {
    /// The status to take files and findings from: the last known one is better than nothing, if it is labelled as
    /// such.
    fn detail(&self) -> &Status {
        self.last.as_ref().unwrap_or(&self.status)
    }

    /// Since when the state has lasted; unknown when the daemon does not run.
    fn since(&self) -> Option<Timestamp> {
        let is_current = self.status.writer.is_some();
        is_current.then(|| sentence::since(&self.status))
    }
}
