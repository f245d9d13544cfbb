//! A report of a node, from any source. All sizes are limited when it is read, so that stored data are small and harmless.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_plan::readiness::node::{Pace, Readiness};

use crate::identity::NodeIdentity;

/// Largest event that is read, in bytes.
pub const LARGEST_REPORT: usize = 64 << 10;
/// Limit of findings, phases and addresses per report.
pub(crate) const MOST_FINDINGS: usize = 32;
pub(crate) const MOST_PHASES: usize = 24;
pub(crate) const MOST_ADDRESSES: usize = 16;
/// Longest plausible uptime of a machine: ten years, in seconds.
pub(crate) const LONGEST_UPTIME: u64 = 10 * 366 * 86_400;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// By the clock of the receiver.
    pub received: Timestamp,
    pub source: ReportSource,
    /// ID of the event, which stays the same if it is sent again; empty for other sources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    pub identity: NodeIdentity,
    /// Boot ID; empty for older nodes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot: String,
    /// Increases with every event of the node, across restarts and boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Generation of the status document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Seconds since the machine booted, at the time of sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime: Option<u64>,
    /// When it was sent, by the clock of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Timestamp>,
    pub state: NodeState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportSource {
    /// An event. The node sends `dev.windrow.node.seen` periodically if it is configured to.
    Event {
        /// True for `dev.windrow.node.seen`.
        seen: bool,
    },
    /// The status document, requested from the node.
    Document,
    /// The condition of its Node in Kubernetes.
    Condition,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    pub readiness: Readiness,
    /// Name of the phase; empty if unknown. A newer node may send other names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Start of the current readiness and phase, by the clock of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Start of the current phase, by the clock of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub headline: String,
    /// Code of the first blocker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The first blocker in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_blocker: Option<BlockingFile>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// Name of its Node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Addresses that other hosts can reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rke2_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FileCounts>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<NodeFinding>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<StatusServer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockingFile {
    /// Path below the manifests directory.
    pub file: String,
    /// Reason for waiting.
    pub why: String,
}

/// Numbers of manifest files.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct FileCounts {
    /// Staged files.
    pub total: u64,
    /// Files that are hidden from RKE2.
    pub held: u64,
    /// Applied files.
    pub applied: u64,
    /// Files that RKE2 cannot apply.
    pub failed: u64,
}

/// A known problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NodeFinding {
    /// Code of the problem.
    pub code: String,
    /// `info`, `notice`, `warning` or `error`.
    pub severity: String,
    /// Subject of the problem.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseReport {
    pub name: String,
    /// When the node reached it, by the clock of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Duration in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<u64>,
}

/// Status server of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StatusServer {
    /// Address of the server.
    pub url: String,
    /// SHA-256 of its certificate, in lower-case hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fingerprint: String,
}

impl NodeState {
    pub(crate) fn unknown() -> Self {
        Self {
            readiness: Readiness::Unknown,
            phase: String::new(),
            pace: None,
            since: None,
            phase_since: None,
            headline: String::new(),
            reason: String::new(),
            message: String::new(),
            first_blocker: None,
            role: String::new(),
            node_name: String::new(),
            addresses: Vec::new(),
            version: String::new(),
            rke2_version: String::new(),
            files: None,
            findings: Vec::new(),
            phases: Vec::new(),
            server: None,
        }
    }
}

impl NodeReport {
    /// Converts a time of the node's clock to the clock of the receiver. `None` if the clock was set since, so that the time
    /// would be before the boot or after the report.
    pub(crate) fn by_receiver(&self, moment: Timestamp) -> Option<Timestamp> {
        let Some(sent) = self.sent else {
            // The offset of the node's clock is unknown, but a time in the future is impossible.
            return (moment <= self.received).then_some(moment);
        };
        let ago = sent.duration_since(moment);
        let longest = jiff::SignedDuration::from_secs(
            i64::try_from(self.uptime.unwrap_or(LONGEST_UPTIME)).unwrap_or(i64::MAX),
        );
        // Allows for one second of rounding.
        let fits = ago >= jiff::SignedDuration::ZERO
            && ago <= longest + jiff::SignedDuration::from_secs(1);
        let at = self.received.checked_sub(ago).ok()?;
        fits.then_some(at)
    }

    /// Approximate memory of the texts and lists. The boot includes the parts of fixed size.
    pub(crate) fn bytes(&self) -> usize {
        /// Overhead of a short text.
        const TEXT: usize = 16;
        let state = &self.state;
        let identity = &self.identity;
        let texts = [
            &self.id,
            &self.boot,
            &identity.mac,
            &identity.serial,
            &identity.host,
            &state.phase,
            &state.headline,
            &state.reason,
            &state.message,
            &state.role,
            &state.node_name,
            &state.version,
            &state.rke2_version,
        ];
        let texts = texts.into_iter().chain(&state.addresses);
        let blocker = state.first_blocker.iter();
        let texts = texts.chain(blocker.flat_map(|one| [&one.file, &one.why]));
        let server = state.server.iter();
        let texts = texts.chain(server.flat_map(|one| [&one.url, &one.fingerprint]));
        let findings = state.findings.iter();
        let texts = texts.chain(findings.flat_map(|one| [&one.code, &one.severity, &one.subject]));
        let texts = texts.chain(state.phases.iter().map(|one| &one.name));
        texts.map(|text| TEXT + text.capacity()).sum::<usize>()
            + state.addresses.len() * size_of::<String>()
            + state.findings.len() * size_of::<NodeFinding>()
            + state.phases.len() * size_of::<PhaseReport>()
    }

    /// Latest possible start of the boot, by the clock of the receiver.
    pub(crate) fn boot_began(&self) -> Option<Timestamp> {
        let uptime = jiff::SignedDuration::from_secs(i64::try_from(self.uptime?).ok()?);
        self.received.checked_sub(uptime).ok()
    }
}
