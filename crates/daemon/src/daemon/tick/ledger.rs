//! A ledger that the file system does not provide at the start is not lost: it is read again.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use windrow_model::reasons::Code;

use windrow_decide::Ledger;

use super::Daemon;
use crate::act::{give_up_ledger, read_ledger, since_boot};
use crate::layout::Layout;
use crate::observe::platform::boot_id;

/// The pause between two tries.
const AGAIN: Duration = Duration::from_secs(5);
/// After this time, a new ledger begins.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// The ledger of an earlier process in the present boot. If the boot is unknown, deadlines begin again.
pub(super) fn enter_boot(mut ledger: Ledger, layout: &Layout, now: Timestamp) -> Ledger {
    let booted = now.checked_sub(since_boot());
    match (boot_id(layout), booted) {
        (Some(id), Ok(booted)) => ledger.enter_boot(&id, booted, now),
        _ => ledger.boot = None,
    }
    ledger
}

impl Daemon {
    pub(super) fn read_ledger_again(&mut self) {
        let Some(since) = self.ledger_unread else {
            return;
        };
        let path = self.layout.ledger();
        let rebuilt = match read_ledger(&path) {
            Ok(read) => {
                let now = self.clock.now();
                let ledger = enter_boot(read.ledger, &self.layout, now);
                self.state.recover_ledger(ledger);
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
