//! The time of a boot, for a terminal: the decisive chain, then phases and files.

use std::fmt::Write as _;

use windrow_decide::{Cause, ExpectationSource};
use windrow_replay::{
    BootState, BootTimeline, ChainStep, FileTime, MedianTime, PhaseStay, WaitedOn,
};

use super::rehearsal::clock;
use super::table::Style;
use super::text::paragraph;
use crate::printable::printable;
use crate::render::{fit, lasted, wrap};

/// Most columns that a file's name takes.
const NAME: usize = 40;
/// Columns of the times before each text.
const TIMES: usize = 17;

pub fn timeline_table(timeline: &BootTimeline, style: Style) -> String {
    let mut out = String::new();
    headline(&mut out, timeline, style);
    chain(&mut out, &timeline.chain, style);
    phases(&mut out, &timeline.phases, style);
    files(&mut out, &timeline.files, style);
    for caution in &timeline.cautions {
        for line in wrap(&format!("Note: {}", printable(caution)), style.width) {
            let _ = writeln!(out, "{}", style.waiting(&line));
        }
    }
    out
}

/// The end and the chain that decided it, below a title.
pub fn timeline_summary(timeline: &BootTimeline, style: Style) -> String {
    let mut out = format!("  {}{}\n", end_line(timeline, style), usual(timeline.usual));
    steps(&mut out, &timeline.chain, style);
    out
}

fn headline(out: &mut String, timeline: &BootTimeline, style: Style) {
    let end = &timeline.end;
    let line = end_line(timeline, style);
    let _ = writeln!(out, "{line}{}", usual(timeline.usual));
    if matches!(end.state, BootState::Staged) {
        let _ = writeln!(
            out,
            "The node was not probed, so Windrow knows nothing more about it."
        );
    } else if end.state != BootState::Ready {
        paragraph(out, &end.message, 0, style.width);
    }
    let began = timeline.began.strftime("%Y-%m-%d %H:%M:%S UTC");
    let about = match timeline.boot.as_deref() {
        Some(boot) => format!("boot {boot}, Windrow started at {began}"),
        None => format!("Windrow started at {began}; the boot ID is not recorded"),
    };
    let _ = writeln!(out, "{}\n", style.dim(&printable(&about)));
}

fn end_line(timeline: &BootTimeline, style: Style) -> String {
    let line = end_words(timeline);
    match timeline.end.state {
        BootState::Ready | BootState::Staged => style.good(&line),
        BootState::Underway => style.waiting(&line),
        BootState::Degraded | BootState::Failed => style.bad(&line),
    }
}

/// How the boot ended, and after how long.
pub(super) fn end_words(timeline: &BootTimeline) -> String {
    let word = match timeline.end.state {
        BootState::Ready => "Ready after",
        BootState::Degraded => "Degraded after",
        BootState::Staged => "Every manifest applied after",
        BootState::Failed => "Failed after",
        BootState::Underway => "Still booting after",
    };
    format!("{word} {}", span(timeline.end.at))
}

pub(super) fn usual(usual: Option<MedianTime>) -> String {
    match usual {
        None => "; no earlier boots to compare with".to_owned(),
        Some(MedianTime {
            boots,
            median_seconds,
            ..
        }) => format!(
            "; usually {} (median of {boots} earlier boot{})",
            span(median_seconds),
            if boots == 1 { "" } else { "s" }
        ),
    }
}

/// The usual time of a phase, after a time; if the flight does not show it, with the number of boots and their hosts.
pub(super) fn usual_of_phase(usual: Option<MedianTime>) -> String {
    let Some(usual) = usual else {
        return String::new();
    };
    let boots = match usual.boots {
        1 => "1 boot".to_owned(),
        boots => format!("{boots} boots"),
    };
    let whose = match usual.from {
        Some(ExpectationSource::Learned) => format!(" (median of {boots} of similar nodes)"),
        Some(_) => format!(" (median of {boots} of this node)"),
        None => String::new(),
    };
    format!(", usually {}{whose}", span(usual.median_seconds))
}

fn chain(out: &mut String, steps: &[ChainStep], style: Style) {
    if steps.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", style.strong("Critical path"));
    self::steps(out, steps, style);
    out.push('\n');
}

