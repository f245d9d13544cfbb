//! The command line of a simulation.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use windrow_plan::rules::{Platform, parse_duration};

use crate::cli::Exit;
use crate::cli::inputs::{NamedVersions, platform};

/// The exit code and the messages on wrong use or an unreadable file.
pub(super) type UnusableInput = (Exit, Vec<String>);

/// 2026-01-01T00:00:00Z: a simulation has the same result at any time.
pub(super) const POWER_ON: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Which nodes are simulated, and how.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SetupArgs {
    /// Harvester configurations, cloud-init user-data, yip files, Ignition, Butane, Edge Image Builder
    /// definitions, manifests or directories of them, or `-`; all of them describe one node
    #[arg(value_name = "CONFIG", required_unless_present = "node")]
    pub(in crate::cli) paths: Vec<PathBuf>,
    /// One of several nodes of a cluster with its configuration; repeat it for each file of the node
    #[arg(long, value_name = "NAME=CONFIG", value_parser = node, conflicts_with = "paths")]
    pub(in crate::cli) node: Vec<(String, PathBuf)>,
    /// The platform of the manifests, if neither a Harvester configuration nor --harvester names it
    #[arg(long, value_parser = platform(), conflicts_with = "harvester")]
    pub(super) platform: Option<Platform>,
    #[command(flatten)]
    pub(super) versions: NamedVersions,
    /// Restart a node (default: the first one) this long after power-on; can be repeated
    #[arg(long, value_name = "[NODE=]DURATION", value_parser = reboot)]
    pub(super) reboot: Vec<(Option<String>, Duration)>,
    /// A directory or file with additional rule packs or knowledge; can be repeated
    #[arg(long, value_name = "PATH")]
    pub(super) rules: Vec<PathBuf>,
    /// A list of the images of an air-gapped bundle, one image per line; can be repeated. Images that are in
    /// none of these lists are findings
    #[arg(long, value_name = "FILE")]
    pub(super) images: Vec<PathBuf>,
    /// Write a copy of all files into this directory, with names that RKE2 can use and applies sooner
    #[arg(long, value_name = "DIR")]
    pub(super) fix: Option<PathBuf>,
    /// Number of boots to simulate, each with different timing [default: 100; only 10 if an
    /// error in the files has decided the verdict, unless --details is set]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(super) runs: Option<u64>,
    /// Stop simulating after this long, and report the results so far
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub(super) timeout: Duration,
}

/// Most boots if nothing else is asked for.
pub(super) const SEEDS: u64 = 100;
/// The same if an error in the files has decided the verdict.
pub(super) const SEEDS_AFTER_AN_ERROR: u64 = 10;

impl SetupArgs {
    pub(in crate::cli) fn first_input(&self) -> PathBuf {
        let named = self.node.first().map(|(_, path)| path);
        self.paths.first().or(named).cloned().unwrap_or_default()
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|_| format!("`{text}` is not a duration; write it like 20m"))
}

fn reboot(text: &str) -> Result<(Option<String>, Duration), String> {
    let (node, after) = match text.split_once('=') {
        Some((node, after)) => (Some(node.to_owned()), after),
        None => (None, text),
    };
    duration(after).map(|after| (node, after))
}

fn node(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok((name.to_owned(), path.into()))
        }
        _ => Err("write it as NAME=CONFIG".to_owned()),
    }
}
