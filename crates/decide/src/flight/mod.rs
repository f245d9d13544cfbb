//! The format of the flight recorder: the input and the result of each decision, one line each.
//!
//! ```text
//!   flight ── configuration ── files ── decision ── decision ── files ── decision ── ...
//!      │            │            │          │
//!      │            │            │          └─ facts that changed, then actions, outcome, events
//!      │            │            └─ manifests: objects without their secrets, with their lines
//!      │            └─ settings, rule packs, digest and origin of every configuration file
//!      └─ a process or the file began: the following lines need nothing from earlier ones
//! ```
//!
//! Each line holds only the changes since the line before. A replay gives the same values to the same function, so a
//! decision from a node can be repeated anywhere (crate `replay`). A last line that is incomplete after a power cut is ignored.
//!
//! Digests are written under a [`DigestKey`] of the process, so that no short secret can be guessed from its digest.
//!
//! Pure: converts values to lines and back. `report::flight` writes the lines to disk.

mod appearance;
pub mod facts;
mod key;
mod manifests;
mod provenance;
mod redact;
mod site_names;
mod tap;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windrow_model::manifest::{ManifestPath, MarkerPath};
use windrow_model::reasons::Code;
use windrow_plan::knowledge::NodeFacts;
use windrow_plan::rules::Platform;

use crate::{Action, Decision, Event, FileStage, Ledger, Observation, Phase, Readiness};
use crate::{Status, StatusReason};

pub use appearance::{Appeared, Provenance, RecordedAppearance, RecordedMachine, RecordedRelease};
use facts::{FactChanges, RecordedFacts};
pub use key::DigestKey;
pub use manifests::RecordedFile;
pub use provenance::{FieldManager, ObjectMetadata, OwnerReference, provenance};
pub use site_names::hashed_name;
pub use tap::Tap;

/// The format that this program writes.
pub const VERSION: u32 = 1;

/// One line of a flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum FlightLine {
    /// The following lines can be replayed without earlier ones.
    Flight(FlightHead),
    /// The configuration in force from here on.
    Configuration(RecordedConfiguration),
    /// Manifest files that are new, changed or gone.
    Files(RecordedFiles),
    /// A decision by which something changed.
    Decision(Box<RecordedDecision>),
    /// A repair began or ended.
    Repair(RecordedRepair),
    /// The node's hardware and versions.
    Machine(RecordedMachine),
    /// A kind, a namespace, a class, a webhook or a namespace's defaults came into the cluster.
    Appeared(RecordedAppearance),
    /// A Helm release was installed, or failed.
    Release(RecordedRelease),
}

/// The result of a repair. Without the objects: the record of the repair has those.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRepair {
    /// The time of this event.
    pub at: Timestamp,
    /// `repair-begun`, `repair-done` or `repair-failed`.
    pub event: Code,
    /// The incident that it cures.
    pub code: Code,
    /// The subject of this incident.
    pub subject: String,
    /// Who runs it.
    pub by: String,
    /// The line that was reported.
    pub message: String,
    /// Its steps, as text.
    pub steps: Vec<String>,
    /// How many of them are done.
    pub done: usize,
    /// The file of the record, with the objects before the repair.
    pub record: String,
}

/// The beginning of a flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlightHead {
    /// Format version.
    pub version: u32,
    /// Windrow's version.
    pub windrow: String,
    /// When the flight began.
    pub at: Timestamp,
    /// The kernel's id of the boot; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
}

/// The configuration, as far as decisions depend on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedConfiguration {
    /// When it came into force.
    pub at: Timestamp,
    /// Hex SHA-256 over settings and rules.
    pub digest: String,
    /// The files that it comes from.
    pub origin: Vec<ConfigurationSource>,
    /// The node's platform; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// The node's other facts, which RKE2's configuration selects.
    #[serde(default, skip_serializing_if = "NodeFacts::is_unknown")]
    pub node: NodeFacts,
    /// Settings that decisions depend on, in the form of the configuration file.
    pub settings: BTreeMap<String, String>,
    /// Every rule pack in force.
    pub rules: Vec<RecordedRulePack>,
}

/// One configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationSource {
    /// Its path.
    pub path: String,
    /// Hex SHA-256 of its bytes, keyed.
    pub sha256: String,
}

/// One rule pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRulePack {
    /// Its file, as it is named in reasons.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Changes of manifest files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedFiles {
    /// When Windrow observed the changes.
    pub at: Timestamp,
    /// New and changed files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<RecordedFile>,
    /// Removed files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<ManifestPath>,
}

/// One decision: the changes before it, and its results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedDecision {
    /// When the decision was made.
    pub at: Timestamp,
    /// Observations that are new or changed since the last recorded decision, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, Value>,
    /// Observations that are no longer true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// The ledger before the decision, if something other than the last recorded decision changed it: an order, the
    /// clock, or markers that were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Ledger>,
    /// The actions, and whether each was carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<RecordedAction>,
    /// The reported events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<RecordedEvent>,
    /// The node's readiness.
    pub readiness: Readiness,
    /// The node's phase of the bootstrap.
    pub phase: Phase,
    /// The first blocker, or the reason for the readiness without one.
    pub reason: StatusReason,
    /// The line of at most 65 characters.
    pub summary: String,
    /// Files whose state changed; the state of the others is as before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<ManifestPath, RecordedStage>,
    /// Files that are no longer staged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<ManifestPath>,
    /// When the next decision was due even if nothing happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_wake: Option<Timestamp>,
}

