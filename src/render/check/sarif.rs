//! A check as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format), which code hosts show next to the source. The rules
//! are the reason table's.

use std::fmt::Write as _;

use serde::Serialize;
use windrow_model::findings::Location;
use windrow_model::reasons::Severity;
use windrow_simulate::rehearse::check::{CheckReport, CheckVerdict, CheckedFinding};

use super::place::SourcePlace;
use super::words::level;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

#[derive(Serialize)]
struct Log<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [SarifRun<'a>; 1],
}

#[derive(Serialize)]
struct SarifRun<'a> {
    tool: Tool,
    invocations: [Invocation; 1],
    results: Vec<SarifResult<'a>>,
    properties: RunProperties,
}

#[derive(Serialize)]
struct RunProperties {
    verdict: CheckVerdict,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    version: String,
    rules: Vec<SarifRule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifRule {
    id: &'static str,
    short_description: Message,
    help: Message,
    default_configuration: RuleConfiguration,
}

#[derive(Serialize)]
struct RuleConfiguration {
    level: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    execution_successful: bool,
}

#[derive(Serialize)]
struct Message {
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult<'a> {
    rule_id: &'static str,
    rule_index: usize,
    level: &'static str,
    message: Message,
    locations: Vec<ResultLocation>,
    partial_fingerprints: Fingerprints,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suppressions: Vec<Suppression<'a>>,
}

/// With these a code host recognises a finding when its line has moved.
#[derive(Serialize)]
struct Fingerprints {
    #[serde(rename = "windrowFinding/v1")]
    finding: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultLocation {
    physical_location: PhysicalLocation,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: Artifact,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
}

#[derive(Serialize)]
struct Artifact {
    uri: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: u32,
}

#[derive(Serialize)]
struct Suppression<'a> {
    kind: &'static str,
    justification: &'a str,
}

/// A check as a SARIF log.
///
/// # Errors
///
/// None: it is made of texts and numbers.
pub fn check_sarif(report: &CheckReport) -> serde_json::Result<String> {
    let mut rules: Vec<SarifRule> = Vec::new();
    let results = report
        .findings
        .iter()
        .map(|one| result(one, rule_index(&mut rules, one)));
    let results = results.collect();
    let log = Log {
        schema: SCHEMA,
        version: "2.1.0",
        runs: [SarifRun {
            tool: Tool {
                driver: Driver {
                    name: "windrow",
                    version: report.windrow.clone(),
                    rules,
                },
            },
            invocations: [Invocation {
                execution_successful: true,
            }],
            results,
            properties: RunProperties {
                verdict: report.verdict,
            },
        }],
    };
    Ok(crate::printable::json_pretty(&log)? + "\n")
}

/// The index of the finding's rule among the rules of the run. Each rule is listed once.
fn rule_index(rules: &mut Vec<SarifRule>, one: &CheckedFinding) -> usize {
    let reason = one.finding.code.reason();
    let known = rules.iter().position(|rule| rule.id == reason.id);
    known.unwrap_or_else(|| {
        rules.push(SarifRule {
            id: reason.id,
            short_description: Message {
                text: reason.template.to_owned(),
            },
            help: Message {
                text: reason.advice.to_owned(),
            },
            default_configuration: RuleConfiguration {
                level: level_name(reason.severity),
            },
        });
        rules.len() - 1
    })
}

fn result(one: &CheckedFinding, rule_index: usize) -> SarifResult<'_> {
    let finding = &one.finding;
    let suppressions = one.accepted.iter().map(|accepted| Suppression {
        kind: "external",
        justification: &accepted.reason,
    });
    SarifResult {
        rule_id: finding.code.as_str(),
        rule_index,
        level: match one.accepted {
            Some(_) => "note",
            None => level_name(level(one)),
        },
        message: Message {
            text: format!("{} {}", finding.message, one.advice),
        },
        locations: finding.at.iter().map(location).collect(),
        partial_fingerprints: Fingerprints {
            finding: format!("{}:{}", finding.code, finding.message),
        },
        suppressions: suppressions.collect(),
    }
}

fn location(at: &Location) -> ResultLocation {
    let place = SourcePlace::new(at);
    ResultLocation {
        physical_location: PhysicalLocation {
            artifact_location: Artifact {
                uri: uri(place.file),
            },
            region: place.line.map(|start_line| Region { start_line }),
        },
    }
}

fn level_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Notice | Severity::Info => "note",
    }
}

/// A path as a URI reference: relative to where the check ran, or of a file.
fn uri(path: &str) -> String {
    let mut out = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}
