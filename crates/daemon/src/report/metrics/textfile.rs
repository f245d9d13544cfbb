//! The file for node_exporter's textfile collector, for when the status server cannot be reached or is off.
//!
//! It is written when the status changes, and once a minute: its time shows that the daemon runs. At a clean end it is
//! removed. After a kill it stays, and its time grows old.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use windrow_decide::Event;
use windrow_model::reasons::Code;

use super::{MetricsSource, TextFormat};
use crate::files::{Durability, replace, sweep};
use crate::fs::{self, UnlinkedDirectory};
use crate::report::journal;

/// Shortest time between two writes, and the longest.
const PAUSE: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_secs(60);

/// Keeps the file until the publisher of the status is gone. `wanted` has its path, if it is wanted.
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
                // After several quick changes, only the newest counts.
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
        let written = text.and_then(|text| write_file(path, &text, (source.now)()));
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
            let _ = remove_file(path);
        }
    }
}

fn write_file(path: &Path, text: &str, now: Timestamp) -> io::Result<()> {
    let directory = UnlinkedDirectory::of_file(path)?;
    sweep(&directory.path(), now);
    // node_exporter runs as a separate user.
    let mode = 0o644;
    let file = directory.file(path);
    replace(&file, text.as_bytes(), mode, Durability::Volatile)
}

fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(UnlinkedDirectory::of_file(path)?.file(path))
}

fn not_written(path: &Path, why: &str) -> Event {
    let what = format!("write the metrics to {}", path.display());
    Event::new(
        Code::ActionFailed,
        Code::ActionFailed.say(&[("what", &what), ("error", why)]),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_metrics_directory_that_another_user_makes_a_link_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let directories = ["victim", "exporter", "exporter/textfile"].map(|name| root.join(name));
        for directory in &directories {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join(".windrow-left.tmp"), "").unwrap();
        }
        let [victim, exporter, textfile] = directories;
        let path = textfile.join("windrow.prom");
        // Every temporary file is an old one.
        let now: Timestamp = "2100-01-01T00:00:00Z".parse().unwrap();
        write_file(&path, "first", now).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert!(!textfile.join(".windrow-left.tmp").exists());

        fs::rename(&textfile, exporter.join("old")).unwrap();
        symlink("../victim", &textfile).unwrap();
        fs::write(victim.join("windrow.prom"), "victim's").unwrap();
        write_file(&path, "second", now).unwrap_err();
        remove_file(&path).unwrap_err();
        let content = fs::read_to_string(victim.join("windrow.prom")).unwrap();
        assert_eq!(content, "victim's");
        assert!(victim.join(".windrow-left.tmp").exists());
    }
}
