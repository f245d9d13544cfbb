//! The reported findings, so that each of them, and its end, is reported once.

use std::collections::BTreeSet;

use windrow_model::findings::{Finding, Location};
use windrow_model::reasons::{Code, Severity};

use super::action::Event;

#[derive(Debug, Clone, Default)]
pub(super) struct ReportedFindings(Vec<ReportedFinding>);

#[derive(Debug, Clone)]
struct ReportedFinding {
    code: Code,
    message: String,
    places: BTreeSet<Location>,
    line: String,
}

impl ReportedFinding {
    fn new(finding: &Finding) -> Self {
        Self {
            code: finding.code,
            message: finding.message.clone(),
            places: finding.at.iter().cloned().collect(),
            line: finding.line(),
        }
    }

    /// Is it the same finding, perhaps at other places? A finding grows and shrinks with its files.
    fn continues(&self, other: &Self) -> bool {
        self.code == other.code
            && self.message == other.message
            && (self.places.is_empty() || !self.places.is_disjoint(&other.places))
    }

    fn event(&self, code: Code, message: String) -> Event {
        Event {
            code,
            file: self.places.first().map(|at| at.file.clone()),
            message,
        }
    }
}

impl ReportedFindings {
    /// Compares the findings of a new plan with the reported ones: which begin, and which end.
    pub(super) fn changes(&mut self, findings: &[Finding]) -> Vec<Event> {
        let current: Vec<ReportedFinding> = findings
            .iter()
            .filter(|finding| finding.severity >= Severity::Warning)
            .map(ReportedFinding::new)
            .collect();
        let before = std::mem::replace(&mut self.0, current);
        let is_in = |list: &[ReportedFinding], finding: &ReportedFinding| {
            list.iter().any(|other| other.continues(finding))
        };
        let ended = before.iter().filter(|finding| !is_in(&self.0, finding));
        let ended = ended.map(|finding| {
            let line = Code::FindingResolved.say(&[("what", &finding.line)]);
            finding.event(Code::FindingResolved, line)
        });
        let begun = self.0.iter().filter(|finding| !is_in(&before, finding));
        let begun = begun.map(|finding| finding.event(finding.code, finding.line.clone()));
        ended.chain(begun).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(message: &str, files: &[String]) -> Finding {
        Finding {
            code: Code::ObjectWithoutProvider,
            severity: Severity::Warning,
            message: message.to_owned(),
            at: files.iter().map(|file| Location::line(file, 1)).collect(),
            incident: None,
        }
    }

    #[test]
    fn a_finding_that_only_grows_is_reported_once_with_a_few_of_its_places() {
        let files: Vec<String> = (0..500).map(|number| format!("s{number}.yaml")).collect();
        let mut reported = ReportedFindings::default();
        let mut lines = Vec::new();
        for count in 1..=files.len() {
            // In the plan's order, which is by name.
            let mut files = files[files.len() - count..].to_vec();
            files.sort();
            lines.extend(reported.changes(&[finding("nothing creates slow", &files)]));
        }
        assert_eq!(lines.len(), 1);
        let all = ReportedFindings::default().changes(&[finding("nothing creates slow", &files)]);
        assert!(all[0].message.len() < 100, "{}", all[0].message);
        assert!(
            all[0]
                .message
                .contains("and 497 more: nothing creates slow")
        );
    }

    #[test]
    fn two_findings_of_the_same_words_are_each_reported_and_so_is_the_end_of_each() {
        let [one, other] = ["a.yaml", "b.yaml"].map(|file| finding("line 3", &[file.to_owned()]));
        let mut reported = ReportedFindings::default();
        assert_eq!(reported.changes(std::slice::from_ref(&one)).len(), 1);
        let begun = reported.changes(&[one, other.clone()]);
        assert_eq!(begun.len(), 1);
        assert_eq!(begun[0].file.as_deref(), Some("b.yaml"));
        let ended = reported.changes(std::slice::from_ref(&other));
        assert_eq!(ended.len(), 1);
        assert_eq!(
            (ended[0].code, ended[0].file.as_deref()),
            (Code::FindingResolved, Some("a.yaml"))
        );
        assert!(reported.changes(&[other]).is_empty());
    }
}
