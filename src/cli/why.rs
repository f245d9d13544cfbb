//! `windrow why`: the chain from a held object to the root blocker, or the basis of any other word that Windrow prints.
//! Short; everything with `-v`.

mod chain;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use windrow_decide::why::{
    ExplainedProbe, ExplainedStep, ExplainedWord, WhyAnswer, explain, explain_code, unknown_name,
};
use windrow_decide::{PhaseState, Status};
use windrow_model::findings::Finding;
use windrow_plan::readiness::node::{ProbeSeverity, ProbeState};

use self::chain::FilesText;
use super::document::{self, age};
use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit, style};
use crate::printable::{printable, printable_colours};
use crate::render::{Style, wrap};

/// Findings, signs and places that the short answer names.
const SHORT_LIST: usize = 3;

/// Explain a held file, object, probe, code or state
///
/// Shows the dependencies of a held file or object down to the root cause, the result of a probe, or the meaning of another word.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A manifest file, an object (`Kind/namespace/name`, `Kind namespace/name` or a name), a probe, a code, a step of
    /// the bootstrap, or a state (`held`, `Degraded`)
    #[arg(value_name = "FILE|OBJECT|PROBE|CODE|STEP", required = true, num_args = 1..=2)]
    what: Vec<String>,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
    output: Output,
    /// Read saved data instead of this node: a status document (from any node and time), or `-`
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Show everything: the rule behind each requirement, its state or expression, and every piece of evidence
    #[arg(short, long)]
    verbose: bool,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let asked = args.what.join(" ");
    let (status, at) = match &args.from {
        // A document from another time is explained as of its own time.
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
        None => {
            let found = document::current(context);
            let now = found.now(&context.layout);
            match found {
                document::FoundStatus::Current(status) => (*status, now),
                document::FoundStatus::Stale { why, .. } => {
                    // A code means the same without a node.
                    if let Some(answer) = explain_code(&asked) {
                        return print(&args, &answer, now);
                    }
                    eprintln!("windrow: {why}");
                    eprintln!("To explain an old document: windrow why --from FILE {asked}");
                    return Ok(Exit::Unknown);
                }
            }
        }
    };
    let Some(answer) = explain(&status, &asked, &context.manifests()) else {
        eprintln!("windrow: {}", unknown_name(&status, &asked));
        return Ok(Exit::Unknown);
    };
    print(&args, &answer, at)
}

fn print(args: &Args, answer: &WhyAnswer, at: Timestamp) -> anyhow::Result<Exit> {
    let table = || printable_colours(&people(answer, at, args.verbose, style()));
    print_whole(&args.output.render(answer, table)?)?;
    Ok(exit_of(answer))
}

/// The answer as text, from a given document: `None` if the document does not have the subject.
pub(super) fn from(
    status: &Status,
    asked: &str,
    manifests: &Path,
    at: Timestamp,
) -> Option<String> {
    explain(status, asked, manifests).map(|answer| people(&answer, at, false, style()))
}

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
    if let Some(step) = &answer.step
        && answer.findings.is_empty()
    {
        return exit_of_step(step);
    }
    let asked = &answer.files[..answer.asked];
    let has = |state: &str| asked.iter().any(|file| file.state == state);
    let wrong = |severity| {
        let mut findings = answer.findings.iter();
        findings.any(|one| one.severity >= severity)
    };
    if has("failed") || wrong(windrow_model::reasons::Severity::Error) {
        Exit::Failed
    } else if wrong(windrow_model::reasons::Severity::Warning)
        || asked
            .iter()
            .any(|file| file.state == "held" && !file.applied_once)
        || has("released")
        || has("not held")
    {
        Exit::NotYet
    } else {
        Exit::Ok
    }
}

fn exit_of_step(step: &ExplainedStep) -> Exit {
    let has = |state| step.probes.iter().any(|probe| probe.state == state);
    match step.state {
        // A node that has no such step lacks nothing of it.
        None | Some(PhaseState::Done) => Exit::Ok,
        Some(PhaseState::Unknown) => Exit::Unknown,
        Some(_) if has(ProbeState::Unknown) && !has(ProbeState::Failing) => Exit::Unknown,
        Some(_) => Exit::NotYet,
    }
}

#[derive(Clone, Copy)]
struct WhyView {
    at: Timestamp,
    verbose: bool,
    style: Style,
}

fn people(answer: &WhyAnswer, at: Timestamp, verbose: bool, style: Style) -> String {
    let view = WhyView { at, verbose, style };
    let mut out = String::new();
    if let Some(explained) = &answer.probe {
        probe(&mut out, explained, view);
    }
    // After a file, one line each: `windrow why CODE` shows more.
    let step_says_more = |_: &&ExplainedStep| verbose || answer.probe.is_none();
    if let Some(explained) = answer.step.as_ref().filter(step_says_more) {
        apart(&mut out);
        step(&mut out, explained, view);
    }
    let found = !answer.findings.is_empty();
    // A finding has its own words, and the action to take.
    let is_shown = |word: &ExplainedWord| word.shown.as_ref().is_none_or(|one| !one.is_empty());
    let says_more = |word: &&ExplainedWord| verbose || !found || is_shown(word);
    if let Some(explained) = answer.word.as_ref().filter(says_more) {
        apart(&mut out);
        word(&mut out, explained, found, view);
    }
    let mut files = FilesText::new(&answer.files, view);
    for file in &answer.files[..answer.asked] {
        apart(&mut out);
        files.write_file(&mut out, file);
    }
    // Behind a file a line each: `windrow why CODE` says more.
    let in_lines = !verbose && !answer.files.is_empty();
    for (position, one) in answer.findings.iter().enumerate() {
        if position == 0 || !in_lines {
            apart(&mut out);
        }
        match in_lines {
            true => finding_line(&mut out, one, style),
            false => finding(&mut out, one, view),
        }
    }
    if let Some(left_out) = answer.left_out {
        apart(&mut out);
        lines(&mut out, 0, &format!("{left_out}."), style);
    }
    out
}

