//! A simulation as text for a terminal.

use std::fmt::Write as _;

use windrow_model::reasons::Severity;
pub(super) use windrow_replay::clock;
use windrow_simulate::rehearse::{
    Delay, Ending, NodeRehearsal, Prediction, Rehearsal, Side, Span, Weight,
};

use super::cluster::{alike, files_side_by_side, heading, members};
use super::table::{Style, findings};
use super::text::{paragraph, wrap};
use crate::printable::printable;

/// Above the known incidents.
pub(super) const RECOGNISED: &str = "Known incidents in the final state";

pub fn rehearsal(rehearsal: &Rehearsal, style: Style) -> String {
    let mut out = String::new();
    match &rehearsal.nodes[..] {
        [alone] => one_node(&mut out, alone, style),
        nodes => cluster(&mut out, nodes, style),
    }
    if !rehearsal.findings.is_empty() {
        let _ = writeln!(out, "{}", style.strong("Between the nodes"));
        out.push_str(&findings(&rehearsal.findings, style));
    }
    let modelled = "Times and Harvester's controllers are simulated. RKE2's deploy controller is checked against a real API server.";
    indented(&mut out, 0, modelled, style, |line| style.dim(line));
    out
}

fn one_node(out: &mut String, node: &NodeRehearsal, style: Style) {
    let name = printable(&node.name);
    head(out, &name, node, style);
    // Proofs come before their consequences.
    let proved = has_proof(node);
    if proved {
        all_findings(out, node, style);
    }
    outcome(out, node, style);
    later(out, node, style);
    files(out, node, style);
    kept(out, &node.with, style);
    if !proved {
        all_findings(out, node, style);
    }
    timeline(out, "With Windrow", &node.with, style);
}

fn head(out: &mut String, name: &str, node: &NodeRehearsal, style: Style) {
    let _ = writeln!(
        out,
        "{} on {}, {} simulated boots",
        style.strong(name),
        platform(node),
        node.seeds
    );
    for beyond in &node.beyond {
        for line in wrap(&printable(beyond), style.width) {
            let _ = writeln!(out, "{}", style.waiting(&line));
        }
    }
    out.push('\n');
}

fn has_proof(node: &NodeRehearsal) -> bool {
    let mut findings = node.findings.iter();
    findings.any(|finding| finding.severity == Severity::Error)
}

/// The parts that a cluster or a single node has once: the result on both sides, known incidents in the final state, other versions.
fn outcome(out: &mut String, node: &NodeRehearsal, style: Style) {
    for (title, side) in [
        ("Without Windrow", &node.without),
        ("With Windrow", &node.with),
    ] {
        verdict(out, title, side, node, style);
    }
    seen_phases(out, node, style);
    recognised(out, node, style);
    versions(out, node, style);
}

fn all_findings(out: &mut String, node: &NodeRehearsal, style: Style) {
    if !node.findings.is_empty() {
        out.push_str(findings(&node.findings, style).trim_start());
        out.push('\n');
    }
}

/// A cluster: the parts that it has once, its nodes in columns if the terminal is wide enough, then the other parts of each node. Nodes
/// with the same result are described once.
fn cluster(out: &mut String, nodes: &[NodeRehearsal], style: Style) {
    let [first, ..] = nodes else {
        return;
    };
    let count = format!("{} nodes of one cluster", nodes.len());
    head(out, &count, first, style);
    let roles: Vec<_> = nodes
        .iter()
        .map(|node| (node.name.as_str(), node.role))
        .collect();
    members(out, &roles, style);
    out.push('\n');
    let groups = alike(nodes);
    // Proofs come before their consequences.
    for group in groups.iter().filter(|group| has_proof(group[0])) {
        let _ = writeln!(out, "{}", style.strong(&heading(group)));
        all_findings(out, group[0], style);
    }
    outcome(out, first, style);
    let table = files_side_by_side(&groups, style);
    if let Some(table) = &table {
        out.push_str(table);
    }
    for group in &groups {
        let node = group[0];
        let _ = writeln!(out, "{}\n", style.strong(&heading(group)));
        if !has_proof(node) {
            all_findings(out, node, style);
        }
        later(out, node, style);
        if table.is_none() {
            files(out, node, style);
        }
        kept(out, &node.with, style);
        let title = format!("With Windrow on {}", printable(&node.name));
        timeline(out, &title, &node.with, style);
    }
}

