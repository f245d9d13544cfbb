//! What Windrow's drop-in should be now, given what lies there.
//!
//! While no RKE2 runs, it is what is asked for and certain to work: the next start reads it. While one
//! runs, nothing is added behind its back; only what the version that will start refuses is taken
//! out, so that an upgrade does not stop at a gate of ours.

use serde::{Deserialize, Serialize};
use windrow_plan::rke2::config::MergedConfig;

use super::check::{may_be_one_of, was_asked_for};
use super::dropin::{DropInSnapshot, drop_in_trusting, read_gates, text};
use super::{DropIn, GateRequest, LeftOut, TargetVersion};

/// Is a server or agent of RKE2 running?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rke2State {
    /// None runs: what is written now is read by its next start.
    Stopped,
    /// One runs, or is being started.
    Running,
}

/// Gates that a trial has shown to work on one version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proven {
    /// The version, as [`super::Version`] writes it.
    pub version: String,
    /// The gates.
    pub gates: Vec<GateRequest>,
}

/// Gates that a trial has shown not to work on one version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rejected {
    /// The version, as [`super::Version`] writes it.
    pub version: String,
    /// The gates.
    pub gates: Vec<GateRequest>,
    /// What went wrong, in a line.
    pub why: String,
}

/// What to do with the drop-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Its text from now on; `None` when there should be no file.
    pub content: Option<String>,
    /// The gates in it.
    pub kept: Vec<GateRequest>,
    /// What was in it and had to go, and why.
    pub dropped: Vec<LeftOut>,
    /// What is asked for, judged for itself.
    pub asked: DropIn,
    /// Is something asked for, and fit to be written, that waits for a boot?
    pub pending: bool,
}

/// Decides. `current` is the text that lies there, `own` its path, `foreign` the merged configuration
/// without it.
pub fn settle(
    requests: &[GateRequest],
    target: &TargetVersion,
    foreign: &MergedConfig,
    current: Option<(&str, &str)>,
    rke2: Rke2State,
    history: &TrialHistory,
) -> Settled {
    let proven = &history.trusted_on(target);
    let mut asked = drop_in_trusting(requests, target, foreign, proven);
    history.leave_rejected_out(target, &mut asked);
    let there = current.map_or_else(Vec::new, |(own, text)| read_gates(own, text, requests));
    // Taken back by the configuration is not refused: only a refusal is worth a word.
    let mut judged = drop_in_trusting(&there, target, foreign, proven);
    history.leave_rejected_out(target, &mut judged);
    let (content, kept) = match rke2 {
        Rke2State::Stopped => (asked.content.clone(), asked.written.clone()),
        Rke2State::Running if judged.left_out.is_empty() => {
            (current.map(|(_, text)| text.to_owned()), there.clone())
        }
        Rke2State::Running => (judged.content.clone(), judged.written.clone()),
    };
    let pending = rke2 == Rke2State::Running && !same(&kept, &asked.written);
    Settled {
        content,
        kept,
        dropped: judged.left_out,
        asked,
        pending,
    }
}

/// What was in force when kube-apiserver was last seen to work with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownGood {
    /// The version, as [`super::Version`] writes it.
    pub version: String,
    /// When.
    pub at: jiff::Timestamp,
    /// The drop-in's text; `None` when there was none.
    pub content: Option<String>,
    /// What was in force before it, where it was kept by a trial.
    #[serde(default)]
    pub previous: Option<DropInSnapshot>,
    /// Of the content, the gates that a component was seen to run with. Absent if that is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<DropInSnapshot>,
}

impl KnownGood {
    /// Leaves gates out of what it proves: they were kept, but no component was seen to run with them.
    #[must_use]
    pub fn without_proof_of(self, unverified: &[GateRequest], own: &str) -> Self {
        if unverified.is_empty() {
            return self;
        }
        let mut gates = self.proven(own).gates;
        gates.retain(|gate| !unverified.iter().any(|other| gate.sets_as(other)));
        Self {
            verified: Some(DropInSnapshot {
                content: text(&gates),
            }),
            ..self
        }
    }

    /// The gates that it shows to work.
    pub fn proven(&self, own: &str) -> Proven {
        let content = match &self.verified {
            Some(verified) => &verified.content,
            None => &self.content,
        };
        Proven {
            version: self.version.clone(),
            gates: read_gates(own, content.as_deref().unwrap_or_default(), &[]),
        }
    }
}

/// What earlier trials have shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrialHistory {
    /// What was kept last.
    pub proven: Option<Proven>,
    /// What was rolled back last.
    pub rejected: Option<Rejected>,
    /// What is being tried.
    pub tried: Option<Proven>,
}

impl TrialHistory {
    fn trusted_on(&self, target: &TargetVersion) -> Vec<GateRequest> {
        let proven = match (&self.proven, target) {
            (Some(proven), TargetVersion::Known(version))
                if proven.version == version.to_string() =>
            {
                proven.gates.as_slice()
            }
            _ => &[],
        };
        let tried = match &self.tried {
            // Tried although nothing, or not enough, is known of the version: a person asked for it. The trial may have begun when
            // more than one version might have started.
            Some(tried) if was_asked_for(target, &tried.version) => tried.gates.as_slice(),
            _ => &[],
        };
        proven.iter().chain(tried).cloned().collect()
    }

    /// What failed on a version that may start is not written again without a trial.
    fn leave_rejected_out(&self, target: &TargetVersion, asked: &mut DropIn) {
        let Some(rejected) = &self.rejected else {
            return;
        };
        if !may_be_one_of(target, &rejected.version) {
            return;
        }
        let (out, written): (Vec<GateRequest>, Vec<GateRequest>) =
            std::mem::take(&mut asked.written)
                .into_iter()
                .partition(|request| {
                    let failed = rejected.gates.iter().any(|gate| gate.sets_as(request));
                    // Unless it is being tried again.
                    let tried = self
                        .tried
                        .as_ref()
                        .is_some_and(|tried| tried.gates.iter().any(|gate| gate.sets_as(request)));
                    failed && !tried
                });
        asked.written = written;
        asked
            .left_out
            .extend(out.into_iter().map(|request| LeftOut {
                request,
                why: format!(
                    "it was tried on {} and rolled back ({}); `windrow gates apply` tries it again",
                    rejected.version, rejected.why
                ),
                not_meant: false,
            }));
        asked.content = text(&asked.written);
    }
}

impl GateRequest {
    /// Do both set one gate of one component to one value?
    pub fn sets_as(&self, other: &GateRequest) -> bool {
        (self.component, &self.gate, self.value) == (other.component, &other.gate, other.value)
    }
}

/// Do two lists set the same gates?
pub fn same(one: &[GateRequest], other: &[GateRequest]) -> bool {
    one.len() == other.len() && one.iter().all(|a| other.iter().any(|b| a.sets_as(b)))
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
