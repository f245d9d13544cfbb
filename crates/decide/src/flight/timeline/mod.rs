//! Where the time of a boot went: its phases, what each file waited for, and the chain of waits that decided when it ended.
//!
//! ```text
//!   Ready <── RKE2's poll <── released <── what it waited for <── the file that brings it <── ... <── the API <── power-on
//! ```
//!
//! The chain is read backwards from the end: each step began when the one before it had ended, so that a shorter wait anywhere else
//! would have changed nothing. Times are seconds from the beginning of the boot, on an axis that does not jump where the clock
//! was set.
//!
//! What happened is taken from the flight as it was recorded. Why a file was held is taken from the same decisions made again.

mod axis;
mod chain;
mod course;
mod files;
#[cfg(test)]
mod tests;
mod usual;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::manifest::ManifestPath;
use windrow_model::reasons::Code;

use super::boots::RecordedBoot;
use crate::{Cause, ExpectationSource, Phase};
use course::BootCourse;
pub use course::clock;
use files::FileCourses;

/// Where the time of one boot went.
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
    /// How it ended.
    pub end: BootEnd,
    /// The phases in their order. One that the node came back to stands there twice.
    pub phases: Vec<PhaseStay>,
    /// The chain of waits that decided when it ended, without a gap from the beginning to the end.
    pub chain: Vec<ChainStep>,
    /// Files that were held or applied in this boot, by when RKE2 applied them.
    pub files: Vec<FileTime>,
    /// How long earlier boots of this node took; absent where none is in the flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<MedianTime>,
    /// What is not known, or was reckoned with, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
}

/// How a boot ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BootEnd {
    /// In what.
    pub state: BootState,
    /// When: the end, or the last that is known of it.
    pub at: f64,
    /// The reason, for programs.
    pub code: Code,
    /// The reason, in a line.
    pub message: String,
}

/// What a boot came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BootState {
    /// Everything works.
    Ready,
    /// It works, and something is wrong besides.
    Degraded,
    /// Every manifest is applied, or kept on purpose. The node was not probed, so no more is known.
    Staged,
    /// Known not to get there by itself.
    Failed,
    /// Not there yet when the flight ended.
    Underway,
}

impl BootState {
    /// Did the boot come to its end?
    pub fn is_end(self) -> bool {
        matches!(self, Self::Ready | Self::Degraded | Self::Staged)
    }
}

/// A phase of the bootstrap, as long as the node was in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseStay {
    /// Which.
    pub name: Phase,
    /// When it began.
    pub from: f64,
    /// When it ended, or the last that is known of it.
    pub to: f64,
    /// Did the node go on from it?
    pub ended: bool,
    /// How long it took in earlier boots; absent where it was in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<MedianTime>,
}

/// How long something took in earlier boots of this node that are in the flight and were of the same sort: with files that RKE2 had
/// to apply, or without. Of a phase of which the flight has too few, in the boots from which the node itself knew what is usual.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MedianTime {
    /// In how many of them.
    pub boots: usize,
    /// The median, in seconds.
    pub median_seconds: f64,
    /// Which boots those are, where they are not in the flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ExpectationSource>,
}

/// One manifest file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileTime {
    /// Which.
    pub file: ManifestPath,
    /// Since when it was held; absent when it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<f64>,
    /// What it waited for, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<FileWait>,
    /// When RKE2 might have it; absent when it is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<f64>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// When RKE2 had applied it; absent when it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<f64>,
    /// How long RKE2 took to take it up and apply it, in seconds, once it might and kube-apiserver answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_seconds: Option<f64>,
    /// RKE2's last error with it, if there was any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What a file waited for first, for a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileWait {
    /// From when.
    pub from: f64,
    /// Until when.
    pub to: f64,
    /// For programs.
    pub code: Code,
    /// In a line.
    pub why: String,
    /// The file that brings it, when one of the directory does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought_by: Option<ManifestPath>,
}

/// One step of the chain that decided the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChainStep {
    /// From when.
    pub from: f64,
    /// Until when.
    pub to: f64,
    /// Who was waited for.
    pub on: WaitedOn,
    /// The file that waited; absent where the node did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<ManifestPath>,
    /// For what, in a line.
    pub text: String,
    /// Is it still waited for when the flight ends?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

/// Who was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WaitedOn {
    /// The node's own parts: network, RKE2, kube-apiserver, the platform.
    Node,
    /// What a held file needs of the cluster.
    Requirement,
    /// What another file of the directory brings, from when RKE2 had applied that.
    OtherFile,
    /// RKE2, to read its directory and apply the file.
    Rke2,
    /// Whoever writes the file: it was not there yet.
    File,
}

impl BootTimeline {
    /// The name of its document.
    pub const KIND: &'static str = "BootTimeline";

    /// Of a boot, beside those before it.
    ///
    /// # Errors
    ///
    /// When nothing was decided in it; a sentence for people.
    pub fn from_boot(
        boot: &RecordedBoot<'_>,
        earlier: &[RecordedBoot<'_>],
    ) -> Result<Self, String> {
        let course = BootCourse::read(boot).ok_or("no decision of this boot is in the flight")?;
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
