//! A known incident, recognised.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_model::findings::{self, Evidence};
use windrow_model::reasons::{Code, Severity};
use windrow_model::redact::Learner;
use windrow_model::text::shell_word;

use super::cure::Cure;
use crate::objects::Unlisted;

/// How many pieces of evidence the status document shows.
const AT_A_GLANCE: usize = 8;

/// What came of looking for one incident.
#[derive(Debug, Clone, PartialEq)]
pub struct DetectorResult {
    /// What it is called.
    pub name: String,
    /// What was recognised, or which kind it could not be judged without.
    pub found: Result<Vec<IncidentFinding>, Unlisted>,
}

/// A known incident, recognised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IncidentFinding {
    /// The stable code.
    pub code: Code,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about, `Kind namespace/name`.
    pub subject: String,
    /// What is wrong, in a line.
    pub message: String,
    /// What was seen.
    pub evidence: Vec<Evidence>,
    /// Why it will not come right by itself, line by line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<String>,
    /// What to do.
    pub advice: String,
    /// What Windrow can do about it on request: `windrow repair CODE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cure: Option<Cure>,
    /// Only a person may begin the cure, which changes what was asked for: `repair.auto` leaves it alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_person: bool,
    /// A fix is known and not offered: a version that it relies on is not confirmed here.
    #[serde(skip)]
    pub unconfirmed: bool,
    /// The page that explains it: below `docs/`, or an address.
    pub documentation: String,
    /// The rule of a rule pack that found it, `pack/rule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
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
            documentation: super::pages::page(code).unwrap_or("reasons.md").to_owned(),
            code,
        }
    }

    /// With what was seen.
    #[must_use]
    pub fn seen(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Is it the same, seen another time?
    pub fn is_same(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.code, one.subject.clone(), one.rule.clone());
        key(self) == key(other)
    }

    /// The command that shows and carries out the cure, where Windrow has one.
    pub fn remedy(&self) -> Option<String> {
        self.cure.as_ref()?;
        let subject = shell_word(&self.subject);
        Some(format!("windrow repair {} {subject}", self.code))
    }

    /// As the status document lists it, with the first pieces of evidence; `windrow diagnose` has the rest. Anyone
    /// may read it, so what looks like a secret in the words of others is taken out.
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

/// What `windrow diagnose -o json` prints. The names of its fields are a promise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// `windrow.dev/v1`
    pub api_version: String,
    /// `Diagnosis`
    pub kind: String,
    /// As of when.
    pub at: Timestamp,
    /// The upgrade of Harvester that is under way, line by line: which node is in which state, since when, what it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upgrade: Vec<String>,
    /// What was recognised, the worst first.
    pub findings: Vec<IncidentFinding>,
    /// What was looked for and could be judged.
    #[serde(default)]
    pub judged: Vec<String>,
    /// What could not be judged, and why.
    pub unknown: Vec<String>,
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
        }
    }
}