fn verdict(out: &mut String, title: &str, side: &Side, node: &NodeRehearsal, style: Style) {
    let seeds = node.seeds;
    let _ = writeln!(out, "{}", style.strong(title));
    for end in &side.ends {
        let text = format!(
            "{}{}",
            describe_end_on_node(node, side, end.verdict),
            seeds_clause(end.seeds, seeds)
        );
        indented(out, 2, &text, style, |line| match end.verdict {
            Ending::Complete if node.beyond.is_empty() => style.good(line),
            Ending::Complete | Ending::Unknown => style.waiting(line),
            _ => style.bad(line),
        });
        for line in &end.because {
            indented(out, 6, &printable(line), style, str::to_owned);
        }
    }
    if seeds == 0 {
        let text = "  unknown: no simulated boot was completed";
        let _ = writeln!(out, "{}\n", style.waiting(text));
        return;
    }
    if let Some(manifests) = side.manifests_in {
        let text = format!("manifests done {}", nine_of_ten(manifests));
        indented(out, 2, &text, style, str::to_owned);
    }
    if let Some(over) = side.over {
        let mostly = mostly(side.over_in);
        let text = format!("everything is up after {}{mostly}", span(over));
        indented(out, 2, &text, style, str::to_owned);
    }
    for (machine, states) in &side.machines {
        let states: Vec<String> = states
            .iter()
            .map(|(state, count)| format!("{state}{}", seeds_clause(*count, seeds)))
            .collect();
        let text = format!("{}: {}", printable(machine), states.join("; "));
        indented(out, 2, &text, style, str::to_owned);
    }
    let work = &side.work;
    let _ = writeln!(
        out,
        "  RKE2 applies files {} times ({} failed), {} API writes\n",
        range(work.least.applies, work.most.applies),
        range(work.least.failed, work.most.failed),
        range(work.least.writes, work.most.writes)
    );
}

/// By how much it takes longer with Windrow.
fn later(out: &mut String, node: &NodeRehearsal, style: Style) {
    let Some(Delay { file, in_boots, .. }) = &node.delay else {
        return;
    };
    let later = in_boots.nine_of_ten;
    let text = format!(
        "With Windrow the last file is applied {:.0} to {:.0} s later than without it (which also succeeds), in 90 % of {} simulated boots: {} is held longest",
        later.from,
        later.to,
        in_boots.boots,
        printable(file)
    );
    for line in wrap(&text, style.width) {
        let _ = writeln!(out, "{}", style.waiting(&line));
    }
    out.push('\n');
}

/// A text below an indentation, each line in its colour.
fn indented(
    out: &mut String,
    indent: usize,
    text: &str,
    style: Style,
    paint: impl Fn(&str) -> String,
) {
    for line in wrap(text, style.width.saturating_sub(indent)) {
        let _ = writeln!(out, "{}{}", " ".repeat(indent), paint(&line));
    }
}

pub(super) fn platform(node: &NodeRehearsal) -> String {
    match &node.harvester {
        Some(version) if node.storage_network => {
            format!("Harvester {version}, storage network preset")
        }
        Some(version) => format!("Harvester {version}"),
        None => "RKE2".to_owned(),
    }
}

/// This node's result in words. Parts without a model are unknown.
pub(super) fn describe_end_on_node(node: &NodeRehearsal, side: &Side, ended: Ending) -> String {
    let unknown = match node.beyond.is_empty() {
        true => "",
        false => "unknown; in the simulation, ",
    };
    format!(
        "{unknown}{}{}",
        ended.describe(),
        but_for_skipped(ended, side)
    )
}

