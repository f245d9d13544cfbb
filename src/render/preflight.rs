//! A preflight for users.

use std::fmt::Write as _;

use windrow_host::{
    PlannedRole, Preflight, PreflightOutcome, PreflightRow, PreflightVerdict, RowWeight,
};
use windrow_plan::rules::Platform;

use super::table::Style;
use super::text::wrap;
use crate::printable::printable;

/// The order of the rows: failed checks first.
const ORDER: [PreflightOutcome; 4] = [
    PreflightOutcome::Fails,
    PreflightOutcome::Unknown,
    PreflightOutcome::Look,
    PreflightOutcome::Fine,
];

pub fn preflight_table(preflight: &Preflight, style: Style) -> String {
    let platform = match preflight.platform {
        Platform::Harvester => "Harvester",
        Platform::Rke2 => "RKE2",
    };
    let version = match (&preflight.version, preflight.platform) {
        (Some(version), _) => format!(" {version}"),
        (None, Platform::Harvester) => " (the newest known release)".to_owned(),
        (None, Platform::Rke2) => String::new(),
    };
    let role = match preflight.role {
        PlannedRole::Server => "server",
        PlannedRole::Worker => "worker",
        PlannedRole::Witness => "witness",
    };
    let production = if preflight.production {
        ", in production"
    } else {
        ""
    };
    let head = format!("Preflight of a {role} of {platform}{version}{production}");
    let mut out = format!("{}\n\n", style.strong(&printable(&head)));
    for outcome in ORDER {
        let rows = preflight.checks.iter().filter(|row| row.outcome == outcome);
        rows.for_each(|row| write_row(&mut out, row, style));
    }
    let not_asked = preflight.checks.iter();
    let not_asked: Vec<String> = not_asked
        .filter(|row| row.outcome == PreflightOutcome::NotAsked)
        .map(|row| format!("{} ({})", row.check, row.unknown.join("; ")))
        .collect();
    if !not_asked.is_empty() {
        let text = format!("not checked: {}", not_asked.join(", "));
        paragraph(&mut out, &text, 0, style);
    }
    for what in &preflight.not_looked_at {
        paragraph(&mut out, &format!("not checked: {what}"), 0, style);
    }
    if let Some(class) = &preflight.hardware_class {
        paragraph(&mut out, &format!("hardware class: {class}"), 0, style);
    }
    let verdict = match preflight.verdict {
        PreflightVerdict::Fine => style.good("No check failed."),
        PreflightVerdict::Fails => {
            style.bad("This host does not meet the requirements: see above.")
        }
        PreflightVerdict::Unknown => style
            .waiting("Windrow cannot tell whether this host meets the requirements: see above."),
    };
    let _ = writeln!(out, "\n{verdict}");
    out
}

fn write_row(out: &mut String, row: &PreflightRow, style: Style) {
    let outcome = match (row.outcome, row.weight) {
        (PreflightOutcome::Fails, _) => style.bad("fails  "),
        (PreflightOutcome::Unknown, RowWeight::Required) => style.waiting("unknown"),
        // It has no effect on the result.
        (PreflightOutcome::Unknown, RowWeight::Wanted) => style.dim("unknown"),
        (PreflightOutcome::Look, _) => style.waiting("look   "),
        (PreflightOutcome::Fine, _) => style.good("fine   "),
        (PreflightOutcome::NotAsked, _) => style.dim("-      "),
    };
    let should = match row.outcome {
        PreflightOutcome::Fails => "expected: ",
        _ => "",
    };
    let _ = writeln!(
        out,
        "{outcome}  {}: {should}{}",
        style.strong(&row.check),
        row.rule
    );
    for text in row.wrong.iter().chain(&row.look).chain(&row.found) {
        paragraph(out, text, 9, style);
    }
    for why in &row.unknown {
        paragraph(out, &format!("unknown: {why}"), 9, style);
    }
    if !row.advice.is_empty() {
        paragraph(out, &format!("fix: {}", row.advice), 9, style);
    }
}

fn paragraph(out: &mut String, text: &str, indent: usize, style: Style) {
    for line in wrap(&printable(text), style.width.saturating_sub(indent)) {
        let _ = writeln!(out, "{}", style.dim(&format!("{:indent$}{line}", "")));
    }
}
