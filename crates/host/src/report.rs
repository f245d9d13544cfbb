//! The report of a preflight, for programs and users.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_plan::rules::Platform;

use crate::{HostFacts, PlannedRole, Surroundings};

/// Whether the machine can become the wanted node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PreflightVerdict {
    /// No problem is known.
    Fine,
    /// At least one required check fails.
    Fails,
    /// At least one required check has no result.
    Unknown,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PreflightOutcome {
    /// The requirement is not met.
    Fails,
    /// Windrow cannot tell.
    Unknown,
    /// Worth a look; the node works without it.
    Look,
    /// The requirement is met.
    Fine,
    /// The check does not apply to this node; `unknown` contains the reason.
    NotAsked,
}

/// Whether a check decides the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RowWeight {
    /// If the check fails, the machine fails; if it is unknown, the verdict is unknown.
    Required,
    /// The check is at most worth a look. If it is unknown, it does not change the verdict.
    Wanted,
}

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightRow {
    /// Name of the check.
    pub check: String,
    /// Whether the check decides the verdict.
    pub weight: RowWeight,
    /// Result.
    pub outcome: PreflightOutcome,
    /// The requirement.
    pub rule: String,
    /// Facts that were found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<String>,
    /// Problems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong: Vec<String>,
    /// Facts that are worth a look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub look: Vec<String>,
    /// Facts that are unknown, or the reason why the check does not apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// The action if the requirement is not met.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advice: String,
}

/// Output of `windrow preflight -o json`. The names of its fields are stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preflight {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Preflight`
    pub kind: String,
    /// When the machine was read.
    pub at: Timestamp,
    /// Platform of the wanted node.
    pub platform: Platform,
    /// Harvester release; absent if none was given. Then the newest known release counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Role of the wanted node.
    pub role: PlannedRole,
    /// Whether the requirements for production were applied.
    pub production: bool,
    /// The verdict.
    pub verdict: PreflightVerdict,
    /// All checks.
    pub checks: Vec<PreflightRow>,
    /// Requirements that Windrow does not check.
    pub not_looked_at: Vec<String>,
    /// Hardware class, as the option `--hardware` of `plan`, `check` and `rehearse` expects it; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_class: Option<String>,
    /// Facts about the machine.
    pub host: HostFacts,
    /// Answers from the network and the disks around the machine.
    pub surroundings: Surroundings,
}

impl PreflightVerdict {
    pub(crate) fn of(checks: &[PreflightRow]) -> Self {
        let any = |outcome| {
            let mut rows = checks.iter();
            rows.any(|row| row.weight == RowWeight::Required && row.outcome == outcome)
        };
        match () {
            () if any(PreflightOutcome::Fails) => Self::Fails,
            () if any(PreflightOutcome::Unknown) => Self::Unknown,
            () => Self::Fine,
        }
    }
}
