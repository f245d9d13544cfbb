//! Tests one verdict from many findings, and acceptances with their reasons.

use jiff::Timestamp;
use windrow_model::findings::{Finding, Location};
use windrow_model::manifest::{self, FileContent, ReadLimits};
use windrow_model::reasons::{Code, REASONS, Severity};
use windrow_plan::SourceMap;

use super::acceptance::Acceptances;
use super::*;
use crate::rehearse::{Ending, NodeRehearsal, Rehearsal, rehearse};
use crate::{Scenario, Setup};

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn finding(code: Code, file: &str, line: u32) -> Finding {
    Finding {
        incident: None,
        code,
        severity: code.severity(),
        message: format!("{code} is wrong"),
        at: vec![Location::line(file, line)],
    }
}

/// A node that comes up in its only seed.
fn healthy(name: &str) -> NodeRehearsal {
    let mut setup = Setup::first_vm(START);
    setup.scenario = Scenario::rke2(START);
    setup.files = crate::SimulatedDirectory::new();
    rehearse(name, &setup, 1, Vec::new())
}

fn check(findings: &[(CheckPart, Finding)], accepted: Acceptances) -> CheckReport {
    let rehearsal = Rehearsal::new(vec![healthy("n1")], Vec::new());
    let node = CheckedNode {
        findings: findings.to_vec(),
        ..CheckedNode::default()
    };
    CheckReport::new(&rehearsal, vec![node], None, accepted, "0.1.0")
}

fn accepting(text: &str) -> Acceptances {
    let head = "apiVersion: windrow.dev/v1\nkind: AcceptedFindings\naccept:\n";
    Acceptances::read("accept.yaml", &format!("{head}{text}"))
}

fn codes(report: &CheckReport) -> Vec<Code> {
    report.findings.iter().map(|one| one.finding.code).collect()
}

#[test]
fn the_worst_part_is_the_verdict_and_its_proof_is_the_first_reason() {
    let warning = (CheckPart::Plan, finding(Code::DuplicateObject, "a.yaml", 1));
    let unseen = (CheckPart::Plan, finding(Code::NotLookedAt, "a.yaml", 2));
    let gate = (CheckPart::Gates, finding(Code::GateUnknown, "a.yaml", 3));
    let none = Acceptances::default;
    assert_eq!(check(&[], none()).verdict, CheckVerdict::Pass);
    assert_eq!(check(&[], none()).because, None);
    let slower = check(std::slice::from_ref(&warning), none());
    assert_eq!(slower.verdict, CheckVerdict::Warn);
    let unknown = check(&[warning.clone(), unseen.clone()], none());
    assert_eq!(unknown.verdict, CheckVerdict::Unknown);
    let broken = check(&[warning, unseen, gate.clone()], none());
    assert_eq!(broken.verdict, CheckVerdict::Fail);
    let first = broken.because.unwrap();
    assert_eq!((first.part, first.finding), gate);
    assert_eq!(first.advice, Code::GateUnknown.reason().advice);
    let of = |part| broken.parts.iter().find(|one| one.part == part).unwrap();
    assert_eq!(of(CheckPart::Gates).verdict, CheckVerdict::Fail);
    assert_eq!(of(CheckPart::Plan).verdict, CheckVerdict::Unknown);
    assert_eq!(of(CheckPart::Config).verdict, CheckVerdict::Pass);
}

#[test]
fn an_error_of_any_code_cannot_work_and_no_warning_is_fine() {
    for reason in REASONS {
        let mut one = finding(reason.code, "a.yaml", 1);
        one.severity = Severity::Error;
        assert_eq!(CheckVerdict::from_finding(&one), CheckVerdict::Fail);
        one.severity = Severity::Warning;
        assert_ne!(CheckVerdict::from_finding(&one), CheckVerdict::Pass);
    }
}

#[test]
fn a_rehearsal_that_ends_badly_is_a_finding_and_never_fine() {
    let mut node = healthy("n1");
    for (ending, verdict) in [
        (Ending::Stuck, CheckVerdict::Fail),
        (Ending::Unknown, CheckVerdict::Unknown),
    ] {
        node.with.ends[0].verdict = ending;
        node.with.ends[0].because = vec!["x.yaml is not applied".to_owned()];
        let rehearsal = Rehearsal::new(vec![node.clone()], Vec::new());
        let nodes = vec![CheckedNode::default()];
        let report = CheckReport::new(&rehearsal, nodes, None, Acceptances::default(), "1");
        assert_eq!(report.verdict, verdict);
        let message = report.because.unwrap().finding.message;
        assert!(message.contains("x.yaml is not applied"), "{message}");
    }
    // The message names the VM with its file and line.
    node.with.ends[0].because = vec!["VirtualMachine default/vm does not run: why".to_owned()];
    let rehearsal = Rehearsal::new(vec![node.clone()], Vec::new());
    let place = |name: &str, line| (name.to_owned(), Location::line("vm.yaml", line));
    let machines = [
        place("VirtualMachine default/v", 1),
        place("VirtualMachine default/vm", 7),
    ];
    let nodes = vec![CheckedNode {
        machines: machines.into(),
        ..CheckedNode::default()
    }];
    let report = CheckReport::new(&rehearsal, nodes, None, Acceptances::default(), "1");
    let at = report.because.unwrap().finding.at;
    assert_eq!(at, [Location::line("vm.yaml", 7)]);
    node.with.ends[0].because = (1..=9).map(|number| format!("{number}.yaml")).collect();
    let rehearsal = Rehearsal::new(vec![node], Vec::new());
    let nodes = vec![CheckedNode::default()];
    let report = CheckReport::new(&rehearsal, nodes, None, Acceptances::default(), "1");
    let message = report.because.unwrap().finding.message;
    assert!(
        message.ends_with("1.yaml; 2.yaml; 3.yaml and 6 more"),
        "{message}"
    );
    let cut = CutShort {
        played: 3,
        seeds: 100,
        time: "5m00s".to_owned(),
    };
    let rehearsal = Rehearsal::new(vec![healthy("n1")], Vec::new());
    let nodes = vec![CheckedNode::default()];
    let report = CheckReport::new(&rehearsal, nodes, Some(&cut), Acceptances::default(), "1");
    assert_eq!(report.verdict, CheckVerdict::Unknown);
}

