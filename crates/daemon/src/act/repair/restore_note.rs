//! The cluster's own note of temporary changes by repairs: an annotation of the Lease `windrow-repairs`.
//!
//! ```text
//!   before a temporary change ──> it is added ──> record ──> request
//!   it is restored            ──> it is removed
//!   all is restored           ──> the entry is removed; or, after another server restored it, says who did
//! ```
//!
//! When a server is lost, its records are lost too. From this annotation any other server restores the objects.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;
use windrow_harvester::incidents::{Cure, CureRequest, CureStep, UnfinishedRepair, WayBack};
use windrow_model::reasons::Code;
use windrow_model::text::cut;

use super::records::{ChangedObject, Record, Worker};
use super::temporary::TemporaryChange;
use crate::act::ClusterLease;

const ANNOTATION: &str = "windrow.dev/restore";
/// The largest annotation that is written, in bytes. Kubernetes keeps 256 KiB for all annotations of an object.
const LARGEST: usize = 192 << 10;
/// The size of an entry without its steps, at most, in bytes.
const FRAME: usize = 4 << 10;
/// How many entries are kept that only say who restored them.
const MOST_RESTORED: usize = 16;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestoreEntry {
    pub record: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    pub code: Code,
    pub subject: String,
    pub server: String,
    #[serde(default)]
    pub by: Worker,
    pub since: Timestamp,
    /// Its temporary changes, in the order in which they are restored.
    pub changes: Vec<TemporaryChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_by: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum NoteFailure {
    /// kube-apiserver does not answer or refuses; why, in a line.
    #[error("{0}")]
    Unanswered(String),
    /// A newer Windrow, or another client, wrote text that this version does not read.
    #[error("the annotation {ANNOTATION} of the Lease {lease} cannot be read: {why}", lease = ClusterLease::REPAIRS)]
    Unreadable { why: String },
}

pub(super) enum Noted {
    Lost,
    Nothing,
    Entry(RestoreEntry),
}

impl RestoreEntry {
    pub fn in_short(&self) -> UnfinishedRepair {
        UnfinishedRepair {
            record: self.record.clone(),
            subject: self.subject.clone(),
            server: self.server.clone(),
            since: self.since,
            steps: self.restoring_steps().map(|step| step.say).collect(),
        }
    }

    pub fn restoring_steps(&self) -> impl Iterator<Item = CureStep> {
        self.changes.iter().map(TemporaryChange::restoring_step)
    }

    pub(super) fn to_record(&self) -> Record {
        let changes = self.changes.iter().filter_map(|change| {
            let request = change.restoring_step().request?;
            Some(CureStep {
                request: None,
                way_back: Some(WayBack::Request(request)),
                ..change.changing_step()
            })
        });
        let changes: Vec<CureStep> = changes.collect();
        let done = changes.len();
        let changed = (0..done).map(|step| ChangedObject::new(step, Value::Null));
        Record {
            cluster: self.cluster.clone(),
            by: self.by,
            done,
            changed: changed.collect(),
            given_up: Some(format!("{} did not finish this repair", self.server)),
            noted: true,
            adopted_from: Some(self.server.clone()),
            ..Record::new(
                self.code,
                self.subject.clone(),
                Cure {
                    summary: "restore the temporary changes".to_owned(),
                    changes: Vec::new(),
                    saves: Vec::new(),
                    purpose: None,
                    steps: changes.into_iter().chain(self.restoring_steps()).collect(),
                },
                self.since,
            )
        }
    }
}

/// Whether the Lease has room for all temporary changes of this cure.
pub fn has_room_for(cure: &Cure) -> bool {
    let restoring = cure.steps.iter().filter(|step| step.gives_back());
    // The note of a step is shorter than its request.
    let bytes = restoring.map(|step| {
        let text = serde_json::to_vec(&step.request);
        text.map_or(LARGEST, |text| text.len())
    });
    bytes.sum::<usize>() + FRAME <= LARGEST
}

#[derive(Clone)]
pub struct RestoreNote {
    client: Client,
    holder: String,
    /// Locked while the Lease is read and written: its renewal is such a write too.
    writes: Arc<Mutex<()>>,
}

impl RestoreNote {
    /// For the holder of this name. A task that renews the Lease meanwhile locks `writes`.
    pub fn new(client: Client, holder: String, writes: Arc<Mutex<()>>) -> Self {
        Self {
            client,
            holder,
            writes,
        }
    }

    /// The entries of all servers.
    ///
    /// # Errors
    ///
    /// kube-apiserver does not answer or refuses, or the annotation cannot be read.
    pub async fn entries(client: &Client) -> Result<Vec<RestoreEntry>, NoteFailure> {
        let text = ClusterLease::annotation(client, ClusterLease::REPAIRS, ANNOTATION).await;
        parse(text.map_err(NoteFailure::Unanswered)?.as_deref())
    }

    /// Whether a server repairs at the moment. Then the changes to restore are not left behind.
    ///
    /// # Errors
    ///
    /// In a line, if kube-apiserver does not answer or refuses.
    pub async fn is_attended(client: &Client, now: Timestamp) -> Result<bool, String> {
        ClusterLease::is_held(client, ClusterLease::REPAIRS, now).await
    }

    /// Adds a temporary change of this object, before it is made. `restoring` is the step that restores it.
    pub(super) async fn add(
        &self,
        name: &str,
        record: &Record,
        (object, restoring): (&Value, &CureStep),
    ) -> Result<(), String> {
        let Some(change) = TemporaryChange::of(object, restoring) else {
            let say = &restoring.say;
            return Err(format!("no other server could do this: {say}"));
        };
        self.change(true, |entries| {
            let known = entries.iter().position(|entry| entry.record == name);
            let at = known.unwrap_or_else(|| {
                entries.push(RestoreEntry {
                    record: name.to_owned(),
                    cluster: record.cluster.clone(),
                    code: record.code,
                    subject: record.subject.clone(),
                    server: self.holder.clone(),
                    by: record.by,
                    since: record.started,
                    changes: Vec::new(),
                    restored_by: None,
                });
                entries.len() - 1
            });
            if !entries[at].changes.contains(&change) {
                entries[at].changes.push(change);
            }
        })
        .await
    }

    /// Removes the change that this request restores, once it is restored or another client has changed the object.
    pub(super) async fn remove(&self, name: &str, request: &CureRequest) -> Result<(), String> {
        self.change(false, |entries| {
            let mut entries = entries.iter_mut();
            if let Some(entry) = entries.find(|entry| entry.record == name) {
                let is_it = |step: CureStep| step.request.as_ref() == Some(request);
                entry
                    .changes
                    .retain(|change| !is_it(change.restoring_step()));
            }
        })
        .await
    }

    /// Nothing of the record is left to restore. If another server restored it, the entry says so to the server that
    /// has the record.
    pub(super) async fn finish(&self, name: &str, record: &Record) -> Result<(), String> {
        self.change(false, |entries| {
            if record
                .adopted_from
                .as_ref()
                .is_none_or(|from| *from == self.holder)
            {
                entries.retain(|entry| entry.record != name);
                return;
            }
            for entry in entries.iter_mut().filter(|entry| entry.record == name) {
                entry.changes.clear();
                entry.restored_by.get_or_insert_with(|| self.holder.clone());
            }
            let restored = entries.iter().filter(|entry| entry.restored_by.is_some());
            let mut late = restored.count().saturating_sub(MOST_RESTORED);
            entries.retain(|entry| {
                let stays = late == 0 || entry.restored_by.is_none();
                late -= usize::from(!stays);
                stays
            });
        })
        .await
    }

    pub(super) async fn entry(&self, name: &str) -> Result<Noted, String> {
        let (client, lease) = (&self.client, ClusterLease::REPAIRS);
        let text = ClusterLease::annotation(client, lease, ANNOTATION).await?;
        // An unreadable annotation is as good as a deleted one.
        let entries = text.and_then(|text| parse(Some(&text)).ok());
        Ok(match entries {
            None => Noted::Lost,
            Some(entries) => {
                let entry = entries.into_iter().find(|entry| entry.record == name);
                entry.map_or(Noted::Nothing, Noted::Entry)
            }
        })
    }

    async fn change(
        &self,
        adds: bool,
        change: impl FnOnce(&mut Vec<RestoreEntry>),
    ) -> Result<(), String> {
        let _alone = self.writes.lock().await;
        let change = |text: Option<&str>| {
            // The annotation of a newer Windrow is neither extended nor lost.
            let before = match parse(text) {
                Ok(before) => before,
                Err(why) if adds => return Err(why.to_string()),
                Err(_) => return Ok(None),
            };
            let mut entries = before.clone();
            change(&mut entries);
            if entries == before {
                return Ok(None);
            }
            // A struct of strings and JSON always serialises.
            let text = serde_json::to_string(&entries).unwrap_or_default();
            if adds && text.len() > LARGEST {
                return Err(format!(
                    "the Lease {} has no room for the changes to restore",
                    ClusterLease::REPAIRS
                ));
            }
            Ok(Some(text))
        };
        let (lease, holder) = (ClusterLease::REPAIRS, &self.holder);
        ClusterLease::annotate(&self.client, lease, holder, ANNOTATION, change).await
    }
}

fn parse(text: Option<&str>) -> Result<Vec<RestoreEntry>, NoteFailure> {
    let entries = text.map_or(Ok(Vec::new()), serde_json::from_str);
    // The error may quote what others wrote.
    entries.map_err(|error: serde_json::Error| NoteFailure::Unreadable {
        why: cut(error.to_string(), 200),
    })
}

#[cfg(test)]
#[path = "restore_note_tests.rs"]
mod tests;
