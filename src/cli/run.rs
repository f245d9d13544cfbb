//! `windrow run`: the daemon. systemd starts it; it ends on SIGTERM and leaves every hold in place.
//!
//! `--sandbox [DIR]` runs the same daemon over a simulated node in DIR, until nothing changes there
//! any more.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use tokio::sync::watch;
use windrow_decide::Event;
use windrow_harvester::HarvesterVersion;
use windrow_model::manifest::extract::{self, FileKind, kind_of};
use windrow_model::manifest::{ManifestPath, ReadLimits};
use windrow_model::reasons::Code;
use windrow_simulate::{FIRST_VM, Setup};

use super::blame;
use super::inputs::{name_of, text_of};
use super::out::{PrintableOutput, print_whole};
use super::{Context, Exit, complain, style};
use crate::apiserver::ApiServer;
use crate::background::Background;
use crate::configuration::Configuration;
use crate::daemon::gates::GateController;
use crate::daemon::incidents::Diagnoser;
use crate::daemon::outlets;
use crate::daemon::{Clock, Daemon, DaemonSignals, link};
use crate::files::{Durability, replace};
use crate::fs;
use crate::layout::Layout;
use crate::lock::Lock;
use crate::observe::probes::{self, Endpoints, ProbeContext};
use crate::observe::rke2::{FindKubeconfig, admin_kubeconfig};
use crate::observe::{appearances, cluster};
use crate::printable::shell_word;
use crate::report::journal;
use crate::sandbox::{Ends, NodeTime, PausePoint, Sandbox, lay_out};

/// Run the daemon
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Run with a simulated node in this empty directory; needs and changes nothing else [without DIR: a new temporary
    /// directory]
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    sandbox: Option<Option<PathBuf>>,
    /// Speed of the sandbox's clock, as a multiple of real time
    #[arg(long, value_name = "N", default_value_t = 60, requires = "sandbox",
          value_parser = clap::value_parser!(u32).range(1..=600))]
    speed: u32,
    /// Harvester configuration of the sandbox's node, or `-` [default: a configuration with a VM and a
    /// preset storage network]
    #[arg(long, value_name = "FILE", requires = "sandbox")]
    config: Option<PathBuf>,
    /// Stop the sandbox's clock at this phase, or once this file waits for its dependencies, until you press Enter (can be
    /// repeated). Windrow keeps answering
    #[arg(long, value_name = "PHASE|FILE", requires = "sandbox")]
    pause_at: Vec<String>,
    /// Seed of the simulated timing: each seed gives another course of events
    // The first in which the example loses its storage network without Windrow.
    #[arg(long, value_name = "N", default_value_t = 4, requires = "sandbox")]
    seed: u64,
}

pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    // One thread: the daemon waits, and memory is dearer than cores.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match &args.sandbox {
        None => runtime.block_on(daemon(context.layout.clone())),
        Some(directory) => {
            journal::start(journal::WARNINGS);
            let directory = prepare(directory.as_deref())?;
            runtime.block_on(sandbox(&args, &directory))
        }
    }
}

