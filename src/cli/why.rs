//! `windrow why`: the chain from a held thing to the root blocker.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use windrow_decide::{Holder, Status};
use windrow_model::findings::Finding;
use windrow_plan::readiness::node::{ProbeSeverity, ProbeState};

use super::document::{self, age, now};
use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit, style};
use crate::printable::{printable, printable_colours};
use crate::render::{Style, wrap};
use crate::report::why::{ExplainedBlocker, ExplainedFile, ExplainedProbe, WhyAnswer, explain};

/// Show what a held file or object waits for, down to the root, what a probe found, or a known incident
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A manifest file, an object (`Kind/namespace/name`, `Kind namespace/name` or a name), a probe, or the
    /// code of an incident
    #[arg(value_name = "FILE|OBJECT|PROBE|CODE", required = true, num_args = 1..=2)]
    what: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Explain from this status document, whoever wrote it and whenever, or from `-`
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Also show the expressions that objects have to fulfil
    #[arg(short, long)]
    verbose: bool,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let asked = args.what.join(" ");
    let (status, at) = match &args.status {
        // A document from elsewhere is explained as of its own time.
        Some(path) => match document::read_named(path) {
            Ok(status) => {
                let at = last_moment(&status);
                (status, at)
            }
            Err(why) => {
                eprintln!("windrow: {why}");
                return Ok(Exit::Unknown);
            }
        },
        None => match document::current(context) {
            document::FoundStatus::Current(status) => (*status, now()),
            document::FoundStatus::Stale { why, .. } => {
                eprintln!("windrow: {why}");
                eprintln!("To explain an old document: windrow why --status FILE {asked}");
                return Ok(Exit::Unknown);
            }
        },
    };
    let Some(answer) = explain(&status, &asked, &context.manifests()) else {
        eprintln!(
            "windrow: nothing is known of {asked}: no manifest file of that name is staged, no held \
             file has or needs such an object, and no probe and no incident has that name (windrow status \
             lists files, probes and findings)"
        );
        return Ok(Exit::Unknown);
    };
    let table = || printable_colours(&people(&answer, at, args.verbose, style()));
    print_whole(&args.output.render(&answer, table)?)?;
    Ok(exit_of(&answer))
}

/// The same for people, from a given document: `None` when it does not have what was asked for.
pub(super) fn from(
    status: &Status,
    asked: &str,
    manifests: &Path,
    at: Timestamp,
) -> Option<String> {
    explain(status, asked, manifests).map(|answer| people(&answer, at, false, style()))
}

/// The latest time in a document.
fn last_moment(status: &Status) -> Timestamp {
    let staging = &status.staging;
    let moments = staging.held.iter().map(|file| file.since);
    let moments = moments.chain(staging.applied.iter().map(|file| file.since));
    let moments = moments.chain(staging.released.iter().map(|file| file.since));
    moments.fold(status.since, Timestamp::max)
}

fn exit_of(answer: &WhyAnswer) -> Exit {
    if let Some(ExplainedProbe { probe, .. }) = &answer.probe {
        return match probe.state {
            ProbeState::Passing => Exit::Ok,
            ProbeState::Failing => Exit::NotYet,
            ProbeState::Unknown => Exit::Unknown,
        };
    }
    let has = |state: &str| answer.files.iter().any(|file| file.state == state);
    let wrong = |severity| {
        let mut findings = answer.findings.iter();
        findings.any(|one| one.severity >= severity)
    };
    if has("failed") || wrong(windrow_model::reasons::Severity::Error) {
        Exit::Failed
    } else if wrong(windrow_model::reasons::Severity::Warning) || has("held") || has("released") {
        Exit::NotYet
    } else {
        Exit::Ok
    }
}

/// How an answer is shown.
#[derive(Clone, Copy)]
struct WhyView {
    at: Timestamp,
    verbose: bool,
    style: Style,
}

/// The answer for people.
fn people(answer: &WhyAnswer, at: Timestamp, verbose: bool, style: Style) -> String {
    let view = WhyView { at, verbose, style };
    let mut out = String::new();
    if let Some(explained) = &answer.probe {
        probe(&mut out, explained, view);
    }
    for (position, file) in answer.files.iter().enumerate() {
        if position > 0 {
            out.push('\n');
        }
        explained_file(&mut out, file, 0, view);
        roots(&mut out, file, style);
        outlook(&mut out, file, at, style);
    }
    for finding in &answer.findings {
        if !out.is_empty() {
            out.push('\n');
        }
        incident(&mut out, finding, style);
    }
    out
}

fn incident(out: &mut String, finding: &Finding, style: Style) {
    let _ = writeln!(
        out,
        "{} {}",
        style.severity(finding.severity),
        style.strong(finding.code.as_str())
    );
    lines(out, 2, &printable(&finding.message), style);
    if let Some(incident) = &finding.incident {
        for seen in &incident.evidence {
            lines(out, 2, &printable(&format!("seen: {seen}")), style);
        }
        lines(out, 2, &printable(&incident.advice), style);
        if let Some(cure) = &incident.cure {
            lines(out, 2, &format!("cure: {cure} --dry-run"), style);
        }
        lines(out, 2, &printable(&incident.page()), style);
    }
}

fn explained_file(out: &mut String, file: &ExplainedFile, depth: usize, view: WhyView) {
    let WhyView { at, style, .. } = view;
    let state = match file.state {
        "held" => style.waiting("held"),
        "failed" | "not held" => style.bad(file.state),
        "applied" => style.good("applied"),
        other => other.to_owned(),
    };
    let _ = writeln!(
        out,
        "{}{} is {state}, for {}",
        " ".repeat(depth),
        style.strong(&file.file),
        age(file.since, at)
    );
    if file.waits_for.is_empty() {
        lines(out, depth + 2, &file.why, style);
    }
    for step in &file.waits_for {
        chain_link(out, step, depth + 2, view);
    }
}

