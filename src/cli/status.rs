//! `windrow status`: the status document, for users and scripts.

mod changes;

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use jiff::Timestamp;
use windrow_decide::why::why_not_applied;
use windrow_decide::{HeldFile, Holder, ProbeStatus, Readiness, Status, UnknownKind, sentence};
use windrow_model::findings::Finding;
use windrow_model::reasons::Code;
use windrow_plan::readiness::node::ProbeState;

use super::document::{self, FoundStatus, age, exit_of, now};
use super::follow::Follow;
use super::out::{print_whole, stdout};
use super::output::Output;
use super::{Context, Exit, style};
use crate::printable::shell_word;
use crate::printable::{printable, printable_colours};
use crate::render::{Style, fit, point_in_time, wrap};

/// Show the node's state and its causes
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print a line with time and host for every change, until interrupted; with -v the whole state at each change
    #[arg(long)]
    watch: bool,
    /// Show everything, including applied files and passing probes
    #[arg(short, long)]
    verbose: bool,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
    output: Output,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if args.watch {
        return watch(&args, context);
    }
    let found = document::current(context);
    print_whole(&text(&args, &found, found.now(&context.layout))?)?;
    Ok(exit_of(found.shown().readiness))
}

fn watch(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let mut follow = Follow::file(&context.layout.status())?;
    let host = host();
    let mut out = stdout();
    let by_line = args.output == Output::Table && !args.verbose;
    let full_screen = out.is_terminal() && args.output == Output::Table && args.verbose;
    let mut before: Option<Status> = None;
    loop {
        let found = document::current(context);
        let status = found.shown();
        // Ages change every second; only a change of the state is worth a new text.
        let is_new = before.as_ref() != Some(&status);
        let text = match is_new {
            true if by_line => {
                let host = if status.host.is_empty() {
                    &host
                } else {
                    &status.host
                };
                stamped(&changes::changes(before.as_ref(), &status), host)
            }
            true if full_screen => format!(
                "\u{1b}[H\u{1b}[2J{}",
                text(args, &found, found.now(&context.layout))?
            ),
            // One document behind another.
            true if args.output == Output::Yaml => {
                format!("---\n{}", text(args, &found, found.now(&context.layout))?)
            }
            true => text(args, &found, found.now(&context.layout))?,
            false => String::new(),
        };
        // A closed pipe (`| head`) ends the watch without a message.
        if write!(out, "{text}").and_then(|()| out.flush()).is_err() {
            return Ok(exit_of(status.readiness));
        }
        before = Some(status);
        follow.writer_of(&found);
        follow.wait(None);
    }
}

fn stamped(lines: &[String], host: &str) -> String {
    let at = now().strftime("%Y-%m-%dT%H:%M:%SZ");
    let lines = lines
        .iter()
        .map(|line| format!("{at} {host} {}\n", printable(line)));
    lines.collect()
}

fn host() -> String {
    let name = nix::unistd::gethostname().ok();
    let name = name.and_then(|name| name.into_string().ok());
    name.unwrap_or_else(|| "localhost".to_owned())
}

fn text(args: &Args, found: &FoundStatus, now: Timestamp) -> anyhow::Result<String> {
    let status = found.shown();
    let table = || printable_colours(&table(&status, found, args.verbose, now));
    args.output.render(&status, table)
}

fn table(status: &Status, found: &FoundStatus, verbose: bool, now: Timestamp) -> String {
    let mut text = people(status, now, verbose, style());
    if let FoundStatus::Stale {
        last: Some(last), ..
    } = found
    {
        let _ = writeln!(
            text,
            "\nLast known: {} (since {})",
            last.summary,
            point_in_time(last.since, now)
        );
    }
    text
}

/// The document in one line that fits Harvester's own console.
pub(super) fn one_line(status: &Status, now: Timestamp) -> String {
    fit(&printable(&sentence::one_line(status, now)), 65)
}

fn people(status: &Status, now: Timestamp, verbose: bool, style: Style) -> String {
    let mut out = String::new();
    headline(&mut out, status, now, style);
    manifests(&mut out, status, now, verbose, style);
    probes(&mut out, &status.probes, now, verbose, style);
    if let Some(server) = status.server.as_ref().filter(|_| verbose) {
        let (listen, with) = (&server.listen, server.certificate.in_words());
        let name = style.strong("Status server");
        let _ = writeln!(out, "\n{name}  https://{listen}/status with {with}");
        let _ = writeln!(out, "  SHA-256 {}", server.fingerprint);
    }
    for finding in &status.findings {
        finding_lines(&mut out, finding, style);
    }
    let (held, found) = (&status.staging.held, &status.findings);
    let example = held.first().map(|file| file.file.as_str());
    if let Some(example) = example.or(found.first().map(|one| one.code.as_str())) {
        let _ = writeln!(
            out,
            "\nMore about a file, a probe or a code: `windrow why {}`",
            shell_word(example)
        );
    }
    out
}

