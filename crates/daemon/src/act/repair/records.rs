//! The records of cures that were begun: the saved objects, every step, and the objects before and after each request.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windrow_harvester::incidents::{
    Cure, CureRequest, CureStep, IncidentFinding, UnfinishedRepair, WayBack,
};
use windrow_model::manifest::sha256_hex;
use windrow_model::reasons::Code;

use super::restore_note::RestoreEntry;
use crate::act::turn::LOCK;
use crate::files::{Durability, make_private, read_at_most, replace};
use crate::fs;
use crate::lock::Lock;

/// A cure that was begun. Its file is in Windrow's state directory, readable by root only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub api_version: String,
    pub kind: String,
    pub code: Code,
    pub subject: String,
    /// The cluster, by the UID of its Namespace kube-system; none in a record of an earlier Windrow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    #[serde(default)]
    pub by: Worker,
    pub started: Timestamp,
    /// Its place in the order of this server's repairs, which no clock changes; 0 in a record of an earlier Windrow.
    #[serde(default)]
    pub number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// `None` until it is finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RepairOutcome>,
    /// Since when it is being undone. It is not continued then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoing: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<Timestamp>,
    /// Why it goes no further, and only restores its temporary changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<String>,
    /// How often the daemon has gone on with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resumed: u32,
    /// Whether the Lease has a note of the changes to restore.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub noted: bool,
    /// The server that began it, if this one took over the restoring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted_from: Option<String>,
    pub done: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ChangedObject>,
    pub cure: Cure,
}

