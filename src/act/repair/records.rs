//! The records of cures that were begun: what was saved, every step, and what each request found and left.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windrow_harvester::incidents::{Cure, CureStep, IncidentFinding};
use windrow_model::manifest::sha256_hex;
use windrow_model::reasons::Code;

use crate::files::{Durability, make_private, read_at_most, replace};

/// A cure that was begun. Lies in Windrow's state directory, readable by root only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Repair`
    pub kind: String,
    /// The code of what it cures.
    pub code: Code,
    /// The subject that it cures.
    pub subject: String,
    /// The cluster, by the UID of its Namespace kube-system; none in a record of an earlier Windrow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Who started it: a person, or Windrow itself.
    #[serde(default)]
    pub by: Worker,
    /// When it was begun.
    pub started: Timestamp,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// When it was undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<Timestamp>,
    /// How many of its steps are done.
    pub done: usize,
    /// What its requests have changed, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ChangedObject>,
    /// The cure, with the objects as they were.
    pub cure: Cure,
}

impl Record {
    /// Has it changed something that a step of it is still to restore?
    pub fn has_to_give_back(&self) -> bool {
        self.next_to_give_back().is_some()
    }

    /// The next step that restores something, where something was changed.
    pub(super) fn next_to_give_back(&self) -> Option<usize> {
        let next = self.steps_left().find(|(_, step)| step.gives_back());
        next.filter(|_| !self.changed.is_empty()).map(|(at, _)| at)
    }

    /// Is there a request left that restores nothing, and that kube-apiserver has not taken yet?
    pub(super) fn takes_more(&self) -> bool {
        let takes = |step: &CureStep| step.request.is_some() && !step.gives_back();
        self.steps_left()
            .any(|(at, step)| takes(step) && !self.was_taken(at))
    }

    /// Is there a request that kube-apiserver has not taken yet?
    pub fn has_request_left(&self) -> bool {
        self.steps_left()
            .any(|(at, step)| step.request.is_some() && !self.was_taken(at))
    }

    /// Has kube-apiserver taken the request of this step?
    pub(super) fn was_taken(&self, step: usize) -> bool {
        let mut changed = self.changed.iter();
        changed.any(|changed| changed.step == step && changed.after.is_some())
    }

    /// The steps left that only wait.
    pub(super) fn waits_left(&self) -> impl Iterator<Item = &CureStep> {
        let steps = self.steps_left().map(|(_, step)| step);
        steps.filter(|step| step.request.is_none())
    }

    fn steps_left(&self) -> impl Iterator<Item = (usize, &CureStep)> {
        self.cure.steps.iter().enumerate().skip(self.done)
    }
}

/// What a request changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangedObject {
    /// The step, counted from 0.
    pub step: usize,
    /// The object right before the request. It is written down before the request is sent.
    pub before: Value,
    /// What kube-apiserver answered: the object right after it. None when the answer was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Who starts a cure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Worker {
    /// A person, with `windrow repair`.
    #[default]
    Person,
    /// The daemon, because `repair.auto` names the code.
    Daemon,
}

/// The largest record that is read, in bytes. Each object that is changed stands in it up to three times.
const LARGEST: u64 = 64 << 20;
/// Of a subject, as it is in the name of a record's file, in bytes.
const LONGEST: usize = 120;

/// Where the records of a node are. They may be of several clusters.
#[derive(Debug, Clone)]
pub struct Records {
    directory: PathBuf,
    cluster: Option<String>,
}

impl Records {
    /// Those below Windrow's state directory.
    pub fn new(state_dir: &Path) -> Self {
        Self {
            directory: state_dir.join("repairs"),
            cluster: None,
        }
    }

    /// The same, for this cluster alone, by the UID of its Namespace kube-system.
    #[must_use]
    pub fn of_cluster(self, cluster: Option<String>) -> Self {
        Self { cluster, ..self }
    }

