//! What repairs have changed for a while, as the cluster itself keeps it: an annotation of the Lease `windrow-repairs`.
//!
//! ```text
//!   before a temporary change ──> the step that restores it is added ──> record ──> request
//!   it is restored            ──> the step is removed
//!   all is restored           ──> the entry is removed; or, after another server restored it, says who did
//! ```
//!
//! A server that is lost takes its records with it. From this annotation any other server restores the objects.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;
use windrow_harvester::incidents::{
    Cure, CureGoal, CureRequest, CureStep, UnfinishedRepair, WayBack,
};
use windrow_model::reasons::Code;

use super::records::{ChangedObject, Record, Worker};
use crate::act::ClusterLease;

/// The annotation.
const ANNOTATION: &str = "windrow.dev/restore";
/// The largest annotation that is written, in bytes. Kubernetes keeps 256 KiB for all annotations of an object.
const LARGEST: usize = 192 << 10;
/// The most that an entry has besides its steps, in bytes.
const FRAME: usize = 4 << 10;
/// How many entries are kept that only say who restored them.
const MOST_RESTORED: usize = 16;

/// What one repair still has to restore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreEntry {
    /// The file name of the record.
    pub record: String,
    /// The cluster, by the UID of its Namespace kube-system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The code that is repaired.
    pub code: Code,
    /// The subject that is repaired.
    pub subject: String,
    /// The server that has the record, by its name in leases.
    pub server: String,
    /// Who started the repair.
    #[serde(default)]
    pub by: Worker,
    /// When the repair began.
    pub since: Timestamp,
    /// The steps that restore, in order.
    pub steps: Vec<CureStep>,
    /// What the change that each of these steps restores was to reach, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<ChangeGoal>,
    /// The server that restored all of it in place of the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_by: Option<String>,
}

/// What the annotation says of a record.
pub(super) enum Noted {
    /// The annotation is gone, or cannot be read.
    Lost,
    /// It has no entry of the record.
    Nothing,
    /// Its entry.
    Entry(RestoreEntry),
}

/// What a change for a while was to reach. It is not restored before that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeGoal {
    goal: CureGoal,
    /// How long that may take, in seconds.
    patience: u32,
}

impl ChangeGoal {
    fn of(step: &CureStep) -> Self {
        let (goal, patience) = (step.goal.clone(), step.patience);
        Self { goal, patience }
    }

    /// An entry without it: the object is there, so nothing is waited for.
    fn unknown(step: &CureStep) -> Self {
        let goal = CureGoal::Differs {
            path: step.goal.path().to_owned(),
            field: "/metadata/uid".to_owned(),
            value: Value::Null,
        };
        Self { goal, patience: 0 }
    }
}

impl RestoreEntry {
    /// As a finding shows it.
    pub fn in_short(&self) -> UnfinishedRepair {
        UnfinishedRepair {
            record: self.record.clone(),
            subject: self.subject.clone(),
            server: self.server.clone(),
            since: self.since,
            steps: self.steps.iter().map(|step| step.say.clone()).collect(),
        }
    }

    /// The record by which this server restores what another one has changed.
    pub(super) fn to_record(&self) -> Record {
        let changes = self.steps.iter().enumerate();
        let changes = changes.filter_map(|(at, step)| {
            let change = self.goals.get(at).cloned();
            let change = change.unwrap_or_else(|| ChangeGoal::unknown(step));
            Some(CureStep {
                request: None,
                way_back: Some(WayBack::Request(step.request.clone()?)),
                goal: change.goal,
                patience: change.patience,
                ..step.clone()
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
                    summary: "restore what was changed for a while".to_owned(),
                    changes: Vec::new(),
                    saves: Vec::new(),
                    purpose: None,
                    steps: [changes, self.steps.clone()].concat(),
                },
                self.since,
            )
        }
    }
}

/// Is there room in the Lease for all that this cure changes for a while?
pub fn has_room_for(cure: &Cure) -> bool {
    let bytes = cure.steps.iter().map(|step| {
        let text = if step.gives_back() {
            serde_json::to_vec(step)
        } else {
            serde_json::to_vec(&ChangeGoal::of(step))
        };
        text.map_or(LARGEST, |text| text.len() + 1)
    });
    bytes.sum::<usize>() + FRAME <= LARGEST
}

/// The annotation, for a server that has the Lease.
#[derive(Clone)]
pub struct RestoreNote {
    client: Client,
    /// The server's name in leases.
    holder: String,
    /// Held while the Lease is read and written: its renewal is such a write too.
    writes: Arc<Mutex<()>>,
}

impl RestoreNote {
    /// For the holder of this name. Whoever renews the Lease meanwhile holds `writes`.
    pub fn new(client: Client, holder: String, writes: Arc<Mutex<()>>) -> Self {
        Self {
            client,
            holder,
            writes,
        }
    }

