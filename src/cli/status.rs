//! `windrow status`: the status document, for people and scripts.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use jiff::Timestamp;
use windrow_decide::{HeldFile, Holder, ProbeStatus, Readiness, Status};
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::ProbeState;

use super::document::{self, FoundStatus, age, exit_of, now, word};
use super::follow::Follow;
use super::{Context, Exit, style};
use crate::printable::printable;
use crate::render::{Style, fit, wrap};

/// Show what the node is and why
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Show every change, until interrupted
    #[arg(long)]
    watch: bool,
    /// Print the status document
    #[arg(long, conflicts_with = "console")]
    json: bool,
    /// Print one line of at most 65 characters
    #[arg(long)]
    console: bool,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if args.watch {
        return watch(&args, context);
    }
    let found = document::current(context);
    print_table!("{}", text(&args, &found));
    Ok(exit_of(found.shown().readiness))
}

fn watch(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let mut follow = Follow::file(&context.layout.status())?;
    let mut out = std::io::stdout();
    let full_screen = out.is_terminal() && !args.json && !args.console;
    let mut shown = String::new();
    loop {
        let found = document::current(context);
        let next = text(args, &found);
        // Ages change every second; only a change of what is known is worth a new text.
        let known = serde_json::to_string(&found.shown())?;
        if known != shown {
            if full_screen {
                write!(out, "\u{1b}[H\u{1b}[2J")?;
            }
            // A reader that has gone (`| head`) ends the watch; there is nothing to say about it.
            if write!(out, "{next}").and_then(|()| out.flush()).is_err() {
                return Ok(exit_of(found.shown().readiness));
            }
            shown = known;
        }
        follow.writer_of(&found);
        follow.wait(None);
    }
}

fn text(args: &Args, found: &FoundStatus) -> String {
    let status = found.shown();
    if args.json {
        // A document that was read can be written.
        return crate::printable::json_pretty(&status).unwrap_or_default() + "\n";
    }
    if args.console {
        return one_line(&status) + "\n";
    }
    let mut text = people(&status, now(), style());
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
    let state = word(status.readiness);
    let state = match status.readiness {
        Readiness::Ready => style.good(state),
        Readiness::SettingUp | Readiness::Unknown => style.waiting(state),
        Readiness::Degraded | Readiness::Failed => style.bad(state),
    };
    let _ = writeln!(
        out,
        "{state}  {}, for {}",
        status.phase.title(),
        age(status.since, now)
    );
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
    let staging = &status.staging;
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
    for file in &staging.failed {
        row(
            &mut out,
            style,
            ("failed", &file.file),
            &age(file.since, now),
            &file.message,
        );
    }
    for file in &staging.not_held {
        row(
            &mut out,
            style,
            ("not held", &file.file),
            &age(file.since, now),
            &format!("{}; it should wait: {}", file.error, file.why),
        );
    }
    for file in &staging.held {
        let why = match file.by {
            Holder::Windrow => format!("{}{}", file.why, outlook(file, now)),
            Holder::Other => file.why.clone(),
        };
        row(
            &mut out,
            style,
            ("held", &file.file),
            &age(file.since, now),
            &why,
        );
    }
    for file in &staging.released {
        row(
            &mut out,
            style,
            ("released", &file.file),
            &age(file.since, now),
            "RKE2 has not applied it yet",
        );
    }
    probes(&mut out, &status.probes, now, style);
    for finding in &status.findings {
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
        for line in wrap(
            &format!("{at}{}", finding.message),
            style.width.saturating_sub(2),
        ) {
            let _ = writeln!(out, "  {line}");
        }
        if let Some(cure) = finding.incident.as_ref().and_then(|one| one.cure.as_ref()) {
            let _ = writeln!(out, "  cure: {cure} --dry-run");
        }
    }
    if !staging.held.is_empty() {
        let _ = writeln!(out, "\n`windrow why FILE` shows the whole chain.");
    }
    out
}

/// How many pass, and each that does not.
fn probes(out: &mut String, probes: &[ProbeStatus], now: Timestamp, style: Style) {
    if probes.is_empty() {
        return;
    }
    let of = |state: ProbeState| probes.iter().filter(move |probe| probe.state == state);
    let _ = writeln!(
        out,
        "\n{}  {} passing, {} failing, {} unknown",
        style.strong("Probes"),
        of(ProbeState::Passing).count(),
        of(ProbeState::Failing).count(),
        of(ProbeState::Unknown).count()
    );
    for probe in of(ProbeState::Failing).chain(of(ProbeState::Unknown)) {
        // That it was not asked yet is no more than the count says.
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

/// What becomes of a hold if nothing changes.
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
    let _ = writeln!(out, "  {label} {:<50} {age:>8}", fit(file, 50));
    for line in wrap(why, style.width.saturating_sub(12)) {
        let _ = writeln!(out, "            {line}");
    }
}