/// The steps of a chain, and the share of RKE2's polls in them.
fn steps(out: &mut String, steps: &[ChainStep], style: Style) {
    for step in steps {
        let text = format!("{}{}", step_subject(step), printable(&step.text));
        let more = if step.open { " (still)" } else { "" };
        times(out, step.from, step.to, &format!("{text}{more}"), style);
    }
    let polls = steps.iter().filter(|step| step.on == WaitedOn::Rke2);
    let spent: f64 = polls.clone().map(|step| step.to - step.from).sum();
    if polls.clone().next().is_some() {
        let count = polls.count();
        let line = format!(
            "  RKE2's polling every 15 s: {count} time{} on this path, {} in total.",
            if count == 1 { "" } else { "s" },
            span(spent)
        );
        let _ = writeln!(out, "{}", style.dim(&line));
    }
}

pub(super) fn step_subject(step: &ChainStep) -> String {
    match (&step.file, step.on) {
        (Some(file), WaitedOn::Requirement | WaitedOn::OtherFile) => {
            format!("{} waited: ", printable(file))
        }
        (Some(file), WaitedOn::Rke2 | WaitedOn::File | WaitedOn::Node) => {
            format!("{}: ", printable(file))
        }
        (None, _) => String::new(),
    }
}

fn times(out: &mut String, from: f64, to: f64, text: &str, style: Style) {
    let lines = wrap(text, style.width.saturating_sub(TIMES + 2));
    for (number, line) in lines.iter().enumerate() {
        let (at, took) = match number {
            0 => (clock(from), span(to - from)),
            _ => (String::new(), String::new()),
        };
        let _ = writeln!(out, "  {at:>6}  {took:>8}  {line}");
    }
}

fn phases(out: &mut String, phases: &[PhaseStay], style: Style) {
    if phases.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", style.strong("Phases"));
    for phase in phases {
        let usual = usual_of_phase(phase.usual);
        let open = if phase.ended { "" } else { " (not ended)" };
        let text = format!("{}{usual}{open}", phase.name.title());
        times(out, phase.from, phase.to, &text, style);
    }
    out.push('\n');
}

fn files(out: &mut String, files: &[FileTime], style: Style) {
    if files.is_empty() {
        return;
    }
    let names = files.iter().map(|file| file.file.chars().count());
    let wide = names.max().unwrap_or_default().clamp(4, NAME);
    let _ = writeln!(out, "{}", style.strong("Files"));
    let head = format!(
        "  {:wide$}  {:>8}  {:>8}  {:>8}  {:>8}  {:>11}",
        "", "held at", "for", "released", "applied", "RKE2's poll"
    );
    let _ = writeln!(out, "{}", style.dim(&head));
    for file in files {
        let at = |at: Option<f64>| at.map_or_else(|| "-".to_owned(), clock);
        let until = file.released.or(file.waits.last().map(|wait| wait.to));
        let held = match (file.held, until) {
            (Some(held), Some(until)) => span(until - held),
            _ => "-".to_owned(),
        };
        let poll = file.poll_seconds.map_or_else(|| "-".to_owned(), span);
        let _ = writeln!(
            out,
            "  {:wide$}  {:>8}  {held:>8}  {:>8}  {:>8}  {poll:>11}",
            fit(&printable(&file.file), wide),
            at(file.held),
            at(file.released),
            at(file.applied)
        );
        for wait in &file.waits {
            let why = printable(&wait.why);
            let text = format!("{}: {why}", span(wait.to - wait.from));
            for line in wrap(&text, style.width.saturating_sub(6)) {
                let _ = writeln!(out, "      {}", style.dim(&line));
            }
        }
        if let Some(ended) = ended(file) {
            let _ = writeln!(out, "      {}", style.dim(ended));
        }
        if let Some(failure) = &file.failure {
            let text = format!("RKE2's last error: {}", printable(failure));
            for line in wrap(&text, style.width.saturating_sub(6)) {
                let _ = writeln!(out, "      {}", style.bad(&line));
            }
        }
    }
    out.push('\n');
}

/// How the hold of a file ended, if not by its dependencies.
fn ended(file: &FileTime) -> Option<&'static str> {
    match file.cause.filter(|_| file.held.is_some())? {
        Cause::Yielded => Some("released at its deadline, without it"),
        Cause::ByHand => Some("released by hand"),
        Cause::SamePass => Some("released: RKE2 applies its provider in the same pass"),
        Cause::Escaped => Some("RKE2 applied it before its marker existed"),
        Cause::Elsewhere => Some("applied although it was held, probably by another server"),
        Cause::Off => Some("released because staging was turned off"),
        Cause::Met | Cause::Free => None,
    }
}

pub(super) fn span(seconds: f64) -> String {
    // A boot's seconds are far from the limits of the type.
    #[expect(clippy::cast_possible_truncation, reason = "as said above")]
    lasted(seconds.round() as i64)
}
