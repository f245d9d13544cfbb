//! A finding as a check reports it: with what it comes to, what to do, and whether a person has accepted it.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Code;

use super::verdict::{CheckPart, CheckVerdict};

/// Something that was found, and what it comes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckedFinding {
    /// Which part found it.
    pub part: CheckPart,
    /// What it comes to, were it not accepted.
    pub verdict: CheckVerdict,
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
    /// What to do about it.
    pub advice: String,
    /// The nodes that it is of; absent where there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Why it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<AcceptedBecause>,
}

/// Why a finding does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedBecause {
    /// The reason, as a person wrote it.
    pub reason: String,
    /// Where it is written.
    pub at: Location,
}

impl CheckedFinding {
    pub(super) fn new(part: CheckPart, finding: Finding, node: Option<&str>) -> Self {
        Self {
            part,
            verdict: CheckVerdict::from_finding(&finding),
            advice: finding.code.reason().advice.to_owned(),
            finding,
            nodes: node.map(str::to_owned).into_iter().collect(),
            accepted: None,
        }
    }

    /// What it counts for.
    pub fn counts(&self) -> CheckVerdict {
        match self.accepted {
            Some(_) => CheckVerdict::Fine,
            None => self.verdict,
        }
    }

    /// The worst first; what a line of a file proves before what follows from it, and the node before Windrow's own
    /// configuration.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        let follows = matches!(
            self.finding.code,
            Code::BootUnfinished
                | Code::BootUnknown
                | Code::BootNoisy
                | Code::BootSlower
                | Code::RehearsalCutShort
        );
        (
            Reverse(self.counts()),
            self.accepted.is_some(),
            follows,
            Reverse(self.finding.severity),
            self.part == CheckPart::Config,
        )
    }
}