/// An empty line between two answers.
fn apart(out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
}

/// One item, or the first few of them and the number of the rest.
fn listed<'l>(all: &'l [String], view: WhyView) -> impl Iterator<Item = String> + use<'l> {
    let most = match view.verbose {
        true => all.len(),
        false => SHORT_LIST,
    };
    let more = all.len().saturating_sub(most);
    let more = (more > 0).then(|| format!("and {more} more"));
    all.iter().take(most).cloned().chain(more)
}

fn finding_line(out: &mut String, finding: &Finding, style: Style) {
    let severity = style.severity(finding.severity);
    let place = finding.at.first();
    let place = place.map_or(String::new(), |at| {
        format!("{}: ", printable(&at.to_string()))
    });
    let line = format!("{place}{}: {}", finding.code, printable(&finding.message));
    for (position, line) in wrap(&line, style.width.saturating_sub(8))
        .iter()
        .enumerate()
    {
        let _ = match position {
            0 => writeln!(out, "{severity} {line}"),
            _ => writeln!(out, "        {line}"),
        };
    }
}

fn finding(out: &mut String, finding: &Finding, view: WhyView) {
    let style = view.style;
    let _ = writeln!(
        out,
        "{} {}",
        style.severity(finding.severity),
        style.strong(finding.code.as_str())
    );
    lines(out, 2, &printable(&finding.message), style);
    let places: Vec<String> = finding.at.iter().map(|at| at.to_string()).collect();
    for place in listed(&places, view) {
        lines(out, 4, &printable(&place), style);
    }
    let Some(incident) = &finding.incident else {
        lines(out, 2, finding.code.reason().advice, style);
        return;
    };
    let signs: Vec<String> = incident
        .evidence
        .iter()
        .map(|seen| format!("evidence: {seen}"))
        .collect();
    for sign in listed(&signs, view) {
        lines(out, 2, &printable(&sign), style);
    }
    lines(out, 2, &printable(&incident.advice), style);
    if let Some(cure) = &incident.cure {
        lines(out, 2, &format!("fix: {cure} --dry-run"), style);
    }
    lines(out, 2, &printable(&incident.page()), style);
}

fn step(out: &mut String, explained: &ExplainedStep, view: WhyView) {
    let ExplainedStep {
        name,
        state,
        probes,
    } = explained;
    let style = view.style;
    let title = style.strong(name.title());
    let _ = match state {
        Some(PhaseState::Done) => writeln!(out, "The step {title} is {}", style.good("done")),
        Some(PhaseState::Current) => writeln!(out, "The node is at the step {title}"),
        Some(PhaseState::Unknown) => {
            writeln!(out, "The step {title} is {}", style.waiting("unknown"))
        }
        Some(PhaseState::Pending) => writeln!(out, "The step {title} comes later"),
        None => writeln!(out, "This node has no step {title}"),
    };
    let checks: Vec<String> = probes
        .iter()
        .map(|probe| {
            let (id, state) = (probe.id.as_str(), probe.state.as_str());
            format!("{id} is {state}: {}", probe.message)
        })
        .collect();
    for check in listed(&checks, view) {
        lines(out, 2, &printable(&check), style);
    }
}

fn word(out: &mut String, explained: &ExplainedWord, found: bool, view: WhyView) {
    let style = view.style;
    let ExplainedWord {
        word,
        means,
        advice,
        shown,
    } = explained;
    let _ = writeln!(out, "{}", style.strong(word));
    lines(out, 2, means, style);
    if let Some(advice) = advice {
        lines(out, 2, advice, style);
    }
    let Some(shown) = shown else {
        return;
    };
    if shown.is_empty() && !found {
        lines(out, 0, "Nothing on this node shows it now.", style);
        return;
    }
    for line in listed(shown, view) {
        lines(out, 0, &printable(&line), style);
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
            "Windrow cannot report Ready until it has a result."
        }
        (ProbeSeverity::Wanted, ProbeState::Unknown) => "This does not affect readiness.",
    };
    lines(out, 0, follows, style);
    if let (Some(code), Some(advice)) = (probe.code, advice) {
        lines(out, 0, &format!("({code}) {advice}"), style);
    }
}

fn lines(out: &mut String, depth: usize, text: &str, style: Style) {
    for line in wrap(text, style.width.saturating_sub(depth).max(40)) {
        let _ = writeln!(out, "{}{line}", " ".repeat(depth));
    }
}
