//! A check as text for a terminal: the verdict, its first reason and the proof at the top.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use windrow_model::findings::Location;
use windrow_plan::knowledge::LearnedShare;
use windrow_simulate::rehearse::check::{CheckReport, CheckVerdict, CheckedFinding, NodeVerdict};
use windrow_simulate::rehearse::{EndCount, Ending};

use super::super::cluster::{members, name_list};
use super::super::rehearsal::{mostly, seeds_clause, span};
use super::super::table::Style;
use super::super::text::{paragraph, wrap};
use crate::printable::printable;

/// Maximum number of listed places of a finding, and of listed nodes of a group.
const NAMED: usize = 8;

pub fn check_table(report: &CheckReport, style: Style) -> String {
    let mut out = String::new();
    head(&mut out, report, style);
    nodes(&mut out, &report.nodes, style);
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
    out.push('\n');
    let modelled = "Times and Harvester's controllers are simulated. `windrow rehearse` shows the whole boot, `windrow plan` the order.";
    for line in wrap(modelled, style.width) {
        let _ = writeln!(out, "{}", style.dim(&line));
    }
    out
}

fn paint(verdict: CheckVerdict, text: &str, style: Style) -> String {
    match verdict {
        CheckVerdict::Fine => style.good(text),
        CheckVerdict::Slower | CheckVerdict::Unknown => style.waiting(text),
        CheckVerdict::CannotWork => style.bad(text),
    }
}

fn head(out: &mut String, report: &CheckReport, style: Style) {
    let verdict = report.verdict;
    let _ = writeln!(out, "{}", paint(verdict, verdict.as_str(), style));
    if let Some(because) = &report.because {
        let mut lines = vec![because.finding.message.clone()];
        lines.extend(places(&because.finding.at));
        lines.push(because.advice.clone());
        for text in lines {
            paragraph(out, &text, 2, style.width);
        }
    }
    let parts: Vec<String> = report
        .parts
        .iter()
        .map(|part| {
            let word = paint(part.verdict, part.verdict.as_str(), style);
            format!("{}: {word}", part.part.as_str())
        })
        .collect();
    let length: usize = report
        .parts
        .iter()
        .map(|part| part.part.as_str().len() + part.verdict.as_str().len() + 5)
        .sum();
    let between = if length > style.width { "\n" } else { " · " };
    let _ = writeln!(out, "\n{}", parts.join(between));
    let learned = report.learned.as_ref();
    if let Some(sentence) = learned.and_then(LearnedShare::sentence) {
        paragraph(out, &sentence, 0, style.width);
    }
}

/// Nodes that fare alike, together.
fn nodes(out: &mut String, nodes: &[NodeVerdict], style: Style) {
    let [first, rest @ ..] = nodes else {
        return;
    };
    out.push('\n');
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

fn platform(node: &NodeVerdict) -> String {
    match &node.harvester {
        Some(version) => format!("Harvester {version}"),
        None => "RKE2".to_owned(),
    }
}

fn finding(out: &mut String, one: &CheckedFinding, style: Style) {
    let severity = style.severity(one.finding.severity);
    let code = style.strong(one.finding.code.as_str());
    let _ = writeln!(out, "  {severity}  {code}");
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
