//! The annotation that says more of a node than its condition can. Pure.
//!
//! It is written with the condition, in one request, and is small: a cluster has a thousand of them. It says what is true
//! until it is written again, so nothing in it goes on by itself: times, no ages. Names are those of the CloudEvent's data.

use jiff::Timestamp;
use serde::Serialize;
use windrow_decide::{Holder, Pace, Phase, Readiness, Status};
use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};

/// Largest text, in bytes.
const LARGEST: usize = 2048;
/// Most findings that are named, the worst first.
const NAMED: usize = 8;
/// Longest text taken over from elsewhere, in characters.
const LONGEST: usize = 160;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bootstrap<'s> {
    readiness: Readiness,
    phase: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pace: Option<Pace>,
    since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_blocker: Option<Blocker>,
    staging: Counts,
    /// How many there are.
    finding_count: usize,
    findings: Vec<NamedFinding>,
    version: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rke2_version: Option<&'s str>,
}

#[derive(Serialize)]
struct Blocker {
    file: String,
    why: String,
}

#[derive(Serialize)]
struct Counts {
    total: usize,
    held: usize,
    applied: usize,
    failed: usize,
}

#[derive(Serialize)]
struct NamedFinding {
    code: Code,
    severity: Severity,
    #[serde(skip_serializing_if = "String::is_empty")]
    subject: String,
}

/// The annotation's value for a status.
pub(super) fn annotation(status: &Status) -> String {
    let staging = &status.staging;
    let own = staging.held.iter().find(|held| held.by == Holder::Windrow);
    let first = own.or(staging.held.first());
    let mut worst: Vec<&Finding> = status.findings.iter().collect();
    worst.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let mut bootstrap = Bootstrap {
        readiness: status.readiness,
        phase: status.phase,
        phase_since: status.phase_since.map(whole_second),
        pace: status.pace,
        since: whole_second(status.since),
        first_blocker: first.map(|held| Blocker {
            file: line(held.file.as_str(), LONGEST),
            why: line(&held.why, LONGEST),
        }),
        staging: Counts {
            total: staging.total,
            held: staging.held.len(),
            applied: staging.applied.len(),
            failed: staging.failed.len(),
        },
        finding_count: status.findings.len(),
        findings: worst.into_iter().take(NAMED).map(named).collect(),
        version: &status.versions.windrow,
        rke2_version: status
            .gates
            .iter()
            .find_map(|gates| match &gates.versions[..] {
                // One of several is only a guess.
                [version] => Some(version.as_str()),
                _ => None,
            }),
    };
    loop {
        // A value of texts and numbers always serialises.
        let text = serde_json::to_string(&bootstrap).unwrap_or_default();
        if text.len() <= LARGEST {
            return text;
        }
        if bootstrap.findings.pop().is_none() && bootstrap.first_blocker.take().is_none() {
            return String::new();
        }
    }
}

fn named(finding: &Finding) -> NamedFinding {
    let subject = match (&finding.incident, finding.at.first()) {
        (Some(incident), _) => incident.subject.clone(),
        (None, Some(at)) => at.to_string(),
        (None, None) => String::new(),
    };
    NamedFinding {
        code: finding.code,
        severity: finding.severity,
        subject: line(&subject, LONGEST),
    }
}

/// A text for people who look at the Node: in one line, and not too long.
pub(super) fn line(text: &str, most: usize) -> String {
    crate::render::fit(&text.replace(crate::printable::is_hidden, " "), most)
}

fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use windrow_decide::HeldFile;

    use super::*;
    use crate::report::publish::sample;

    #[test]
    fn it_says_what_a_node_is_at_and_nothing_that_goes_on_by_itself() {
        let mut status = sample("x");
        status.readiness = Readiness::SettingUp;
        status.phase = Phase::Api;
        status.pace = Some(Pace::Stalled);
        let text = annotation(&status);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["phase"], "api");
        assert_eq!(value["pace"], "stalled");
        assert_eq!(value["findingCount"], status.findings.len());
        // It is written again only when something else is true.
        let mut later = status.clone();
        later.generation += 1;
        later.headline = "Setting up (api, 20+ min, stalled)".to_owned();
        assert_eq!(annotation(&later), text);
    }

    #[test]
    fn it_is_small_whatever_a_node_has_found() {
        let mut status = sample("x");
        let long = "\u{20ac}\n".repeat(5_000);
        let finding = Finding {
            incident: None,
            code: Code::RequiredCycle,
            severity: Severity::Error,
            message: long.clone(),
            at: vec![windrow_model::findings::Location::line(&long, 1)],
        };
        status.findings = vec![finding; 1_000];
        let held: HeldFile = serde_json::from_value(serde_json::json!({
            "file": "a.yaml", "since": "2026-11-21T20:15:00Z", "by": "windrow", "code": "waits-for-kind", "why": long, "blockers": [],
        }))
        .unwrap();
        status.staging.held = vec![held; 100];
        let text = annotation(&status);
        assert!(text.len() <= LARGEST, "{}", text.len());
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["findingCount"], 1_000);
        assert_eq!(value["staging"]["held"], 100);
        assert!(!value["findings"].as_array().unwrap().is_empty());
        assert!(!text.contains("\\n"), "{text}");
    }
}