/// The exception to `everything`: files that foreign markers hide from RKE2.
fn but_for_skipped(ended: Ending, side: &Side) -> String {
    let skipped = side.files.values().filter(|fate| fate.skipped.is_some());
    match (ended, skipped.count()) {
        (Ending::Complete, 1) => " except 1 file that a .skip marker hides from RKE2".to_owned(),
        (Ending::Complete, count @ 2..) => {
            format!(" except {count} files that .skip markers hide from RKE2")
        }
        _ => String::new(),
    }
}

/// In every seed, or in how many.
pub(super) fn seeds_clause(count: u64, seeds: u64) -> String {
    match count == seeds {
        true => ", in every simulated boot".to_owned(),
        false => format!(", in {count} of {seeds} simulated boots (a race)"),
    }
}

/// In every seed, in how many, or in none.
pub(super) fn in_seeds(count: u64, seeds: u64) -> String {
    match count {
        0 => "in no simulated boot".to_owned(),
        count => seeds_clause(count, seeds)
            .trim_start_matches(", ")
            .to_owned(),
    }
}

/// When nine of ten rehearsed boots have something.
fn nine_of_ten(prediction: Prediction) -> String {
    format!(
        "after {} in 90 % of {} simulated boots",
        span(prediction.nine_of_ten),
        prediction.boots
    )
}

/// As `nine_of_ten`, after the least and the most.
pub(super) fn mostly(prediction: Option<Prediction>) -> String {
    prediction.map_or_else(String::new, |one| format!(", {}", nine_of_ten(one)))
}

/// How long phases took on nodes of this kind.
fn seen_phases(out: &mut String, node: &NodeRehearsal, style: Style) {
    if let Some(used) = &node.used_times {
        let all = match (used.of_all, &used.hardware) {
            (0, _) => None,
            (count, None) => Some(format!(
                "{count} from all hosts (--hardware selects a class)"
            )),
            (count, Some(_)) => Some(format!("{count} from all hosts")),
        };
        let class = used.hardware.as_ref().filter(|_| used.of_class > 0);
        let class = class.map(|name| format!("{} from {name}", used.of_class));
        let parts: Vec<String> = class.into_iter().chain(all).collect();
        let text = format!("Times from earlier boots: {}", parts.join(", "));
        indented(out, 0, &text, style, str::to_owned);
        out.push('\n');
    }
    if node.seen_phases.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", style.strong("On earlier boots of similar nodes"));
    for seen in &node.seen_phases {
        let boots = if seen.boots == 1 { "boot" } else { "boots" };
        let text = format!(
            "{} took {} in 90 % of {} {boots} of {}",
            seen.phase.title(),
            span(seen.nine_of_ten),
            seen.boots,
            seen.hardware.as_deref().unwrap_or("all hosts")
        );
        indented(out, 2, &text, style, str::to_owned);
    }
    out.push('\n');
}

fn range(least: u64, most: u64) -> String {
    match least == most {
        true => least.to_string(),
        false => format!("{least} to {most}"),
    }
}

pub(super) fn span(span: Span) -> String {
    let (from, to) = (clock(span.from), clock(span.to));
    match from == to {
        true => from,
        false => format!("{from} to {to}"),
    }
}

fn files(out: &mut String, node: &NodeRehearsal, style: Style) {
    if node.with.files.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", style.strong("Files"));
    for (path, fate) in &node.with.files {
        let _ = writeln!(out, "  {}", printable(path));
        let alone = node.without.files.get(path);
        for (title, fate) in [("without", alone), ("with", Some(fate))] {
            let Some(fate) = fate else {
                continue;
            };
            let text = describe_fate(fate, node.seeds);
            for (number, line) in wrap(&text, style.width.saturating_sub(15))
                .iter()
                .enumerate()
            {
                let title = if number == 0 { title } else { "" };
                let _ = writeln!(out, "      {title:<7}  {line}");
            }
        }
    }
    out.push('\n');
}

