//! A check as text for a terminal: the verdict, the findings with the worst first, the simulation, and a summary.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use windrow_model::findings::Location;
use windrow_model::unchecked::NotChecked;
use windrow_plan::knowledge::LearnedShare;
use windrow_simulate::rehearse::check::{
    CheckPart, CheckReport, CheckVerdict, CheckedFinding, NodeVerdict,
};
use windrow_simulate::rehearse::{EndCount, Ending, Rehearsal};

use super::super::checks::{self, outcome_word};
use super::super::cluster::{members, name_list};
use super::super::rehearsal::{mostly, rehearsal as boots, seeds_clause, span};
use super::super::table::Style;
use super::super::text::{paragraph, wrap};
use crate::printable::printable;

/// Maximum number of listed places of a finding, and of listed nodes of a group.
const NAMED: usize = 8;

pub fn check_table(report: &CheckReport, style: Style) -> String {
    let mut out = judged(report, style);
    if !report.is_simulated() {
        let _ = writeln!(out, "\n{}", summary(report));
        return out;
    }
    nodes(&mut out, &report.nodes, style);
    let modelled = "Times and Harvester's controllers are simulated. `--details` shows the whole boot, `windrow plan` the order.";
    for line in wrap(modelled, style.width) {
        let _ = writeln!(out, "{}", style.dim(&line));
    }
    let _ = writeln!(out, "\n{}", summary(report));
    out
}

/// As [`check_table`], with the whole simulation of the nodes that boot.
pub fn check_details(report: &CheckReport, rehearsal: &Rehearsal, style: Style) -> String {
    let mut out = judged(report, style);
    if all_stopped(report) {
        nodes(&mut out, &report.nodes, style);
    } else {
        let _ = write!(out, "\n{}", boots(&without_findings(rehearsal), style));
    }
    let _ = writeln!(out, "\n{}", summary(report));
    out
}

/// The findings are in the report, each of them once.
fn without_findings(rehearsal: &Rehearsal) -> Rehearsal {
    let mut rehearsal = rehearsal.clone();
    rehearsal.findings.clear();
    for node in &mut rehearsal.nodes {
        node.findings.clear();
    }
    rehearsal
}

/// The verdict, the findings, and what was not checked.
fn judged(report: &CheckReport, style: Style) -> String {
    let mut out = String::new();
    head(&mut out, report, style);
    let (accepted, counted): (Vec<_>, Vec<_>) = report
        .findings
        .iter()
        .partition(|one| one.accepted.is_some());
    for (title, list) in [("Findings", counted), ("Accepted", accepted)] {
        if !list.is_empty() {
            let _ = writeln!(out, "\n{} ({})", style.strong(title), list.len());
        }
        for one in list {
            finding(&mut out, one, style);
        }
    }
    not_checked(&mut out, report, style);
    out
}

/// What the verdict does not cover. What can stop the node is among the findings.
fn not_checked(out: &mut String, report: &CheckReport, style: Style) {
    let listed = report.not_checked.iter();
    let listed: Vec<_> = listed.filter(|one| !one.can_stop_the_node()).collect();
    if listed.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{} ({})", style.strong("Not checked"), listed.len());
    let mut by_reason: BTreeMap<&str, Vec<&NotChecked>> = BTreeMap::new();
    for one in listed {
        by_reason.entry(&one.why).or_default().push(one);
    }
    for (why, all) in by_reason {
        paragraph(out, &format!("{why}:"), 2, style.width);
        let mut by_file: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for one in all {
            let at = one.at.first();
            let what = match at.and_then(|at| at.line) {
                Some(line) => format!("{} (line {line})", one.what),
                None => one.what.clone(),
            };
            let file = at.map_or("", |at| &*at.file);
            by_file.entry(file).or_default().push(what);
        }
        for (file, named) in by_file {
            let named: Vec<&str> = named.iter().map(String::as_str).collect();
            paragraph(out, &format!("{file}: {}", list(&named)), 4, style.width);
        }
    }
}

