//! `windrow check`: all checks that are possible before the image is burned, in one verdict.

mod accepted;
mod args;

use anyhow::Context as _;
use windrow_model::findings::Finding;
use windrow_model::reasons::Code;
use windrow_simulate::rehearse::Rehearsal;
use windrow_simulate::rehearse::check::{
    CheckPart, CheckReport, CheckVerdict, CheckedNode, CutShort,
};

pub(super) use self::args::Args;
use self::args::FailOn;
use super::out::print_whole;
use super::output::Output;
use super::rehearse::{FoundOnNode, Rehearsed, SimulatedBoots, rehearse};
use super::{Context, Exit, complain, style};
use crate::files::{Durability, replace};
use crate::render;

pub(super) fn run(args: Args, _context: &Context) -> anyhow::Result<Exit> {
    let accepted = match accepted::read(&args) {
        Ok(accepted) => accepted,
        Err(error) => {
            complain(&[error]);
            return Ok(Exit::Usage);
        }
    };
    let Rehearsed {
        rehearsal,
        nodes,
        cut_short,
    } = match rehearse(&args.setup, boots(&args)) {
        Ok(rehearsed) => rehearsed,
        Err((exit, errors)) => {
            complain(&errors);
            return Ok(exit);
        }
    };
    let mut acceptances = accepted;
    // Entries that accept nothing of nothing are not stale.
    let only_own = nodes.iter().all(|node| node.findings.only_own);
    if only_own {
        acceptances.entries.clear();
    }
    let mut checked = Vec::new();
    for node in nodes {
        acceptances
            .findings
            .extend(node.findings.accepted.findings.iter().cloned());
        let mut node = checked_node(node);
        if only_own {
            node.accepted.clear();
        }
        checked.push(node);
    }
    let cut: Option<&CutShort> = cut_short.as_ref();
    let version = env!("CARGO_PKG_VERSION");
    let report = CheckReport::new(&rehearsal, checked, cut, acceptances, version);
    for (format, path) in &args.write {
        let text = rendered(&report, &rehearsal, *format, &args)?;
        replace(path, text.as_bytes(), 0o644, Durability::Volatile)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    print_whole(&rendered(&report, &rehearsal, args.output, &args)?)?;
    Ok(exit_of(&report, args.fail_on))
}

fn boots(args: &Args) -> SimulatedBoots {
    match (args.quick, args.details) {
        (true, _) => SimulatedBoots::None,
        (_, true) => SimulatedBoots::All,
        _ => SimulatedBoots::FewIfDecided,
    }
}

fn checked_node(node: FoundOnNode) -> CheckedNode {
    let FoundOnNode {
        findings,
        files,
        machines,
    } = node;
    let wrong = findings.configuration.into_iter().map(|error| Finding {
        incident: None,
        code: Code::ConfigurationInvalid,
        severity: Code::ConfigurationInvalid.severity(),
        message: error.message,
        at: vec![error.at],
    });
    let by = |part: CheckPart| move |finding| (part, finding);
    CheckedNode {
        findings: wrong
            .map(by(CheckPart::Config))
            .chain(findings.files.into_iter().map(by(CheckPart::Plan)))
            .chain(findings.gates.into_iter().map(by(CheckPart::Gates)))
            .chain(findings.layout.into_iter().map(by(CheckPart::Rehearsal)))
            .collect(),
        component_stops: findings.component_stops,
        not_checked: findings.not_checked,
        files,
        machines,
        accepted: findings.accepted.entries,
        learned: findings.learned,
        inputs: findings.inputs,
    }
}

fn rendered(
    report: &CheckReport,
    rehearsal: &Rehearsal,
    format: Output,
    args: &Args,
) -> anyhow::Result<String> {
    Ok(match format {
        Output::Sarif => render::check_sarif(report)?,
        Output::Junit => render::check_junit(report, args.fail_on.verdict()),
        Output::Github => render::check_github(report),
        Output::Html => render::check_page(report, rehearsal),
        format if args.details => format.render(rehearsal, || {
            render::check_details(report, rehearsal, style())
        })?,
        format => format.render(report, || render::check_table(report, style()))?,
    })
}

fn exit_of(report: &CheckReport, fail_on: FailOn) -> Exit {
    match report.verdict {
        verdict if verdict < fail_on.verdict() => Exit::Ok,
        CheckVerdict::Unknown => Exit::Unknown,
        CheckVerdict::Fail if report.only_configuration_fails() => Exit::Configuration,
        CheckVerdict::Pass | CheckVerdict::Warn | CheckVerdict::Fail => Exit::Failed,
    }
}