pub(super) fn describe_fate(fate: &windrow_simulate::rehearse::FileFate, seeds: u64) -> String {
    let mut parts = Vec::new();
    if let Some(marker) = &fate.skipped {
        let marker = printable(marker);
        parts.push(format!("skipped by {marker}, which Windrow did not make"));
    }
    if fate.held_in > 0 {
        parts.push(match fate.released {
            Some(released) => format!("held, released {}", span(released)),
            None => "held".to_owned(),
        });
    }
    parts.push(match (fate.applied, fate.applied_in) {
        (Some(applied), count) if count == seeds => format!("applied {}", span(applied)),
        (Some(applied), 0) => format!("applied {}, not as it is", span(applied)),
        (None, 0) => "never applied".to_owned(),
        (_, count) => format!("applied{}", seeds_clause(count, seeds)),
    });
    if fate.failures > 0 {
        let sure = seeds_clause(fate.failed_in, seeds);
        parts.push(format!("failed up to {} times{sure}", fate.failures));
    }
    parts.join(", ")
}

fn kept(out: &mut String, side: &Side, style: Style) {
    if side.stays_held.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", style.strong("Stays held forever"));
    for kept in &side.stays_held {
        let text = format!("{}: {}", printable(&kept.file), printable(&kept.why));
        indented(out, 2, &text, style, str::to_owned);
        for rule in &kept.rules {
            let text = format!("{} ({})", printable(&rule.rule), rule.at);
            indented(out, 6, &text, style, str::to_owned);
        }
    }
    out.push('\n');
}

/// What `windrow diagnose` would say about the final state.
fn recognised(out: &mut String, node: &NodeRehearsal, style: Style) {
    let all = node.recognised();
    if all.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", style.strong(RECOGNISED));
    for (one, without, with) in all {
        let _ = writeln!(out, "  {}: {}", one.code, printable(&one.subject));
        let seen = [
            format!("without Windrow {}", in_seeds(without, node.seeds)),
            format!("with Windrow {}", in_seeds(with, node.seeds)),
        ];
        for line in [&seen.join("; "), &one.message, &one.advice] {
            paragraph(out, line, 6, style.width);
        }
    }
    out.push('\n');
}

fn versions(out: &mut String, node: &NodeRehearsal, style: Style) {
    if node.versions.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", style.strong("By Harvester version, worst case"));
    for version in &node.versions {
        let beyond = node.harvester.as_ref() == Some(&version.version) && !node.beyond.is_empty();
        let text = format!(
            "{}without Windrow {}; with Windrow {}",
            if beyond { "(not modelled) " } else { "" },
            version.without.describe(),
            version.with.describe()
        );
        for (number, line) in wrap(&text, style.width.saturating_sub(11))
            .iter()
            .enumerate()
        {
            let title = if number == 0 { &version.version } else { "" };
            let _ = writeln!(out, "  {title:8} {line}");
        }
    }
    out.push('\n');
}

fn timeline(out: &mut String, title: &str, side: &Side, style: Style) {
    if side.timeline.is_empty() {
        return;
    }
    let heading = format!("{title}, seed {}", side.seed);
    let _ = writeln!(out, "{}", style.strong(&heading));
    let shown = side
        .timeline
        .iter()
        .filter(|moment| moment.weight != Weight::Small);
    for moment in shown {
        let lines = wrap(&printable(&moment.what), style.width.saturating_sub(9));
        for (number, line) in lines.iter().enumerate() {
            let time = match number {
                0 => clock(moment.at),
                _ => String::new(),
            };
            let line = match moment.weight {
                Weight::Good => style.good(line),
                Weight::Staging => style.waiting(line),
                Weight::Bad => style.bad(line),
                Weight::Step | Weight::Small => line.clone(),
            };
            let _ = writeln!(out, "  {time:5}  {line}");
        }
    }
    out.push('\n');
}
