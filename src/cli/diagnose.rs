//! `windrow diagnose`: the known incidents, with evidence, proof and cure.

use super::cluster::{From, Output, print};
use super::{Context, Exit, style};
use crate::harvester::incidents::{diagnose, kinds};
use crate::reasons::Severity;
use crate::render::diagnosis_table;

/// Recognise known incidents, with the evidence, the proof and the cure
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    from: From,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let (objects, at) = match args.from.objects(&kinds(), context)? {
        Ok(looked) => looked,
        Err(exit) => return Ok(exit),
    };
    let found = diagnose(&objects, at);
    print(&match args.output {
        Output::Table => diagnosis_table(&found, style()),
        Output::Json => serde_json::to_string_pretty(&found)? + "\n",
    })?;
    let wrong = |severity| found.findings.iter().any(|one| one.severity >= severity);
    Ok(match wrong(Severity::Error) {
        true => Exit::Failed,
        false if found.unknown.is_empty() => Exit::Ok,
        false => Exit::Unknown,
    })
}
