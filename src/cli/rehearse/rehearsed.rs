//! Simulated nodes that form one cluster.

use std::path::{Path, PathBuf};
use std::time::Instant;

use windrow_simulate::PreparedSetup;
use windrow_simulate::rehearse::check::CutShort;
use windrow_simulate::rehearse::{Rehearsal, boot_timeline, modelled};

use super::args::{SEEDS, SEEDS_AFTER_AN_ERROR, SetupArgs, UnusableInput};
use super::findings::FoundOnNode;
use super::fix::write_copy;
use super::fleet::{Fleet, join_nodes};
use super::layout::improve;
use super::play::play;
use super::read_node::read_node;
use crate::cli::{Exit, inputs};
use crate::render::lasted;

pub(in crate::cli) struct Rehearsed {
    pub(in crate::cli) rehearsal: Rehearsal,
    /// In the order of the rehearsal's nodes.
    pub(in crate::cli) nodes: Vec<FoundOnNode>,
    pub(in crate::cli) cut_short: Option<CutShort>,
}

/// How many boots are simulated if the command line names no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum SimulatedBoots {
    All,
    /// Few are enough if an error in the files decides the verdict.
    FewIfDecided,
    None,
}

/// Reads every node that the command line names, and rehearses them as one cluster.
pub(in crate::cli) fn rehearse(
    args: &SetupArgs,
    boots: SimulatedBoots,
) -> Result<Rehearsed, UnusableInput> {
    // The limit is for all of it: reading, the seeds, and the checks after them.
    let began = Instant::now();
    let left = || args.timeout.saturating_sub(began.elapsed());
    let mut read = Vec::new();
    let named = named_nodes(args);
    for (name, paths) in &named {
        read.push(read_node(args, (name, paths), named.len() == 1)?);
    }
    let mut fleet = join_nodes(read, &args.reboot).map_err(|error| (Exit::Usage, vec![error]))?;
    let known = PreparedSetup::read(&fleet.setup);
    let is_decided = boots == SimulatedBoots::FewIfDecided
        && fleet
            .nodes
            .iter()
            .any(|node| node.found.findings.has_error());
    let wanted = match (boots, is_decided) {
        (SimulatedBoots::None, _) => 0,
        (_, true) => args.runs.unwrap_or(SEEDS_AFTER_AN_ERROR),
        (_, false) => args.runs.unwrap_or(SEEDS),
    };
    let played = play(&fleet.setup, &known, wanted, left());
    let seeds = played.played();
    let layout = match wanted {
        0 => Vec::new(),
        _ => improve(&mut fleet, &known, (args, wanted), began),
    };
    let Fleet {
        setup,
        packs,
        nodes,
        findings,
        ..
    } = fleet;
    if let Some(directory) = &args.fix {
        for files in nodes.iter().filter_map(|node| node.given_files.as_ref()) {
            write_copy(directory, files, &layout)?;
        }
    }
    let named = nodes.iter().map(|node| {
        let all = node.found.findings.all().cloned();
        (node.name.clone(), all.collect())
    });
    let mut rehearsed = played.nodes(&setup, named.collect());
    if let Some(first) = rehearsed
        .first_mut()
        .filter(|_| seeds > 0 && !left().is_zero())
    {
        first.boot = boot_timeline(&setup, &packs, first.with.seed);
    }
    for (played, read) in rehearsed.iter_mut().zip(&nodes) {
        played.seen_phases.clone_from(&read.found.findings.phases);
        played.used_times.clone_from(&read.found.findings.times);
    }
    for node in &mut rehearsed {
        node.beyond
            .extend(args.versions.rke2.and_then(modelled::rke2));
    }
    Ok(Rehearsed {
        rehearsal: Rehearsal::new(rehearsed, findings),
        nodes: nodes.into_iter().map(|node| node.found).collect(),
        // When the time is over, the checks after the seeds were not made, or not all of them.
        cut_short: (seeds < wanted || (wanted > 0 && left().is_zero())).then(|| CutShort {
            played: seeds,
            seeds: wanted,
            time: lasted(i64::try_from(args.timeout.as_secs()).unwrap_or(i64::MAX)),
        }),
    })
}

fn named_nodes(args: &SetupArgs) -> Vec<(String, Vec<PathBuf>)> {
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
    let names: Vec<String> = paths.iter().map(|path| shown_name(path)).collect();
    names.join(", ")
}

/// The working directory under its own name: `.` is no name for a node.
fn shown_name(path: &Path) -> String {
    let own = match path == Path::new(".") {
        true => std::path::absolute(path).ok(),
        false => None,
    };
    let own = own.as_deref().and_then(Path::file_name);
    own.map_or_else(
        || inputs::name_of(path),
        |name| name.to_string_lossy().into_owned(),
    )
}
