//! The flight recorder's format: what a decision rested on and what came of it, one line each.
//!
//! ```text
//!   flight ── configuration ── files ── decision ── decision ── files ── decision ── ...
//!      │            │            │          │
//!      │            │            │          └─ facts that changed, then actions, outcome, events
//!      │            │            └─ manifests: objects without their secrets, with their lines
//!      │            └─ settings, rule packs, digest and origin of every configuration file
//!      └─ a process began, or the file began again; what follows needs nothing from before
//! ```
//!
//! Each line holds only what changed since the line before. A replay gives the same values to the same function, so
//! a decision that was made on a node can be made again anywhere. A last line that a power cut has torn is left out.
//!
//! Digests are written under a [`DigestKey`] of the process, so that no short secret can be guessed from its digest.
//!
//! Pure: values come in, lines go out, and back. `report::flight` writes them.

mod appearance;
mod boots;
mod facts;
mod key;
mod manifests;
mod provenance;
mod read;
mod redact;
mod replay;
mod site_names;
mod tap;
mod timeline;

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
pub use boots::{RecordedBoot, boots};
use facts::{FactChanges, RecordedFacts};
pub use key::DigestKey;
pub use manifests::RecordedFile;
pub use provenance::{FieldManager, ObjectMetadata, OwnerReference, provenance};
pub use read::{Flights, Segment};
pub use replay::restore;
pub use replay::{
    ChangedTimes, Difference, FileTimes, Replay, ReplayedDecision, changes, recorded_times,
};
pub use site_names::hashed_name;
pub use tap::Tap;
pub use timeline::{
    BootEnd, BootState, BootTimeline, ChainStep, FileTime, FileWait, MedianTime, PhaseStay,
    WaitedOn, clock,
};

/// The format that this program writes.
pub const VERSION: u32 = 1;

/// One line of a flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum FlightLine {
    /// What follows can be replayed by itself.
    Flight(FlightHead),
    /// The configuration in force from here on.
    Configuration(RecordedConfiguration),
    /// Manifest files that are new, changed or gone.
    Files(RecordedFiles),
    /// A decision by which something changed.
    Decision(Box<RecordedDecision>),
    /// A cure was begun, or came to its end.
    Repair(RecordedRepair),
    /// What the node is and runs.
    Machine(RecordedMachine),
    /// A kind, a namespace, a class, a webhook or a namespace's defaults came into the cluster.
    Appeared(RecordedAppearance),
    /// A Helm release was installed, or failed.
    Release(RecordedRelease),
}

/// What became of a cure. Without the objects: the record of the repair has those.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRepair {
    /// When.
    pub at: Timestamp,
    /// `repair-begun`, `repair-done` or `repair-failed`.
    pub event: Code,
    /// What it cures.
    pub code: Code,
    /// Of what.
    pub subject: String,
    /// Who does it.
    pub by: String,
    /// The line that was reported.
    pub message: String,
    /// Its steps, in words.
    pub steps: Vec<String>,
    /// How many of them are done.
    pub done: usize,
    /// The file of the record, with the objects as they were.
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
    /// When.
    pub at: Timestamp,
    /// Which boot; absent when not known.
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
    /// What the node is; absent when not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// What is known of it beside: what RKE2's configuration selects.
    #[serde(default, skip_serializing_if = "NodeFacts::is_unknown")]
    pub node: NodeFacts,
    /// Settings that decisions depend on, as they would be written.
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

/// Manifest files that changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedFiles {
    /// When they were seen.
    pub at: Timestamp,
    /// New and changed ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<RecordedFile>,
    /// Those that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<ManifestPath>,
}

/// One decision: what changed before it, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedDecision {
    /// When it was made.
    pub at: Timestamp,
    /// Observations that are new or changed since the last recorded decision, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, Value>,
    /// Observations that do not hold any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// The ledger before, where something else than the last recorded decision made it so: a person,
    /// the clock, markers that were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Ledger>,
    /// What was to be done, and whether it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<RecordedAction>,
    /// What was reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<RecordedEvent>,
    /// Where the node stood.
    pub readiness: Readiness,
    /// Which part of the bootstrap it was in.
    pub phase: Phase,
    /// The first blocker, or why there was none.
    pub reason: StatusReason,
    /// The line of at most 65 characters.
    pub summary: String,
    /// Files whose state changed; absent ones stand as they stood.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<ManifestPath, RecordedStage>,
    /// Files that are not staged any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<ManifestPath>,
    /// When the next decision was due though nothing happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_wake: Option<Timestamp>,
}

/// One action and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedAction {
    /// What.
    #[serde(rename = "do")]
    pub what: ActionKind,
    /// The marker; absent for the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<MarkerPath>,
    /// Was it done?
    pub done: bool,
}

/// What an action does.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum ActionKind {
    /// Puts a marker in place.
    Hold,
    /// Removes a marker.
    Lift,
    /// Writes the ledger.
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
    /// What.
    pub code: Code,
    /// The line.
    pub message: String,
}

/// Where a file stood: as the ledger has it, without the words.
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

/// A decision as the daemon made it, to be recorded.
#[derive(Debug, Clone)]
pub struct DecisionToRecord {
    /// When.
    pub at: Timestamp,
    /// What was observed.
    pub observation: Observation,
    /// The ledger before, where it is not the one after the last decision that was handed over.
    pub before: Option<Ledger>,
    /// The ledger after.
    pub after: Ledger,
    /// The actions, and whether each was carried out.
    pub actions: Vec<RecordedAction>,
    /// What was reported.
    pub events: Vec<RecordedEvent>,
    /// The status.
    pub status: Status,
    /// When the next decision is due though nothing happens.
    pub next_wake: Option<Timestamp>,
}

/// Turns decisions into lines: remembers what the lines before have said.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    facts: RecordedFacts,
    files: BTreeMap<ManifestPath, RecordedStage>,
    /// Nothing was said yet: the first line carries the whole ledger.
    begun: bool,
}

impl Recorder {
    /// The line for a decision.
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

    /// Forgets the lines before: the next one begins a flight.
    pub fn start_over(&mut self) {
        *self = Self::default();
    }

    /// Must the next decision come with its ledger?
    pub fn wants_ledger(&self) -> bool {
        !self.begun
    }
}

/// Names that the later map does not have any more.
fn missing<K: Ord + Clone, V>(before: &BTreeMap<K, V>, after: &BTreeMap<K, V>) -> Vec<K> {
    before
        .keys()
        .filter(|name| !after.contains_key(*name))
        .cloned()
        .collect()
}

/// Where every file stands.
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

/// The actions of a decision, none of them done yet.
fn recorded_actions(decision: &Decision) -> Vec<RecordedAction> {
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

/// Marks the actions that were carried out.
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

/// What was reported, without the file: the line names it.
fn recorded_events<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<RecordedEvent> {
    events
        .into_iter()
        .map(|event| RecordedEvent {
            code: event.code,
            message: event.message.clone(),
        })
        .collect()
}

/// The markers that a decision changes: what has to be the same when it is made again. The ledger is
/// compared by itself.
fn marker_changes(actions: &[RecordedAction]) -> BTreeSet<(ActionKind, MarkerPath)> {
    actions
        .iter()
        .filter_map(|action| Some((action.what, action.path.clone()?)))
        .collect()
}
