//! The interface `dev.windrow.Agent1`.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;
use zbus::message::Header;
use zbus::{Connection, Variant, fdo};

use super::authority::Caller;
use super::{Desk, Verb};
use crate::decide::Status;
use crate::printable::{is_hidden, json, printable};

/// The properties, as they are shown at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Face {
    readiness: String,
    phase: String,
    reason_code: String,
    reason_message: String,
    summary: String,
    since: u64,
    generation: u64,
    total: u32,
    held: u32,
    applied: u32,
    failed: u32,
    findings: u32,
}

impl Face {
    /// Before there is a status nothing is known.
    pub(super) fn of(status: Option<&Status>) -> Self {
        let Some(status) = status else {
            return Self {
                readiness: "Unknown".to_owned(),
                ..Self::default()
            };
        };
        let staging = &status.staging;
        Self {
            readiness: word(&status.readiness),
            phase: word(&status.phase),
            reason_code: status.reason.code.as_str().to_owned(),
            reason_message: printable(&status.reason.message),
            summary: printable(&status.summary),
            since: u64::try_from(status.since.as_microsecond()).unwrap_or_default(),
            generation: status.generation,
            total: count(staging.total),
            held: count(staging.held.len()),
            applied: count(staging.applied.len()),
            failed: count(staging.failed.len()),
            findings: count(status.findings.len()),
        }
    }

    /// Each property with its value.
    fn properties(&self) -> [(&'static str, Variant<'_>); 12] {
        [
            ("Readiness", self.readiness.as_str().into()),
            ("Phase", self.phase.as_str().into()),
            ("ReasonCode", self.reason_code.as_str().into()),
            ("ReasonMessage", self.reason_message.as_str().into()),
            ("Summary", self.summary.as_str().into()),
            ("Since", self.since.into()),
            ("Generation", self.generation.into()),
            ("Total", self.total.into()),
            ("Held", self.held.into()),
            ("Applied", self.applied.into()),
            ("Failed", self.failed.into()),
            ("Findings", self.findings.into()),
        ]
    }

    /// The properties that are not as they were.
    pub(super) fn differs_from(&self, before: &Self) -> HashMap<&'static str, Variant<'_>> {
        let pairs = self.properties().into_iter().zip(before.properties());
        pairs
            .filter(|(now, before)| now.1 != before.1)
            .map(|(now, _)| now)
            .collect()
    }
}

/// The word that the status document has for it.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The object.
pub(super) struct Agent {
    status: watch::Receiver<Option<Arc<Status>>>,
    desk: Arc<dyn Desk>,
}

impl Agent {
    pub(super) fn new(status: watch::Receiver<Option<Arc<Status>>>, desk: Arc<dyn Desk>) -> Self {
        Self { status, desk }
    }

    fn current(&self) -> fdo::Result<Arc<Status>> {
        let status = self.status.borrow().clone();
        status.ok_or_else(|| fdo::Error::Failed("there is no status yet".to_owned()))
    }

    fn face(&self) -> Face {
        Face::of(self.status.borrow().as_deref())
    }

    async fn order(
        &self,
        verb: Verb,
        files: Vec<String>,
        reason: String,
        connection: &Connection,
        header: &Header<'_>,
    ) -> fdo::Result<Vec<String>> {
        let by = Caller::of(connection, header).await?.may(verb).await?;
        if files.is_empty() {
            return Err(fdo::Error::InvalidArgs("no file is named".to_owned()));
        }
        let reason = one_line(&reason);
        let desk = self.desk.clone();
        on_a_thread(move || desk.order(verb, &files, &by, &reason))
            .await?
            .map_err(fdo::Error::Failed)
    }
}

/// What a caller wrote goes into the journal and into markers.
fn one_line(reason: &str) -> String {
    const LONGEST: usize = 200;
    let line: String = reason
        .chars()
        .map(
            |character| {
                if is_hidden(character) { ' ' } else { character }
            },
        )
        .take(LONGEST)
        .collect();
    match line.trim() {
        "" => "no reason given".to_owned(),
        line => line.to_owned(),
    }
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> fdo::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| fdo::Error::Failed(error.to_string()))
}

/// The node as Windrow sees it. All properties come from one status document and change together:
/// one PropertiesChanged signal has all that differ.
#[zbus::interface(name = "dev.windrow.Agent1")]
impl Agent {
    /// The status document, as JSON (docs/status.schema.json).
    async fn status(&self) -> fdo::Result<String> {
        let status = self.current()?;
        json(&*status).map_err(|error| fdo::Error::Failed(error.to_string()))
    }

    /// Why a manifest file or an object is as it is, down to the root blocker, as JSON: the same as
    /// `windrow why -o json`.
    async fn why(&self, what: String) -> fdo::Result<String> {
        let status = self.current()?;
        self.desk.why(&status, &what).ok_or_else(|| {
            fdo::Error::InvalidArgs(format!(
                "nothing is known of {what}: no manifest file of that name is staged, and no held \
                 file has or needs such an object"
            ))
        })
    }

    /// Holds manifest files: RKE2 does not apply them until they are released. Returns the paths of
    /// those held. Asks PolicyKit for dev.windrow.hold.
    #[zbus(out_args("held"))]
    async fn hold(
        &self,
        files: Vec<String>,
        reason: String,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<String>> {
        self.order(Verb::Hold, files, reason, connection, &header)
            .await
    }

    /// Releases manifest files: RKE2 applies them at its next pass. Returns their paths. Asks
    /// PolicyKit for dev.windrow.release.
    #[zbus(out_args("released"))]
    async fn release(
        &self,
        files: Vec<String>,
        reason: String,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<String>> {
        self.order(Verb::Release, files, reason, connection, &header)
            .await
    }

    /// The version of the running daemon.
    #[zbus(property(emits_changed_signal = "const"))]
    async fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    /// Ready, SettingUp, Degraded, Failed or Unknown.
    #[zbus(property)]
    async fn readiness(&self) -> String {
        self.face().readiness
    }

    /// The part of the bootstrap that the node is in.
    #[zbus(property)]
    async fn phase(&self) -> String {
        self.face().phase
    }

    /// The stable code of the first blocker (docs/reasons.md).
    #[zbus(property)]
    async fn reason_code(&self) -> String {
        self.face().reason_code
    }

    /// The first blocker, in a line.
    #[zbus(property)]
    async fn reason_message(&self) -> String {
        self.face().reason_message
    }

    /// One line of at most 65 characters.
    #[zbus(property)]
    async fn summary(&self) -> String {
        self.face().summary
    }

    /// Since when Readiness and Phase are as they are, in microseconds since 1970.
    #[zbus(property)]
    async fn since(&self) -> u64 {
        self.face().since
    }

    /// Rises by one with every change of the status document.
    #[zbus(property)]
    async fn generation(&self) -> u64 {
        self.face().generation
    }

    /// How many manifest files are staged.
    #[zbus(property)]
    async fn total(&self) -> u32 {
        self.face().total
    }

    /// How many of them are kept from RKE2.
    #[zbus(property)]
    async fn held(&self) -> u32 {
        self.face().held
    }

    /// How many RKE2 has applied.
    #[zbus(property)]
    async fn applied(&self) -> u32 {
        self.face().applied
    }

    /// How many RKE2 cannot apply.
    #[zbus(property)]
    async fn failed(&self) -> u32 {
        self.face().failed
    }

    /// How many known problems there are.
    #[zbus(property)]
    async fn findings(&self) -> u32 {
        self.face().findings
    }
}