fn probe(out: &mut String, explained: &ExplainedProbe, view: WhyView) {
    let WhyView { at, style, .. } = view;
    let ExplainedProbe { probe, advice } = explained;
    let state = match probe.state {
        ProbeState::Passing => style.good("passing"),
        ProbeState::Failing => style.bad("failing"),
        ProbeState::Unknown => style.waiting("unknown"),
    };
    let _ = writeln!(
        out,
        "The probe {} is {state}, for {}",
        style.strong(probe.id.as_str()),
        age(probe.since, at)
    );
    if !probe.message.is_empty() {
        lines(out, 2, &probe.message, style);
    }
    let follows = match (probe.severity, probe.state) {
        (_, ProbeState::Passing) => return,
        (ProbeSeverity::Required, ProbeState::Failing) => "The node is not Ready while it fails.",
        (ProbeSeverity::Wanted, ProbeState::Failing) => {
            "The node works, and is Degraded while it fails."
        }
        (ProbeSeverity::Required, ProbeState::Unknown) => {
            "The node is not known to be Ready until it is known."
        }
        (ProbeSeverity::Wanted, ProbeState::Unknown) => "This does not affect readiness.",
    };
    lines(out, 0, follows, style);
    if let (Some(code), Some(advice)) = (probe.code, advice) {
        lines(out, 0, &format!("({code}) {advice}"), style);
    }
}

fn chain_link(out: &mut String, step: &ExplainedBlocker, depth: usize, view: WhyView) {
    let (style, blocker) = (view.style, &step.blocker);
    let verb = match blocker.tier {
        windrow_plan::rules::Tier::Required => "needs",
        windrow_plan::rules::Tier::Advisory => "comes after",
    };
    // The reason below says more to a person than an expression.
    let is_plain = matches!(blocker.condition.as_str(), "served" | "exists" | "ready");
    let wanted = match is_plain || view.verbose {
        true => format!("{verb} {} ({})", blocker.what, blocker.condition),
        false => format!("{verb} {}", blocker.what),
    };
    lines(out, depth, &wanted, style);
    lines(out, depth + 4, &blocker.message, style);
    lines(
        out,
        depth + 4,
        &format!(
            "asked for by {}; {} at {}",
            blocker.required_by, blocker.origin.rule, blocker.origin.at
        ),
        style,
    );
    match (&step.because, &blocker.brought_by) {
        (Some(because), _) => explained_file(out, because, depth + 4, view),
        (None, Some(file)) if step.cycle => lines(
            out,
            depth + 4,
            &format!("{file} brings it, which waits for this one: a cycle"),
            style,
        ),
        (None, Some(file)) => lines(out, depth + 4, &format!("{file} brings it"), style),
        (None, None) => {}
    }
}

/// The blockers that no staged file stands behind.
fn roots(out: &mut String, file: &ExplainedFile, style: Style) {
    let mut found = Vec::new();
    collect_roots(file, &mut found);
    for message in found {
        lines(out, 0, &format!("Root: {message}"), style);
    }
}

fn collect_roots(file: &ExplainedFile, found: &mut Vec<String>) {
    for step in &file.waits_for {
        if step.root && !found.contains(&step.blocker.message) {
            found.push(step.blocker.message.clone());
        }
        if let Some(because) = &step.because {
            if because.waits_for.is_empty() {
                let message = format!("{} is {}: {}", because.file, because.state, because.why);
                if !found.contains(&message) {
                    found.push(message);
                }
            }
            collect_roots(because, found);
        }
    }
}

/// A deadline as a time of day; with the date where that is not today.
fn by_time(at: Timestamp, deadline: Timestamp) -> String {
    let [today, day] = [at, deadline].map(|time| time.strftime("%Y-%m-%d").to_string());
    let time = deadline.strftime("%H:%M UTC");
    match day == today {
        true => format!("by {time}"),
        false => format!("by {day} {time}"),
    }
}

/// What will happen to it, and what a person can do.
fn outlook(out: &mut String, file: &ExplainedFile, at: Timestamp, style: Style) {
    if file.state != "held" {
        return;
    }
    let when = match (file.by, file.deadline) {
        (Some(Holder::Other), _) => {
            "Windrow did not make this marker and leaves it alone; whoever made it removes it."
                .to_owned()
        }
        _ if file.overdue => {
            "Its deadline has passed; it stays held because releasing it would do harm.".to_owned()
        }
        (_, Some(deadline)) if deadline > at => format!(
            "Released when that is met, or in {} at the latest ({}).",
            age(at, deadline),
            by_time(at, deadline)
        ),
        _ if file.waits_for.is_empty() => "Held until it is released.".to_owned(),
        _ => "Released the moment that is met.".to_owned(),
    };
    lines(out, 0, &when, style);
    if let Some(path) = &file.name_spares_hold {
        let name = format!("Called {path} in the image, it would not have been held.");
        lines(out, 0, &name, style);
    } else if let Some(why) = &file.no_name_spares_hold {
        let none = format!("No other name would have spared the hold: {why}.");
        lines(out, 0, &none, style);
    }
    if let Some(command) = &file.release {
        lines(out, 0, &format!("By hand: {command}"), style);
    }
}

fn lines(out: &mut String, depth: usize, text: &str, style: Style) {
    for line in wrap(text, style.width.saturating_sub(depth).max(40)) {
        let _ = writeln!(out, "{}{line}", " ".repeat(depth));
    }
}