impl Record {
    pub(super) fn new(code: Code, subject: String, cure: Cure, started: Timestamp) -> Self {
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "Repair".to_owned(),
            code,
            subject,
            cluster: None,
            by: Worker::default(),
            started,
            number: 0,
            finished: None,
            outcome: None,
            undoing: None,
            undone: None,
            given_up: None,
            resumed: 0,
            noted: false,
            adopted_from: None,
            done: 0,
            changed: Vec::new(),
            cure,
        }
    }

    /// Takes over the changes from the cluster's note. Changes that this server has restored already stay so: the
    /// cluster may not know.
    pub(super) fn take_over(&mut self, mut noted: Record) {
        for (at, step) in noted.cure.steps.iter().enumerate() {
            let Some(WayBack::Request(way_back)) = &step.way_back else {
                continue;
            };
            let ended = self.changed.iter().find(|changed| {
                let known = self.cure.steps.get(changed.step);
                let known = known.and_then(|step| step.way_back.as_ref());
                let is_it = matches!(known, Some(WayBack::Request(known)) if known == way_back);
                is_it && changed.ended.is_some()
            });
            let Some(ended) = ended else { continue };
            let changes = noted
                .changed
                .iter_mut()
                .filter(|changed| changed.step == at);
            for change in changes {
                (change.ended, change.why) = (ended.ended, ended.why.clone());
            }
        }
        (self.cure, self.changed, self.done) = (noted.cure, noted.changed, noted.done);
    }

    /// Whether it has a temporary change that is not restored yet, or that is still in the cluster's note.
    pub fn has_to_restore(&self) -> bool {
        self.noted || self.steps_to_restore().next().is_some()
    }

    /// The steps that restore temporary changes and are not done yet.
    pub fn steps_to_restore(&self) -> impl Iterator<Item = (usize, &CureStep)> {
        let steps = self.cure.steps.iter().enumerate();
        steps.filter(|(_, step)| step.gives_back() && self.change_to_restore(step).is_some())
    }

    pub(super) fn change_to_restore(&self, step: &CureStep) -> Option<usize> {
        let request = step.request.as_ref()?;
        self.changed.iter().position(|changed| {
            let way_back = self.cure.steps.get(changed.step);
            let way_back = way_back.and_then(|step| step.way_back.as_ref());
            changed.ended.is_none()
                && matches!(way_back, Some(WayBack::Request(back)) if back == request)
        })
    }

    /// The temporary changes that were not restored, because another client has changed the object since.
    pub(super) fn left_alone(&self) -> Vec<String> {
        let left = self.changed.iter();
        let left = left.filter(|changed| changed.ended == Some(ChangeEnd::ChangedByOthers));
        left.filter_map(|changed| {
            let restoring = self.restoring_step(self.cure.steps.get(changed.step)?)?;
            let why = changed.why.as_deref().unwrap_or_default();
            Some(format!("{}: {why}", restoring.say))
        })
        .collect()
    }

    /// Whether this step only waits for an object that the repair did not restore. Another client may want it to stay
    /// as it is.
    pub(super) fn waits_for_what_was_left_alone(&self, step: &CureStep) -> bool {
        let mut left = self.changed.iter();
        step.request.is_none()
            && left.any(|changed| {
                let made = self.cure.steps.get(changed.step);
                let made = made.and_then(|made| made.request.as_ref());
                changed.ended == Some(ChangeEnd::ChangedByOthers)
                    && made.is_some_and(|made| made.path == step.goal.path())
            })
    }

    pub(super) fn is_restored_elsewhere(&self) -> bool {
        let mut changed = self.changed.iter();
        changed.any(|changed| changed.ended == Some(ChangeEnd::RestoredElsewhere))
    }

    /// The step of the same cure that restores the change of this one; `None` if the change is meant to stay.
    pub(super) fn restoring_step(&self, step: &CureStep) -> Option<&CureStep> {
        let Some(WayBack::Request(back)) = &step.way_back else {
            return None;
        };
        let mut steps = self.cure.steps.iter();
        steps.find(|other| other.gives_back() && other.request.as_ref() == Some(back))
    }

    /// Whether it may have sent a request without receiving the answer.
    pub fn has_request_in_doubt(&self) -> bool {
        self.requests_in_doubt().next().is_some()
    }

    pub(super) fn requests_in_doubt(&self) -> impl Iterator<Item = &CureRequest> {
        let changed = self.changed.iter();
        let in_doubt = changed.filter(|changed| changed.after.is_none() && changed.ended.is_none());
        in_doubt.filter_map(|changed| self.cure.steps.get(changed.step)?.request.as_ref())
    }

    /// Whether it only restores or undoes from now on.
    pub fn is_given_up(&self) -> bool {
        self.given_up.is_some() || self.undoing.is_some()
    }

    /// Whether it is unfinished, or was finished and is half undone.
    pub fn is_open(&self) -> bool {
        self.undone.is_none() && (self.finished.is_none() || self.undoing.is_some())
    }

    /// Whether there is a request left that restores nothing, and that kube-apiserver has not taken yet.
    pub(super) fn takes_more(&self) -> bool {
        let takes = |step: &CureStep| step.request.is_some() && !step.gives_back();
        self.steps_left()
            .any(|(at, step)| takes(step) && !self.was_taken(at))
    }

    /// Whether there is a request that kube-apiserver has not taken yet. An object that was not changed is not
    /// restored.
    pub fn has_request_left(&self) -> bool {
        let is_due = |step: &CureStep| !step.gives_back() || self.change_to_restore(step).is_some();
        self.steps_left()
            .any(|(at, step)| step.request.is_some() && is_due(step) && !self.was_taken(at))
    }

    /// Whether kube-apiserver has taken the request of this step.
    pub(super) fn was_taken(&self, step: usize) -> bool {
        let mut changed = self.changed.iter();
        changed.any(|changed| changed.step == step && changed.after.is_some())
    }

    /// The steps left that only wait, before something is restored.
    pub(super) fn waits_left(&self) -> impl Iterator<Item = &CureStep> {
        let steps = self.steps_left().map(|(_, step)| step);
        let steps = steps.take_while(|step| !step.gives_back());
        steps.filter(|step| step.request.is_none())
    }

    fn steps_left(&self) -> impl Iterator<Item = (usize, &CureStep)> {
        self.cure.steps.iter().enumerate().skip(self.done)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangedObject {
    pub step: usize,
    /// The object right before the request. It is written down before the request is sent.
    pub before: Value,
    /// The object in kube-apiserver's answer. `None` if the answer was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// How it ended: nothing of it is restored or undone any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<ChangeEnd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl ChangedObject {
    pub fn new(step: usize, before: Value) -> Self {
        Self {
            step,
            before,
            after: None,
            ended: None,
            why: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeEnd {
    Restored,
    /// Another client has changed it since, so it stays as it is.
    ChangedByOthers,
    NoWayBack,
    RestoredElsewhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RepairOutcome {
    Done,
    /// It went no further, and restored its temporary changes.
    GivenBack,
    /// As [`Self::GivenBack`], but an object stays as it is because another client had changed it.
    NotRestored,
    /// Another client had changed its object. It had nothing to restore.
    Outdated,
    /// The same incident was recognised for other objects.
    Superseded,
    Over,
    Abandoned,
    /// A version that it relies on was not confirmed any more.
    Unconfirmed,
    /// The state that it waited for was not reached, and it had nothing left to do.
    InVain,
    Undone,
    RestoredElsewhere,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Worker {
    #[default]
    Person,
    /// The daemon, because `repair.auto` names the code.
    Daemon,
}

/// In bytes. A record contains each changed object up to three times.
const LARGEST: u64 = 64 << 20;
/// The longest part of a file name for a subject, in bytes.
const LONGEST: usize = 120;

#[derive(Debug, Clone)]
pub struct Records {
    directory: PathBuf,
    cluster: Option<String>,
}

impl Records {
    pub fn new(state_dir: &Path) -> Self {
        Self {
            directory: state_dir.join("repairs"),
            cluster: None,
        }
    }

    /// Only the records of this cluster, by the UID of its Namespace kube-system.
    #[must_use]
    pub fn of_cluster(self, cluster: Option<String>) -> Self {
        Self { cluster, ..self }
    }

    /// The cluster of the record, if the records are for another one. An old record does not name its cluster.
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
        let mut record = Record {
            cluster: self.cluster.clone(),
            by,
            ..Record::new(finding.code, finding.subject.clone(), cure.clone(), now)
        };
        // The record of another repair is not lost, if that began in the same second.
        while fs::try_exists(self.path(&record))? {
            record.started += SignedDuration::from_secs(1);
        }
        record.number = self.next_number()?;
        self.write(&record)?;
        Ok(record)
    }

    pub fn close(
        &self,
        record: &mut Record,
        outcome: RepairOutcome,
        now: Timestamp,
    ) -> io::Result<()> {
        record.finished = record.finished.or(Some(now));
        record.outcome = Some(outcome);
        self.write(record)
    }

    /// The daemon goes on with a cure that was interrupted.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn resume(&self, record: &mut Record) -> io::Result<()> {
        record.resumed = record.resumed.saturating_add(1);
        self.write(record)
    }

    /// Takes over the restoring from another server. The record is on the disk when this returns; the record of an
    /// earlier try is continued.
    ///
    /// # Errors
    ///
    /// Those of the file system, or a finished record of this name.
    pub fn adopt(&self, entry: &RestoreEntry) -> io::Result<Record> {
        let mut record = entry.to_record();
        if self.name(&record) != entry.record {
            return Err(io::Error::other("its name is not the name of a record"));
        }
        match self.named(&entry.record) {
            Ok(known) if known.is_open() => return Ok(known),
            Ok(_) => return Err(io::Error::other("its record here is finished")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        record.number = self.next_number()?;
        self.write(&record)?;
        Ok(record)
    }

    /// The number of the next record. One that cannot be read does not count.
    fn next_number(&self) -> io::Result<u64> {
        let paths = self.paths("")?;
        let known = paths.iter().filter_map(|path| read(path).ok());
        let last = known.map(|record| record.number).max();
        Ok(last.unwrap_or_default().saturating_add(1))
    }

    /// Whether this machine may take over the entry. It may not if its own record goes on with it, or if the entry is
    /// of another cluster.
    pub fn may_adopt(&self, entry: &RestoreEntry) -> bool {
        let is_ours = match (&self.cluster, &entry.cluster) {
            (Some(asked), Some(recorded)) => asked == recorded,
            _ => true,
        };
        let known = self.named(&entry.record);
        let is_unknown = known.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        is_ours && is_unknown && !entry.changes.is_empty()
    }

    /// The open records of this cluster that have something to restore. One that cannot be read is passed over.
    pub fn to_restore(&self) -> Vec<Record> {
        let mut found = self.open();
        found.retain(Record::has_to_restore);
        found
    }

    /// As [`Self::to_restore`], and those whose undo has not ended.
    pub fn to_restore_or_undo(&self) -> Vec<Record> {
        let mut found = self.open();
        found.retain(|record| record.has_to_restore() || record.undoing.is_some());
        found
    }

    /// The open records of this cluster that have nothing to restore and are not being undone.
    pub fn without_a_change_for_a_while(&self) -> Vec<Record> {
        let mut found = self.open();
        found.retain(|record| !record.has_to_restore() && record.undoing.is_none());
        found
    }

    fn open(&self) -> Vec<Record> {
        let paths = self.paths("").unwrap_or_default();
        let found = paths.iter().filter_map(|path| read(path).ok());
        found
            .filter(|record| self.other_cluster(record).is_none() && record.is_open())
            .collect()
    }

    /// The records in `without_a_change_for_a_while` as a finding shows them, if no process of this machine repairs.
    /// The lock shows whether one does.
    pub fn unfinished_repairs(&self) -> Vec<UnfinishedRepair> {
        let lock = self.directory.with_file_name(LOCK);
        let found = self.to_restore();
        if found.is_empty() || !matches!(Lock::take(&lock), Ok(Some(_))) {
            return Vec::new();
        }
        let found = found.iter();
        found
            .map(|record| UnfinishedRepair {
                record: self.name(record),
                subject: record.subject.clone(),
                server: String::new(),
                since: record.started,
                steps: record
                    .steps_to_restore()
                    .map(|(_, step)| step.say.clone())
                    .collect(),
            })
            .collect()
    }

    /// The cures of this code in this cluster that were begun and not finished. A cure that is being undone is included
    /// only while it has something to restore.
    ///
    /// # Errors
    ///
    /// A record that cannot be read: the objects saved in it must not be forgotten.
    pub fn unfinished(&self, code: Code) -> io::Result<Vec<Record>> {
        let mut found = self.all(&format!("{code}-"))?;
        found.retain(|record| {
            let is_ours = self.other_cluster(record).is_none();
            let goes_on = record.undoing.is_none() || record.has_to_restore();
            is_ours && record.code == code && record.is_open() && goes_on
        });
        Ok(found)
    }

    /// All cures of this code that this server has begun in this cluster, with any outcome.
    ///
    /// # Errors
    ///
    /// A record that cannot be read.
    pub fn begun(&self, code: Code) -> io::Result<Vec<Record>> {
        let mut found = self.all(&format!("{code}-"))?;
        found.retain(|record| record.code == code && self.other_cluster(record).is_none());
        Ok(found)
    }

    /// `name` is a file name, as in [`Records::path`].
    ///
    /// # Errors
    ///
    /// There is no such record, or it cannot be read.
    pub fn named(&self, name: &str) -> io::Result<Record> {
        if name.contains('/') {
            return Err(io::Error::other("it is not the name of a file"));
        }
        read(&self.directory.join(name))
    }

    /// Whether the record is still as it was read. After waiting for its turn to repair, a caller has to ask: another
    /// process may have continued or undone the cure. A record that cannot be read is not current.
    pub fn is_current(&self, record: &Record) -> bool {
        let written = self.named(&self.name(record));
        written.is_ok_and(|written| written == *record)
    }

    /// When the record of this file name was last written. It tells apart two equal tries.
    pub fn written_at(&self, name: &str) -> Option<Timestamp> {
        let file = fs::metadata(self.directory.join(name)).ok()?;
        let nanosecond = i32::try_from(file.mtime_nsec()).ok()?;
        Timestamp::new(file.mtime(), nanosecond).ok()
    }

    /// The newest record of a cure of this cluster, with any outcome.
    ///
    /// # Errors
    ///
    /// A record that cannot be read.
    pub fn newest(&self) -> io::Result<Option<Record>> {
        let mut found = self.all("")?;
        found.retain(|record| self.other_cluster(record).is_none());
        Ok(found
            .into_iter()
            .max_by_key(|record| (record.number, record.started)))
    }

    /// Every record in a file whose name begins so ([`Records::name`]), by subject.
    fn all(&self, prefix: &str) -> io::Result<Vec<Record>> {
        let paths = self.paths(prefix)?;
        let found: io::Result<Vec<Record>> = paths.iter().map(|path| read(path)).collect();
        let mut found = found?;
        found.sort_by(|a, b| a.subject.cmp(&b.subject));
        Ok(found)
    }

    fn paths(&self, prefix: &str) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&self.directory, error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(prefix) && name.ends_with(".json") {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }

    pub fn path(&self, record: &Record) -> PathBuf {
        self.directory.join(self.name(record))
    }

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

    pub fn write(&self, record: &Record) -> io::Result<()> {
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

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn read(path: &Path) -> io::Result<Record> {
    let read = || {
        let text = read_at_most(path, LARGEST)?;
        serde_json::from_slice(&text).map_err(io::Error::other)
    };
    read().map_err(|error| at(path, error))
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