async fn daemon(layout: Layout) -> anyhow::Result<Exit> {
    let _journal = journal::start_queued(journal::EVERYTHING);
    let _lock = match lock(&layout) {
        Lockable::Locked(lock) => Some(lock),
        Lockable::Impossible => None,
        Lockable::Taken => {
            eprintln!(
                "windrow: another Windrow runs on this node and holds {}. \
                 `systemctl status windrow` shows it; `windrow status` shows its state",
                layout.lock().display()
            );
            return Ok(Exit::AnotherRuns);
        }
    };
    let signals = DaemonSignals::listen()?;
    let (link, events, interests) = link();
    let configuration = Configuration::load(&layout);
    let probed = configuration.layout().clone();
    let (publish, configured) = watch::channel(Arc::new(configuration));
    let kubeconfig: FindKubeconfig = Arc::new({
        let configured = configured.clone();
        move || admin_kubeconfig(configured.borrow().layout())
    });
    let api = ApiServer::for_daemon(&layout);
    let (view, gates) = watch::channel(None);
    let (found, incidents) = watch::channel(Vec::new());
    let mut daemon = Daemon::new(publish, Clock::real(), link)
        .with_gates(gates)
        .with_incidents(incidents);
    // The look at gates can take long on a slow disk. No file waits for it.
    daemon.hold_first();
    let gate_controller =
        GateController::begin(configured.clone(), api.clone(), view, Timestamp::now).await;
    let (daemon, (wanted, seen)) = daemon.with_appearances();
    let diagnoser = Diagnoser::new(
        configured.clone(),
        api.clone(),
        Timestamp::now,
        (daemon.status(), daemon.plans()),
        found,
    );
    let probe_context = Arc::new(ProbeContext::new(
        probed,
        Endpoints::default(),
        api.clone(),
        Timestamp::now,
    )?);
    let mut background = Background::default();
    let told = outlets::open(
        &mut background,
        configured,
        api.clone(),
        probe_context.clone(),
        daemon.status(),
        daemon.counters(),
    );
    let daemon = daemon.with_remote(told);
    background.start(
        "probes",
        probes::probe(probe_context, interests.clone(), events.clone()),
    );
    background.start(
        "providers",
        appearances::watch(api.clone(), kubeconfig.clone(), wanted, seen),
    );
    background.start(
        "cluster",
        cluster::observe(api, kubeconfig, interests, events),
    );
    background.start("feature gates", gate_controller.run());
    background.start_with_last_words("diagnosis", diagnoser.run());
    let (_running, stop) = watch::channel(false);
    Ok(beside(daemon.run(signals, stop), background).await)
}

/// Runs the daemon's loop together with its tasks. The first to end ends the other; a task that ends is an error.
async fn beside(daemon: impl Future<Output = ()>, mut background: Background) -> Exit {
    let exit = tokio::select! {
        // The loop first: when it ends, tasks do too.
        biased;
        () = daemon => Exit::Ok,
        ended = background.ended() => {
            journal::write_event(&ended.event());
            Exit::Failure
        }
    };
    background.close().await;
    exit
}

/// The lock that keeps a second daemon out.
enum Lockable {
    Locked(Lock),
    Taken,
    /// There can be no lock, and the daemon runs without one: a full or read-only file system must not keep a node's
    /// manifests from being held.
    Impossible,
}

fn lock(layout: &Layout) -> Lockable {
    let path = layout.lock();
    match Lock::take(&path) {
        Ok(Some(lock)) => Lockable::Locked(lock),
        Ok(None) => Lockable::Taken,
        Err(error) => {
            let what = format!(
                "lock {} (Windrow would not notice a second daemon)",
                path.display()
            );
            journal::write_event(&Event {
                code: Code::ActionFailed,
                file: None,
                message: Code::ActionFailed.say(&[("what", &what), ("error", &error.to_string())]),
            });
            Lockable::Impossible
        }
    }
}

fn prepare(directory: Option<&Path>) -> anyhow::Result<PathBuf> {
    let Some(directory) = directory else {
        // A configuration holds a token and passwords.
        let mut new = tempfile::Builder::new();
        new.prefix("windrow-")
            .permissions(fs::Permissions::from_mode(0o700));
        let new = new.tempdir();
        return Ok(new.context("cannot create a temporary directory")?.keep());
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let mut entries =
        fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    if entries.next().is_some() {
        bail!(
            "{} is not empty: set a new or empty directory for the sandbox",
            directory.display()
        );
    }
    Ok(directory.to_owned())
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
    print_whole(&blame::summary_of(&layout, style()))?;
    println!(
        "The whole timeline: {}",
        command_below(directory, "blame", None)
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_or_ends_ends_the_daemon_which_says_so_by_its_exit_code() {
        let mut background = Background::default();
        background.start("waits", pending());
        background.start("breaks", async { panic!("as a bug would") });
        assert_eq!(beside(pending(), background).await, Exit::Failure);

        let mut background = Background::default();
        background.start("returns", async {});
        assert_eq!(beside(pending(), background).await, Exit::Failure);
    }

    #[tokio::test]
    async fn a_daemon_that_is_told_to_stop_ends_well_though_its_tasks_end_with_it() {
        let (publish, mut published) = watch::channel(());
        let mut background = Background::default();
        background.start_with_last_words("follows", async move {
            while published.changed().await.is_ok() {}
        });
        let daemon = async move { drop(publish) };
        assert_eq!(beside(daemon, background).await, Exit::Ok);
    }
}