fn paint(verdict: CheckVerdict, text: &str, style: Style) -> String {
    checks::paint(verdict.outcome(), text, style)
}

fn head(out: &mut String, report: &CheckReport, style: Style) {
    let verdict = report.verdict;
    let word = paint(verdict, verdict.as_str(), style);
    let _ = match report.is_simulated() {
        true => writeln!(out, "{word}"),
        false => writeln!(out, "{word}; no boot was simulated"),
    };
    if let Some(gain) = gain(report) {
        paragraph(out, &gain, 0, style.width);
    }
    let mut parts: Vec<String> = report
        .parts
        .iter()
        .map(|part| {
            let word = paint(part.verdict, part.verdict.as_str(), style);
            format!("{}: {word}", part.part.as_str())
        })
        .collect();
    if all_stopped(report) || !report.is_simulated() {
        parts.push(format!("{}: skipped", CheckPart::Rehearsal.as_str()));
    }
    let length: usize = report
        .parts
        .iter()
        .map(|part| part.part.as_str().len() + part.verdict.as_str().len() + 5)
        .sum();
    let between = if length > style.width { "\n" } else { " · " };
    let _ = writeln!(out, "{}", parts.join(between));
    let learned = report.learned.as_ref();
    if let Some(sentence) = learned.and_then(LearnedShare::sentence) {
        paragraph(out, &sentence, 0, style.width);
    }
}

/// No node boots, so the simulation says nothing about one.
fn all_stopped(report: &CheckReport) -> bool {
    report.nodes.iter().all(|node| node.stopped_by.is_some())
}

/// The benefit of Windrow: a bad end of boots without it, if every boot with it ends well.
fn gain(report: &CheckReport) -> Option<String> {
    let is_complete = |end: &EndCount| end.verdict == Ending::Complete;
    let mut nodes = report.nodes.iter();
    let node = nodes.find(|node| node.without.iter().any(|end| !is_complete(end)))?;
    if !report
        .nodes
        .iter()
        .all(|node| node.with.iter().all(is_complete))
    {
        return None;
    }
    let bad = |end: &&EndCount| !matches!(end.verdict, Ending::Complete | Ending::Unknown);
    let end = node.without.iter().find(bad)?;
    Some(format!(
        "Without Windrow, this happens in {} of {} simulated boots: {}",
        end.seeds,
        node.seeds,
        end.verdict.describe()
    ))
}

/// Nodes that fare alike, together.
fn nodes(out: &mut String, nodes: &[NodeVerdict], style: Style) {
    let [first, rest @ ..] = nodes else {
        return;
    };
    out.push('\n');
    if rest.is_empty()
        && let Some(by) = first.stopped_by
    {
        let _ = writeln!(out, "Simulation: skipped, because {}.", by.describe());
        return;
    }
    if rest.is_empty() {
        let _ = writeln!(
            out,
            "{} on {}, {} simulated boots",
            style.strong(&printable(&first.name)),
            platform(first),
            first.seeds
        );
    } else {
        let _ = writeln!(
            out,
            "{} on {}, {} simulated boots",
            style.strong(&format!("{} nodes of one cluster", nodes.len())),
            platform(first),
            first.seeds
        );
        let roles: Vec<_> = nodes
            .iter()
            .map(|node| (node.name.as_str(), node.role))
            .collect();
        members(out, &roles, style);
        let mut groups: BTreeMap<CheckVerdict, Vec<&str>> = BTreeMap::new();
        for node in nodes {
            groups.entry(node.verdict).or_default().push(&node.name);
        }
        for (verdict, names) in groups.into_iter().rev() {
            let text = format!(
                "{} {}: {}",
                names.len(),
                verdict.as_str(),
                name_list(&names)
            );
            for line in wrap(&text, style.width.saturating_sub(2)) {
                let _ = writeln!(out, "  {}", paint(verdict, &line, style));
            }
        }
    }
    if let Some(by) = first.stopped_by {
        let (name, why) = (&first.name, by.describe());
        let text = format!("simulation: skipped, because on {name} {why}");
        paragraph(out, &text, 2, style.width);
    }
    for (title, ends) in [
        ("without Windrow", &first.without),
        ("with Windrow", &first.with),
    ] {
        for end in ends {
            let text = format!("{title}: {}", describe(end, first));
            paragraph(out, &text, 2, style.width);
        }
    }
    if let Some(over) = first.over {
        let text = format!(
            "everything is up after {}{}",
            span(over),
            mostly(first.over_in)
        );
        paragraph(out, &text, 2, style.width);
    }
}

