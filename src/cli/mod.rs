//! The command line: one file per verb, each reads as a script. May use everything.
//!
//! A verb is a module with an `Args` (clap) and a `run(args, &Context) -> anyhow::Result<Exit>`; it
//! is listed once in `Verb` and once in `Verb::run`.

#[macro_use]
mod out;

mod add;
mod check;
mod cleanup;
mod cluster;
mod completion;
mod config;
mod console;
mod context;
mod diagnose;
mod document;
mod drain_check;
mod follow;
mod gates;
pub mod help;
mod hold;
mod inputs;
mod installed;
mod installer;
mod knowledge;
mod manual;
mod options;
mod output;
mod plan;
mod preflight;
mod rack;
mod recordings;
mod rehearse;
mod release;
mod repair;
mod replay;
mod report;
mod sandbox;
mod status;
mod timeline;
mod upgrade_check;
mod version;
mod wait;
mod why;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit::Exit;
use crate::fs::confine;
use crate::layout::Layout;
use crate::panics::print_no_caught_panics;
use context::Context;
use options::VerbOptions;
use out::{complain, style};
use windrow_daemon::VERSION;

/// Bootstrap agent for bare-metal RKE2 and Harvester nodes.
#[derive(Debug, Parser)]
#[command(name = "windrow", version = VERSION, arg_required_else_help = true)]
struct Cli {
    /// Use the node rooted at DIR (a sandbox or a mounted disk) instead of this host
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Check(check::Args),
    Plan(plan::Args),
    Preflight(preflight::Args),
    Sandbox(sandbox::Args),
    Status(status::Args),
    Why(why::Args),
    Wait(wait::Args),
    Console(console::Args),
    Hold(hold::Args),
    Release(release::Args),
    Add(add::Args),
    Gates(gates::Args),
    Diagnose(diagnose::Args),
    Repair(repair::Args),
    Timeline(timeline::Args),
    Report(report::Args),
    UpgradeCheck(upgrade_check::Args),
    DrainCheck(drain_check::Args),
    Rack(rack::Args),
    Config(config::Args),
    Knowledge(knowledge::Args),
    Replay(replay::Args),
    Cleanup(cleanup::Args),
    Completion(completion::Args),
    Version(version::Args),
    #[command(hide = true)]
    Installer(installer::Args),
}

impl Verb {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Verb::Check(args) => check::run(args, context),
            Verb::Plan(args) => plan::run(args, context),
            Verb::Preflight(args) => preflight::run(&args, context),
            Verb::Sandbox(args) => sandbox::run(&args),
            Verb::Status(args) => status::run(args, context),
            Verb::Why(args) => why::run(args, context),
            Verb::Wait(args) => wait::run(args, context),
            Verb::Console(args) => console::run(args, context),
            Verb::Add(args) => add::run(args, context),
            Verb::Hold(args) => hold::run(args, context),
            Verb::Release(args) => release::run(args, context),
            Verb::Gates(args) => gates::run(args, context),
            Verb::DrainCheck(args) => drain_check::run(args, context),
            Verb::UpgradeCheck(args) => upgrade_check::run(args, context),
            Verb::Diagnose(args) => diagnose::run(args, context),
            Verb::Repair(args) => repair::run(args, context),
            Verb::Config(args) => config::run(args, context),
            Verb::Replay(args) => replay::run(args, context),
            Verb::Timeline(args) => timeline::run(args, context),
            Verb::Knowledge(args) => knowledge::run(args, context),
            Verb::Rack(args) => rack::run(args, context),
            Verb::Cleanup(args) => cleanup::run(args, context),
            Verb::Completion(args) => completion::run(&args, context),
            Verb::Version(args) => version::run(&args),
            Verb::Report(args) => report::run(args, context),
            Verb::Installer(args) => installer::run(&args),
        }
    }
}

pub fn main() -> ExitCode {
    print_no_caught_panics();
    let called = std::env::args_os().next().unwrap_or_default();
    let parsed = command_as(&called).try_get_matches().and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, VerbOptions::of(&matches)))
    });
    let (cli, options) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // --help and --version come as errors too, but are not errors.
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Ok
            };
            // Nothing is left to do when the output is closed.
            let _ = error.print();
            return exit.into();
        }
    };
    let root = match (options.root, cli.root) {
        (Some(root), _) => root,
        (None, None) => PathBuf::from("/"),
        (None, Some(_)) if !options.reads_node => {
            eprintln!("windrow: --root: this verb reads no node");
            return Exit::Usage.into();
        }
        (None, Some(root)) => root,
    };
    if let Err(error) = confine(&root) {
        eprintln!("windrow: --root {}: {error}", root.display());
        return Exit::Failure.into();
    }
    if options.quiet {
        out::be_quiet();
    }
    let context = Context::new(Layout::new(root));
    match cli.verb.run(&context) {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("windrow: {error:#}");
            Exit::Failure.into()
        }
    }
}

pub fn command() -> clap::Command {
    help::with_help(options::with_options(Cli::command()), "windrow")
}

/// As [`command`], under the name of the program: as `kubectl-windrow` it is a plugin, and its help speaks of `kubectl
/// windrow`.
fn command_as(called: &OsStr) -> clap::Command {
    match Path::new(called).file_name() {
        Some(name) if name == "kubectl-windrow" => {
            let command = options::with_options(Cli::command());
            help::with_help(command, "kubectl windrow").bin_name("kubectl windrow")
        }
        _ => command(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }

    #[test]
    fn the_help_speaks_of_kubectl_where_the_program_is_its_plugin() {
        for (called, usage) in [
            ("/usr/bin/windrow", "Usage: windrow "),
            ("/usr/bin/kubectl-windrow", "Usage: kubectl windrow "),
        ] {
            let mut command = super::command_as(called.as_ref());
            let parsed = command.try_get_matches_from_mut([called, "--help"]);
            let help = parsed.expect_err("help").to_string();
            assert!(help.contains(usage), "{called}: {help}");
        }
    }
}
