//! A row of the rack: one node, as the console shows it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::manifest::sha256_hex;
use windrow_model::span;
use windrow_plan::readiness::node::{Pace, Phase, Readiness};

use crate::group::Machine;
use crate::inventory::ExpectedNode;
use crate::record::BootRecord;
use crate::report::{FileCounts, NodeFinding, NodeReport, ReportSource, StatusServer};

/// A clock with a larger offset is reported, in seconds.
const CLOCK_OFF: u64 = 60;
/// A node that is starting reports a stall after 20 minutes, and retries for five more minutes. After that it is silent.
const SILENT_SECONDS: u64 = 30 * 60;
/// The daemon renews a condition at least every ten minutes (`docs/outlets.md`).
const SILENT_CONDITION_SECONDS: u64 = 15 * 60;
/// A node that the rack queries answers within five minutes.
const SILENT_ASKED_SECONDS: u64 = 10 * 60;

/// State of a node in one word.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum RackWord {
    /// Ready.
    Ready,
    /// Ready, but with a problem.
    Degraded,
    /// The node is starting.
    SettingUp,
    /// The node was Ready and is not any more, or cannot become Ready without a repair (pace stuck).
    Failed,
    /// Windrow on the node does not know its state.
    Unknown,
    /// The node should have reported, but has not.
    Silent,
    /// The node is expected, but has never reported.
    NeverCame,
}

impl RackWord {
    /// All words, the best first.
    pub const ALL: [Self; 7] = [
        Self::Ready,
        Self::Degraded,
        Self::SettingUp,
        Self::Failed,
        Self::Unknown,
        Self::Silent,
        Self::NeverCame,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Degraded => "Degraded",
            Self::SettingUp => "Setting up",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
            Self::Silent => "Silent",
            Self::NeverCame => "Never came",
        }
    }
}

/// Urgency of a row; the first is the most urgent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Attention {
    /// The node needs a repair.
    Failed,
    /// The node makes no progress.
    Stalled,
    /// Windrow cannot tell which machine this is.
    Conflict,
    /// The node has stopped reporting.
    Silent,
    /// The node has never reported.
    NeverCame,
    /// The node is Ready, but with a problem.
    Degraded,
    /// The state is unknown.
    Unknown,
    /// The node takes longer than usual.
    Slow,
    /// The node is starting.
    SettingUp,
    /// The node is Ready, and something is worth a look.
    Notice,
    /// Nothing to do.
    Fine,
}

/// A phase of a boot, by the clock of the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseSpan {
    /// Name of the phase.
    pub name: String,
    /// Start of the phase.
    pub from: Timestamp,
    /// End of the phase; absent for the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Duration by the count of the node, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<u64>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// Identifies the row in URLs: letters, digits, `-`, `_` and `.`.
    pub id: String,
    /// Name for users.
    pub name: String,
    /// Hardware address; empty if unknown.
    pub mac: String,
    /// Serial number; empty if unknown.
    pub serial: String,
    /// Host name; empty if unknown.
    pub host: String,
    /// Rack in the inventory.
    pub rack: String,
    /// Role that the node reports, or else the expected role.
    pub role: String,
    /// Whether the node is in the inventory.
    pub expected: bool,
    /// Urgency.
    pub attention: Attention,
    /// State in one word.
    pub word: RackWord,
    /// Last reported readiness; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Readiness>,
    /// Current phase.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Progress compared with other boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Start of the current state, by the clock of the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The first blocker in one line; empty if there is none.
    pub blocker: String,
    /// Code of the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Manifest files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FileCounts>,
    /// Known problems.
    pub findings: Vec<NodeFinding>,
    /// Windrow's version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// RKE2's version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rke2_version: String,
    /// Notes, one line each: a version that differs from most nodes, a clock offset, a contradiction.
    pub notes: Vec<String>,
    /// How far the clock is ahead, in seconds; negative if it is behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset: Option<i64>,
    /// When the last report arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<Timestamp>,
    /// Source of the newest report: `event`, `document` or `condition`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Boot ID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot: String,
    /// Start of this boot, by the clock of the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// Number of boots with reports.
    pub boots: usize,
    /// Phases of this boot.
    pub phases: Vec<PhaseSpan>,
    /// Addresses.
    pub addresses: Vec<String>,
    /// Status server of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<StatusServer>,
}

impl NodeRow {
    pub(crate) fn never_came(node: &ExpectedNode) -> Self {
        let mut row = Self::empty(node.name.clone());
        row.expect(node);
        row.attention = Attention::NeverCame;
        row.word = RackWord::NeverCame;
        row
    }

    fn empty(name: String) -> Self {
        Self {
            id: String::new(),
            name,
            mac: String::new(),
            serial: String::new(),
            host: String::new(),
            rack: String::new(),
            role: String::new(),
            expected: false,
            attention: Attention::Unknown,
            word: RackWord::Unknown,
            readiness: None,
            phase: String::new(),
            pace: None,
            since: None,
            blocker: String::new(),
            reason: String::new(),
            files: None,
            findings: Vec::new(),
            version: String::new(),
            rke2_version: String::new(),
            notes: Vec::new(),
            clock_offset: None,
            heard: None,
            source: String::new(),
            boot: String::new(),
            began: None,
            boots: 0,
            phases: Vec::new(),
            addresses: Vec::new(),
            server: None,
        }
    }