#[test]
fn what_is_found_on_many_nodes_is_found_once() {
    let names: Vec<String> = (1..=40).map(|number| format!("n{number}")).collect();
    let played = names.iter().map(|name| NodeRehearsal {
        name: name.clone(),
        ..healthy("n1")
    });
    let rehearsal = Rehearsal::new(played.collect(), Vec::new());
    let nodes = names.iter().map(|name| CheckedNode {
        findings: vec![(
            CheckPart::Plan,
            finding(Code::DuplicateObject, &format!("{name}.yaml"), 3),
        )],
        ..CheckedNode::default()
    });
    let nodes = nodes.collect();
    let report = CheckReport::new(&rehearsal, nodes, None, Acceptances::default(), "1");
    assert_eq!(codes(&report), [Code::DuplicateObject]);
    assert_eq!(report.findings[0].nodes, names);
    assert_eq!(report.findings[0].finding.at.len(), 40);
    let slower = |node: &NodeVerdict| node.verdict == CheckVerdict::Warn;
    assert!(report.nodes.iter().all(slower));
}

#[test]
fn an_accepted_finding_stays_visible_with_its_reason_and_does_not_count() {
    let found = [(
        CheckPart::Plan,
        finding(Code::DuplicateObject, "dir/sub/a.yaml", 3),
    )];
    for entry in [
        "- {code: duplicate-object, reason: both are alike}\n",
        "- {code: duplicate-object, file: sub/a.yaml, reason: both are alike}\n",
        "- {file: a.yaml, reason: both are alike}\n",
    ] {
        let report = check(&found, accepting(entry));
        assert_eq!(report.verdict, CheckVerdict::Pass, "{entry}");
        assert_eq!(report.because, None);
        let accepted = report.findings[0].accepted.clone().unwrap();
        assert_eq!(accepted.reason, "both are alike");
        assert_eq!(accepted.at, Location::line("accept.yaml", 4));
    }
    for entry in [
        "- {code: file-refused, reason: x}\n",
        "- {code: duplicate-object, file: ub/a.yaml, reason: x}\n",
        "- {code: duplicate-object, file: b.yaml, reason: x}\n",
    ] {
        let report = check(&found, accepting(entry));
        assert_eq!(report.findings[0].accepted, None, "{entry}");
        let both = [Code::DuplicateObject, Code::AcceptanceStale];
        assert_eq!(
            codes(&report),
            both,
            "an entry that accepts nothing: {entry}"
        );
    }
}

#[test]
fn what_is_wrong_with_an_acceptance_file_is_said_with_its_line_and_accepts_nothing() {
    for (text, line, says) in [
        (
            "- {code: duplicate-objekt, reason: x}\n",
            4,
            "did you mean `duplicate-object`?",
        ),
        ("- {code: duplicate-object}\n", 4, "needs a `reason`"),
        ("- reason: x\n", 4, "needs a `code`, a `file`, or both"),
        (
            "- code: duplicate-object\n  reason: x\n  files: y\n",
            6,
            "`files` is not a valid key",
        ),
        ("  x: y\n", 4, "expected a list"),
    ] {
        let read = accepting(text);
        let found = &read.findings[0];
        assert_eq!(found.at, [Location::line("accept.yaml", line)], "{text}");
        assert!(found.message.contains(says), "{}", found.message);
        assert_eq!(read.entries, [], "{text}");
        let report = check(&[], read);
        assert_eq!(report.verdict, CheckVerdict::Fail);
        assert!(report.only_configuration_fails());
    }
    let read = Acceptances::read("accept.yaml", "kind: Accepted\naccept: []\n");
    let lines: Vec<_> = read.findings.iter().map(|one| one.at[0].line).collect();
    assert_eq!(lines, [Some(1), Some(1)], "apiVersion and kind: {read:?}");
}

#[test]
fn an_annotation_accepts_findings_on_its_own_object_alone() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n    windrow.dev/accept: |\n      duplicate-object: both are alike\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n";
    let content = FileContent::Bytes(text.into());
    let file = manifest::read(
        &manifest::ManifestPath::from("a.yaml"),
        &content,
        &ReadLimits::default(),
    );
    let mut accepted = Acceptances::default();
    accepted.annotations(&file, &SourceMap::itself("a.yaml"));
    let first = (CheckPart::Plan, finding(Code::DuplicateObject, "a.yaml", 4));
    let report = check(&[first], accepted.clone());
    assert_eq!(report.verdict, CheckVerdict::Pass);
    let second = (
        CheckPart::Plan,
        finding(Code::DuplicateObject, "a.yaml", 12),
    );
    let report = check(&[second], accepted);
    assert_eq!(report.verdict, CheckVerdict::Warn);
}
