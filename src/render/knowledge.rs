//! Knowledge as text: all facts, a difference, an explanation, and the accuracy of predictions.

use std::fmt::Write as _;
use std::time::Duration;

use windrow_learn::{
    Backtest, BacktestRound, EntryReport, Explanation, KnowledgeDiff, KnowledgeReport, KnownBy,
    KnownThing, Miss, ObservedBy, PhaseReport, SeenReport, ThingSort, TimesReport, duration_text,
};

use super::table::Style;
use super::text::{fit, wrap};
use crate::printable::printable;

/// Columns of who brings something, and of a phase.
const WHO: usize = 34;
/// Most misses of a sort that a table names; `-o json` has all.
const MISSES: usize = 20;

/// All facts as a table.
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
        paragraph(&mut out, &text, 2, style);
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

/// What two files say differently.
pub fn knowledge_diff_table(diff: &KnowledgeDiff, style: Style) -> String {
    if diff.changes.is_empty() {
        return "Both are equal.\n".to_owned();
    }
    let mut out = String::new();
    let mut about = "";
    for change in &diff.changes {
        if change.about != about {
            about = &change.about;
            heading(&mut out, &printable(about), style);
        }
        let field = change
            .field
            .as_ref()
            .map_or(String::new(), |field| format!("{field}: "));
        for (sign, text) in [("-", &change.before), ("+", &change.after)] {
            if let Some(text) = text {
                let line = format!("  {sign} {}", printable(&format!("{field}{text}")));
                let line = if sign == "-" {
                    style.bad(&line)
                } else {
                    style.good(&line)
                };
                let _ = writeln!(out, "{line}");
            }
        }
    }
    out
}

/// All facts about one subject.
pub fn explanation_text(explanation: &Explanation, style: Style) -> String {
    let mut out = String::new();
    if explanation.things.is_empty() {
        let text = format!("Windrow has no facts about {}.", explanation.asked);
        paragraph(&mut out, &text, 0, style);
        if !explanation.nearest.is_empty() {
            let text = format!("It has facts about {}.", explanation.nearest.join(", "));
            paragraph(&mut out, &text, 0, style);
        }
        let text = "Boot a node that has it, and run `windrow learn` on its boot log or report. Or write the facts into a file in \
                    knowledge.d (docs/knowledge.md).";
        paragraph(&mut out, text, 0, style);
    }
    for (number, thing) in explanation.things.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        thing_text(&mut out, thing, style);
    }
    out
}

fn thing_text(out: &mut String, thing: &KnownThing, style: Style) {
    heading(out, &printable(&thing.name), style);
    for known in &thing.known_by {
        known_text(out, known, thing.sort, style);
    }
    for phase in &thing.phases {
        let _ = writeln!(out, "  {}", phase_line(phase));
    }
    if thing.sort == ThingSort::Phase && thing.phases.is_empty() {
        paragraph(
            out,
            "A phase of the bootstrap. Windrow has not learned its duration.",
            2,
            style,
        );
    }
    if thing.known_by.is_empty() && !thing.observed.is_empty() {
        paragraph(
            out,
            "No entry names its provider: too few boots show it, or a knowledge file cannot express this provider.",
            2,
            style,
        );
    }
    for observed in &thing.observed {
        paragraph(out, &observed_words(observed), 2, style);
    }
    for one in &thing.contradictions {
        let how = match &one.came_from {
            Some(from) => format!("came from {from}"),
            None => "did not come".to_owned(),
        };
        let text = format!(
            "Contradiction: in boot {} of {} {} {how}, although {} was there.",
            one.boot, one.day, one.what, one.by
        );
        paragraph(out, &text, 2, style);
    }
    if !thing.also.is_empty() {
        let text = format!("In the same group: {}.", thing.also.join(", "));
        paragraph(out, &text, 2, style);
    }
}

