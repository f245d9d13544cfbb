//! `windrow why`: the chain from a held thing to the root blocker, or what any other word of an outlet rests on. Short;
//! everything with `-v`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use windrow_decide::{Holder, PhaseState, Status};
use windrow_model::findings::Finding;
use windrow_plan::readiness::node::{ProbeSeverity, ProbeState};
use windrow_plan::rules::Tier;

use super::document::{self, age, now};
use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit, style};
use crate::printable::{printable, printable_colours};
use crate::render::{Style, wrap};
use crate::report::why::{
    ExplainedBlocker, ExplainedFile, ExplainedProbe, ExplainedStep, ExplainedWord, WhyAnswer,
    explain, unknown_name,
};

/// Findings, signs and places that the short answer names.
const SHORT_LIST: usize = 3;

/// Show what a held file or object waits for, down to the root, what a probe found, or what another word means
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A manifest file, an object (`Kind/namespace/name`, `Kind namespace/name` or a name), a probe, a code, a step of
    /// the bootstrap, or a state (`held`, `Degraded`)
    #[arg(value_name = "FILE|OBJECT|PROBE|CODE|STEP", required = true, num_args = 1..=2)]
    what: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Explain from this status document, whoever wrote it and whenever, or from `-`
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Show everything: who asks for what, in which state or by which expression, and every sign
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
        eprintln!("windrow: {}", unknown_name(&status, &asked));
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
    let stays = |state: PhaseState| state != PhaseState::Done;
    if let Some(step) = &answer.step
        && answer.findings.is_empty()
    {
        return match step.state.is_some_and(stays) {
            true => Exit::NotYet,
            false => Exit::Ok,
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
    // A probe of the same name has said it.
    let step_says_more = |_: &&ExplainedStep| verbose || answer.probe.is_none();
    if let Some(explained) = answer.step.as_ref().filter(step_says_more) {
        apart(&mut out);
        step(&mut out, explained, view);
    }
    let found = !answer.findings.is_empty();
    // A finding has its own words, and says what to do.
    let says_more = |word: &&ExplainedWord| verbose || !found || !word.shown.is_empty();
    if let Some(explained) = answer.word.as_ref().filter(says_more) {
        apart(&mut out);
        word(&mut out, explained, found, view);
    }
    for file in &answer.files {
        apart(&mut out);
        explained_file(&mut out, file, 0, view);
        roots(&mut out, file, view);
        outlook(&mut out, file, view);
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
    out
}

/// An empty line between two answers.
fn apart(out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
}

/// One thing, or the first few of it and how many more there are.
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
    let line = format!("{}: {}", finding.code, printable(&finding.message));
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
        .map(|seen| format!("seen: {seen}"))
        .collect();
    for sign in listed(&signs, view) {
        lines(out, 2, &printable(&sign), style);
    }
    lines(out, 2, &printable(&incident.advice), style);
    if let Some(cure) = &incident.cure {
        lines(out, 2, &format!("cure: {cure} --dry-run"), style);
    }
    lines(out, 2, &printable(&incident.page()), style);
}

/// A step of the bootstrap, and its checks that do not pass.
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

/// What a word says, and where this node shows it.
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
    if shown.is_empty() && !found {
        lines(out, 0, "Nothing on this node shows it now.", style);
        return;
    }
    for line in listed(shown, view) {
        lines(out, 0, &printable(&line), style);
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
    for link in &file.waits_for {
        chain_link(out, link, depth + 2, view);
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

fn chain_link(out: &mut String, link: &ExplainedBlocker, depth: usize, view: WhyView) {
    let (style, blocker) = (view.style, &link.blocker);
    let after = blocker.tier == Tier::Advisory;
    if view.verbose {
        let verb = match after {
            true => "comes after",
            false => "needs",
        };
        let wanted = format!("{verb} {} ({})", blocker.what, blocker.condition);
        lines(out, depth, &wanted, style);
        lines(out, depth + 4, &blocker.message, style);
        let asked = format!(
            "asked for by {}; {} at {}",
            blocker.required_by, blocker.origin.rule, blocker.origin.at
        );
        lines(out, depth + 4, &asked, style);
    } else {
        let only_order = match after {
            true => " (only an order)",
            false => "",
        };
        let line = format!("{}{only_order}", blocker.message);
        lines(out, depth, &line, style);
    }
    if let Some(usual) = &blocker.usual {
        lines(out, depth + 4, usual, style);
    }
    match (&link.because, &blocker.brought_by) {
        (Some(because), _) => explained_file(out, because, depth + 4, view),
        (None, Some(file)) if link.cycle => lines(
            out,
            depth + 4,
            &format!("{file} brings it, which waits for this one: a cycle"),
            style,
        ),
        (None, Some(file)) => lines(out, depth + 4, &format!("{file} brings it"), style),
        (None, None) => {}
    }
}

/// The blockers that no staged file stands behind, where the chain does not begin with them.
fn roots(out: &mut String, file: &ExplainedFile, view: WhyView) {
    let mut found = Vec::new();
    collect_roots(file, &mut found);
    let at_top = |message: &String| {
        let mut top = file.waits_for.iter();
        top.any(|link| link.root && link.blocker.message == *message)
    };
    for message in found.iter().filter(|one| view.verbose || !at_top(one)) {
        lines(out, 0, &format!("Root: {message}"), view.style);
    }
}

fn collect_roots(file: &ExplainedFile, found: &mut Vec<String>) {
    for link in &file.waits_for {
        if link.root && !found.contains(&link.blocker.message) {
            found.push(link.blocker.message.clone());
        }
        if let Some(because) = &link.because {
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
fn outlook(out: &mut String, file: &ExplainedFile, view: WhyView) {
    let WhyView { at, verbose, style } = view;
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
            "Released as soon as that is there, or in {} at the latest ({}).",
            age(at, deadline),
            by_time(at, deadline)
        ),
        _ if file.waits_for.is_empty() => "Held until a person releases it.".to_owned(),
        _ => "Released as soon as that is there.".to_owned(),
    };
    lines(out, 0, &when, style);
    if let Some(path) = &file.name_spares_hold {
        let name = format!("Called {path} in the image, it would not have been held.");
        lines(out, 0, &name, style);
    } else if let Some(why) = file.no_name_spares_hold.as_ref().filter(|_| verbose) {
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

#[cfg(test)]
mod tests {
    use windrow_decide::Blocker;
    use windrow_model::findings::Location;
    use windrow_plan::Origin;

    use super::*;

    #[test]
    fn after_how_long_it_was_there_in_earlier_boots_is_told_below_what_is_waited_for() {
        let link = |usual: Option<&str>| ExplainedBlocker {
            blocker: Blocker {
                what: "the kind Widget.example.com".to_owned(),
                condition: "served".to_owned(),
                tier: Tier::Required,
                message: "waits for the kind Widget".to_owned(),
                required_by: "Widget w".to_owned(),
                origin: Origin {
                    rule: "inferred/kind-served".to_owned(),
                    at: Location::line("widget.yaml", 1),
                },
                brought_by: None,
                usual: usual.map(str::to_owned),
            },
            root: true,
            because: None,
            cycle: false,
        };
        let view = WhyView {
            at: Timestamp::UNIX_EPOCH,
            verbose: false,
            style: Style::default(),
        };
        let shown = |usual| {
            let mut out = String::new();
            chain_link(&mut out, &link(usual), 2, view);
            out
        };
        let usual = "usually there after 12 s to 1 min, on 13 of 14 boots";
        assert_eq!(
            shown(Some(usual)),
            format!("  waits for the kind Widget\n      {usual}\n")
        );
        assert_eq!(shown(None), "  waits for the kind Widget\n");
    }
}
