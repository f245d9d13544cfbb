//! The service manager: READY, STATUS, the watchdog, reloading, stopping.
//!
//! Silent when there is no `NOTIFY_SOCKET`. Only the daemon's loop feeds the watchdog, after a completed tick: a timer
//! would prove nothing.

use std::time::Duration;

use sd_notify::NotifyState;
use windrow_decide::Status;

use crate::printable::is_hidden;

const LINE: usize = 160;

#[derive(Debug, Default)]
pub struct ServiceManager {
    last: String,
}

impl ServiceManager {
    pub fn ready(&mut self) {
        send(&[NotifyState::Ready]);
    }

    pub fn starts_within(&self, patience: Duration) {
        let micros = u32::try_from(patience.as_micros()).unwrap_or(u32::MAX);
        send(&[NotifyState::ExtendTimeoutUsec(micros)]);
    }

    /// The settings are read again. [`ServiceManager::ready`] ends it.
    pub fn reloading(&mut self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => send(&[NotifyState::Reloading, now]),
            // Without the time systemd would take the reload for failed.
            Err(error) => tracing::trace!("no monotonic clock: {error}"),
        }
    }

    pub fn stopping(&mut self) {
        send(&[
            NotifyState::Stopping,
            NotifyState::Status("stopping; holds stay in place"),
        ]);
    }

    pub fn status(&mut self, status: &Status) {
        let line = line(status);
        if line != self.last {
            send(&[NotifyState::Status(&line)]);
            self.last = line;
        }
    }

    pub fn alive(&self) {
        send(&[NotifyState::Watchdog]);
    }
}

/// How often the watchdog is fed: twice in the time that the service manager waits.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|patience| patience / 2)
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::trace!("the service manager was not reached: {error}");
    }
}

/// The node's state, how many files wait, and the first blocker.
fn line(status: &Status) -> String {
    let held = match status.staging.held.len() {
        0 => String::new(),
        1 => ", 1 file held".to_owned(),
        held => format!(", {held} files held"),
    };
    let not_held = match status.staging.not_held.len() {
        0 => String::new(),
        files => format!(", {files} not held"),
    };
    let text = format!(
        "{}{held}{not_held}: {}",
        status.headline, status.reason.message
    );
    // A line break would start another assignment of the protocol.
    text.chars()
        .map(
            |character| {
                if is_hidden(character) { ' ' } else { character }
            },
        )
        .take(LINE)
        .collect()
}
