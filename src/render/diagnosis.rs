//! A diagnosis for users, and a cure with its exact requests.

use std::fmt::Write as _;

use windrow_harvester::incidents::{Cure, CureRequest, Diagnosis, IncidentFinding, WayBack};
use windrow_model::findings::documentation_page;

use super::table::Style;
use super::text::wrap;
use crate::printable::printable;

/// The result, the upgrade that runs, and the findings, the worst first, each with its evidence, why it lasts and what to do.
pub fn diagnosis_table(diagnosis: &Diagnosis, style: Style) -> String {
    let mut out = String::new();
    let (symptoms, incidents): (Vec<_>, Vec<_>) = diagnosis
        .findings
        .iter()
        .partition(|finding| finding.unexplained);
    let counted = |count: usize, noun: &str| match count {
        0 => None,
        1 => Some(format!("1 {noun}")),
        many => Some(format!("{many} {noun}s")),
    };
    let counts = [
        counted(incidents.len(), "known incident"),
        counted(symptoms.len(), "problem")
            .map(|problems| format!("{problems} without a known cause")),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let verdict = match (counts.is_empty(), diagnosis.unknown.is_empty()) {
        (true, true) if diagnosis.skipped.is_empty() => style.good("No known incident."),
        (true, true) => style.good("No known incident in the kinds that were checked."),
        (true, false) => style.waiting("No known incident found, but some checks could not run."),
        (false, _) => style.bad(&format!("{}.", counts.join(", "))),
    };
    let _ = writeln!(out, "{verdict}\n");
    for (number, line) in diagnosis.upgrade.iter().enumerate() {
        paragraph(&mut out, line, if number == 0 { 0 } else { 2 }, style.width);
    }
    if !diagnosis.upgrade.is_empty() {
        out.push('\n');
    }
    for finding in &incidents {
        write_finding(&mut out, finding, style);
    }
    if !symptoms.is_empty() {
        let _ = writeln!(out, "{}", style.strong("Without a known cause"));
    }
    for finding in &symptoms {
        write_finding(&mut out, finding, style);
    }
    if !diagnosis.judged.is_empty() {
        let _ = writeln!(out, "{}", style.strong("Looked for"));
        paragraph(&mut out, &diagnosis.judged.join("; "), 2, style.width);
        out.push('\n');
    }
    if !diagnosis.unknown.is_empty() || !diagnosis.skipped.is_empty() {
        let _ = writeln!(out, "{}", style.strong("Not checked"));
        for why in diagnosis.unknown.iter().chain(&diagnosis.skipped) {
            paragraph(&mut out, why, 2, style.width);
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn write_finding(out: &mut String, finding: &IncidentFinding, style: Style) {
    let _ = writeln!(
        out,
        "{} {}",
        style.severity(finding.severity),
        style.strong(&printable(finding.code.as_str()))
    );
    paragraph(out, &finding.message, 2, style.width);
    heading(out, "Evidence", style);
    for evidence in &finding.evidence {
        paragraph(out, &evidence.in_short().to_string(), 4, style.width);
    }
    if !finding.proof.is_empty() {
        heading(out, "Why it does not resolve itself", style);
        for line in &finding.proof {
            let deeper = line.len() - line.trim_start().len();
            paragraph(out, line, 4 + deeper, style.width);
        }
    }
    if !finding.affected.is_empty() {
        heading(out, "It explains", style);
        for line in &finding.affected {
            paragraph(out, line, 4, style.width);
        }
    }
    heading(out, "What to do", style);
    paragraph(out, &finding.advice, 4, style.width);
    if let Some(cure) = &finding.cure {
        for change in &cure.changes {
            paragraph(out, &format!("It changes: {change}."), 4, style.width);
        }
    }
    let _ = writeln!(
        out,
        "  {}\n",
        style.dim(&printable(&documentation_page(&finding.documentation)))
    );
}

fn heading(out: &mut String, text: &str, style: Style) {
    let _ = writeln!(out, "  {}", style.strong(text));
}

fn paragraph(out: &mut String, text: &str, indent: usize, width: usize) {
    for (number, line) in wrap(&printable(text), width.saturating_sub(indent + 2))
        .into_iter()
        .enumerate()
    {
        let more = if number == 0 { 0 } else { 2 };
        let _ = writeln!(out, "{:width$}{line}", "", width = indent + more);
    }
}

/// A cure, step by step, with the requests as they would be sent.
pub fn cure_text(cure: &Cure, style: Style) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", style.strong(&printable(&cure.summary)));
    for change in &cure.changes {
        paragraph(&mut out, &format!("It changes: {change}."), 2, style.width);
    }
    for saved in &cure.saves {
        let _ = writeln!(out, "\n0. save {}", printable(&saved.path));
    }
    for (number, step) in cure.steps.iter().enumerate() {
        let _ = writeln!(out, "\n{}. {}", number + 1, printable(&step.say));
        if let Some(request) = &step.request {
            out.push_str(&request_text(request));
        }
        if let Some(afterwards) = &step.afterwards {
            paragraph(&mut out, &format!("Then {afterwards}."), 3, style.width);
        }
        match &step.way_back {
            Some(WayBack::Request(_)) => out.push_str("   --undo restores it.\n"),
            Some(WayBack::None { why }) => {
                paragraph(
                    &mut out,
                    &format!("It cannot be undone: {why}."),
                    3,
                    style.width,
                );
            }
            None => {}
        }
        let until = format!("until {}, at most {} s", step.goal.say(), step.patience);
        let _ = writeln!(out, "   {}", style.dim(&printable(&until)));
    }
    out
}

pub fn request_text(request: &CureRequest) -> String {
    let mut out = format!(
        "   {} {} ({})\n",
        request.method.verb(),
        printable(&request.url()),
        request.method.content_type()
    );
    // The body is JSON: control characters in it are escaped already.
    let body = serde_json::to_string_pretty(&request.body).unwrap_or_default();
    for line in body.lines() {
        let _ = writeln!(out, "   {line}");
    }
    out
}
