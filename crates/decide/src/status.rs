//! The one status document, from which every outlet is fed.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use windrow_gates::GatesStatus;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{ManifestPath, is_manifest_name};
use windrow_model::reasons::Code;
use windrow_plan::Origin;

use super::ledger::Cause;
use super::outcome::on_purpose;
pub use windrow_plan::readiness::node::{
    ExpectationSource, NodeRole, Pace, Phase, PhaseExpectation, PhaseState, PhaseStatus, Readiness,
    Transition, TransitionSeen, UsualTime, Vip, VipMode,
};
use windrow_plan::readiness::node::{ProbeId, ProbeSeverity, ProbeState};
use windrow_plan::rules::{Platform, Tier};

/// The status document, `apiVersion: windrow.dev/v1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Status`
    pub kind: String,
    /// Rises by one with every change.
    pub generation: u64,
    /// The node's host name; absent when it has none. Left out by `decide`, filled in by whoever publishes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The name of its Node, where that is another. Left out by `decide`, filled in by whoever publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Where the node stands.
    pub readiness: Readiness,
    /// Which part of the bootstrap it is in.
    pub phase: Phase,
    /// Since when readiness and phase are as they are.
    pub since: Timestamp,
    /// Since when it is in that part, over restarts of Windrow; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_since: Option<Timestamp>,
    /// When the node was Ready for the first time in this boot; absent until then, and where it is not probed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ready: Option<Timestamp>,
    /// The first blocker, or why there is none.
    pub reason: StatusReason,
    /// The word for the readiness, with the step, for how long and how it gets on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub headline: String,
    /// The headline and the reason: one line of at most 65 characters.
    pub summary: String,
    /// What the node is, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// What the node is in its cluster, where it is probed.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub role: NodeRole,
    /// The bootstrap from its first phase to its last; empty where the node is not probed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseStatus>,
    /// Whether the bootstrap goes on as fast as it should; absent when it is over, or the node is not probed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Since when that is so. Left out by `decide`, filled in by whoever publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace_since: Option<Timestamp>,
    /// What is done to the node on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transition: Option<TransitionSeen>,
    /// The cluster's VIP, once it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip: Option<Vip>,
    /// The manifests.
    pub staging: StagingStatus,
    /// The node's probes; empty where it is not probed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeStatus>,
    /// Known problems, with what to do.
    pub findings: Vec<Finding>,
    /// Feature gates. Left out by `decide`, filled in by whoever publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<GatesStatus>,
    /// The configured webhooks, and whether their events could be sent. Left out by `decide`, filled in by whoever publishes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<WebhookStatus>,
    /// The HTTPS status server, while it serves. Left out by `decide`, filled in by whoever publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerStatus>,
    /// Versions of the program.
    pub versions: ProgramVersions,
    /// The process that keeps this document true. A reader that cannot find it alive must not show
    /// the document as current. Left out by `decide`, filled in by whoever publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<StatusWriter>,
}

impl Status {
    /// One of which nothing else is known.
    pub fn new(readiness: Readiness, phase: Phase, reason: StatusReason, since: Timestamp) -> Self {
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "Status".to_owned(),
            generation: 0,
            host: String::new(),
            node_name: None,
            readiness,
            phase,
            since,
            phase_since: None,
            first_ready: None,
            headline: String::new(),
            summary: String::new(),
            reason,
            platform: None,
            role: NodeRole::Unknown,
            phases: Vec::new(),
            pace: None,
            pace_since: None,
            transition: None,
            vip: None,
            staging: StagingStatus::default(),
            probes: Vec::new(),
            findings: Vec::new(),
            gates: None,
            webhooks: Vec::new(),
            server: None,
            versions: ProgramVersions {
                windrow: env!("CARGO_PKG_VERSION").to_owned(),
            },
            writer: None,
        }
    }

    /// Does the boot hang: has nothing moved for a time, or is it proved that it cannot go on? Never after the node was
    /// Ready in this boot, and not where a probe is off on purpose.
    pub fn hangs(&self) -> Option<Pace> {
        let is_on_its_way = self.first_ready.is_none()
            && !self.phases.is_empty()
            && !matches!(self.reason.code, Code::ProbeOff | Code::NotProbed);
        self.pace
            .filter(|pace| is_on_its_way && matches!(pace, Pace::Stalled | Pace::Stuck))
    }
}

