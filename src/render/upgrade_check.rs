//! An upgrade check for users.

use std::fmt::Write as _;

use windrow_harvester::upgrade_check::{
    AskedBy, CheckOutcome, CheckedRow, UpgradeCheck, UpgradeOutcome,
};

use super::table::Style;
use super::text::wrap;
use crate::printable::printable;

/// The order in which rows are shown: checks that stop the upgrade come first.
const ORDER: [CheckOutcome; 5] = [
    CheckOutcome::Refused,
    CheckOutcome::Stops,
    CheckOutcome::Unknown,
    CheckOutcome::Warns,
    CheckOutcome::Fine,
];

pub fn upgrade_table(check: &UpgradeCheck, style: Style) -> String {
    let release = |version: &Option<String>, otherwise: &str| {
        version.clone().unwrap_or_else(|| otherwise.to_owned())
    };
    let head = format!(
        "Upgrade of Harvester from {} to {}",
        release(&check.from, "an unknown release"),
        release(&check.to, "an unnamed release (--to)")
    );
    let mut out = format!("{}\n\n", style.strong(&printable(&head)));
    for outcome in ORDER {
        let rows = check.checks.iter().filter(|row| row.outcome == outcome);
        rows.for_each(|row| write_row(&mut out, row, style));
    }
    let not_asked = check.checks.iter();
    let not_asked: Vec<&str> = not_asked
        .filter(|row| row.outcome == CheckOutcome::NotAsked)
        .map(|row| row.check.as_str())
        .collect();
    if !not_asked.is_empty() {
        paragraph(
            &mut out,
            &format!("not checked: {}", not_asked.join(", ")),
            0,
            style,
        );
    }
    for what in &check.not_looked_at {
        paragraph(&mut out, &format!("not checked: {what}"), 0, style);
    }
    let verdict = match check.upgrade {
        UpgradeOutcome::Fine => style.good("Windrow found no reason against the upgrade."),
        UpgradeOutcome::Refused => style.bad("Harvester would refuse the upgrade: see above."),
        UpgradeOutcome::Stops => style.bad("The upgrade would start, but not finish: see above."),
        UpgradeOutcome::Unknown => style
            .waiting("Windrow cannot tell whether the upgrade would start and finish: see above."),
    };
    let _ = writeln!(out, "\n{verdict}");
    out
}

fn write_row(out: &mut String, row: &CheckedRow, style: Style) {
    let outcome = match row.outcome {
        CheckOutcome::Refused => style.bad("refused"),
        CheckOutcome::Stops => style.bad("stops  "),
        CheckOutcome::Unknown => style.waiting("unknown"),
        CheckOutcome::Warns => style.waiting("look   "),
        CheckOutcome::Fine => style.good("fine   "),
        CheckOutcome::NotAsked => style.dim("-      "),
    };
    let _ = writeln!(out, "{outcome}  {}: {}", style.strong(&row.check), row.rule);
    let refused = row.outcome == CheckOutcome::Refused && row.asked_by == AskedBy::Harvester;
    if refused && !row.says.is_empty() {
        paragraph(
            out,
            &format!("Harvester says: \"… {} …\"", row.says),
            9,
            style,
        );
    }
    for seen in &row.evidence {
        paragraph(out, &seen.to_string(), 9, style);
    }
    if row.more > 0 {
        paragraph(out, &format!("and {} more", row.more), 9, style);
    }
    for why in &row.unknown {
        paragraph(out, &format!("unknown: {why}"), 9, style);
    }
}

fn paragraph(out: &mut String, text: &str, indent: usize, style: Style) {
    for line in wrap(&printable(text), style.width.saturating_sub(indent)) {
        let _ = writeln!(out, "{}", style.dim(&format!("{:indent$}{line}", "")));
    }
}