fn describe(end: &EndCount, node: &NodeVerdict) -> String {
    let because = match (&end.because[..], end.verdict) {
        ([], _) | (_, Ending::Complete) => String::new(),
        ([first], _) => format!(": {first}"),
        ([first, more @ ..], _) => format!(": {first}, and {} more", more.len()),
    };
    format!(
        "{}{}{because}",
        end.verdict.describe(),
        seeds_clause(end.seeds, node.seeds)
    )
}

/// The numbers behind the verdict: the last line.
pub(in crate::render) fn summary(report: &CheckReport) -> String {
    let counts = &report.counts;
    let read = [
        (counts.files, "file"),
        (counts.objects, "object"),
        (counts.keys, "key"),
    ];
    let read = read.into_iter().filter(|(number, _)| *number > 0);
    let read = read.map(|(number, what)| {
        let s = if number == 1 { "" } else { "s" };
        format!("{number} {what}{s}")
    });
    let read: Vec<String> = read.collect();
    let found = [
        (counts.fail, "fail"),
        (counts.unknown, "unknown"),
        (counts.warn, "warn"),
        (counts.notice, "notice"),
        (counts.accepted, "accepted"),
    ];
    let found = found.into_iter().filter(|(number, _)| *number > 0);
    let found: Vec<String> = found
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    let found = match found.is_empty() {
        true => "no findings".to_owned(),
        false => found.join(", "),
    };
    let not_checked = match counts.not_checked {
        0 => String::new(),
        number => format!("; not checked: {number}"),
    };
    format!("Checked {}: {found}{not_checked}", read.join(", "))
}

fn platform(node: &NodeVerdict) -> String {
    match &node.harvester {
        Some(version) => format!("Harvester {version}"),
        None => "RKE2".to_owned(),
    }
}

fn finding(out: &mut String, one: &CheckedFinding, style: Style) {
    // The verdict sorts the findings and decides the exit code, so the table shows it.
    let word = match one.counts() {
        CheckVerdict::Pass => style.severity(one.finding.severity),
        verdict => outcome_word(verdict.outcome(), style),
    };
    let code = style.strong(one.finding.code.as_str());
    let _ = writeln!(out, "  {word}  {code}");
    let mut lines: Vec<String> = places(&one.finding.at).into_iter().collect();
    lines.push(one.finding.message.clone());
    if let Some(accepted) = &one.accepted {
        lines.push(format!("accepted: {} ({})", accepted.reason, accepted.at));
    } else if !one.finding.message.contains(&one.advice) {
        lines.push(one.advice.clone());
    }
    if !one.nodes.is_empty() {
        let names: Vec<&str> = one.nodes.iter().map(String::as_str).collect();
        lines.push(format!("on {}", name_list(&names)));
    }
    for text in lines {
        paragraph(out, &text, 11, style.width);
    }
}

fn places(at: &[Location]) -> Option<String> {
    let named: Vec<String> = at.iter().map(ToString::to_string).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    (!named.is_empty()).then(|| list(&named))
}

fn list(names: &[&str]) -> String {
    let shown = names.len().min(NAMED);
    let more = match names.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names[..shown].join(", ") + &more
}
