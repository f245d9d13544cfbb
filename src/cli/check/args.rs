//! The command line of a check.

use std::path::PathBuf;

use clap::ValueEnum as _;
use windrow_simulate::rehearse::check::CheckVerdict;

use super::super::rehearse::SetupArgs;
use crate::cli::output::Output;

/// Validate a node's configuration and simulate its boot
///
/// Runs all offline checks before you burn an image, and ends in one verdict.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    pub(super) setup: SetupArgs,
    /// Simulate no boot: only check the configuration, the order of the files and the feature gates
    #[arg(long, conflicts_with_all = ["details", "runs", "timeout", "reboot", "fix"])]
    pub(super) quick: bool,
    /// Show the whole boot: files, timeline, and the results with other versions. With -o json and yaml, the document of
    /// the simulation
    #[arg(long)]
    pub(super) details: bool,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(FORMATS), default_value = "table")]
    pub(super) output: Output,
    /// Also write the report to a file in this format; can be repeated
    #[arg(long, value_name = "FORMAT=FILE", value_parser = written)]
    pub(super) write: Vec<(Output, PathBuf)>,
    /// The least severe verdict that makes the command fail
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = FailOn::Unknown)]
    pub(super) fail_on: FailOn,
    /// A file with accepted findings and their reasons [default: .windrow-accept.yaml in the directory
    /// of the first input]
    #[arg(long, value_name = "FILE")]
    pub(super) accept: Option<PathBuf>,
}

const FORMATS: &[Output] = &[
    Output::Table,
    Output::Json,
    Output::Yaml,
    Output::Sarif,
    Output::Junit,
    Output::Github,
    Output::Html,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FailOn {
    /// Fail only on errors
    Error,
    /// Fail also if something could not be judged
    Unknown,
    /// Fail also on warnings
    Warning,
}

fn written(text: &str) -> Result<(Output, PathBuf), String> {
    let known = || {
        let formats = FORMATS.iter();
        let names: Vec<_> = formats
            .filter_map(|format| Some(format.to_possible_value()?.get_name().to_owned()))
            .collect();
        format!("write it as FORMAT=FILE; formats are {}", names.join(", "))
    };
    let (format, file) = text.split_once('=').ok_or_else(known)?;
    match Output::from_str(format, false) {
        Ok(format) if FORMATS.contains(&format) && !file.is_empty() => Ok((format, file.into())),
        _ => Err(known()),
    }
}

impl FailOn {
    pub(super) fn verdict(self) -> CheckVerdict {
        match self {
            Self::Error => CheckVerdict::Fail,
            Self::Unknown => CheckVerdict::Unknown,
            Self::Warning => CheckVerdict::Warn,
        }
    }
}
