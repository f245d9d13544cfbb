//! The actions that a decision requests, and the events that it reports.

use std::sync::Arc;

use windrow_model::manifest::MarkerPath;
use windrow_model::reasons::Code;

use super::ledger::Ledger;
use super::mark::Mark;

/// One change that `act` carries out. Each is idempotent. The list is in the order in which a crash
/// between any two of them does no harm: markers first, then the ledger, then removals.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Hold { path: MarkerPath, mark: Arc<Mark> },
    SaveLedger(Arc<Ledger>),
    Lift { path: MarkerPath },
}

/// Reported once, as a journal entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub code: Code,
    pub file: Option<String>,
    pub message: String,
}

impl Event {
    /// For an event that does not belong to a single file.
    pub fn new(code: Code, message: String) -> Self {
        Self {
            code,
            file: None,
            message,
        }
    }
}
