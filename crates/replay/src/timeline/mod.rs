//! The time course of a boot: its phases, the waits of each file, and the chain of waits that decided when it ended.
//!
//! ```text
//!   Ready <── RKE2's poll <── released <── its requirement <── the file that provides it <── ... <── the API <── power-on
//! ```
//!
//! The chain is read backwards from the end: each step began when the one before it ended, so a shorter wait anywhere
//! else would have changed nothing. Times are seconds from the beginning of the boot, on an axis that does not jump
//! when the clock is set.
//!
//! Events come from the flight as recorded. The reasons for holds come from repeating the same decisions.

mod axis;
mod chain;
mod course;
mod files;
#[cfg(test)]
mod tests;
mod usual;

use course::BootCourse;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use super::boots::RecordedBoot;
pub use course::clock;
use files::FileCourses;
use windrow_decide::{Cause, ExpectationSource, Phase};

/// The time course of one boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootTimeline {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `BootTimeline`
    pub kind: String,
    /// The version of Windrow that recorded it.
    pub windrow: String,
    /// The kernel's id of the boot; absent where it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// When Windrow began to look, by the node's clock: all times below are seconds from then.
    pub began: Timestamp,
    /// The end of the boot.
    pub end: BootEnd,
    /// The phases in their order. A phase to which the node returned is listed twice.
    pub phases: Vec<PhaseStay>,
    /// The chain of waits that decided when it ended, without a gap from the beginning to the end.
    pub chain: Vec<ChainStep>,
    /// Files that were held or applied in this boot, by when RKE2 applied them.
    pub files: Vec<FileTime>,
    /// How long earlier boots of this node took; absent if the boot log has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<MedianTime>,
    /// Uncertainties and assumptions, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
}

/// The end of a boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BootEnd {
    /// The result.
    pub state: BootState,
    /// When it ended, or the last known time.
    pub at: f64,
    /// The code of the reason.
    pub code: Code,
    /// The reason in one line.
    pub message: String,
}

/// The result of a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BootState {
    /// Everything works.
    Ready,
    /// It works, but something is wrong.
    Degraded,
    /// Every manifest is applied, or kept on purpose. The node was not probed.
    Staged,
    /// Windrow knows that it does not get Ready without help.
    Failed,
    /// Not yet ended when the boot log ended.
    Underway,
}

impl BootState {
    pub fn is_end(self) -> bool {
        matches!(self, Self::Ready | Self::Degraded | Self::Staged)
    }
}

/// A phase of the bootstrap, as long as the node was in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseStay {
    /// The phase.
    pub name: Phase,
    /// When it began.
    pub from: f64,
    /// When it ended, or the last known time.
    pub to: f64,
    /// Did the node move on from it?
    pub ended: bool,
    /// How long it took in earlier boots; absent if none had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<MedianTime>,
}

/// How long something took in comparable earlier boots of this node in the boot log: with files that RKE2 had to apply,
/// or without. If the boot log has too few boots for a phase, the boots from which the node itself knew the usual time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MedianTime {
    /// The number of these boots.
    pub boots: usize,
    /// The median, in seconds.
    pub median_seconds: f64,
    /// The source of these boots, if they are not in the boot log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ExpectationSource>,
}

/// One manifest file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileTime {
    /// The path of the file.
    pub file: ManifestPath,
    /// Since when it was held; absent if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<f64>,
    /// Its waits, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<FileWait>,
    /// When RKE2 was allowed to apply it; absent if it is still held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<f64>,
    /// Why it was released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// When RKE2 had applied it; absent if it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<f64>,
    /// How long RKE2 took to read and apply it, in seconds, after the release and the first answer of kube-apiserver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_seconds: Option<f64>,
    /// RKE2's last error with it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// One wait of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileWait {
    /// When the wait began.
    pub from: f64,
    /// When the wait ended.
    pub to: f64,
    /// The code of the reason.
    pub code: Code,
    /// The reason in one line.
    pub why: String,
    /// The file in the directory that provides it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought_by: Option<ManifestPath>,
}

/// One step of the chain that decided the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChainStep {
    /// When the step began.
    pub from: f64,
    /// When the step ended.
    pub to: f64,
    /// The subject of the wait.
    pub on: WaitedOn,
    /// The file that waited; absent if the node waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<ManifestPath>,
    /// The reason, in one line.
    pub text: String,
    /// Was the node still waiting for it when the boot log ended?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

/// The subject of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WaitedOn {
    /// The node's own parts: network, RKE2, kube-apiserver, the platform.
    Node,
    /// A requirement of a held file.
    Requirement,
    /// An object from another file of the directory, after RKE2 has applied that file.
    OtherFile,
    /// RKE2, to read its directory and apply the file.
    Rke2,
    /// The author of the file: it did not exist yet.
    File,
}

impl BootTimeline {
    /// The `kind` of its document.
    pub const KIND: &'static str = "BootTimeline";

    /// Compares the boot with earlier boots.
    ///
    /// # Errors
    ///
    /// A sentence for users, if the boot has no decision.
    pub fn from_boot(
        boot: &RecordedBoot<'_>,
        earlier: &[RecordedBoot<'_>],
    ) -> Result<Self, String> {
        let course = BootCourse::read(boot).ok_or("no decision of this boot is in the boot log")?;
        let mut files = FileCourses::read(boot, &course);
        let chain = chain::chain(&course, &files);
        let mut phases = course.phases();
        let usual = usual::compare(&course, &mut phases, earlier);
        usual::add_expected(&mut phases, &files.expected);
        let mut cautions = course.cautions.clone();
        cautions.append(&mut files.cautions);
        Ok(Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: Self::KIND.to_owned(),
            windrow: course.windrow.clone(),
            boot: boot.id().map(str::to_owned),
            began: course.began,
            end: course.end(),
            phases,
            chain,
            files: files.into_times(course.api),
            usual,
            cautions,
        })
    }

    /// How long it took, or has taken so far, in seconds.
    pub fn seconds(&self) -> f64 {
        self.end.at
    }
}
