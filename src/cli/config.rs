//! `windrow config`: the file that sets each value, and all errors.

mod check;
mod passwords;

use std::path::{Path, PathBuf};

use serde::Serialize;
use windrow_decide::settings::{Loaded, Settings, ValueOrigin};

use super::out::print_whole;
use super::output::Output;
use super::{Context, Exit, complain};
use crate::layout::Layout;
use crate::observe::unit_sandbox;
use crate::printable::printable_lines;
use crate::report::flight::copy_directory;

/// Show and check the configuration
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: ConfigVerb,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigVerb {
    /// Show the effective configuration
    Show(ShowArgs),
    /// Check settings and rules, and list all errors
    Check(CheckArgs),
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// Settings files (`windrow.yaml`), rule packs, directories of them, `-`, or Harvester configurations,
    /// cloud-init user-data or yip files that write them [default: this node's configuration]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Show the file and line that set each value
    #[arg(long)]
    origin: bool,
    /// Output format
    #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table")]
    output: Output,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if let ConfigVerb::Check(check) = &args.verb
        && !check.paths.is_empty()
    {
        return Ok(check::run(&check.paths));
    }
    let loaded = context.settings();
    let mut closed = Vec::new();
    match args.verb {
        ConfigVerb::Show(show) => {
            let table = || printable_lines(&table(&loaded, show.origin));
            print_whole(&show.output.render(&report(&loaded), table)?)?;
            complain(&loaded.errors);
        }
        ConfigVerb::Check(_) => {
            let node = context
                .layout
                .clone()
                .with_data_dir(&loaded.settings.data_dir);
            closed.extend(unit_sandbox::closed(&node));
            let directories = written_directories(&loaded.settings, &node);
            closed.extend(unit_sandbox::closed_by_setting(&node, &directories));
            complain(&loaded.errors);
            complain(&closed);
            complain(&passwords::readable_passwords(&loaded));
            if loaded.errors.is_empty() && closed.is_empty() {
                println!(
                    "{} files, {} rules: no errors",
                    loaded.files.len(),
                    loaded.rules.rules.len()
                );
            }
        }
    }
    Ok(if loaded.errors.is_empty() && closed.is_empty() {
        Exit::Ok
    } else {
        Exit::Configuration
    })
}

/// Configured directories in which the daemon writes, with their settings.
fn written_directories(settings: &Settings, layout: &Layout) -> Vec<(&'static str, PathBuf)> {
    let textfile = settings.metrics.textfile.as_deref();
    let textfile = textfile.and_then(|file| layout.path(file).parent().map(Path::to_owned));
    let copy = copy_directory(layout, &settings.flight.copy_to);
    [("metrics.textfile", textfile), ("flight.copyTo", copy)]
        .into_iter()
        .filter_map(|(setting, directory)| Some((setting, directory?)))
        .collect()
}

fn table(loaded: &Loaded, origin: bool) -> String {
    let width = |text: fn(&windrow_decide::settings::ConfiguredValue) -> usize| {
        loaded.values.iter().map(text).max().unwrap_or_default()
    };
    let (keys, values) = (width(|one| one.key.len()), width(|one| one.value.len()));
    loaded
        .values
        .iter()
        .map(|one| {
            let line = match origin {
                true => format!("{:<keys$}  {:<values$}  {}", one.key, one.value, one.origin),
                false => format!("{:<keys$}  {}", one.key, one.value),
            };
            line.trim_end().to_owned() + "\n"
        })
        .collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigReport {
    api_version: &'static str,
    kind: &'static str,
    values: Vec<ValueReport>,
    files: Vec<String>,
    errors: Vec<ErrorReport>,
}

#[derive(Serialize)]
struct ValueReport {
    key: String,
    value: String,
    origin: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
struct ErrorReport {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    message: String,
}

pub(super) fn json(loaded: &Loaded) -> serde_json::Value {
    serde_json::json!(report(loaded))
}

fn report(loaded: &Loaded) -> ConfigReport {
    ConfigReport {
        api_version: "windrow.dev/v1",
        kind: "Configuration",
        values: loaded
            .values
            .iter()
            .map(|one| {
                let at = match &one.origin {
                    ValueOrigin::Default => None,
                    ValueOrigin::File(at) => Some(at),
                };
                ValueReport {
                    key: one.key.to_string(),
                    value: one.value.clone(),
                    origin: one.origin.to_string(),
                    file: at.map(|at| at.file.clone()),
                    line: at.and_then(|at| at.line),
                }
            })
            .collect(),
        files: loaded
            .files
            .iter()
            .map(|file| file.path.display().to_string())
            .collect(),
        errors: loaded
            .errors
            .iter()
            .map(|error| ErrorReport {
                file: error.at.file.clone(),
                line: error.at.line,
                message: error.message.clone(),
            })
            .collect(),
    }
}
