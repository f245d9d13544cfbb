//! `windrow rehearse`: a boot before the image is burned.

mod args;
mod fix;
mod fleet;
mod read_node;

use std::path::PathBuf;

use windrow_simulate::Setup;
use windrow_simulate::rehearse::{Ending, PartialRehearsal, Rehearsal, modelled};

pub(super) use self::args::Args;
use self::args::Output;
use self::fleet::{Fleet, join_nodes};
use self::read_node::read_node;
use super::{Context, Exit, complain, style};
use crate::render;

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
