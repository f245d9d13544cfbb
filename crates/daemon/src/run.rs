//! `windrowd`: the daemon as a program. systemd starts it; it ends on SIGTERM and leaves every hold in place.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use windrow_decide::Event;
use windrow_model::reasons::Code;

use crate::apiserver::ApiServer;
use crate::background::{Background, run_to_end};
use crate::configuration::Configuration;
use crate::daemon::gates::GateController;
use crate::daemon::incidents::Diagnoser;
use crate::daemon::{Clock, Daemon, DaemonSignals, link, outlets};
use crate::exit::Exit;
use crate::fs::confine;
use crate::layout::Layout;
use crate::lock::Lock;
use crate::observe::probes::{self, Endpoints, ProbeContext};
use crate::observe::rke2::{FindKubeconfig, admin_kubeconfig};
use crate::observe::{appearances, cluster};
use crate::panics::print_no_caught_panics;
use crate::report::journal;

/// The version and its source. `packaging/program` names the commit; any other build is a development build.
pub const VERSION: &str = match option_env!("WINDROW_BUILD") {
    Some(build) => build,
    None => concat!(env!("CARGO_PKG_VERSION"), " (development build)"),
};

const USAGE: &str = "\
The daemon of Windrow. systemd starts it as windrow.service.

Usage: windrowd [--root DIR]

Options:
      --root DIR  Use the node rooted at DIR instead of this host
  -h, --help      Print help
  -V, --version   Print version

It reads the settings that `windrow config show` prints, and runs until SIGTERM. Holds stay when it ends.
`windrow` is the command line.
";

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Run {
        root: PathBuf,
    },
    /// Prints this text.
    Print(String),
}

pub fn main() -> ExitCode {
    print_no_caught_panics();
    let root = match parse(std::env::args_os().skip(1)) {
        Ok(Command::Run { root }) => root,
        Ok(Command::Print(text)) => return print_text(&text).into(),
        Err(error) => {
            eprintln!("windrowd: {error}\n\n{USAGE}");
            return Exit::Usage.into();
        }
    };
    if let Err(error) = confine(&root) {
        eprintln!("windrowd: --root {}: {error}", root.display());
        return Exit::Failure.into();
    }
    // One thread: the daemon waits, and memory is dearer than cores.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => run_to_end(runtime, daemon(Layout::new(root))),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("windrowd: {error:#}");
            Exit::Failure.into()
        }
    }
}

/// Writes to standard output. If it has no reader any more (`windrowd --help | true`), the rest is not written.
#[expect(clippy::disallowed_methods, reason = "the text is our own")]
fn print_text(text: &str) -> Exit {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("windrowd: standard output: {error}");
            Exit::Failure
        }
        _ => Exit::Ok,
    }
}

fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    use lexopt::Arg;

    let mut root = PathBuf::from("/");
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("root") => root = parser.value()?.into(),
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Print(USAGE.to_owned())),
            Arg::Short('V') | Arg::Long("version") => {
                return Ok(Command::Print(format!("windrowd {VERSION}\n")));
            }
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Command::Run { root })
}

async fn daemon(layout: Layout) -> anyhow::Result<Exit> {
    let _journal = journal::start_queued(journal::EVERYTHING);
    let _lock = match lock(&layout) {
        Lockable::Locked(lock) => Some(lock),
        Lockable::Impossible => None,
        Lockable::Taken => {
            eprintln!(
                "windrowd: another Windrow runs on this node and holds {}. \
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

    #[test]
    fn a_root_is_taken_and_anything_else_is_refused() {
        let typed = |arguments: &[&str]| parse(arguments.iter().map(OsString::from));
        let run = |root: &str| Command::Run { root: root.into() };
        assert_eq!(typed(&[]).ok(), Some(run("/")));
        assert_eq!(typed(&["--root", "/mnt"]).ok(), Some(run("/mnt")));
        assert_eq!(typed(&["--root=/mnt"]).ok(), Some(run("/mnt")));
        let Ok(Command::Print(version)) = typed(&["--version"]) else {
            panic!("a version is printed");
        };
        assert_eq!(version, format!("windrowd {VERSION}\n"));
        for wrong in [&["run"][..], &["--root"], &["--sandbox"], &["-x"]] {
            assert!(typed(wrong).is_err(), "{wrong:?}");
        }
    }
}
