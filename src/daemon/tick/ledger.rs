//! A ledger that the file system does not give at the start is not lost: it is read again.

use std::time::Duration;

use tokio::time::Instant;
use windrow_model::reasons::Code;

use super::Daemon;
use crate::act::{give_up_ledger, read_ledger};

/// The pause between two tries.
const AGAIN: Duration = Duration::from_secs(5);
/// After so long, a new ledger begins.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

impl Daemon {
    /// Reads the ledger again, if it could not be read at the start.
    pub(super) fn read_ledger_again(&mut self) {
        let Some(since) = self.ledger_unread else {
            return;
        };
        let path = self.layout.ledger();
        let rebuilt = match read_ledger(&path) {
            Ok(read) => {
                self.state.recover_ledger(read.ledger, self.clock.now());
                read.rebuilt
            }
            Err(error) if since.elapsed() > PATIENCE => {
                Some(give_up_ledger(&path, &error.to_string()))
            }
            Err(_) => return self.retry_at(Instant::now() + AGAIN),
        };
        self.ledger_unread = None;
        self.scanner.look_again();
        if let Some(why) = rebuilt {
            self.tell_event(
                Code::LedgerRebuilt,
                Code::LedgerRebuilt.say(&[("why", &why)]),
            );
        }
    }
}