    /// The cluster that it is of, where it is another one than the records are for. An old record does not say it.
    pub fn other_cluster<'r>(&self, record: &'r Record) -> Option<&'r str> {
        let (asked, recorded) = (self.cluster.as_deref()?, record.cluster.as_deref()?);
        (asked != recorded).then_some(recorded)
    }

    /// Begins a cure: its record is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// Those of the file system; nothing may be changed then.
    pub fn begin(
        &self,
        finding: &IncidentFinding,
        cure: &Cure,
        by: Worker,
        now: Timestamp,
    ) -> io::Result<Record> {
        let record = Record {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "Repair".to_owned(),
            code: finding.code,
            subject: finding.subject.clone(),
            cluster: self.cluster.clone(),
            by,
            started: now,
            finished: None,
            undone: None,
            done: 0,
            changed: Vec::new(),
            cure: cure.clone(),
        };
        self.write(&record)?;
        Ok(record)
    }

    /// Closes a cure: it is not continued.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn close(&self, record: &mut Record, now: Timestamp) -> io::Result<()> {
        record.finished = Some(now);
        self.write(record)
    }

    /// The cures of this code that were begun and not finished, of this cluster.
    ///
    /// # Errors
    ///
    /// A record that cannot be read: what it saved must not be forgotten.
    pub fn unfinished(&self, code: Code) -> io::Result<Vec<Record>> {
        let mut found = self.all(&format!("{code}-"))?;
        found.retain(|record| {
            let is_ours = self.other_cluster(record).is_none();
            is_ours && record.code == code && record.finished.is_none()
        });
        Ok(found)
    }

    /// Reads the record of this file name, as [`Records::path`] ends.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be read.
    pub fn named(&self, name: &str) -> io::Result<Record> {
        if name.contains('/') {
            return Err(io::Error::other("it is not the name of a file"));
        }
        read(&self.directory.join(name))
    }

    /// Is the record still as it was read? Whoever waited for its turn to repair asks: somebody else may have gone on with the
    /// cure meanwhile, or undone it. One that cannot be read is not.
    pub fn is_current(&self, record: &Record) -> bool {
        let written = self.named(&self.name(record));
        written.is_ok_and(|written| written == *record)
    }

    /// The newest record of a cure of this cluster that changed something and was not undone.
    ///
    /// # Errors
    ///
    /// A record that cannot be read.
    pub fn newest_to_undo(&self) -> io::Result<Option<Record>> {
        let mut found = self.all("")?;
        found.retain(|record| {
            let is_ours = self.other_cluster(record).is_none();
            is_ours && record.undone.is_none() && !record.changed.is_empty()
        });
        Ok(found.into_iter().max_by_key(|record| record.started))
    }

    /// Every record in a file whose name begins so ([`Records::name`]), by subject.
    fn all(&self, prefix: &str) -> io::Result<Vec<Record>> {
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&self.directory, error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(prefix) && name.ends_with(".json") {
                found.push(read(&path)?);
            }
        }
        found.sort_by(|a, b| a.subject.cmp(&b.subject));
        Ok(found)
    }

    /// A record's path.
    pub fn path(&self, record: &Record) -> PathBuf {
        self.directory.join(self.name(record))
    }

    /// The name of a record's file.
    pub fn name(&self, record: &Record) -> String {
        let plain = |c: char| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' => c,
            _ => '_',
        };
        let mut subject: String = record.subject.chars().map(plain).collect();
        // A file's name has 255 bytes at most.
        if subject.len() > LONGEST {
            subject.truncate(LONGEST);
            subject.push('-');
            subject.push_str(&sha256_hex(record.subject.as_bytes())[..16]);
        }
        format!(
            "{}-{subject}-{}.json",
            record.code,
            record.started.as_second()
        )
    }

    pub(super) fn write(&self, record: &Record) -> io::Result<()> {
        make_private(&self.directory)?;
        // A struct of strings, numbers and JSON always serialises.
        let content = serde_json::to_string_pretty(record).unwrap_or_default() + "\n";
        // It holds whole objects, so only root may read it.
        replace(
            &self.path(record),
            content.as_bytes(),
            0o600,
            Durability::Durable,
        )
    }
}

fn read(path: &Path) -> io::Result<Record> {
    let read = || {
        let text = read_at_most(path, LARGEST)?;
        serde_json::from_slice(&text).map_err(io::Error::other)
    };
    read().map_err(|error| at(path, error))
}

/// An error with the file that it is about.
fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
