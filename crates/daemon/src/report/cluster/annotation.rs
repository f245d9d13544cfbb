//! The annotation with details for which the condition has no room. Pure.
//!
//! It is written with the condition, in one request. Rancher copies all annotations of a Node into a separate object,
//! and writes that object again after each change. So the annotation is small, and has neither counters nor ages nor
//! sentences: it changes only with the phase, the pace, a finding or the partition of the system images. The blocker is
//! in the condition's message. Names are those of the CloudEvent's data.

use jiff::Timestamp;
use serde::Serialize;
use windrow_decide::{Pace, Phase, Status};
use windrow_harvester::SystemPartition;
use windrow_model::findings::Finding;
use windrow_model::reasons::{Code, Severity};

/// Largest text, in bytes.
const LARGEST: usize = 512;
/// Most findings in it, the worst first.
const NAMED: usize = 3;
/// Longest subject of a finding, in characters.
const LONGEST: usize = 64;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bootstrap<'s> {
    phase: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pace: Option<Pace>,
    since: Timestamp,
    finding_count: usize,
    findings: Vec<NamedFinding>,
    version: &'s str,
    /// For `windrow upgrade-check` on another node: only this one can read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    system_partition: Option<SystemPartition>,
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
struct NamedFinding {
    severity: std::cmp::Reverse<Severity>,
    code: Code,
    #[serde(skip_serializing_if = "String::is_empty")]
    subject: String,
}

pub(super) fn annotation(status: &Status, system_partition: Option<SystemPartition>) -> String {
    let mut findings: Vec<NamedFinding> = status.findings.iter().map(named).collect();
    findings.sort();
    findings.truncate(NAMED);
    let mut bootstrap = Bootstrap {
        phase: status.phase,
        phase_since: status.phase_since.map(whole_second),
        pace: status.pace,
        since: whole_second(status.since),
        finding_count: status.findings.len(),
        findings,
        version: &status.versions.windrow,
        system_partition,
    };
    loop {
        // A value of texts and numbers always serialises.
        let text = serde_json::to_string(&bootstrap).unwrap_or_default();
        if text.len() <= LARGEST {
            return text;
        }
        if bootstrap.findings.pop().is_none() {
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
        severity: std::cmp::Reverse(finding.severity),
        code: finding.code,
        subject: line(&subject, LONGEST),
    }
}

/// A text for readers of the Node: in one line, and not too long.
pub(super) fn line(text: &str, most: usize) -> String {
    windrow_model::text::fit(&text.replace(crate::printable::is_hidden, " "), most)
}

fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use windrow_decide::{HeldFile, Readiness};

    use super::*;
    use crate::report::publish::sample;

    fn finding(code: Code, severity: Severity, place: &str) -> Finding {
        Finding {
            incident: None,
            code,
            severity,
            message: place.to_owned(),
            at: vec![windrow_model::findings::Location::line(place, 1)],
        }
    }

    fn held(file: &str, why: &str) -> HeldFile {
        serde_json::from_value(serde_json::json!({
            "file": file, "since": "2026-11-21T20:15:00Z", "by": "windrow", "code": "waits-for-kind", "why": why, "blockers": [],
        }))
        .unwrap()
    }

    fn setting_up() -> Status {
        let mut status = sample("x");
        status.readiness = Readiness::SettingUp;
        status.phase = Phase::Api;
        status.pace = Some(Pace::Stalled);
        status
    }

    #[test]
    fn it_changes_with_the_phase_the_pace_and_a_finding_and_with_nothing_else() {
        let status = setting_up();
        let text = annotation(&status, None);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["phase"], "api");
        assert_eq!(value["pace"], "stalled");
        assert_eq!(value["findingCount"], status.findings.len());
        // Another sentence, another file or another number: the condition's message has them.
        let mut later = status.clone();
        later.generation += 1;
        later.headline = "Setting up (kube-apiserver, 20+ min, stalled)".to_owned();
        later.reason.message = "2 of 7 pods are ready".to_owned();
        later.staging.total = 9;
        later.staging.held = vec![held("a.yaml", "waits for 2 of 7 pods")];
        assert_eq!(annotation(&later, None), text);

        let changes: [fn(&mut Status); 3] = [
            |status| status.phase = Phase::Manifests,
            |status| status.pace = Some(Pace::Stuck),
            |status| {
                let new = finding(Code::RequiredCycle, Severity::Error, "a.yaml");
                status.findings.push(new);
            },
        ];
        for change in changes {
            let mut changed = status.clone();
            change(&mut changed);
            assert_ne!(annotation(&changed, None), text);
        }
    }

    #[test]
    fn it_names_the_worst_findings_first_in_whichever_order_they_come() {
        let mut status = setting_up();
        let disk = finding(Code::DiskLow, Severity::Warning, "b.yaml");
        let cycle = finding(Code::RequiredCycle, Severity::Error, "c.yaml");
        let other = finding(Code::DiskLow, Severity::Warning, "a.yaml");
        status.findings = vec![disk.clone(), cycle.clone(), other.clone()];
        let text = annotation(&status, None);
        let value: Value = serde_json::from_str(&text).unwrap();
        let subject = |index: usize| value["findings"][index]["subject"].as_str().unwrap();
        assert_eq!(
            [subject(0), subject(1), subject(2)],
            ["c.yaml:1", "a.yaml:1", "b.yaml:1"]
        );
        status.findings = vec![other, disk, cycle];
        assert_eq!(annotation(&status, None), text);
    }

    #[test]
    fn it_is_small_whatever_a_node_has_found() {
        let mut status = setting_up();
        let long = "\u{20ac}\n".repeat(5_000);
        status.phase_since = Some(status.since);
        status.findings = vec![finding(Code::RequiredCycle, Severity::Error, &long); 1_000];
        status.staging.held = vec![held("a.yaml", &long); 100];
        let partition = SystemPartition {
            capacity: u64::MAX,
            free: u64::MAX,
        };
        let text = annotation(&status, Some(partition));
        assert!(text.len() <= LARGEST, "{}", text.len());
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["findingCount"], 1_000);
        assert_eq!(value["systemPartition"]["freeMiB"], u64::MAX);
        assert!(!value["findings"].as_array().unwrap().is_empty());
        assert!(!text.contains("\\n"), "{text}");
    }

    #[test]
    fn it_has_the_partition_of_the_system_images_as_upgrade_check_reads_it() {
        let images: windrow_harvester::SystemImages = serde_json::from_value(
            serde_json::json!({"capacity": 8_350_298_112_u64, "free": 4_050_407_424_u64}),
        )
        .unwrap();
        let partition = SystemPartition::from(&images);
        let annotated = annotation(&setting_up(), Some(partition));
        let node = serde_json::json!({"metadata": {"annotations": {windrow_harvester::node_condition::ANNOTATION: annotated}}});
        let read = SystemPartition::from_node(&node).unwrap();
        assert_eq!((read.capacity, read.free), (7_936, 3_840));
        assert_eq!(SystemPartition::from_node(&serde_json::json!({})), None);
    }
}