fn stand(status: &Status) -> String {
    let step = status.phase.title();
    match status.readiness {
        Readiness::Ready => "Ready".to_owned(),
        Readiness::Degraded => "Degraded".to_owned(),
        Readiness::SettingUp => format!("Setting up, step: {step}"),
        Readiness::Failed => format!("{}, step: {step}", sentence::word(status)),
        Readiness::Unknown => match status.why_unknown() {
            UnknownKind::ProbesOff => "Unknown (probes are off)".to_owned(),
            // A document that was kept says so.
            _ if status.writer.is_none() => "Unknown (Windrow does not run)".to_owned(),
            kind => format!("Unknown ({kind}), step: {step}"),
        },
    }
}

/// The state, the step, and the reason.
fn headline(out: &mut String, status: &Status, now: Timestamp, style: Style) {
    let stand = stand(status);
    let (word, step) = match stand.split_once(", step: ") {
        Some((word, step)) => (word, format!(", step: {step}")),
        None => (stand.as_str(), String::new()),
    };
    let word = match status.readiness {
        Readiness::Ready => style.good(word),
        Readiness::Degraded | Readiness::Failed => style.bad(word),
        Readiness::SettingUp | Readiness::Unknown => style.waiting(word),
    };
    // A state that no process updates has no age.
    let lasted = match status.writer {
        Some(_) => format!(" for {}", age(sentence::began(status), now)),
        None => String::new(),
    };
    let step = match status.phase_since {
        Some(since) if !step.is_empty() && !lasted.is_empty() => {
            format!("{step} ({})", age(since, now))
        }
        _ => step,
    };
    let _ = writeln!(out, "{word}{lasted}{step}");
    if let Some(note) = sentence::pace_note(status) {
        let _ = writeln!(out, "{}", style.waiting(&note));
    }
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

/// How many files there are, how many of them were held, and each that is not applied.
fn manifests(out: &mut String, status: &Status, now: Timestamp, verbose: bool, style: Style) {
    let staging = &status.staging;
    if staging.total > 0 {
        let parts = [
            (staging.applied.len(), "applied"),
            (staging.released.len(), "released"),
            (staging.held.len(), "held"),
            (staging.not_held.len(), "not held"),
            (staging.failed.len(), "failed"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(files, _)| *files > 0)
            .map(|(files, state)| format!("{files} {state}"))
            .collect();
        let were_held = match staging.were_held() {
            0 => String::new(),
            files => format!("; {files} held before"),
        };
        let _ = writeln!(
            out,
            "\n{}  {}: {}{were_held}",
            style.strong("Manifests"),
            staging.total,
            parts.join(", ")
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
        let why = why_not_applied(status, file);
        file_row("released", &file.file, file.since, &why);
    }
    for file in staging.applied.iter().filter(|_| verbose) {
        file_row("applied", &file.file, file.since, "");
    }
}

fn finding_lines(out: &mut String, finding: &Finding, style: Style) {
    let _ = writeln!(
        out,
        "\n{} {}",
        style.severity(finding.severity),
        finding.code
    );
    for line in wrap(&finding.line(), style.width.saturating_sub(2)) {
        let _ = writeln!(out, "  {line}");
    }
    if let Some(cure) = finding.incident.as_ref().and_then(|one| one.cure.as_ref()) {
        let _ = writeln!(out, "  fix: {cure} --dry-run");
    }
}

fn probes(out: &mut String, probes: &[ProbeStatus], now: Timestamp, verbose: bool, style: Style) {
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
    let others = in_state(ProbeState::Failing).chain(in_state(ProbeState::Unknown));
    // A probe that was not asked yet is only counted.
    let (shown, pending): (Vec<&ProbeStatus>, Vec<&ProbeStatus>) =
        others.partition(|probe| verbose || probe.code != Some(Code::ProbePending));
    for probe in &shown {
        row(
            out,
            style,
            (probe.state.as_str(), probe.id.as_str()),
            &age(probe.since, now),
            &probe.message,
        );
    }
    if !shown.is_empty() && !pending.is_empty() {
        let more = pending.len();
        let _ = writeln!(
            out,
            "  and {more} more without a result yet: windrow status -v"
        );
    }
    for probe in in_state(ProbeState::Passing).filter(|_| verbose) {
        let (id, age) = (probe.id.as_str(), age(probe.since, now));
        row(out, style, (probe.state.as_str(), id), &age, "");
    }
}

fn outlook(file: &HeldFile, now: Timestamp) -> String {
    match file.deadline {
        _ if file.overdue && file.harmful => {
            "; overdue, and kept because its release would do harm".to_owned()
        }
        _ if file.overdue => {
            "; overdue, and kept because RKE2 could not apply it, or an annotation requires it"
                .to_owned()
        }
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
