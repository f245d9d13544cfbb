//! `windrow completion`: the completions for a shell, as the packages install them, and the names of the node that they offer.

use std::collections::BTreeSet;

use windrow_decide::{Phase, Status};

use super::document::{self, FoundStatus};
use super::out::print_whole;
use super::{Context, Exit};

/// Print completions for a shell
///
/// The packages install them already.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Printed,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Printed {
    Bash,
    Fish,
    Zsh,
    /// The node's manifest files, a line each: the completions call this
    #[value(hide = true)]
    Files,
    /// The words of the node's state that `windrow why` explains
    #[value(hide = true)]
    Words,
}

pub(super) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    // The generated files, so that the program needs no generator.
    match args.shell {
        Printed::Bash => print_whole(include_str!("../../packaging/completions/windrow.bash")),
        Printed::Fish => print_whole(include_str!("../../packaging/completions/windrow.fish")),
        Printed::Zsh => print_whole(include_str!("../../packaging/completions/_windrow")),
        Printed::Files => print_names(context, files),
        Printed::Words => print_names(context, words),
    }?;
    Ok(Exit::Ok)
}

/// Prints names, as far as there is a state. A name with a control character would be another line.
fn print_names(context: &Context, names: fn(&Status) -> BTreeSet<String>) -> anyhow::Result<()> {
    let status = match document::current(context) {
        FoundStatus::Current(status) => Some(status),
        FoundStatus::Stale { last, .. } => last,
    };
    let names = status.map(|status| names(&status)).unwrap_or_default();
    let is_one_line = |name: &&String| !name.contains(char::is_control);
    let lines = names.iter().filter(is_one_line);
    print_whole(&lines.map(|name| format!("{name}\n")).collect::<String>())?;
    Ok(())
}

fn files(status: &Status) -> BTreeSet<String> {
    let staging = &status.staging;
    let held = staging.held.iter().map(|file| &file.file);
    let released = staging.released.iter().map(|file| &file.file);
    let applied = staging.applied.iter().map(|file| &file.file);
    let failed = staging.failed.iter().map(|file| &file.file);
    let not_held = staging.not_held.iter().map(|file| &file.file);
    let files = held.chain(released).chain(applied);
    let files = files.chain(failed).chain(not_held);
    files.map(ToString::to_string).collect()
}

fn words(status: &Status) -> BTreeSet<String> {
    let codes = status.findings.iter().map(|finding| finding.code.as_str());
    let probes = status.probes.iter().map(|probe| probe.id.as_str());
    let steps = status.phases.iter().map(|step| Phase::as_str(step.name));
    let names = codes.chain(probes).chain(steps);
    let names = names.chain([status.reason.code.as_str()]);
    let names = names.map(str::to_owned);
    names.chain(files(status)).collect()
}
