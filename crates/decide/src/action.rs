//! What a decision asks for, and what it reports.

use std::sync::Arc;

use windrow_model::manifest::MarkerPath;
use windrow_model::reasons::Code;

use super::ledger::Ledger;
use super::mark::Mark;

/// One change that `act` carries out. Each is idempotent. The list is in the order in which a crash
/// between any two of them does no harm: markers first, then the ledger, then removals.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Create the marker at `path`.
    Hold {
        /// The marker's path.
        path: MarkerPath,
        /// Its content.
        mark: Arc<Mark>,
    },
    /// Write the ledger.
    SaveLedger(Arc<Ledger>),
    /// Remove the marker at `path`, if it is still ours.
    Lift {
        /// The marker's path.
        path: MarkerPath,
    },
}

/// Something that happened. It is reported once, as a journal entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub code: Code,
    /// The file it is about, if any.
    pub file: Option<String>,
    /// The line for people.
    pub message: String,
}

impl Event {
    /// An event that is about no single file.
    pub fn new(code: Code, message: String) -> Self {
        Self {
            code,
            file: None,
            message,
        }
    }
}
