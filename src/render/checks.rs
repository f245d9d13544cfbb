//! A list of checks for users.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use windrow_model::checks::{CheckList, CheckOutcome, CheckRow};

use super::table::Style;
use super::text::wrap;
use crate::printable::printable;

/// The head, the rows with the worst first, the skipped checks, and a note.
pub(super) fn write_checks<E: Display>(
    head: &str,
    list: &CheckList<E>,
    note: Option<String>,
    style: Style,
) -> String {
    let mut out = format!("{}\n\n", style.strong(&printable(head)));
    let (skipped, mut rows): (Vec<_>, Vec<_>) = list
        .checks
        .iter()
        .partition(|row| row.outcome == CheckOutcome::NotChecked);
    rows.sort_by_key(|row| row.outcome);
    let without_lists = rows.extract_if(.., |row| is_silent(row, NOT_IN_INPUT));
    let without_lists = without_lists.count();
    let elsewhere = rows.extract_if(.., |row| is_silent(row, NOT_WITH_ROOT));
    let elsewhere: Vec<&str> = elsewhere.map(|row| row.check.as_str()).collect();
    for row in rows {
        write_row(&mut out, row, style);
    }
    if without_lists > 0 {
        let checks = if without_lists == 1 {
            "check"
        } else {
            "checks"
        };
        let unknown = outcome_word(CheckOutcome::Unknown, style);
        let line = "skipped: the lists that they need are not in the input";
        let _ = writeln!(out, "{unknown}  {without_lists} {checks} {line}");
    }
    if !elsewhere.is_empty() {
        let unknown = outcome_word(CheckOutcome::Unknown, style);
        let _ = writeln!(out, "{unknown}  {NOT_WITH_ROOT}:");
        detail(&mut out, &elsewhere.join(", "), 9, style);
    }
    let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for row in skipped {
        let names = by_reason.entry(row.unknown.join("; ")).or_default();
        names.push(&row.check);
    }
    let skipped = by_reason
        .into_iter()
        .map(|(why, names)| format!("{} ({why})", names.join(", ")));
    for text in skipped.chain(list.not_checked.iter().cloned()) {
        detail(&mut out, &format!("not checked: {text}"), 0, style);
    }
    if let Some(note) = note {
        detail(&mut out, &note, 0, style);
    }
    out
}

/// The last line: the word of the verdict and a sentence, in the colour of the verdict.
pub(super) fn write_verdict(out: &mut String, verdict: CheckOutcome, text: &str, style: Style) {
    let line = format!("{}: {text}", word(verdict));
    if !out.is_empty() {
        out.push('\n');
    }
    let _ = writeln!(out, "{}", paint(verdict, &line, style));
}

/// The word of an outcome, in a column of one width.
pub(super) fn outcome_word(outcome: CheckOutcome, style: Style) -> String {
    paint(outcome, &format!("{:<7}", word(outcome)), style)
}

/// A text in the colour of an outcome.
pub(super) fn paint(outcome: CheckOutcome, text: &str, style: Style) -> String {
    match outcome {
        CheckOutcome::Fail => style.bad(text),
        CheckOutcome::Unknown | CheckOutcome::Warn => style.waiting(text),
        CheckOutcome::Pass => style.good(text),
        CheckOutcome::NotChecked => style.dim(text),
    }
}

/// The words of all verdicts.
pub(super) fn word(outcome: CheckOutcome) -> &'static str {
    match outcome {
        CheckOutcome::Fail => "fail",
        CheckOutcome::Unknown => "unknown",
        CheckOutcome::Warn => "warn",
        CheckOutcome::Pass => "pass",
        CheckOutcome::NotChecked => "-",
    }
}

/// Whether a check has nothing to say, except reasons that end like this.
fn is_silent<E>(row: &CheckRow<E>, reason: &str) -> bool {
    let is_silent = row.problems.is_empty() && row.warnings.is_empty() && row.found.is_empty();
    let mut reasons = row.unknown.iter();
    row.outcome == CheckOutcome::Unknown
        && is_silent
        && !row.unknown.is_empty()
        && reasons.all(|why| why.ends_with(reason))
}

/// How the reason ends if saved data has no list of a kind.
const NOT_IN_INPUT: &str = "is not in the input";
/// The reason if only this host could be asked.
const NOT_WITH_ROOT: &str = "not available with --root";

fn write_row<E: Display>(out: &mut String, row: &CheckRow<E>, style: Style) {
    let outcome = match row.outcome {
        // It has no effect on the verdict.
        CheckOutcome::Unknown if row.optional => style.dim("unknown"),
        outcome => outcome_word(outcome, style),
    };
    let is_broken = row.outcome == CheckOutcome::Fail;
    let expected = if is_broken { "expected: " } else { "" };
    let name = style.strong(&row.check);
    let _ = writeln!(out, "{outcome}  {name}: {expected}{}", row.rule);
    let says = row.says.iter().filter(|_| is_broken);
    let says = says.map(|words| format!("Harvester says: \"… {words} …\""));
    let problems = row.problems.iter().map(E::to_string);
    let more = (row.more > 0).then(|| format!("and {} more", row.more));
    let facts = row.warnings.iter().chain(&row.found).cloned();
    let unknown = row.unknown.iter().map(|why| format!("unknown: {why}"));
    let advice = row.advice.iter().map(|action| format!("fix: {action}"));
    let texts = says.chain(problems).chain(more).chain(facts).chain(unknown);
    for text in texts.chain(advice) {
        detail(out, &text, 9, style);
    }
}

fn detail(out: &mut String, text: &str, indent: usize, style: Style) {
    for line in wrap(&printable(text), style.width.saturating_sub(indent)) {
        let _ = writeln!(out, "{}", style.dim(&format!("{:indent$}{line}", "")));
    }
}

#[cfg(test)]
mod tests {
    use windrow_harvester::objects::{ObjectKind, Objects};

    use super::*;

    #[test]
    fn a_check_whose_lists_are_not_in_the_input_is_only_counted() {
        let absent = Objects::default().all(ObjectKind::NODE).unwrap_err();
        let row = |name: &str, unknown: &str| CheckRow::<String> {
            check: name.to_owned(),
            section: None,
            outcome: CheckOutcome::Unknown,
            optional: false,
            rule: "a rule".to_owned(),
            says: None,
            problems: Vec::new(),
            more: 0,
            warnings: Vec::new(),
            found: Vec::new(),
            unknown: vec![unknown.to_owned()],
            advice: None,
        };
        let list = CheckList {
            verdict: CheckOutcome::Unknown,
            checks: vec![
                row("absent", &absent.to_string()),
                row(
                    "also-absent",
                    "1 check skipped: ConfigMap is not in the input",
                ),
                row("refused", "Node could not be listed: forbidden"),
                row("cpus", "not available with --root"),
                row("memory", "not available with --root"),
            ],
            not_checked: Vec::new(),
        };
        let text = write_checks("Head", &list, None, Style::default());
        assert!(text.contains("2 checks skipped"), "{text}");
        assert!(text.contains("refused: a rule"), "{text}");
        assert!(!text.contains("absent:"), "{text}");
        assert!(
            text.contains("not available with --root:\n         cpus, memory\n"),
            "{text}"
        );
    }
}
