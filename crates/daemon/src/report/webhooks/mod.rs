//! Webhooks: each console gets a request when an event becomes true, even if another console is slow, wrong or dead.
//!
//! `event` reads events from the status, `queue` decides which console gets which event and when, `payload` and
//! `cloud_event` write the request: all pure. `send` sends it. This file runs them outside the daemon's loop, which
//! never waits for them.

mod cloud_event;
mod event;
mod payload;
mod queue;
mod send;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::cloud_event::NodeFacts;
use self::event::{EventInputs, next_change};
pub use self::payload::NodeIdentity;
pub use self::send::has_password;
use windrow_decide::settings::Webhook;
use windrow_decide::{Event, WebhookStatus};
use windrow_model::reasons::Code;

use self::queue::{DeliveryMemory, DeliveryTry, TryOutcome, WebhookQueue};
use super::journal;
use super::server::ServerState;
use crate::backoff::spread;
use crate::files::{Durability, make_private, replace};
use crate::fs;
use crate::report::publish::StatusWatch;

/// Longest time for one whole try.
const PATIENCE: Duration = Duration::from_secs(15);
/// Longest time between two looks at the status: when the clock is set, a distant time may suddenly be near.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

pub struct WebhookContext {
    pub memory: PathBuf,
    pub identity: Arc<dyn Fn() -> NodeIdentity + Send + Sync>,
    pub cluster: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    pub server: watch::Receiver<ServerState>,
    pub now: fn() -> Timestamp,
}

/// The JSON schema of an event, as committed in `docs/event.schema.json`.
pub fn event_schema() -> String {
    cloud_event::schema()
}

/// Delivers until the publisher of the status is gone.
pub async fn deliver(
    mut context: WebhookContext,
    mut hooks: watch::Receiver<Vec<Webhook>>,
    mut status: StatusWatch,
    view: watch::Sender<Vec<WebhookStatus>>,
) {
    let start = Instant::now();
    let mut queue = WebhookQueue::new(read_memory(&context.memory));
    let mut saved = SavedMemory::new(context.memory.clone(), queue.memory());
    let mut tries: JoinSet<(DeliveryTry, Result<(), String>)> = JoinSet::new();
    queue.configure(hooks.borrow_and_update().clone(), (context.now)());
    loop {
        let current = status.borrow_and_update().clone();
        let mut wait_for_change = LONGEST_WAIT;
        if let Some(status) = current.filter(|_| !queue.is_idle()) {
            let cluster = (context.cluster)();
            let server = context.server.borrow_and_update().clone();
            let inputs = EventInputs {
                status: &status,
                cluster: cluster.as_deref(),
                server: &server,
                now: (context.now)(),
            };
            queue.observe(&inputs);
            if let Some(at) = next_change(&inputs) {
                let wait = Duration::try_from(at.duration_since(inputs.now));
                wait_for_change =
                    wait_for_change.min(wait.unwrap_or_default() + Duration::from_millis(10));
            }
            let due = queue.start(start.elapsed());
            // An occurrence is on disk before it is sent, so that its id stays the same after a restart.
            if let Some(event) = saved.save(queue.memory()).await {
                journal::write_event(&event);
            }
            for tried in due {
                let facts = NodeFacts {
                    status: &status,
                    node: &(context.identity)(),
                    server: server.status(),
                    now: inputs.now,
                };
                let message = payload::message(&tried, &facts);
                tries.spawn(async move {
                    // A try that panics has failed, and the queue must learn of it.
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
            .map_or(LONGEST_WAIT, |at| at.saturating_sub(start.elapsed()));
        tokio::select! {
            changed = status.changed() => if changed.is_err() { return },
            Ok(()) = context.server.changed() => {}
            Ok(()) = hooks.changed() => {
                queue.configure(hooks.borrow_and_update().clone(), (context.now)());
            }
            Some(ended) = tries.join_next() => {
                if let Ok((tried, result)) = ended {
                    let why = result.clone().err().unwrap_or_default();
                    let now = (context.now)();
                    let outcome = queue.finished(&tried, result, start.elapsed(), now, spread);
                    write_outcome(&tried, &outcome, &why);
                    if let Some(event) = saved.save(queue.memory()).await {
                journal::write_event(&event);
            }
                }
            }
            () = tokio::time::sleep(wait.min(wait_for_change)) => {}
        }
    }
}

fn write_outcome(tried: &DeliveryTry, outcome: &TryOutcome, why: &str) {
    let code = match outcome {
        TryOutcome::Delivered => Code::WebhookDelivered,
        TryOutcome::Failing => Code::WebhookFailing,
        TryOutcome::Nothing => return,
    };
    let console = tried.hook.console();
    let event = tried.hook.event.name();
    journal::write_event(&Event {
        code,
        file: None,
        message: code.say(&[("event", event), ("console", &console), ("why", why)]),
    });
}

/// A file that cannot be read counts as empty: sending an event twice is better than never.
fn read_memory(path: &Path) -> DeliveryMemory {
    let content = fs::read(path).unwrap_or_default();
    serde_json::from_slice(&content).unwrap_or_default()
}

struct SavedMemory {
    path: PathBuf,
    kept: DeliveryMemory,
    is_failing: bool,
}

impl SavedMemory {
    fn new(path: PathBuf, kept: &DeliveryMemory) -> Self {
        Self {
            path,
            kept: kept.clone(),
            is_failing: false,
        }
    }

    /// Writes it if it has changed. A full disk does not stop deliveries, but it is reported once, until they can be
    /// recorded again.
    async fn save(&mut self, memory: &DeliveryMemory) -> Option<Event> {
        if *memory == self.kept {
            return None;
        }
        let (path, memory) = (self.path.clone(), memory.clone());
        let written = tokio::task::spawn_blocking(move || -> std::io::Result<DeliveryMemory> {
            if let Some(directory) = path.parent() {
                make_private(directory)?;
            }
            let content = crate::printable::json_pretty(&memory)?;
            replace(&path, content.as_bytes(), 0o600, Durability::Durable)?;
            Ok(memory)
        });
        let why = match written.await {
            Ok(Ok(memory)) => {
                self.kept = memory;
                self.is_failing = false;
                return None;
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        if std::mem::replace(&mut self.is_failing, true) {
            return None;
        }
        let what = format!(
            "record in {} what webhooks have sent, so that a restart may send it again",
            self.path.display()
        );
        Some(Event {
            code: Code::ActionFailed,
            file: None,
            message: Code::ActionFailed.say(&[("what", &what), ("error", &why)]),
        })
    }
}
