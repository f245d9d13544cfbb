//! The status document. Every outlet is fed from it.

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
    /// Increases by one with every change.
    pub generation: u64,
    /// The node's host name; absent when it has none. Left out by `decide`; the publisher fills it in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The name of its Node, if that is different. Left out by `decide`; the publisher fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The node's readiness.
    pub readiness: Readiness,
    /// The node's phase of the bootstrap.
    pub phase: Phase,
    /// Since when readiness and phase are as they are.
    pub since: Timestamp,
    /// Since when the phase is as it is, over restarts of Windrow; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_since: Option<Timestamp>,
    /// When the node was Ready for the first time in this boot; absent until then, and if the node is not probed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ready: Option<Timestamp>,
    /// The first blocker, or the reason for the readiness without one.
    pub reason: StatusReason,
    /// The word for the readiness, with the step, its duration and its pace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub headline: String,
    /// The headline and the reason: one line of at most 65 characters.
    pub summary: String,
    /// The node's platform, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// The node's role in its cluster, if it is probed.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub role: NodeRole,
    /// The bootstrap from its first phase to its last; empty if the node is not probed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseStatus>,
    /// Whether the bootstrap is as fast as it should be; absent when it is over, or if the node is not probed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Since when the pace is as it is. Left out by `decide`; the publisher fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace_since: Option<Timestamp>,
    /// A planned change of the node, while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transition: Option<TransitionSeen>,
    /// The cluster's VIP, once it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip: Option<Vip>,
    /// The state of the manifests.
    pub staging: StagingStatus,
    /// The node's probes; empty if it is not probed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeStatus>,
    /// Known problems, with their fixes.
    pub findings: Vec<Finding>,
    /// Feature gates. Left out by `decide`; the publisher fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<GatesStatus>,
    /// The configured webhooks, and whether their events could be sent. Left out by `decide`; the publisher fills it
    /// in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<WebhookStatus>,
    /// The HTTPS status server, while it serves. Left out by `decide`; the publisher fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerStatus>,
    /// Versions of the program.
    pub versions: ProgramVersions,
    /// The process that keeps this document up to date. A reader that cannot find this process must not show the
    /// document as current. Left out by `decide`; the publisher fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<StatusWriter>,
}

impl Status {
    /// A status without further information.
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

    /// Does the boot hang: has nothing moved for some time, or is it proved that it cannot continue? Never after the
    /// node was Ready in this boot, and not if a probe is off on purpose.
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

/// A process, with enough data to recognise it after a reuse of the pid or a reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusWriter {
    /// Process id.
    pub pid: u32,
    /// When it started, in clock ticks since the boot (`/proc/PID/stat`, field 22).
    pub start_ticks: u64,
    /// The id of the boot (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
}

/// One probe, with its present result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeStatus {
    /// Its name.
    pub id: ProbeId,
    /// Its state.
    pub state: ProbeState,
    /// The effect of a failure.
    pub severity: ProbeSeverity,
    /// The phase of the bootstrap that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// After how many failures in a row it is failing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fall: Option<u32>,
    /// The limit of its measurement; absent if it measures nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The line of the configuration that switches it off; absent if it is on.
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
    /// The certificate that it serves with.
    pub certificate: CertificateSource,
    /// SHA-256 of that certificate (DER), in hexadecimal.
    pub fingerprint: String,
}

/// The source of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateSource {
    /// Windrow, until there is another one.
    SelfSigned,
    /// RKE2, for the node.
    Rke2,
    /// The configuration.
    Configured,
}

impl CertificateSource {
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
    /// The place of its configuration.
    pub at: Location,
    /// The state of its event.
    pub state: DeliveryState,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// Why it is failing or was given up; empty when it is neither.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The state of a webhook.
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
    /// The stable code.
    pub code: Code,
    /// The reason in one line.
    pub message: String,
}

/// The manifests, each in one of the lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StagingStatus {
    /// Files that are staged (RKE2's own are not counted).
    pub total: usize,
    /// Is every file applied, or kept on purpose? If files share an Addon, one of them is enough. Never true before
    /// kube-apiserver has answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settled: bool,
    /// Does kube-apiserver answer Windrow? Absent before the first answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_answers: Option<bool>,
    /// Held files, with the reasons.
    pub held: Vec<HeldFile>,
    /// Files that are to be kept from RKE2, but whose marker could not be created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_held: Vec<NotHeldFile>,
    /// Files that were released and not yet applied.
    pub released: Vec<FileStatus>,
    /// Applied files.
    pub applied: Vec<FileStatus>,
    /// Released files that RKE2 cannot apply.
    pub failed: Vec<FailedFile>,
}