fn known_text(out: &mut String, known: &KnownBy, sort: ThingSort, style: Style) {
    let versions = match known.versions.as_str() {
        "" => String::new(),
        versions => format!(" {versions}"),
    };
    let mut text = match sort {
        ThingSort::Bringer => format!(
            "{}{versions} provides {}",
            known.by,
            known.brings.join(", ")
        ),
        _ => format!("Provided by {}{versions}", known.by),
    };
    if let Some(times) = known.times {
        let _ = write!(
            text,
            ". It takes {}, usually {}",
            nine_of_ten(times),
            seconds(times.half)
        );
    }
    for (hardware, times) in &known.times_on {
        let (span, usual) = (nine_of_ten(*times), seconds(times.half));
        let _ = write!(text, ". On {hardware} {span}, usually {usual}");
    }
    if let Some(seen) = known.seen {
        let _ = write!(text, ". Seen {}, last on {}", boots(seen), seen.last);
    }
    text.push('.');
    paragraph(out, &text, 2, style);
    let at = known
        .at
        .as_ref()
        .map_or(String::new(), |at| format!("{at}: "));
    let entry = known
        .entry
        .as_ref()
        .map_or(String::new(), |entry| format!(" ({entry})"));
    let source = format!("{at}{}{entry}", known.source);
    for line in wrap(&printable(&source), style.width.saturating_sub(4)) {
        let _ = writeln!(out, "    {}", style.dim(&line));
    }
}

fn observed_words(observed: &ObservedBy) -> String {
    let s = if observed.boots == 1 { "" } else { "s" };
    let times = match observed.times {
        None => "unknown duration".to_owned(),
        Some(times) => format!("{} (times of {})", nine_of_ten(times), observed.timed),
    };
    format!(
        "In {} recorded boot{s} it came from {}, last on {}: {times}.",
        observed.boots, observed.by, observed.last
    )
}

/// How true predictions were.
pub fn backtest_table(backtest: &Backtest, style: Style) -> String {
    let mut out = String::new();
    let rounds = [
        (
            "Each boot predicted from all others",
            &backtest.leave_one_out,
        ),
        (
            "Each boot predicted from the older ones",
            &backtest.by_older,
        ),
    ];
    for (number, (title, round)) in rounds.into_iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let of = backtest.boots;
        heading(
            &mut out,
            &format!("{title} ({} of {of} boots)", round.predicted),
            style,
        );
        round_text(&mut out, round, style);
    }
    out
}

fn round_text(out: &mut String, round: &BacktestRound, style: Style) {
    let _ = writeln!(
        out,
        "  {:WHO$}  {:>5}  {:>8}  {:>8}",
        "", "times", "50 %", "90 %"
    );
    for row in &round.coverage {
        let share = |hits: usize| match row.cases {
            0 => "-".to_owned(),
            // A count of boots is small.
            cases => format!("{:.0} %", hits as f64 * 100.0 / cases as f64),
        };
        let of = fit(&printable(&row.of), WHO);
        let (half, most) = (share(row.in_half), share(row.in_most));
        let _ = writeln!(out, "  {of:WHO$}  {:>5}  {half:>8}  {most:>8}", row.cases);
    }
    let counts = format!(
        "{} predictions were correct, {} objects had no prediction.",
        round.came, round.not_predicted
    );
    paragraph(out, &counts, 2, style);
    misses(out, "wrong verdicts", &round.wrong_verdicts, style);
    misses(out, "wrong providers", &round.wrong_providers, style);
    misses(
        out,
        "predicted, but did not come",
        &round.did_not_come,
        style,
    );
}

fn misses(out: &mut String, what: &str, misses: &[Miss], style: Style) {
    let line = format!("  {what}: {}", misses.len());
    let line = if misses.is_empty() {
        style.good(&line)
    } else {
        style.bad(&line)
    };
    let _ = writeln!(out, "{line}");
    for miss in misses.iter().take(MISSES) {
        let from = miss
            .came_from
            .as_ref()
            .map_or(String::new(), |from| format!("; it came from {from}"));
        let text = format!(
            "{} by {} (on {} of {} boots), boot {}{from}",
            miss.what, miss.by, miss.boots, miss.of, miss.boot
        );
        paragraph(out, &text, 4, style);
    }
    if misses.len() > MISSES {
        let _ = writeln!(
            out,
            "    and {} more (-o json has all)",
            misses.len() - MISSES
        );
    }
}

fn heading(out: &mut String, text: &str, style: Style) {
    let (breaks, text) = match text.strip_prefix('\n') {
        Some(text) => ("\n", text),
        None => ("", text),
    };
    let _ = writeln!(out, "{breaks}{}", style.strong(text));
}

fn paragraph(out: &mut String, text: &str, indent: usize, style: Style) {
    for line in wrap(&printable(text), style.width.saturating_sub(indent)) {
        let _ = writeln!(out, "{:indent$}{line}", "");
    }
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
