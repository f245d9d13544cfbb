//! One word for what was checked, and what each finding comes to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};
use windrow_plan::{Outlook, Plan};

/// What a check comes to. The worse, the greater: of several parts the worst one counts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum CheckVerdict {
    /// It works, and nothing is worth changing.
    Fine,
    /// It works; without a change it takes longer, or RKE2 fails and repeats on the way.
    Slower,
    /// Something could not be judged: it may work.
    Unknown,
    /// It cannot work as it is.
    CannotWork,
}

impl CheckVerdict {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Slower => "slower or noisier without a change",
            Self::Unknown => "unknown",
            Self::CannotWork => "cannot work",
        }
    }

    /// What a finding comes to, where it is not accepted.
    pub fn from_finding(finding: &Finding) -> Self {
        match (finding.code, finding.severity) {
            (_, Severity::Error) => Self::CannotWork,
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
                | Code::GatePatch,
                _,
            ) => Self::Unknown,
            (_, Severity::Warning) => Self::Slower,
            (_, Severity::Notice | Severity::Info) => Self::Fine,
        }
    }

    /// What a plan comes to, with what its files need and nothing brings.
    pub fn from_plan(plan: &Plan) -> Self {
        let outlook = match plan.outlook() {
            Outlook::Works => Self::Fine,
            Outlook::Unknown { .. } => Self::Unknown,
            Outlook::CannotWork { .. } => Self::CannotWork,
        };
        outlook.max(Self::from_findings(&plan.findings))
    }

    /// What findings come to: the worst of them counts.
    pub fn from_findings(findings: &[Finding]) -> Self {
        let all = findings.iter().map(Self::from_finding);
        all.max().unwrap_or(Self::Fine)
    }
}

/// What found something.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum CheckPart {
    /// Windrow's own configuration: settings, rule packs, accepted findings.
    Config,
    /// The files, as RKE2 would read and order them, and what they prove.
    Plan,
    /// The feature gates.
    Gates,
    /// The simulated bootstraps.
    Rehearsal,
}

impl CheckPart {
    /// Every part, in the order in which they are checked.
    pub const ALL: [Self; 4] = [Self::Config, Self::Plan, Self::Gates, Self::Rehearsal];

    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Plan => "plan",
            Self::Gates => "gates",
            Self::Rehearsal => "rehearsal",
        }
    }
}
