//! A detected known incident.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::{self, Evidence};
use windrow_model::reasons::{Code, Severity};
use windrow_model::redact::Learner;
use windrow_model::text::shell_word;

use super::cure::Cure;
use crate::objects::Unlisted;

/// Number of pieces of evidence in the status document.
const AT_A_GLANCE: usize = 8;

/// Identifies a detector on all servers of a cluster: a word such as `kubevirt`, or `pack/rule` for a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DetectorId(pub(super) String);

impl DetectorId {
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// What it looks for.
    pub fn title(&self) -> &str {
        let mut detectors = super::detectors()
            .chain(super::detectors_of_commands())
            .chain(super::symptoms::OF_SAVED);
        let detector = detectors.find(|one| one.id == self.0);
        detector.map_or(&self.0, |detector| detector.name)
    }

    /// The rule, `pack/rule`, if a rule pack defines the detector.
    pub fn rule(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|id| id.contains('/'))
    }

    /// Whether it looks for symptoms, and not for a known incident.
    pub(super) fn is_of_symptoms(&self) -> bool {
        super::symptoms::DETECTORS
            .iter()
            .chain(super::symptoms::OF_SAVED)
            .any(|one| one.id == self.0)
    }

    /// Whether the detector examines this node, and not the whole cluster.
    pub fn is_of_node(&self) -> bool {
        super::own::DETECTORS.iter().any(|own| own.id == self.0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct DetectorResult {
    pub id: DetectorId,
    /// The findings, or a kind that could not be listed.
    pub found: Result<Vec<IncidentFinding>, Unlisted>,
}

/// A detected known incident.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IncidentFinding {
    /// Stable code.
    pub code: Code,
    /// Severity.
    pub severity: Severity,
    /// Subject, `Kind namespace/name`.
    pub subject: String,
    /// Problem in one line.
    pub message: String,
    /// Evidence.
    pub evidence: Vec<Evidence>,
    /// Why it persists without a repair, line by line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<String>,
    /// Action for the user.
    pub advice: String,
    /// Cure that Windrow offers: `windrow repair CODE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cure: Option<Cure>,
    /// Only a user may start the cure, which changes a requested setting: `repair.auto` never starts it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_person: bool,
    /// A fix is known but not offered, because a version that it relies on is not confirmed here.
    #[serde(skip)]
    pub unconfirmed: bool,
    /// Page with the explanation: a path below `docs/`, or a URL.
    pub documentation: String,
    /// Rule that found it, `pack/rule`, if it comes from a rule pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// True for a symptom without a known cause.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unexplained: bool,
    /// Messages of the symptoms that this finding explains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected: Vec<String>,
}

impl IncidentFinding {
    /// A finding with the texts of its row in the reason table.
    pub fn new(code: Code, subject: impl Into<String>, why: &str) -> Self {
        let subject = subject.into();
        Self {
            severity: code.severity(),
            message: code.say(&[("subject", &subject), ("why", why)]),
            subject,
            evidence: Vec::new(),
            proof: Vec::new(),
            advice: code.reason().advice.to_owned(),
            cure: None,
            by_person: false,
            unconfirmed: false,
            rule: None,
            unexplained: false,
            affected: Vec::new(),
            documentation: code.reason().page.unwrap_or("reasons.md").to_owned(),
            code,
        }
    }

    #[must_use]
    pub fn seen(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Whether both findings describe the same incident at different times.
    pub fn is_same(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.code, one.subject.clone(), one.rule.clone());
        key(self) == key(other)
    }

    /// The command that shows and runs the cure, if Windrow has one.
    pub fn remedy(&self) -> Option<String> {
        self.cure.as_ref()?;
        let subject = shell_word(&self.subject);
        Some(format!("windrow repair {} {subject}", self.code))
    }

    /// The form in the status document, with the first pieces of evidence; `windrow diagnose` shows all. Anyone can read this
    /// document, so apparent secrets are removed from quoted texts.
    pub fn in_status(&self) -> findings::Finding {
        let redactor = Learner::default().redactor();
        let shown = |seen: &Evidence| {
            let value = redactor.text(&seen.value);
            Evidence {
                value,
                ..seen.clone()
            }
            .in_short()
        };
        findings::Finding {
            code: self.code,
            severity: self.severity,
            message: redactor.text(&self.message),
            at: Vec::new(),
            incident: Some(Box::new(findings::Incident {
                subject: self.subject.clone(),
                evidence: self.evidence.iter().take(AT_A_GLANCE).map(shown).collect(),
                rule: self.rule.clone(),
                advice: self.advice.clone(),
                cure: self.remedy(),
                documentation: self.documentation.clone(),
            })),
        }
    }
}

/// Output of `windrow diagnose -o json`. The names of its fields are stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Diagnosis`
    pub kind: String,
    /// Time of the diagnosis.
    pub at: Timestamp,
    /// The running upgrade of Harvester, line by line: the state of each node, its start, and the awaited event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upgrade: Vec<String>,
    /// Findings, the most severe first.
    pub findings: Vec<IncidentFinding>,
    /// Detectors with a result.
    #[serde(default)]
    pub judged: Vec<String>,
    /// Detectors without a result, and the reason.
    pub unknown: Vec<String>,
    /// Checks of saved lists that were skipped, and that do not make the diagnosis unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

impl Diagnosis {
    pub(super) fn new(
        at: Timestamp,
        mut findings: Vec<IncidentFinding>,
        judged: Vec<String>,
        unknown: Vec<String>,
    ) -> Self {
        findings.sort_by(|a, b| {
            (b.severity, a.code.as_str(), &a.subject).cmp(&(
                a.severity,
                b.code.as_str(),
                &b.subject,
            ))
        });
        Self {
            api_version: "windrow.dev/v1".to_owned(),
            kind: "Diagnosis".to_owned(),
            at,
            upgrade: Vec::new(),
            findings,
            judged,
            unknown,
            skipped: Vec::new(),
        }
    }
}
