//! The file for node_exporter's textfile collector, where there is no way to the status server, or none is wanted.
//!
//! It is written when the status changes, and once a minute besides: whoever reads it sees by its time that the daemon runs.
//! At a clean end it is removed. After a kill it stays, and its time grows old.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use windrow_decide::Event;
use windrow_model::reasons::Code;

use super::{MetricsSource, TextFormat};
use crate::files::{Durability, replace, sweep};
use crate::fs;
use crate::report::journal;

/// Shortest time between two writes, and the longest.
const PAUSE: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_secs(60);

/// Keeps the file until the publisher of the status is gone. `wanted` says where it is wanted.
pub async fn serve(
    source: MetricsSource,
    wanted: impl Fn() -> Option<PathBuf>,
    mut configured: watch::Receiver<impl Send + Sync>,
) {
    let mut status = source.status.clone();
    let mut textfile = Textfile::new(wanted());
    let mut last: Option<Instant> = None;
    let mut due = Instant::now();
    loop {
        tokio::select! {
            changed = status.changed() => {
                if changed.is_err() {
                    break;
                }
                // Of several quick changes only the newest counts.
                due = due.min(last.map_or_else(Instant::now, |last| last + PAUSE));
            }
            Ok(()) = configured.changed() => {
                let now_wanted = wanted();
                if textfile.path != now_wanted {
                    textfile.remove();
                    textfile = Textfile::new(now_wanted);
                    due = Instant::now();
                }
            }
            () = sleep_until(due), if textfile.path.is_some() => {
                textfile.write(&source);
                last = Some(Instant::now());
                due = Instant::now() + EVERY;
            }
        }
    }
    textfile.remove();
}

struct Textfile {
    path: Option<PathBuf>,
    /// Why it could not be written, so that each reason is reported once.
    reported: Option<String>,
}

impl Textfile {
    fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            reported: None,
        }
    }

    fn write(&mut self, source: &MetricsSource) {
        let Some(path) = &self.path else { return };
        let text = source.text(TextFormat::Prometheus);
        let text = text.map_err(|error| io::Error::other(error.to_string()));
        let written = text.and_then(|text| {
            if let Some(directory) = path.parent() {
                sweep(directory, (source.now)());
            }
            // node_exporter runs as a user of its own.
            replace(path, text.as_bytes(), 0o644, Durability::Volatile)
        });
        let why = written.err().map(|error| error.to_string());
        if let Some(why) = &why
            && self.reported.as_ref() != Some(why)
        {
            journal::write_event(&not_written(path, why));
        }
        self.reported = why;
    }

    fn remove(&self) {
        if let Some(path) = &self.path {
            // A missing file is fine. One that cannot be removed grows old.
            let _ = fs::remove_file(path);
        }
    }
}

fn not_written(path: &Path, why: &str) -> Event {
    let what = format!("write the metrics to {}", path.display());
    Event::new(
        Code::ActionFailed,
        Code::ActionFailed.say(&[("what", &what), ("error", why)]),
    )
}
