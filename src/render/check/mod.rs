//! A check for users and for pipelines.

mod github;
mod junit;
mod place;
mod sarif;
mod table;
mod words;

pub use github::check_github;
pub use junit::check_junit;
pub use sarif::check_sarif;
pub(super) use table::summary;
pub use table::{check_details, check_table};

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windrow_model::findings::{Finding, Location};
    use windrow_model::reasons::Code;
    use windrow_simulate::rehearse::check::acceptance::Acceptances;
    use windrow_simulate::rehearse::check::{CheckPart, CheckReport, CheckVerdict, CheckedNode};
    use windrow_simulate::rehearse::{Rehearsal, rehearse};
    use windrow_simulate::{Scenario, Setup};

    use super::*;
    use crate::printable::{json_pretty, yaml};
    use crate::render::{Style, check_page};

    #[test]
    fn no_format_has_a_line_that_begins_with_what_follows_a_line_break_in_a_name() {
        const NAME: &str = "b\n::error::PWN,file=x::\r::error::CR.yaml";
        let start = Timestamp::constant(1_767_225_600, 0);
        let mut setup = Setup::first_vm(start);
        setup.scenario = Scenario::rke2(start);
        setup.files.write(NAME, "kind: [", start);
        let nodes = vec![rehearse(NAME, &setup, 1, Vec::new())];
        let rehearsal = Rehearsal::new(nodes, Vec::new());
        let code = Code::DuplicateObject;
        let finding = Finding {
            incident: None,
            code,
            severity: code.severity(),
            message: format!("{NAME} is wrong"),
            at: vec![Location::line(NAME, 1), Location::file(NAME)],
        };
        let node = CheckedNode {
            findings: vec![(CheckPart::Plan, finding)],
            ..CheckedNode::default()
        };
        let accepted = Acceptances::default();
        let report = CheckReport::new(&rehearsal, vec![node], None, accepted, "0.1.0");
        for (format, text) in [
            ("table", check_table(&report, Style::default())),
            ("json", json_pretty(&report).unwrap()),
            ("yaml", yaml(&report).unwrap()),
            ("sarif", check_sarif(&report).unwrap()),
            ("junit", check_junit(&report, CheckVerdict::Fail)),
            (
                "junit, accepted",
                check_junit(&report, CheckVerdict::Unknown),
            ),
            ("html", check_page(&report, &rehearsal)),
            ("github", check_github(&report)),
        ] {
            assert!(text.contains("PWN"), "{format}");
            let mut lines = text.split(['\n', '\r']);
            let command = lines.find(|line| line.trim_start().starts_with("::error::"));
            assert_eq!(command, None, "{format}");
        }
    }
}
