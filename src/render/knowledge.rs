//! The whole knowledge, for users.

use std::fmt::Write as _;
use std::time::Duration;

use windrow_learn::{
    EntryReport, KnowledgeReport, PhaseReport, SeenReport, TimesReport, duration_text,
};

use super::table::Style;
use super::text::paragraph;
use crate::printable::printable;
use crate::render::{fit, wrap};

/// Columns for the provider.
const WHO: usize = 34;

pub fn knowledge_table(report: &KnowledgeReport, style: Style) -> String {
    let mut out = String::new();
    let count = report.entries.len();
    heading(&mut out, &format!("Providers ({count} entries)"), style);
    for entries in report.entries.chunk_by(is_same_provider) {
        provider_row(&mut out, entries, style);
    }
    if !report.phases.is_empty() {
        heading(&mut out, "\nDuration of steps, in nine of ten boots", style);
    }
    for phase in &report.phases {
        let _ = writeln!(out, "  {}", phase_line(phase));
    }
    if !report.refusals.is_empty() {
        heading(&mut out, "\nRefusals of kube-apiserver", style);
    }
    for refusal in &report.refusals {
        let cause = refusal
            .cause
            .as_deref()
            .map_or(String::new(), |cause| format!(": {cause}"));
        let text = format!(
            "{}: {}{cause}; {}",
            refusal.kind,
            refusal.said,
            boots(refusal.seen)
        );
        paragraph(&mut out, &text, 2, style.width);
    }
    out
}

/// The name of a provider without the condition under which it provides something.
fn provider(entry: &EntryReport) -> &str {
    entry
        .by
        .split_once(" where ")
        .map_or(&entry.by, |(name, _)| name)
}

/// Whether both entries are of one provider, from one place and without measured times.
fn is_same_provider(first: &EntryReport, second: &EntryReport) -> bool {
    let of = |entry: &EntryReport| (provider(entry).to_owned(), entry.at.clone());
    let is_written = |entry: &EntryReport| entry.times.is_none() && entry.seen.is_none();
    of(first) == of(second)
        && first.versions == second.versions
        && is_written(first)
        && is_written(second)
}

/// What one provider brings. Entries that depend on a condition are counted together.
fn provider_row(out: &mut String, entries: &[EntryReport], style: Style) {
    let [entry, ..] = entries else { return };
    let sum = |count: fn(&EntryReport) -> usize| entries.iter().map(count).sum::<usize>();
    let parts = [
        (sum(|entry| entry.kinds.len()), "kind"),
        (sum(|entry| entry.groups.len()), "group"),
        (sum(|entry| entry.objects.len()), "object"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let brings: Vec<String> = parts
        .map(|(count, one)| format!("{count} {one}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    let times = entry
        .times
        .map_or(String::new(), |times| format!(", {}", nine_of_ten(times)));
    let seen = match entry.seen {
        Some(seen) => boots(seen),
        None => "written".to_owned(),
    };
    let versions = match entry.versions.as_str() {
        "" => String::new(),
        versions => format!(" {versions}"),
    };
    let name = match entries.len() {
        1 => &entry.by,
        _ => provider(entry),
    };
    let conditional = entries.iter().filter(|entry| entry.by.contains(" where "));
    let conditional = match (entries.len(), conditional.count()) {
        (1, _) | (_, 0) => String::new(),
        (all, some) => format!("; {some} of {all} entries have a condition"),
    };
    let who = fit(&printable(&format!("{name}{versions}")), WHO);
    let brings = brings.join(", ");
    let rest = format!("{brings}{times}; {seen}; {}{conditional}", entry.at);
    let room = style.width.saturating_sub(WHO + 4);
    let rest = wrap(&printable(&rest), room.max(20));
    for (number, line) in rest.iter().enumerate() {
        let who = if number == 0 { who.as_str() } else { "" };
        let _ = writeln!(out, "  {who:WHO$}  {line}");
    }
}

fn phase_line(phase: &PhaseReport) -> String {
    let node = [
        phase.platform.map(|platform| platform.to_string()),
        Some(phase.versions.clone()).filter(|versions| !versions.is_empty()),
        phase.hardware.clone(),
        phase.role.map(|role| role.to_string()),
        phase.installed.then(|| "installed before".to_owned()),
    ];
    let node: Vec<String> = node.into_iter().flatten().collect();
    let node = if node.is_empty() {
        "every node".to_owned()
    } else {
        node.join(", ")
    };
    let text = format!(
        "{}: {}, usually {}; {}; {node}",
        phase.phase,
        nine_of_ten(phase.times),
        seconds(phase.times.half),
        boots(phase.seen)
    );
    printable(&text)
}

fn heading(out: &mut String, text: &str, style: Style) {
    let (breaks, text) = match text.strip_prefix('\n') {
        Some(text) => ("\n", text),
        None => ("", text),
    };
    let _ = writeln!(out, "{breaks}{}", style.strong(text));
}

fn boots(seen: SeenReport) -> String {
    format!("on {} of {} boots", seen.boots, seen.of)
}

fn nine_of_ten(times: TimesReport) -> String {
    format!("{} to {}", seconds(times.p5), seconds(times.p95))
}

fn seconds(seconds: f64) -> String {
    duration_text(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(by: &str, line: u32) -> EntryReport {
        let at = serde_json::json!({"file": "a.yaml", "line": line});
        let entry =
            serde_json::json!({"name": "a", "source": "b", "by": by, "at": at, "kinds": ["Pod"]});
        serde_json::from_value(entry).expect("an entry")
    }

    #[test]
    fn the_entries_of_one_provider_are_one_row() {
        let entries = [
            entry("the chart a where `cni` is x", 1),
            entry("the chart a where `cni` is y", 1),
            entry("the chart a", 9),
        ];
        let mut out = String::new();
        for entries in entries.chunk_by(is_same_provider) {
            provider_row(&mut out, entries, Style::default());
        }
        assert_eq!(out.lines().count(), 2, "{out}");
        assert!(
            out.contains("2 kinds; written; a.yaml:1; 2 of 2 entries"),
            "{out}"
        );
    }
}
