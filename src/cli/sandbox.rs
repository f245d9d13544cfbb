//! `windrow sandbox`: the daemon over a simulated node in a directory, until nothing changes there any more.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::watch;
use windrow_harvester::HarvesterVersion;
use windrow_inputs::extract::{self, FileKind, kind_of};
use windrow_model::manifest::{ManifestPath, ReadLimits};
use windrow_simulate::{FIRST_VM, Setup};

use super::inputs::{name_of, text_of};
use super::out::{PrintableOutput, print_whole};
use super::timeline;
use super::{Exit, complain, style};
use crate::configuration::Configuration;
use crate::daemon::{Clock, Daemon, DaemonSignals, link};
use crate::files::{Durability, replace};
use crate::fs;
use crate::layout::Layout;
use crate::printable::shell_word;
use crate::report::journal;
use crate::sandbox::{Ends, NodeTime, PausePoint, Sandbox, lay_out};

/// Boot a simulated node with the real daemon
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Empty directory for the node's files; nothing else is needed or changed [default: a new temporary directory]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Speed of the node's clock, as a multiple of real time
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=600))]
    speed: u32,
    /// Harvester configuration of the node, or `-` [default: a configuration with a VM and a preset storage network]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Stop the clock at this phase, or once this file waits for its dependencies, until you press Enter (can be repeated).
    /// Windrow keeps answering
    #[arg(long, value_name = "PHASE|FILE")]
    pause_at: Vec<String>,
    /// Seed of the simulated timing: each seed gives another course of events
    // The first in which the example loses its storage network without Windrow.
    #[arg(long, value_name = "N", default_value_t = 4)]
    seed: u64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    journal::start(journal::WARNINGS);
    let directory = match prepare(args.directory.as_deref())? {
        Some(directory) => directory,
        None => return Ok(Exit::Usage),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(sandbox(args, &directory))
}

