//! The one status document for every outlet: a watch value and a file.

use std::io;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use tokio::sync::watch;
use windrow_decide::{Status, StatusWriter};

use crate::files::{Durability, is_no_space, replace};
use crate::fs;
use crate::printable::{json, json_pretty};

/// For followers of the status; `None` before the first.
pub type StatusWatch = watch::Receiver<Option<PublishedStatus>>;

/// A status and its text, which is made once for all readers.
#[derive(Debug, Clone)]
pub struct PublishedStatus {
    pub status: Arc<Status>,
    text: Arc<OnceLock<Result<Arc<str>, String>>>,
}

impl PublishedStatus {
    /// Its text is made for the first reader.
    pub fn new(status: Status) -> Self {
        Self {
            status: Arc::new(status),
            text: Arc::default(),
        }
    }

    /// The document as JSON, in a line.
    ///
    /// # Errors
    ///
    /// Why it cannot be written, in a line.
    pub fn text(&self) -> Result<Arc<str>, String> {
        let text = || json(&*self.status).map(Arc::from);
        let text = self
            .text
            .get_or_init(|| text().map_err(|error| error.to_string()));
        text.clone()
    }
}

impl Deref for PublishedStatus {
    type Target = Status;

    fn deref(&self) -> &Status {
        &self.status
    }
}

/// Publishes the status: `generation` rises by one with every change.
#[derive(Debug)]
pub struct Publisher {
    path: PathBuf,
    writer: Option<StatusWriter>,
    earlier: Option<Box<Status>>,
    generation: u64,
    current: watch::Sender<Option<PublishedStatus>>,
    written: bool,
}

impl Publisher {
    pub fn new(path: PathBuf, writer: Option<StatusWriter>) -> Self {
        let earlier = fs::read(&path)
            .ok()
            .and_then(|content| serde_json::from_slice::<Box<Status>>(&content).ok());
        Self {
            path,
            writer,
            generation: earlier.as_ref().map_or(0, |status| status.generation),
            earlier,
            current: watch::Sender::new(None),
            written: true,
        }
    }

    /// The document that an earlier run of this boot has left, once.
    pub fn take_earlier(&mut self) -> Option<Box<Status>> {
        let boot = |writer: &Option<StatusWriter>| writer.as_ref().map(|one| one.boot_id.clone());
        let ours = boot(&self.writer);
        self.earlier
            .take()
            .filter(|status| boot(&status.writer) == ours)
    }

    /// For followers of the status.
    pub fn subscribe(&self) -> StatusWatch {
        self.current.subscribe()
    }

    pub fn current(&self) -> Option<PublishedStatus> {
        self.current.borrow().clone()
    }

    /// Publishes a status, if it has changed. True when it has.
    ///
    /// # Errors
    ///
    /// When the file could not be written. The watch has the new value, and the next call tries the file again.
    pub fn publish(&mut self, mut status: Status, now: Timestamp) -> io::Result<bool> {
        let last = self.current();
        status.writer.clone_from(&self.writer);
        status.since = match &last {
            Some(last) if stands_as(last, &status) => last.since,
            _ => now,
        };
        let same_phase = last.as_ref().filter(|last| last.phase == status.phase);
        // Outside of a bootstrap: since this process saw it.
        status.phase_since = status
            .phase_since
            .or_else(|| same_phase.and_then(|last| last.phase_since))
            .or(Some(now));
        let same_pace = last.as_ref().filter(|last| last.pace == status.pace);
        status.pace_since = status
            .pace
            .map(|_| same_pace.and_then(|last| last.pace_since).unwrap_or(now));
        let same = last.as_deref().is_some_and(|last| {
            status.generation = last.generation;
            *last == status
        });
        if same && self.written {
            return Ok(false);
        }
        if !same {
            self.generation += 1;
            status.generation = self.generation;
        }
        let status = PublishedStatus::new(status);
        if !same {
            self.current.send_replace(Some(status.clone()));
        }
        self.written = false;
        let content = json_pretty(&*status.status)? + "\n";
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        let write = || replace(&self.path, content.as_bytes(), 0o644, Durability::Volatile);
        write().or_else(|error| {
            // An old document that looks like a current one is worse than none; and its space may be enough.
            if is_no_space(&error) && fs::remove_file(&self.path).is_ok() {
                return write();
            }
            Err(error)
        })?;
        self.written = true;
        Ok(!same)
    }
}

fn stands_as(last: &Status, status: &Status) -> bool {
    last.readiness == status.readiness && last.phase == status.phase
}

#[cfg(test)]
pub(crate) fn sample(message: &str) -> Status {
    use windrow_decide::{Phase, ProgramVersions, Readiness, StatusReason};
    use windrow_model::reasons::Code;

    let reason = StatusReason {
        code: Code::Staging,
        message: message.to_owned(),
    };
    let (readiness, phase) = (Readiness::SettingUp, Phase::Staging);
    Status {
        headline: "Setting up".to_owned(),
        summary: message.to_owned(),
        versions: ProgramVersions::default(),
        ..Status::new(readiness, phase, reason, Timestamp::UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schema_is_that_of_the_document() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/status.schema.json");
        let schema = serde_json::to_string_pretty(&schemars::schema_for!(Status)).unwrap() + "\n";
        if std::env::var_os("WINDROW_UPDATE").is_some() {
            fs::write(path, &schema).unwrap();
        }
        let committed = fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == schema,
            "docs/status.schema.json is not current: WINDROW_UPDATE=1 writes it"
        );
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_generation_rises_by_one_per_change_and_goes_on_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("windrow/status.json");
        let read = || -> Status { serde_json::from_slice(&fs::read(&path).unwrap()).unwrap() };
        let mut publisher = Publisher::new(path.clone(), None);
        assert!(publisher.publish(sample("a"), at(1)).unwrap());
        assert!(!publisher.publish(sample("a"), at(2)).unwrap(), "only time");
        assert!(publisher.publish(sample("b"), at(3)).unwrap());
        assert_eq!(read().generation, 2);
        assert_eq!(read().since, at(1), "readiness and phase are as they were");

        let mut publisher = Publisher::new(path.clone(), None);
        assert!(publisher.publish(sample("b"), at(4)).unwrap());
        assert_eq!(read().generation, 3);
    }

    #[test]
    fn a_file_that_could_not_be_written_is_written_later() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("windrow/status.json");
        fs::write(directory.path().join("windrow"), "").unwrap();
        let mut publisher = Publisher::new(path.clone(), None);
        let follower = publisher.subscribe();
        assert!(publisher.publish(sample("a"), at(1)).is_err());
        assert!(follower.borrow().is_some(), "the watch has it");
        fs::remove_file(directory.path().join("windrow")).unwrap();
        assert!(!publisher.publish(sample("a"), at(2)).unwrap());
        assert!(path.exists());
    }
}
