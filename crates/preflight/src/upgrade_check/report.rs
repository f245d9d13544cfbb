//! The result of an upgrade check, for programs and users.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_harvester::HarvesterVersion;
use windrow_model::checks::{CheckList, CheckOutcome, CheckRow};
use windrow_model::findings::Evidence;

use super::is_covered;

/// The section of the checks of Harvester's preflight: Harvester refuses the upgrade if one fails.
pub(super) const PREFLIGHT: &str = "preflight";
/// The section of all other checks: the upgrade starts, but does not finish.
pub(super) const UPGRADE: &str = "upgrade";
/// Problems that no row can check, since they are not visible here.
const NOT_CHECKED: &[&str] = &[
    "a rke2-multus.yaml.skip on the disks of other nodes",
    "annotations of the Upgrade that is to be made: they change or skip some of Harvester's checks",
];

/// Output of `windrow upgrade-check -o json`. The names of its fields are stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeCheck {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `UpgradeCheck`
    pub kind: String,
    /// The running release; absent if Windrow does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The new release; absent if you named none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The checks. In the section `preflight` are those of Harvester's preflight, in `upgrade` all others.
    #[serde(flatten)]
    pub list: CheckList<Evidence>,
}

impl UpgradeCheck {
    pub(super) fn new(
        from: Option<HarvesterVersion>,
        to: Option<HarvesterVersion>,
        checks: Vec<CheckRow<Evidence>>,
    ) -> Self {
        let mut list = CheckList::new(checks, NOT_CHECKED);
        if !is_covered(from) {
            // An unread release may have further checks.
            list.verdict = list.verdict.min(CheckOutcome::Unknown);
        }
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "UpgradeCheck".to_owned(),
            from: from.map(|version| format!("v{version}")),
            to: to.map(|version| format!("v{version}")),
            list,
        }
    }

    /// True if Harvester would refuse the upgrade.
    pub fn is_refused(&self) -> bool {
        self.list.checks.iter().any(|row| {
            row.outcome == CheckOutcome::Fail && row.section.as_deref() == Some(PREFLIGHT)
        })
    }
}
