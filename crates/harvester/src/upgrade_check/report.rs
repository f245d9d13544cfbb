//! The result of an upgrade check, for programs and people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Evidence;

use super::table::Row;
use super::{Seen, is_covered};
use crate::version::HarvesterVersion;
use crate::versions::Holds;

/// Limit on the pieces of evidence of a row.
const MOST: usize = 20;
/// Problems that no row can check, since they are not visible here.
const NOT_LOOKED_AT: &[&str] = &[
    "a rke2-multus.yaml.skip on the disks of other nodes",
    "annotations of the Upgrade that is to be made: they change or skip some of Harvester's checks",
];

/// Would an upgrade begin, and end?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UpgradeOutcome {
    /// Nothing is known that is against it.
    Fine,
    /// Harvester would refuse it.
    Refused,
    /// It would begin and not end.
    Stops,
    /// It cannot be said.
    Unknown,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AskedBy {
    /// Harvester, before the upgrade or in it.
    Harvester,
    /// Windrow alone: Harvester does not look at it.
    Windrow,
}

/// What came of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckOutcome {
    /// Harvester would refuse the upgrade.
    Refused,
    /// The upgrade would begin and not end.
    Stops,
    /// It cannot be said.
    Unknown,
    /// It is worth a look before the upgrade.
    Warns,
    /// All is well.
    Fine,
    /// It does not matter here; `unknown` says why.
    NotAsked,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckedRow {
    /// Its name.
    pub check: String,
    /// Who asks it.
    pub asked_by: AskedBy,
    /// What came of it.
    pub outcome: CheckOutcome,
    /// What has to hold.
    pub rule: String,
    /// A part of Harvester's words where it does not hold.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub says: String,
    /// What is against it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_none")]
    pub more: usize,
    /// What is not known, or why it is not asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

fn is_none(more: &usize) -> bool {
    *more == 0
}

/// What `windrow upgrade-check -o json` prints. The names of its fields are a promise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeCheck {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `UpgradeCheck`
    pub kind: String,
    /// The release that runs; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The release to come; absent where none was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Would it begin, and end?
    pub upgrade: UpgradeOutcome,
    /// Each check.
    pub checks: Vec<CheckedRow>,
    /// What can stop an upgrade and is not looked at.
    pub not_looked_at: Vec<String>,
}

impl CheckedRow {
    fn new(row: &Row, outcome: CheckOutcome) -> Self {
        Self {
            check: row.name.to_owned(),
            asked_by: row.by,
            outcome,
            rule: row.rule.to_owned(),
            says: row.says.to_owned(),
            evidence: Vec::new(),
            more: 0,
            unknown: Vec::new(),
        }
    }

    /// The result of a row, under a release that checks it or may.
    pub(super) fn seen(row: &Row, mut seen: Seen, asked: Holds) -> Self {
        let outcome = match (seen.wrong.is_empty(), asked) {
            (false, Holds::Unknown { like, there }) => {
                let does = if there { "does" } else { "does not" };
                seen.unknown.push(format!(
                    "whether the release that runs asks it was not read; v{like} {does}"
                ));
                CheckOutcome::Unknown
            }
            (false, _) => row.otherwise,
            (true, _) if !seen.unknown.is_empty() => CheckOutcome::Unknown,
            (true, _) => CheckOutcome::Fine,
        };
        let more = seen.wrong.len().saturating_sub(MOST);
        seen.wrong.truncate(MOST);
        Self {
            evidence: seen.wrong,
            more,
            unknown: seen.unknown,
            ..Self::new(row, outcome)
        }
    }

    pub(super) fn unknown(row: &Row, why: String) -> Self {
        Self {
            unknown: vec![why],
            ..Self::new(row, CheckOutcome::Unknown)
        }
    }

    pub(super) fn not_asked(row: &Row, why: &str) -> Self {
        Self {
            unknown: vec![why.to_owned()],
            ..Self::new(row, CheckOutcome::NotAsked)
        }
    }
}

impl UpgradeCheck {
    pub(super) fn new(
        from: Option<HarvesterVersion>,
        to: Option<HarvesterVersion>,
        checks: Vec<CheckedRow>,
    ) -> Self {
        let any = |outcome| checks.iter().any(|row| row.outcome == outcome);
        let upgrade = match () {
            () if any(CheckOutcome::Refused) => UpgradeOutcome::Refused,
            () if any(CheckOutcome::Stops) => UpgradeOutcome::Stops,
            // An unread release may have further checks.
            () if any(CheckOutcome::Unknown) || !is_covered(from) => UpgradeOutcome::Unknown,
            () => UpgradeOutcome::Fine,
        };
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "UpgradeCheck".to_owned(),
            from: from.map(|version| format!("v{version}")),
            to: to.map(|version| format!("v{version}")),
            upgrade,
            checks,
            not_looked_at: NOT_LOOKED_AT.iter().map(|one| (*one).to_owned()).collect(),
        }
    }
}
