//! `windrow status`: the status document, for people and scripts.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use jiff::Timestamp;
use windrow_decide::{HeldFile, Holder, ProbeStatus, Readiness, StagingStatus, Status};
use windrow_model::findings::Finding;
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::ProbeState;

use super::document::{self, FoundStatus, age, exit_of, now};
use super::follow::Follow;
use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit, style};
use crate::printable::{printable, printable_colours};
use crate::render::{Style, fit, wrap};

/// Show the node's state and its causes
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Show every change, until interrupted
    #[arg(long)]
    watch: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Print the status document: the same as `-o json`
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Print one line of at most 65 characters
    #[arg(long, conflicts_with_all = ["json", "output"])]
    console: bool,
}

impl Args {
    fn format(&self) -> Output {
        match self.json {
            true => Output::Json,
            false => self.output,
        }
    }
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if args.watch {
        return watch(&args, context);
    }
    let found = document::current(context);
    print_whole(&text(&args, &found)?)?;
    Ok(exit_of(found.shown().readiness))
}

fn watch(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let mut follow = Follow::file(&context.layout.status())?;
    let mut out = std::io::stdout();
    let full_screen = out.is_terminal() && args.format() == Output::Table && !args.console;
    let mut shown = String::new();
    loop {
        let found = document::current(context);
        let mut next = text(args, &found)?;
        if args.format() == Output::Yaml {
            // One document behind another.
            next.insert_str(0, "---\n");
        }
        // Ages change every second; only a change of the state is worth a new text.
        let known = serde_json::to_string(&found.shown())?;
        if known != shown {
            if full_screen {
                write!(out, "\u{1b}[H\u{1b}[2J")?;
            }
            // A closed pipe (`| head`) ends the watch without a message.
            if write!(out, "{next}").and_then(|()| out.flush()).is_err() {
                return Ok(exit_of(found.shown().readiness));
            }
            shown = known;
        }
        follow.writer_of(&found);
        follow.wait(None);
    }
}

fn text(args: &Args, found: &FoundStatus) -> anyhow::Result<String> {
    let status = found.shown();
    if args.console {
        return Ok(one_line(&status) + "\n");
    }
    let table = || printable_colours(&table(&status, found));
    args.format().render(&status, table)
}

fn table(status: &Status, found: &FoundStatus) -> String {
    let mut text = people(status, now(), style());
    if let FoundStatus::Stale {
        last: Some(last), ..
    } = found
    {
        let _ = writeln!(
            text,
            "\nLast known, {} ago: {}",
            age(last.since, now()),
            last.summary
        );
    }
    text
}

/// The document in one line that fits Harvester's own console.
pub(super) fn one_line(status: &Status) -> String {
    fit(&printable(&status.summary), 65)
}

/// The document for people.
fn people(status: &Status, now: Timestamp, style: Style) -> String {
    let mut out = String::new();
    headline(&mut out, status, now, style);
    manifests(&mut out, &status.staging, now, style);
    probes(&mut out, &status.probes, now, style);
    for finding in &status.findings {
        finding_lines(&mut out, finding, style);
    }
    if !status.staging.held.is_empty() {
        let _ = writeln!(out, "\n`windrow why FILE` shows the whole chain.");
    }
    out
}

/// The state, the step, and the reason.
fn headline(out: &mut String, status: &Status, now: Timestamp, style: Style) {
    let (lasted, step) = (age(status.since, now), status.phase.title());
    let at_step = format!("for {lasted}, step: {step}");
    let line = match status.readiness {
        Readiness::Ready => format!("{} for {lasted}", style.good("Ready")),
        Readiness::Degraded => format!("{} for {lasted}", style.bad("Ready, degraded")),
        Readiness::SettingUp => format!("{} {at_step}", style.waiting("Setting up")),
        Readiness::Failed => format!("{} {at_step}", style.bad("Failed")),
        Readiness::Unknown if status.reason.code == Code::NotProbed => {
            format!("{} for {lasted}. Probes are off", style.waiting("Unknown"))
        }
        Readiness::Unknown => format!("{} {at_step}", style.waiting("Unknown")),
    };
    let _ = writeln!(out, "{line}");
    for line in wrap(&status.reason.message, style.width) {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "{}", style.dim(&format!("({})", status.reason.code)));
    if let Some(vip) = &status.vip {
        let mode = vip
            .mode
            .map_or_else(String::new, |mode| format!(" ({})", mode.as_str()));
        let _ = writeln!(out, "{}  {}{mode}", style.strong("VIP"), vip.address);
    }
}