    fn expect(&mut self, node: &ExpectedNode) {
        self.expected = true;
        self.name.clone_from(&node.name);
        self.rack.clone_from(&node.rack);
        let fill = |own: &mut String, expected: &String| {
            if own.is_empty() {
                own.clone_from(expected);
            }
        };
        fill(&mut self.mac, &node.identity.mac);
        fill(&mut self.serial, &node.identity.serial);
        fill(&mut self.host, &node.identity.host);
        fill(&mut self.role, &node.role);
        if self.server.is_none() && !node.url.is_empty() {
            self.server = Some(StatusServer {
                url: node.url.clone(),
                fingerprint: node.fingerprint.clone(),
            });
        }
    }

    pub(crate) fn of_machine(
        machine: &Machine<'_>,
        expected: Option<&ExpectedNode>,
        at: ViewTime,
    ) -> Self {
        let mut row = Self::empty(machine.key.text().to_owned());
        if let Some((boot, record)) = machine.record.current()
            && let Some(newest) = record.newest()
        {
            row.boot = boot.to_owned();
            row.add_state(machine, record, newest, at);
        }
        row.boots = machine.record.boots.len();
        row.heard = machine.record.heard();
        if let Some(expected) = expected {
            row.expect(expected);
        }
        row.notes.extend(machine.conflicts.iter().cloned());
        row.judge(!machine.conflicts.is_empty());
        row
    }

    fn add_state(
        &mut self,
        machine: &Machine<'_>,
        boot: &BootRecord,
        newest: &NodeReport,
        at: ViewTime,
    ) {
        let state = &newest.state;
        self.mac.clone_from(&newest.identity.mac);
        if let crate::group::MachineKey::Mac(mac) = &machine.key {
            self.mac.clone_from(mac);
        }
        let serial = machine.serials.first().copied().unwrap_or_default();
        serial.clone_into(&mut self.serial);
        self.host.clone_from(&newest.identity.host);
        if !self.host.is_empty() {
            self.name.clone_from(&self.host);
        }
        self.readiness = Some(state.readiness);
        self.word = word(state.readiness);
        self.phase.clone_from(&state.phase);
        self.pace = state.pace;
        self.since = since(newest);
        self.reason.clone_from(&state.reason);
        self.blocker = match (&state.first_blocker, state.readiness) {
            (_, Readiness::Ready) => String::new(),
            (Some(first), _) if !first.file.is_empty() => format!("{}: {}", first.file, first.why),
            _ => state.message.clone(),
        };
        self.source = match newest.source {
            ReportSource::Event { .. } => "event",
            ReportSource::Document => "document",
            ReportSource::Condition => "condition",
        }
        .to_owned();
        self.began = boot.shown_began();
        self.phases = phases(boot);
        self.clock(boot);
        // One source may contain details that another one lacks.
        let all = [
            boot.counted_event(),
            boot.document.as_ref(),
            boot.condition.as_ref(),
        ];
        let all: Vec<&NodeReport> = std::iter::once(newest)
            .chain(all.into_iter().flatten())
            .collect();
        let text = |part: fn(&NodeReport) -> &String| {
            let mut parts = all.iter().map(|report| part(report));
            parts
                .find(|part| !part.is_empty())
                .cloned()
                .unwrap_or_default()
        };
        self.role = text(|report| &report.state.role);
        self.version = text(|report| &report.state.version);
        self.rke2_version = text(|report| &report.state.rke2_version);
        self.files = all.iter().find_map(|report| report.state.files);
        let addresses = all.iter().map(|report| &report.state.addresses);
        self.addresses = addresses
            .into_iter()
            .find(|addresses| !addresses.is_empty())
            .cloned()
            .unwrap_or_default();
        let findings = all.iter().filter(|report| {
            report.source != ReportSource::Condition || !report.state.findings.is_empty()
        });
        self.findings = findings
            .map(|report| &report.state.findings)
            .next()
            .cloned()
            .unwrap_or_default();
        self.server = all.iter().find_map(|report| report.state.server.clone());
        match at.is_silent(boot, newest) {
            Some(true) => self.word = RackWord::Silent,
            Some(false) => {}
            None => {
                self.word = RackWord::Unknown;
                self.notes
                    .push("no report since this rack was started".to_owned());
            }
        }
    }

    fn clock(&mut self, boot: &BootRecord) {
        let Some(offset) = boot.clock_offset() else {
            return;
        };
        self.clock_offset = Some(offset);
        if offset.unsigned_abs() >= CLOCK_OFF {
            let off = span(offset.unsigned_abs());
            let way = if offset > 0 { "ahead" } else { "behind" };
            self.notes.push(format!("clock off by {off} ({way})"));
        }
    }