fn is_unknown(role: &NodeRole) -> bool {
    *role == NodeRole::Unknown
}

/// A process, named so that neither a reused pid nor a reboot can be mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusWriter {
    /// Process id.
    pub pid: u32,
    /// When it started, in clock ticks since the boot (`/proc/PID/stat`, field 22).
    pub start_ticks: u64,
    /// Which boot (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
}

/// One probe, as it counts now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeStatus {
    /// Its name.
    pub id: ProbeId,
    /// Its state.
    pub state: ProbeState,
    /// What follows when it fails.
    pub severity: ProbeSeverity,
    /// The part of the bootstrap that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// How many failures in a row make it failing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fall: Option<u32>,
    /// What it measures against; absent where it measures nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The line of the configuration that switches it off; absent while it is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Location>,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// Why it is failing or unknown; empty when it passes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The same for programs; absent when it passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}

/// The HTTPS status server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    /// Address and port that it listens on.
    pub listen: String,
    /// Which certificate it serves with.
    pub certificate: CertificateSource,
    /// SHA-256 of that certificate (DER), in hexadecimal.
    pub fingerprint: String,
}

/// Who made a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateSource {
    /// Windrow, for the time before there is another.
    SelfSigned,
    /// RKE2.
    Rke2,
    /// The configuration names it.
    Configured,
}

impl CertificateSource {
    /// In words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::SelfSigned => "a self-signed certificate",
            Self::Rke2 => "RKE2's certificate",
            Self::Configured => "the configured certificate",
        }
    }
}

/// One webhook of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookStatus {
    /// The event that it sends.
    pub event: String,
    /// Where to: scheme, host and port of its URL. The rest may be secret.
    pub console: String,
    /// Who configured it.
    pub at: Location,
    /// How far it is.
    pub state: DeliveryState,
    /// Since when.
    pub since: Timestamp,
    /// Why it is failing or was given up; empty when it is neither.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How far a webhook is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// Its event is not true.
    Waiting,
    /// Its event is being sent.
    Pending,
    /// Its event was sent.
    Delivered,
    /// Its event could not be sent, and is sent again later.
    Failing,
    /// Its event ceased to be true before it could be sent.
    #[serde(rename = "givenUp")]
    GivenUp,
}

/// The first blocker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusReason {
    /// Stable code.
    pub code: Code,
    /// One line.
    pub message: String,
}

/// The manifests, each in one of the lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StagingStatus {
    /// Files that are staged (RKE2's own are not counted).
    pub total: usize,
    /// Is every file applied, or kept on purpose? Of files that share an Addon one is enough. Never true before kube-apiserver has answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settled: bool,
    /// Does kube-apiserver answer Windrow? Absent until it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_answers: Option<bool>,
    /// Kept from RKE2, with the reasons.
    pub held: Vec<HeldFile>,
    /// Decided to be kept from RKE2, and not kept: the marker could not be made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_held: Vec<NotHeldFile>,
    /// Released and not yet applied.
    pub released: Vec<FileStatus>,
    /// Applied.
    pub applied: Vec<FileStatus>,
    /// Released, and RKE2 cannot apply them.
    pub failed: Vec<FailedFile>,
}

impl StagingStatus {
    /// How many files that are released or applied were held before.
    pub fn were_held(&self) -> usize {
        let was_held =
            |file: &&FileStatus| matches!(file.cause, Cause::Met | Cause::Yielded | Cause::ByHand);
        let done = self.released.iter().chain(&self.applied);
        done.filter(was_held).count()
    }

