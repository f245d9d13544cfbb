//! Signals while a repair changes something: the first one stops it once the temporary changes are restored.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::super::Exit;

use crate::fs;

pub(super) struct Interrupts {
    is_set: watch::Receiver<bool>,
}

impl Interrupts {
    /// Listens from now on. A second signal ends the process at once. SIGHUP stays ignored if it was (nohup).
    pub(super) fn listen() -> std::io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = if ignores_hangup() {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };
        let (set, is_set) = watch::channel(false);
        tokio::spawn(async move {
            for is_first in [true, false] {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    () = received(&mut hangup) => {}
                }
                if is_first {
                    set.send_replace(true);
                    eprintln!(
                        "windrow: interrupted: the temporary changes are restored first. A second signal stops this at once"
                    );
                }
            }
            std::process::exit(i32::from(Exit::Failed as u8));
        });
        Ok(Self { is_set })
    }

    pub(super) fn is_set(&self) -> bool {
        *self.is_set.borrow()
    }

    pub(super) async fn set(&self) {
        let mut is_set = self.is_set.clone();
        if is_set.wait_for(|is_set| *is_set).await.is_err() {
            std::future::pending().await
        }
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

fn ignores_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}
