//! Webhooks: consoles are told when an event comes to be true, however slow, wrong or dead they are.
//!
//! `event` reads events from the status, `queue` decides who is told what and when, `payload` writes
//! it: all pure. `send` sends. This file runs them beside the daemon's loop, which never waits for
//! any of it.

mod event;
mod payload;
mod queue;
mod send;
#[cfg(test)]
mod tests;

use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::event::{Seen, next_look};
pub use self::payload::Identity;
use windrow_decide::settings::Webhook;
use windrow_decide::{Event, Status, WebhookStatus};
use windrow_model::reasons::Code;

use self::queue::{Memory, Queue, Told, Try};
use super::journal;
use crate::backoff::spread;
use crate::files::{Durability, make_private, replace};

/// Longest time for one try, all in all.
const PATIENCE: Duration = Duration::from_secs(15);
/// Never longer without a look: clocks are set, and then a time that was far is near.
const LOOK: Duration = Duration::from_secs(60 * 60);

/// The node that tells.
pub struct Teller {
    /// Where it is kept what was told.
    pub memory: PathBuf,
    /// How the node is called now.
    pub identity: Arc<dyn Fn() -> Identity + Send + Sync>,
    /// Which cluster it belongs to now.
    pub cluster: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    /// The clock.
    pub now: fn() -> Timestamp,
}

/// Tells until nobody publishes any more.
pub async fn tell(
    teller: Teller,
    mut hooks: watch::Receiver<Vec<Webhook>>,
    mut status: watch::Receiver<Option<Arc<Status>>>,
    view: watch::Sender<Vec<WebhookStatus>>,
) {
    let start = Instant::now();
    let mut queue = Queue::new(recall(&teller.memory));
    let mut kept = queue.memory().clone();
    let mut tries: JoinSet<(Try, Result<(), String>)> = JoinSet::new();
    queue.configure(hooks.borrow_and_update().clone(), (teller.now)());
    loop {
        let current = status.borrow_and_update().clone();
        let mut look = LOOK;
        if let Some(status) = current.filter(|_| !queue.is_idle()) {
            let cluster = (teller.cluster)();
            let seen = Seen {
                status: &status,
                cluster: cluster.as_deref(),
                now: (teller.now)(),
            };
            queue.observe(&seen);
            if let Some(at) = next_look(&seen) {
                let wait = Duration::try_from(at.duration_since(seen.now));
                look = look.min(wait.unwrap_or_default() + Duration::from_millis(10));
            }
            // What is told next is on disk before it is told: its id stays the same.
            keep(&teller.memory, &queue, &mut kept).await;
            for tried in queue.start(start.elapsed()) {
                let message = payload::message(&tried, &status, &(teller.identity)());
                tries.spawn(async move {
                    // A try that panics has failed: the queue has to hear of it.
                    let sent = send::send(&tried.hook, message, PATIENCE);
                    let result = AssertUnwindSafe(sent).catch_unwind().await;
                    let result = result.unwrap_or_else(|_| Err("the request panicked".to_owned()));
                    (tried, result)
                });
            }
        }
        view.send_if_modified(|shown| {
            let now = queue.view();
            let changed = *shown != now;
            *shown = now;
            changed
        });
        let wait = queue
            .next()
            .map_or(LOOK, |at| at.saturating_sub(start.elapsed()));
        tokio::select! {
            changed = status.changed() => if changed.is_err() { return },
            Ok(()) = hooks.changed() => {
                queue.configure(hooks.borrow_and_update().clone(), (teller.now)());
            }
            Some(ended) = tries.join_next() => {
                if let Ok((tried, result)) = ended {
                    let why = result.clone().err().unwrap_or_default();
                    let now = (teller.now)();
                    let told = queue.finished(&tried, result, start.elapsed(), now, spread);
                    journal_of(&tried, &told, &why);
                    keep(&teller.memory, &queue, &mut kept).await;
                }
            }
            () = tokio::time::sleep(wait.min(look)) => {}
        }
    }
}

fn journal_of(tried: &Try, told: &Told, why: &str) {
    let code = match told {
        Told::Delivered => Code::WebhookDelivered,
        Told::Failing => Code::WebhookFailing,
        Told::Nothing => return,
    };
    let console = tried.hook.console();
    let event = tried.hook.event.name();
    journal::tell(&Event {
        code,
        file: None,
        message: code.say(&[("event", event), ("console", &console), ("why", why)]),
    });
}

/// What cannot be read is as if nothing had been told: told twice is better than never.
fn recall(path: &Path) -> Memory {
    let content = fs::read(path).unwrap_or_default();
    serde_json::from_slice(&content).unwrap_or_default()
}

/// Writes down what is not on disk yet. A disk that takes nothing keeps nobody from being told.
async fn keep(path: &Path, queue: &Queue, kept: &mut Memory) {
    if queue.memory() == kept {
        return;
    }
    let (place, memory) = (path.to_path_buf(), queue.memory().clone());
    let written = tokio::task::spawn_blocking(move || -> std::io::Result<Memory> {
        if let Some(directory) = place.parent() {
            make_private(directory)?;
        }
        let content = crate::printable::json_pretty(&memory)?;
        replace(&place, content.as_bytes(), 0o600, Durability::Durable)?;
        Ok(memory)
    });
    match written.await {
        Ok(Ok(memory)) => *kept = memory,
        Ok(Err(error)) => tracing::trace!("{} cannot be written: {error}", path.display()),
        Err(error) => tracing::trace!("{} was not written: {error}", path.display()),
    }
}
