//! A check as workflow commands of GitHub Actions: annotations at the lines of a change.
//!
//! The escapes are those of actions/toolkit (`packages/core/src/command.ts`).

use std::fmt::Write as _;

use windrow_model::reasons::Severity;
use windrow_simulate::rehearse::check::CheckReport;

use super::place::SourcePlace;
use super::words::{level, message};
use crate::printable::printable;

/// A check as workflow commands, one a finding, and the verdict at the end.
pub fn check_github(report: &CheckReport) -> String {
    let mut out = String::new();
    for one in &report.findings {
        let command = match level(one) {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Notice | Severity::Info => "notice",
        };
        let mut properties = Vec::new();
        if let Some(at) = one.finding.at.first() {
            let place = SourcePlace::new(at);
            properties.push(format!("file={}", property(place.file)));
            if let Some(line) = place.line {
                properties.push(format!("line={line}"));
            }
        }
        properties.push(format!("title={}", property(one.finding.code.as_str())));
        let _ = writeln!(
            out,
            "::{command} {}::{}",
            properties.join(","),
            data(&message(one))
        );
    }
    let _ = writeln!(out, "windrow check: {}", report.verdict.as_str());
    out
}

fn data(text: &str) -> String {
    printable(text)
        .replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_ends_the_command_or_begins_another() {
        assert_eq!(data("100% of\n::error::x"), "100%25 of\\n::error::x");
        assert_eq!(property("a:b,c%"), "a%3Ab%2Cc%25");
    }
}
