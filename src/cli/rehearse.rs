//! `windrow rehearse`: a boot before the image is burned.

mod fix;
mod fleet;
mod read_node;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use windrow_harvester::HarvesterVersion;
use windrow_plan::rules::parse_duration;
use windrow_plan::version::Version;
use windrow_simulate::Setup;
use windrow_simulate::rehearse::{Ending, PartialRehearsal, Rehearsal, modelled};

use self::fleet::{Fleet, join_nodes};
use self::read_node::read_node;
use super::{Context, Exit, complain, style};
use crate::render;

/// 2026-01-01T00:00:00Z: a rehearsal is the same whenever it is held.
const POWER_ON: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Rehearse a boot in simulated time, with Windrow and without it
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Harvester configurations, cloud-init user-data, yip files, manifests or directories of them,
    /// or `-`: together one node
    #[arg(value_name = "CONFIG", required_unless_present = "node")]
    paths: Vec<PathBuf>,
    /// One of several nodes of a cluster and its configuration; once for each file of it
    #[arg(long, value_name = "NAME=CONFIG", value_parser = node, conflicts_with = "paths")]
    node: Vec<(String, PathBuf)>,
    /// Harvester's version [default: the newest that is modelled, where a Harvester configuration is
    /// given]
    #[arg(long, value_name = "VERSION")]
    harvester: Option<HarvesterVersion>,
    /// RKE2's version: feature gates are checked against it, and up to 1.35 it rewrites HelmCharts
    /// [default: that of --harvester]
    #[arg(long, value_name = "VERSION")]
    rke2: Option<Version>,
    /// Restart a node (the first one, or the one that is named) so long after power-on; can be
    /// repeated
    #[arg(long, value_name = "[NODE=]TIME", value_parser = reboot)]
    reboot: Vec<(Option<String>, Duration)>,
    /// A directory or file with further rule packs; can be repeated
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    /// A list of the images of an air-gapped bundle, one image a line: every image that is in no list
    /// is a finding; can be repeated
    #[arg(long, value_name = "FILE")]
    images: Vec<PathBuf>,
    /// Write a corrected copy of all files into this directory, where correcting is mechanical
    #[arg(long, value_name = "DIR")]
    fix: Option<PathBuf>,
    /// By how many seeds: each is one possible course of events
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
    /// A page of its own, to be looked at in a browser
    Html,
}

fn reboot(text: &str) -> Result<(Option<String>, Duration), String> {
    let (node, after) = match text.split_once('=') {
        Some((node, after)) => (Some(node.to_owned()), after),
        None => (None, text),
    };
    parse_duration(after)
        .map(|after| (node, after))
        .map_err(|_| format!("`{after}` is not a duration; write it like 20m"))
}

fn node(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok((name.to_owned(), path.into()))
        }
        _ => Err("write it as NAME=CONFIG".to_owned()),
    }
}

pub(super) fn run(args: Args, _context: &Context) -> anyhow::Result<Exit> {
    let mut read = Vec::new();
    for (name, paths) in named_nodes(&args) {
        match read_node(&args, &name, &paths) {
            Ok(node) => read.push(node),
            Err((exit, errors)) => {
                complain(&errors);
                return Ok(exit);
            }
        }
    }
    let Fleet {
        setup,
        nodes,
        findings,
    } = match join_nodes(read, &args.reboot) {
        Ok(fleet) => fleet,
        Err(error) => {
            complain(&[error]);
            return Ok(Exit::Usage);
        }
    };
    let mut rehearsed = play(&setup, args.seeds).nodes(&setup, args.seeds, nodes);
    for node in &mut rehearsed {
        node.beyond.extend(args.rke2.and_then(modelled::rke2));
    }
    let rehearsal = Rehearsal::new(rehearsed, findings);
    print(&rehearsal, args.output)?;
    Ok(match rehearsal.worst() {
        Ending::Complete => Exit::Ok,
        Ending::Unknown => Exit::Unknown,
        _ => Exit::Failed,
    })
}

/// The nodes that the command line names, and the files of each.
fn named_nodes(args: &Args) -> Vec<(String, Vec<PathBuf>)> {
    let mut nodes: Vec<(String, Vec<PathBuf>)> = Vec::new();
    if !args.paths.is_empty() {
        nodes.push((name_of(&args.paths), args.paths.clone()));
    }
    for (name, path) in &args.node {
        match nodes.iter_mut().find(|(known, _)| known == name) {
            Some((_, paths)) => paths.push(path.clone()),
            None => nodes.push((name.clone(), vec![path.clone()])),
        }
    }
    nodes
}

fn name_of(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}

/// All seeds, on every processor. What comes of it is the same on any number of them.
fn play(setup: &Setup, seeds: u64) -> PartialRehearsal {
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let each = seeds.div_ceil(workers).max(1);
    let ranges: Vec<_> = (0..workers)
        .map(|worker| worker * each + 1..=((worker + 1) * each).min(seeds))
        .filter(|range| !range.is_empty())
        .collect();
    std::thread::scope(|scope| {
        let parts: Vec<_> = ranges
            .into_iter()
            .map(|range| scope.spawn(|| PartialRehearsal::play(setup, range)))
            .collect();
        let mut all: Option<PartialRehearsal> = None;
        for part in parts {
            let part = match part.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            match &mut all {
                Some(all) => all.merge(part),
                None => all = Some(part),
            }
        }
        all.unwrap_or_else(|| PartialRehearsal::play(setup, 1..=seeds))
    })
}

/// How the verb ends on wrong use or a file that cannot be read, and what it says.
type UnusableInput = (Exit, Vec<String>);

fn print(rehearsal: &Rehearsal, output: Output) -> anyhow::Result<()> {
    use std::io::Write as _;
    let text = match output {
        Output::Text => render::rehearsal(rehearsal, style()),
        Output::Json => crate::printable::json_pretty(rehearsal)? + "\n",
        Output::Html => render::page(rehearsal),
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // `windrow rehearse | head` is no error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