    /// How many files need nothing more: they are applied, or kept from RKE2 since they were.
    pub(super) fn done(&self) -> usize {
        let kept = self.held.iter().filter(|held| held.is_applied());
        self.applied.len() + kept.count()
    }
}

/// A file and since when it is in its list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileStatus {
    /// Path below the manifests directory.
    pub file: ManifestPath,
    /// Since when.
    pub since: Timestamp,
    /// Why it was released.
    pub cause: Cause,
    /// Does RKE2 read it and Windrow not? Then it is not known of which content of it RKE2 speaks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unread: bool,
    /// Where its cause is `samePass`: what it still lacks, and which file brings that before RKE2 reaches this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relies_on: Vec<String>,
    /// Of a released file that RKE2 should have applied by now: what is known of why it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
}

impl FileStatus {
    /// Is it a link to a directory elsewhere? Windrow does not look there, so what RKE2 applies of it is not known.
    pub fn is_directory(&self) -> bool {
        self.unread && !is_manifest_name(&self.file.name())
    }
}

/// A file that RKE2 cannot apply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailedFile {
    /// Path below the manifests directory.
    pub file: ManifestPath,
    /// Since when RKE2 refuses it.
    pub since: Timestamp,
    /// RKE2's own reason (`ApplyManifestFailed`).
    pub reason: String,
    /// RKE2's own message.
    pub message: String,
}

/// A file that is to be held and is not: RKE2 applies it at its next pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotHeldFile {
    /// Path below the manifests directory.
    pub file: ManifestPath,
    /// Since when it is to be held.
    pub since: Timestamp,
    /// Code of what it should wait for.
    pub code: Code,
    /// What it should wait for, in a line.
    pub why: String,
    /// Why its marker could not be made.
    pub error: String,
}

/// A held file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldFile {
    /// Path below the manifests directory.
    pub file: ManifestPath,
    /// Since when.
    pub since: Timestamp,
    /// Code of the first blocker.
    pub code: Code,
    /// The first blocker, in a line.
    pub why: SmolStr,
    /// Who holds it: `windrow`, or `other`.
    pub by: Holder,
    /// Is it past its deadline and kept on purpose?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    /// Would releasing it do harm? Otherwise RKE2 could apply nothing of it, or an annotation asks for the wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub harmful: bool,
    /// When it will be released even if nothing changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Everything it still waits for.
    pub blockers: Vec<Blocker>,
    /// The path under which it would not have been held, in the image of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_spares_hold: Option<ManifestPath>,
    /// Why no other name would have spared the hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_name_spares_hold: Option<String>,
}

impl HeldFile {
    /// Does Windrow hold it because something is missing? Not so where it is kept on purpose.
    pub fn waits(&self) -> bool {
        self.by == Holder::Windrow && !on_purpose(self.code)
    }

    /// Has RKE2 applied it, and is it kept from RKE2 since then?
    pub fn is_applied(&self) -> bool {
        self.code == Code::HeldAppliedOnce
    }
}

/// Who holds a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Holder {
    /// Windrow's marker.
    Windrow,
    /// A marker that Windrow did not make; left alone.
    Other,
}

/// One thing that a held file waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// What.
    pub what: String,
    /// In which state.
    pub condition: String,
    /// Holds or orders.
    pub tier: Tier,
    /// The reason, with what was last seen.
    pub message: String,
    /// The object of the file that requires it; where more than one does, the first and how many
    /// more.
    pub required_by: String,
    /// Who says so.
    pub origin: Origin,
    /// The file that brings it, when one of the directory does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought_by: Option<ManifestPath>,
    /// After how long it was there in earlier boots, and in how many, where that was learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<String>,
}

/// Versions of the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramVersions {
    /// This program.
    pub windrow: String,
}