    /// Sets the urgency.
    fn judge(&mut self, conflicts: bool) {
        let on_its_way = matches!(self.word, RackWord::SettingUp | RackWord::Unknown);
        self.attention = match (self.word, self.pace) {
            (RackWord::Failed, _) => Attention::Failed,
            (_, Some(Pace::Stuck)) if on_its_way => Attention::Failed,
            (_, Some(Pace::Stalled)) if on_its_way => Attention::Stalled,
            _ if conflicts => Attention::Conflict,
            (RackWord::Silent, _) => Attention::Silent,
            (RackWord::NeverCame, _) => Attention::NeverCame,
            (RackWord::Degraded, _) => Attention::Degraded,
            (RackWord::Unknown, _) => Attention::Unknown,
            (RackWord::SettingUp, Some(Pace::Slow)) => Attention::Slow,
            (RackWord::SettingUp, _) => Attention::SettingUp,
            (RackWord::Ready, _) => match self.notes.is_empty() && self.findings.is_empty() {
                true => Attention::Fine,
                false => Attention::Notice,
            },
        };
    }

    /// True if it is Ready, and it is clear which machine reports this.
    pub fn is_surely_ready(&self) -> bool {
        let is_ready = matches!(self.word, RackWord::Ready | RackWord::Degraded);
        is_ready && self.attention != Attention::Conflict
    }

    pub(crate) fn note_skew(&mut self, note: String) {
        self.notes.push(note);
        if self.attention == Attention::Fine {
            self.attention = Attention::Notice;
        }
    }

    /// Sets the ID of the row. `is_only`: no other row has the same name.
    pub(crate) fn name_row(&mut self, key: &str, is_only: bool) {
        let plain = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
        let fits = (1..=64).contains(&self.name.len())
            && self.name.chars().all(plain)
            && !self.name.starts_with('.');
        self.id = match fits && is_only {
            true => self.name.clone(),
            false => sha256_hex(key.as_bytes())[..16].to_owned(),
        };
    }
}

fn word(readiness: Readiness) -> RackWord {
    match readiness {
        Readiness::Ready => RackWord::Ready,
        Readiness::Degraded => RackWord::Degraded,
        Readiness::SettingUp => RackWord::SettingUp,
        Readiness::Failed => RackWord::Failed,
        Readiness::Unknown => RackWord::Unknown,
    }
}

/// Start of the current state: for a starting node, the start of its phase.
fn since(report: &NodeReport) -> Option<Timestamp> {
    let state = &report.state;
    let by_node = match state.readiness {
        Readiness::SettingUp | Readiness::Unknown => state.phase_since.or(state.since),
        Readiness::Ready | Readiness::Degraded | Readiness::Failed => state.since,
    };
    by_node.map(|at| report.by_receiver(at).unwrap_or(report.received))
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewTime {
    pub(crate) now: Timestamp,
    /// When the rack started to receive reports, if known.
    pub(crate) listening: Option<Timestamp>,
}

impl ViewTime {
    /// Whether the node should have reported, but has not. `None` if the rack has not listened for long enough.
    fn is_silent(self, boot: &BootRecord, newest: &NodeReport) -> Option<bool> {
        let hangs = matches!(newest.state.pace, Some(Pace::Stalled | Pace::Stuck));
        let on_its_way = matches!(
            newest.state.readiness,
            Readiness::SettingUp | Readiness::Unknown
        );
        let longest = match (boot.period(), newest.source) {
            (Some(period), _) => 3 * period + 30,
            (None, ReportSource::Document) => SILENT_ASKED_SECONDS,
            (None, ReportSource::Condition) => SILENT_CONDITION_SECONDS,
            // A stalled node has already reported that, and a Ready node has nothing more to report.
            (None, ReportSource::Event { .. }) if on_its_way && !hangs => SILENT_SECONDS,
            (None, ReportSource::Event { .. }) => return Some(false),
        };
        let is_longer = |since: Timestamp| {
            let seconds = u64::try_from(self.now.duration_since(since).as_secs());
            seconds.is_ok_and(|seconds| seconds > longest)
        };
        // The writer of a condition dates it.
        let missed = newest.source != ReportSource::Condition
            && self.listening.is_some_and(|since| !is_longer(since));
        match is_longer(boot.heard) {
            true if missed => None,
            is_silent => Some(is_silent),
        }
    }
}

/// The phases in order, each until the next one starts.
fn phases(boot: &BootRecord) -> Vec<PhaseSpan> {
    let order = |name: &str| Phase::ALL.iter().position(|phase| phase.as_str() == name);
    let mut phases: Vec<PhaseSpan> = boot
        .phases
        .iter()
        .map(|(name, record)| PhaseSpan {
            name: name.clone(),
            // A phase cannot begin before its boot.
            from: record.began.max(boot.shown_began().unwrap_or(record.began)),
            to: None,
            took: record.took.map(|(_, took)| took),
        })
        .collect();
    phases.sort_by_key(|one| (one.from, order(&one.name)));
    let ends: Vec<Timestamp> = phases.iter().skip(1).map(|phase| phase.from).collect();
    for (phase, end) in phases.iter_mut().zip(ends) {
        phase.to = Some(end);
    }
    phases
}
