//! A check as a JUnit report, as CI systems read it: a test case for each part, and one for each finding.

use askama::Template;
use windrow_simulate::rehearse::check::{
    CheckPart, CheckReport, CheckVerdict, CheckedFinding, PartVerdict,
};

use super::words::message;

#[derive(Template)]
#[template(
    path = "check.xml",
    escape = "one-line",
    config = "src/render/templates/askama.toml"
)]
struct JunitReport<'r> {
    report: &'r CheckReport,
    /// From which verdict on a finding is a failure.
    fails_from: CheckVerdict,
}

/// A check as a JUnit report. A finding from this verdict on is a failure, as it is for the exit code.
pub fn check_junit(report: &CheckReport, fails_from: CheckVerdict) -> String {
    let page = JunitReport { report, fails_from };
    // A string takes everything.
    page.render().unwrap_or_default()
}

impl JunitReport<'_> {
    fn of_part(&self, part: &PartVerdict) -> Vec<&CheckedFinding> {
        let findings = self.report.findings.iter();
        findings.filter(|one| one.part == part.part).collect()
    }

    fn fails(&self, one: &CheckedFinding) -> bool {
        one.counts() >= self.fails_from
    }

    fn failures(&self, part: &PartVerdict) -> usize {
        let own = self.of_part(part).into_iter();
        own.filter(|one| self.fails(one)).count()
    }

    fn skipped(&self, part: &PartVerdict) -> usize {
        let own = self.of_part(part).into_iter();
        own.filter(|one| one.accepted.is_some()).count()
    }

    fn tests(&self, part: &PartVerdict) -> usize {
        self.of_part(part).len() + 1
    }

    fn all_tests(&self) -> usize {
        self.report.parts.iter().map(|part| self.tests(part)).sum()
    }

    fn all_failures(&self) -> usize {
        let parts = self.report.parts.iter();
        parts.map(|part| self.failures(part)).sum()
    }
}

// Fields of the template: templates pass everything by reference.

fn name(one: &CheckedFinding) -> String {
    let code = one.finding.code;
    one.finding
        .at
        .first()
        .map_or(code.to_string(), |at| format!("{code} at {at}"))
}

fn text(one: &CheckedFinding) -> String {
    message(one)
}

fn what(part: &CheckPart) -> &'static str {
    match part {
        CheckPart::Config => "Windrow's own configuration",
        CheckPart::Plan => "the files, as RKE2 reads and orders them",
        CheckPart::Gates => "the feature gates",
        CheckPart::Rehearsal => "the simulated boots",
    }
}
