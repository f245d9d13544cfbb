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
    for entry in &report.entries {
        entry_row(&mut out, entry, style);
    }
    if !report.phases.is_empty() {
        heading(
            &mut out,
            "\nDuration of phases, in nine of ten boots",
            style,
        );
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

fn entry_row(out: &mut String, entry: &EntryReport, style: Style) {
    let parts = [
        (entry.kinds.len(), "kind"),
        (entry.groups.len(), "group"),
        (entry.objects.len(), "object"),
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
    let who = fit(&printable(&format!("{}{versions}", entry.by)), WHO);
    let rest = format!("{}{times}; {seen}; {}", brings.join(", "), entry.at);
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
