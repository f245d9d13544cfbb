//! The report of a preflight, for programs and users.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_host::HostFacts;
use windrow_model::checks::CheckList;
use windrow_plan::rules::Platform;

use crate::{PlannedRole, Surroundings};

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
    /// The checks.
    #[serde(flatten)]
    pub list: CheckList,
    /// Hardware class, as the option `--hardware` of `plan` and `check` expects it; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_class: Option<String>,
    /// Facts about the machine.
    pub host: HostFacts,
    /// Answers from the network and the disks around the machine.
    pub surroundings: Surroundings,
}
