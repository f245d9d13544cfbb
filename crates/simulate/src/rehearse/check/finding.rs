//! A finding in the form of a check: with its verdict, advice, and acceptance.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::Code;

use super::verdict::{CheckPart, CheckVerdict};

/// A finding and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckedFinding {
    /// Part that found it.
    pub part: CheckPart,
    /// Verdict without the acceptance.
    pub verdict: CheckVerdict,
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
    /// Advice.
    pub advice: String,
    /// Affected nodes; absent if there is only one node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Why the finding does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<AcceptedBecause>,
}

/// Why a finding does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedBecause {
    /// Reason that the user wrote.
    pub reason: String,
    /// Position of the reason.
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

    /// The verdict with the acceptance.
    pub fn counts(&self) -> CheckVerdict {
        match self.accepted {
            Some(_) => CheckVerdict::Pass,
            None => self.verdict,
        }
    }

    /// The sort order: the worst first, proofs in a line of a file before their consequences, and the node before Windrow's own
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