/// How many files are staged, and each that is not applied.
fn manifests(out: &mut String, staging: &StagingStatus, now: Timestamp, style: Style) {
    if staging.total > 0 {
        let _ = writeln!(
            out,
            "\n{}  {} staged: {} applied, {} released, {} held, {} failed{}",
            style.strong("Manifests"),
            staging.total,
            staging.applied.len(),
            staging.released.len(),
            staging.held.len(),
            staging.failed.len(),
            match staging.not_held.len() {
                0 => String::new(),
                files => format!(", {files} not held"),
            }
        );
    }
    let mut file_row = |state: &str, file: &str, since: Timestamp, why: &str| {
        row(out, style, (state, file), &age(since, now), why);
    };
    for file in &staging.failed {
        file_row("failed", &file.file, file.since, &file.message);
    }
    for file in &staging.not_held {
        let why = format!("{}; it should wait: {}", file.error, file.why);
        file_row("not held", &file.file, file.since, &why);
    }
    for file in &staging.held {
        let why = match file.by {
            Holder::Windrow => format!("{}{}", file.why, outlook(file, now)),
            Holder::Other => file.why.to_string(),
        };
        file_row("held", &file.file, file.since, &why);
    }
    for file in &staging.released {
        let why = "RKE2 has not applied it yet";
        file_row("released", &file.file, file.since, why);
    }
}

fn finding_lines(out: &mut String, finding: &Finding, style: Style) {
    let at = finding
        .at
        .first()
        .map_or(String::new(), |at| format!("{at}: "));
    let _ = writeln!(
        out,
        "\n{} {}",
        style.severity(finding.severity),
        finding.code
    );
    let text = format!("{at}{}", finding.message);
    for line in wrap(&text, style.width.saturating_sub(2)) {
        let _ = writeln!(out, "  {line}");
    }
    if let Some(cure) = finding.incident.as_ref().and_then(|one| one.cure.as_ref()) {
        let _ = writeln!(out, "  cure: {cure} --dry-run");
    }
}

/// How many probes pass, and each that does not.
fn probes(out: &mut String, probes: &[ProbeStatus], now: Timestamp, style: Style) {
    if probes.is_empty() {
        return;
    }
    let in_state = |state: ProbeState| probes.iter().filter(move |probe| probe.state == state);
    let _ = writeln!(
        out,
        "\n{}  {} passing, {} failing, {} unknown",
        style.strong("Probes"),
        in_state(ProbeState::Passing).count(),
        in_state(ProbeState::Failing).count(),
        in_state(ProbeState::Unknown).count()
    );
    for probe in in_state(ProbeState::Failing).chain(in_state(ProbeState::Unknown)) {
        // A probe that was not asked yet is only counted.
        if probe.code != Some(Code::ProbePending) {
            row(
                out,
                style,
                (probe.state.as_str(), probe.id.as_str()),
                &age(probe.since, now),
                &probe.message,
            );
        }
    }
}

/// What happens to a hold if nothing changes.
fn outlook(file: &HeldFile, now: Timestamp) -> String {
    match file.deadline {
        _ if file.overdue => "; overdue, and kept because releasing would do harm".to_owned(),
        Some(deadline) if deadline > now => {
            format!("; released in {} at the latest", age(now, deadline))
        }
        _ => String::new(),
    }
}

fn row(out: &mut String, style: Style, (state, file): (&str, &str), age: &str, why: &str) {
    let label = format!("{state:<9}");
    let label = match state {
        "failed" | "failing" | "not held" => style.bad(&label),
        "held" | "unknown" => style.waiting(&label),
        _ => style.dim(&label),
    };
    let _ = writeln!(out, "  {label} {:<50} {age:>8}", printable(file));
    for line in wrap(why, style.width.saturating_sub(12)) {
        let _ = writeln!(out, "            {line}");
    }
}