    /// Every entry, whoever has the Lease.
    ///
    /// # Errors
    ///
    /// In a line, if kube-apiserver does not answer or refuses, or the annotation cannot be read.
    pub async fn entries(client: &Client) -> Result<Vec<RestoreEntry>, String> {
        let text = ClusterLease::annotation(client, ClusterLease::REPAIRS, ANNOTATION).await?;
        parse(text.as_deref())
    }

    /// Does a server repair at the moment? Then what has to be restored is not left behind.
    ///
    /// # Errors
    ///
    /// In a line, if kube-apiserver does not answer or refuses.
    pub async fn is_attended(client: &Client, now: Timestamp) -> Result<bool, String> {
        ClusterLease::is_held(client, ClusterLease::REPAIRS, now).await
    }

    /// Adds the step that restores a temporary change, before this is made.
    pub(super) async fn add(
        &self,
        name: &str,
        record: &Record,
        (change, step): (&CureStep, &CureStep),
    ) -> Result<(), String> {
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
                    steps: Vec::new(),
                    goals: Vec::new(),
                    restored_by: None,
                });
                entries.len() - 1
            });
            if !entries[at].steps.contains(step) {
                entries[at].steps.push(step.clone());
                entries[at].goals.push(ChangeGoal::of(change));
            }
        })
        .await
    }

    /// Removes the step of this request: it is restored, or another client has changed the object since.
    pub(super) async fn remove(&self, name: &str, request: &CureRequest) -> Result<(), String> {
        self.change(false, |entries| {
            let entry = entries.iter_mut().find(|entry| entry.record == name);
            let Some(entry) = entry else { return };
            let of_request = |step: &CureStep| step.request.as_ref() == Some(request);
            if let Some(at) = entry.steps.iter().position(of_request) {
                entry.steps.remove(at);
                if at < entry.goals.len() {
                    entry.goals.remove(at);
                }
            }
        })
        .await
    }

    /// Nothing of the record is left to restore. The server that has the record first is told if another one restored.
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
                entry.steps.clear();
                entry.goals.clear();
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

    /// The entry of a record.
    pub(super) async fn entry(&self, name: &str) -> Result<Noted, String> {
        let (client, lease) = (&self.client, ClusterLease::REPAIRS);
        let text = ClusterLease::annotation(client, lease, ANNOTATION).await?;
        // What cannot be read is as good as deleted.
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
            // What a newer Windrow wrote is neither added to nor lost.
            let before = match parse(text) {
                Ok(before) => before,
                Err(why) if adds => return Err(why),
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
                    "the Lease {} has no room for what has to be restored",
                    ClusterLease::REPAIRS
                ));
            }
            Ok(Some(text))
        };
        let (lease, holder) = (ClusterLease::REPAIRS, &self.holder);
        ClusterLease::annotate(&self.client, lease, holder, ANNOTATION, change).await
    }
}

fn parse(text: Option<&str>) -> Result<Vec<RestoreEntry>, String> {
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    serde_json::from_str(text).map_err(|error| {
        let lease = ClusterLease::REPAIRS;
        format!("the annotation {ANNOTATION} of the Lease {lease} cannot be read: {error}")
    })
}

#[cfg(test)]
#[path = "restore_note_tests.rs"]
mod tests;