impl StagingStatus {
    /// How many released or applied files were held before.
    pub fn were_held(&self) -> usize {
        let was_held =
            |file: &&FileStatus| matches!(file.cause, Cause::Met | Cause::Yielded | Cause::ByHand);
        let done = self.released.iter().chain(&self.applied);
        done.filter(was_held).count()
    }

    /// How many files are finished: applied, or held since they were applied.
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
    /// Since when the file is in this list.
    pub since: Timestamp,
    /// Why it was released.
    pub cause: Cause,
    /// Does RKE2 read it and Windrow not? Then Windrow cannot tell which content of it RKE2 means.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unread: bool,
    /// If its cause is `samePass`: the objects that it still requires, and the files that provide them before RKE2
    /// reaches this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relies_on: Vec<String>,
    /// Why a released file is not applied although RKE2 should have applied it by now, as far as Windrow knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
}

impl FileStatus {
    /// Is it a link to a directory elsewhere? Windrow does not read that directory, so it cannot tell which files RKE2
    /// applies from there.
    pub fn is_directory(&self) -> bool {
        self.unread && !is_manifest_name(&self.file.name())
    }
}

/// A file that RKE2 cannot apply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailedFile {
    /// Path below the manifests directory.
    pub file: ManifestPath,
    /// Since when RKE2 rejects it.
    pub since: Timestamp,
    /// RKE2's own reason (`ApplyManifestFailed`).
    pub reason: String,
    /// RKE2's own message.
    pub message: String,
}

/// A file that is to be held and is not: RKE2 applies it in its next pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotHeldFile {
    /// Path below the manifests directory.
    pub file: ManifestPath,
    /// Since when it is to be held.
    pub since: Timestamp,
    /// Code of the first blocker.
    pub code: Code,
    /// The first blocker, in one line.
    pub why: String,
    /// Why its marker could not be created.
    pub error: String,
}

/// A held file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldFile {
    /// Path below the manifests directory.
    pub file: ManifestPath,
    /// Since when the file is held.
    pub since: Timestamp,
    /// Code of the first blocker.
    pub code: Code,
    /// The first blocker, in one line.
    pub why: SmolStr,
    /// Who holds it: `windrow`, or `other`.
    pub by: Holder,
    /// Is it past its deadline and kept on purpose?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    /// Would a release do harm? Otherwise RKE2 could apply nothing of it, or an annotation requires the wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub harmful: bool,
    /// When it will be released even if nothing changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// All requirements that are not met.
    pub blockers: Vec<Blocker>,
    /// The path at which the file would not have been held, in the image of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_spares_hold: Option<ManifestPath>,
    /// Why no other name would have avoided the hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_name_spares_hold: Option<String>,
}

impl HeldFile {
    /// Does Windrow hold it because an object is missing, and not on purpose?
    pub fn waits(&self) -> bool {
        self.by == Holder::Windrow && !on_purpose(self.code)
    }

    /// Has RKE2 applied it, and is it held since then?
    pub fn is_applied(&self) -> bool {
        self.code == Code::HeldAppliedOnce
    }
}

/// Who holds a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Holder {
    /// Windrow, with its marker.
    Windrow,
    /// A marker that Windrow did not make. Windrow does not change it.
    Other,
}

/// One requirement of a held file that is not met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// The required object.
    pub what: String,
    /// The required state.
    pub condition: String,
    /// Holds the file, or only sets an order.
    pub tier: Tier,
    /// The reason, with the last observed state.
    pub message: String,
    /// The object of the file that requires it; where more than one does, the first and how many
    /// more.
    pub required_by: String,
    /// The source of the requirement.
    pub origin: Origin,
    /// The file in the directory that provides it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought_by: Option<ManifestPath>,
    /// After how long it existed in earlier boots, and in how many of them, if Windrow has learned that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<String>,
}

/// Versions of the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramVersions {
    /// The version of Windrow.
    pub windrow: String,
}
