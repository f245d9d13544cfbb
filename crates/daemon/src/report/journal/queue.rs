//! A queue in front of journald, whose socket blocks: a journald that hangs must not stop the daemon's loop.
//!
//! ```text
//!   event ──> queue ──> thread ──> journald
//!               └─ full: dropped, and counted
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;

/// Most entries that wait for journald.
const MOST_WAITING: usize = 1024;
/// How long the last entries may take when the program ends.
const LAST_ENTRIES: Duration = Duration::from_secs(2);
/// The fields of our entries. A field of a library is written with its message.
const FIELDS: [&str; 9] = [
    "MESSAGE_ID",
    "WINDROW_CODE",
    "WINDROW_FILE",
    "WINDROW_READINESS",
    "WINDROW_PHASE",
    "WINDROW_GENERATION",
    "WINDROW_ADVICE",
    "WINDROW_PROBE",
    "WINDROW_STATE",
];

pub(super) struct JournalQueue {
    queue: SyncSender<Queued>,
    dropped: Arc<AtomicUsize>,
}

/// Writes the rest of the queue when it is dropped.
#[must_use]
pub struct JournalEnd(Option<SyncSender<Queued>>);

enum Queued {
    Entry(Box<JournalEntry>),
    /// Everything before it is written.
    End(SyncSender<()>),
}

struct JournalEntry {
    level: Level,
    message: String,
    fields: [Option<String>; FIELDS.len()],
}

impl JournalQueue {
    pub(super) fn begin(
        journald: impl Layer<Registry> + Send + Sync + 'static,
    ) -> (Self, JournalEnd) {
        let (queue, entries) = sync_channel(MOST_WAITING);
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&dropped);
        let _ = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                let journald = tracing_subscriber::registry().with(journald);
                tracing::subscriber::with_default(journald, || write(&entries, &counted));
            });
        let end = JournalEnd(Some(queue.clone()));
        (Self { queue, dropped }, end)
    }
}

impl JournalEnd {
    pub(super) fn none() -> Self {
        Self(None)
    }
}

impl Drop for JournalEnd {
    fn drop(&mut self) {
        let (written, all) = sync_channel(1);
        if let Some(queue) = &self.0
            && queue.try_send(Queued::End(written)).is_ok()
        {
            let _ = all.recv_timeout(LAST_ENTRIES);
        }
    }
}

impl<S: Subscriber> Layer<S> for JournalQueue {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut entry = JournalEntry {
            level: *event.metadata().level(),
            message: String::new(),
            fields: Default::default(),
        };
        event.record(&mut entry);
        match self.queue.try_send(Queued::Entry(Box::new(entry))) {
            Err(TrySendError::Full(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
            // The system gave no thread. Standard error is the journal, too.
            Err(TrySendError::Disconnected(Queued::Entry(entry))) => eprintln!("{}", entry.message),
            Ok(()) | Err(TrySendError::Disconnected(Queued::End(_))) => {}
        }
    }
}

impl Visit for JournalEntry {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.insert_str(0, value);
        } else if let Some(at) = FIELDS.iter().position(|name| *name == field.name()) {
            self.fields[at] = Some(value.to_owned());
        } else {
            self.message.push_str(&format!(" {}={value}", field.name()));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

fn write(entries: &Receiver<Queued>, dropped: &AtomicUsize) {
    while let Ok(queued) = entries.recv() {
        match queued {
            Queued::Entry(entry) => entry.write(),
            Queued::End(written) => {
                let _ = written.send(());
            }
        }
        let missing = dropped.swap(0, Ordering::Relaxed);
        if missing > 0 {
            tracing::warn!("{missing} entries are missing here: journald was too slow");
        }
    }
}

impl JournalEntry {
    fn write(&self) {
        let field = |name: &str| {
            let at = FIELDS.iter().position(|known| *known == name)?;
            self.fields[at].as_deref()
        };
        // tracing's macros need the level and the set of fields at compile time.
        macro_rules! entry {
            ($level:expr) => {
                tracing::event!(
                    $level,
                    MESSAGE_ID = field("MESSAGE_ID"),
                    WINDROW_CODE = field("WINDROW_CODE"),
                    WINDROW_FILE = field("WINDROW_FILE"),
                    WINDROW_READINESS = field("WINDROW_READINESS"),
                    WINDROW_PHASE = field("WINDROW_PHASE"),
                    WINDROW_GENERATION = field("WINDROW_GENERATION"),
                    WINDROW_ADVICE = field("WINDROW_ADVICE"),
                    WINDROW_PROBE = field("WINDROW_PROBE"),
                    WINDROW_STATE = field("WINDROW_STATE"),
                    "{}",
                    self.message
                )
            };
        }
        match self.level {
            Level::ERROR => entry!(Level::ERROR),
            Level::WARN => entry!(Level::WARN),
            Level::INFO => entry!(Level::INFO),
            Level::DEBUG => entry!(Level::DEBUG),
            Level::TRACE => entry!(Level::TRACE),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A journald that takes entries only while it gets permits.
    struct SlowJournal {
        permits: Mutex<Receiver<()>>,
        written: SyncSender<JournalEntry>,
    }

    impl<S: Subscriber> Layer<S> for SlowJournal {
        fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
            // After the last permit it takes everything.
            let _ = self.permits.lock().unwrap().recv();
            let mut entry = JournalEntry {
                level: *event.metadata().level(),
                message: String::new(),
                fields: Default::default(),
            };
            event.record(&mut entry);
            self.written.send(entry).unwrap();
        }
    }

    #[test]
    fn a_journal_that_hangs_stops_nobody_and_missing_entries_are_counted() {
        let (permit, permits) = sync_channel(1);
        let (written, entries) = sync_channel(2 * MOST_WAITING);
        let journald = SlowJournal {
            permits: Mutex::new(permits),
            written,
        };
        let (queue, end) = JournalQueue::begin(journald);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(queue), || {
            tracing::debug!(
                MESSAGE_ID = "id",
                WINDROW_FILE = "a.yaml",
                other = 7,
                "the first"
            );
            permit.send(()).unwrap();
            let first = entries.recv().unwrap();
            assert_eq!(
                (first.level, first.message.as_str()),
                (Level::DEBUG, "the first other=7")
            );
            let fields: Vec<_> = first.fields.into_iter().flatten().collect();
            assert_eq!(fields, ["id", "a.yaml"]);
            // One of them is in the thread's hands, or will be.
            for _ in 0..MOST_WAITING + 10 {
                tracing::warn!("another");
            }
        });
        drop(permit);
        let reports = |entry: &JournalEntry| entry.message.contains("entries are missing here");
        assert!(entries.iter().any(|entry| reports(&entry)));
        drop(end);
    }
}