/// One action and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedAction {
    /// The type of the action.
    #[serde(rename = "do")]
    pub what: ActionKind,
    /// The marker; absent for the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<MarkerPath>,
    /// Was it carried out?
    pub done: bool,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum ActionKind {
    Hold,
    Lift,
    SaveLedger,
}

impl std::fmt::Display for ActionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ActionKind::Hold => "hold",
            ActionKind::Lift => "lift",
            ActionKind::SaveLedger => "save the ledger",
        })
    }
}

/// One journal entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedEvent {
    /// The code of the event.
    pub code: Code,
    /// The message of the event.
    pub message: String,
}

/// The state of a file: as the ledger has it, without the reason's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum RecordedStage {
    /// Kept from RKE2.
    Held {
        /// The first blocker's code.
        code: Code,
    },
    /// RKE2 may apply it.
    Released,
    /// RKE2 applied it.
    Applied,
}

impl std::fmt::Display for RecordedStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordedStage::Held { code } => write!(f, "held ({code})"),
            RecordedStage::Released => f.write_str("released"),
            RecordedStage::Applied => f.write_str("applied"),
        }
    }
}

/// One decision of the daemon, with its input and its results.
#[derive(Debug, Clone)]
pub struct DecisionToRecord {
    pub at: Timestamp,
    pub observation: Observation,
    /// The ledger before, if it differs from the one after the last decision that was handed over.
    pub before: Option<Ledger>,
    pub after: Ledger,
    /// Each with whether it was carried out.
    pub actions: Vec<RecordedAction>,
    pub events: Vec<RecordedEvent>,
    pub status: Status,
    /// When the next decision is due even if nothing happens.
    pub next_wake: Option<Timestamp>,
}

/// Turns decisions into lines. Remembers the content of earlier lines.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    facts: RecordedFacts,
    files: BTreeMap<ManifestPath, RecordedStage>,
    /// False before the first line, which carries the whole ledger.
    begun: bool,
}

impl Recorder {
    pub fn record(&mut self, made: DecisionToRecord) -> FlightLine {
        let FactChanges { changed, gone } = self.facts.take(&made.observation);
        let files = file_stages(&made.after);
        let files_changed = files
            .iter()
            .filter(|(path, state)| self.files.get(*path) != Some(state))
            .map(|(path, state)| (path.clone(), *state))
            .collect();
        let forgotten = missing(&self.files, &files);
        self.files = files;
        self.begun = true;
        FlightLine::Decision(Box::new(RecordedDecision {
            at: made.at,
            facts: changed,
            gone,
            ledger: made.before,
            actions: made.actions,
            events: made.events,
            readiness: made.status.readiness,
            phase: made.status.phase,
            reason: made.status.reason,
            summary: made.status.summary,
            files: files_changed,
            forgotten,
            next_wake: made.next_wake,
        }))
    }

    /// Forgets the earlier lines: the next one begins a flight.
    pub fn start_over(&mut self) {
        *self = Self::default();
    }

    pub fn wants_ledger(&self) -> bool {
        !self.begun
    }
}

fn missing<K: Ord + Clone, V>(before: &BTreeMap<K, V>, after: &BTreeMap<K, V>) -> Vec<K> {
    before
        .keys()
        .filter(|name| !after.contains_key(*name))
        .cloned()
        .collect()
}

pub fn file_stages(ledger: &Ledger) -> BTreeMap<ManifestPath, RecordedStage> {
    ledger
        .files
        .iter()
        .map(|(path, entry)| {
            let state = match &entry.state {
                FileStage::Held { code, .. } => RecordedStage::Held { code: *code },
                FileStage::Released { .. } => RecordedStage::Released,
                FileStage::Applied { .. } => RecordedStage::Applied,
            };
            (path.clone(), state)
        })
        .collect()
}

/// All of them not yet carried out.
pub fn recorded_actions(decision: &Decision) -> Vec<RecordedAction> {
    decision
        .actions
        .iter()
        .map(|action| {
            let (what, path) = kind_and_marker(action);
            RecordedAction {
                what,
                path: path.cloned(),
                done: false,
            }
        })
        .collect()
}

fn mark_done(actions: &mut [RecordedAction], done: &[Action]) {
    for action in actions {
        action.done = done
            .iter()
            .any(|one| kind_and_marker(one) == (action.what, action.path.as_ref()));
    }
}

fn kind_and_marker(action: &Action) -> (ActionKind, Option<&MarkerPath>) {
    match action {
        Action::Hold { path, .. } => (ActionKind::Hold, Some(path)),
        Action::Lift { path } => (ActionKind::Lift, Some(path)),
        Action::SaveLedger(_) => (ActionKind::SaveLedger, None),
    }
}

/// Without the file, because the message names it.
fn recorded_events<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<RecordedEvent> {
    events
        .into_iter()
        .map(|event| RecordedEvent {
            code: event.code,
            message: event.message.clone(),
        })
        .collect()
}

/// The markers that a decision changes: a replay has to change the same ones. The ledger is compared separately.
pub fn marker_changes(actions: &[RecordedAction]) -> BTreeSet<(ActionKind, MarkerPath)> {
    actions
        .iter()
        .filter_map(|action| Some((action.what, action.path.clone()?)))
        .collect()
}
