//! What is checked, as the command line says it.

use std::path::PathBuf;

use clap::ValueEnum as _;
use windrow_simulate::rehearse::check::CheckVerdict;

use super::super::rehearse::SetupArgs;
use crate::cli::output::Output;

/// Check everything that can be known before the image is burned, and say one verdict
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    pub(super) setup: SetupArgs,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(FORMATS), default_value = "table")]
    pub(super) output: Output,
    /// Also write the report in a format into a file; can be repeated
    #[arg(long, value_name = "FORMAT=FILE", value_parser = written)]
    pub(super) write: Vec<(Output, PathBuf)>,
    /// What makes the command fail
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = FailOn::Unknown)]
    pub(super) fail_on: FailOn,
    /// A file with accepted findings, each with its reason [default: .windrow-accept.yaml beside the
    /// first input]
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
    /// Only what cannot work
    Error,
    /// That, and what could not be judged
    Unknown,
    /// That, and what is slower or noisier without a change
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
    /// The least verdict that fails the command.
    pub(super) fn verdict(self) -> CheckVerdict {
        match self {
            Self::Error => CheckVerdict::CannotWork,
            Self::Unknown => CheckVerdict::Unknown,
            Self::Warning => CheckVerdict::Slower,
        }
    }
}
