//! One report of a node, whatever it came by: bounded when it is read, so that whatever is kept is small and harmless.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_plan::readiness::node::{Pace, Readiness};

use crate::identity::NodeIdentity;

/// Largest event that is read, in bytes.
pub const LARGEST_REPORT: usize = 64 << 10;
/// Most findings, phases and addresses of one report.
pub(crate) const MOST_FINDINGS: usize = 32;
pub(crate) const MOST_PHASES: usize = 24;
pub(crate) const MOST_ADDRESSES: usize = 16;
/// No machine has been up for longer: ten years, in seconds.
pub(crate) const LONGEST_UPTIME: u64 = 10 * 366 * 86_400;

/// What was reported of a node at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// When it was received, by the receiver's clock.
    pub received: Timestamp,
    /// What it came by.
    pub source: ReportSource,
    /// The event's id, the same however often it is sent; empty of other sources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The machine.
    pub identity: NodeIdentity,
    /// Which boot; empty where older nodes do not say it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot: String,
    /// Grows with every event that the node writes, over restarts and boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The status document's generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Seconds since the machine's boot, when it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime: Option<u64>,
    /// When it was sent, by the node's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Timestamp>,
    /// What it says.
    pub state: NodeState,
}

/// What a report came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportSource {
    /// An event; `dev.windrow.node.seen` is sent periodically where a node is asked to.
    Event {
        /// Is it that one?
        seen: bool,
    },
    /// The status document that the node was asked for.
    Document,
    /// The condition of its Node in Kubernetes.
    Condition,
}

/// The state of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    /// Readiness.
    pub readiness: Readiness,
    /// The phase's name; a newer node may have others. Empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Since when readiness and phase are so, by the node's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Since when it is in its phase, by the node's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_since: Option<Timestamp>,
    /// The headline.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub headline: String,
    /// Code of the first blocker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The first blocker in a line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The file that waits first, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_blocker: Option<BlockingFile>,
    /// What the node is in its cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// The name of its Node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Addresses that other machines can use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Windrow's version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// RKE2's version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rke2_version: String,
    /// Manifest files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FileCounts>,
    /// Known problems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<NodeFinding>,
    /// The phases that the node has come to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseReport>,
    /// Where it can be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<StatusServer>,
}

/// A file that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockingFile {
    /// Its path below the manifests directory.
    pub file: String,
    /// What it waits for.
    pub why: String,
}

/// How many manifest files there are.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct FileCounts {
    /// Staged.
    pub total: u64,
    /// Kept from RKE2.
    pub held: u64,
    /// Applied.
    pub applied: u64,
    /// RKE2 cannot apply them.
    pub failed: u64,
}

/// A known problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NodeFinding {
    /// Its code.
    pub code: String,
    /// `info`, `notice`, `warning` or `error`.
    pub severity: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
}

/// A phase, as the node reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Which.
    pub name: String,
    /// When the node came to it, by its own clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// How long it took, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<u64>,
}

/// A node's own status server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StatusServer {
    /// Where.
    pub url: String,
    /// SHA-256 of its certificate, in lower-case hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fingerprint: String,
}

impl NodeState {
    /// One of which nothing is known.
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
    /// A moment of the node's clock, by the receiver's. `None` where the node's clock has been set since: the moment would lie
    /// before the boot or after the report.
    pub(crate) fn by_receiver(&self, moment: Timestamp) -> Option<Timestamp> {
        let Some(sent) = self.sent else {
            // Nothing says how the node's clock stands: what has not been yet cannot be.
            return (moment <= self.received).then_some(moment);
        };
        let ago = sent.duration_since(moment);
        let longest = jiff::SignedDuration::from_secs(
            i64::try_from(self.uptime.unwrap_or(LONGEST_UPTIME)).unwrap_or(i64::MAX),
        );
        // A second of rounding.
        let fits = ago >= jiff::SignedDuration::ZERO
            && ago <= longest + jiff::SignedDuration::from_secs(1);
        let at = self.received.checked_sub(ago).ok()?;
        fits.then_some(at)
    }

    /// What its texts and lists take in memory, about; what has a fixed size is counted with the boot that it is of.
    pub(crate) fn bytes(&self) -> usize {
        /// What a short text takes beside its letters.
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

    /// When its boot began, at the latest, by the receiver's clock.
    pub(crate) fn boot_began(&self) -> Option<Timestamp> {
        let uptime = jiff::SignedDuration::from_secs(i64::try_from(self.uptime?).ok()?);
        self.received.checked_sub(uptime).ok()
    }
}
