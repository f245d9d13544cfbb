//! `windrow version`: the version of this program.

use serde::Serialize;
use windrow_daemon::VERSION;

use super::Exit;
use super::out::print_whole;
use super::output::Output;

/// Print the version of this program
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
    output: Output,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProgramVersion {
    api_version: &'static str,
    kind: &'static str,
    version: &'static str,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let version = ProgramVersion {
        api_version: "windrow.dev/v1",
        kind: "Version",
        version: VERSION,
    };
    print_whole(
        &args
            .output
            .render(&version, || format!("windrow {VERSION}\n"))?,
    )?;
    Ok(Exit::Ok)
}
