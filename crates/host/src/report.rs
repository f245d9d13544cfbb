//! What a preflight says, for programs and people.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_plan::rules::Platform;

use crate::{HostFacts, PlannedRole, Surroundings};

/// Can the machine become what is wanted?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PreflightVerdict {
    /// Nothing is known that is against it.
    Fine,
    /// Something is known that is against it.
    Fails,
    /// Something that counts is not known.
    Unknown,
}

/// What came of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PreflightOutcome {
    /// It is against it.
    Fails,
    /// It is not known.
    Unknown,
    /// It is worth a look; the machine can do without.
    Look,
    /// All is well.
    Fine,
    /// It is not asked of this node; `unknown` says why.
    NotAsked,
}

/// Does a row decide the verdict?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RowWeight {
    /// It fails the machine, and leaves the verdict open while it is unknown.
    Required,
    /// It is worth a look at most, and decides nothing while it is unknown.
    Wanted,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightRow {
    /// Its name.
    pub check: String,
    /// Does it decide the verdict?
    pub weight: RowWeight,
    /// What came of it.
    pub outcome: PreflightOutcome,
    /// What has to hold.
    pub rule: String,
    /// What was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<String>,
    /// What is against it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong: Vec<String>,
    /// What is worth a look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub look: Vec<String>,
    /// What is not known, or why it is not asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// What to do where it is not fine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advice: String,
}

/// What `windrow preflight -o json` prints. The names of its fields are a promise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preflight {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Preflight`
    pub kind: String,
    /// When the machine was read.
    pub at: Timestamp,
    /// What it is to become.
    pub platform: Platform,
    /// The release; absent where none was named and the newest one that is known counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its role.
    pub role: PlannedRole,
    /// Was it held against what is asked for in production?
    pub production: bool,
    /// Can it become that?
    pub verdict: PreflightVerdict,
    /// Each check.
    pub checks: Vec<PreflightRow>,
    /// What is not looked at.
    pub not_looked_at: Vec<String>,
    /// The class of the hardware, as `--hardware` of `plan`, `check` and `rehearse` takes it; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_class: Option<String>,
    /// The machine.
    pub host: HostFacts,
    /// What was asked around it.
    pub surroundings: Surroundings,
}

impl PreflightVerdict {
    /// What follows from the rows.
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