/// The directory of the node; `None` if the given one cannot be used.
fn prepare(directory: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
    let Some(directory) = directory else {
        // A configuration holds a token and passwords.
        let mut new = tempfile::Builder::new();
        new.prefix("windrow-")
            .permissions(fs::Permissions::from_mode(0o700));
        let new = new.tempdir();
        return Ok(Some(
            new.context("cannot create a temporary directory")?.keep(),
        ));
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let mut entries =
        fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    if entries.next().is_some() {
        complain(&[format!(
            "{} is not empty: set a new or empty directory for the sandbox",
            directory.display()
        )]);
        return Ok(None);
    }
    Ok(Some(directory.to_owned()))
}

async fn sandbox(args: &Args, directory: &Path) -> anyhow::Result<Exit> {
    let (name, text) = match &args.config {
        None => (
            "first-vm/harvester-config.yaml".to_owned(),
            FIRST_VM.to_owned(),
        ),
        Some(path) => match text_of(path) {
            Ok(text) => (name_of(path), text),
            Err(error) => {
                complain(&[error]);
                return Ok(Exit::Usage);
            }
        },
    };
    if kind_of(&text) != FileKind::HarvesterConfig {
        let why = format!("{name} is not a Harvester configuration (`os.writeFiles`)");
        complain(&[why]);
        return Ok(Exit::Usage);
    }
    let clock = Clock::sped_up(args.speed);
    let setup = Setup::harvester_config(&name, &text, HarvesterVersion::LATEST, clock.now());
    let pauses = match pause_points(&args.pause_at, &setup) {
        Ok(pauses) => pauses,
        Err(errors) => {
            complain(&errors);
            return Ok(Exit::Usage);
        }
    };
    let layout = Layout::new(directory);
    // The files that the installer leaves on a node.
    let config = layout.harvester_config();
    if let Some(oem) = config.parent() {
        fs::create_dir_all(oem)?;
    }
    fs::write(&config, &text)?;
    lay_out(&setup.files, &layout.manifests())?;
    lay_out_own(&name, &text, &layout)?;
    // In a directory that other users may read, these are only for their owner, as on a node.
    for secret in [config.parent(), layout.manifests().parent()]
        .into_iter()
        .flatten()
    {
        fs::set_permissions(secret, fs::Permissions::from_mode(0o700))?;
    }
    println!(
        "A Harvester node installed with {name}, in {}, {} times as fast as a real one.\n",
        directory.display(),
        args.speed
    );

    let signals = DaemonSignals::listen()?;
    let (link, events, interests) = link();
    let (publish, _) = watch::channel(Arc::new(Configuration::load(&layout)));
    let daemon = Daemon::new(publish, clock.clone(), link);
    let ends = Ends {
        interests,
        events,
        status: daemon.status(),
    };
    let (stop, stopped) = watch::channel(false);
    let root = directory.to_owned();
    let shown_to = layout.clone();
    let node = Sandbox::new(setup, args.seed, layout.manifests(), clock)
        .with_pauses(pauses)
        .with_time(move |clock| NodeTime::write(clock, &shown_to))
        .with_hints(move |held| hints(&root, held));
    let mut driver = tokio::spawn(daemon.run(signals, stopped));
    let mut out = PrintableOutput;
    let came_up = tokio::select! {
        came_up = node.run(ends, &mut out) => came_up?,
        // A signal: the daemon has stopped, so there is nothing more to see.
        ended = &mut driver => {
            ended?;
            return Ok(Exit::Ok);
        }
    };
    // Its last lines are written before the directory is shown.
    if stop.send(true).is_ok() {
        driver.await?;
    }
    println!("\nWhere the boot spent its time");
    print_whole(&timeline::summary_of(&layout, style()))?;
    println!(
        "The whole timeline: {}",
        command_below(directory, "timeline", None)
    );
    println!("\nThe node's files stay in {}", directory.display());
    Ok(if came_up { Exit::Ok } else { Exit::Failed })
}

/// Writes the files of Windrow's own in a configuration: settings, rules and knowledge.
fn lay_out_own(name: &str, text: &str, layout: &Layout) -> anyhow::Result<()> {
    let directories = Layout::new("/").config_dirs();
    for file in extract::extract(name, text, &ReadLimits::default()).configuration {
        let is_own = |directory: &PathBuf| Path::new(&file.path).starts_with(directory);
        if !directories.iter().any(is_own) {
            continue;
        }
        let path = layout.path(&file.path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        // Settings may have tokens of webhooks.
        replace(&path, &file.content, 0o600, Durability::Volatile)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    Ok(())
}

/// The times at which the sandbox's clock stops, or all errors in them.
fn pause_points(typed: &[String], setup: &Setup) -> Result<Vec<PausePoint>, Vec<String>> {
    let files = setup.files.manifests().map(|(path, _)| path.into());
    let files: Vec<ManifestPath> = files.collect();
    let read = |typed: &String| PausePoint::read(typed, setup.platform(), &files);
    let (points, errors): (Vec<_>, Vec<_>) = typed.iter().map(read).partition(Result::is_ok);
    match errors.is_empty() {
        true => Ok(points.into_iter().flatten().collect()),
        false => Err(errors.into_iter().filter_map(Result::err).collect()),
    }
}

/// The commands to type in another terminal to examine the sandbox's node.
fn hints(root: &Path, held: Option<&ManifestPath>) -> String {
    let held = held.map(|file| file.as_str());
    let commands = [("status", None), ("why", held), ("console", None)];
    let lines = commands
        .iter()
        .filter(|(verb, file)| *verb != "why" || file.is_some())
        .map(|(verb, file)| format!("  {}", command_below(root, verb, *file)));
    let lines: Vec<String> = lines.collect();
    format!(
        "It behaves like a real node. In another terminal, run:\n{}\n",
        lines.join("\n")
    )
}

/// A command line for a node below a directory, with the name of this program's executable.
fn command_below(root: &Path, verb: &str, file: Option<&str>) -> String {
    let program = std::env::args_os().next();
    let program = program.map_or_else(
        || "windrow".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    // The other terminal may be in another directory.
    let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    let root = root.display().to_string();
    let words = [
        Some(program.as_str()),
        Some(verb),
        file,
        Some("--root"),
        Some(root.as_str()),
    ];
    let words: Vec<_> = words.into_iter().flatten().map(shell_word).collect();
    words.join(" ")
}
