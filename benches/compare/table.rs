//! The outcomes as a table.

use std::fmt::Write as _;

use crate::trial::Outcome;
use crate::usage::Usage;

const HEAD: [&str; 11] = [
    "",
    "everything there after",
    "passes or runs",
    "failed, repeated",
    "requests, writes, refused",
    "events",
    "etcd revisions",
    "what applies: processor, memory",
    "Windrow",
    "kube-apiserver",
    "etcd",
];

/// What came of each way and what it cost, and below it what was said, for one directory.
pub(crate) fn table(set: &str, files: usize, outcomes: &[Outcome]) -> String {
    let wanted = outcomes.first().map_or(0, |outcome| outcome.wanted);
    let mut text = format!(
        "\n### {set}: {files} files, {wanted} objects\n\n| {} |\n|{}\n",
        HEAD.join(" | "),
        "---|".repeat(HEAD.len())
    );
    for outcome in outcomes {
        let _ = writeln!(text, "| {} |", cells(outcome).join(" | "));
    }
    text += "\n";
    for outcome in outcomes.iter().filter(|outcome| !outcome.said.is_empty()) {
        let _ = writeln!(text, "- {}: {}", outcome.way, outcome.said);
    }
    text
}

fn cells(outcome: &Outcome) -> [String; 11] {
    let Outcome {
        after,
        there,
        wanted,
        ..
    } = outcome;
    let after = match (there == wanted, outcome.early > 0) {
        (false, _) if *there == 0 => format!("never: none of {wanted}"),
        (false, _) => format!("never: {there} of {wanted} after {after:.1} s"),
        (true, true) => format!("{after:.1} s, too early"),
        (true, false) => format!("{after:.1} s"),
    };
    [
        outcome.way.clone(),
        after,
        outcome.rounds.to_string(),
        format!("{}, {}", outcome.failed, outcome.repeated),
        format!(
            "{}, {}, {}",
            outcome.requests, outcome.writes, outcome.refused
        ),
        outcome.events.to_string(),
        outcome.revisions.to_string(),
        used(outcome.tool),
        used(outcome.windrow),
        used(outcome.apiserver),
        used(outcome.etcd),
    ]
}

fn used(usage: Usage) -> String {
    if usage.memory == 0.0 {
        return String::new();
    }
    format!("{:.2} s, {:.0} MB", usage.processor, usage.memory)
}
