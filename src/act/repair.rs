//! Carries a cure out step by step, and records its progress.
//!
//! ```text
//!   record written (what is saved, every step) ──> for each step:
//!        goal reached? ──yes──> next, written down
//!             │no
//!             └──> request (once it is taken) ──> look again, until the goal is reached or patience ends
//! ```
//!
//! The record is durable before the first request. After an interruption the cure continues where it was. A step whose
//! request was sent but not recorded is recognised as done by its goal.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request as Http;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use windrow_harvester::incidents::{Cure, CureRequest, CureStep, IncidentFinding};
use windrow_harvester::objects::text;
use windrow_model::reasons::Code;
use windrow_model::redact;

use crate::files::{Durability, make_private, read_text, replace};

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a refused request is tried again: a webhook may see the old object for a while.
const REFUSED: Duration = Duration::from_secs(60);
/// The pause between two looks.
const LOOK: Duration = Duration::from_secs(1);

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
    /// Who started it: a person, or Windrow itself.
    #[serde(default)]
    pub by: Worker,
    /// When it was begun.
    pub started: Timestamp,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// How many of its steps are done.
    pub done: usize,
    /// The cure, with the objects as they were.
    pub cure: Cure,
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

/// Where the records of a node are.
#[derive(Debug, Clone)]
pub struct Records {
    directory: PathBuf,
}

impl Records {
    /// Those below Windrow's state directory.
    pub fn new(state_dir: &Path) -> Self {
        Self {
            directory: state_dir.join("repairs"),
        }
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
            by,
            started: now,
            finished: None,
            done: 0,
            cure: cure.clone(),
        };
        self.write(&record)?;
        Ok(record)
    }

    /// The cures of this code that were begun and not finished.
    ///
    /// # Errors
    ///
    /// A record that cannot be read: what it saved must not be forgotten.
    pub fn unfinished(&self, code: Code) -> io::Result<Vec<Record>> {
        let mut found = self.all()?;
        found.retain(|record| record.code == code && record.finished.is_none());
        Ok(found)
    }

    /// Reads the record of this file name, as [`Records::path`] ends.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be read.
    pub fn named(&self, name: &str) -> io::Result<Record> {
        if name.contains('/') {
            return Err(io::Error::other("it is no name of a file"));
        }
        read(&self.directory.join(name))
    }

    /// Every record, by subject.
    fn all(&self) -> io::Result<Vec<Record>> {
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_none_or(|end| end != "json") {
                continue;
            }
            found.push(read(&path)?);
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
        let subject: String = record.subject.chars().map(plain).collect();
        format!(
            "{}-{subject}-{}.json",
            record.code,
            record.started.as_second()
        )
    }

    fn write(&self, record: &Record) -> io::Result<()> {
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
    serde_json::from_str(&read_text(path)?)
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

/// Why a cure did not finish.
#[derive(Debug, thiserror::Error)]
pub enum Unfinished {
    /// A step did not reach its goal.
    #[error("{step}: {why}")]
    Step {
        /// The step.
        step: String,
        /// Why.
        why: String,
    },
    /// The progress could not be recorded.
    #[error("the record of the repair cannot be written: {0}")]
    Record(#[from] io::Error),
}

/// Carries a cure out, from the step that it reached. `tell` is called at the beginning of each step.
///
/// # Errors
///
/// Why it did not finish. It can be started again.
pub async fn carry_out(
    client: &Client,
    records: &Records,
    record: &mut Record,
    now: impl Fn() -> Timestamp,
    mut tell: impl FnMut(usize, &CureStep),
) -> Result<(), Unfinished> {
    while let Some(step) = record.cure.steps.get(record.done) {
        tell(record.done, step);
        carry_out_step(client, step).await?;
        record.done += 1;
        records.write(record)?;
    }
    record.finished = Some(now());
    records.write(record)?;
    Ok(())
}

async fn carry_out_step(client: &Client, step: &CureStep) -> Result<(), Unfinished> {
    let began = Instant::now();
    let patience = Duration::from_secs(step.patience.into());
    let mut waits_for_it = step.request.is_none();
    let mut last = "nothing was seen".to_owned();
    let failed = |why: String| Unfinished::Step {
        step: step.say.clone(),
        why,
    };
    loop {
        match get(client, step.goal.path()).await {
            Ok(seen) if step.goal.is_reached(seen.as_ref()) => return Ok(()),
            Ok(_) => {
                if waits_for_it {
                    last = format!("it was not seen until {}", step.goal.say());
                }
                if let (false, Some(request)) = (waits_for_it, &step.request) {
                    match carry_out_request(client, request).await {
                        Ok(()) => waits_for_it = true,
                        Err(why) if began.elapsed() >= REFUSED.min(patience) => {
                            return Err(failed(why));
                        }
                        Err(why) => last = why,
                    }
                    if waits_for_it {
                        // The goal may already be reached.
                        continue;
                    }
                }
            }
            Err(why) => last = why,
        }
        if began.elapsed() >= patience {
            return Err(failed(format!("{last} ({} s)", step.patience)));
        }
        sleep(LOOK).await;
    }
}

async fn get(client: &Client, path: &str) -> Result<Option<Value>, String> {
    let request = Http::get(path).body(Vec::new());
    match send(client, request.map_err(|error| error.to_string())?).await? {
        (200, value) => Ok(Some(value)),
        (404, _) => Ok(None),
        (status, value) => Err(refusal(status, &value)),
    }
}

async fn carry_out_request(client: &Client, request: &CureRequest) -> Result<(), String> {
    let http = Http::builder()
        .method(request.method.verb())
        .uri(&request.path)
        .header("content-type", request.method.content_type())
        .body(request.body.to_string().into_bytes())
        .map_err(|error| error.to_string())?;
    match send(client, http).await? {
        (200..=299, _) => Ok(()),
        (status, value) => Err(refusal(status, &value)),
    }
}

async fn send(client: &Client, request: Http<Vec<u8>>) -> Result<(u16, Value), String> {
    let answer = timeout(PATIENCE, async {
        let response = client.send(request.map(Body::from)).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect_bytes().await?;
        Ok::<_, kube::Error>((status, serde_json::from_slice(&body).unwrap_or_default()))
    });
    match answer.await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

fn refusal(status: u16, said: &Value) -> String {
    match text(said, "/message") {
        "" => format!("HTTP {status}"),
        message => format!("{status}: {}", redact::message(message)),
    }
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
