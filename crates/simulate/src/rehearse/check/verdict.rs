//! The verdict of a check, and the verdict of each finding.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::checks::CheckOutcome;
use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};
use windrow_plan::{Outlook, Plan};

/// Verdict of a check. A greater value is worse, and the worst part counts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum CheckVerdict {
    /// It works, and no change is worthwhile.
    Pass,
    /// It works, but takes longer than necessary, or RKE2 fails and retries on the way.
    Warn,
    /// A part could not be judged, so it may work.
    Unknown,
    /// It cannot work without a change.
    Fail,
}

impl CheckVerdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Unknown => "unknown",
            Self::Fail => "fail",
        }
    }

    /// The same in a list of checks.
    pub fn outcome(self) -> CheckOutcome {
        match self {
            Self::Pass => CheckOutcome::Pass,
            Self::Warn => CheckOutcome::Warn,
            Self::Unknown => CheckOutcome::Unknown,
            Self::Fail => CheckOutcome::Fail,
        }
    }

    /// The verdict of a finding that is not accepted.
    pub fn from_finding(finding: &Finding) -> Self {
        match (finding.code, finding.severity) {
            (_, Severity::Error) => Self::Fail,
            _ if finding.is_unknown() => Self::Unknown,
            (
                Code::NotLookedAt
                | Code::AdmissionUnknown
                | Code::BootUnknown
                | Code::BroughtOnCondition
                | Code::MadeElsewhere
                | Code::SeenOnFewBoots
                | Code::RehearsalCutShort
                | Code::GateUncovered
                | Code::GateTargetUnknown
                | Code::GatePatch
                | Code::GateUndecided
                | Code::ValueNotChecked,
                _,
            ) => Self::Unknown,
            (_, Severity::Warning) => Self::Warn,
            (_, Severity::Notice | Severity::Info) => Self::Pass,
        }
    }

    /// The verdict of a plan, including requirements of its files that nothing provides.
    pub fn from_plan(plan: &Plan) -> Self {
        let outlook = match plan.outlook() {
            Outlook::Works => Self::Pass,
            Outlook::Unknown { .. } => Self::Unknown,
            Outlook::CannotWork { .. } => Self::Fail,
        };
        outlook.max(Self::from_findings(&plan.findings))
    }

    /// The verdict of several findings: the worst one counts.
    pub fn from_findings(findings: &[Finding]) -> Self {
        let all = findings.iter().map(Self::from_finding);
        all.max().unwrap_or(Self::Pass)
    }
}

/// Part of a check.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum CheckPart {
    /// Windrow's own configuration: settings, rule packs, accepted findings.
    Config,
    /// The files as RKE2 would read and order them, and proofs from them.
    Plan,
    /// The feature gates.
    Gates,
    /// The simulated boots.
    Rehearsal,
}

impl CheckPart {
    /// All parts in the order of the checks.
    pub const ALL: [Self; 4] = [Self::Config, Self::Plan, Self::Gates, Self::Rehearsal];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Plan => "plan",
            Self::Gates => "gates",
            Self::Rehearsal => "rehearsal",
        }
    }
}
